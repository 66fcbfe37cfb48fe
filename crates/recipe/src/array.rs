//! The recipe of a single array field.

use crate::Entry;
use serde::{Deserialize, Deserializer, Serialize};
use shardpack_array::{ArrayOptions, ArraySettings, Candidate, Trial};

/// The recipe entry of an array field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayRecipe {
    /// Storage settings for the arrays.
    pub settings: ArraySettings,
    /// The user's options, from which the settings were derived. If another version wrote the entry, these are the
    /// defaults.
    #[serde(default, deserialize_with = "options_of_any_version")]
    pub asked: ArrayOptions,
    /// All candidates of the trial, best first. Empty if there was only one possibility.
    pub candidates: Vec<Candidate>,
}

fn options_of_any_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArrayOptions, D::Error> {
    let entry = Entry::<ArrayOptions>::deserialize(deserializer)?;
    Ok(entry.typed().copied().unwrap_or_default())
}

impl ArrayRecipe {
    /// Creates the entry from the result of a trial with these options.
    #[must_use]
    pub fn new(asked: ArrayOptions, trial: &Trial) -> Self {
        Self { settings: trial.settings, asked, candidates: trial.table.clone() }
    }

    /// Returns the trial that chose the settings, rebuilt from this entry.
    #[must_use]
    pub fn trial(&self) -> Trial {
        Trial { settings: self.settings, table: self.candidates.clone() }
    }
}

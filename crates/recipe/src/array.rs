//! The recipe of one field of arrays.

use crate::Entry;
use serde::{Deserialize, Deserializer, Serialize};
use shardpack_array::{ArrayOptions, ArraySettings, Candidate, Trial};

/// The entry of an array field in a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayRecipe {
    /// Storage settings of the arrays.
    pub settings: ArraySettings,
    /// Options that led to the settings; the defaults if another version wrote the entry.
    #[serde(default, deserialize_with = "options_of_any_version")]
    pub asked: ArrayOptions,
    /// All candidates that were tried, best first. Empty if there was nothing to choose.
    pub candidates: Vec<Candidate>,
}

fn options_of_any_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArrayOptions, D::Error> {
    let entry = Entry::<ArrayOptions>::deserialize(deserializer)?;
    Ok(entry.typed().copied().unwrap_or_default())
}

impl ArrayRecipe {
    /// Builds the entry from the result of a trial with these options.
    #[must_use]
    pub fn new(asked: ArrayOptions, trial: &Trial) -> Self {
        Self { settings: trial.settings, asked, candidates: trial.table.clone() }
    }

    /// Returns the trial that found the settings.
    #[must_use]
    pub fn trial(&self) -> Trial {
        Trial { settings: self.settings, table: self.candidates.clone() }
    }
}

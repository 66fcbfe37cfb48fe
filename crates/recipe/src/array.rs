//! How arrays of one field are stored.

use crate::Entry;
use serde::{Deserialize, Deserializer, Serialize};
use shardpack_array::{ArrayOptions, ArraySettings, Candidate, Trial};

/// The entry of a field of arrays in a recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArrayRecipe {
    /// How the arrays are stored.
    pub settings: ArraySettings,
    /// The options that led there. The default ones where another version wrote them.
    #[serde(default, deserialize_with = "options_of_any_version")]
    pub asked: ArrayOptions,
    /// All that was tried, best first. Empty if there was nothing to choose.
    pub candidates: Vec<Candidate>,
}

fn options_of_any_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArrayOptions, D::Error> {
    let entry = Entry::<ArrayOptions>::deserialize(deserializer)?;
    Ok(entry.typed().copied().unwrap_or_default())
}

impl ArrayRecipe {
    /// The result of a trial with these options.
    #[must_use]
    pub fn new(asked: ArrayOptions, trial: &Trial) -> Self {
        Self { settings: trial.settings, asked, candidates: trial.table.clone() }
    }

    /// The trial that found the settings.
    #[must_use]
    pub fn trial(&self) -> Trial {
        Trial { settings: self.settings, table: self.candidates.clone() }
    }
}

//! Counts the rows that the host decoded instead of the stage.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Rows that a stage refused or could not decode, for the same reason. The host decoded them instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Reason that the stage gave.
    pub reason: String,
    /// Number of rows.
    pub rows: u64,
    /// Keys of the first three samples.
    pub first: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<Cow<'static, str>, Refusal>>);

impl Refusals {
    pub(crate) fn add(&self, reason: Cow<'static, str>, key: impl FnOnce() -> String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = all.entry(reason).or_default();
        refusal.rows += 1;
        if refusal.first.len() < 3 {
            refusal.first.push(key());
        }
    }

    pub(crate) fn list(&self) -> Vec<Refusal> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(reason, refusal)| Refusal { reason: reason.to_string(), ..refusal.clone() }).collect()
    }
}

//! Arrays of which several rows of a batch take parts: each of their blocks is uploaded and decoded once.

use crate::cubes::Places;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// By what an array is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// That of its [`Memo`](shardpack_loader::stage::Memo).
    Read(u64),
    /// Its number among the values that stay on the device.
    Kept(u64),
}

/// The arrays of a batch, in the order of their identities, so that it does not matter which row was the
/// first.
#[derive(Default)]
pub(super) struct Sharing(Mutex<BTreeMap<Identity, Arc<Mutex<Places>>>>);

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

impl Sharing {
    /// Where the blocks of an array are, so far.
    pub(super) fn of(&self, identity: Identity) -> Arc<Mutex<Places>> {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(arrays.entry(identity).or_default())
    }

    /// Takes all arrays of a batch, in order.
    pub(super) fn take(&self) -> Vec<(Identity, Places)> {
        let arrays = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let taken =
            |array: Arc<Mutex<Places>>| std::mem::take(&mut *array.lock().unwrap_or_else(PoisonError::into_inner));
        arrays.into_iter().map(|(identity, array)| (identity, taken(array))).collect()
    }
}

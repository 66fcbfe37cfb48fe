//! Arrays of which several rows of a batch take parts: each of their blocks is uploaded and decoded once.

use crate::cubes::BlockPlaces;
use shardpack_loader::stage::DeviceArray;
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

/// The arrays of a batch, in the order of their identities.
#[derive(Default)]
pub(super) struct Sharing(Mutex<BTreeMap<Identity, Arc<Array>>>);

/// An array of which rows take parts.
pub(super) struct Array {
    /// Where its blocks are, so far.
    pub(super) places: Mutex<BlockPlaces>,
    /// What holds it on the device.
    pub(super) scene: Option<Arc<dyn DeviceArray>>,
}

/// What rows of a batch share.
#[derive(Default)]
pub(super) struct SharedArrays {
    /// In the order of their identities.
    pub(super) arrays: Vec<(Identity, BlockPlaces)>,
    /// What holds some of them on the device.
    pub(super) scenes: Vec<Arc<dyn DeviceArray>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

impl Sharing {
    /// An array, which is perhaps on the device.
    pub(super) fn of(&self, identity: Identity, scene: Option<&Arc<dyn DeviceArray>>) -> Arc<Array> {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let array = || Arc::new(Array { places: Mutex::default(), scene: scene.cloned() });
        Arc::clone(arrays.entry(identity).or_insert_with(array))
    }

    /// Takes all arrays of a batch.
    pub(super) fn take(&self) -> SharedArrays {
        let arrays = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let scenes = arrays.values().filter_map(|array| array.scene.clone()).collect();
        let places = |array: &Array| std::mem::take(&mut *array.places.lock().unwrap_or_else(PoisonError::into_inner));
        let arrays = arrays.iter().map(|(identity, array)| (*identity, places(array)));
        // Where the first row of an array found no room, nobody may have come after it.
        SharedArrays { arrays: arrays.filter(|(_, places)| !places.is_empty()).collect(), scenes }
    }
}

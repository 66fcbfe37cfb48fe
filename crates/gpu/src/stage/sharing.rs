//! Arrays shared by several rows of a batch: each of their blocks is uploaded and decoded once.

use crate::cubes::BlockPlaces;
use shardpack_loader::stage::DeviceArray;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Identity of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// Number of its [`Memo`](shardpack_loader::stage::Memo).
    Read(u64),
    /// Its number among the values that stay on the device.
    Kept(u64),
}

/// The arrays of a batch, in the order of their identities.
#[derive(Default)]
pub(super) struct Sharing(Mutex<BTreeMap<Identity, Arc<Array>>>);

/// An array that several rows share.
pub(super) struct Array {
    /// Places of its blocks so far.
    pub(super) places: Mutex<BlockPlaces>,
    /// Keeps it on the device.
    pub(super) scene: Option<Arc<dyn DeviceArray>>,
}

/// Arrays that rows of a batch share.
#[derive(Default)]
pub(super) struct SharedArrays {
    /// Block places, in the order of the arrays' identities.
    pub(super) arrays: Vec<(Identity, BlockPlaces)>,
    /// Keep some of the arrays on the device.
    pub(super) scenes: Vec<Arc<dyn DeviceArray>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

impl Sharing {
    /// Returns the array of this identity, which may be on the device.
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
        // An array has no places if its first row found no room and no other row followed.
        SharedArrays { arrays: arrays.filter(|(_, places)| !places.is_empty()).collect(), scenes }
    }
}

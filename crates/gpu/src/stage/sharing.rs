//! Finds arrays whose parts are used by several rows of a batch. Each block of these arrays is uploaded and decoded
//! only once.

use crate::cubes::BlockPlaces;
use shardpack_loader::stage::DeviceArray;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    /// Id of the array's [`Memo`](shardpack_loader::stage::Memo).
    Read(u64),
    /// Number of the array among the kept values.
    Kept(u64),
}

/// The arrays that rows of a batch share, indexed by identity.
#[derive(Default)]
pub(super) struct Sharing(Mutex<BTreeMap<Identity, Arc<Array>>>);

pub(super) struct Array {
    pub(super) places: Mutex<BlockPlaces>,
    /// Reference that keeps the array on the device.
    pub(super) scene: Option<Arc<dyn DeviceArray>>,
}

#[derive(Default)]
pub(super) struct SharedArrays {
    /// Where the blocks of each array are, ordered by the array's identity.
    pub(super) arrays: Vec<(Identity, BlockPlaces)>,
    /// References that keep some of the arrays on the device.
    pub(super) scenes: Vec<Arc<dyn DeviceArray>>,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").finish_non_exhaustive()
    }
}

impl Sharing {
    /// Returns the array with the given identity. `scene` is its memory on the device, if the array is there.
    pub(super) fn of(&self, identity: Identity, scene: Option<&Arc<dyn DeviceArray>>) -> Arc<Array> {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let array = || Arc::new(Array { places: Mutex::default(), scene: scene.cloned() });
        Arc::clone(arrays.entry(identity).or_insert_with(array))
    }

    pub(super) fn take(&self) -> SharedArrays {
        let arrays = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let scenes = arrays.values().filter_map(|array| array.scene.clone()).collect();
        let places = |array: &Array| std::mem::take(&mut *array.places.lock().unwrap_or_else(PoisonError::into_inner));
        let arrays = arrays.iter().map(|(identity, array)| (*identity, places(array)));
        // An array has no blocks here if there was no memory for its first row, and no other row followed.
        SharedArrays { arrays: arrays.filter(|(_, places)| !places.is_empty()).collect(), scenes }
    }
}

//! Loads a device's kernels once for all loaders of the process.

use crate::cubes;
use crate::driver::{Device, GpuError, Module, Stream};
use crate::gather;
use crate::mix;
use crate::pictures;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) device: Device,
    pictures: Module,
    cubes: Module,
    gather: Module,
    pub(super) mix: Module,
    /// Stream for mixing a batch that a caller awaits.
    pub(super) urgent: Stream,
}

/// Loaded kernels by device index. The references are weak, so the last stage that uses the kernels drops them.
static LOADED: Mutex<BTreeMap<u32, Weak<Kernels>>> = Mutex::new(BTreeMap::new());

/// Id of the process whose thread holds the lock or held it last.
static HOLDER: AtomicU32 = AtomicU32::new(0);

impl Kernels {
    /// Returns the kernels of the device with index `number`.
    ///
    /// # Errors
    /// Same as [`CudaStage::open`](super::CudaStage::open).
    pub(super) fn of(number: u32) -> Result<Arc<Self>, GpuError> {
        let own = std::process::id();
        let mut loaded = match LOADED.try_lock() {
            Ok(loaded) => loaded,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // A thread of the parent process held the lock when this process was forked. That thread does not exist
            // here, so the lock is never released.
            Err(TryLockError::WouldBlock) if ![0, own].contains(&HOLDER.load(Ordering::Relaxed)) => {
                return Self::load(number);
            }
            Err(TryLockError::WouldBlock) => LOADED.lock().unwrap_or_else(PoisonError::into_inner),
        };
        HOLDER.store(own, Ordering::Relaxed);
        let known = loaded.get(&number).and_then(Weak::upgrade);
        if let Some(kernels) = known.filter(|kernels| !kernels.device.is_forked()) {
            return Ok(kernels);
        }
        let kernels = Self::load(number)?;
        loaded.insert(number, Arc::downgrade(&kernels));
        Ok(kernels)
    }

    fn load(number: u32) -> Result<Arc<Self>, GpuError> {
        let device = Device::open(number)?;
        let pictures = pictures::SOURCE.load(&device)?;
        let cubes = cubes::SOURCE.load(&device)?;
        let gather = gather::SOURCE.load(&device)?;
        let mix = mix::SOURCE.load(&device)?;
        let urgent = Stream::urgent(&device)?;
        Ok(Arc::new(Self { device, pictures, cubes, gather, mix, urgent }))
    }

    /// Returns the modules for copying, for pictures and for cubes.
    pub(super) fn modules(&self) -> [&Module; 3] {
        [&self.gather, &self.pictures, &self.cubes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_set_of_kernels() {
        match (Kernels::of(0), Kernels::of(0)) {
            (Ok(first), Ok(second)) => assert!(Arc::ptr_eq(&first, &second)),
            (first, second) => assert_eq!(first.unwrap_err(), second.unwrap_err(), "no device, twice"),
        }
    }
}

//! The kernels of a device, loaded once for all loaders of the process.

use crate::cubes::CubeKernels;
use crate::driver::{Device, GpuError, Module, Stream};
use crate::gather;
use crate::mix;
use crate::pictures::PictureDecoder;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

/// A device, and what the driver has compiled for it.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) device: Device,
    pictures: Arc<Module>,
    cubes: CubeKernels,
    gather: Module,
    pub(super) mix: Module,
    /// Where a batch is mixed that somebody waits for.
    pub(super) urgent: Stream,
}

/// By the number of the device. They go with the last stage that uses them: nothing here keeps a
/// device open.
static LOADED: Mutex<BTreeMap<u32, Weak<Kernels>>> = Mutex::new(BTreeMap::new());

/// The process whose thread holds the lock, or held it last.
static HOLDER: AtomicU32 = AtomicU32::new(0);

impl Kernels {
    /// Those of a device, by its number.
    ///
    /// # Errors
    /// As [`CudaStage::open`](super::CudaStage::open).
    pub(super) fn of(number: u32) -> Result<Arc<Self>, GpuError> {
        let own = std::process::id();
        let mut loaded = match LOADED.try_lock() {
            Ok(loaded) => loaded,
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            // Another thread is loading. In a fork of the process, that thread is not there.
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
        let pictures = PictureDecoder::module(&device)?;
        let cubes = CubeKernels::load(&device)?;
        let gather = gather::SOURCE.load(&device)?;
        let mix = mix::SOURCE.load(&device)?;
        let urgent = Stream::urgent(&device)?;
        Ok(Arc::new(Self { device, pictures, cubes, gather, mix, urgent }))
    }

    /// The one that copies what stays on the device, those for pictures, and those for cubes.
    pub(super) fn modules(&self) -> [&Module; 3] {
        [&self.gather, &self.pictures, self.cubes.module()]
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

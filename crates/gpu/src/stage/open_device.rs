//! An open device: its kernels, and the memory for values kept there.

use super::kernels::Kernels;
use super::store::{Backing, Store};
use crate::driver::{Device, Memory, Stream};
use shardpack_loader::stage::DeviceId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// DLPack's code for CUDA devices.
const CUDA: i32 = 2;

/// A device, shared by all slots of a stage.
#[derive(Debug)]
pub(super) struct OpenDevice {
    pub(super) device: Device,
    pub(super) kernels: Arc<Kernels>,
    /// Number of times that a slot outgrew its initial memory.
    pub(super) grown: AtomicU64,
    pub(super) store: Store<ResidentMemory>,
}

#[derive(Debug)]
pub(super) struct ResidentMemory {
    device: Device,
    memory: Memory,
}

impl ResidentMemory {
    pub(super) const fn new(device: Device, memory: Memory) -> Self {
        Self { device, memory }
    }

    pub(super) const fn address(&self) -> u64 {
        self.memory.address()
    }
}

impl Backing for ResidentMemory {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        // Several threads write at the same time, so each write uses its own stream.
        let stream = Stream::new(&self.device).map_err(io::Error::other)?;
        stream.write(bytes, &self.memory, at).map_err(io::Error::other)
    }
}

impl OpenDevice {
    pub(super) fn of(kernels: Arc<Kernels>) -> Arc<Self> {
        let device = kernels.device.clone();
        Arc::new(Self { device, kernels, grown: AtomicU64::new(0), store: Store::default() })
    }

    pub(super) fn id(&self) -> DeviceId {
        let number = self.device.properties().ordinal;
        DeviceId { kind: CUDA, number: i32::try_from(number).unwrap_or(i32::MAX) }
    }
}

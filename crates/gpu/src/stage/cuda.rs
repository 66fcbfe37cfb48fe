//! CUDA implementation of the loader's [`Stage`]: the kernels of a device, and the size of its slots.

use super::completion::Completions;
use super::decoding::{Decoding, staging_bytes};
use super::kernels::Kernels;
use super::noted::noted;
use super::open_device::{OpenDevice, ResidentMemory};
use super::scenes::{ScenePool, Scenes};
use super::slot::{CudaSlot, ROW_STATUS_BYTES};
use super::staging::Staging;
use super::store::Store;
use crate::driver::{Device, GpuError, Memory, Pinned};
use shardpack_loader::stage::{
    DeviceId, FieldRows, FieldSpec, Keeper, Keeping, RecordValue, SlotRoom, Stage, StageSlot,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Decodes the batches of a loader on a CUDA device.
///
/// ```
/// use shardpack_gpu::CudaStage;
/// use shardpack_gpu::GpuError;
/// use shardpack_loader::LoaderOptions;
/// use std::sync::Arc;
/// let stage = match CudaStage::open(0) {
///     Ok(stage) => Some(Arc::new(stage) as _),
///     Err(GpuError::NoDriver | GpuError::NoDevice { .. }) => None, // The host decodes.
///     Err(error) => return Err(error.into()),
/// };
/// let options = { let mut options = LoaderOptions::default(); options.resources.stage = stage; options };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CudaStage {
    shared: Arc<OpenDevice>,
    completions: Arc<Completions>,
    decoding: Decoding,
    /// Pool for scenes that stay on the device. `None` if values are kept on the device, because the kernels can
    /// address only one of the two memories.
    scenes: Option<Arc<dyn Scenes>>,
}

#[derive(Debug)]
struct CudaKeeper(Arc<OpenDevice>);

impl Keeper for CudaKeeper {
    fn value_bytes(&self, stored_bytes: u64) -> u64 {
        Store::<ResidentMemory>::value_bytes(stored_bytes)
    }

    fn free_bytes(&self) -> io::Result<(u64, u64)> {
        self.0.device.free_bytes().map_err(io::Error::other)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let OpenDevice { device, store, .. } = &*self.0;
        let len = usize::try_from(Store::<ResidentMemory>::backing_bytes(bytes)).map_err(io::Error::other)?;
        let memory = Memory::new(device, len).map_err(io::Error::other)?;
        store.put_in(ResidentMemory::new(device.clone(), memory), bytes)
    }

    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>> {
        self.0.store.keep(values)
    }

    fn seal(&self) {
        self.0.store.seal();
    }

    fn device_bytes(&self) -> u64 {
        self.0.store.device_bytes()
    }

    fn host_bytes(&self) -> u64 {
        self.0.store.host_bytes()
    }
}

impl CudaStage {
    /// Opens a device by its index and loads the kernels. The driver compiles them, which takes a second or two the
    /// first time, and later finds them in its cache. Stages of the same device that are open at the same time share
    /// the kernels.
    ///
    /// # Errors
    /// `NoDriver`; `NoDevice` if there is no device with this index; `TooOld` if the driver or the device is
    /// too old for the kernels; `Driver` if a driver call fails.
    pub fn open(number: u32) -> Result<Self, GpuError> {
        let kernels = Kernels::of(number)?;
        let scenes = ScenePool::new(kernels.device.clone());
        Ok(Self {
            shared: OpenDevice::of(kernels),
            completions: Arc::new(Completions::start()?),
            decoding: Decoding::Records,
            scenes: Some(Arc::new(scenes)),
        })
    }

    /// Makes the host decode all rows. Batches are still in device memory, and the device converts the levels of
    /// pictures to floats.
    #[must_use]
    pub fn decoding_on_host(self) -> Self {
        Self { decoding: Decoding::Host, scenes: None, ..self }
    }

    /// Creates a slot whose batches the caller fills, [starts](CudaSlot::start) and [awaits](CudaSlot::wait).
    ///
    /// # Errors
    /// `OutOfMemory` or `Unpinned` if there is too little memory; `Driver` if a driver call fails.
    #[doc(hidden)]
    pub fn slot_by_hand(&self, room: &SlotRoom) -> Result<CudaSlot, GpuError> {
        let staging = Pinned::new(&self.shared.device, staging_bytes(room))?;
        let fill = Staging::new(staging, room.host_bytes)?.with_scenes(self.scenes.clone());
        let (shared, sender) = (Arc::clone(&self.shared), self.completions.sender());
        CudaSlot::new(shared, sender, *room, fill, self.decoding.memory_bytes(room))
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }
}

impl Stage for CudaStage {
    fn device(&self) -> DeviceId {
        self.shared.id()
    }

    fn decodes(&self) -> bool {
        self.decoding != Decoding::Host
    }

    fn takes(&self, field: &FieldSpec<'_>) -> bool {
        self.decoding.takes(field)
    }

    fn shares(&self, example: &RecordValue<'_>) -> bool {
        self.decoding.shares(example)
    }

    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        self.decoding.staged_bytes(field, rows)
    }

    fn between_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        self.decoding.between_bytes(field, rows)
    }

    fn device_bytes(&self, room: &SlotRoom) -> u64 {
        (room.output_bytes as u64).saturating_add(self.decoding.memory_bytes(room) as u64)
    }

    fn host_bytes(&self, room: &SlotRoom) -> u64 {
        (staging_bytes(room) as u64).saturating_add((ROW_STATUS_BYTES * room.rows) as u64)
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        self.slot_by_hand(room).map(|slot| Arc::new(slot) as Arc<dyn StageSlot>).map_err(io::Error::other)
    }

    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let most = ScenePool::most_bytes(&self.shared.device);
        if self.decoding != Decoding::Records { 0 } else { ScenePool::bytes_of(open_bytes, arrays).min(most) }
    }

    fn look(&self, value: &RecordValue<'_>) {
        _ = noted(value, self.scenes.as_ref());
    }

    fn growths(&self) -> u64 {
        self.shared.grown.load(Ordering::Relaxed)
    }

    fn keeping(&self) -> Option<Keeping> {
        if self.decoding == Decoding::Host {
            return None;
        }
        let shared = OpenDevice::of(Arc::clone(&self.shared.kernels));
        let completions = Arc::clone(&self.completions);
        let stage = Self { shared: Arc::clone(&shared), completions, decoding: Decoding::Resident, scenes: None };
        Some(Keeping { stage: Arc::new(stage), keeper: Arc::new(CudaKeeper(shared)) })
    }
}

//! The stage of a device: its kernels, and the memory sizes of its slots.

use super::completion::Completions;
use super::kernels::Kernels;
use super::noted::noted;
use super::open_device::{OpenDevice, ResidentMemory};
use super::scenes::{ScenePool, Scenes, SharedPool};
use super::slot::{CudaSlot, ROW_STATUS_BYTES};
use super::staging::Staging;
use super::store::Store;
use crate::cubes;
use crate::driver::{Device, GpuError, Memory, Pinned};
use crate::pictures::{self, Dtype};
use shardpack_format::{ArrayDescriptor, Codec};
use shardpack_loader::stage::{
    DeviceId, FieldSource, FieldSpec, Keeper, Keeping, RecordValue, SlotRoom, Stage, StageSlot,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Decodes loader batches on a CUDA device.
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
    /// True if rows may come from values kept on the device.
    is_resident: bool,
    /// Pool of arrays that stay on the device for a while. Absent with kept values, because kernels know only
    /// one base address.
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
    /// Opens a device by its index and loads the kernels, which the driver compiles (a second or two the
    /// first time) or takes from its cache. Stages of one device that are open at the same time share the
    /// kernels.
    ///
    /// # Errors
    /// `NoDriver`; `NoDevice` if there is no device with this index; `Driver` if a driver call fails.
    pub fn open(number: u32) -> Result<Self, GpuError> {
        let kernels = Kernels::of(number)?;
        let scenes = ScenePool::new(kernels.device.clone());
        Ok(Self {
            shared: OpenDevice::of(kernels),
            completions: Arc::new(Completions::start()?),
            is_resident: false,
            scenes: Some(Arc::new(SharedPool(Arc::new(scenes)))),
        })
    }

    /// Creates a slot whose batches the caller fills, [starts](CudaSlot::start) and [awaits](CudaSlot::wait).
    ///
    /// # Errors
    /// `OutOfMemory` or `Unpinned`; `Driver` if a driver call fails.
    #[doc(hidden)]
    pub fn slot_by_hand(&self, room: &SlotRoom) -> Result<CudaSlot, GpuError> {
        let staging = Pinned::new(&self.shared.device, staging_bytes(room))?;
        let fill = Staging::new(staging, room.host_bytes)?.with_scenes(self.scenes.clone());
        let (shared, sender) = (Arc::clone(&self.shared), self.completions.sender());
        CudaSlot::new(shared, sender, *room, fill, memory_bytes(room, self.is_resident))
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

    fn takes(&self, field: &FieldSpec<'_>) -> bool {
        takes(field)
    }

    fn shares(&self, example: &RecordValue<'_>) -> bool {
        shares(example)
    }

    fn staged_bytes(&self, field: &FieldSpec<'_>, rows: u64, record_bytes: u64, row_bytes: u64) -> u64 {
        staged_bytes(field, rows, record_bytes, row_bytes)
    }

    fn between_bytes(&self, field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
        between_bytes(field, rows, row_bytes)
    }

    fn device_bytes(&self, room: &SlotRoom) -> u64 {
        (room.output_bytes as u64).saturating_add(memory_bytes(room, self.is_resident) as u64)
    }

    fn host_bytes(&self, room: &SlotRoom) -> u64 {
        (staging_bytes(room) as u64).saturating_add((ROW_STATUS_BYTES * room.rows) as u64)
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        self.slot_by_hand(room).map(|slot| Arc::new(slot) as Arc<dyn StageSlot>).map_err(io::Error::other)
    }

    fn scene_bytes(&self, open_bytes: u64, arrays: u64) -> u64 {
        let most = ScenePool::most_bytes(&self.shared.device);
        if self.is_resident { 0 } else { ScenePool::bytes_of(open_bytes, arrays).min(most) }
    }

    fn look(&self, value: &RecordValue<'_>) {
        _ = noted(value, self.scenes.as_ref());
    }

    fn growths(&self) -> u64 {
        self.shared.grown.load(Ordering::Relaxed)
    }

    fn keeping(&self) -> Option<Keeping> {
        let shared = OpenDevice::of(Arc::clone(&self.shared.kernels));
        let completions = Arc::clone(&self.completions);
        let stage = Self { shared: Arc::clone(&shared), completions, is_resident: true, scenes: None };
        Some(Keeping { stage: Arc::new(stage), keeper: Arc::new(CudaKeeper(shared)) })
    }
}

/// Returns true for pictures, and for arrays of two or three axes if the kernels accept all examples.
/// Pictures that the kernels do not accept are rejected one by one. Returns false for parts of plain zstd
/// arrays: the host decompresses these as a whole and cuts the part, so that the whole array need not go to
/// the device.
pub(super) fn takes(field: &FieldSpec<'_>) -> bool {
    match field.source {
        FieldSource::Picture { .. } => Dtype::of(field.dtype).is_some(),
        FieldSource::Array { stored, part } => {
            let fits = |(codec, descriptor): &(Codec, _)| cubes::takes(*codec, descriptor);
            let is_decompressed = stored.iter().all(|(codec, _)| *codec == Codec::Zstd);
            !stored.is_empty() && stored.iter().all(fits) && !(part.is_some() && is_decompressed)
        }
        _ => false,
    }
}

/// Returns true for arrays that only the device decodes, and whose bytes it mostly needs.
pub(super) fn shares(example: &RecordValue<'_>) -> bool {
    match *example {
        RecordValue::Array { codec, descriptor, bytes, region, limits, .. } => {
            !cubes::Most::of(descriptor, region).is_small()
                && cubes::is_taken_as_stored(codec, descriptor, bytes, limits)
        }
        _ => false,
    }
}

/// Returns the size of compressed data, as in the record, and of tables. Tables take 8 bytes per segment of a
/// picture, which normally has at least 32 bytes, and 96 per stream of 64 KiB of an array.
pub(super) fn staged_bytes(field: &FieldSpec<'_>, rows: u64, record_bytes: u64, row_bytes: u64) -> u64 {
    let parts = match field.source {
        FieldSource::Picture { .. } => [record_bytes, record_bytes / 4, row_bytes / 64, rows << 10],
        FieldSource::Array { stored, part } => {
            let most = |descriptor: &ArrayDescriptor| cubes::Most::of(descriptor, part);
            let needed = |(codec, descriptor): &(Codec, ArrayDescriptor)| match codec {
                // The host decodes plain zstd.
                Codec::Zstd => record_bytes.max(descriptor.stored_bytes().unwrap_or(0).saturating_mul(rows)),
                _ => most(descriptor).coded_bytes(rows, record_bytes),
            };
            let needed = stored.iter().map(needed).max().unwrap_or(record_bytes);
            let tables = stored.iter().map(|(_, descriptor)| most(descriptor).table_bytes()).max().unwrap_or(0);
            [needed, needed / 16, row_bytes / 256, tables.saturating_add(8 << 10).saturating_mul(rows)]
        }
        _ => [0; 4],
    };
    parts.into_iter().fold(0, u64::saturating_add)
}

/// Returns the size of intermediate data: levels of pictures that are changed before output, and stored
/// elements of arrays beyond the output's size. A part of an array needs all elements of its blocks.
pub(super) fn between_bytes(field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
    let elements = row_bytes / field.dtype.bytes().max(1);
    match field.source {
        FieldSource::Picture { changes, .. } => pictures::most_level_bytes(changes, elements / 3),
        FieldSource::Array { stored, part } => {
            let scratch = |(_, descriptor): &(Codec, ArrayDescriptor)| {
                let width = descriptor.stored.bytes();
                let all = match part {
                    Some(part) => cubes::Most::of(descriptor, Some(part)).decoded_bytes().saturating_mul(rows),
                    None => elements.saturating_mul(width),
                };
                cubes::most_scratch_bytes(all, width, rows).saturating_sub(row_bytes)
            };
            stored.iter().map(scratch).max().unwrap_or(0)
        }
        _ => 0,
    }
}

pub(super) const fn staging_bytes(room: &SlotRoom) -> usize {
    Staging::<Pinned>::memory_bytes(room.rows, room.staged_bytes, room.host_bytes)
}

/// Returns the size of a slot's device memory besides its output, in bytes: uploads and intermediate data. A
/// picture's samples take about six times its compressed bytes, and crops need half of them. Arrays take the
/// bytes of their rows and `between_bytes`. Copies on the device are added, because they follow the largest
/// possible upload, which leaves a gap among the words of pictures.
pub(super) const fn memory_bytes(room: &SlotRoom, is_resident: bool) -> usize {
    let staged = room.staged_bytes.saturating_mul(3);
    let between = if staged > room.output_bytes { staged } else { room.output_bytes };
    let copied = if is_resident { room.staged_bytes.saturating_mul(2) } else { 0 };
    let between = between.saturating_add(room.between_bytes);
    staging_bytes(room).saturating_add(between).saturating_add(copied).saturating_add(1 << 20)
}

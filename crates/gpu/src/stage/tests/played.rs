//! A stage whose device is emulated on the CPU. It shares the logic of `CudaStage` but uses no driver.

use crate::driver::Heap;
use crate::gather::MARGIN;
use crate::mix::{DeviceMix, MixMemory, Mixing};
use crate::stage::assembled::Assembled;
use crate::stage::decoding::Decoding;
use crate::stage::noted::noted;
use crate::stage::prepared_row::HostBytes;
use crate::stage::room::{self, Filled};
use crate::stage::scenes::Scenes;
use crate::stage::staging::{Staging, Upload};
use crate::stage::store::{Backing, Store};
use crate::stage::stored_array::KeptValue;
use shardpack_array::ZstdDecoder;
use shardpack_gpu_play::{Device, MANNERS, Manner};
use shardpack_loader::stage::{
    DeviceArray, DeviceId, FieldRows, FieldSpec, Keeper, Keeping, PictureElements, Prepared, RecordValue, RowFault,
    RowMix, RowMosaic, SlotRoom, Spot, Stage, StageFailure, StageSlot, StagedParts, StagedRoom, StreamHandle, Ticket,
};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Number of bytes that all batches upload.
    pub(super) uploaded: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) put: AtomicU64,
    /// Number of levels of host-decoded pictures.
    pub(super) levels: AtomicU64,
    pub(super) shared: AtomicU64,
    pub(super) faults: AtomicU64,
    /// Number of rows from kept values.
    pub(super) kept: AtomicU64,
    /// Number of batches that needed more memory than a slot would have had.
    pub(super) grown: AtomicU64,
}

/// Memory for kept values, filled with poison until it is written.
#[derive(Debug)]
struct Kept(Mutex<Vec<u8>>);

impl Backing for Kept {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// Arrays that stay on the device for a while. Their memory is never reused, so a kernel that reads a freed array
/// reads poison.
#[derive(Debug, Default)]
pub(super) struct PlayedScenes {
    memory: Mutex<Vec<u8>>,
    pub(super) put: AtomicU64,
}

#[derive(Debug)]
struct PlayedScene {
    scenes: Arc<PlayedScenes>,
    range: Range<usize>,
}

impl Scenes for PlayedScenes {
    fn put(self: Arc<Self>, bytes: &[u8]) -> Option<Arc<dyn DeviceArray>> {
        if self.put.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
            return None;
        }
        let mut memory = self.memory.lock().unwrap();
        let start = memory.len() + 7;
        memory.resize(start, 0xC3);
        memory.extend_from_slice(bytes);
        let range = start..memory.len();
        memory.extend([0xC3; MARGIN]);
        drop(memory);
        Some(Arc::new(PlayedScene { scenes: self, range }))
    }
}

impl DeviceArray for PlayedScene {
    fn at(&self) -> u64 {
        self.range.start as u64
    }
}

impl Drop for PlayedScene {
    fn drop(&mut self) {
        self.scenes.memory.lock().unwrap()[self.range.clone()].fill(0xC3);
    }
}

#[derive(Debug)]
struct PlayedKeeper {
    store: Arc<Store<Kept>>,
    free: u64,
}

impl Keeper for PlayedKeeper {
    fn value_bytes(&self, stored_bytes: u64) -> u64 {
        Store::<Kept>::value_bytes(stored_bytes)
    }

    fn free_bytes(&self) -> io::Result<(u64, u64)> {
        Ok((self.free, 1 << 33))
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let memory = vec![0xC3; Store::<Kept>::backing_bytes(bytes) as usize];
        self.store.put_in(Kept(Mutex::new(memory)), bytes)
    }

    fn keep(&self, values: &[RecordValue<'_>]) -> io::Result<Vec<Option<u64>>> {
        self.store.keep(values)
    }

    fn seal(&self) {
        self.store.seal();
    }

    fn device_bytes(&self) -> u64 {
        self.store.device_bytes()
    }

    fn host_bytes(&self) -> u64 {
        self.store.host_bytes()
    }
}

#[derive(Debug)]
pub(super) struct PlayedStage {
    pub(super) counts: Arc<Counts>,
    decoding: Decoding,
    manner: Manner,
    /// The size of the staging memory is divided by this number. If it is above 1, some rows do not fit.
    tight: u64,
    store: Arc<Store<Kept>>,
    pub(super) scenes: Arc<PlayedScenes>,
    pub(super) free: u64,
}

impl PlayedStage {
    pub(super) fn new(manner: usize, tight: u64) -> Self {
        Self {
            counts: Arc::default(),
            decoding: Decoding::Records,
            manner: MANNERS[manner],
            tight,
            store: Arc::default(),
            scenes: Arc::default(),
            free: 1 << 32,
        }
    }

    pub(super) fn of_host_rows(manner: usize, tight: u64) -> Self {
        Self { decoding: Decoding::Host, ..Self::new(manner, tight) }
    }
}

#[derive(Debug)]
struct PlayedSlot {
    counts: Arc<Counts>,
    store: Arc<Store<Kept>>,
    scenes: Arc<PlayedScenes>,
    decoding: Decoding,
    manner: Manner,
    room: SlotRoom,
    fill: Staging<Heap>,
    output: Mutex<Vec<u8>>,
}

impl PlayedStage {
    fn scenes(&self) -> Option<Arc<dyn Scenes>> {
        self.store.backing().is_none().then(|| Arc::clone(&self.scenes) as Arc<dyn Scenes>)
    }
}

impl Stage for PlayedStage {
    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 0 }
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
        self.decoding.staged_bytes(field, rows) / self.tight
    }

    fn between_bytes(&self, field: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        self.decoding.between_bytes(field, rows)
    }

    fn device_bytes(&self, _: &SlotRoom) -> u64 {
        0
    }

    fn host_bytes(&self, _: &SlotRoom) -> u64 {
        0
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        let bytes = Staging::<Heap>::memory_bytes(room.rows, room.staged_bytes, room.host_bytes);
        let scenes = self.scenes();
        Ok(Arc::new(PlayedSlot {
            counts: Arc::clone(&self.counts),
            store: Arc::clone(&self.store),
            decoding: self.decoding,
            manner: self.manner,
            room: *room,
            scenes: Arc::clone(&self.scenes),
            fill: Staging::new(Heap::new(bytes), room.host_bytes).map_err(io::Error::other)?.with_scenes(scenes),
            output: Mutex::default(),
        }))
    }

    fn look(&self, value: &RecordValue<'_>) {
        _ = noted(value, self.scenes().as_ref());
    }

    fn keeping(&self) -> Option<Keeping> {
        let (counts, store) = (Arc::clone(&self.counts), Arc::<Store<Kept>>::default());
        let keeper = Arc::new(PlayedKeeper { store: Arc::clone(&store), free: self.free });
        let Self { manner, tight, free, .. } = *self;
        let scenes = Arc::default();
        Some(Keeping {
            stage: Arc::new(Self { counts, decoding: Decoding::Resident, manner, tight, store, scenes, free }),
            keeper,
        })
    }
}

/// Performs the work that a `CudaSlot` submits to its stream. Returns the output and the faults of the rows.
pub(super) fn play(
    batch: &Assembled,
    memory: (&[u8], &[u8]),
    output_bytes: usize,
    manner: Manner,
) -> (Vec<u8>, Vec<RowFault>) {
    let (out, [pictures, cubes]) = play_kernels(batch, memory, output_bytes, manner);
    (out, batch.faults([&pictures, &cubes]))
}

/// Same as [`play`], but returns the status words of pictures and of cubes instead of faults.
pub(crate) fn play_kernels(
    batch: &Assembled,
    (kept, staging): (&[u8], &[u8]),
    output_bytes: usize,
    manner: Manner,
) -> (Vec<u8>, [Vec<u8>; 2]) {
    let mut device = Device::new(manner);
    let kept = device.upload(kept);
    let memory = device.alloc(batch.memory_bytes);
    device.bytes_mut(memory).unwrap()[..batch.upload_bytes].copy_from_slice(&staging[..batch.upload_bytes]);
    // Unwritten output stays poisoned, so a comparison with it fails.
    let output = device.alloc(output_bytes);
    let out = device.bytes_mut(output).unwrap();
    for range in &batch.zero {
        out[range.clone()].fill(0);
    }
    for (at, bytes) in &batch.host {
        let bytes = match bytes {
            HostBytes::Staged(range) => &staging[range.clone()],
            HostBytes::Heap(bytes) => bytes,
        };
        out[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    let [kept, slot, output_at] = [kept, memory, output].map(|buffer| device.address(buffer));
    for launch in batch.launches(kept, slot, output_at).concat() {
        device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
    }
    let words = batch.statuses().map(|range| device.bytes(memory)[range].to_vec());
    (device.bytes(output).to_vec(), words)
}

impl Counts {
    fn count(&self, prepared: Prepared) -> Prepared {
        let count = if matches!(prepared, Prepared::Taken(_)) { &self.taken } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        prepared
    }
}

#[derive(Debug)]
struct CountedRoom {
    room: Box<dyn StagedRoom>,
    counts: Arc<Counts>,
}

impl StagedRoom for CountedRoom {
    fn bytes(&self) -> Option<&[u8]> {
        self.room.bytes()
    }

    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.counts.count(self.room.prepare(value, zstd))
    }
}

impl Filled for PlayedSlot {
    type Memory = Heap;

    fn fill(&self) -> &Staging<Heap> {
        &self.fill
    }
}

impl PlayedSlot {
    fn start(&self, host: &[u8]) -> Result<(Assembled, Vec<u8>), StageFailure> {
        let (batch, mut upload): (_, Upload<'_, Heap>) = self.fill.assemble(host)?;
        let staging = upload.memory().unwrap().bytes_mut().to_vec();
        self.counts.uploaded.fetch_add(batch.upload_bytes as u64, Ordering::Relaxed);
        Ok((batch, staging))
    }
}

impl StageSlot for PlayedSlot {
    fn room(&self) -> SlotRoom {
        self.room
    }

    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 0 }
    }

    fn begin(&self, output_bytes: usize) {
        self.fill.begin(output_bytes);
    }

    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.counts.count(self.fill.prepare(spot, value, zstd))
    }

    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let counts = Arc::clone(&self.counts);
        let StagedParts { room, parts } = room::room_for(self, spot, bytes, step)?;
        counts.shared.fetch_add(1, Ordering::Relaxed);
        Some(StagedParts { room: Box::new(CountedRoom { room, counts }), parts })
    }

    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        let kept = self.store.find(number).unwrap();
        let prepared = self.fill.prepare_kept(spot, KeptValue { number, tables: kept }, value, zstd);
        if matches!(prepared, Prepared::Taken(_)) {
            self.counts.taken.fetch_add(1, Ordering::Relaxed);
            self.counts.kept.fetch_add(1, Ordering::Relaxed);
        }
        prepared
    }

    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()> {
        self.counts.put.fetch_add(1, Ordering::Relaxed);
        self.fill.put(spot, bytes)
    }

    fn put_levels(
        &self,
        spot: &Spot,
        elements: &PictureElements,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        self.counts.put.fetch_add(1, Ordering::Relaxed);
        self.counts.levels.fetch_add(elements.levels(spot.bytes.len()) as u64, Ordering::Relaxed);
        self.fill.put_levels(spot, elements, fill)
    }

    fn clear(&self, spot: &Spot) {
        self.fill.clear(spot);
    }

    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket) {
        let started = self.start(host);
        thread::spawn(move || {
            let result = started.map(|(batch, staging)| {
                let is_larger = batch.memory_bytes > self.decoding.memory_bytes(&self.room);
                self.counts.grown.fetch_add(is_larger.into(), Ordering::Relaxed);
                let kept = self.store.backing().map(|kept| kept.0.lock().unwrap().clone());
                let kept = kept.unwrap_or_else(|| self.scenes.memory.lock().unwrap().clone());
                let (out, faults) = play(&batch, (&kept, &staging), self.room.output_bytes, self.manner);
                *self.output.lock().unwrap() = out;
                self.counts.faults.fetch_add(faults.len() as u64, Ordering::Relaxed);
                faults
            });
            drop(self);
            ticket.done(result);
        });
    }

    fn address(&self) -> u64 {
        self.output.lock().unwrap().as_ptr().expose_provenance() as u64
    }

    fn used_on(&self, _: StreamHandle) {}

    fn release(&self) {}

    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()> {
        let output = self.output.lock().unwrap();
        let bytes = output.get(from..from + to.len()).ok_or(io::ErrorKind::InvalidInput)?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().unwrap();
        output.get_mut(to..to + bytes.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        Ok(())
    }

    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        self.mix_rows(rows, mix);
        Ok(())
    }

    fn mosaic(&self, rows: &[Range<usize>], mosaic: &RowMosaic) -> io::Result<()> {
        self.mix_rows(rows, mosaic);
        Ok(())
    }
}

impl PlayedSlot {
    fn mix_rows(&self, rows: &[Range<usize>], mix: &dyn DeviceMix) {
        let mut output = self.output.lock().unwrap();
        let mut device = Device::new(self.manner);
        // The slot must not need more memory than predicted.
        let work_bytes = mix.work_bytes(rows);
        assert!(work_bytes <= self.decoding.memory_bytes(&self.room), "{work_bytes} bytes to mix");
        let (out, work) = (device.upload(&output), device.alloc(work_bytes));
        let at = MixMemory { out: device.address(out), output_bytes: output.len(), work: device.address(work) };
        let Mixing { launches, table } = mix.mixing(rows, at).unwrap();
        device.bytes_mut(work).unwrap()[..table.len()].copy_from_slice(&table);
        for launch in launches {
            device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
        }
        output.copy_from_slice(device.bytes(out));
    }
}

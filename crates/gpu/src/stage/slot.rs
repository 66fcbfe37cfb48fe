//! A slot on a device: its memory, and the stream that decodes its batches.

use super::assembled::Assembled;
use super::completion::{Message, Submitted};
use super::open_device::{OpenDevice, ResidentMemory};
use super::prepared_row::HostBytes;
use super::room::{self, Filled};
use super::staging::{Staging, Upload};
use super::stored_array::KeptValue;
use crate::config::STATUS_BYTES;
use crate::driver::{Event, GpuError, Launch, Memory, Module, Pinned, Stream};
use crate::mix::{DeviceMix, MixMemory, Mixing};
use shardpack_array::ZstdDecoder;
use shardpack_format::Note;
use shardpack_loader::stage::{
    PictureElements, Prepared, RecordValue, RowFault, RowMix, RowMosaic, SlotRoom, Spot, StageFailure, StageSlot,
    StagedParts, StreamHandle, Ticket, fewer_slots,
};
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of status words per row, enough for four fields.
pub(super) const ROW_STATUS_BYTES: usize = 4 * STATUS_BYTES;

/// A slot of the loader's ring, and the batch in it.
pub struct CudaSlot {
    pub(super) shared: Arc<OpenDevice>,
    completions: Sender<Message>,
    room: SlotRoom,
    pub(super) fill: Staging<Pinned>,
    pub(super) stream: Stream,
    output: Memory,
    pub(super) work: Mutex<SlotWork>,
    consumers: Mutex<Consumers>,
}

pub(super) struct SlotWork {
    memory: Memory,
    status: Pinned,
    /// Event that occurs when the batch is decoded.
    pub(super) done: Event,
    pub(super) batch: Option<Assembled>,
}

impl SlotWork {
    /// Waits for the batch and returns its faults. Keeps the batch, for measurements.
    pub(super) fn faults(&mut self) -> Result<Vec<RowFault>, GpuError> {
        self.done.synchronize()?;
        self.batch.as_ref().map_or_else(|| Ok(Vec::new()), |batch| faults(batch, &mut self.status))
    }

    /// Waits for the batch and returns its faults. Drops the batch, even if its status words cannot be read.
    fn finish(&mut self) -> Result<Vec<RowFault>, GpuError> {
        self.done.synchronize()?;
        self.batch.take().map_or_else(|| Ok(Vec::new()), |batch| faults(&batch, &mut self.status))
    }
}

fn faults(batch: &Assembled, status: &mut Pinned) -> Result<Vec<RowFault>, GpuError> {
    let [pictures, cubes] = batch.statuses().map(|range| range.len());
    let (picture_words, rest) = status.bytes_mut()?.split_at_checked(pictures).unwrap_or_default();
    Ok(batch.faults([picture_words, rest.get(..cubes).unwrap_or_default()]))
}

#[derive(Debug, Default)]
struct Consumers {
    streams: Vec<StreamHandle>,
    /// Events that occur once consumers have finished with returned batches.
    unused: Vec<Event>,
    /// True if an event could not be recorded in the stream of a consumer. The slot then waits for the whole device.
    is_lost: bool,
    spare: Vec<Event>,
}

impl std::fmt::Debug for CudaSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaSlot").field("room", &self.room).finish_non_exhaustive()
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CudaSlot {
    /// Creates a slot with `memory_bytes` bytes of device memory in addition to the output.
    pub(super) fn new(
        shared: Arc<OpenDevice>,
        completions: Sender<Message>,
        room: SlotRoom,
        fill: Staging<Pinned>,
        memory_bytes: usize,
    ) -> Result<Self, GpuError> {
        let device = &shared.device;
        let work = SlotWork {
            memory: Memory::new(device, memory_bytes)?,
            status: Pinned::new(device, ROW_STATUS_BYTES * room.rows)?,
            done: Event::new(device)?,
            batch: None,
        };
        let (stream, output) = (Stream::new(device)?, Memory::new(device, room.output_bytes)?);
        let (work, consumers) = (Mutex::new(work), Mutex::default());
        Ok(Self { shared, completions, room, fill, stream, output, work, consumers })
    }

    /// Submits the upload and the decoding of the prepared rows to the stream of the slot. `host` holds the first
    /// bytes of the output.
    ///
    /// # Errors
    /// `Batch` if the batch needs too much memory; `Device` if the device has failed.
    pub fn start(&self, host: &[u8]) -> Result<(), StageFailure> {
        let (batch, upload) = self.fill.assemble(host)?;
        let mut work = locked(&self.work);
        self.enqueue(&mut work, &batch, upload).map_err(|error| match error {
            GpuError::OutOfMemory { .. } | GpuError::Unpinned { .. } => {
                StageFailure::Batch(Note::new(error.to_string()).with_hint(fewer_slots()))
            }
            error => StageFailure::Device(error.to_string().into()),
        })?;
        work.batch = Some(batch);
        Ok(())
    }

    /// Grows the slot's memory to at least `needed` bytes. If the device has no room for the old and the new memory
    /// together, frees the old memory first. If that is not enough, the next batch tries again.
    fn grow(&self, work: &mut SlotWork, needed: usize) -> Result<(), GpuError> {
        if needed <= work.memory.len() {
            return Ok(());
        }
        let device = &self.shared.device;
        work.memory = match Memory::new(device, needed.saturating_add(needed / 8)) {
            Err(GpuError::OutOfMemory { .. }) => {
                work.memory = Memory::new(device, 1)?;
                Memory::new(device, needed)?
            }
            grown => grown?,
        };
        self.shared.grown.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Submits the upload, the kernels and the download of the status words to the stream.
    pub(super) fn enqueue(
        &self,
        work: &mut SlotWork,
        batch: &Assembled,
        mut upload: Upload<'_, Pinned>,
    ) -> Result<(), GpuError> {
        let stream = &self.stream;
        self.grow(work, batch.memory_bytes)?;
        let [pictures, cubes] = batch.statuses();
        if work.status.len() < pictures.len() + cubes.len() {
            work.status = Pinned::new(&self.shared.device, pictures.len() + cubes.len())?;
        }
        let staging = upload.memory()?;
        stream.upload(staging, 0..batch.upload_bytes, &work.memory, 0)?;
        // All work after this point writes the output.
        self.wait_for_consumers()?;
        for range in &batch.zero {
            stream.zero(&self.output, range.clone())?;
        }
        for (at, bytes) in &batch.host {
            match bytes {
                HostBytes::Staged(range) => stream.upload(staging, range.clone(), &self.output, *at)?,
                HostBytes::Heap(bytes) => stream.write(bytes, &self.output, *at)?,
            }
        }
        self.run_kernels(work, batch)?;
        stream.download(&work.memory, pictures.clone(), &mut work.status, 0)?;
        stream.download(&work.memory, cubes, &mut work.status, pictures.len())?;
        work.done.record(stream)
    }

    pub(super) fn run_kernels(&self, work: &SlotWork, batch: &Assembled) -> Result<(), GpuError> {
        self.launches(work, batch).into_iter().try_for_each(|(module, launch)| self.stream.run(module, &launch))
    }

    /// Returns the launches of an uploaded batch with their modules, in order.
    pub(super) fn launches(&self, work: &SlotWork, batch: &Assembled) -> Vec<(&Module, Launch)> {
        let kept = self.shared.store.backing().map_or(0, ResidentMemory::address);
        let launches = batch.launches(kept, work.memory.address(), self.output.address());
        let modules = self.shared.kernels.modules().into_iter().zip(launches);
        let paired = |module, launches: Vec<Launch>| launches.into_iter().map(move |launch| (module, launch));
        modules.flat_map(|(module, launches)| paired(module, launches)).collect()
    }

    /// Makes later work in the stream wait until no consumer uses the previous batch.
    fn wait_for_consumers(&self) -> Result<(), GpuError> {
        let mut consumers = locked(&self.consumers);
        if mem::take(&mut consumers.is_lost) {
            self.shared.device.synchronize()?;
        }
        for event in mem::take(&mut consumers.unused) {
            self.stream.wait(&event)?;
            consumers.spare.push(event);
        }
        Ok(())
    }

    /// Mixes rows of the output. At this point the batch is done and its upload and status words are no longer needed,
    /// so the table of rows uses their memory.
    fn mix_rows(&self, rows: &[Range<usize>], mix: &dyn DeviceMix) -> Result<(), GpuError> {
        let mut work = locked(&self.work);
        self.grow(&mut work, mix.work_bytes(rows))?;
        let SlotWork { memory, status, done, .. } = &mut *work;
        let at = MixMemory { out: self.output.address(), output_bytes: self.output.len(), work: memory.address() };
        let Some(Mixing { launches, table }) = mix.mixing(rows, at) else {
            let (len, count) = (self.output.len() as u64, rows.len() as u64);
            return Err(GpuError::Range { what: "output rows", len, offset: 0, count });
        };
        if status.len() < table.len() {
            *status = Pinned::new(&self.shared.device, table.len())?;
        }
        let kernels = &self.shared.kernels;
        if let Some(to) = status.bytes_mut()?.get_mut(..table.len()) {
            to.copy_from_slice(&table);
        }
        kernels.urgent.upload(status, 0..table.len(), memory, 0)?;
        launches.iter().try_for_each(|launch| kernels.urgent.run(&kernels.mix, launch))?;
        done.record(&kernels.urgent)?;
        done.synchronize()
    }
}

impl Submitted for CudaSlot {
    fn finish(&self) -> Result<Vec<RowFault>, GpuError> {
        locked(&self.work).finish()
    }
}

impl Filled for CudaSlot {
    type Memory = Pinned;

    fn fill(&self) -> &Staging<Pinned> {
        &self.fill
    }
}

impl StageSlot for CudaSlot {
    fn room(&self) -> SlotRoom {
        self.room
    }

    fn device(&self) -> shardpack_loader::stage::DeviceId {
        self.shared.id()
    }

    fn begin(&self, output_bytes: usize) {
        self.fill.begin(output_bytes.min(self.room.output_bytes));
    }

    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.fill.prepare(spot, value, zstd)
    }

    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        room::room_for(self, spot, bytes, step)
    }

    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        match self.shared.store.find(number) {
            Some(tables) => self.fill.prepare_kept(spot, KeptValue { number, tables }, value, zstd),
            None => Prepared::Refused("value is not on the device".into()),
        }
    }

    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()> {
        self.fill.put(spot, bytes)
    }

    fn put_levels(
        &self,
        spot: &Spot,
        elements: &PictureElements,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        self.fill.put_levels(spot, elements, fill)
    }

    fn clear(&self, spot: &Spot) {
        self.fill.clear(spot);
    }

    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket) {
        if let Err(failure) = self.start(host) {
            return ticket.done(Err(failure));
        }
        let completions = self.completions.clone();
        if let Err(SendError(Message::Submitted(_, ticket))) = completions.send(Message::Submitted(self, ticket)) {
            ticket.done(Err(StageFailure::Device(Note::new(
                "the thread that waits for the device has ended unexpectedly; create a new loader",
            ))));
        }
    }

    fn address(&self) -> u64 {
        self.output.address()
    }

    fn used_on(&self, stream: StreamHandle) {
        let mut consumers = locked(&self.consumers);
        if !consumers.streams.contains(&stream) {
            consumers.streams.push(stream);
        }
    }

    fn release(&self) {
        let mut consumers = locked(&self.consumers);
        for stream in mem::take(&mut consumers.streams) {
            let event = consumers.spare.pop().map_or_else(|| Event::new(&self.shared.device), Ok);
            match event.and_then(|event| Ok((event.record_foreign(stream)?, event))) {
                Ok((true, event)) => consumers.unused.push(event),
                // The program that captures the stream will replay it later, and must hold the batch until then.
                Ok((false, event)) => consumers.spare.push(event),
                Err(_) => consumers.is_lost = true,
            }
        }
    }

    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()> {
        self.stream.read(&self.output, from, to).map_err(io::Error::other)
    }

    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()> {
        self.stream.write(bytes, &self.output, to).map_err(io::Error::other)
    }

    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        self.mix_rows(rows, mix).map_err(io::Error::other)
    }

    fn mosaic(&self, rows: &[Range<usize>], mosaic: &RowMosaic) -> io::Result<()> {
        self.mix_rows(rows, mosaic).map_err(io::Error::other)
    }
}

//! A fake stage. A thread plays the device: it decodes late and out of order, but with the host's decoders, so
//! batches must be equal to the host's. It first fills the output with other bytes, so tests notice bytes that are
//! never written.

use super::fake_jobs::Job;
use super::fake_parts::{FakePart, Filling};
use rand_like::Dice;
use shardpack_array::ZstdDecoder;
use shardpack_format::Limits;
use shardpack_jpeg::{PictureDecoder, StoredPicture};
use shardpack_loader::stage::{
    ArrayPart, ArrayValue, DeviceId, FieldRows, FieldSource, FieldSpec, Prepared, RecordValue, RowFault, RowMix,
    RowMosaic, SlotRoom, Spot, Stage, StageFailure, StageSlot, StagedPart, StagedParts, StagedRoom, StreamHandle,
    Ticket,
};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trouble {
    #[default]
    None,
    /// The device is lost at this submission.
    LostAt(u64),
    /// This submission is dropped and never completed.
    DropsAt(u64),
    /// Only this number of slots can be allocated.
    NoMemory(usize),
    /// Slots with more bytes of output than this cannot be allocated.
    NoMoreThan(usize),
    /// Memory for this submission cannot be allocated.
    FullAt(u64),
    /// The device cannot decode values of this length.
    OddOn(usize),
    RefusesAll,
    /// Staging memory for parts is full from the beginning.
    NoRooms,
    /// Preparing this row of every batch panics.
    PanicsOn(u32),
    /// Reserving room for this row of every batch panics.
    PanicsInRoomOf(u32),
    /// This call to `mix` fails.
    MixFailsAt(u64),
}

#[derive(Debug)]
pub struct FakeStage {
    trouble: Trouble,
    queue: Mutex<Option<Sender<Submission>>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub slots: AtomicUsize,
    pub submitted: AtomicU64,
    pub released: AtomicU64,
    pub mixed: AtomicU64,
    /// Number of values that were read into staging memory and prepared there.
    pub shared: AtomicU64,
    pub streams: Mutex<Vec<u64>>,
    pub dropped: Mutex<Vec<String>>,
    pub first: Mutex<Option<Hook>>,
}

pub struct Hook(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

struct Submission {
    slot: Arc<FakeSlot>,
    host: Vec<u8>,
    ticket: Ticket,
}

#[derive(Debug)]
struct FakeSlot {
    room: SlotRoom,
    trouble: Trouble,
    counts: Arc<Counts>,
    /// Number of rooms and parts of this slot that are still in use.
    lent: Arc<AtomicUsize>,
    queue: Sender<Submission>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    out: Vec<u8>,
    jobs: Vec<(Spot, Job)>,
    staged: usize,
    /// Total size in bytes of all rooms so far.
    claimed: usize,
    prepared: u64,
}

impl Default for FakeStage {
    fn default() -> Self {
        Self::with(Trouble::None)
    }
}

impl FakeStage {
    pub fn with(trouble: Trouble) -> Self {
        let (queue, submissions) = channel();
        let thread = std::thread::spawn(move || play(&submissions, trouble));
        Self { trouble, queue: Mutex::new(Some(queue)), thread: Some(thread), counts: Arc::default() }
    }

    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }
}

impl Drop for FakeStage {
    fn drop(&mut self) {
        *self.queue.lock().unwrap() = None;
        // If a consumer still keeps a slot, the slot has its own sender. The thread ends only when that slot is
        // dropped, so it is not joined here.
        drop(self.thread.take());
    }
}

/// Plays the device. Up to two submissions wait, and the later one is completed first.
fn play(submissions: &Receiver<Submission>, trouble: Trouble) {
    let mut dice = Dice(7);
    let mut count = 0;
    while let Ok(first) = submissions.recv() {
        std::thread::sleep(Duration::from_micros(dice.below(1500)));
        let mut waiting = vec![first];
        waiting.extend(submissions.try_recv());
        waiting.reverse();
        for Submission { slot, host, ticket } in waiting {
            count += 1;
            match trouble {
                Trouble::LostAt(at) if count >= at => {
                    ticket.done(Err(StageFailure::Device("the device fell off the bus".into())));
                }
                Trouble::FullAt(at) if count == at => {
                    ticket.done(Err(StageFailure::Batch("9 bytes needed, 5 free on the device".into())));
                }
                Trouble::DropsAt(at) if count == at => drop(ticket),
                _ => {
                    let faults = slot.run(&host);
                    drop(slot);
                    ticket.done(Ok(faults));
                }
            }
        }
    }
}

impl Stage for FakeStage {
    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 3 }
    }

    fn takes(&self, field: &FieldSpec<'_>) -> bool {
        !matches!(field.source, FieldSource::Other | FieldSource::Array { part: Some(ArrayPart::Voxels(_)), .. })
    }

    fn shares(&self, example: &RecordValue<'_>) -> bool {
        matches!(example, RecordValue::Array { array, .. } if array.descriptor.shape.len() > 1)
    }

    fn staged_bytes(&self, _: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        rows.record_bytes
    }

    fn device_bytes(&self, room: &SlotRoom) -> u64 {
        (room.output_bytes + room.staged_bytes) as u64
    }

    fn host_bytes(&self, room: &SlotRoom) -> u64 {
        room.staged_bytes as u64
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        let made = self.counts.slots.load(Ordering::Relaxed);
        let is_full = match self.trouble {
            Trouble::NoMemory(most) => made >= most,
            Trouble::NoMoreThan(most) => room.output_bytes > most,
            _ => false,
        };
        if is_full {
            return Err(io::Error::other("no memory on the device: 3 bytes wanted, 2 free"));
        }
        self.counts.slots.fetch_add(1, Ordering::Relaxed);
        let queue = self.queue.lock().unwrap().clone().unwrap();
        let (trouble, counts) = (self.trouble, self.counts());
        let lent = Arc::default();
        Ok(Arc::new(FakeSlot { room: *room, trouble, counts, lent, queue, inner: Mutex::default() }))
    }
}

impl StageSlot for FakeSlot {
    fn device(&self) -> DeviceId {
        DeviceId { kind: 2, number: 3 }
    }

    fn room(&self) -> SlotRoom {
        self.room
    }

    fn begin(&self, output_bytes: usize) {
        let mut inner = self.inner.lock().unwrap();
        assert!(output_bytes <= self.room.output_bytes, "within the requested room");
        assert_eq!(self.lent.load(Ordering::Acquire), 0, "the slot is still being filled");
        *inner = Inner { out: std::mem::take(&mut inner.out), ..Inner::default() };
        inner.out.resize(output_bytes, 0);
        inner.out.fill(0xA5);
    }

    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, _: &mut ZstdDecoder) -> Prepared {
        assert!(self.trouble != Trouble::PanicsOn(spot.row), "the driver is broken");
        let mut inner = self.inner.lock().unwrap();
        inner.prepared += 1;
        if self.trouble == Trouble::RefusesAll {
            return Prepared::Refused("the device is tired".into());
        }
        if inner.prepared % 7 == 3 {
            return Prepared::Refused("one of seven".into());
        }
        let (job, bytes, size) = match *value {
            RecordValue::Picture { picture, how, changes, dtype, scaling, .. } => {
                let mut decoder = PictureDecoder::new(Limits::default());
                let mut levels = vec![0; spot.bytes.len() / dtype.bytes() as usize];
                // A real device would read only the header. This stage decodes the picture to find out whether to
                // refuse it.
                let Ok(decoded) = decoder.decode_into(&picture, how, &mut levels) else {
                    return Prepared::Refused("damaged".into());
                };
                let (how, scaling, changes) = (*how, *scaling, changes.to_vec());
                let StoredPicture { media_type, bytes, .. } = picture;
                let (media_type, copy) = (media_type.into(), bytes.to_vec());
                let job = Job::Picture { media_type, bytes: copy, how, changes, dtype, scaling };
                (job, bytes.len(), Some([decoded.height, decoded.width]))
            }
            RecordValue::Array { array, finish, noise, memo: _ } => {
                let ArrayValue { codec, bytes, .. } = array;
                let region = match array.part {
                    Some(ArrayPart::Voxels(_)) => panic!("this stage takes no volumes"),
                    Some(ArrayPart::Region(region)) => Some(region.clone()),
                    None => None,
                };
                let (descriptor, limits) = (array.descriptor.clone(), array.limits.clone());
                let finish = Box::new(finish.clone());
                let job = Job::Array { codec, descriptor, bytes: bytes.to_vec(), region, finish, noise, limits };
                (job, bytes.len(), None)
            }
            RecordValue::Mask { array, view } => {
                let ArrayValue { codec, bytes, .. } = array;
                let Some(ArrayPart::Region(region)) = array.part else { panic!("a mask has a region") };
                let size = [view.rows.len(), view.columns.len()].map(|side| side as u32);
                let (descriptor, region, limits) = (array.descriptor.clone(), region.clone(), array.limits.clone());
                let view = Box::new(view.clone());
                let job = Job::Mask { codec, descriptor, bytes: bytes.to_vec(), region, view, limits };
                (job, bytes.len(), Some(size))
            }
        };
        inner.staged += bytes;
        assert!(inner.staged <= self.room.staged_bytes, "staging memory has the requested size");
        inner.jobs.push((spot.clone(), job));
        Prepared::Taken(size)
    }

    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        assert!(self.trouble != Trouble::PanicsInRoomOf(spot.row), "the driver is broken");
        {
            let mut inner = self.inner.lock().unwrap();
            if self.trouble == Trouble::NoRooms || inner.claimed + bytes > self.room.staged_bytes {
                return None;
            }
            inner.claimed += bytes;
        }
        let whole = Filling::new(&self.lent, bytes.div_ceil(step));
        let part = |number: usize| {
            let bytes = vec![0xA5; step.min(bytes - number * step)];
            Box::new(FakePart { number, bytes, home: Arc::clone(&whole) }) as Box<dyn StagedPart>
        };
        let parts = (0..bytes.div_ceil(step)).map(part).collect();
        let room = FakeRoom { spot: spot.clone(), slot: self, filling: whole, bytes: OnceLock::new() };
        Some(StagedParts { room: Box::new(room), parts })
    }

    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(bytes.len(), spot.bytes.len());
        self.inner.lock().unwrap().jobs.push((spot.clone(), Job::Bytes(bytes.to_vec())));
        Ok(())
    }

    fn clear(&self, spot: &Spot) {
        let mut inner = self.inner.lock().unwrap();
        inner.jobs.retain(|(other, _)| other != spot);
        inner.jobs.push((spot.clone(), Job::Zero));
    }

    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket) {
        self.counts.submitted.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.lent.load(Ordering::Acquire), 0, "the submitted slot is still being filled");
        let queue = self.queue.clone();
        queue.send(Submission { slot: self, host: host.to_vec(), ticket }).expect("the device runs");
    }

    fn address(&self) -> u64 {
        0x1000
    }

    fn used_on(&self, stream: StreamHandle) {
        self.counts.streams.lock().unwrap().push(stream.handle());
    }

    fn release(&self) {
        self.counts.released.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()> {
        let inner = self.inner.lock().unwrap();
        let range = Range { start: from, end: from + to.len() };
        to.copy_from_slice(inner.out.get(range).ok_or_else(|| io::Error::other("outside of the output"))?);
        Ok(())
    }

    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        let range = Range { start: to, end: to + bytes.len() };
        let to = inner.out.get_mut(range).ok_or_else(|| io::Error::other("outside of the output"))?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        let before = self.counts.mixed.fetch_add(1, Ordering::Relaxed);
        if self.trouble == Trouble::MixFailsAt(before) {
            return Err(io::Error::other("no memory to mix in"));
        }
        mix.apply(rows, &mut self.inner.lock().unwrap().out);
        Ok(())
    }

    fn mosaic(&self, rows: &[Range<usize>], mosaic: &RowMosaic) -> io::Result<()> {
        self.counts.mixed.fetch_add(1, Ordering::Relaxed);
        mosaic.apply(rows, &mut self.inner.lock().unwrap().out, 1);
        Ok(())
    }
}

#[derive(Debug)]
struct FakeRoom {
    spot: Spot,
    slot: Arc<FakeSlot>,
    filling: Arc<Filling>,
    bytes: OnceLock<Vec<u8>>,
}

impl StagedRoom for FakeRoom {
    fn bytes(&self) -> Option<&[u8]> {
        let parts = self.filling.parts.lock().unwrap();
        let all = parts.iter().all(Option::is_some);
        all.then(|| self.bytes.get_or_init(|| parts.iter().flatten().flatten().copied().collect()).as_slice())
    }

    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        let RecordValue::Array { array, .. } = *value else { panic!("only arrays are read into staging memory") };
        assert!(std::ptr::eq(array.bytes, self.bytes().unwrap()), "the bytes that are here");
        self.slot.counts.shared.fetch_add(1, Ordering::Relaxed);
        self.slot.prepare(&self.spot, value, zstd)
    }
}

impl Drop for FakeRoom {
    fn drop(&mut self) {
        self.filling.lent.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for FakeSlot {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.counts.dropped.lock().unwrap().push(name);
    }
}

impl FakeSlot {
    fn run(&self, host: &[u8]) -> Vec<RowFault> {
        if let Some(Hook(hook)) = self.counts.first.lock().unwrap().take() {
            hook();
        }
        let mut inner = self.inner.lock().unwrap();
        let Inner { out, jobs, .. } = &mut *inner;
        out[..host.len()].copy_from_slice(host);
        let odd = match self.trouble {
            Trouble::OddOn(bytes) => Some(bytes),
            _ => None,
        };
        let mut faults = Vec::new();
        for (spot, job) in jobs.drain(..) {
            let to = &mut out[spot.bytes.clone()];
            if let Err(reason) = job.decode(odd, to) {
                // The output of an odd value may contain anything.
                to.fill(0x77);
                faults.push(RowFault { row: spot.row, field: spot.field, reason: reason.into() });
            }
        }
        faults
    }
}

mod rand_like {
    pub struct Dice(pub u64);

    impl Dice {
        pub fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }
}

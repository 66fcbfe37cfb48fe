//! Streams all samples in stored order.

use crate::ahead::Onward;
use crate::buffers::{Buffers, RUNS_IN_FLIGHT};
use crate::check::Crc;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::fetch::slice;
use crate::owned_record::{OwnedRecord, whole};
use crate::sample::{RecordView, Sample};
use crate::scratch::room;
use crate::shard::Shard;
use shardpack_format::{Error as FormatError, FRAME_BYTES, bug, to_usize};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum size of a run of several records. From the page cache, runs of 1 MiB streamed 1.2 times as fast as
/// runs of 4 MiB, because they are still in the CPU cache when their CRC32s are computed. From a disk, the size makes
/// little difference, because the kernel reads ahead.
const RUN_BYTES: u64 = 1 << 20;
/// Number of reading threads. With a single thread, computing CRC32s would make streaming slower than a plain read
/// loop.
const READERS: usize = 2;

#[derive(Debug)]
struct Place {
    shard: Arc<Shard>,
    /// Dataset index of the shard's first sample.
    first: u64,
    records: Range<u64>,
}

/// A run that was read, or an error. Errors also occupy a buffer, so the number of pending errors is limited too.
#[derive(Debug)]
struct Delivery {
    /// Position of this delivery in dataset order, counted from 0.
    number: u64,
    buffer: Vec<u8>,
    /// Size that the buffer was requested for, in bytes.
    bytes: u64,
    run: Result<Run>,
}

#[derive(Debug)]
struct Run {
    place: Place,
    start: u64,
    bytes: usize,
    /// CRC32 of each record. Empty if CRC32s are not checked.
    crcs: Vec<u32>,
    first_record: u64,
}

#[derive(Debug)]
struct Current {
    run: Run,
    buffer: Vec<u8>,
    bytes: u64,
}

struct NextRecord<'a> {
    current: &'a Current,
    /// Memory for the records of the sample in the columns files.
    added: &'a mut Vec<Option<OwnedRecord>>,
    /// Index of the record in its shard.
    record: u64,
}

/// Streams a dataset in stored order. Records are borrowed rather than copied: [`Stream::next_record`] returns
/// views into the current run.
///
/// Two threads take turns reading runs ahead of the caller. They compute the CRC32s while the bytes are in the CPU
/// cache. The caller's thread only walks through the records. The runs are read into a few recycled buffers, which take
/// up to 24 MiB, or four times the largest record if that is more, plus the bytes that the storage reads ahead
/// ([`Dataset::read_ahead_bytes`]). Records in columns files are read one at a time, by the caller's thread.
///
/// ```no_run
/// use shardpack_reader::Dataset;
/// let mut stream = Dataset::open("train")?.stream()?;
/// let mut bytes = 0;
/// while let Some(record) = stream.next_record() {
///     bytes += record?.record_bytes().len();
/// }
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    full: Option<Receiver<Delivery>>,
    empty: Arc<Buffers>,
    threads: Vec<JoinHandle<()>>,
    /// Deliveries that arrived before an earlier run.
    early: BTreeMap<u64, Delivery>,
    next: u64,
    current: Option<Current>,
    /// The records of the last sample in the columns files.
    added: Vec<Option<OwnedRecord>>,
}

impl Dataset {
    /// Starts reading all samples in stored order.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub fn stream(&self) -> Result<Stream> {
        let (full_in, full) = sync_channel(RUNS_IN_FLIGHT);
        let empty = Arc::new(Buffers::default());
        let onward = Onward::new(self);
        let plan = Plan { dataset: self.clone(), slot: 0, shard: None, number: 0, read: 0, onward };
        let plan = Arc::new(Mutex::new(plan));
        // If a thread cannot be started, dropping the stream ends the threads that are already running.
        let (threads, early, added) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut stream = Stream { full: Some(full), empty, threads, early, next: 0, current: None, added };
        for reader in 0..READERS {
            let (plan, full, empty) = (Arc::clone(&plan), full_in.clone(), Arc::clone(&stream.empty));
            let thread = std::thread::Builder::new()
                .name(format!("shardpack-read-{reader}"))
                .spawn(move || read_ahead(&plan, &full, &empty))
                .map_err(|e| Error::io(self.path(), "start a read-ahead thread", e))?;
            stream.threads.push(thread);
        }
        Ok(stream)
    }

    /// Iterates over all samples in stored order. Like [`Dataset::stream`], but copies each sample, so that it
    /// owns its bytes.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub fn iter(&self) -> Result<Samples> {
        Ok(Samples(self.stream()?))
    }
}

struct Plan {
    dataset: Dataset,
    slot: usize,
    shard: Option<(Place, u64)>,
    number: u64,
    /// Total bytes of all runs planned so far.
    read: u64,
    onward: Option<Onward>,
}

struct Job {
    number: u64,
    buffer: Vec<u8>,
    bytes: u64,
    place: Result<Place>,
}

impl Plan {
    /// Plans the next run. Returns `None` at the end of the dataset or once the consumer is gone.
    ///
    /// Takes buffers in delivery order, so that later runs cannot occupy all buffers while the next run waits for one.
    fn job(&mut self, empty: &Buffers) -> Option<Job> {
        let (place, bytes) = self.place()?;
        self.read = self.read.saturating_add(bytes);
        if let Some(onward) = &mut self.onward {
            onward.reach(self.read);
        }
        let buffer = empty.take(bytes)?;
        let number = self.number;
        self.number += 1;
        Some(Job { number, buffer, bytes, place })
    }

    /// Ends the plan after a panic, which may have left it inconsistent. Returns a last job with the error.
    fn broken(&mut self, panic: &(dyn Any + Send)) -> Job {
        (self.slot, self.shard) = (usize::MAX, None);
        let number = self.number;
        self.number += 1;
        let error = FormatError::panicked("opening a shard", panic);
        Job { number, buffer: Vec::new(), bytes: 0, place: Err(error.into()) }
    }

    fn place(&mut self) -> Option<(Result<Place>, u64)> {
        loop {
            if let Some((place, next)) = &mut self.shard
                && *next < place.records.end
            {
                let shard = Arc::clone(&place.shard);
                let records = run_from(&shard, *next, RUN_BYTES);
                *next = records.end;
                let bytes = shard.span(&records).map_or(0, |span| span.end - span.start);
                return Some((Ok(Place { shard, first: place.first, records }), bytes));
            }
            let slot = self.dataset.0.slots.get(self.slot)?;
            let shard = match self.dataset.shard(self.slot) {
                Ok(shard) => shard,
                Err(e) => {
                    (self.slot, self.shard) = (self.slot + 1, None);
                    return Some((Err(e), 0));
                }
            };
            self.slot += 1;
            if let Ok(handle) = shard.file().handle() {
                handle.advise_sequential();
            }
            let records = 0..shard.len();
            self.shard = Some((Place { shard, first: slot.first, records }, 0));
        }
    }
}

/// Reads runs until the dataset ends or the consumer is gone.
///
/// A panic becomes the error of the current run, because otherwise the consumer would wait forever for that run.
fn read_ahead(plan: &Mutex<Plan>, full: &SyncSender<Delivery>, empty: &Buffers) {
    loop {
        let job = {
            let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
            match catch_unwind(AssertUnwindSafe(|| plan.job(empty))) {
                Ok(job) => job,
                Err(panic) => Some(plan.broken(&*panic)),
            }
        };
        let Some(Job { number, mut buffer, bytes, place }) = job else { return };
        let run = place.and_then(|place| {
            let read = catch_unwind(AssertUnwindSafe(|| read_run(place, &mut buffer)));
            read.unwrap_or_else(|panic| Err(FormatError::panicked("reading a run", &*panic).into()))
        });
        if full.send(Delivery { number, buffer, bytes, run }).is_err() {
            return;
        }
    }
}

/// Returns the longest run of records starting at `first` that fits into `run_bytes`, but at least
/// one record.
pub(crate) fn run_from(shard: &Shard, first: u64, run_bytes: u64) -> Range<u64> {
    let index = shard.index();
    let start = index.row(first).map_or(0, |row| row.offset);
    let mut end = first.saturating_add(1);
    while index.row(end).is_some_and(|row| row.offset.saturating_add(row.length) - start <= run_bytes) {
        end += 1;
    }
    first..end
}

fn read_run(place: Place, buffer: &mut Vec<u8>) -> Result<Run> {
    let Place { shard, records, .. } = &place;
    // Check every record. If the limit is smaller than a run, even a run of several records may contain one
    // that exceeds it.
    records.clone().try_for_each(|record| shard.check_length(record))?;
    let span = shard.span(records)?;
    let bytes = room(buffer, span.end - span.start)?;
    shard.file().read_exact_at(bytes, span.start)?;
    let crcs = match shard.crc() {
        Crc::Compute => {
            records.clone().map(|record| body_crc(shard, record, span.start, bytes)).collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    let (first_record, bytes) = (records.start, bytes.len());
    Ok(Run { place, start: span.start, bytes, crcs, first_record })
}

fn body_crc(shard: &Shard, record: u64, start: u64, run: &[u8]) -> Result<u32> {
    let length = to_usize(shard.row(record)?.length);
    let padded = slice(shard, record, start, run)?;
    let frame = to_usize(FRAME_BYTES);
    let body = padded.get(frame..length);
    Ok(crc32fast::hash(body.unwrap_or_else(|| bug("a row that is no shorter than a frame"))))
}

impl Stream {
    /// Returns the next record, or `None` at the end. After an error, the stream continues with the next
    /// record, run or shard.
    ///
    /// # Errors
    /// `Io` if a run cannot be read, `Format` if a record or a shard is damaged, `Limit` if a record or a
    /// shard is too large.
    pub fn next_record(&mut self) -> Option<Result<RecordView<'_>>> {
        Some(self.advance()?.and_then(|NextRecord { current, added, record }| {
            *added = current.run.place.shard.added(record)?;
            current.view(record, added)
        }))
    }

    fn advance(&mut self) -> Option<Result<NextRecord<'_>>> {
        while self.current.as_ref().is_none_or(|current| current.run.place.records.is_empty()) {
            if let Some(current) = self.current.take() {
                self.empty.give(current.buffer, current.bytes);
            }
            let Delivery { buffer, bytes, run, .. } = self.receive()?;
            match run {
                Ok(run) => self.current = Some(Current { run, buffer, bytes }),
                Err(e) => {
                    self.empty.give(buffer, bytes);
                    return Some(Err(e));
                }
            }
        }
        // Do not return `None` here, because it would end the stream early.
        let next = self.current.as_mut().and_then(|current| {
            let record = current.run.place.records.next()?;
            Some(NextRecord { current: &*current, added: &mut self.added, record })
        });
        Some(Ok(next.unwrap_or_else(|| bug("a run with a record left"))))
    }

    fn receive(&mut self) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(delivery);
            }
            match self.full.as_ref()?.recv() {
                Ok(delivery) => drop(self.early.insert(delivery.number, delivery)),
                Err(_) if self.early.is_empty() => return None,
                Err(_) => {
                    // An earlier delivery is missing. Report it instead of silently skipping its run.
                    self.early.clear();
                    let run = Err(Error::internal(format!("no thread is left to read run {}", self.next), "", ""));
                    return Some(Delivery { number: self.next, buffer: Vec::new(), bytes: 0, run });
                }
            }
        }
    }
}

impl Current {
    fn view<'a>(&'a self, record: u64, added: &'a [Option<OwnedRecord>]) -> Result<RecordView<'a>> {
        let shard = &self.run.place.shard;
        let padded = self.padded(record)?;
        let parsed = shard.check(record, padded, self.crc(record))?;
        let length = to_usize(parsed.frame.record_bytes);
        let bytes = whole(padded, length);
        Ok(RecordView::new(self.index(record), record, parsed, bytes, added, shard))
    }

    fn sample(&self, record: u64) -> Result<Sample> {
        let shard = &self.run.place.shard;
        let padded = self.padded(record)?;
        let own = OwnedRecord::copied(shard, record, padded, self.crc(record))?;
        Sample::of(self.index(record), record, shard, own)
    }

    fn index(&self, record: u64) -> u64 {
        self.run.place.first.saturating_add(record)
    }

    fn crc(&self, record: u64) -> Crc {
        let at = to_usize(record - self.run.first_record);
        self.run.crcs.get(at).map_or_else(|| self.run.place.shard.crc(), |crc| Crc::Known(*crc))
    }

    fn padded(&self, record: u64) -> Result<&[u8]> {
        slice(&self.run.place.shard, record, self.run.start, self.buffer.get(..self.run.bytes).unwrap_or_default())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The threads end when they next send a delivery or wait for a buffer, because both channel and buffers are
        // closed.
        let Some(full) = self.full.take() else { return };
        self.empty.close();
        // A hanging read must not block the caller. Wait as long as a slow disk might need, then leave the threads to
        // end on their own.
        let mut patience = 100;
        loop {
            match full.recv_timeout(Duration::from_millis(10)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if patience == 0 => return,
                Err(RecvTimeoutError::Timeout) => patience -= 1,
            }
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Iterator over all samples of a dataset in stored order. Each sample owns its bytes.
#[derive(Debug)]
pub struct Samples(Stream);

impl Iterator for Samples {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.advance()?.and_then(|NextRecord { current, record, .. }| current.sample(record)))
    }
}

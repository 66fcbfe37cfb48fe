//! All samples in stored order, by large reads that run ahead of the consumer in a thread of their own.

use crate::buffers::{Buffers, RUNS_IN_FLIGHT};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::fetch::slice;
use crate::sample::{Parts, RecordView, Sample};
use crate::shard::{Shard, room};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of consecutive records that one read fetches. A record larger than that is a run of its own. From the page cache 1 MiB streamed at 1.2 times the
/// rate of 4 MiB, because a run is still in the cache when its CRC32 is computed; from a disk the kernel reads ahead all the same.
const RUN_BYTES: u64 = 1 << 20;

/// Consecutive records of one shard, in memory.
#[derive(Debug)]
struct Run {
    shard: Arc<Shard>,
    /// Index of the shard's first sample.
    first: u64,
    records: Range<u64>,
    start: u64,
    buffer: Vec<u8>,
    bytes: usize,
}

/// Streams a dataset in stored order. Records are lent, not copied: [`Stream::next_record`] hands out views into the run that was read.
///
/// A few buffers of a run each are recycled between the thread that reads and the caller; CRC32s are compared in the caller's thread, one record at a
/// time, so that its bytes are in the cache when it is handed out. Memory: up to 24 MiB, or four times the largest record.
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
    full: Option<Receiver<Result<Run>>>,
    empty: Arc<Buffers>,
    thread: Option<JoinHandle<()>>,
    current: Option<Run>,
}

impl Dataset {
    /// Begins to read all samples in stored order.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub fn stream(&self) -> Result<Stream> {
        let (full_in, full) = sync_channel(RUNS_IN_FLIGHT);
        let empty = Arc::new(Buffers::default());
        let for_thread = Arc::clone(&empty);
        let dataset = self.clone();
        let thread = std::thread::Builder::new()
            .name("shardpack-read".into())
            .spawn(move || read_ahead(&dataset, &full_in, &for_thread))
            .map_err(|e| Error::io(self.path(), "start a thread to read", e))?;
        Ok(Stream { full: Some(full), empty, thread: Some(thread), current: None })
    }

    /// All samples in stored order, each owning its bytes: [`Dataset::stream`] at the price of one copy.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub fn iter(&self) -> Result<Samples> {
        Ok(Samples(self.stream()?))
    }
}

/// Runs in its own thread until the dataset ends or the consumer is gone.
fn read_ahead(dataset: &Dataset, full: &SyncSender<Result<Run>>, empty: &Buffers) {
    for (number, slot) in dataset.0.slots.iter().enumerate() {
        let shard = match dataset.shard(number) {
            Ok(shard) => shard,
            Err(e) => match full.send(Err(e)) {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        if let Ok(handle) = shard.file().handle() {
            handle.advise_sequential();
        }
        let mut next = 0;
        while next < shard.len() {
            let records = run_from(&shard, next, RUN_BYTES);
            next = records.end;
            let bytes = shard.span(&records).map_or(0, |span| span.end - span.start);
            let Some(mut buffer) = empty.take(bytes) else { return };
            let run = match read_run(&shard, &records, &mut buffer) {
                Ok((start, bytes)) => {
                    Ok(Run { shard: Arc::clone(&shard), first: slot.first, records, start, buffer, bytes })
                }
                Err(e) => {
                    empty.give(buffer, bytes);
                    Err(e)
                }
            };
            if full.send(run).is_err() {
                return;
            }
        }
    }
}

/// The records from `first` on that fit into `run_bytes`; at least one.
pub(crate) fn run_from(shard: &Shard, first: u64, run_bytes: u64) -> Range<u64> {
    let index = shard.index();
    let start = index.row(first).map_or(0, |row| row.offset);
    let mut end = first.saturating_add(1);
    while index.row(end).is_some_and(|row| row.offset.saturating_add(row.length) - start <= run_bytes) {
        end += 1;
    }
    first..end
}

fn read_run(shard: &Shard, records: &Range<u64>, buffer: &mut Vec<u8>) -> Result<(u64, usize)> {
    // Only a run of one record can be over the limit, unless the limit is below the size of a run: then every record counts.
    records.clone().try_for_each(|record| shard.check_length(record))?;
    let span = shard.span(records)?;
    let bytes = room(buffer, span.end - span.start)?;
    shard.file().read_exact_at(bytes, span.start)?;
    Ok((span.start, bytes.len()))
}

impl Stream {
    /// The next record, or `None` at the end. After an error the stream goes on with the next record, run or shard.
    ///
    /// # Errors
    /// `Io` if a run cannot be read, `Format` if a record or a shard is damaged, `Limit` if one is too large.
    pub fn next_record(&mut self) -> Option<Result<RecordView<'_>>> {
        let (run, record) = match self.advance()? {
            Ok(place) => place,
            Err(e) => return Some(Err(e)),
        };
        Some(run.view(record))
    }

    /// Moves to the next record: the run that holds it and its number in the shard.
    fn advance(&mut self) -> Option<Result<(&Run, u64)>> {
        while self.current.as_ref().is_none_or(|run| run.records.is_empty()) {
            if let Some(run) = self.current.take() {
                self.empty.give(run.buffer, run.bytes as u64);
            }
            match self.full.as_ref()?.recv() {
                Ok(Ok(run)) => self.current = Some(run),
                Ok(Err(e)) => return Some(Err(e)),
                // The thread is done.
                Err(_) => return None,
            }
        }
        let run = self.current.as_mut()?;
        let record = run.records.next()?;
        Some(Ok((run, record)))
    }
}

impl Run {
    fn view(&self, record: u64) -> Result<RecordView<'_>> {
        let padded = self.padded(record)?;
        let parsed = self.shard.check(record, padded, self.shard.crc())?;
        let length = usize::try_from(parsed.frame.record_bytes).unwrap_or(usize::MAX);
        let bytes = padded.get(..length).unwrap_or_default();
        Ok(RecordView::new(self.first.saturating_add(record), record, parsed, bytes, &self.shard))
    }

    fn sample(&self, record: u64) -> Result<Sample> {
        let padded = self.padded(record)?;
        let parts = Parts::of(&self.shard.check(record, padded, self.shard.crc())?, padded);
        let own = padded.get(..parts.record_bytes()).unwrap_or_default().to_vec();
        Ok(Sample::new(self.first.saturating_add(record), record, Arc::clone(&self.shard), parts, own))
    }

    fn padded(&self, record: u64) -> Result<&[u8]> {
        slice(&self.shard, record, self.start, self.buffer.get(..self.bytes).unwrap_or_default())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The thread notices at its next send, or when no buffer comes back.
        let Some(full) = self.full.take() else { return };
        self.empty.close();
        // A read that hangs must not hang the caller: wait for it as long as a disk that is slow, then let the thread end by itself.
        let mut patience = 100;
        loop {
            match full.recv_timeout(Duration::from_millis(10)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if patience == 0 => return,
                Err(RecvTimeoutError::Timeout) => patience -= 1,
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All samples of a dataset in stored order, each owning its bytes.
#[derive(Debug)]
pub struct Samples(Stream);

impl Iterator for Samples {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.advance()?.and_then(|(run, record)| run.sample(record)))
    }
}

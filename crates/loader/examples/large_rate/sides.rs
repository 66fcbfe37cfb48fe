//! Compares loaders with each other and with the limits of the machine, on the same records.

use crate::Outcome;
use crate::cube::median;
use rustix::time::{ClockId, clock_gettime};
use shardpack_array::ArrayDecoder;
use shardpack_format::{ArrayDescriptor, Codec, FieldKind, Limits};
use shardpack_loader::order::End;
use shardpack_loader::{Loader, LoaderOptions};
use shardpack_reader::Dataset;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

type Own = Mutex<(ArrayDecoder, Vec<u8>)>;
type Work = fn(&Stored, &mut ArrayDecoder, &mut Vec<u8>) -> Outcome<()>;

/// Number of bytes per read, as in the loader.
const STEP_BYTES: usize = 256 << 10;

pub(crate) struct Stored {
    codec: Codec,
    plain: ArrayDescriptor,
    payload: Vec<u8>,
    file: PathBuf,
    offset: u64,
    pub(crate) record_bytes: usize,
}

/// One workload of the comparison. In each round, it processes all records once.
pub(crate) struct Side<'a> {
    pub(crate) name: String,
    /// Computed memory traffic per record in bytes, or 0 if the table does not show it.
    pub(crate) crossing: u64,
    lap: Box<dyn Fn() -> Outcome<()> + 'a>,
    laps: Vec<[f64; 2]>,
}

impl<'a> Side<'a> {
    fn new(name: &str, lap: impl Fn() -> Outcome<()> + 'a) -> Self {
        Self { name: name.into(), crossing: 0, lap: Box::new(lap), laps: Vec::new() }
    }

    pub(crate) fn crossing(self, crossing: u64) -> Self {
        Self { crossing, ..self }
    }

    pub(crate) fn loader(name: &str, dataset: &Dataset, options: LoaderOptions) -> Outcome<Self> {
        let loader = RefCell::new(Loader::open(dataset, options.end(End::Uneven).begins_ahead(false))?);
        Ok(Self::new(name, move || epoch(&mut loader.borrow_mut())))
    }

    /// Returns a side that decodes payloads in memory, one per thread, without undoing the differences between bands.
    pub(crate) fn alone(name: &str, stored: &'a [Stored], threads: usize) -> Self {
        Self::by(name, stored, decode, threads)
    }

    /// Returns a side that only reads records. Each thread has one buffer.
    pub(crate) fn read(name: &str, stored: &'a [Stored], threads: usize) -> Self {
        Self::by(name, stored, read, threads)
    }

    /// Same as [`Side::read`], but also computes the CRC32 of each step while it is in the cache.
    pub(crate) fn read_checked(name: &str, stored: &'a [Stored], threads: usize) -> Self {
        Self::by(name, stored, read_checked, threads)
    }

    fn by(name: &str, stored: &'a [Stored], work: Work, threads: usize) -> Self {
        let own: Vec<Own> = (0..threads).map(|_| Own::default()).collect();
        Self::new(name, move || in_turn(stored, &own, work))
    }

    /// Returns the median rate in records per second, for rounds of `records` records, and the
    /// median CPU time per record in milliseconds.
    pub(crate) fn medians(&self, records: usize) -> [f64; 2] {
        let [seconds, cpu] = [0, 1].map(|k| median(self.laps.iter().map(|lap| lap[k]).collect()));
        [records as f64 / seconds, 1e3 * cpu / records as f64]
    }
}

pub(crate) fn measure(sides: &mut [Side<'_>], rounds: usize) -> Outcome<()> {
    for round in 0..=rounds {
        for side in &mut *sides {
            let (start, cpu) = (Instant::now(), cpu_seconds());
            (side.lap)()?;
            if round > 0 {
                side.laps.push([start.elapsed().as_secs_f64(), cpu_seconds() - cpu]);
            }
        }
    }
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

pub(crate) fn stored(dataset: &Dataset) -> Outcome<Vec<Stored>> {
    let fields = dataset.schema().fields();
    let field = fields.iter().find(|field| field.kind == FieldKind::Array).ok_or("no array in the dataset")?;
    let position = dataset.schema().stored_position(&field.name).ok_or("no array in the records")?;
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    for number in 0..dataset.shards().len() {
        let shard = dataset.shard(number)?;
        for record in 0..shard.len() {
            let row = shard.row(record)?;
            let value = shard.record(record, &mut buffer)?.fields.get(position).copied().flatten();
            let value = value.ok_or("a sample without the array")?;
            let descriptor = ArrayDescriptor::parse(value.descriptor, &Limits::default())?;
            all.push(Stored {
                codec: value.codec,
                plain: ArrayDescriptor::plain(descriptor.stored, descriptor.shape),
                payload: value.bytes.to_vec(),
                file: shard.path().to_owned(),
                offset: row.offset,
                record_bytes: usize::try_from(row.length)?,
            });
        }
    }
    Ok(all)
}

fn epoch(loader: &mut Loader) -> Outcome<()> {
    loader.set_epoch(loader.state().epoch + 1)?;
    while let Some(batch) = loader.next_batch() {
        batch?;
    }
    Ok(())
}

fn room(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    buffer.get_mut(..bytes).unwrap_or_default()
}

fn decode(stored: &Stored, decoder: &mut ArrayDecoder, buffer: &mut Vec<u8>) -> Outcome<()> {
    let out = room(buffer, usize::try_from(stored.plain.decoded_bytes()?)?);
    Ok(decoder.decode_into(stored.codec, &stored.plain, &stored.payload, out, &Limits::default())?)
}

fn read(stored: &Stored, _: &mut ArrayDecoder, buffer: &mut Vec<u8>) -> Outcome<()> {
    Ok(File::open(&stored.file)?.read_exact_at(room(buffer, stored.record_bytes), stored.offset)?)
}

fn read_checked(stored: &Stored, _: &mut ArrayDecoder, buffer: &mut Vec<u8>) -> Outcome<()> {
    let (file, mut at, mut crc) = (File::open(&stored.file)?, stored.offset, crc32fast::Hasher::new());
    for step in room(buffer, stored.record_bytes).chunks_mut(STEP_BYTES) {
        file.read_exact_at(step, at)?;
        crc.update(step);
        at += step.len() as u64;
    }
    std::hint::black_box(crc.finalize());
    Ok(())
}

/// Processes all records. Each idle thread takes the next one.
fn in_turn(stored: &[Stored], own: &[Own], work: Work) -> Outcome<()> {
    let next = AtomicUsize::new(0);
    let take = |own: &Own| -> Result<(), String> {
        let (decoder, buffer) = &mut *own.lock().map_err(|error| error.to_string())?;
        while let Some(stored) = stored.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(stored, decoder, buffer).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = own.iter().map(|own| scope.spawn(|| take(own))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(())
}

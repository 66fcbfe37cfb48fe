//! What the loader reaches on large records, in parts and by one thread each, beside what the
//! machine can do with the same records.
//!
//! `cargo run --release -p shardpack-loader --example large_rate -- DATASET [THREADS [BATCH
//! [ROUNDS [WANTED]]]]`
//!
//! `WANTED` is what the loaders make of the arrays: `stored` (default, nothing), `normalised` (mean and
//! standard deviation of each band, bfloat16), `first` (bands first), `flipped` (at random), `patch`
//! (64 × 64 pixels).
//!
//! Medians of `ROUNDS` (default 5), all sides in turn in each, after a round that does not count.
//! Loaders go on from epoch to epoch. Of a dataset with one array in a record: *alone* decodes the
//! payloads in memory as they are, one a thread (no differences undone, no types changed, no reads,
//! no CRC); *read* only reads the records, on as many threads, each into one buffer of its own;
//! *read, one thread* does it on one. Processor time is what other programs disturb least.
#![allow(clippy::print_stdout, reason = "a program")]

use rustix::time::{ClockId, clock_gettime};
use shardpack_array::ArrayDecoder;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, FieldKind, Limits};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::End;
use shardpack_loader::{ArrayDtype, Augment, CubeMode, Factors, Loader, LoaderOptions, Place};
use shardpack_reader::Dataset;
use std::cell::RefCell;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Own = Mutex<(ArrayDecoder, Vec<u8>)>;
type Work = fn(&Stored, &mut ArrayDecoder, &mut Vec<u8>) -> Outcome<()>;
type Side<'a> = (String, Box<dyn Fn() -> Outcome<()> + 'a>);

/// A payload in memory, and the same bytes in a file.
struct Stored {
    codec: Codec,
    plain: ArrayDescriptor,
    payload: Vec<u8>,
    file: PathBuf,
    offset: u64,
    record_bytes: usize,
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("usage: large_rate DATASET [THREADS [BATCH [ROUNDS [WANTED]]]]")?);
    let cores = std::thread::available_parallelism()?.get();
    let threads: usize = args.next().map_or(Ok(cores), |n| n.parse())?;
    let batch = args.next().map_or(Ok(4), |n| n.parse())?;
    let rounds = args.next().map_or(Ok(5), |n| n.parse())?;
    let wanted = args.next().unwrap_or_else(|| "stored".into());
    let dataset = Dataset::open(&path)?;
    let stored = stored(&dataset)?;
    let load = |part_bytes| -> Outcome<_> {
        let options = LoaderOptions { batch_size: batch, threads, part_bytes, end: End::Uneven, ..options(&wanted)? };
        let loader = RefCell::new(Loader::open(&dataset, options)?);
        Ok(move || epoch(&mut loader.borrow_mut()))
    };
    let own: Vec<Own> = (0..threads).map(|_| Own::default()).collect();
    let share = |work: Work, threads: usize| {
        let (stored, own) = (&stored, own.get(..threads).unwrap_or_default());
        move || in_turn(stored, own, work)
    };
    let default = LoaderOptions::default().part_bytes;
    let sides: [Side<'_>; 7] = [
        ("loader, one thread a record".into(), Box::new(load(usize::MAX)?)),
        ("loader, parts of 256 KiB".into(), Box::new(load(256 << 10)?)),
        ("loader, parts by default".into(), Box::new(load(default)?)),
        ("loader, parts of 4 MiB".into(), Box::new(load(4 << 20)?)),
        ("alone".into(), Box::new(share(decode, threads))),
        ("read".into(), Box::new(share(read, threads))),
        ("read, one thread".into(), Box::new(share(read, 1))),
    ];
    let mut laps: Vec<Vec<[f64; 2]>> = vec![Vec::new(); sides.len()];
    for round in 0..=rounds {
        for ((_, side), laps) in sides.iter().zip(&mut laps) {
            let (start, cpu) = (Instant::now(), cpu_seconds());
            side()?;
            if round > 0 {
                laps.push([start.elapsed().as_secs_f64(), cpu_seconds() - cpu]);
            }
        }
    }
    let count = dataset.len() as f64;
    let megabytes = stored.iter().map(|stored| stored.record_bytes).sum::<usize>() as f64 / 1e6 / count;
    println!("{count} records of {megabytes:.1} MB, {threads} threads, batches of {batch}, median of {rounds}");
    for ((name, _), laps) in sides.iter().zip(&laps) {
        let [wall, cpu] = [0, 1].map(|k| median(laps.iter().map(|lap| lap[k]).collect()));
        println!("{name:30} {:8.1} a second {:8.2} ms of processor time each", count / wall, 1e3 * cpu / count);
    }
    Ok(())
}

/// What the loaders make of arrays.
fn options(wanted: &str) -> Outcome<LoaderOptions> {
    let plain = LoaderOptions::default();
    Ok(match wanted {
        "stored" => plain,
        "normalised" => {
            let factors = Factors::new(&[0.5], &[2.0])?;
            let normalise = vec![("cube".to_owned(), factors)];
            LoaderOptions { normalise, dtype: ArrayDtype::Cubes(ElementType::Bf16), ..plain }
        }
        "first" => LoaderOptions { layout: PixelLayout::ChannelsHeightWidth, ..plain },
        "flipped" => {
            let augment = Augment { flip_rows: true, flip_columns: true, rotate: false };
            LoaderOptions { augment, ..plain }
        }
        "patch" => {
            let cube = CubeMode::Patch { height: 64, width: 64, place: Place::Random };
            LoaderOptions { cube, ..plain }
        }
        other => return Err(format!("`{other}`: expected stored, normalised, first, flipped or patch").into()),
    })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn stored(dataset: &Dataset) -> Outcome<Vec<Stored>> {
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

/// The next epoch.
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

/// All records, by threads that take the next one each, with memory that they keep.
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

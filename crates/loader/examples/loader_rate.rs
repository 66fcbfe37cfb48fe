//! Measures the loader on a dataset of JPEGs. For comparison, also measures the limits of the machine: the
//! same decoder, with the same number of threads, on pictures in memory, and a plain loop that reads the
//! files.
//!
//! `cargo run --release -p shardpack-loader --example loader_rate -- DATASET [THREADS] [ROUNDS]
//! [cold]`
//!
//! Results are medians of `ROUNDS` rounds (default 5) after a warm-up round. Each round runs all measurements in
//! turn. Loaders are opened once and continue from epoch to epoch, as in training. The decoder alone is `JpegDecoder`
//! on encoded pictures, with one buffer per thread. A whole picture is one call to libjpeg-turbo. The last column
//! compares CPU time, which other programs affect less.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_format::Limits;
use shardpack_jpeg::{DrawKey, JpegDecoder, Rendering, View};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ImageMode, Loader, LoaderOptions, LoaderStats};
use shardpack_reader::Dataset;
use std::cell::RefCell;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Run {
    samples: u64,
    bytes: u64,
    stats: Option<LoaderStats>,
}

type Measure<'a> = (&'static str, Box<dyn Fn() -> Outcome<Run> + 'a>);

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("usage: loader_rate DATASET [THREADS] [ROUNDS] [cold]")?);
    let cores = std::thread::available_parallelism()?.get();
    let threads: usize = args.next().map_or(Ok(cores), |n| n.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let cold = args.next().is_some_and(|arg| arg == "cold");
    let dataset = Dataset::open(&path)?;
    let folder = if path.is_dir() { path.clone() } else { path.parent().map(PathBuf::from).unwrap_or_default() };
    let files: Vec<PathBuf> = dataset.shards().map(|shard| folder.join(shard.name)).collect();
    let pictures = dataset
        .iter()?
        .map(|sample| Ok(sample?.image("image")?.bytes.to_vec()))
        .collect::<Result<Vec<Vec<u8>>, shardpack_reader::Error>>()?;

    let crop = View::random_resized_crop(224).with_flip(0.5);
    let load = |image, mode| -> Outcome<_> {
        let loader = RefCell::new(open(&dataset, image, mode, threads)?);
        Ok(move || load(&mut loader.borrow_mut()))
    };
    let alone = |view| {
        let pictures = &pictures;
        move || decode_alone(pictures, view, threads)
    };
    let measures: [Measure<'_>; 8] = [
        ("decoder alone, whole", Box::new(alone(View::whole()))),
        ("loader, whole", Box::new(load(ImageMode::View(View::whole()), Mode::Windowed)?)),
        ("decoder alone, crop 224", Box::new(alone(crop))),
        ("loader, crop 224", Box::new(load(ImageMode::View(crop), Mode::Windowed)?)),
        ("plain read loop, 1 thread", Box::new(|| read_plainly(&files))),
        ("loader, raw, windowed", Box::new(load(ImageMode::Raw, Mode::Windowed)?)),
        ("plain read loop, again", Box::new(|| read_plainly(&files))),
        ("loader, raw, stored", Box::new(load(ImageMode::Raw, Mode::Stored)?)),
    ];
    let mut rates: Vec<Vec<(f64, f64)>> = vec![Vec::new(); measures.len()];
    let mut last: Vec<Option<LoaderStats>> = vec![None; measures.len()];
    let mut used = vec![0.0; measures.len()];
    for round in 0..=rounds {
        for ((((_, measure), rates), last), used) in measures.iter().zip(&mut rates).zip(&mut last).zip(&mut used) {
            if cold {
                for number in 0..dataset.shards().len() {
                    dataset.shard(number)?.file().handle()?.drop_cached();
                }
            }
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let run = measure()?;
            let seconds = start.elapsed().as_secs_f64();
            if round > 0 {
                *used += cpu_seconds() - cpu;
                rates.push((run.bytes as f64 / 1e6 / seconds, run.samples as f64 / seconds));
            }
            *last = run.stats;
        }
    }
    println!("{} samples, {threads} threads, median of {rounds}", dataset.len());
    let (mut limit, mut limit_used) = (f64::NAN, f64::NAN);
    for (i, ((((name, _), rates), stats), used)) in measures.iter().zip(&mut rates).zip(&last).zip(used).enumerate() {
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (megabytes, samples) = rates.get(rates.len() / 2).copied().unwrap_or_default();
        if i % 2 == 0 {
            (limit, limit_used) = (megabytes, used);
        }
        println!(
            "{name:28} {samples:9.0} samples/s {megabytes:9.0} MB/s  {:5.2} of the limit; by processor time {:5.2}",
            megabytes / limit,
            limit_used / used
        );
        if let Some(stats) = stats {
            println!(
                "    read {:.3} s, CRC {:.3}, decode {:.3}; idle for data {:.3}, for the consumer {:.3}; consumer \
                 waited {:.3}; queue {:.1}; peak {:.0} MB of predicted {:.0} MB + the rest of the process",
                stats.read_s,
                stats.crc_s,
                stats.decode_s,
                stats.idle_for_data_s,
                stats.idle_for_consumer_s,
                stats.consumer_wait_s,
                stats.queue_fill,
                stats.peak_rss_bytes as f64 / 1e6,
                stats.predicted_bytes as f64 / 1e6,
            );
        }
    }
    Ok(())
}

fn open(dataset: &Dataset, image: ImageMode, mode: Mode, threads: usize) -> Outcome<Loader> {
    let options = LoaderOptions::default()
        .batch_size(64)
        .image(image)
        .mode(mode)
        .threads(threads)
        .end(End::Uneven)
        .begins_ahead(false)
        .fields(["image", "label"]);
    Ok(Loader::open(dataset, options)?)
}

fn load(loader: &mut Loader) -> Outcome<Run> {
    loader.set_epoch(loader.state().epoch + 1)?;
    let (mut samples, mut bytes) = (0, 0);
    while let Some(batch) = loader.next_batch() {
        let batch = batch?;
        samples += batch.len() as u64;
        let image = batch.field("image").ok_or("no image")?;
        bytes += (0..batch.len()).filter_map(|i| image.row(i)).map(|row| row.len() as u64).sum::<u64>();
    }
    Ok(Run { samples, bytes, stats: Some(loader.stats()) })
}

/// Returns the CPU time of the process in seconds, to the nearest 10 ms. Other programs affect it less than elapsed
/// time.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may contain spaces. User time and system time are fields 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn decode_alone(pictures: &[Vec<u8>], view: View, threads: usize) -> Outcome<Run> {
    let next = AtomicUsize::new(0);
    let bytes = std::thread::scope(|scope| {
        let work = || -> shardpack_format::Result<u64> {
            let mut decoder = JpegDecoder::new(&Limits::default());
            let mut out = Vec::new();
            let mut bytes = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(jpeg) = pictures.get(number) else { return Ok(bytes) };
                let (height, width) = match view.size() {
                    Some(size) => size,
                    None => decoder.size_of(jpeg, 1)?,
                };
                let length = 3 * height as usize * width as usize;
                if out.len() < length {
                    out.resize(length, 0);
                }
                let key = DrawKey { seed: 0, epoch: 0, sample: number as u64 };
                let rendering = Rendering { view, key, ..Default::default() };
                decoder.decode_into(jpeg, &rendering, out.get_mut(..length).unwrap_or_default())?;
                bytes += length as u64;
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_fold(0, |sum, thread| match thread.join() {
            Ok(bytes) => Ok::<u64, Box<dyn Error>>(sum + bytes?),
            Err(_) => Err("a thread panicked".into()),
        })
    })?;
    Ok(Run { samples: pictures.len() as u64, bytes, stats: None })
}

fn read_plainly(files: &[PathBuf]) -> Outcome<Run> {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    for path in files {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => bytes += n as u64,
            }
        }
    }
    Ok(Run { samples: 0, bytes, stats: None })
}

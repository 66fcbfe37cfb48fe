//! Streams a dataset, and compares the rate with a plain read loop over the same files.
//!
//! `cargo run --release -p shardpack-reader --example stream -- DATASET [ROUNDS] [cold]`
//!
//! The rates are medians over `ROUNDS` rounds (default: 5), which alternate between both ways of reading. The
//! files are read from the page cache or, with `cold`, dropped from it before each measurement.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_reader::{Dataset, VerifyOptions, verify};
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Measure<'a> = (&'static str, Box<dyn Fn() -> Result<u64, Box<dyn Error>> + 'a>);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("usage: stream DATASET [ROUNDS] [cold]")?);
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let cold = args.next().is_some_and(|arg| arg == "cold");
    let dataset = Dataset::open(&path)?;
    let folder = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new(".")) };
    let files: Vec<PathBuf> = dataset.shards().map(|shard| folder.join(shard.name)).collect();

    let verify_with = |threads| {
        let path = &path;
        move || {
            let report = verify(path, &VerifyOptions { threads, ..VerifyOptions::default() })?;
            if report.is_whole() { Ok(report.bytes) } else { Err("the dataset is damaged".into()) }
        }
    };
    let measures: [Measure<'_>; 5] = [
        ("plain read loop, 1 MiB", Box::new(|| plain_loop(&files))),
        ("stream, records lent", Box::new(|| stream(&dataset))),
        ("iter, records owned", Box::new(|| iterate(&dataset))),
        ("verify, 1 thread", Box::new(verify_with(1))),
        ("verify, all cores", Box::new(verify_with(0))),
    ];
    let mut rates = vec![Vec::new(); measures.len()];
    for _ in 0..rounds {
        for ((_, measure), rates) in measures.iter().zip(&mut rates) {
            if cold {
                files.iter().try_for_each(|path| forget(path))?;
            }
            let start = Instant::now();
            let bytes = measure()?;
            rates.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
    }
    let mut plain = None;
    for ((name, _), rates) in measures.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let median = rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN);
        let base = *plain.get_or_insert(median);
        let best = rates.last().copied().unwrap_or(f64::NAN);
        println!("{name:24} {median:9.0} MB/s (best {best:6.0})  {:5.2} of the plain loop", median / base);
    }
    Ok(())
}

/// Drops a file from the page cache. The file must not have any unwritten changes.
#[cfg(target_os = "linux")]
fn forget(path: &Path) -> Result<(), Box<dyn Error>> {
    Ok(rustix::fs::fadvise(File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &Path) -> Result<(), Box<dyn Error>> {
    Err("this system has no call that drops a file from the page cache".into())
}

fn plain_loop(files: &[PathBuf]) -> Result<u64, Box<dyn Error>> {
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
    Ok(bytes)
}

fn stream(dataset: &Dataset) -> Result<u64, Box<dyn Error>> {
    let mut stream = dataset.stream()?;
    let mut bytes = 0;
    while let Some(record) = stream.next_record() {
        bytes += record?.record().frame.padded_bytes();
    }
    Ok(bytes)
}

fn iterate(dataset: &Dataset) -> Result<u64, Box<dyn Error>> {
    dataset.iter()?.try_fold(0, |bytes, sample| Ok(bytes + sample?.record_bytes().len() as u64))
}

//! Compares the memory of a loader with its prediction, for one epoch in a process that does nothing else.
//!
//! `cargo run --release -p shardpack-loader --example loader_memory -- DATASET full|crop|raw
//! [BATCH_SIZE] [THREADS]`
//!
//! The measured figure is the growth of the process's peak memory from before the loader is opened, when the
//! dataset's index is already in memory, to the end of the epoch.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_jpeg::View;
use shardpack_loader::{CubeMode, ImageMode, Loader, LoaderOptions};
use shardpack_reader::Dataset;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: loader_memory DATASET full|crop|raw [BATCH_SIZE] [THREADS]";
    let dataset = Dataset::open(args.next().ok_or(usage)?)?;
    let (image, cube) = match args.next().as_deref() {
        Some("full") => (ImageMode::View(View::whole()), CubeMode::Whole),
        Some("crop") => (ImageMode::View(View::random_resized_crop(224)), CubeMode::Whole),
        Some("raw") => (ImageMode::Raw, CubeMode::Raw),
        _ => return Err(usage.into()),
    };
    let batch_size = args.next().map_or(Ok(64), |n| n.parse())?;
    let threads = args.next().map_or(Ok(0), |n| n.parse())?;
    for number in 0..dataset.shards().len() {
        dataset.shard(number)?;
    }
    let before = resident_bytes();
    let mut loader = Loader::open(
        &dataset,
        LoaderOptions::default().image(image).cube(cube).batch_size(batch_size).threads(threads),
    )?;
    while let Some(batch) = loader.next_batch() {
        batch?;
    }
    let stats = loader.stats();
    let grown = stats.peak_rss_bytes.saturating_sub(before) as f64;
    println!(
        "predicted {:.1} MB, grown by {:.1} MB: {:.2} of the prediction; runs {:.1} MB at most, {} slots grown, {} extra",
        stats.predicted_bytes as f64 / 1e6,
        grown / 1e6,
        grown / stats.predicted_bytes as f64,
        stats.peak_run_bytes as f64 / 1e6,
        stats.grown_slots,
        stats.extra_slots,
    );
    Ok(())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

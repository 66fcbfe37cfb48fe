//! How much of a short epoch its boundary takes: whole pictures, many epochs one after the other,
//! each by the usual loop.
//!
//! `cargo run --release -p shardpack-loader --example short_epochs -- DATASET [EPOCHS] [BATCH] [THREADS]`
//!
//! Prints pictures a second of all epochs together, and what an epoch took.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions, View};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: short_epochs DATASET [EPOCHS] [BATCH] [THREADS]")?;
    let mut number = |default: u32| args.next().map_or(Ok(default), |text| text.parse());
    let (epochs, batch_size, threads) = (number(200)?, number(16)?, number(0)?);
    let image = ImageMode::View(View::random_resized_crop(224, 224));
    let options = LoaderOptions { batch_size, threads: threads as usize, image, ..Default::default() };
    let mut loader = Loader::open(&Dataset::open(path)?, options)?;
    // Two that do not count: the page cache is filled, and one epoch has followed another.
    let mut start = Instant::now();
    let mut pictures = 0_usize;
    for epoch in 0..epochs + 2 {
        loader.set_epoch(epoch)?;
        if epoch == 2 {
            (start, pictures) = (Instant::now(), 0);
        }
        while let Some(batch) = loader.next_batch() {
            pictures += batch?.len();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.0} pictures/s, {:.3} ms an epoch", pictures as f64 / seconds, 1e3 * seconds / f64::from(epochs));
    Ok(())
}

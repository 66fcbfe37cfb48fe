//! Measures how much of a short epoch is lost at its boundary, by loading many consecutive epochs of picture
//! crops in the usual loop.
//!
//! `cargo run --release -p shardpack-loader --example short_epochs -- DATASET [EPOCHS] [BATCH] [THREADS]`
//!
//! Two loaders take turns, one with `begins_ahead` and one without. Before each round, batches that the first
//! loader has prepared are discarded, so that neither loader works during the other's turn. Prints both
//! medians in pictures per second, and their ratio.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions, View};
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: short_epochs DATASET [EPOCHS] [BATCH] [THREADS]")?;
    let mut number = |default: u32| args.next().map_or(Ok(default), |text| text.parse());
    let (epochs, batch_size, threads) = (number(50)?, number(16)?, number(0)? as usize);
    let image = ImageMode::View(View::random_resized_crop(224));
    let dataset = Dataset::open(path)?;
    let open = |begins_ahead| {
        Loader::open(
            &dataset,
            LoaderOptions::default().batch_size(batch_size).threads(threads).image(image).begins_ahead(begins_ahead),
        )
    };
    let (mut ahead, mut asked) = (open(true)?, open(false)?);
    let (mut rates_ahead, mut rates_asked) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let rates = [rate(&mut ahead, epochs)?, rate(&mut asked, epochs)?];
        if round > 0 {
            rates_ahead.push(rates[0]);
            rates_asked.push(rates[1]);
        }
    }
    let (ahead, asked) = (median(rates_ahead), median(rates_asked));
    println!("begun ahead: {ahead:.0} pictures/s; begun when asked for: {asked:.0}; ratio {:.2}", ahead / asked);
    Ok(())
}

/// Returns the rate in pictures per second over `epochs` epochs. The first of them is not started early.
fn rate(loader: &mut Loader, epochs: u32) -> Result<f64, shardpack_loader::Error> {
    let first = loader.current_epoch() + 2;
    loader.set_epoch(first)?;
    let (start, mut pictures) = (Instant::now(), 0_usize);
    for epoch in first..first + epochs {
        loader.set_epoch(epoch)?;
        while let Some(batch) = loader.next_batch() {
            pictures += batch?.len();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    // Discard the next epoch, which the loader has started early.
    loader.set_epoch(first)?;
    Ok(pictures as f64 / seconds)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

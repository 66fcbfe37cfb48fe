//! A training loop that loads random crops in batches and resumes from a state file.
//!
//! `cargo run --release -p shardpack-loader --example train -- DATASET [EPOCHS] [STATE.json]`
//!
//! Stop it in the middle of an epoch and start it again: no sample is repeated or skipped.
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions, View};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: train DATASET [EPOCHS] [STATE.json]")?;
    let epochs: u32 = args.next().map_or(Ok(3), |count| count.parse())?;
    let state = args.next().unwrap_or_else(|| "state.json".into());

    let image = ImageMode::View(View::random_resized_crop(224).with_flip(0.5));
    let options = LoaderOptions::default().batch_size(4).image(image);
    let mut loader = Loader::open(&Dataset::open(path)?, options)?;
    if let Ok(text) = std::fs::read_to_string(&state) {
        loader.restore(&serde_json::from_str(&text)?)?;
    }
    for epoch in loader.current_epoch()..epochs {
        loader.set_epoch(epoch)?;
        while let Some(batch) = loader.next_batch() {
            let batch = batch?;
            // Here the model would train on the bytes of each field.
            let fields = batch.fields().map(|field| format!("{} {:?} {}", field.name(), field.shape(), field.dtype()));
            println!("epoch {epoch}: {}", fields.collect::<Vec<_>>().join(", "));
            // From time to time, save the state together with the model's weights.
            std::fs::write(&state, serde_json::to_string(&loader.state())?)?;
        }
    }
    Ok(())
}

//! Times the operations on one core: microseconds for a picture of 224 × 224, and nanoseconds for a value of a gamma.
//!
//! `cargo run --release -p shardpack-augment --example rates [ROUNDS]`
//!
//! Prints the shortest time of ROUNDS (default 50) for each operation.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use shardpack_augment::{BandAugmentation, ChangeScratch, Operation, Picture};
use shardpack_base::DrawKey;
use std::error::Error;
use std::time::Instant;

const SIDE: usize = 224;
const VALUES: usize = 64 * 64 * 64;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(50), |n| n.parse::<u32>())?;
    let mut pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|n| (n as u32).wrapping_mul(2_654_435_761) as u8).collect();
    let mut scratch = ChangeScratch::default();
    let operations = [
        ("brightness", Operation::Brightness(1.1)),
        ("contrast", Operation::Contrast(1.2)),
        ("saturation", Operation::Saturation(1.2)),
        ("hue", Operation::Hue(0.05)),
        ("grayscale", Operation::Grayscale),
        ("sharpness", Operation::Sharpness(1.5)),
        ("autocontrast", Operation::AutoContrast),
        ("equalize", Operation::Equalize),
        ("blur of 9", Operation::Blur { size: 9, sigma: 1.5 }),
        ("blur of 23", Operation::Blur { size: 23, sigma: 1.5 }),
    ];
    for (name, operation) in operations {
        let best = best_of(rounds, || {
            let mut picture = Picture::new(&mut pixels, SIDE, SIDE)?;
            operation.apply(&mut picture, &mut scratch);
            Ok(())
        })?;
        println!("{name:<12} {:8.0} µs", 1e6 * best);
    }
    let recipe: [BandAugmentation; 1] = ["random_gamma(gamma=1.4..1.4)".parse()?];
    let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
    let gamma = BandAugmentation::gamma(&recipe, &draws).ok_or("no gamma was drawn")?;
    let mut values: Vec<f32> = (0..VALUES).map(|n| (n % 977) as f32 / 977.0).collect();
    let best = best_of(rounds, || {
        gamma.change([0.0, 1.0], None, &mut values);
        Ok(())
    })?;
    println!("{:<12} {:8.1} ns a value", "gamma", 1e9 * best / VALUES as f64);
    Ok(())
}

fn best_of(rounds: u32, mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

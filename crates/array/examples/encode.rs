//! Times a trial, and compares encoding an array with running only the Blosc2 compressor on the elements to be
//! stored. The cube is synthetic (480 × 640 × 100 float32).
//!
//! `cargo run --release -p shardpack-array --example encode [ROUNDS]` prints the medians of ROUNDS rounds (default
//! 5). The trial is measured in wall time on all cores, and the rest in CPU time of one thread. The two ways of
//! encoding take turns.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{SHAPE, median, now, synthetic};
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArrayOptions, ArraySettings, Coder, Filter, ValueRule, trial};
use shardpack_format::Dtype;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |n| n.parse())?;
    let cube = synthetic()?;
    let mb = cube.bytes().len() as f64 / 1e6;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        trial(&[(&cube, None)], &ArrayOptions::default())?;
        times.push(start.elapsed().as_secs_f64());
    }
    println!("trial of auto: {:.0} ms", median(times) * 1e3);
    println!("{:<72} {:>8} {:>8} {:>6}", "settings", "ms", "alone ms", "times");
    let max_error = 5e-4;
    for values in [ValueRule::Keep, ValueRule::F16, ValueRule::Fixed { max_error }] {
        for (band_difference, layout) in
            [(false, ArrayLayout::AsShape), (true, ArrayLayout::AsShape), (true, ArrayLayout::BandMajor)]
        {
            for (coder, level) in [(Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1))] {
                let settings = ArraySettings { values, coder, level, filter: Filter::Shuffle, band_difference, layout };
                if band_difference && values == ValueRule::Keep {
                    continue;
                }
                let stored = stored_elements(settings, &cube)?;
                let plain = ArraySettings {
                    values: ValueRule::Keep,
                    band_difference: false,
                    layout: ArrayLayout::AsShape,
                    ..settings
                };
                let mut sides = [(ArrayEncoder::new(settings)?, &cube), (ArrayEncoder::new(plain)?, &stored)];
                let mut times = [vec![], vec![]];
                let mut buffer = Vec::new();
                // The first round is a warm-up and does not count.
                for round in 0..=rounds {
                    for ((encoder, array), times) in sides.iter_mut().zip(&mut times) {
                        let start = now();
                        buffer = encoder.encode_reusing(array, None, std::mem::take(&mut buffer))?.payload;
                        if round > 0 {
                            times.push(now() - start);
                        }
                    }
                }
                let [whole, alone] = times.map(median);
                println!(
                    "{:<72} {:>8.1} {:>8.1} {:>6.2}  {:.0} MB/s",
                    settings.to_string(),
                    whole * 1e3,
                    alone * 1e3,
                    whole / alone,
                    mb / whole
                );
            }
        }
    }
    Ok(())
}

/// Returns the elements that an encoder with the given settings would pass to its coder, as an array that can be stored
/// unchanged.
fn stored_elements(settings: ArraySettings, cube: &Array) -> Result<Array, Box<dyn Error>> {
    let raw = ArraySettings { coder: Coder::Raw, level: None, filter: Filter::None, ..settings };
    let encoded = ArrayEncoder::new(raw)?.encode(cube, None)?;
    // The elements are differences or bit patterns. As plain integers of the same size, they pass
    // through the encoder unchanged.
    let dtype = match encoded.descriptor.stored.bytes() {
        1 => Dtype::U8,
        2 => Dtype::U16,
        _ => Dtype::U32,
    };
    Ok(Array::new(dtype, SHAPE.to_vec(), encoded.payload)?)
}

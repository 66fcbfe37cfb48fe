//! Compares the time to decode a patch of a synthetic cube (480 × 640 × 100 float16) with the time to decode the whole
//! cube.
//!
//! `cargo run --release -p shardpack-array --example region_rate [PATCH [BANDS [ROUNDS]]]` decodes patches at random
//! places. A patch has PATCH × PATCH pixels (default 64) and the first BANDS bands (default all 100). The program
//! prints the medians of ROUNDS rounds (default 9). Each round measures the CPU time of one thread for 40 patches or 5
//! whole cubes. Kernels that count CPU time in ticks report it in steps of 4 ms, which is too coarse for a single
//! patch.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{SHAPE, median, now, synthetic};
use shardpack_array::{
    ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Bands, Coder, Filter, Output, Region, ValueRule,
};
use shardpack_format::{Layout, Limits};
use std::error::Error;

const BATCH: u32 = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|n| n.parse::<u64>());
    let patch = numbers.next().transpose()?.unwrap_or(64);
    let bands = numbers.next().transpose()?.unwrap_or(SHAPE[2]);
    let rounds = numbers.next().transpose()?.unwrap_or(9);
    let cube = synthetic()?;
    let mb = (patch * patch * bands * 2) as f64 / 1e6;
    println!("{patch} × {patch} pixels, {bands} bands: {mb:.2} MB of float16");
    println!("{:<64} {:>9} {:>7} {:>9} {:>6}  out", "stored as", "patch µs", "blocks", "whole µs", "times");
    for (coder, level) in
        [(Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1)), (Coder::Zstd, Some(3)), (Coder::Raw, None)]
    {
        for (layout, band_difference) in [
            (ArrayLayout::AsShape, false),
            (ArrayLayout::AsShape, true),
            (ArrayLayout::BandMajor, false),
            (ArrayLayout::BandMajor, true),
        ] {
            if !coder.has_filters() && layout == ArrayLayout::BandMajor {
                // This patch touches every 4 MiB unit, so decoding it saves nothing.
                continue;
            }
            let filter = if coder.has_filters() { Filter::Shuffle } else { Filter::None };
            let settings = ArraySettings { values: ValueRule::F16, coder, level, filter, band_difference, layout };
            let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
            let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
            let limits = Limits::default();
            let whole = Region { output: Output::Stored, ..Region::whole(descriptor)? };
            let mut whole_out = vec![0; usize::try_from(whole.shape_of(descriptor)?.bytes)?];
            let mut decoder = ArrayDecoder::new();
            let mut whole_time = 0.0;
            for _ in 0..2 {
                let start = now();
                for _ in 0..5 {
                    decoder.decode_region(codec, descriptor, payload, &whole, &mut whole_out, &limits)?;
                }
                whole_time = (now() - start) / 5.0;
            }
            for (output, order) in [
                (Output::Stored, Layout::AsShape),
                (Output::Stored, Layout::BandMajor),
                (Output::Source, Layout::AsShape),
            ] {
                let mut region =
                    Region { output, layout: order, bands: Bands::Range(0..bands), ..Region::new(0, 0, patch, patch) };
                let mut out = vec![0; usize::try_from(region.shape_of(descriptor)?.bytes)?];
                let (mut times, mut share, mut state) = (Vec::new(), 0.0, 1_u64);
                let mut below = |end: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % (end + 1)
                };
                for _ in 0..rounds {
                    let start = now();
                    for _ in 0..BATCH {
                        (region.y, region.x) = (below(SHAPE[0] - patch), below(SHAPE[1] - patch));
                        let done = decoder.decode_region(codec, descriptor, payload, &region, &mut out, &limits)?;
                        share += done.blocks_decoded as f64 / done.blocks.max(1) as f64;
                    }
                    times.push((now() - start) / f64::from(BATCH));
                }
                share /= rounds as f64 * f64::from(BATCH);
                let time = median(times);
                println!(
                    "{:<64} {:>9.0} {:>6.1}% {:>9.0} {:>6.1}  {} {}",
                    settings.to_string(),
                    time * 1e6,
                    share * 100.0,
                    whole_time * 1e6,
                    whole_time / time,
                    if output == Output::Stored { "float16" } else { "float32" },
                    if order == Layout::AsShape { "[h, w, c]" } else { "[c, h, w]" },
                );
            }
        }
    }
    Ok(())
}

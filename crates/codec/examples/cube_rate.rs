//! Times decoding a whole synthetic cube of 480 × 640 × 100 as the loader does it, against the coder alone on the same bytes.
//!
//! `cargo run --release -p shardpack-codec --example cube_rate [ROUNDS]`: medians of ROUNDS (default 9), in processor time of one thread. *Alone* is what the
//! payload decodes to without what makes values of it: the differences along the bands, the order of the axes, the element type.
#![allow(clippy::print_stdout)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{SHAPE, median, now, synthetic};
use shardpack_codec::{ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule, decoded_as};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(9), |n| n.parse::<u32>())?;
    let cube = synthetic()?;
    println!("ms of one core for a cube of {SHAPE:?}");
    println!("{:<64} {:>6} {:>8} {:>8} {:>7}", "stored as", "alone", "float16", "float32", "alone ÷ float16");
    for (coder, level, filter) in [
        (Coder::Blosc2Lz4, None, Filter::Shuffle),
        (Coder::Blosc2Lz4, None, Filter::Bitshuffle),
        (Coder::Blosc2Zstd, Some(1), Filter::Shuffle),
        (Coder::Zstd, Some(3), Filter::None),
        (Coder::Raw, None, Filter::None),
    ] {
        for (layout, band_difference) in [
            (ArrayLayout::AsShape, false),
            (ArrayLayout::AsShape, true),
            (ArrayLayout::BandMajor, false),
            (ArrayLayout::BandMajor, true),
        ] {
            let settings = ArraySettings { values: ValueRule::F16, coder, level, filter, band_difference, layout };
            let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
            let plain = ArrayDescriptor::plain(Dtype::F16, SHAPE.to_vec());
            let float16 = decoded_as(&encoded.descriptor, Dtype::F16).ok_or("the cube is float16")?;
            let sides = [&plain, &float16, &encoded.descriptor];
            let mut decoder = ArrayDecoder::new();
            let mut outs = Vec::new();
            for side in sides {
                outs.push(vec![0; usize::try_from(side.decoded_bytes()?)?]);
            }
            let mut times = [const { Vec::new() }; 3];
            // Turn by turn. The first round brings the memory.
            for round in 0..=rounds {
                for ((side, out), times) in sides.iter().zip(&mut outs).zip(&mut times) {
                    let seconds = time(&mut decoder, encoded.codec, side, &encoded.payload, out)?;
                    if round > 0 {
                        times.push(seconds * 1e3);
                    }
                }
            }
            let [alone, float16, float32] = times.map(median);
            let name = settings.to_string();
            println!("{name:<64} {alone:>6.1} {float16:>8.1} {float32:>8.1} {:>7.2}", alone / float16);
        }
    }
    Ok(())
}

fn time(
    decoder: &mut ArrayDecoder,
    codec: Codec,
    descriptor: &ArrayDescriptor,
    payload: &[u8],
    out: &mut [u8],
) -> Result<f64, Box<dyn Error>> {
    let start = now();
    decoder.decode_into(codec, descriptor, payload, out, &Limits::default())?;
    Ok(now() - start)
}

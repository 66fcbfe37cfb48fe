//! Times decoding a whole cube as the loader does, and compares this with decoding only the payload.
//!
//! `cargo run --release -p shardpack-array --example array_rate [ROUNDS [NPY]]` prints the medians of ROUNDS rounds
//! (default 5). Each round decodes three cubes both ways, in turn, and measures the CPU time of one thread. The cube
//! is synthetic (480 × 640 × 100), or `NPY`, a file of little-endian float32. The mode *alone* decodes only the
//! payload. It does not undo differences, reorder axes or convert elements. The example `chunk_rate` times that part in
//! detail.
#![allow(clippy::print_stdout)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{SHAPE, median, now, synthetic};
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule, decoded_as,
};
use shardpack_format::{ArrayDescriptor, Dtype, Limits};
use std::error::Error;

/// Number of cubes per measurement. A single cube is too short to time, because some clocks tick only every 4 ms.
const BATCH: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(5), |n| n.parse::<u32>())?;
    let cube = arguments.next().map_or_else(synthetic, |path| npy(&path))?;
    println!("ms of one core for a cube of {:?}", cube.shape());
    println!("{:<64} {:>6} {:>8} {:>8} {:>16}", "stored as", "alone", "float16", "float32", "alone ÷ float16");
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
            let plain = ArrayDescriptor::plain(Dtype::F16, cube.shape().to_vec());
            let float16 = decoded_as(&encoded.descriptor, Dtype::F16).ok_or("the cube is float16")?;
            let mut decoder = ArrayDecoder::new();
            let mut decode = |descriptor: &ArrayDescriptor, out: &mut [u8]| {
                decoder.decode_into(encoded.codec, descriptor, &encoded.payload, out, &Limits::default())
            };
            let length = usize::try_from(plain.decoded_bytes()?)?;
            let (mut half, mut full) = (vec![0; length], vec![0; 2 * length]);
            let mut times = [const { Vec::new() }; 3];
            // The first round allocates the memory and is not counted.
            for round in 0..=rounds {
                let start = now();
                for _ in 0..BATCH {
                    decode(&plain, &mut half)?;
                }
                let first = now();
                for _ in 0..BATCH {
                    decode(&float16, &mut half)?;
                }
                let second = now();
                for _ in 0..BATCH {
                    decode(&encoded.descriptor, &mut full)?;
                }
                let laps = [first - start, second - first, now() - second];
                if round > 0 {
                    times.iter_mut().zip(laps).for_each(|(times, lap)| times.push(lap * 1e3 / f64::from(BATCH)));
                }
            }
            let [alone, float16, float32] = times.map(median);
            let name = settings.to_string();
            println!("{name:<64} {alone:>6.1} {float16:>8.1} {float32:>8.1} {:>16.2}", alone / float16);
        }
    }
    Ok(())
}

/// Reads an array of shape [`SHAPE`] from the float32 elements after the header line of a `.npy` file.
fn npy(path: &str) -> Result<Array, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let start = bytes.iter().position(|byte| *byte == b'\n').ok_or("no header")? + 1;
    Ok(Array::new(Dtype::F32, SHAPE.to_vec(), bytes.get(start..).unwrap_or_default().to_vec())?)
}

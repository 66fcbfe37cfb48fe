//! Times only the coding and decoding of Blosc2 chunks, for each coder and filter.
//!
//! `cargo run --release -p shardpack-array --example chunk_rate [ROUNDS [WORDS]]` prints the medians of ROUNDS rounds
//! (default 5), in MB of decoded bytes per second of one thread's CPU time. The cube is synthetic (480 × 640 × 100
//! float16), in shape order and without band differences. If `WORDS` is given, only lines that contain it are measured.
#![allow(clippy::print_stdout)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{median, now, synthetic};
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule, decoded_as,
};
use shardpack_format::{Dtype, Limits};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(5), |n| n.parse::<u32>())?;
    let words = arguments.next().unwrap_or_default();
    let cube = halves(&synthetic()?)?;
    println!("MB/s of one core for {:?} float16", cube.shape());
    println!("{:<24} {:>8} {:>8} {:>8}", "chunks of", "encode", "decode", "size");
    for (coder, level) in [
        (Coder::Blosc2Lz4, None),
        (Coder::Blosc2Lz4hc, Some(9)),
        (Coder::Blosc2Zstd, Some(1)),
        (Coder::Blosc2Zstd, Some(5)),
    ] {
        for filter in [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta] {
            let settings = ArraySettings {
                values: ValueRule::Keep,
                coder,
                level,
                filter,
                band_difference: false,
                layout: ArrayLayout::AsShape,
            };
            let level = level.map_or(String::new(), |level| format!(" {level}"));
            let name = format!("{}{level} {filter:?}", coder.name());
            if !name.contains(&words) {
                continue;
            }
            let [encode, decode, size] = rates(settings, &cube, rounds)?;
            println!("{name:<24} {encode:>8.0} {decode:>8.0} {size:>8.3}");
        }
    }
    Ok(())
}

/// Returns the encoding rate, the decoding rate, and the compressed size relative to the original size.
fn rates(settings: ArraySettings, cube: &Array, rounds: u32) -> Result<[f64; 3], Box<dyn Error>> {
    let mut encoder = ArrayEncoder::new(settings)?;
    let mut decoder = ArrayDecoder::new();
    let mut out = vec![0; cube.bytes().len()];
    let megabytes = out.len() as f64 / 1e6;
    let (mut times, mut payload) = ([const { Vec::new() }; 2], Vec::new());
    for _ in 0..rounds {
        let start = now();
        let encoded = encoder.encode_reusing(cube, None, payload)?;
        let between = now();
        decoder.decode_into(encoded.codec, &encoded.descriptor, &encoded.payload, &mut out, &Limits::default())?;
        times.iter_mut().zip([between - start, now() - between]).for_each(|(times, lap)| times.push(lap));
        payload = encoded.payload;
    }
    if out != cube.bytes() {
        return Err("a cube that came back otherwise".into());
    }
    let [encode, decode] = times.map(|times| megabytes / median(times));
    Ok([encode, decode, payload.len() as f64 / 1e6 / megabytes])
}

fn halves(cube: &Array) -> Result<Array, Box<dyn Error>> {
    let settings = ArraySettings {
        values: ValueRule::F16,
        coder: Coder::Raw,
        level: None,
        filter: Filter::None,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    let encoded = ArrayEncoder::new(settings)?.encode(cube, None)?;
    let descriptor = decoded_as(&encoded.descriptor, Dtype::F16).ok_or("the cube is float16")?;
    Ok(ArrayDecoder::new().decode(encoded.codec, &descriptor, &encoded.payload, &Limits::default())?)
}

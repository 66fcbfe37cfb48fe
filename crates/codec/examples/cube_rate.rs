//! Times decoding a whole cube as the loader does it, against c-blosc2 alone on the same chunks.
//!
//! `cargo run --release -p shardpack-codec --example cube_rate [ROUNDS [NPY]]`: medians of ROUNDS (default 5) times three cubes, in processor time of one thread; the
//! sides take turns. The cube is a synthetic one of 480 × 640 × 100, or `NPY`, a file of little-endian float32. *Blosc2* decodes the chunks one after
//! the other into one buffer of 4 MiB and makes nothing of them: no differences undone, no order of the axes, no element type. A payload that is not
//! of Blosc2 chunks has *alone* what it decodes to, as it is.
#![allow(clippy::print_stdout)]

#[path = "shared/cube.rs"]
mod cube;

use cube::{SHAPE, median, now, synthetic};
use shardpack_codec::blosc2::Chunk;
use shardpack_codec::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, UNIT_BYTES, ValueRule, decoded_as,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Limits};
use std::error::Error;
use std::mem::MaybeUninit;

/// Cubes that are timed together: some clocks tick in steps of 4 ms.
const BATCH: u32 = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(5), |n| n.parse::<u32>())?;
    let cube = arguments.next().map_or_else(synthetic, |path| npy(&path))?;
    println!("ms of one core for a cube of {:?}", cube.shape());
    println!("{:<64} {:>6} {:>8} {:>8} {:>16}", "stored as", "Blosc2", "float16", "float32", "Blosc2 ÷ float16");
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
            let mut alone = Alone::new()?;
            let mut times = [const { Vec::new() }; 3];
            // Turn by turn. The first round brings the memory.
            for round in 0..=rounds {
                let start = now();
                for _ in 0..BATCH {
                    match encoded.codec {
                        Codec::Blosc2 => alone.decode(&encoded.payload, length)?,
                        _ => decode(&plain, &mut half)?,
                    }
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

/// c-blosc2, as anyone would call it.
struct Alone {
    decoder: blosc2::chunk::Decoder,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Alone {
    fn new() -> Result<Self, Box<dyn Error>> {
        let decoder = blosc2::chunk::Decoder::new(blosc2::DParams::default())?;
        Ok(Self { decoder, buffer: vec![MaybeUninit::uninit(); UNIT_BYTES] })
    }

    /// Decodes chunks of elements of two bytes that hold `length` bytes together.
    fn decode(&mut self, mut payload: &[u8], length: usize) -> Result<(), Box<dyn Error>> {
        for start in (0..length).step_by(UNIT_BYTES) {
            let chunk = Chunk::parse(payload, 2, UNIT_BYTES.min(length - start))?;
            self.decoder.decompress_into(chunk.bytes(), &mut self.buffer)?;
            payload = payload.get(chunk.bytes().len()..).unwrap_or_default();
        }
        Ok(())
    }
}

/// A cube as `numpy.save` writes it: what stands behind the first line is taken to be [`SHAPE`] float32.
fn npy(path: &str) -> Result<Array, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let start = bytes.iter().position(|byte| *byte == b'\n').ok_or("no header")? + 1;
    Ok(Array::new(Dtype::F32, SHAPE.to_vec(), bytes.get(start..).unwrap_or_default().to_vec())?)
}

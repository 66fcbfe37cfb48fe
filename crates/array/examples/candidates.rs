//! Prints the compressed size and the single-core speed of every combination of codec, filter, difference and layout,
//! for cubes in `.npy` files.
//!
//! The figures in docs/adr/0002-choosing-a-codec.md and the constants in `src/cost.rs` come from this program. Run it
//! as `cargo run --release -p shardpack-array --example candidates -- [--values RULE] [--max-error E] [--no-data V]
//! [--slow] [--choice] FILE.npy…`, where RULE is auto, keep, f16 or fixed. `--choice` prints only the choice of the
//! trial, without the table. `--slow` adds LZ4HC and the higher levels of zstd.
#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

#[path = "shared/clock.rs"]
mod clock;

use clock::now;
use shardpack_array::blosc2::Chunk;
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArrayOptions, ArraySettings, Coder, EncodedArray, Filter, Prefer,
    UNIT_BYTES, ValueRule, Values, trial,
};
use shardpack_format::{Codec, Dtype, Limits};
use std::error::Error;

const FAST: [(Coder, Option<i32>); 4] =
    [(Coder::Raw, None), (Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1)), (Coder::Zstd, Some(1))];
const SLOW: [(Coder, Option<i32>); 6] = [
    (Coder::Blosc2Lz4hc, Some(4)),
    (Coder::Blosc2Lz4hc, Some(9)),
    (Coder::Blosc2Zstd, Some(3)),
    (Coder::Blosc2Zstd, Some(9)),
    (Coder::Blosc2Zstd, Some(22)),
    (Coder::Zstd, Some(19)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let (mut values, mut max_error, mut no_data, mut slow, mut choice) =
        (String::from("auto"), None, None, false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--values" => values = value()?,
            "--max-error" => max_error = Some(value()?.parse()?),
            "--no-data" => no_data = Some(value()?.parse()?),
            "--slow" => slow = true,
            "--choice" => choice = true,
            file => {
                let array = read_npy(file)?;
                let rule = match (values.as_str(), max_error) {
                    ("keep", _) => ValueRule::Keep,
                    ("f16", _) => ValueRule::F16,
                    ("fixed", Some(max_error)) => ValueRule::Fixed { max_error },
                    ("auto", None) => ValueRule::IntegerOrF16,
                    ("auto", Some(max_error)) => ValueRule::IntegerOrF16OrFixed { max_error },
                    _ => return Err("values are auto, keep, f16, or fixed with --max-error".into()),
                };
                if choice {
                    println!("\n{file}");
                } else {
                    table(file, &array, rule, no_data, slow)?;
                }
                choose(&array, rule, no_data)?;
            }
        }
    }
    Ok(())
}

fn table(file: &str, array: &Array, values: ValueRule, no_data: Option<f64>, slow: bool) -> Result<(), Box<dyn Error>> {
    println!("\n{file}: {:?} {}, {:.2} MB", array.shape(), array.dtype(), array.bytes().len() as f64 / 1e6);
    let coders = FAST.iter().chain(if slow { SLOW.as_slice() } else { &[] });
    let mut stored = String::new();
    println!("{:<62} {:>6} {:>9} {:>9} {:>7} {:>6}", "settings", "ratio", "enc MB/s", "dec MB/s", "ns/B", "coded");
    for &(coder, level) in coders {
        for filter in [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta] {
            if filter != Filter::None && !coder.has_filters() {
                continue;
            }
            for (band_difference, layout) in [
                (false, ArrayLayout::AsShape),
                (true, ArrayLayout::AsShape),
                (false, ArrayLayout::BandMajor),
                (true, ArrayLayout::BandMajor),
            ] {
                let settings = ArraySettings { values, coder, level, filter, band_difference, layout };
                let mut encoder = ArrayEncoder::new(settings)?;
                let mut encoded = encoder.encode(array, no_data)?;
                let coded = coded_share(&encoded)?;
                let encode_s = time(|| {
                    let buffer = std::mem::take(&mut encoded.payload);
                    encoded = encoder.encode_reusing(array, no_data, buffer)?;
                    Ok(())
                })?;
                let mut decoder = ArrayDecoder::new();
                let descriptor = &encoded.descriptor;
                let mut out = vec![0; usize::try_from(descriptor.decoded_bytes()?)?];
                let decode_s = time(|| {
                    decoder.decode_into(encoded.codec, descriptor, &encoded.payload, &mut out, &Limits::none())?;
                    Ok(())
                })?;
                let source_mb = array.bytes().len() as f64 / 1e6;
                println!(
                    "{:<62} {:>6.3} {:>9.0} {:>9.0} {:>7.3} {:>6.3}{}",
                    settings.to_string(),
                    array.bytes().len() as f64 / encoded.payload.len() as f64,
                    source_mb / encode_s,
                    source_mb / decode_s,
                    decode_s * 1e9 / descriptor.stored_bytes()? as f64,
                    coded,
                    if encoded.codec == Codec::Raw && coder != Coder::Raw { " (stored raw)" } else { "" },
                );
                stored = format!("stored as {}, {:?}", descriptor.stored, encoded.fidelity);
            }
        }
    }
    println!("{stored}");
    Ok(())
}

fn choose(array: &Array, values: ValueRule, no_data: Option<f64>) -> Result<(), Box<dyn Error>> {
    for prefer in [Prefer::Speed, Prefer::Size] {
        let max_error = match values {
            ValueRule::Fixed { max_error } | ValueRule::IntegerOrF16OrFixed { max_error } => Some(max_error),
            _ => None,
        };
        let values = match values {
            ValueRule::Keep => Values::Keep,
            ValueRule::F16 => Values::F16,
            ValueRule::Fixed { .. } => Values::Fixed,
            _ => Values::Auto,
        };
        let options = ArrayOptions { values, max_error, prefer, ..Default::default() };
        let start = now();
        let trial = trial(&[(array, no_data)], &options)?;
        println!("auto, prefer {prefer:?}, a trial of {:.2} s:", now() - start);
        for row in trial.table.iter().take(4) {
            println!(
                "  {:<62} ratio {:.3}, predicted {:.0} us",
                row.settings.to_string(),
                row.ratio(),
                row.predicted_us
            );
        }
    }
    Ok(())
}

/// Returns the share of bytes that the coder outputs. All other bytes are runs or are stored unchanged.
fn coded_share(encoded: &EncodedArray) -> Result<f64, Box<dyn Error>> {
    let stored = usize::try_from(encoded.descriptor.stored_bytes()?)?;
    let item = u8::try_from(encoded.descriptor.stored.bytes())?;
    Ok(match encoded.codec {
        Codec::Blosc2 => {
            let (mut pos, mut coded) = (0, 0);
            for start in (0..stored).step_by(UNIT_BYTES) {
                let rest = encoded.payload.get(pos..).unwrap_or_default();
                let chunk = Chunk::parse(rest, item, UNIT_BYTES.min(stored - start))?;
                pos += chunk.bytes().len();
                coded += chunk.coded_out_bytes();
            }
            coded as f64 / stored as f64
        }
        Codec::Zstd => 1.0,
        _ => 0.0,
    })
}

/// Returns the mean time of a run. Averages over half a second of runs, because the thread clock has only millisecond
/// resolution.
fn time(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let (start, mut runs) = (now(), 0.0);
    loop {
        run()?;
        runs += 1.0;
        let seconds = now() - start;
        if seconds > 0.5 {
            return Ok(seconds / runs);
        }
    }
}

fn read_npy(path: &str) -> Result<Array, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let header_bytes = bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))).ok_or("no .npy file")?;
    let header = std::str::from_utf8(bytes.get(10..10 + header_bytes).ok_or("short .npy header")?)?;
    let between = |key: &str, open: char, close: char| {
        let rest = header.split_once(key)?.1.split_once(open)?.1;
        Some(rest.split_once(close)?.0)
    };
    let dtype = match between("'descr':", '\'', '\'').ok_or("no dtype")? {
        "|u1" => Dtype::U8,
        "<u2" => Dtype::U16,
        "<i2" => Dtype::I16,
        "<f2" => Dtype::F16,
        "<f4" => Dtype::F32,
        "<f8" => Dtype::F64,
        other => return Err(format!("dtype {other}").into()),
    };
    if header.contains("'fortran_order': True") {
        return Err("Fortran order".into());
    }
    let shape = between("'shape':", '(', ')').ok_or("no shape")?;
    let shape = shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    Ok(Array::new(dtype, shape, bytes.get(10 + header_bytes..).unwrap_or_default().to_vec())?)
}

//! Writes a dataset from a program, one sample at a time, then reads it.
//!
//! `cargo run --release -p shardpack-pack --example collect -- OUT`
#![allow(clippy::print_stdout, reason = "a program")]

use shardpack_array::Array;
use shardpack_format::Dtype;
use shardpack_pack::collect::{CollectOptions, Collector, Sample, SampleValue};
use shardpack_reader::Dataset;
use std::error::Error;
use std::path::PathBuf;

/// Returns the pixels of an RGB gradient whose blue channel encodes the sample number.
fn picture(number: u8) -> Vec<u8> {
    (0..48_u8).flat_map(|y| (0..64_u8).flat_map(move |x| [x * 4, y * 5, number * 25])).collect()
}

/// Returns a cube of twelve float32 bands. Each band is slightly brighter than the previous one.
fn cube(number: u8) -> Vec<u8> {
    let value = move |pixel: u16, band: u8| f32::from(number) + f32::from(pixel % 20) / 20.0 + f32::from(band) / 12.0;
    (0..16 * 20).flat_map(|pixel| (0..12).flat_map(move |band| value(pixel, band).to_le_bytes())).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::args().nth(1).ok_or("usage: collect OUT")?);
    let collector = Collector::open(&out, None, CollectOptions::default())?;
    for number in 0..10_u8 {
        let sample = Sample::new()
            .with_key(format!("made-up/{number}"))
            .with("image", SampleValue::Pixels(Array::new(Dtype::U8, vec![48, 64, 3], picture(number))?))
            .with("cube", SampleValue::Array(Array::new(Dtype::F32, vec![16, 20, 12], cube(number))?))
            .with("caption", format!("gradient number {number}").as_str())
            .with("label", i64::from(number % 2));
        // Several threads may add samples to one collector. The order in which they do so does not
        // change the bytes on disk.
        collector.add(sample)?;
    }
    let written = collector.commit(None, None)?;
    println!("{} samples in {}", written.report.samples, out.display());

    let dataset = Dataset::open(&out)?;
    for index in 0..dataset.len() {
        let sample = dataset.get(index)?;
        let (image, cube) = (sample.image("image")?, sample.array("cube")?);
        let label = sample.scalar("label")?;
        println!(
            "{}: label {label:?}, {}, cube {:?} of {}",
            sample.key(),
            image.media_type,
            cube.shape(),
            cube.dtype()
        );
    }
    Ok(())
}

//! Times batches of cubes on a device: from filled pinned memory, from the device's own memory, and against
//! the bus.
//!
//! `cargo run --release -p shardpack-gpu --example cube_rate [BATCH [ROUNDS [DATASET …]]]`: cubes of 480 ×
//! 640 × 100 in float16, synthetic with 1 % noise, or the first two stored arrays of each DATASET, in batches
//! of BATCH (default 6), on three streams; medians of ROUNDS (default 7) rounds of 12 batches. *pinned*:
//! compressed bytes are uploaded and decoded. *resident*: compressed bytes are on the device. *one stream*:
//! resident, without overlap. Then the microseconds of a cube in each kernel, alone on the device.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

use half::f16;
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Filter, ValueRule};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, FieldKind, Limits};
use shardpack_gpu::kernels::{CubeKernels, CubeStager, CubeWork, Fault, Payload};
use shardpack_gpu::kernels::{Device, GpuError, Memory, Pinned, Stream};
use shardpack_reader::Dataset;
use std::error::Error;
use std::time::Instant;

const SHAPE: [u64; 3] = [480, 640, 100];
const LANES: usize = 3;
const BATCHES: usize = 12;

/// A stream with its slots.
struct Lane {
    stream: Stream,
    pinned: Pinned,
    slot: Memory,
    out: Memory,
    work: CubeWork,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let batch = arguments.next().map_or(Ok(6), |n| n.parse::<usize>())?;
    let rounds = arguments.next().map_or(Ok(7), |n| n.parse::<usize>())?;
    let device = match Device::open(0) {
        Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
            println!("{error}");
            return Ok(());
        }
        other => other?,
    };
    let start = Instant::now();
    let kernels = CubeKernels::load(&device)?;
    println!("{}: kernels ready after {:.0} ms", device.properties().name, 1e3 * start.elapsed().as_secs_f64());
    println!(
        "{:<58} {:>5} {:>8} {:>8} {:>8} {:>8} {:>10}  us",
        "stored as", "ratio", "to", "pinned", "resident", "1 stream", "GB/s bus"
    );
    let datasets: Vec<String> = arguments.collect();
    if datasets.is_empty() {
        let cubes = [synthetic(1)?, synthetic(2)?];
        let (by_band, as_shape) = (ArrayLayout::BandMajor, ArrayLayout::AsShape);
        for (coder, filter, band_difference, layout) in [
            (Coder::Raw, Filter::None, false, as_shape),
            (Coder::Blosc2Lz4, Filter::Bitshuffle, true, by_band),
            (Coder::Blosc2Lz4, Filter::Shuffle, true, by_band),
            (Coder::Blosc2Lz4, Filter::Bitshuffle, true, as_shape),
            (Coder::Blosc2Lz4, Filter::Shuffle, false, as_shape),
            (Coder::Blosc2Zstd, Filter::Shuffle, true, by_band),
            (Coder::Blosc2Zstd, Filter::Bytedelta, true, by_band),
            (Coder::Blosc2Zstd, Filter::Shuffle, false, as_shape),
        ] {
            let level = coder.default_level();
            let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference, layout };
            let encode = |cube: &Array| -> Result<Stored, Box<dyn Error>> {
                let encoded = ArrayEncoder::new(settings)?.encode(cube, None)?;
                Ok(Stored { codec: encoded.codec, descriptor: encoded.descriptor, payload: encoded.payload })
            };
            let stored = cubes.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
            measure(&device, &kernels, &settings.to_string(), &stored, batch, rounds)?;
        }
    }
    for dataset in &datasets {
        measure(&device, &kernels, dataset, &first_two(dataset)?, batch, rounds)?;
    }
    Ok(())
}

/// An array as stored in a dataset.
struct Stored {
    codec: Codec,
    descriptor: ArrayDescriptor,
    payload: Vec<u8>,
}

/// The first arrays of the first two samples of a dataset.
fn first_two(path: &str) -> Result<Vec<Stored>, Box<dyn Error>> {
    let dataset = Dataset::open(path)?;
    let mut stored = Vec::new();
    for n in 0..dataset.len().min(2) {
        let sample = dataset.get(n)?;
        let found = dataset.schema().fields().iter().find(|field| field.kind == FieldKind::Array);
        let field = found.ok_or("no field of arrays")?;
        let value = sample.field(&field.name)?.ok_or("no array")?;
        let descriptor = sample.descriptor(&field.name)?;
        stored.push(Stored { codec: value.codec, descriptor, payload: value.bytes.to_vec() });
    }
    Ok(stored)
}

fn measure(
    device: &Device,
    kernels: &CubeKernels,
    name: &str,
    stored: &[Stored],
    batch: usize,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    for to in [As::F32, As::Decoded] {
        let mut lanes = (0..LANES).map(|_| lane(device, stored, batch, to)).collect::<Result<Vec<_>, _>>()?;
        for lane in &mut lanes {
            run(kernels, lane, true)?;
            check(device, lane)?;
        }
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..=rounds {
            for (rates, (upload, used)) in rates.iter_mut().zip([(true, LANES), (false, LANES), (false, 1)]) {
                let start = Instant::now();
                for n in 0..BATCHES {
                    if let Some(lane) = lanes.get_mut(n % used) {
                        run(kernels, lane, upload)?;
                    }
                }
                device.synchronize()?;
                rates.push((BATCHES * batch) as f64 / start.elapsed().as_secs_f64());
            }
        }
        let [pinned, resident, alone] = rates.map(median);
        let bytes = lanes.first().map_or(0, |lane| lane.work.upload_bytes()) as f64 / batch as f64;
        let elements: u64 = stored.first().map_or(0, |cube| cube.descriptor.shape.iter().product());
        let mut each = String::new();
        if let Some(Lane { stream, slot, out, work, .. }) = lanes.first() {
            for (kernel, ms) in kernels.profile(device, stream, work, slot, out)? {
                each += &format!("  {kernel} {:.0}", 1e3 * ms / batch as f32);
            }
        }
        println!(
            "{name:<58} {:>5.2} {:>8} {pinned:>8.0} {resident:>8.0} {alone:>8.0} {:>10.1}{each}",
            2.0 * elements as f64 / bytes,
            if to == As::F32 { "float32" } else { "float16" },
            pinned * bytes / 1e9
        );
    }
    Ok(())
}

fn lane(device: &Device, stored: &[Stored], batch: usize, to: As) -> Result<Lane, Box<dyn Error>> {
    let mut stager = CubeStager::default();
    let upload = batch * (64 << 20);
    let mut pinned = Pinned::new(device, upload)?;
    let mut staged = stager.begin(pinned.bytes_mut()?)?;
    let mut out = 0;
    for cube in stored.iter().cycle().take(batch) {
        let payload = Payload::Bytes(&cube.payload);
        out += staged.push(cube.codec, &cube.descriptor, payload, None, &to.into(), out, &Limits::default())?.bytes;
    }
    let work = staged.finish()?;
    let (slot, out) =
        (Memory::new(device, work.slot_bytes() as usize)?, Memory::new(device, work.out_bytes() as usize)?);
    Ok(Lane { stream: Stream::new(device)?, pinned, slot, out, work })
}

fn run(kernels: &CubeKernels, lane: &mut Lane, upload: bool) -> Result<(), GpuError> {
    let Lane { stream, pinned, slot, out, work } = lane;
    if upload {
        stream.upload(pinned, 0..work.upload_bytes(), slot, 0)?;
    }
    kernels.run(stream, work, slot, out)
}

/// Fails unless every cube of the batch was valid.
fn check(device: &Device, lane: &Lane) -> Result<(), Box<dyn Error>> {
    let range = lane.work.statuses();
    let mut found = Pinned::new(device, range.len())?;
    lane.stream.download(&lane.slot, range, &mut found, 0)?;
    for word in found.bytes_mut()?.as_chunks().0 {
        if let Some(fault) = Fault::of(u32::from_le_bytes(*word)) {
            return Err(fault.to_string().into());
        }
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    // The first round warms up.
    rates.remove(0);
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Smooth spectra in shares that vary over the picture, 1 % noise, in float16.
fn synthetic(seed: u32) -> Result<Array, Box<dyn Error>> {
    let [height, width, bands] = SHAPE;
    let mut state = seed;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    let mut bytes = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (y, x) = (y as f32 / 40.0, x as f32 / 40.0);
            let share = 0.5 + 0.5 * (y.sin() * x.cos());
            for band in 0..bands {
                let b = band as f32 / 12.0;
                let value = share * (0.5 + 0.3 * b.sin()) + (1.0 - share) * (0.4 + 0.2 * (1.7 * b).cos());
                // Four uniform numbers make a bell of standard deviation 0.01.
                let bell: f32 = (0..4).map(|_| noise()).sum();
                bytes.extend(f16::from_f32(value * (1.0 + 0.017 * bell)).to_le_bytes());
            }
        }
    }
    Ok(Array::new(Dtype::F16, SHAPE.to_vec(), bytes)?)
}

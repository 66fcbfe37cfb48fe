//! Times batches of cubes on a device.
//!
//! `cargo run --release -p shardpack-gpu --example cube_rate [BATCH [ROUNDS [DATASET …]]]`
//!
//! Decodes synthetic cubes of 480 × 640 × 100 in float16 with 1 % noise, or the first two stored arrays of each
//! DATASET, in batches of BATCH (default 6) on three streams. Prints medians of ROUNDS (default 7) rounds of 12
//! batches. *pinned*: compressed bytes are uploaded and decoded. *resident*: compressed bytes are already on the
//! device. *one stream*: resident, without overlap. *moved*: as float32, rotated by 20° and interpolated from four
//! pixels each. Then prints the microseconds per cube that each kernel takes alone on the device.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

#[path = "shared/cube.rs"]
mod cube;

use cube::synthetic;
use shardpack_array::{
    Array, ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Filter, Finish, Resampling, ValueRule, Warp,
    ZstdDecoder,
};
use shardpack_augment::Affine;
use shardpack_format::{ArrayDescriptor, Codec, FieldKind, Limits};
use shardpack_gpu::kernels::CudaSlot;
use shardpack_gpu::{CudaStage, GpuError};
use shardpack_loader::stage::{ArrayValue, Prepared, RecordValue, SlotRoom, Spot, StageSlot};
use shardpack_reader::Dataset;
use std::error::Error;
use std::time::Instant;

const LANES: usize = 3;
const BATCHES: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let batch = arguments.next().map_or(Ok(6), |n| n.parse::<usize>())?;
    let rounds = arguments.next().map_or(Ok(7), |n| n.parse::<usize>())?;
    let start = Instant::now();
    let stage = match CudaStage::open(0) {
        Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
            println!("{error}");
            return Ok(());
        }
        other => other?,
    };
    println!("{}: kernels ready after {:.0} ms", stage.device().properties().name, 1e3 * start.elapsed().as_secs_f64());
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
            (Coder::Zstd, Filter::None, false, as_shape),
        ] {
            let level = coder.default_level();
            let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference, layout };
            let encode = |cube: &Array| -> Result<Stored, Box<dyn Error>> {
                let encoded = ArrayEncoder::new(settings)?.encode(cube, None)?;
                Ok(Stored { codec: encoded.codec, descriptor: encoded.descriptor, payload: encoded.payload })
            };
            let stored = cubes.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
            measure(&stage, &settings.to_string(), &stored, batch, rounds)?;
        }
    }
    for dataset in &datasets {
        measure(&stage, dataset, &first_two(dataset)?, batch, rounds)?;
    }
    Ok(())
}

struct Stored {
    codec: Codec,
    descriptor: ArrayDescriptor,
    payload: Vec<u8>,
}

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
    stage: &CudaStage,
    name: &str,
    stored: &[Stored],
    batch: usize,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    for (to, moved, words) in [(As::F32, false, "float32"), (As::Decoded, false, "float16"), (As::F32, true, "moved")] {
        let finish = |cube: &Stored| Finish { warp: moved.then(|| turned(cube)), ..to.into() };
        let lanes = (0..LANES).map(|_| lane(stage, stored, batch, &finish)).collect::<Result<Vec<_>, _>>()?;
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..=rounds {
            for (rates, (upload, used)) in rates.iter_mut().zip([(true, LANES), (false, LANES), (false, 1)]) {
                let start = Instant::now();
                for n in 0..BATCHES {
                    if let Some(lane) = lanes.get(n % used) {
                        lane.again(upload)?;
                    }
                }
                for lane in &lanes {
                    lane.wait()?;
                }
                rates.push((BATCHES * batch) as f64 / start.elapsed().as_secs_f64());
            }
        }
        let [pinned, resident, alone] = rates.map(median);
        let bytes = lanes.first().map_or(0, |lane| lane.upload_bytes()) as f64 / batch as f64;
        let elements: u64 = stored.first().map_or(0, |cube| cube.descriptor.shape.iter().product());
        let mut each = String::new();
        if let Some(lane) = lanes.first() {
            for (kernel, ms) in lane.profile()? {
                each += &format!("  {kernel} {:.0}", 1e3 * ms / batch as f32);
            }
        }
        println!(
            "{name:<58} {:>5.2} {:>8} {pinned:>8.0} {resident:>8.0} {alone:>8.0} {:>10.1}{each}",
            2.0 * elements as f64 / bytes,
            words,
            pinned * bytes / 1e9
        );
    }
    Ok(())
}

/// Returns a map that rotates the cube's pixels by 20°.
fn turned(cube: &Stored) -> Warp {
    let side = |axis: usize| cube.descriptor.shape.get(axis).map_or(1.0, |side| *side as f64);
    let map = Affine { angle: 20.0, ..Affine::default() }.inverse(side(1), side(0));
    Warp { map, sampling: Resampling::Bilinear { outside: 0.0 } }
}

/// Decodes a batch in a new slot. Fails if a row has a fault.
fn lane(
    stage: &CudaStage,
    stored: &[Stored],
    batch: usize,
    finish: &dyn Fn(&Stored) -> Finish,
) -> Result<CudaSlot, Box<dyn Error>> {
    let (limits, zstd) = (Limits::default(), &mut ZstdDecoder::default());
    let (mut spots, mut end) = (Vec::new(), 0);
    for (row, cube) in (0..).zip(stored.iter().cycle().take(batch)) {
        let descriptor = &cube.descriptor;
        let bytes = descriptor.elements()? as usize * finish(cube).to.of(descriptor.decoded)?.bytes() as usize;
        spots.push((cube, Spot { row, field: 0, bytes: end..end + bytes }));
        end += bytes;
    }
    let staged_bytes = batch * (64 << 20);
    let slot = stage.slot_by_hand(&SlotRoom { rows: batch, output_bytes: end, staged_bytes, ..SlotRoom::default() })?;
    slot.begin(end);
    for (cube, spot) in &spots {
        let (Stored { codec, descriptor, payload }, finish) = (cube, finish(cube));
        let array = ArrayValue { codec: *codec, descriptor, bytes: payload, part: None, limits: &limits };
        let value = RecordValue::Array { array, finish: &finish, noise: None, memo: None };
        if let Prepared::Refused(reason) = slot.prepare(spot, &value, zstd) {
            return Err(format!("the device does not take the array: {reason}").into());
        }
    }
    slot.start(&[]).map_err(|failure| format!("{failure:?}"))?;
    match slot.wait()?.first() {
        Some(fault) => Err(fault.reason.clone().into()),
        None => Ok(slot),
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.remove(0);
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

//! Tests that a device decodes cubes like the host. Without a device, these tests do nothing. The crate's unit tests
//! emulate the same kernels on the CPU.
//!
//! `SHARDPACK_CUBES` names datasets, separated by colons. All their arrays are decoded too.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation
)]

use crate::generate::{Fill, array, finish, finished, region};
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Filter, Finish, Region, ValueRule,
    ZstdDecoder,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, FieldKind, Layout, Limits};
use shardpack_gpu::kernels::CudaSlot;
use shardpack_gpu::{CudaStage, GpuError};
use shardpack_loader::stage::{ArrayPart, ArrayValue, Prepared, RecordValue, SlotRoom, Spot, StageSlot};
use shardpack_reader::Dataset;

const STAGED: usize = 96 << 20;

struct Bench {
    stage: CudaStage,
    room: SlotRoom,
    slot: CudaSlot,
}

struct Item<'a> {
    codec: Codec,
    descriptor: &'a ArrayDescriptor,
    payload: &'a [u8],
    region: Option<Region>,
    finish: Finish,
}

impl Item<'_> {
    fn out_bytes(&self) -> usize {
        let (dtype, bytes) = match &self.region {
            None => (self.descriptor.decoded, self.descriptor.decoded_bytes().unwrap()),
            Some(region) => region.shape_of(self.descriptor).map(|shape| (shape.dtype, shape.bytes)).unwrap(),
        };
        (bytes / dtype.bytes() * self.finish.to.of(dtype).unwrap().bytes()) as usize
    }

    fn on_the_host(&self) -> Option<Vec<u8>> {
        let limits = Limits::default();
        let mut decoder = ArrayDecoder::new();
        let (dtype, elements) = match &self.region {
            None => {
                let array = decoder.decode(self.codec, self.descriptor, self.payload, &limits).ok()?;
                (array.dtype(), array.bytes().to_vec())
            }
            Some(region) => {
                let shape = region.shape_of(self.descriptor).unwrap();
                let mut out = vec![0; shape.bytes as usize];
                decoder.decode_region(self.codec, self.descriptor, self.payload, region, &mut out, &limits).ok()?;
                (shape.dtype, out)
            }
        };
        Some(finished(&self.finish, self.descriptor, self.region.as_ref(), (dtype, &elements)).unwrap())
    }
}

impl Bench {
    fn open() -> Option<Self> {
        let stage = match CudaStage::open(0) {
            Ok(stage) => stage,
            Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let room = SlotRoom { rows: 256, output_bytes: 64 << 20, staged_bytes: STAGED, ..SlotRoom::default() };
        let slot = stage.slot_by_hand(&room).unwrap();
        Some(Self { stage, room, slot })
    }

    /// Decodes a batch. Returns `None` for payloads that are refused before decoding, and otherwise the values or the
    /// reason for a fault.
    fn decode(&mut self, items: &[Item<'_>]) -> Vec<Option<Result<Vec<u8>, String>>> {
        let (limits, zstd) = (Limits::default(), &mut ZstdDecoder::default());
        let (mut spots, mut end) = (Vec::new(), 0_usize);
        for (row, item) in (0..).zip(items) {
            let start = end.next_multiple_of(8);
            end = start + item.out_bytes();
            spots.push(Spot { row, field: 0, bytes: start..end });
        }
        if end > self.room.output_bytes {
            self.room.output_bytes = end.next_power_of_two();
            self.slot = self.stage.slot_by_hand(&self.room).unwrap();
        }
        self.slot.begin(end);
        let mut prepare = |(spot, item): (&Spot, &Item<'_>)| {
            let &Item { codec, descriptor, payload: bytes, ref region, ref finish } = item;
            let (region, limits) = (region.as_ref(), &limits);
            let array = ArrayValue { codec, descriptor, bytes, part: region.map(ArrayPart::Region), limits };
            let value = RecordValue::Array { array, finish, noise: None, memo: None };
            let prepared = self.slot.prepare(spot, &value, zstd);
            assert_ne!(prepared, Prepared::Refused("no room left in the staging memory".into()));
            matches!(prepared, Prepared::Taken(_))
        };
        let taken: Vec<bool> = spots.iter().zip(items).map(&mut prepare).collect();
        self.slot.start(&[]).unwrap();
        let faults = self.slot.wait().unwrap();
        let mut values = vec![0; end];
        self.slot.read(0, &mut values).unwrap();
        let decoded = |(spot, is_taken): (Spot, bool)| {
            let fault = faults.iter().find(|fault| fault.row == spot.row);
            is_taken
                .then(|| fault.map_or_else(|| Ok(values[spot.bytes].to_vec()), |fault| Err(fault.reason.to_string())))
        };
        spots.into_iter().zip(taken).map(decoded).collect()
    }

    fn compare(&mut self, items: &[Item<'_>]) {
        for (item, found) in items.iter().zip(self.decode(items)) {
            let (expected, found) =
                (item.on_the_host().unwrap(), found.expect("an array that the device takes").unwrap());
            assert!(expected == found, "{:?} {:?} {:?}", item.descriptor, item.region, item.finish);
        }
    }
}

fn encode(
    array: &Array,
    coder: Coder,
    (filter, layout, band_difference): (Filter, ArrayLayout, bool),
) -> shardpack_array::EncodedArray {
    let (values, level) = (ValueRule::Keep, coder.default_level());
    let settings = ArraySettings { values, coder, level, filter, band_difference, layout };
    ArrayEncoder::new(settings).unwrap().encode(array, None).unwrap()
}

const CODERS: [Coder; 2] = [Coder::Blosc2Lz4, Coder::Blosc2Zstd];
const FILTERS: [Filter; 4] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta];
const LAYOUTS: [ArrayLayout; 2] = [ArrayLayout::AsShape, ArrayLayout::BandMajor];

#[test]
fn arrays_of_each_type_equal_the_hosts() {
    let Some(mut bench) = Bench::open() else { return };
    let mut seed = 0;
    for &dtype in Dtype::ALL {
        for (shape, fill) in [
            (vec![97, 83, 51], Fill::Smooth),
            (vec![13, 700], Fill::Bits(4)),
            (vec![70_001], Fill::Constant(7)),
            (vec![3, 5, 2, 7], Fill::Counts),
        ] {
            let array = array(dtype, shape, fill, seed);
            let mut encoded = Vec::new();
            for filter in FILTERS {
                for (layout, coder) in LAYOUTS.into_iter().flat_map(|layout| CODERS.map(|coder| (layout, coder))) {
                    let of = |difference| encode(&array, coder, (filter, layout, difference));
                    encoded.extend([false, true].map(of));
                }
            }
            let mut items = Vec::new();
            for (n, encoded) in encoded.iter().enumerate() {
                seed += 1;
                let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, encoded.payload.as_slice());
                let to =
                    if dtype == Dtype::Bool { As::Decoded } else { [As::Decoded, As::F16, As::Bf16, As::F32][n % 4] };
                let whole = finish(descriptor, None, dtype, (to, n % 3 == 0, n as u64));
                items.push(Item { codec, descriptor, payload, region: None, finish: whole });
                if let Some(region) = region(array.shape(), u64::from(seed)) {
                    let decoded = region.shape_of(descriptor).unwrap().dtype;
                    let turned = finish(descriptor, Some(&region), decoded, (to, n % 2 == 0, u64::from(seed)));
                    items.push(Item { codec, descriptor, payload, region: Some(region), finish: turned });
                }
            }
            // Decode in parts, because all items together exceed the staging memory.
            items.chunks(16).for_each(|items| bench.compare(items));
        }
    }
}

#[test]
fn arrays_of_datasets_equal_the_hosts() {
    let Some(mut bench) = Bench::open() else { return };
    let Ok(paths) = std::env::var("SHARDPACK_CUBES") else {
        println!("skipped: SHARDPACK_CUBES names no datasets");
        return;
    };
    for path in paths.split(':') {
        let dataset = Dataset::open(path).unwrap();
        let names: Vec<&str> =
            dataset.schema().fields().iter().filter(|f| f.kind == FieldKind::Array).map(|f| f.name.as_str()).collect();
        for index in 0..dataset.len() {
            let sample = dataset.get(index).unwrap();
            for &name in &names {
                let Some(value) = sample.field(name).unwrap() else { continue };
                let descriptor = sample.descriptor(name).unwrap();
                let item = |region, to: As| Item {
                    codec: value.codec,
                    descriptor: &descriptor,
                    payload: value.bytes,
                    region,
                    finish: to.into(),
                };
                let mut items = vec![item(None, As::Decoded)];
                if let &[height, width, ..] = descriptor.shape.as_slice() {
                    let patch = Region::new(height / 4, width / 3, height / 2, width / 2);
                    items.push(item(Some(patch.clone()), As::Decoded));
                    if descriptor.decoded != Dtype::Bool {
                        items.push(item(Some(Region { layout: Layout::BandMajor, ..patch }), As::F16));
                        items.push(item(None, As::Bf16));
                        items.push(item(None, As::F32));
                    }
                }
                // Decode one at a time if all items together exceed the staging memory.
                let at_once = if items.len() * value.bytes.len() < STAGED / 2 { items.len() } else { 1 };
                items.chunks(at_once).for_each(|items| bench.compare(items));
            }
        }
        eprintln!("{path}: {} samples", dataset.len());
    }
}

/// Decodes `SHARDPACK_DAMAGED` damaged payloads (default 1,000), each between two valid ones.
#[test]
fn damage_is_flagged_and_stays_where_it_is() {
    let Some(mut bench) = Bench::open() else { return };
    let count: u32 = std::env::var("SHARDPACK_DAMAGED").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let cube = array(Dtype::U16, vec![16, 16, 40], Fill::Counts, 9);
    let sound = CODERS.map(|coder| FILTERS.map(|filter| encode(&cube, coder, (filter, ArrayLayout::BandMajor, true))));
    let sound = sound.as_flattened();
    let mut state = 1_u32;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % below
    };
    let (mut flagged, mut refused, mut equal, mut done) = (0, 0, 0, 0);
    while done < count {
        let mut payloads = Vec::new();
        for n in 0..200 {
            let encoded = &sound[n / 2 % sound.len()];
            let mut payload = encoded.payload.clone();
            if n % 2 == 1 {
                done += 1;
                let at = random(payload.len());
                match random(3) {
                    0 => payload[at] ^= 1 << random(8),
                    1 => payload[at] = random(256) as u8,
                    _ => payload[at..].iter_mut().take(8).for_each(|b| *b = random(256) as u8),
                }
            }
            payloads.push((encoded, payload));
        }
        let items: Vec<Item<'_>> = payloads
            .iter()
            .map(|(encoded, payload)| Item {
                codec: encoded.codec,
                descriptor: &encoded.descriptor,
                payload,
                region: None,
                finish: Finish::NOTHING,
            })
            .collect();
        for (n, (item, found)) in items.iter().zip(bench.decode(&items)).enumerate() {
            match (found, item.on_the_host()) {
                (Some(Ok(found)), Some(expected)) => {
                    assert!(found == expected, "payload {n}");
                    equal += n % 2;
                }
                (Some(Ok(_)), None) => panic!("payload {n}: the device decoded a payload that the host refuses"),
                (Some(Err(_)), _) => {
                    assert!(n % 2 == 1, "payload {n}: the device flagged a valid payload");
                    flagged += 1;
                }
                (None, expected) => {
                    assert!(expected.is_none(), "payload {n}: the stage refused a payload that the host decodes");
                    refused += 1;
                }
            }
        }
    }
    eprintln!(
        "{done} damaged: {flagged} flagged by the device, {refused} refused by the host, {equal} decoded as the \
         host does"
    );
    assert!(flagged > 0);
}

//! Cubes on a device, against the host's decoder. Without a device these tests do nothing; the crate's own
//! tests play the same kernels on the CPU.
//!
//! `SHARDPACK_CUBES` names datasets, separated by colons; all their arrays are decoded too.
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
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, FieldKind, Layout, Limits};
use shardpack_gpu::kernels::{CubeKernels, CubeStager, Fault, Payload};
use shardpack_gpu::kernels::{Device, GpuError, Memory, Pinned, Stream};
use shardpack_reader::Dataset;

/// Bytes of the uploaded part of a slot.
const SLOT: usize = 96 << 20;

/// A device with its kernels and one slot.
struct Bench {
    device: Device,
    kernels: CubeKernels,
    stream: Stream,
    stager: CubeStager,
    pinned: Pinned,
}

struct Item<'a> {
    codec: Codec,
    descriptor: &'a ArrayDescriptor,
    payload: &'a [u8],
    region: Option<Region>,
    finish: Finish,
}

impl Item<'_> {
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
        let device = match Device::open(0) {
            Ok(device) => device,
            Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
                let what = error.to_string();
                println!("skipped: {}", what.lines().next().unwrap_or_default());
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let kernels = CubeKernels::load(&device).unwrap();
        let (stream, pinned) = (Stream::new(&device).unwrap(), Pinned::new(&device, SLOT).unwrap());
        Some(Self { device, kernels, stream, stager: CubeStager::default(), pinned })
    }

    /// Decodes a batch; `None` for payloads that the host rejects before decoding.
    fn decode(&mut self, items: &[Item<'_>]) -> Vec<Option<Result<Vec<u8>, Fault>>> {
        let limits = Limits::default();
        let mut batch = self.stager.begin(self.pinned.bytes_mut().unwrap()).unwrap();
        let (mut places, mut out) = (Vec::new(), 0_u64);
        for item in items {
            out = out.next_multiple_of(8);
            let region = item.region.as_ref();
            let pushed = batch.push(
                item.codec,
                item.descriptor,
                Payload::Bytes(item.payload),
                region,
                &item.finish,
                out,
                &limits,
            );
            places.push(pushed.ok().map(|staged| out as usize..(out + staged.bytes) as usize));
            out = places.last().unwrap().as_ref().map_or(out, |place| place.end as u64);
        }
        let work = batch.finish().unwrap();
        let slot = Memory::new(&self.device, work.slot_bytes() as usize).unwrap();
        let output = Memory::new(&self.device, work.out_bytes() as usize).unwrap();
        self.stream.upload(&mut self.pinned, 0..work.upload_bytes(), &slot, 0).unwrap();
        self.kernels.run(&self.stream, &work, &slot, &output).unwrap();
        let statuses = work.statuses();
        let mut status = Pinned::new(&self.device, statuses.len()).unwrap();
        let mut values = Pinned::new(&self.device, output.len()).unwrap();
        self.stream.download(&slot, statuses, &mut status, 0).unwrap();
        self.stream.download(&output, 0..output.len(), &mut values, 0).unwrap();
        let values = values.bytes_mut().unwrap();
        let mut statuses = status.bytes_mut().unwrap().as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
        places
            .into_iter()
            .map(|place| {
                let place = place?;
                Some(Fault::of(statuses.next().unwrap()).map_or_else(|| Ok(values[place].to_vec()), Err))
            })
            .collect()
    }

    fn compare(&mut self, items: &[Item<'_>]) {
        for (item, found) in items.iter().zip(self.decode(items)) {
            let (expected, found) = (item.on_the_host().unwrap(), found.expect("room in the slot").unwrap());
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
fn arrays_of_each_type_are_those_of_the_host() {
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
            // All items together exceed the staging memory.
            items.chunks(16).for_each(|items| bench.compare(items));
        }
    }
}

#[test]
fn datasets_are_those_of_the_host() {
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
                // One at a time if all items together exceed the staging memory.
                let at_once = if items.len() * value.bytes.len() < SLOT / 2 { items.len() } else { 1 };
                items.chunks(at_once).for_each(|items| bench.compare(items));
            }
        }
        eprintln!("{path}: {} samples", dataset.len());
    }
}

/// `SHARDPACK_DAMAGED` damaged payloads, by default a thousand, each between two valid ones.
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
                (Some(Ok(_)), None) => panic!("payload {n}: decoded what the host refuses"),
                (Some(Err(_)), _) => {
                    assert!(n % 2 == 1, "payload {n}: flagged, and sound");
                    flagged += 1;
                }
                (None, expected) => {
                    assert!(expected.is_none(), "payload {n}: refused, and sound");
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

//! Decodes batches on the emulated device and on the host, to compare the results.

use super::generate::finished;
use crate::cubes::Fault;
use crate::driver::Heap;
use crate::stage::tests::played::play_kernels;
use crate::stage::{Assembled, Staging};
use shardpack_array::{ArrayDecoder, EncodedArray, Finish, Region, VolumeShape, Voxels, ZstdDecoder};
use shardpack_format::{ArrayDescriptor, Codec, Error, Layout, Limits};
use shardpack_gpu_play::Manner;
use shardpack_loader::stage::{ArrayPart, ArrayValue, Prepared, RecordValue, Spot};
use std::ops::Range;

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) codec: Codec,
    pub(super) descriptor: ArrayDescriptor,
    pub(super) payload: Vec<u8>,
    pub(super) region: Option<Region>,
    pub(super) voxels: Option<Voxels>,
    pub(super) finish: Finish,
    /// True if the payload is read into the slot before it is prepared.
    pub(super) staged: bool,
}

impl Item {
    pub(super) fn of(encoded: &EncodedArray) -> Self {
        Self {
            codec: encoded.codec,
            descriptor: encoded.descriptor.clone(),
            payload: encoded.payload.clone(),
            region: None,
            voxels: None,
            finish: Finish::NOTHING,
            staged: false,
        }
    }

    fn out_bytes(&self) -> usize {
        if let Some(voxels) = &self.voxels {
            let (_, channels) = voxels.sides_of(&self.descriptor).unwrap();
            let elements = voxels.size.iter().product::<u64>() * channels.unwrap_or(1);
            return (elements * self.finish.to.of(self.descriptor.decoded).unwrap().bytes()) as usize;
        }
        let (dtype, bytes) = match &self.region {
            None => (self.descriptor.decoded, self.descriptor.decoded_bytes().unwrap()),
            Some(region) => region.shape_of(&self.descriptor).map(|shape| (shape.dtype, shape.bytes)).unwrap(),
        };
        (bytes / dtype.bytes() * self.finish.to.of(dtype).unwrap().bytes()) as usize
    }

    pub(super) fn value<'a>(&'a self, bytes: &'a [u8], limits: &'a Limits) -> RecordValue<'a> {
        let Self { codec, ref descriptor, ref region, ref voxels, ref finish, .. } = *self;
        let part = voxels.as_ref().map(ArrayPart::Voxels).or(region.as_ref().map(ArrayPart::Region));
        let array = ArrayValue { codec, descriptor, bytes, part, limits };
        RecordValue::Array { array, finish, noise: None, memo: None }
    }

    pub(super) fn on_the_host(&self) -> Result<Vec<u8>, Error> {
        let limits = Limits::default();
        let mut decoder = ArrayDecoder::new();
        let (decoded, elements) = match &self.region {
            None if self.voxels.is_some() => return self.boxed_on_the_host(),
            None => {
                let array = decoder.decode(self.codec, &self.descriptor, &self.payload, &limits)?;
                (array.dtype(), array.bytes().to_vec())
            }
            Some(region) => {
                let shape = region.shape_of(&self.descriptor)?;
                let mut out = vec![0; shape.bytes as usize];
                decoder.decode_region(self.codec, &self.descriptor, &self.payload, region, &mut out, &limits)?;
                (shape.dtype, out)
            }
        };
        finished(&self.finish, &self.descriptor, self.region.as_ref(), (decoded, &elements))
    }
}

impl Item {
    /// Cuts the box out of the whole volume, voxel by voxel, and turns its planes one by one.
    fn boxed_on_the_host(&self) -> Result<Vec<u8>, Error> {
        let array = ArrayDecoder::new().decode(self.codec, &self.descriptor, &self.payload, &Limits::default())?;
        let Some(voxels) = self.voxels else { return Ok(Vec::new()) };
        let ([depth, height, width], channels) = voxels.sides_of(&self.descriptor)?;
        let channels = channels.unwrap_or(1);
        let pixel = channels * array.dtype().bytes();
        let ([z, y, x], [planes, rows, columns]) = (voxels.origin, voxels.size);
        if self.finish.volume.is_some() {
            let shape = VolumeShape { sides: [depth, height, width], channels };
            let count = planes * rows * columns * channels;
            let mut out = vec![0; (count * self.finish.to.of(array.dtype())?.bytes()) as usize];
            self.finish.apply_to_volume(array.dtype(), &shape, voxels, array.bytes(), &mut out)?;
            return Ok(out);
        }
        let mut out = Vec::new();
        let order = |plane: u64| if self.finish.turn.flip_planes { planes - 1 - plane } else { plane };
        for plane in (0..planes).map(order) {
            let mut cut = Vec::new();
            for row in 0..rows {
                let start = (((z + plane) * height + y + row) * width + x) * pixel;
                cut.extend(&array.bytes()[start as usize..(start + columns * pixel) as usize]);
            }
            let shape = [rows, columns, channels];
            let mut turned = vec![0; self.finish.to.of(array.dtype())?.array_bytes(&shape)? as usize];
            self.finish.apply(array.dtype(), shape, Layout::AsShape, &cut, &mut turned)?;
            out.extend(turned);
        }
        Ok(out)
    }
}

pub(super) type Played = Result<Vec<u8>, Fault>;

/// A staged batch. Its memory is filled with a given byte before the items are staged.
struct Batch {
    assembled: Assembled,
    staging: Vec<u8>,
    /// Range of each item in the output. The flag is true if the stage took the item.
    places: Vec<(Range<usize>, bool)>,
}

impl Batch {
    fn of(items: &[Item], poison: u8) -> Self {
        let limits = Limits::default();
        let stored = |item: &Item| item.payload.len() + item.descriptor.stored_bytes().unwrap() as usize;
        // Leave 64 KiB of room for the tables of each array.
        let bytes = items.iter().map(|item| stored(item) + (64 << 10)).sum();
        let mut heap = Heap::new(Staging::<Heap>::memory_bytes(items.len(), bytes, 0));
        heap.bytes_mut().fill(poison);
        let mut end = 0_usize;
        let mut places = Vec::new();
        for item in items {
            // Leave a gap before each array. The kernels must not write to it.
            let start = (end + 8).next_multiple_of(8);
            end = start + item.out_bytes();
            places.push((start..end, false));
        }
        let (fill, zstd) = (Staging::new(heap, 0).unwrap(), &mut ZstdDecoder::default());
        fill.begin(end);
        for ((row, item), (bytes, is_taken)) in (0..).zip(items).zip(&mut places) {
            let spot = Spot { row, field: 0, bytes: bytes.clone() };
            let prepared = if item.staged {
                let (loan, parts) = fill.lend(&spot, item.payload.len(), item.payload.len()).unwrap();
                parts.into_iter().for_each(|mut part| part.bytes().copy_from_slice(&item.payload));
                fill.prepare_there(&spot, &item.value(loan.bytes().unwrap(), &limits), &loan, zstd)
            } else {
                fill.prepare(&spot, &item.value(&item.payload, &limits), zstd)
            };
            *is_taken = matches!(prepared, Prepared::Taken(_));
            assert_ne!(prepared, Prepared::Refused("no room left in the staging memory".into()));
        }
        let (assembled, mut upload) = fill.assemble(&[]).unwrap();
        let staging = upload.memory().unwrap().bytes_mut().to_vec();
        drop(upload);
        Self { assembled, staging, places }
    }
}

pub(super) fn upload_bytes(items: &[Item]) -> usize {
    Batch::of(items, 0).assembled.upload_bytes
}

/// Decodes a batch on the emulated device. Returns `None` for arrays that the stage refuses.
pub(super) fn play(items: &[Item], manner: Manner) -> Vec<Option<Played>> {
    let Batch { assembled, staging, places } = Batch::of(items, manner.poison);
    let bytes = places.last().map_or(0, |(place, _)| place.end);
    let (out, [_, words]) = play_kernels(&assembled, (&[], &staging), bytes, manner);
    let mut statuses = words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut end = 0;
    for (place, is_taken) in &places {
        assert!(out[end..place.start].iter().all(|b| *b == manner.poison), "written before {}", place.start);
        end = if *is_taken { place.end } else { place.start };
    }
    let mut played = |place: Range<usize>| {
        let status = statuses.next().unwrap();
        Fault::of(status).map_or_else(|| Ok(out[place].to_vec()), Err)
    };
    places.into_iter().map(|(place, is_taken)| is_taken.then(|| played(place))).collect()
}

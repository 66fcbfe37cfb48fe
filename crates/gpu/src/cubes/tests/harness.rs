//! Batches on the played device, and the host's results for comparison.

use super::generate::finished;
use crate::cubes::{CubeStager, Fault, Payload};
use shardpack_array::{ArrayDecoder, EncodedArray, Finish, Region};
use shardpack_format::{ArrayDescriptor, Codec, Error, Limits};
use shardpack_gpu_play::{Device, Manner};

/// One array of a batch, and the request for it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) codec: Codec,
    pub(super) descriptor: ArrayDescriptor,
    pub(super) payload: Vec<u8>,
    pub(super) region: Option<Region>,
    pub(super) finish: Finish,
    /// True to put the payload into the slot first.
    pub(super) staged: bool,
}

impl Item {
    pub(super) fn of(encoded: &EncodedArray) -> Self {
        Self {
            codec: encoded.codec,
            descriptor: encoded.descriptor.clone(),
            payload: encoded.payload.clone(),
            region: None,
            finish: Finish::NOTHING,
            staged: false,
        }
    }

    /// Decodes the item on the host.
    pub(super) fn on_the_host(&self) -> Result<Vec<u8>, Error> {
        let limits = Limits::default();
        let mut decoder = ArrayDecoder::new();
        let (decoded, elements) = match &self.region {
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

/// The device's result for one array: its values, or its fault.
pub(super) type Played = Result<Vec<u8>, Fault>;

/// Bytes to upload for a batch.
pub(super) fn upload_bytes(items: &[Item]) -> usize {
    let (mut stager, mut slot) = (CubeStager::default(), vec![0; 1 << 22]);
    let mut batch = stager.begin(&mut slot).unwrap();
    for Item { codec, descriptor, payload, region, finish, .. } in items {
        let payload = Payload::Bytes(payload);
        batch.push(*codec, descriptor, payload, region.as_ref(), finish, 0, &Limits::default()).unwrap();
    }
    batch.finish().unwrap().upload_bytes()
}

/// Decodes a batch on the played device.
pub(super) fn play(stager: &mut CubeStager, items: &[Item], manner: Manner) -> Result<Vec<Played>, Error> {
    let limits = Limits::default();
    let tables: u64 = items.iter().map(|i| CubeStager::table_bytes(&i.descriptor, i.region.as_ref()).unwrap()).sum();
    let payloads: u64 = items.iter().map(|i| i.payload.len() as u64 + i.descriptor.stored_bytes().unwrap()).sum();
    let scratch: u64 = items.iter().map(|i| CubeStager::scratch_bytes(&i.descriptor).unwrap()).sum();
    let mut slot = vec![manner.poison; (tables + payloads) as usize + 2048];
    let mut batch = stager.begin(&mut slot)?;
    let (mut places, mut out) = (Vec::new(), 0_u64);
    for item in items {
        let payload = if item.staged {
            batch.room()[..item.payload.len()].copy_from_slice(&item.payload);
            Payload::Staged(item.payload.len())
        } else {
            Payload::Bytes(&item.payload)
        };
        // A gap before each array, which must stay untouched.
        out = (out + 8).next_multiple_of(8);
        let staged =
            batch.push(item.codec, &item.descriptor, payload, item.region.as_ref(), &item.finish, out, &limits)?;
        places.push(out as usize..(out + staged.bytes) as usize);
        out += staged.bytes;
    }
    let work = batch.finish()?;
    assert!(work.slot_bytes() <= slot.len() as u64 + 512 + scratch, "scratch is no more than what is said");
    let mut device = Device::new(manner);
    let mut image = vec![manner.poison; work.slot_bytes() as usize];
    image[..work.upload_bytes()].copy_from_slice(&slot[..work.upload_bytes()]);
    let (slot, output) = (device.upload(&image), device.alloc(work.out_bytes() as usize));
    for launch in work.launches(device.address(slot), 0, device.address(output)) {
        if launch.has_work() {
            device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes()).unwrap();
        }
    }
    let statuses = device.bytes(slot)[work.statuses()].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    let bytes = device.bytes(output);
    let mut end = 0;
    for place in &places {
        assert!(bytes[end..place.start].iter().all(|b| *b == manner.poison), "written before {}", place.start);
        end = place.end;
    }
    Ok(statuses
        .zip(places)
        .map(|(status, place)| Fault::of(status).map_or_else(|| Ok(bytes[place].to_vec()), Err))
        .collect())
}

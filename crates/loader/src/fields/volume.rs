//! Volumes from which boxes are cut: arrays `[depth, height, width]` or `[depth, height, width, channels]`,
//! with the axes in this order.

use super::array::MOVED_BYTES;
use crate::patches::PatchPlace;
use shardpack_array::{ArrayDecoder, Finish, Resampling, Voxels};
use shardpack_format::{ArrayDescriptor, Codec};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VolumeField {
    pub(crate) position: usize,
    /// Size of a box. Its position differs from sample to sample.
    pub(crate) part: Voxels,
    pub(crate) place: PatchPlace,
    pub(crate) finish: Finish,
    /// Approximate size of the largest source box that a random map reads. Its origin is ignored.
    pub(crate) reach: Voxels,
    /// How voxels are resampled if random affine maps move them, or if channels get a low resolution.
    pub(crate) sampling: Option<Resampling>,
    /// True if channels are augmented, in which case `finish` has factors.
    pub(crate) is_banded: bool,
    pub(crate) fill: Option<f32>,
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// Sides of all volumes, as far as the examples show, or `None` if they differ.
    pub(crate) scene: Option<[u64; 3]>,
}

impl VolumeField {
    pub(crate) fn scratch_bytes(&self) -> u64 {
        let bytes = |(codec, descriptor): &(Codec, ArrayDescriptor)| {
            let decoder = ArrayDecoder::scratch_bytes(*codec, descriptor).ok()?;
            let bytes = descriptor.decoded_bytes().ok()?.saturating_mul(2).saturating_add(decoder);
            let elements = |size: [u64; 3]| {
                let voxels = size.into_iter().fold(1, u64::saturating_mul);
                voxels.saturating_mul(descriptor.shape.get(3).copied().unwrap_or(1))
            };
            let reach = [0, 1, 2].map(|axis| descriptor.shape.get(axis).copied().unwrap_or(0));
            // A map across planes needs memory for the box and for the source voxels, which are at most the whole
            // volume.
            let moved = elements(self.part.size).saturating_add(elements(reach));
            let held = if self.sampling.is_some() { moved.saturating_mul(MOVED_BYTES) } else { 0 };
            Some(bytes.saturating_add(held))
        };
        self.stored.iter().filter_map(bytes).max().unwrap_or(0)
    }
}

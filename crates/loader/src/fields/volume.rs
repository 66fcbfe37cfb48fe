//! Volumes from which boxes are cut: arrays `[depth, height, width]` or `[depth, height, width, channels]`,
//! with the axes in this order.

use super::array::MOVED_BYTES;
use crate::patches::PatchPlace;
use shardpack_array::{ArrayDecoder, Finish, Resampling, Voxels};
use shardpack_format::{ArrayDescriptor, Codec};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VolumeField {
    pub(crate) position: usize,
    /// Size of a box. Each sample adds its place.
    pub(crate) part: Voxels,
    pub(crate) place: PatchPlace,
    pub(crate) finish: Finish,
    /// Resampling of a plane's pixels when random affine maps move them.
    pub(crate) sampling: Option<Resampling>,
    /// True if channels are augmented. Then `finish` has factors.
    pub(crate) is_banded: bool,
    pub(crate) fill: Option<f32>,
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// Sides of all volumes, judging by the examples; `None` if they differ.
    pub(crate) scene: Option<[u64; 3]>,
}

impl VolumeField {
    pub(crate) fn scratch_bytes(&self) -> u64 {
        let bytes = |(codec, descriptor): &(Codec, ArrayDescriptor)| {
            let decoder = ArrayDecoder::scratch_bytes(*codec, descriptor).ok()?;
            let bytes = descriptor.decoded_bytes().ok()?.saturating_mul(2).saturating_add(decoder);
            let [_, height, width] = self.part.size;
            let plane = height.saturating_mul(width).saturating_mul(descriptor.shape.get(3).copied().unwrap_or(1));
            let held = if self.sampling.is_some() { plane.saturating_mul(MOVED_BYTES) } else { 0 };
            Some(bytes.saturating_add(held))
        };
        self.stored.iter().filter_map(bytes).max().unwrap_or(0)
    }
}

//! Volumes: arrays `[depth, height, width]` and `[depth, height, width, channels]`, by the order of
//! their axes, of which boxes are cut.

use crate::patches::PatchPlace;
use shardpack_array::{ArrayDecoder, Finish};
use shardpack_format::{ArrayDescriptor, Codec};

/// What is cut out of the volumes of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VolumeField {
    pub(crate) position: usize,
    /// Depth, height and width of a box.
    pub(crate) size: [u64; 3],
    pub(crate) place: PatchPlace,
    /// What becomes of its elements.
    pub(crate) finish: Finish,
    /// Whether its channels are changed at random; then `finish` has factors.
    pub(crate) is_banded: bool,
    /// What comes in the place of no-data.
    pub(crate) fill: Option<f32>,
    /// Examples of how volumes are stored.
    pub(crate) stored: Vec<(Codec, ArrayDescriptor)>,
    /// Sides of all volumes, as far as examples tell; `None` if they differ.
    pub(crate) scene: Option<[u64; 3]>,
}

impl VolumeField {
    /// What decoding a volume takes of a thread.
    pub(crate) fn scratch_bytes(&self) -> u64 {
        let bytes = |(codec, descriptor): &(Codec, ArrayDescriptor)| {
            let decoder = ArrayDecoder::scratch_bytes(*codec, descriptor).ok()?;
            Some(descriptor.decoded_bytes().ok()?.saturating_mul(2).saturating_add(decoder))
        };
        self.stored.iter().filter_map(bytes).max().unwrap_or(0)
    }
}

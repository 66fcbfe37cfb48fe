//! The part that is cut out of an array.

use crate::patches::{PatchAt, PatchPlace};
use shardpack_array::Region;
use shardpack_format::Limits;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// Bands, layout, and patch size. Each sample sets the place of its patch, or the size of its whole array.
    pub(crate) region: Region,
    /// Place of the patch; `None` loads all pixels.
    pub(crate) place: Option<PatchPlace>,
    /// Height and width of all arrays, according to the examples; `None` if they differ.
    pub(crate) scene: Option<[u64; 2]>,
}

/// Size and window of a row's arrays, shared by all arrays that are cut or turned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutOf {
    /// Depth, height and width; the depth is 1 except for volumes.
    pub(crate) size: [u64; 3],
    /// First plane, row and column of the window; `None` without a window.
    pub(crate) origin: Option<[u64; 3]>,
    pub(crate) is_volume: bool,
}

impl CutOf {
    pub(crate) fn at(&self, number: u32) -> PatchAt {
        let Self { size: scene, origin, is_volume } = *self;
        PatchAt { number, origin: origin.unwrap_or_default(), scene, is_volume }
    }
}

/// Returns limits for an array that is decoded only in part.
pub(crate) fn limits_of_a_part(limits: &Limits) -> Limits {
    Limits { max_decoded_bytes: u64::MAX, ..limits.clone() }
}

//! The part that is cut out of an array.

use crate::patches::{PatchAt, PatchPlace};
use shardpack_array::Region;
use shardpack_format::Limits;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// Bands, layout and patch size. The origin is filled in for each sample. If no patch is cut, the size of the
    /// sample's array is filled in.
    pub(crate) region: Region,
    /// Position of the patch, or `None` if all pixels are loaded.
    pub(crate) place: Option<PatchPlace>,
    /// Height and width of all arrays, as far as the examples show, or `None` if they differ.
    pub(crate) scene: Option<[u64; 2]>,
}

/// Size and window of a row's arrays, shared by all arrays of the row that are cut or rotated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutOf {
    /// Depth, height and width. The depth is 1 unless the array is a volume.
    pub(crate) size: [u64; 3],
    /// First plane, row and column of the window, or `None` without a window.
    pub(crate) origin: Option<[u64; 3]>,
    pub(crate) is_volume: bool,
}

impl CutOf {
    pub(crate) fn at(&self, number: u32) -> PatchAt {
        let Self { size: scene, origin, is_volume } = *self;
        PatchAt { number, origin: origin.unwrap_or_default(), scene, is_volume }
    }
}

/// Returns the limits without a maximum array size, because only a part of the array is decoded.
pub(crate) fn limits_of_a_part(limits: &Limits) -> Limits {
    Limits { max_decoded_bytes: u64::MAX, ..limits.clone() }
}

//! What is cut out of an array.

use crate::patches::{PatchAt, PatchPlace};
use shardpack_array::Region;
use shardpack_format::Limits;

/// A part of an array of two or three axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// Bands, layout, and the size of a patch; its place, or the size of the whole array, is put in
    /// for each sample.
    pub(crate) region: Region,
    /// Where the patch lies; `None` if all pixels come.
    pub(crate) place: Option<PatchPlace>,
    /// Height and width of all arrays, as far as examples tell; `None` if they differ.
    pub(crate) scene: Option<[u64; 2]>,
}

/// The arrays of a row that are cut or turned: one window, and one turn, is for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutOf {
    /// Depth, height and width. The depth is 1, except of volumes.
    pub(crate) size: [u64; 3],
    /// First plane, row and column of the window, if there is one.
    pub(crate) origin: Option<[u64; 3]>,
    pub(crate) is_volume: bool,
}

impl CutOf {
    /// Where the patch of this number lies.
    pub(crate) fn at(&self, number: u32) -> PatchAt {
        let Self { size: scene, origin, is_volume } = *self;
        PatchAt { number, origin: origin.unwrap_or_default(), scene, is_volume }
    }
}

/// Limits for the whole of an array of which only a part is decoded.
pub(crate) fn limits_of_a_part(limits: &Limits) -> Limits {
    Limits { max_decoded_bytes: u64::MAX, ..limits.clone() }
}

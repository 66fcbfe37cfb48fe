//! Affine maps of pixels and voxels, in the form that the kernels need. `Affine` in `kernels/cube.cuh` lists the
//! kinds.

use shardpack_array::{Finish, Resampling, element_bytes};
use shardpack_format::ElementType;

/// Source of an output pixel: the pixel in the same position, the nearest pixel after a map, the mean of four pixels,
/// or the pixel that the table of a view names. Across planes: the nearest voxel, or the mean of eight.
const AFFINE_NOTHING: u32 = 0;
pub(super) const AFFINE_NEAREST: u32 = 1;
pub(super) const AFFINE_MEAN: u32 = 2;
pub(super) const AFFINE_VIEW: u32 = 3;
pub(super) const AFFINE_VOLUME_NEAREST: u32 = 4;
pub(super) const AFFINE_VOLUME_MEAN: u32 = 5;

/// An affine map: its kind, its coefficients, and the value of pixels whose source is outside the array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AffineRow {
    pub(super) kind: u32,
    pub(super) map: [f64; 6],
    pub(super) outside: u64,
}

impl AffineRow {
    pub(super) const NONE: Self = Self { kind: AFFINE_NOTHING, map: [0.0; 6], outside: 0 };

    /// Creates the map for an array that is output as `element`.
    pub(super) fn of(finish: &Finish, element: ElementType) -> Self {
        let (map, sampling, [nearest, mean]) = match (&finish.volume, &finish.warp) {
            (Some(volume), _) => ([0.0; 6], volume.sampling, [AFFINE_VOLUME_NEAREST, AFFINE_VOLUME_MEAN]),
            (None, Some(warp)) => (warp.map, warp.sampling, [AFFINE_NEAREST, AFFINE_MEAN]),
            (None, None) => return Self::NONE,
        };
        let (kind, bytes) = match sampling {
            Resampling::Nearest { outside } => (nearest, element_bytes(element, outside).unwrap_or_default()),
            Resampling::Bilinear { outside } => (mean, outside.to_le_bytes().to_vec()),
        };
        let outside = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Self { kind, map, outside }
    }

    pub(super) const fn makes_means(&self) -> bool {
        self.kind == AFFINE_MEAN
    }

    /// Creates the map of a view whose border has the value `border`.
    pub(super) const fn of_view(border: u64) -> Self {
        Self { kind: AFFINE_VIEW, map: [0.0; 6], outside: border }
    }
}

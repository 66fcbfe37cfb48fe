//! Affine maps of a box of a volume across planes, and channels with a low resolution.
//!
//! Host and device compute identical results, because every product and every sum is rounded separately.

use crate::region::Voxels;
use crate::warp::{NEAR, Resampling, along};
use shardpack_format::{Error, Result, to_usize};

/// Size and number of channels of a volume whose elements are in the order planes, rows, columns, channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeShape {
    /// Depth, height and width.
    pub sides: [u64; 3],
    /// Number of channels, or 1 if the volume has no channel axis.
    pub channels: u64,
}

/// Describes how the voxels of a box are computed: first by an affine map across planes, then by lowering the
/// resolution.
///
/// The map also reads voxels outside the box, so that voxels at the edges of the box have values.
///
/// ```
/// use shardpack_array::{As, Finish, Resampling, VolumeShape, VolumeWarp, Voxels};
/// use shardpack_format::Dtype;
/// // Half a plane deeper, in a volume of three planes with one voxel each.
/// let (shape, part) = (VolumeShape { sides: [3, 1, 1], channels: 1 }, Voxels { origin: [0; 3], size: [2, 1, 1] });
/// let mut map = VolumeWarp::STILL;
/// map[11] = 0.5;
/// let within = Voxels { origin: [0; 3], size: shape.sides };
/// let sampling = Resampling::Bilinear { outside: 0.0 };
/// let volume = Some(VolumeWarp { map, sampling, within, low: Vec::new() });
/// let (elements, mut out) = ([1.0_f32, 2.0, 4.0].map(f32::to_le_bytes).concat(), [0; 8]);
/// Finish { volume, ..Finish::NOTHING }.apply_to_volume(Dtype::F32, &shape, part, &elements, &mut out)?;
/// assert_eq!(out, *[1.5_f32, 3.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeWarp {
    /// Rows of the map for x, y and z: the output voxel at (x, y, z) samples the volume at (`map[0]` x + `map[1]` y +
    /// `map[2]` z + `map[3]`, …). Both positions are in voxels to the right, down and deeper, from the centre of the
    /// box.
    pub map: [f64; 12],
    /// How a voxel is computed. Bilinear sampling uses the mean of eight voxels.
    pub sampling: Resampling,
    /// Voxels that the map may read. All other voxels count as outside the volume.
    pub within: Voxels,
    /// For each channel, the number of planes, rows and columns of the box at the low resolution, or `None` if the
    /// channel keeps its resolution. Empty if all channels keep their resolution. Requires bilinear sampling.
    pub low: Vec<Option<[u64; 3]>>,
}

/// A voxel that contributes to the value at a sampling position. It is ignored if its weight is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct VoxelTap {
    pub(crate) weight: f32,
    /// Index of the voxel among the voxels that the box depends on, or `None` outside the volume.
    pub(crate) voxel: Option<usize>,
}

/// Positions that the voxels of one row of a box sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPlaces {
    /// Differences between neighbouring positions, as `[x, y, z]`.
    steps: [f64; 3],
    /// Position of the middle of the row, as `[x, y, z]`.
    middle: [f64; 3],
    /// Half the number of columns.
    half: f64,
}

/// The eight voxels around a position, all of them in the box that a map depends on, and their weights in reading
/// order. No weight is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Neighbours {
    /// Index of the first voxel.
    pub(crate) first: usize,
    pub(crate) weights: [f32; 8],
}

/// The two positions along an axis between which a low-resolution channel is interpolated, and the weight of
/// the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LowTaps {
    pub(crate) places: [usize; 2],
    pub(crate) second_weight: f32,
}

impl VolumeWarp {
    /// A map that leaves all voxels in place.
    pub const STILL: [f64; 12] = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];

    /// Returns the box of all voxels that box `part` depends on. It has at least one voxel if `within` has one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the ends of a side")]
    pub fn reach(&self, part: Voxels) -> Voxels {
        if self.map == Self::STILL {
            return part;
        }
        let (mut least, mut most) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        let ends = part.size.map(|side| [0, side.saturating_sub(1)]);
        for corner in 0..8 {
            let [z, y, x] = [ends[0][corner / 4], ends[1][corner / 2 % 2], ends[2][corner % 2]];
            let [at_x, at_y, at_z] = self.place(part, [z, y, x]);
            for (axis, at) in [at_z, at_y, at_x].into_iter().enumerate() {
                (least[axis], most[axis]) = (least[axis].min(at), most[axis].max(at));
            }
        }
        let Voxels { origin, size } = self.within;
        let mut reach = self.within;
        for axis in 0..3 {
            let (first, last) = (origin[axis] as f64, (origin[axis] + size[axis].saturating_sub(1)) as f64);
            // Include one more voxel than needed on each side, because positions are rounded.
            let low = (least[axis].floor() - 2.0).clamp(first, last) as u64;
            let high = (most[axis].floor() + 2.0).clamp(first, last) as u64;
            reach.origin[axis] = low;
            reach.size[axis] = (high - low + 1).min(size[axis]);
        }
        reach
    }

    /// Returns the positions in the volume that row `[z, y]` of box `part` samples.
    pub(crate) fn row(&self, part: Voxels, [z, y]: [u64; 2]) -> RowPlaces {
        let middle = |axis: usize| part.origin[axis] as f64 + part.size[axis] as f64 * 0.5;
        // A voxel's centre is half a voxel from its edge.
        let from_middle = |at: u64, axis: usize| at as f64 + 0.5 - part.size[axis] as f64 * 0.5;
        let (z, y) = (from_middle(z, 0), from_middle(y, 1));
        let of_axis = |n: usize| [1, 2, 3].map(|column| self.map[4 * n + column]);
        let middle = [0, 1, 2].map(|n| {
            let [b, c, d] = of_axis(n);
            b * y + c * z + d + middle(2 - n)
        });
        RowPlaces { steps: [self.map[0], self.map[4], self.map[8]], middle, half: part.size[2] as f64 * 0.5 }
    }

    /// Returns the position `[x, y, z]` in the volume that voxel `[z, y, x]` of box `part` samples.
    pub(crate) fn place(&self, part: Voxels, [z, y, x]: [u64; 3]) -> [f64; 3] {
        self.row(part, [z, y]).at(x)
    }

    /// Returns the index in `reach` of the voxel at the given position, or `None` outside the volume.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the ends of a side")]
    pub(crate) fn nearest(&self, [x, y, z]: [f64; 3], reach: Voxels) -> Option<usize> {
        // A quarter turn may map to a point exactly on an edge between voxels. There, rounding errors of the sines
        // would choose a side at random.
        let (z, y, x) = (z + NEAR, y + NEAR, x + NEAR);
        let is_inside = |axis: usize, at: f64| {
            let first = self.within.origin[axis];
            at >= first as f64 && at < (first + self.within.size[axis]) as f64
        };
        if !is_inside(0, z) || !is_inside(1, y) || !is_inside(2, x) {
            return None;
        }
        number_in(reach, [z as u64, y as u64, x as u64])
    }

    /// Returns the eight voxels around the given position, in reading order, as indices in `reach` with weights.
    pub(crate) fn around(&self, [x, y, z]: [f64; 3], reach: Voxels) -> [VoxelTap; 8] {
        const OUTSIDE: [VoxelTap; 8] = {
            let nothing = VoxelTap { weight: 0.0, voxel: None };
            let all = VoxelTap { weight: 1.0, voxel: None };
            [all, nothing, nothing, nothing, nothing, nothing, nothing, nothing]
        };
        let at = [z - 0.5, y - 0.5, x - 0.5];
        let Voxels { origin, size } = self.within;
        // This is also false for NaN.
        let is_near =
            |axis: usize| at[axis] > origin[axis] as f64 - 1.0 && at[axis] < (origin[axis] + size[axis]) as f64;
        if !(0..3).all(is_near) {
            return OUTSIDE;
        }
        let [planes, rows, columns] = [0, 1, 2].map(|axis| along(at[axis], origin[axis]..origin[axis] + size[axis]));
        let taps = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| {
            let ((plane, deep), (row, high), (column, wide)) = (planes[n / 4], rows[n / 2 % 2], columns[n % 2]);
            let voxel = match (plane, row, column) {
                (Some(plane), Some(row), Some(column)) => number_in(reach, [plane, row, column]),
                _ => None,
            };
            VoxelTap { weight: wide * high * deep, voxel }
        });
        // Outside the volume, the weights of the eight voxels may not add up to 1.
        let is_inside = |tap: &VoxelTap| tap.weight != 0.0 && tap.voxel.is_some();
        if taps.iter().any(is_inside) { taps } else { OUTSIDE }
    }

    /// Returns the same as [`around`](Self::around) if all eight voxels are in `reach` and count, and `None` otherwise.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the ends of a side")]
    pub(crate) fn neighbours(&self, [x, y, z]: [f64; 3], reach: Voxels) -> Option<Neighbours> {
        // Returns the number of the first of two voxels along an axis, and the weight of the second.
        let first = |at: f64, axis: usize| {
            // The floor of the position, as in `along`. Truncation is faster.
            let near = at + NEAR;
            let truncated = near as i64;
            let number = truncated.saturating_sub(i64::from(truncated as f64 > near));
            let beyond = at - number as f64;
            let voxel = (number as u64).wrapping_sub(reach.origin[axis]);
            let has_both = number >= 0 && voxel < reach.size[axis].saturating_sub(1);
            (has_both && beyond >= NEAR && beyond as f32 != 1.0).then_some((voxel, beyond as f32))
        };
        let ((plane, deep), (row, high), (column, wide)) = (first(z - 0.5, 0)?, first(y - 0.5, 1)?, first(x - 0.5, 2)?);
        let number = (plane * reach.size[1] + row) * reach.size[2] + column;
        let (above, left) = (1.0 - high, 1.0 - wide);
        let (a, b, c, d) = (left * above, wide * above, left * high, wide * high);
        let front = 1.0 - deep;
        let weights = [a * front, b * front, c * front, d * front, a * deep, b * deep, c * deep, d * deep];
        Some(Neighbours { first: to_usize(number), weights })
    }

    /// Fails unless `within` lies in a volume of this shape and the low resolutions fit the box.
    pub(crate) fn check(&self, shape: &VolumeShape, part: Voxels) -> Result<()> {
        let fits = |part: Voxels| {
            let ends = part.origin.iter().zip(part.size).map(|(origin, size)| origin.checked_add(size));
            ends.zip(shape.sides).all(|(end, side)| end.is_some_and(|end| end <= side))
        };
        if !fits(self.within) || !fits(part) || part.size.contains(&0) {
            return Err(Error::usage(format!(
                "the box at {:?} of size {:?} is not within the volume of size {:?}",
                part.origin, part.size, shape.sides
            )));
        }
        let is_low = |low: &[u64; 3]| low.iter().zip(part.size).all(|(low, side)| (1..=side).contains(low));
        let of_channels = self.low.is_empty() || self.low.len() as u64 == shape.channels;
        if !of_channels || !self.low.iter().flatten().all(is_low) {
            let (low, channels, size) = (&self.low, shape.channels, part.size);
            return Err(Error::usage(format!(
                "the low resolution of each of the {channels} channels must be None or from [1, 1, 1] to {size:?} (the \
                 size of the box), but these were given: {low:?}"
            )));
        }
        if !self.low.is_empty() && !self.sampling.mixes() {
            return Err(Error::usage(
                "a low resolution needs linear interpolation: nearest-neighbour interpolation is not supported",
            ));
        }
        Ok(())
    }
}

impl LowTaps {
    /// Calls `each` with the positions whose weight is not 0, and their weights.
    #[inline]
    pub(crate) fn weighted(&self, mut each: impl FnMut(usize, f32)) {
        let weights = [1.0 - self.second_weight, self.second_weight];
        for (place, weight) in self.places.into_iter().zip(weights) {
            if weight != 0.0 {
                each(place, weight);
            }
        }
    }
}

impl RowPlaces {
    /// Returns the position `[x, y, z]` that the voxel in this column samples.
    pub(crate) fn at(&self, column: u64) -> [f64; 3] {
        let x = column as f64 + 0.5 - self.half;
        let ([of_x, of_y, of_z], [x0, y0, z0]) = (self.steps, self.middle);
        [of_x * x + x0, of_y * x + y0, of_z * x + z0]
    }
}

/// Returns the index of the voxel at `[z, y, x]` in box `part`.
fn number_in(part: Voxels, at: [u64; 3]) -> Option<usize> {
    let within = |axis: usize| at[axis].checked_sub(part.origin[axis]).filter(|n| *n < part.size[axis]);
    let (z, y, x) = (within(0)?, within(1)?, within(2)?);
    Some(to_usize((z * part.size[1] + y) * part.size[2] + x))
}

/// Returns the two positions and the weight for voxel `at` along a side of `side` voxels, if only `low` of these
/// voxels are kept. The kept voxels are chosen as in PyTorch's `nearest-exact`. Values between them are interpolated
/// linearly.
pub(crate) fn low_taps(at: usize, low: u64, side: u64) -> LowTaps {
    // Count in units of half a voxel, so that all numbers are integers.
    let ahead = ((2 * at as u64 + 1) * low).saturating_sub(side);
    let (first, rest) = (ahead / (2 * side), ahead % (2 * side));
    let voxel = |n: u64| to_usize((2 * n.min(low - 1) + 1) * side / (2 * low));
    #[expect(clippy::cast_possible_truncation, reason = "rounded to a weight")]
    let second_weight = (rest as f64 / (2 * side) as f64) as f32;
    LowTaps { places: [voxel(first), voxel(first + 1)], second_weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warp(map: [f64; 12], within: Voxels) -> VolumeWarp {
        VolumeWarp { map, sampling: Resampling::Bilinear { outside: 0.0 }, within, low: Vec::new() }
    }

    #[test]
    fn weights_are_the_distances_to_the_voxels_on_the_other_side() {
        let within = Voxels { origin: [0, 0, 0], size: [3, 4, 5] };
        let still = warp(VolumeWarp::STILL, within);
        let taps = |place| still.around(place, within).map(|tap| (tap.weight, tap.voxel));
        assert_eq!(
            taps([1.75, 2.0, 1.0]),
            [
                (0.1875, Some(6)),
                (0.0625, Some(7)),
                (0.1875, Some(11)),
                (0.0625, Some(12)),
                (0.1875, Some(26)),
                (0.0625, Some(27)),
                (0.1875, Some(31)),
                (0.0625, Some(32))
            ]
        );
        // If the position is the centre of a voxel, other voxels have no weight.
        let counted: Vec<_> = taps([2.5, 0.5, 1.5]).into_iter().filter(|tap| tap.0 != 0.0).collect();
        assert_eq!(counted, [(1.0, Some(22))]);
        for place in [[-0.5, 0.5, 0.5], [5.5, 0.5, 0.5], [0.5, 0.5, -0.5], [0.5, f64::NAN, 0.5]] {
            assert_eq!(taps(place)[0], (1.0, None), "{place:?}");
        }
        assert_eq!(still.nearest([4.9, 1.0, 2.0], within), Some(49));
        assert_eq!([[-0.1, 0.0, 0.0], [0.0, 0.0, 3.0]].map(|place| still.nearest(place, within)), [None; 2]);
    }

    #[test]
    fn the_reach_has_all_voxels_that_count() {
        let within = Voxels { origin: [2, 0, 1], size: [20, 30, 24] };
        let part = Voxels { origin: [6, 9, 8], size: [7, 8, 9] };
        let map = [0.8, -0.5, 0.3, 2.5, 0.5, 0.8, -0.2, -1.0, -0.2, 0.4, 1.2, 0.75];
        let moved = warp(map, within);
        let reach = moved.reach(part);
        assert!(reach.size.iter().zip(within.size).all(|(size, most)| *size < most), "{reach:?}");
        let ([planes, rows, columns], mut inside) = (part.size, 0);
        for n in 0..planes * rows * columns {
            let place = moved.place(part, [n / (rows * columns), n / columns % rows, n % columns]);
            let number = |of: Voxels| moved.around(place, of).map(|tap| tap.voxel.is_some());
            assert_eq!(number(reach), number(within), "{place:?}");
            if let Some(Neighbours { first, weights }) = moved.neighbours(place, reach) {
                let [_, rows, columns] = reach.size.map(to_usize);
                let at = |n: usize| first + (n / 4 * rows + n / 2 % 2) * columns + n % 2;
                let expected = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| VoxelTap { weight: weights[n], voxel: Some(at(n)) });
                assert_eq!(moved.around(place, reach), expected, "{place:?}");
                inside += 1;
            }
            assert_eq!(moved.nearest(place, reach).is_some(), moved.nearest(place, within).is_some());
        }
        for far in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            assert_eq!(moved.neighbours([far, 2.0, 2.0], reach), None);
        }
        assert!(inside > 400, "{inside} positions");
        let [mut away, one] = [map; 2];
        away[3] = 1e6;
        assert_eq!(warp(away, within).reach(part).size[2], 1, "nothing but outside");
        assert_eq!(warp(one, part).reach(part), part);
    }

    #[test]
    fn low_resolution_takes_the_voxels_at_the_centres() {
        let taps = |at| low_taps(at, 2, 4);
        assert_eq!(taps(0), LowTaps { places: [1, 3], second_weight: 0.0 });
        assert_eq!(taps(1), LowTaps { places: [1, 3], second_weight: 0.25 });
        assert_eq!(taps(2), LowTaps { places: [1, 3], second_weight: 0.75 });
        assert_eq!(taps(3), LowTaps { places: [3, 3], second_weight: 0.25 });
        for at in 0..7 {
            assert_eq!((low_taps(at, 7, 7).places[0], low_taps(at, 7, 7).second_weight), (at, 0.0));
        }
    }
}

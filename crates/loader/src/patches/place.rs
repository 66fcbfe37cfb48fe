//! Computes the positions of patches before a record is read.

use shardpack_jpeg::DrawKey;

/// Index of the draw pair for the plane of a box. Only its first draw is used.
const PLANES: u32 = DRAWS + 4;
/// Index of the draw pair for a patch. Random views use other pairs, so a picture and a cube of the same sample are
/// cut independently.
const DRAWS: u32 = 1 << 31;

/// Where a patch lies in its array. The position depends only on seed, epoch, sample and the two sizes. Threads,
/// batch size and world size do not affect it. All arrays of a sample are cut at the same position.
///
/// ```
/// use shardpack_jpeg::DrawKey;
/// use shardpack_loader::PatchPlace;
/// let key = |epoch| DrawKey { seed: 1, epoch, sample: 7 };
/// let (array, patch) = ([480, 640], [64, 64]);
/// assert_eq!(PatchPlace::Center.origin(&key(0), array, patch), Some([208, 288]));
/// assert_eq!(PatchPlace::Random.origin(&key(3), array, patch), PatchPlace::Random.origin(&key(3), array, patch));
/// // 8 rows of 10 tiles; in epoch 0 sample 7 shows tile 7, in the next one tile 8.
/// assert_eq!(PatchPlace::tiles(array, patch), 80);
/// assert_eq!(PatchPlace::Cycle.origin(&key(0), array, patch), Some([0, 448]));
/// assert_eq!(PatchPlace::Cycle.origin(&key(1), array, patch), Some([0, 512]));
/// assert_eq!(PatchPlace::Cycle.origin(&key(1), [480, 63], patch), None, "larger than the array");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PatchPlace {
    /// A random position for each sample and epoch. All positions are equally likely.
    #[default]
    Random,
    /// The centre of the array. If a side of the array exceeds that of the patch by an odd number of pixels, the
    /// patch lies half a pixel nearer to the top left corner.
    Center,
    /// The tiles of the array in turn, row by row from the top left corner. In epoch `e`, sample `s` shows
    /// tile `(e + s) mod tiles`. The upper half of the key's epoch, which distinguishes repeated draws of a
    /// sample, is added as well. If the patch's sides divide the array's, [`PatchPlace::tiles`] consecutive
    /// epochs show every pixel once. Otherwise some pixels are shown twice, because the last tiles of rows
    /// and columns are moved back into the array.
    Cycle,
}

impl PatchPlace {
    /// Returns the first row and column of a patch `[height, width]` in an array of this size, or `None` if the patch
    /// is empty or larger than the array.
    #[must_use]
    pub fn origin(self, key: &DrawKey, array: [u64; 2], patch: [u64; 2]) -> Option<[u64; 2]> {
        let [height, width] = patch;
        let room = [array[0].checked_sub(height)?, array[1].checked_sub(width)?];
        if height == 0 || width == 0 {
            return None;
        }
        Some(match self {
            Self::Random => {
                let [y, x] = key.draws().pair(DRAWS);
                [at(y, room[0]), at(x, room[1])]
            }
            Self::Center => room.map(|room| room / 2),
            Self::Cycle => {
                let (columns, tiles) = (array[1].div_ceil(width), Self::tiles(array, patch));
                let tile = u128::from(key.epoch & 0xFFFF_FFFF) + u128::from(key.epoch >> 32) + u128::from(key.sample);
                let tile = u64::try_from(tile % u128::from(tiles)).ok()?;
                [room[0].min(tile / columns * height), room[1].min(tile % columns * width)]
            }
        })
    }

    /// Same as [`PatchPlace::origin`], for a box `[depth, height, width]` in a volume. The plane is drawn separately.
    /// Row and column are drawn as for a patch. Also `None` for [`PatchPlace::Cycle`].
    #[must_use]
    pub fn origin_in_volume(self, key: &DrawKey, volume: [u64; 3], size: [u64; 3]) -> Option<[u64; 3]> {
        let room = volume[0].checked_sub(size[0])?;
        if size[0] == 0 || self == Self::Cycle {
            return None;
        }
        let [y, x] = self.origin(key, [volume[1], volume[2]], [size[1], size[2]])?;
        let z = if self == Self::Random { at(key.draws().pair(PLANES)[0], room) } else { room / 2 };
        Some([z, y, x])
    }

    /// Returns the number of tiles of [`PatchPlace::Cycle`], at least 1.
    #[must_use]
    pub const fn tiles(array: [u64; 2], patch: [u64; 2]) -> u64 {
        let [height, width] = patch;
        if height == 0 || width == 0 {
            return 1;
        }
        let tiles = array[0].div_ceil(height).saturating_mul(array[1].div_ceil(width));
        if tiles == 0 { 1 } else { tiles }
    }
}

/// The patch that a row shows: its number, and its position in the scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PatchAt {
    /// Index of the patch in its sample, or 0 if the sample has only one.
    pub number: u32,
    /// First plane, row and column of the patch in the scene. The plane is 0 unless the scene is a volume.
    pub origin: [u64; 3],
    /// Depth, height and width of the scene. The depth is 1 unless the scene is a volume.
    pub scene: [u64; 3],
    /// True if the patch is a box of a volume.
    pub is_volume: bool,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and bounded by `room`")]
fn at(draw: f64, room: u64) -> u64 {
    ((draw * (room as f64 + 1.0)) as u64).min(room)
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;

    fn key(epoch: u64, sample: u64) -> DrawKey {
        DrawKey { seed: 3, epoch, sample }
    }

    #[test]
    fn random_places_are_uniform_and_reach_both_ends() {
        // The draws cover 5 × 13 positions. The chi-square statistic with 64 degrees of freedom exceeds 114 with a
        // probability of 0.01 %.
        let mut hits = [0_u32; 65];
        for sample in 0..65_000 {
            let [y, x] = PatchPlace::Random.origin(&key(2, sample), [10, 20], [6, 8]).unwrap();
            hits[(y * 13 + x) as usize] += 1;
        }
        let chi: f64 = hits.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 114.0, "{chi}");
        let places: std::collections::HashSet<_> =
            (0..20).map(|epoch| PatchPlace::Random.origin(&key(epoch, 1), [999, 999], [9, 9])).collect();
        assert_eq!(places.len(), 20, "epochs differ");
    }

    #[test]
    fn the_grid_shows_every_pixel() {
        for (array, patch, once) in
            [([12, 20], [4, 5], true), ([12, 20], [5, 7], false), ([5, 5], [5, 5], true), ([1, 9], [1, 2], false)]
        {
            for sample in [0, 1, 77, u64::MAX] {
                let mut shown = vec![0_u32; (array[0] * array[1]) as usize];
                for epoch in 40..40 + PatchPlace::tiles(array, patch) {
                    let [top, left] = PatchPlace::Cycle.origin(&key(epoch, sample), array, patch).unwrap();
                    for (y, x) in (0..patch[0]).flat_map(|y| (0..patch[1]).map(move |x| (y, x))) {
                        shown[((top + y) * array[1] + left + x) as usize] += 1;
                    }
                }
                assert!(shown.iter().all(|&n| n >= 1 && (n == 1 || !once)), "{array:?} {patch:?}: {shown:?}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_has_no_place() {
        for place in [PatchPlace::Random, PatchPlace::Center, PatchPlace::Cycle] {
            assert_eq!(place.origin(&key(1, 5), [4, 4], [4, 4]), Some([0, 0]));
            for patch in [[5, 4], [4, 5], [0, 4], [4, 0]] {
                assert_eq!(place.origin(&key(1, 5), [4, 4], patch), None, "{place:?} {patch:?}");
            }
            let [y, x] = place.origin(&key(u64::MAX, u64::MAX), [u64::MAX; 2], [1, 1]).unwrap();
            assert!(y < u64::MAX && x < u64::MAX);
        }
        assert_eq!((PatchPlace::tiles([0, 3], [1, 1]), PatchPlace::tiles([3, 3], [0, 1])), (1, 1));
    }
}

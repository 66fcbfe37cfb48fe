//! Draws flips and rotations of arrays. The draws need no data from the record.

use shardpack_array::Turn;
use shardpack_jpeg::DrawKey;

/// Index of the first draw pair for flips and rotations. Patches use the earlier pairs.
const FLIPS: u32 = (1 << 31) + 1;
const TURNS: u32 = FLIPS + 1;
/// Index of the draw pair for plane flips. Only its first draw is used.
const PLANES: u32 = FLIPS + 8;

/// Random flips and rotations of arrays with two or three axes. All arrays of a sample, such as a cube and its mask,
/// get the same rotation, so they must have the same height and width. Patches are rotated after they are cut. All
/// planes of a volume's box get the same rotation. Pictures and arrays with any other number of axes stay unchanged.
///
/// The result depends only on the seed, the epoch, the sample, and whether the array or patch is square. Threads,
/// batch size and world size do not affect it.
///
/// ```
/// use shardpack_jpeg::DrawKey;
/// use shardpack_loader::Augment;
/// let key = DrawKey { seed: 1, epoch: 0, sample: 7 };
/// let augment = Augment { flip_columns: true, rotate: true, ..Augment::default() };
/// assert_eq!(augment.turn(&key, [64, 64]), augment.turn(&key, [9, 9]));
/// assert!(!augment.turn(&key, [480, 640]).transpose, "half a turn, or none");
/// assert!(Augment::default().turn(&key, [64, 64]).is_none());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Augment {
    /// Flips half of the volume boxes from front to back, which reverses the order of their planes.
    pub flip_planes: bool,
    /// Flips half of the samples from top to bottom, which reverses the order of their rows.
    pub flip_rows: bool,
    /// Flips half of the samples from left to right.
    pub flip_columns: bool,
    /// Rotates samples counterclockwise by 0, 90, 180 or 270 degrees with equal probability, or only by 0 or 180
    /// degrees if height and width differ. Rotations are applied before flips.
    pub rotate: bool,
}

impl Augment {
    /// Returns true if nothing is flipped or rotated.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.flip_planes && !self.flip_rows && !self.flip_columns && !self.rotate
    }

    /// Returns the flips and the rotation of a sample whose arrays or patches have this height and width.
    #[must_use]
    pub fn turn(&self, key: &DrawKey, [height, width]: [u64; 2]) -> Turn {
        let [rows, columns] = key.draws().pair(FLIPS);
        let quarters = match key.draws().pair(TURNS) {
            _ if !self.rotate => 0,
            [quarter, _] if height == width => place(quarter, 4),
            [half, _] => 2 * place(half, 2),
        };
        let turn = Turn::new(self.flip_rows && rows < 0.5, self.flip_columns && columns < 0.5, quarters);
        Turn { flip_planes: self.flip_planes && key.draws().pair(PLANES)[0] < 0.5, ..turn }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0 and below `count`")]
fn place(draw: f64, count: u8) -> u8 {
    (draw * f64::from(count)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn counts(augment: Augment, size: [u64; 2]) -> BTreeMap<(bool, bool, bool), u32> {
        let mut counts = BTreeMap::new();
        for sample in 0..16_000 {
            let turn = augment.turn(&DrawKey { seed: 4, epoch: 2, sample }, size);
            *counts.entry((turn.flip_rows, turn.flip_columns, turn.transpose)).or_default() += 1;
        }
        counts
    }

    #[test]
    fn all_turns_are_alike() {
        let all = Augment { flip_rows: true, flip_columns: true, rotate: true, ..Augment::default() };
        let only = |flip_rows, flip_columns, rotate| Augment { flip_rows, flip_columns, rotate, ..Augment::default() };
        for (augment, size, kinds) in [
            (all, [8, 8], 8),
            (all, [8, 9], 4),
            (only(true, true, false), [8, 8], 4),
            (only(false, false, true), [8, 8], 4),
            (only(false, false, true), [9, 8], 2),
            (only(true, false, true), [8, 8], 8),
            (only(true, false, false), [8, 8], 2),
            (only(false, true, false), [8, 9], 2),
            (Augment::default(), [8, 8], 1),
        ] {
            let counts = counts(augment, size);
            assert_eq!(counts.len(), kinds, "{augment:?} {size:?}");
            // The chi-square statistic with 7 degrees of freedom exceeds 30 with a probability of 0.01 %.
            let mean = 16_000.0 / kinds as f64;
            let chi: f64 = counts.values().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
            assert!(chi < 30.0, "{augment:?} {size:?}: {counts:?}");
        }
    }

    #[test]
    fn planes_are_flipped_independently_of_rows_and_columns() {
        let all = Augment { flip_planes: true, flip_rows: true, flip_columns: true, rotate: true };
        let without = Augment { flip_planes: false, ..all };
        let mut seen = std::collections::HashSet::new();
        for sample in 0..400 {
            let key = DrawKey { seed: 4, epoch: 2, sample };
            let turn = all.turn(&key, [4, 4]);
            assert_eq!(Turn { flip_planes: false, ..turn }, without.turn(&key, [4, 4]));
            seen.insert(turn);
        }
        assert_eq!(seen.len(), 16, "both orders of planes, eight turns");
    }

    #[test]
    fn patches_are_placed_independently_of_their_turn() {
        use crate::patches::PatchPlace;
        let all = Augment { flip_rows: true, flip_columns: true, rotate: true, ..Augment::default() };
        let mut seen = std::collections::HashSet::new();
        for sample in 0..400 {
            let key = DrawKey { seed: 4, epoch: 2, sample };
            let top = PatchPlace::Random.origin(&key, [5, 5], [4, 4]).map(|[top, _]| top);
            seen.insert((top, all.turn(&key, [4, 4])));
        }
        assert_eq!(seen.len(), 16, "both rows, eight turns");
    }
}

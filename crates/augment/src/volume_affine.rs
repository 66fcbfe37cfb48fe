//! Random affine maps of the boxes of volumes, about all three axes.

use super::draw::between;
use shardpack_format::{Error, Result};

/// Largest angle in degrees, in either direction.
const TURNS: f64 = 360.0;
/// Angles to try for each axis when searching for the largest reach of a box, as fractions of the range of angles.
const TRIED: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// The three rows `[a, b, c, d]` of a map, for x, y and z. The output voxel at (x, y, z) has its source at a x + b y
/// + c z + d along the row's axis. Positions are relative to the centre of the box.
pub type VolumeMap = [f64; 12];

/// Ranges from which the map of a volume's box is drawn. Axes are in the order depth, height, width.
///
/// ```
/// use shardpack_augment::Augmentation;
/// use shardpack_base::DrawKey;
/// let half: Augmentation = "random_affine_3d(scale=2)".parse()?;
/// let draws = DrawKey { seed: 1, epoch: 0, sample: 7 }.draws();
/// let map = half.volume_map(&draws, 0, [8, 8, 8]).unwrap();
/// assert_eq!(map, [0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeAffine {
    /// Range in degrees of the rotation about each axis, −360 to 360. Default 0. Voxels are rotated about the width
    /// axis first, then about the height axis, and then about the depth axis. Each rotation is like `numpy.rot90`
    /// with the other two axes, in their order.
    pub degrees: [(f64, f64); 3],
    /// Range of the scale along each axis of the volume, above 0. A scale above 1 enlarges. Default 1.
    pub scale: [(f64, f64); 3],
    /// True if one scale is drawn for all axes, from the first range. Default true.
    pub isotropic: bool,
    /// Largest shift along each axis in either direction, as a share of the side, 0 to 1. Default 0.
    pub translate: [f64; 3],
    /// Probability of the rotation. Default 1.
    pub p_rotation: f64,
    /// Probability of the scaling. Default 1.
    pub p_scaling: f64,
    /// Probability that the box changes at all. Default 1.
    pub p: f64,
}

struct Chosen {
    degrees: [f64; 3],
    scale: [f64; 3],
    shift: [f64; 3],
}

impl VolumeAffine {
    /// Returns the map of a box with the given sides, or `None` if the box is not moved.
    pub(crate) fn drawn(&self, sides: [u64; 3], draws: [[f64; 2]; 6]) -> Option<VolumeMap> {
        let [[chance, rotates], [scales, depth], [height, width], [deep, high], [wide, back], [down, right]] = draws;
        let is_rotated = rotates < self.p_rotation && self.degrees != [(0.0, 0.0); 3];
        let is_scaled = scales < self.p_scaling && self.scale != [(1.0, 1.0); 3];
        let is_shifted = self.translate != [0.0; 3];
        if chance >= self.p || !is_rotated && !is_scaled && !is_shifted {
            return None;
        }
        let shifts = [back, down, right];
        let scale = match self.isotropic {
            true => [between(self.scale[0], deep); 3],
            false => [0, 1, 2].map(|axis| between(self.scale[axis], [deep, high, wide][axis])),
        };
        let turns = [depth, height, width];
        let chosen = Chosen {
            degrees: [0, 1, 2].map(|axis| if is_rotated { between(self.degrees[axis], turns[axis]) } else { 0.0 }),
            scale: if is_scaled { scale } else { [1.0; 3] },
            shift: [0, 1, 2].map(|axis| {
                let most = self.translate[axis] * sides[axis] as f64;
                between((-most, most), shifts[axis])
            }),
        };
        Some(chosen.map())
    }

    /// Returns the approximate size of the largest box of source voxels that a box with the given sides needs. Angles
    /// between the tried ones may need a slightly larger box.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0; saturates")]
    pub fn most_reach(&self, sides: [u64; 3]) -> [u64; 3] {
        let scale = match self.isotropic {
            true => [self.scale[0].0; 3],
            false => self.scale.map(|range| range.0),
        };
        let scale = scale.map(|scale| scale.min(1.0));
        let mut most = [0.0_f64; 3];
        for n in 0..TRIED.len().pow(3) {
            let tried = [TRIED[n % 5], TRIED[n / 5 % 5], TRIED[n / 25]];
            let degrees = [0, 1, 2].map(|axis| between(self.degrees[axis], tried[axis]));
            let map = Chosen { degrees, scale, shift: [0.0; 3] }.map();
            for axis in 0..3 {
                let row = 4 * (2 - axis);
                let [wide, high, deep] = [0, 1, 2].map(|n| map[row + n].abs() * sides[2 - n] as f64);
                let shift = 2.0 * self.translate[axis] * sides[axis] as f64 / scale[axis];
                most[axis] = most[axis].max(wide + high + deep + shift);
            }
        }
        most.map(|side| side.ceil() as u64 + 5)
    }

    pub(crate) fn check(&self) -> Result<()> {
        for p in [self.p, self.p_rotation, self.p_scaling] {
            if !(0.0..=1.0).contains(&p) {
                return Err(Error::usage(format!(
                    "the probability of an augmentation must be from 0 to 1, but is {p}"
                )));
            }
        }
        for (low, high) in self.degrees {
            if !(-TURNS <= low && low <= high && high <= TURNS) {
                return Err(Error::usage(format!(
                    "`degrees` in random_affine_3d must be a range LOW..HIGH with −{TURNS} ≤ LOW ≤ HIGH ≤ {TURNS}, \
                     but is {low}..{high}"
                )));
            }
        }
        for (low, high) in self.scale {
            if !(0.0 < low && low <= high && high <= 1e3) {
                return Err(Error::usage(format!(
                    "`scale` in random_affine_3d must be a range LOW..HIGH with 0 < LOW ≤ HIGH ≤ 1000, but is \
                     {low}..{high}"
                )));
            }
        }
        match self.translate.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            None => Ok(()),
            Some(share) => {
                Err(Error::usage(format!("`translate` in random_affine_3d must be from 0 to 1, but is {share}")))
            }
        }
    }
}

impl Chosen {
    /// Returns the map from the output to the volume.
    fn map(&self) -> VolumeMap {
        // Use libm, so that the numbers are the same on every platform.
        let turn = |degrees: f64| (libm::sin(degrees.to_radians()), libm::cos(degrees.to_radians()));
        let [(sin_z, cos_z), (sin_y, cos_y), (sin_x, cos_x)] = self.degrees.map(turn);
        // Axes are x, y, z. The map undoes the last rotation first.
        let about_z = [[cos_z, -sin_z, 0.0], [sin_z, cos_z, 0.0], [0.0, 0.0, 1.0]];
        let about_y = [[cos_y, 0.0, -sin_y], [0.0, 1.0, 0.0], [sin_y, 0.0, cos_y]];
        let about_x = [[1.0, 0.0, 0.0], [0.0, cos_x, -sin_x], [0.0, sin_x, cos_x]];
        let turned = product(about_x, product(about_y, about_z));
        let [deep, high, wide] = self.scale;
        let [down_z, down_y, down_x] = self.shift;
        let shift = [down_x, down_y, down_z];
        let mut map = [0.0; 12];
        for (row, scale) in [wide, high, deep].into_iter().enumerate() {
            // Add 0 to turn -0 into 0.
            let line = turned[row].map(|number| number / scale + 0.0);
            map[4 * row..4 * row + 3].copy_from_slice(&line);
            map[4 * row + 3] = 0.0 - (line[0] * shift[0] + line[1] * shift[1] + line[2] * shift[2]);
        }
        map
    }
}

fn product(a: [[f64; 3]; 3], b: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let at = |row: usize, column: usize| a[row][0] * b[0][column] + a[row][1] * b[1][column] + a[row][2] * b[2][column];
    [0, 1, 2].map(|row| [0, 1, 2].map(|column| at(row, column)))
}

#[cfg(test)]
mod tests {
    use crate::Augmentation;
    use shardpack_base::DrawKey;

    fn map(text: &str, sample: u64, sides: [u64; 3]) -> Option<super::VolumeMap> {
        let augmentation: Augmentation = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        augmentation.volume_map(&DrawKey { seed: 3, epoch: 1, sample }.draws(), 0, sides)
    }

    #[test]
    fn quarters_turn_like_numpy() {
        let quarter = |text| map(text, 0, [4, 4, 4]).unwrap().map(|number| (number * 1e9).round() / 1e9 + 0.0);
        // In a quarter turn about the depth axis, x comes from -y, and y from x.
        let about_z = quarter("random_affine_3d(degrees=90..90:0:0)");
        assert_eq!(about_z, [0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let about_y = quarter("random_affine_3d(degrees=0:90..90:0)");
        assert_eq!(about_y, [0.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let about_x = quarter("random_affine_3d(degrees=0:0:90..90)");
        assert_eq!(about_x, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        // Voxels are rotated about the width axis and then about the depth axis, so the map undoes the depth rotation
        // first.
        let both = quarter("random_affine_3d(degrees=90..90:0:90..90)");
        assert_eq!(both, [0.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let apart = quarter("random_affine_3d(scale=2:4:5,isotropic=false)");
        assert_eq!([apart[0], apart[5], apart[10]], [0.2, 0.25, 0.5]);
    }

    #[test]
    fn choices_have_their_probabilities_and_ranges() {
        let text = "random_affine_3d(degrees=30,scale=0.7..1.4,translate=0:0:0.25,p_rotation=0.2,p_scaling=0.5,p=0.5)";
        let (mut moved, mut turned, mut scaled) = (0, 0, 0);
        for map in (0..4000).filter_map(|sample| map(text, sample, [8, 8, 40])) {
            moved += 1;
            // The rows of a rotation have a length of 1.
            let length = (map[0] * map[0] + map[1] * map[1] + map[2] * map[2]).sqrt();
            turned += u32::from(map[1] != 0.0);
            scaled += u32::from((length - 1.0).abs() > 1e-9);
            assert!(length > 1.0 / 1.4 - 1e-9 && length < 1.0 / 0.7 + 1e-9, "{map:?}");
            let shift = (map[3] * map[3] + map[7] * map[7] + map[11] * map[11]).sqrt();
            assert!(shift <= 10.0 * length + 1e-9 && shift > 0.0, "{map:?}");
        }
        // The tolerance is five standard deviations.
        assert!((1842..2158).contains(&moved), "{moved}");
        assert!((310..490).contains(&turned), "{turned}");
        assert!((888..1112).contains(&scaled), "{scaled}");
        assert_eq!(map("random_affine_3d(degrees=30,p_rotation=0)", 0, [4; 3]), None);
    }

    #[test]
    fn the_largest_reach_holds_what_is_drawn() {
        let text = "random_affine_3d(degrees=30,scale=0.7..1.4)";
        let augmentation: Augmentation = text.parse().unwrap();
        let sides = [32, 40, 24];
        let most = augmentation.of_volumes().unwrap().most_reach(sides);
        for map in (0..2000).filter_map(|sample| map(text, sample, sides)) {
            for (axis, most) in most.iter().enumerate() {
                let row = 4 * (2 - axis);
                let needed: f64 = (0..3).map(|n| map[row + n].abs() * sides[2 - n] as f64).sum();
                assert!(needed <= *most as f64, "{map:?}: {needed} of {most}");
            }
        }
        let still: Augmentation = "random_affine_3d(scale=1..2)".parse().unwrap();
        assert_eq!(still.of_volumes().unwrap().most_reach(sides), [37, 45, 29]);
    }
}

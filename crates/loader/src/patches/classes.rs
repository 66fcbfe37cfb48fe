//! Places patches by the classes of the mask. Useful for classes that random patches rarely contain.

use shardpack_array::{Array, ArrayDecoder};
use shardpack_format::{ArrayDescriptor, Dtype, Error as FormatError, FieldValue, Limits, to_usize};
use shardpack_jpeg::DrawKey;
use shardpack_reader::Result;
use std::collections::BTreeMap;

/// Indices of the draw pairs. The first pair draws the class and a pixel of it. The second draws the row and
/// column of that pixel in the patch, and the third its plane.
const CLASS: u32 = (1 << 31) + 6;
const SPOT: u32 = (1 << 31) + 7;
const SPOT_PLANE: u32 = (1 << 31) + 8;

/// Mask classes on which patches are placed, if there are several patches per sample.
///
/// For each patch, the loader draws one of the classes in the scene's mask, then a pixel of that class, and then a
/// position for the patch that contains the pixel. All pixels of the class are equally likely, and so are all patch
/// positions that contain the pixel. The draws depend only on seed, epoch, sample and patch index. In a scene without
/// any of the classes, positions are random.
///
/// ```
/// use shardpack_loader::{CubeMode, LoaderOptions, PatchClasses, Patches, PatchPlace};
/// let train = LoaderOptions::default().cube(CubeMode::Patch { height: 64, width: 64, place: PatchPlace::Random }).patches(Patches::PerSample(16)).patch_classes(PatchClasses::Weighted(vec![(0, 1.0), (3, 4.0)]));
/// assert_ne!(train.view.patch_classes, PatchClasses::default());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum PatchClasses {
    /// Patches lie at random positions, regardless of classes.
    #[default]
    Any,
    /// All classes in a scene are drawn equally often.
    Balanced,
    /// Classes are drawn by weight. Weights must not be negative. Classes without a weight are not drawn.
    Weighted(Vec<(i64, f64)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassPlan {
    /// Index of the mask among the stored fields.
    pub(crate) position: usize,
    pub(crate) field: String,
    /// Depth, height and width of a patch. The depth is 1 unless the scene is a volume.
    pub(crate) patch: [u64; 3],
    /// Weight of each class, or `None` if all have the same weight.
    pub(crate) weights: Option<BTreeMap<i64, f64>>,
}

impl ClassPlan {
    /// Finds the pixels of each class in a mask.
    ///
    /// # Errors
    /// Errors from decoding the mask. `Usage` if its elements are not integers, or if it does not have two or
    /// three axes.
    pub(crate) fn map(
        value: &FieldValue<'_>,
        decoder: &mut ArrayDecoder,
        limits: &Limits,
    ) -> Result<ClassMap, FormatError> {
        let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
        let mask = decoder.decode(value.codec, &descriptor, value.bytes, limits)?;
        let size = match *mask.shape() {
            [height, width] => [1, height, width],
            [depth, height, width] => [depth, height, width],
            _ => {
                return Err(FormatError::usage(format!(
                    "a mask must have two or three axes, but its shape is {:?}",
                    mask.shape()
                )));
            }
        };
        let mut classes: BTreeMap<i64, Class> = BTreeMap::new();
        let runs = runs_of(&mask, limits.max_decoded_bytes)?;
        for ClassRun { class, first, length } in runs {
            let Class { count, runs } = classes.entry(class).or_default();
            runs.push((*count, first));
            *count += length;
        }
        Ok(ClassMap { size, classes })
    }

    /// Returns the first plane, row and column of the patch for each key, or `None` if the position is random.
    pub(crate) fn origins(&self, map: &ClassMap, keys: &[DrawKey]) -> Vec<Option<[u64; 3]>> {
        let [depth, height, width] = map.size;
        let weight = |class: &i64| self.weights.as_ref().map_or(1.0, |all| all.get(class).copied().unwrap_or(0.0));
        let weighed = map.classes.iter().map(|(class, pixels)| (weight(class), pixels));
        let present: Vec<(f64, &Class)> = weighed.filter(|(weight, _)| *weight > 0.0).collect();
        let total: f64 = present.iter().map(|(weight, _)| weight).sum();
        let [patch_depth, patch_height, patch_width] = self.patch;
        let room =
            depth.checked_sub(patch_depth).zip(height.checked_sub(patch_height)).zip(width.checked_sub(patch_width));
        let (Some(((planes, rows), columns)), true) = (room, total > 0.0) else { return vec![None; keys.len()] };
        let origin = |key: &DrawKey| {
            let draws = key.draws();
            let [which, pixel] = draws.pair(CLASS);
            let mut left = which * total;
            let chosen = present.iter().find(|(weight, _)| {
                left -= weight;
                left < 0.0
            });
            let (_, class) = chosen.or(present.last())?;
            let at = class.pixel(below(pixel, class.count))?;
            let ([down, right], [back, _]) = (draws.pair(SPOT), draws.pair(SPOT_PLANE));
            let place = |at: u64, side: u64, room: u64, draw: f64| {
                let (first, last) = (at.saturating_sub(side - 1), at.min(room));
                first.min(last) + below(draw, last.saturating_sub(first) + 1)
            };
            let (plane, row) = (at / width / height, at / width % height);
            Some([
                place(plane, patch_depth, planes, back),
                place(row, patch_height, rows, down),
                place(at % width, patch_width, columns, right),
            ])
        };
        keys.iter().map(origin).collect()
    }
}

#[derive(Debug)]
pub(crate) struct ClassMap {
    size: [u64; 3],
    classes: BTreeMap<i64, Class>,
}

#[derive(Debug, Default)]
struct Class {
    count: u64,
    /// First pixel of each run of the class, and the number of the class's pixels in earlier runs.
    runs: Vec<(u64, u64)>,
}

impl ClassMap {
    pub(crate) fn bytes(&self) -> u64 {
        let runs = self.classes.values().map(|class| size_of_val(&*class.runs) + size_of::<(i64, Class)>());
        runs.sum::<usize>() as u64
    }
}

impl Class {
    fn pixel(&self, number: u64) -> Option<u64> {
        let run = self.runs.partition_point(|(before, _)| *before <= number).checked_sub(1)?;
        self.runs.get(run).map(|(before, first)| first + (number - before))
    }
}

struct ClassRun {
    class: i64,
    first: u64,
    length: u64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below `count`")]
fn below(draw: f64, count: u64) -> u64 {
    ((draw * count as f64) as u64).min(count.saturating_sub(1))
}

/// Returns the runs of equal classes in a mask. Fails if they take more than `most` bytes.
fn runs_of(mask: &Array, most: u64) -> Result<Vec<ClassRun>, FormatError> {
    fn collect<const N: usize>(bytes: &[u8], most: usize, class: impl Fn([u8; N]) -> i64) -> Option<Vec<ClassRun>> {
        let mut runs: Vec<ClassRun> = Vec::new();
        for (pixel, value) in (0..).zip(bytes.as_chunks::<N>().0) {
            let class = class(*value);
            match runs.last_mut() {
                Some(run) if run.class == class => run.length += 1,
                _ => runs.push(ClassRun { class, first: pixel, length: 1 }),
            }
            if runs.len() > most {
                return None;
            }
        }
        Some(runs)
    }
    let (bytes, runs) = (mask.bytes(), to_usize(most / size_of::<ClassRun>() as u64));
    let found = match mask.dtype() {
        Dtype::Bool | Dtype::U8 => collect(bytes, runs, |[value]| value.into()),
        Dtype::I8 => collect(bytes, runs, |value| i8::from_le_bytes(value).into()),
        Dtype::U16 => collect(bytes, runs, |value| u16::from_le_bytes(value).into()),
        Dtype::I16 => collect(bytes, runs, |value| i16::from_le_bytes(value).into()),
        Dtype::U32 => collect(bytes, runs, |value| u32::from_le_bytes(value).into()),
        Dtype::I32 => collect(bytes, runs, |value| i32::from_le_bytes(value).into()),
        Dtype::U64 => collect(bytes, runs, |value| u64::from_le_bytes(value).cast_signed()),
        Dtype::I64 => collect(bytes, runs, i64::from_le_bytes),
        other => {
            return Err(FormatError::usage(format!(
                "drawing patches by class needs an integer mask, but the type of this mask is {other}"
            )));
        }
    };
    found.ok_or_else(|| {
        FormatError::limit("the list of class positions in a mask", "max_decoded_bytes", most, most.saturating_add(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Codec;

    /// Returns a mask of 20 × 30 pixels of class 0, with three pixels of class 7 at (2, 3), (2, 4) and (19, 29).
    fn mask() -> Vec<u8> {
        let mut mask = vec![0; 600];
        for pixel in [63, 64, 599] {
            mask[pixel] = 7;
        }
        mask
    }

    fn origins(weights: Option<&[(i64, f64)]>, mask: &[u8], [height, width]: [u64; 2]) -> Vec<Option<[u64; 2]>> {
        let origins = origins_in(weights, mask, &[20, 30], [1, height, width]).into_iter();
        origins.map(|origin| origin.map(|[plane, row, column]| [plane + row, column])).collect()
    }

    fn origins_in(
        weights: Option<&[(i64, f64)]>,
        mask: &[u8],
        shape: &[u64],
        patch: [u64; 3],
    ) -> Vec<Option<[u64; 3]>> {
        let weights = weights.map(|weights| weights.iter().copied().collect());
        let plan = ClassPlan { position: 0, field: "mask".into(), patch, weights };
        let descriptor = ArrayDescriptor::plain(Dtype::U8, shape.to_vec()).encode().unwrap();
        let decoded_bytes = mask.len() as u64;
        let value = FieldValue { codec: Codec::Raw, descriptor: &descriptor, bytes: mask, decoded_bytes };
        let keys: Vec<DrawKey> = (0..2_000).map(|epoch| DrawKey { seed: 4, epoch, sample: 1 }).collect();
        let map = ClassPlan::map(&value, &mut ArrayDecoder::new(), &Limits::default()).unwrap();
        plan.origins(&map, &keys)
    }

    fn shows([y, x]: [u64; 2], [height, width]: [u64; 2], [row, column]: [u64; 2]) -> bool {
        (y..y + height).contains(&row) && (x..x + width).contains(&column)
    }

    #[test]
    fn a_rare_class_is_shown_at_the_requested_rate() {
        let patch = [4, 5];
        let rare = |origin: &Option<[u64; 2]>| {
            [[2, 3], [2, 4], [19, 29]].iter().any(|&pixel| shows(origin.unwrap(), patch, pixel))
        };
        let balanced = origins(None, &mask(), patch);
        let shown = balanced.iter().filter(|origin| rare(origin)).count();
        // Half of the patches are placed on class 7. The bounds allow five standard deviations.
        assert!((990..1_200).contains(&shown), "{shown}");
        assert!(balanced.iter().all(|origin| origin.is_some_and(|[y, x]| y <= 16 && x <= 25)));
        let only = origins(Some(&[(7, 1.0), (3, 5.0)]), &mask(), patch);
        assert!(only.iter().all(rare));
        // Each of the three pixels is drawn with equal probability, and then each patch position that contains the
        // pixel.
        let last = only.iter().flatten().filter(|&&origin| shows(origin, patch, [19, 29])).count();
        assert!((560..775).contains(&last), "{last}");
        let distinct: std::collections::BTreeSet<_> = only.iter().flatten().collect();
        assert_eq!(distinct.len(), 3 * 5 + 1, "rows 0 to 2 and columns 0 to 4; and the corner");
        assert_eq!(only, origins(Some(&[(7, 1.0)]), &mask(), patch), "what the scene lacks is never drawn");
    }

    #[test]
    fn boxes_of_a_volume_show_a_rare_class_too() {
        let mut mask = vec![0; 120];
        mask[4 * 24 + 2 * 6 + 5] = 7;
        let origins = origins_in(Some(&[(7, 1.0)]), &mask, &[5, 4, 6], [3, 2, 2]);
        let distinct: std::collections::BTreeSet<_> = origins.iter().flatten().copied().collect();
        // Only two box positions contain this voxel: both cover the last three planes and the last two columns, and
        // they start at row 1 or 2.
        assert_eq!(distinct.into_iter().collect::<Vec<_>>(), [[2, 1, 4], [2, 2, 4]]);
        let shows = |[z, y, x]: [u64; 3]| z + 3 > 4 && (y..y + 2).contains(&2) && x + 2 > 5;
        let shown = origins_in(None, &mask, &[5, 4, 6], [3, 2, 2]).iter().filter(|o| shows(o.unwrap())).count();
        // Half of the boxes are placed on class 7. The bounds allow five standard deviations.
        assert!((890..1_200).contains(&shown), "{shown}");
        assert!(origins_in(None, &mask, &[5, 4, 6], [6, 1, 1]).iter().all(Option::is_none), "deeper than the mask");
    }

    #[test]
    fn without_its_classes_a_scene_has_patches_anywhere() {
        assert!(origins(Some(&[(3, 1.0)]), &mask(), [4, 5]).iter().all(Option::is_none));
        assert!(origins(None, &mask(), [21, 5]).iter().all(Option::is_none), "larger than the mask");
        assert!(origins(None, &mask(), [20, 30]).iter().all(|origin| *origin == Some([0, 0])));
    }
}

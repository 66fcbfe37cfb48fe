//! Writes the tables for random changes of decoded pictures, which `kernels/changes.cuh` reads.

use super::layout::TableWriter;
use shardpack_augment::{Augmentation, Operation, blur_weights};
use shardpack_jpeg::Rendering;

/// Number of words per pixel: two copies of the pixel, and three more floats for a blur.
const COPIES: u64 = 2;
const BLUR_COPIES: u64 = 5;

#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Operations on the picture, with all random choices made. If there are none, the kernel that computes the pixels
    /// writes them directly to the output.
    pub(super) operations: Vec<Operation>,
    pub(super) weights: Vec<f32>,
}

impl Changes {
    /// Makes the random choices for a picture whose output has the given height and width.
    pub(super) fn resolve(list: &[Augmentation], how: &Rendering, [height, width]: [u32; 2]) -> Self {
        let draws = how.key.draws();
        let resolved = (0..)
            .zip(list)
            .flat_map(|(place, augmentation)| augmentation.resolve(&draws, place, height as usize, width as usize));
        let operations: Vec<_> = resolved.collect();
        let weights = operations.iter().filter_map(|operation| match *operation {
            Operation::Blur { size, sigma } => Some(blur_weights(size, sigma)),
            _ => None,
        });
        Self { weights: weights.flatten().collect(), operations }
    }

    /// Returns the number of words that a picture needs for its levels: one per pixel, another one per pixel for a
    /// copy, and the intermediate values of a blur, if any.
    pub(super) fn words(&self, [height, width]: [u32; 2]) -> u64 {
        let copies = match (&*self.operations, &*self.weights) {
            ([], _) => 0,
            (_, []) => COPIES,
            _ => BLUR_COPIES,
        };
        copies * u64::from(height) * u64::from(width)
    }
}

/// Returns the maximum number of bytes for the levels of pictures with `pixels` pixels in total and the changes in
/// `list`.
pub(crate) fn most_level_bytes(list: &[Augmentation], pixels: u64) -> u64 {
    let blurs = |augmentation: &Augmentation| {
        let Augmentation::Random { operation, .. } = augmentation else {
            return matches!(augmentation, Augmentation::GaussianBlur { .. });
        };
        matches!(operation, Operation::Blur { .. })
    };
    let copies = match list {
        [] => return 0,
        list if list.iter().any(blurs) => BLUR_COPIES,
        _ => COPIES,
    };
    pixels.saturating_mul(4 * copies)
}

impl TableWriter<'_> {
    /// Appends `struct Changed`: a row whose levels begin at word `pixels` and whose first change has index `first`.
    pub(super) fn changed(&mut self, pixels: u64, out: u64, [height, width]: [u32; 2], first: u32, count: u32) {
        self.0.extend(pixels.to_le_bytes());
        self.0.extend(out.to_le_bytes());
        self.u32s([height, width, first, count]);
    }

    /// Appends `struct Change` for a picture of the given size. `weight` is the index of the first weight if the change
    /// is a blur. Returns the index for the next blur.
    pub(super) fn change(&mut self, operation: &Operation, [height, width]: [u32; 2], weight: u32) -> u32 {
        let (mut number, mut place, mut factors, mut map, mut next) = (0, [0; 4], [0.0; 2], [0.0; 6], weight);
        let side = shardpack_format::saturating_u32::<usize>;
        let kind = match *operation {
            Operation::Brightness(factor) => {
                factors = [factor, 0.0];
                0
            }
            Operation::Contrast(factor) => {
                factors = [factor, 1.0 - factor];
                1
            }
            Operation::Posterize(bits) => {
                number = u32::from(!0xFF_u8.checked_shr(bits.into()).unwrap_or(0));
                2
            }
            Operation::Solarize(threshold) => {
                factors = [threshold, 0.0];
                3
            }
            Operation::Invert => 4,
            Operation::AutoContrast => 5,
            Operation::Equalize => 6,
            Operation::Saturation(factor) => {
                factors = [factor, 1.0 - factor];
                7
            }
            Operation::Grayscale => 8,
            Operation::Hue(by) => {
                factors = [by, 0.0];
                9
            }
            Operation::Erase { origin: [top, left], size: [rows, columns], value: [red, green, blue] } => {
                place = [top, left, rows, columns].map(side);
                number = u32::from_le_bytes([red, green, blue, 0]);
                10
            }
            Operation::Sharpness(factor) => {
                factors = [factor, 1.0 - factor];
                11
            }
            Operation::Affine(affine) => {
                map = affine.inverse(f64::from(width), f64::from(height));
                12
            }
            Operation::Blur { size, .. } => {
                (number, place, next) = (size.max(1), [weight, 0, 0, 0], weight + size.max(1));
                13
            }
        };
        self.u32s([kind, number]);
        self.u32s(place);
        factors.iter().for_each(|&factor| self.0.extend(single(factor).to_le_bytes()));
        map.iter().for_each(|number| self.0.extend(number.to_le_bytes()));
        next
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
const fn single(value: f64) -> f32 {
    value as f32
}

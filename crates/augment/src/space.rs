//! The operations from which TrivialAugmentWide and RandAugment choose, with their magnitudes. These are
//! torchvision's tables, computed in float32 as in torchvision.

use super::affine::Affine;
use super::operation::Operation;
use super::picture::single;

/// Selects torchvision's table of operations for TrivialAugmentWide (`Wide`) or for RandAugment (`Rand`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Wide,
    Rand,
}

pub(crate) const COUNT: u32 = 14;

impl Space {
    /// Returns operation `which` with magnitude number `bin` of `bins`. The sign of the magnitude matters only for
    /// operations with a direction. Returns `None` for the identity.
    pub(crate) fn operation(
        self,
        which: u32,
        bin: u32,
        bins: u32,
        negative: bool,
        [height, width]: [usize; 2],
    ) -> Option<Operation> {
        let to = |wide: f64, rand: f64| {
            let end = single(if self == Self::Wide { wide } else { rand });
            let magnitude = f64::from(linspace(0.0, end, bin, bins));
            if negative { -magnitude } else { magnitude }
        };
        let affine = |affine| Some(Operation::Affine(affine));
        // torchvision truncates to whole pixels.
        let pixels = |side: usize| to(32.0, 150.0 / 331.0 * side as f64).trunc();
        let shear = || libm::atan(to(0.99, 0.3)).to_degrees();
        let factor = || 1.0 + to(0.99, 0.9);
        match which {
            1 => affine(Affine { shear: [shear(), 0.0], from_corner: true, ..Affine::default() }),
            2 => affine(Affine { shear: [0.0, shear()], from_corner: true, ..Affine::default() }),
            3 => affine(Affine { translate: [pixels(width), 0.0], ..Affine::default() }),
            4 => affine(Affine { translate: [0.0, pixels(height)], ..Affine::default() }),
            5 => affine(Affine::rotation(to(135.0, 30.0))),
            6 => Some(Operation::Brightness(factor())),
            7 => Some(Operation::Saturation(factor())),
            8 => Some(Operation::Contrast(factor())),
            9 => Some(Operation::Sharpness(factor())),
            10 => {
                let lost = if self == Self::Wide { 6.0 } else { 4.0 };
                Some(Operation::Posterize(bits(bin as f32 / single(f64::from(bins - 1) / lost))))
            }
            11 => Some(Operation::Solarize(255.0 * f64::from(linspace(1.0, 0.0, bin, bins)))),
            12 => Some(Operation::AutoContrast),
            13 => Some(Operation::Equalize),
            _ => None,
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "limited to 0 to 8")]
fn bits(lost: f32) -> u8 {
    (8.0 - lost).round_ties_even().clamp(0.0, 8.0) as u8
}

/// Computes each number from the nearer end, like `torch.linspace`.
fn linspace(start: f32, end: f32, at: u32, steps: u32) -> f32 {
    if steps <= 1 {
        return start;
    }
    let step = (end - start) / (steps - 1) as f32;
    if at < steps / 2 { start + step * at as f32 } else { end - step * (steps - 1 - at) as f32 }
}

//! Converts decoded levels to floats for the model.

use super::PixelLayout;
use half::{bf16, f16};
use shardpack_base::factors;
use shardpack_format::{Dtype, ElementType, Error, Hint, Result, Voice};

/// Factors that convert levels to floats. `level · scale + bias` is computed in float32 by a fused multiply-add,
/// which rounds once, and then rounded to the output type (to nearest, ties to even). uint8 output is not scaled.
///
/// ```
/// use shardpack_jpeg::Scaling;
/// let scaling = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])?;
/// assert!((scaling.apply(0, 255) - (1.0 - 0.485) / 0.229).abs() < 1e-6);
/// assert_eq!(Scaling::UNIT.apply(2, 255), 1.0);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Scale factors of red, green and blue.
    pub scale: [f32; 3],
    /// Biases of red, green and blue.
    pub bias: [f32; 3],
}

/// Hint in errors about cubes, because numbers without a field name apply to pictures.
const OF_A_CUBE: &str =
    "if the numbers are for an array field, name the field: mean={\"FIELD\": …}, std={\"FIELD\": …}";

impl Default for Scaling {
    fn default() -> Self {
        Self { scale: [1.0; 3], bias: [0.0; 3] }
    }
}

impl Scaling {
    /// Scales levels to the range 0 to 1: `level / 255`.
    pub const UNIT: Self = Self { scale: [1.0 / 255.0; 3], bias: [0.0; 3] };

    /// Creates the scaling `(level / 255 − mean) / std`, like torchvision's `ToTensor` and `Normalize`. Scale
    /// and bias are computed in float64 and rounded once.
    ///
    /// ```
    /// use shardpack_jpeg::Scaling;
    /// let error = Scaling::normalised([124.0, 116.0, 104.0], [58.0, 57.0, 57.0]).unwrap_err();
    /// assert!(error.to_string().starts_with("mean is 124, but must be at most 1: pictures are scaled"));
    /// ```
    ///
    /// # Errors
    /// `Usage` if a mean is not finite, a standard deviation is not a finite number above 0, or either is
    /// above 1, which is impossible for a picture with values from 0 to 1. Also `Usage` if float32 cannot
    /// represent the scale or the bias.
    pub fn normalised(mean: [f64; 3], std: [f64; 3]) -> Result<Self> {
        for (what, numbers) in [("mean", mean), ("std", std)] {
            if let Some(large) = numbers.into_iter().find(|number| number.is_finite() && *number > 1.0) {
                let hint = Hint::new("divide the numbers by 255 if they refer to values from 0 to 255")
                    .only(Voice::Python, "; ");
                let text = "but must be at most 1: pictures are scaled to the range 0 to 1";
                return Err(
                    Error::usage(format!("{what} is {large}, {text}")).with_hint(hint.only(Voice::Python, OF_A_CUBE))
                );
            }
        }
        let [(a, x), (b, y), (c, z)] = [(mean[0], std[0]), (mean[1], std[1]), (mean[2], std[2])];
        let [red, green, blue] = [factors(255.0, a, x)?, factors(255.0, b, y)?, factors(255.0, c, z)?];
        Ok(Self { scale: [red.0, green.0, blue.0], bias: [red.1, green.1, blue.1] })
    }

    /// Like [`Scaling::normalised`], with one number for all channels or one per channel.
    ///
    /// ```
    /// use shardpack_jpeg::Scaling;
    /// assert_eq!(Scaling::of(&[0.5], &[0.1, 0.2, 0.3])?, Scaling::normalised([0.5; 3], [0.1, 0.2, 0.3])?);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Scaling::normalised`]; also `Usage` if there are not one or three numbers.
    pub fn of(mean: &[f64], std: &[f64]) -> Result<Self> {
        let three = |what: &'static str, numbers: &[f64]| match numbers {
            &[one] => Ok([one; 3]),
            &[red, green, blue] => Ok([red, green, blue]),
            other => {
                let hint = Hint::new("").only(Voice::Python, OF_A_CUBE);
                let count = other.len();
                Err(Error::usage(format!("{what} must be one number, or three for red, green and blue, not {count}"))
                    .with_hint(hint))
            }
        };
        Self::normalised(three("mean", mean)?, three("std", std)?)
    }

    /// Converts a level of a channel. The result is the same on the host and on a device. Channels above 2 are
    /// converted like blue.
    #[must_use]
    pub fn apply(&self, channel: usize, level: u8) -> f32 {
        let [red, green, blue] = self.scale;
        let [r, g, b] = self.bias;
        let (scale, bias) = match channel {
            0 => (red, r),
            1 => (green, g),
            _ => (blue, b),
        };
        f32::from(level).mul_add(scale, bias)
    }
}

/// Lookup table from levels to floats. It contains the results of [`Scaling::apply`], rounded to a type.
///
/// ```
/// use shardpack_jpeg::{FloatTable, PixelLayout, Scaling};
/// use shardpack_format::Dtype;
/// let table = FloatTable::new(Scaling::UNIT, Dtype::F32.into())?;
/// let mut out = [0; 12];
/// table.convert(&[0, 255, 51], PixelLayout::HeightWidthChannels, &mut out)?;
/// assert_eq!(out, [0.0, 1.0, Scaling::UNIT.apply(2, 51)].map(f32::to_le_bytes).concat()[..]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FloatTable(Floats);

/// Floats as bytes, indexed by channel (red, green, blue) and level.
type FloatLevels<const N: usize> = [[[u8; N]; 256]; 3];

#[derive(Debug, Clone, PartialEq)]
enum Floats {
    Half(Box<FloatLevels<2>>),
    Single(Box<FloatLevels<4>>),
}

impl FloatTable {
    /// Creates the table of `scaling` for float16, bfloat16 or float32.
    ///
    /// # Errors
    /// `Usage` for other types.
    pub fn new(scaling: Scaling, element: ElementType) -> Result<Self> {
        let floats = match element {
            ElementType::Dtype(Dtype::F16) => {
                Floats::Half(table(|c, level| f16::from_f32(scaling.apply(c, level)).to_le_bytes()))
            }
            ElementType::Bf16 => Floats::Half(table(|c, level| bf16::from_f32(scaling.apply(c, level)).to_le_bytes())),
            ElementType::Dtype(Dtype::F32) => Floats::Single(table(|c, level| scaling.apply(c, level).to_le_bytes())),
            ElementType::Dtype(other) => {
                return Err(Error::usage(format!(
                    "pictures can be loaded as uint8, float16, bfloat16 or float32, but not as {other}"
                )));
            }
        };
        Ok(Self(floats))
    }

    /// Returns the number of bytes per float.
    #[must_use]
    pub const fn element_bytes(&self) -> usize {
        match self.0 {
            Floats::Half(_) => 2,
            Floats::Single(_) => 4,
        }
    }

    /// Converts decoded pixels of three channels to little-endian floats.
    ///
    /// # Errors
    /// `Usage` if `out` is not exactly as long as the floats.
    pub fn convert(&self, levels: &[u8], layout: PixelLayout, out: &mut [u8]) -> Result<()> {
        let filled = match &self.0 {
            Floats::Half(table) => look_up(table, levels, layout, out),
            Floats::Single(table) => look_up(table, levels, layout, out),
        };
        match filled {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "the picture needs a buffer of {} bytes, but this one has {}",
                levels.len().saturating_mul(self.element_bytes()),
                out.len()
            ))),
        }
    }
}

fn table<const N: usize>(float: impl Fn(usize, u8) -> [u8; N]) -> Box<FloatLevels<N>> {
    let mut table = Box::new([[[0; N]; 256]; 3]);
    for (channel, floats) in table.iter_mut().enumerate() {
        for (level, bytes) in (0..=u8::MAX).zip(floats) {
            *bytes = float(channel, level);
        }
    }
    table
}

/// Converts levels with a table. Returns false if `out` is not exactly as long as the floats.
fn look_up<const N: usize>(table: &FloatLevels<N>, levels: &[u8], layout: PixelLayout, out: &mut [u8]) -> bool {
    let (out, rest) = out.as_chunks_mut::<N>();
    if !rest.is_empty() || out.len() != levels.len() || !levels.len().is_multiple_of(3) {
        return false;
    }
    let [red, green, blue] = table;
    match layout {
        PixelLayout::HeightWidthChannels => {
            for ([r, g, b], to) in levels.as_chunks::<3>().0.iter().zip(out.as_chunks_mut::<3>().0) {
                *to = [red[usize::from(*r)], green[usize::from(*g)], blue[usize::from(*b)]];
            }
        }
        PixelLayout::ChannelsHeightWidth => {
            let pixels = (levels.len() / 3).max(1);
            for ((floats, levels), out) in table.iter().zip(levels.chunks(pixels)).zip(out.chunks_mut(pixels)) {
                for (level, to) in levels.iter().zip(out) {
                    *to = floats[usize::from(*level)];
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_what_scaling_gives() {
        let scaling = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).unwrap();
        let levels: Vec<u8> = (0..=255).flat_map(|level: u8| [level, level.wrapping_mul(7), 255 - level]).collect();
        let planes: Vec<u8> = (0..3).flat_map(|c| levels.iter().skip(c).step_by(3).copied()).collect();
        for dtype in [Dtype::F16.into(), ElementType::Bf16, Dtype::F32.into()] {
            let table = FloatTable::new(scaling, dtype).unwrap();
            let width = dtype.size();
            let (mut beside, mut by_plane) = (vec![0; levels.len() * width], vec![0; levels.len() * width]);
            table.convert(&levels, PixelLayout::HeightWidthChannels, &mut beside).unwrap();
            table.convert(&planes, PixelLayout::ChannelsHeightWidth, &mut by_plane).unwrap();
            for (i, &level) in levels.iter().enumerate() {
                let value = scaling.apply(i % 3, level);
                let bytes = match dtype {
                    ElementType::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
                    ElementType::Dtype(Dtype::F16) => f16::from_f32(value).to_le_bytes().to_vec(),
                    _ => value.to_le_bytes().to_vec(),
                };
                assert_eq!(beside[i * width..(i + 1) * width], bytes);
                let at = (i % 3 * 256 + i / 3) * width;
                assert_eq!(by_plane[at..at + width], bytes);
            }
            assert!(table.convert(&levels, PixelLayout::HeightWidthChannels, &mut beside[1..]).is_err());
        }
        assert!(FloatTable::new(scaling, Dtype::F64.into()).is_err());
    }
}

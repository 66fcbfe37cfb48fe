//! From levels, as pixels are decoded, to the floats that a model is trained on.

use half::f16;
use shardpack_format::{Dtype, Error, Result};

/// How floats are made of levels: `level · scale + bias`, by a fused product and sum in float32,
/// rounded once; then rounded to the output's type, to nearest, ties to even. uint8 stays as it is.
///
/// ```
/// use shardpack_codec::jpeg::Scaling;
/// let scaling = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
/// assert!((scaling.apply(0, 255) - (1.0 - 0.485) / 0.229).abs() < 1e-6);
/// assert_eq!(Scaling::UNIT.apply(2, 255), 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// For red, green and blue.
    pub scale: [f32; 3],
    /// For red, green and blue.
    pub bias: [f32; 3],
}

impl Default for Scaling {
    /// Levels, as floats.
    fn default() -> Self {
        Self { scale: [1.0; 3], bias: [0.0; 3] }
    }
}

impl Scaling {
    /// From 0 to 1: `level / 255`.
    pub const UNIT: Self = Self { scale: [1.0 / 255.0; 3], bias: [0.0; 3] };

    /// `(level / 255 − mean) / std`, as torchvision's `ToTensor` and `Normalize`. The two factors
    /// are computed in float64 and rounded once.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rounded to float32, as said")]
    pub fn normalised(mean: [f64; 3], std: [f64; 3]) -> Self {
        let factors = |f: fn(f64, f64) -> f64| {
            let [(a, x), (b, y), (c, z)] = [(mean[0], std[0]), (mean[1], std[1]), (mean[2], std[2])];
            [f(a, x) as f32, f(b, y) as f32, f(c, z) as f32]
        };
        Self { scale: factors(|_, std| 1.0 / (255.0 * std)), bias: factors(|mean, std| -mean / std) }
    }

    /// What a level of a channel becomes, on the host as on the device. Channels above 2 are blue.
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

/// The floats of all levels, looked up: what [`Scaling::apply`] gives, rounded to a type.
///
/// ```
/// use shardpack_codec::jpeg::{FloatTable, PixelLayout, Scaling};
/// use shardpack_format::Dtype;
/// let table = FloatTable::new(Scaling::UNIT, Dtype::F32)?;
/// let mut out = [0; 12];
/// table.convert(&[0, 255, 51], PixelLayout::HeightWidthChannels, &mut out)?;
/// assert_eq!(out, [[0; 4], 1.0_f32.to_le_bytes(), 0.2_f32.to_le_bytes()].concat()[..]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FloatTable {
    /// For red, green and blue.
    channels: [Floats; 3],
}

#[derive(Debug, Clone, PartialEq)]
enum Floats {
    Half([[u8; 2]; 256]),
    Single([[u8; 4]; 256]),
}

impl FloatTable {
    /// The table of `scaling`, for float16 or float32.
    ///
    /// # Errors
    /// `Usage` for another type.
    pub fn new(scaling: Scaling, dtype: Dtype) -> Result<Self> {
        let levels = |channel: usize| {
            let mut level = 0..=u8::MAX;
            let mut next = move || scaling.apply(channel, level.next().unwrap_or(u8::MAX));
            match dtype {
                Dtype::F16 => Ok(Floats::Half(std::array::from_fn(|_| f16::from_f32(next()).to_le_bytes()))),
                Dtype::F32 => Ok(Floats::Single(std::array::from_fn(|_| next().to_le_bytes()))),
                other => Err(Error::usage("element type of pictures", "uint8, float16 or float32", other)),
            }
        };
        Ok(Self { channels: [levels(0)?, levels(1)?, levels(2)?] })
    }

    /// Bytes of a float.
    #[must_use]
    pub const fn element_bytes(&self) -> usize {
        match self.channels {
            [Floats::Half(_), ..] => 2,
            [Floats::Single(_), ..] => 4,
        }
    }

    /// Makes floats of decoded pixels of three channels, little-endian.
    ///
    /// # Errors
    /// `Internal` if `out` has not room for just these.
    pub fn convert(&self, levels: &[u8], layout: super::PixelLayout, out: &mut [u8]) -> Result<()> {
        let [red, green, blue] = &self.channels;
        let filled = match (red, green, blue) {
            (Floats::Half(r), Floats::Half(g), Floats::Half(b)) => look_up([r, g, b], levels, layout, out),
            (Floats::Single(r), Floats::Single(g), Floats::Single(b)) => look_up([r, g, b], levels, layout, out),
            _ => false,
        };
        match filled {
            true => Ok(()),
            false => Err(Error::internal("floats of a picture", format!("room for {}", levels.len()), out.len())),
        }
    }
}

fn look_up<const N: usize>(
    [red, green, blue]: [&[[u8; N]; 256]; 3],
    levels: &[u8],
    layout: super::PixelLayout,
    out: &mut [u8],
) -> bool {
    let (out, rest) = out.as_chunks_mut::<N>();
    if !rest.is_empty() || out.len() != levels.len() || !levels.len().is_multiple_of(3) {
        return false;
    }
    match layout {
        super::PixelLayout::HeightWidthChannels => {
            for ([r, g, b], to) in levels.as_chunks::<3>().0.iter().zip(out.as_chunks_mut::<3>().0) {
                *to = [red[usize::from(*r)], green[usize::from(*g)], blue[usize::from(*b)]];
            }
        }
        super::PixelLayout::ChannelsHeightWidth => {
            let pixels = (levels.len() / 3).max(1);
            for ((table, levels), out) in
                [red, green, blue].iter().zip(levels.chunks(pixels)).zip(out.chunks_mut(pixels))
            {
                for (level, to) in levels.iter().zip(out) {
                    *to = table[usize::from(*level)];
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::PixelLayout;
    use super::*;

    #[test]
    fn tables_hold_what_scaling_gives() {
        let scaling = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
        let levels: Vec<u8> = (0..=255).flat_map(|level: u8| [level, level.wrapping_mul(7), 255 - level]).collect();
        let planes: Vec<u8> = (0..3).flat_map(|c| levels.iter().skip(c).step_by(3).copied()).collect();
        for dtype in [Dtype::F16, Dtype::F32] {
            let table = FloatTable::new(scaling, dtype).unwrap();
            let width = usize::try_from(dtype.bytes()).unwrap();
            let (mut beside, mut by_plane) = (vec![0; levels.len() * width], vec![0; levels.len() * width]);
            table.convert(&levels, PixelLayout::HeightWidthChannels, &mut beside).unwrap();
            table.convert(&planes, PixelLayout::ChannelsHeightWidth, &mut by_plane).unwrap();
            for (i, &level) in levels.iter().enumerate() {
                let value = scaling.apply(i % 3, level);
                let bytes = match dtype {
                    Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
                    _ => value.to_le_bytes().to_vec(),
                };
                assert_eq!(beside[i * width..(i + 1) * width], bytes);
                let at = (i % 3 * 256 + i / 3) * width;
                assert_eq!(by_plane[at..at + width], bytes);
            }
            assert!(table.convert(&levels, PixelLayout::HeightWidthChannels, &mut beside[1..]).is_err());
        }
        assert!(FloatTable::new(scaling, Dtype::F64).is_err());
    }
}

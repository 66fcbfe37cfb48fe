//! Converts the samples of a row to RGB.

use crate::color::product;
use shardpack_base::tiff::{TiffDirectory, TiffValues};
use shardpack_format::{Error, Result};

#[derive(Debug, Clone)]
pub(super) enum Ink {
    /// Gray. The largest value is white, or black if `is_inverted` is true.
    Gray {
        is_inverted: bool,
    },
    Rgb,
    /// Indices into this palette.
    Palette(Vec<[u8; 3]>),
    /// Cyan, magenta, yellow and black. The largest value is full ink.
    Cmyk,
    YCbCr(YCbCr),
}

impl Ink {
    /// Reads the meaning of the bands from the tags. `bits` is the number of bits per sample. `is_fax` is
    /// true if the rows use a CCITT compression.
    pub(super) fn of(directory: &TiffDirectory<'_, [u8]>, bands: usize, bits: u32, is_fax: bool) -> Result<Self> {
        // This is the default for writers that omit the tag.
        let usual = match bands {
            1 | 2 if is_fax => 0,
            1 | 2 => 1,
            _ => 2,
        };
        let photometric = directory.integer_or(262, usual)?;
        let refused = |found: String| {
            let supported = "greyscale, RGB, palette, CMYK, YCbCr";
            Err(Error::malformed(format!("TIFFs with {found} are not supported (supported: {supported})")))
        };
        let needed = match photometric {
            0 | 1 | 3 => 1,
            2 | 6 => 3,
            5 => 4,
            8 => return refused("CIELab colours".to_owned()),
            9 => return refused("ICCLab colours".to_owned()),
            10 => return refused("ITULab colours".to_owned()),
            32803 => return refused("raw camera data".to_owned()),
            32844 | 32845 => return refused("LogL or LogLuv colours".to_owned()),
            other => return refused(format!("photometric interpretation {other}")),
        };
        if bands < needed {
            return Err(Error::format("number of TIFF bands", format!("at least {needed}"), bands));
        }
        Ok(match photometric {
            0 => Self::Gray { is_inverted: true },
            1 => Self::Gray { is_inverted: false },
            2 => Self::Rgb,
            3 => Self::Palette(palette(directory, bits)?),
            5 if directory.integer_or(332, 1)? == 1 => Self::Cmyk,
            5 => return refused("inks other than CMYK".to_owned()),
            _ => Self::YCbCr(YCbCr::of(directory)?),
        })
    }

    /// Returns the number of bands that determine a pixel's colour.
    pub(super) const fn bands(&self) -> usize {
        match self {
            Self::Gray { .. } | Self::Palette(_) => 1,
            Self::Rgb | Self::YCbCr(_) => 3,
            Self::Cmyk => 4,
        }
    }

    /// Converts a row of `samples` to RGB. Each pixel has `bands` samples, starting with its colour.
    pub(super) fn write(&self, samples: &[u16], bands: usize, depth: Depth, rgb: &mut [u8]) {
        let pixels = samples.chunks_exact(bands.max(1)).zip(rgb.as_chunks_mut::<3>().0);
        for (from, to) in pixels {
            *to = match (self, from) {
                (Self::Gray { is_inverted }, &[level, ..]) => {
                    [depth.narrow(if *is_inverted { depth.most().saturating_sub(level) } else { level }); 3]
                }
                (Self::Rgb, &[r, g, b, ..]) => [r, g, b].map(|level| depth.narrow(level)),
                (Self::Palette(colors), &[index, ..]) => colors.get(usize::from(index)).copied().unwrap_or_default(),
                (Self::Cmyk, &[c, m, y, k, ..]) => cmyk([c, m, y, k].map(|level| depth.narrow(level))),
                (Self::YCbCr(how), &[y, cb, cr, ..]) => how.rgb([y, cb, cr].map(|level| depth.narrow(level))),
                _ => [0; 3],
            };
        }
    }
}

/// Bit depth of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Depth(pub(super) u32);

impl Depth {
    pub(super) const fn most(self) -> u16 {
        match 1_u16.checked_shl(self.0) {
            Some(above) => above - 1,
            None => u16::MAX,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 255")]
    fn narrow(self, level: u16) -> u8 {
        let most = u32::from(self.most()).max(1);
        match self.0 {
            8 => level as u8,
            _ => ((u32::from(level) * 255 + most / 2) / most) as u8,
        }
    }
}

/// Reads the colours of a palette. Its tag lists all reds, then all greens, then all blues.
fn palette(directory: &TiffDirectory<'_, [u8]>, bits: u32) -> Result<Vec<[u8; 3]>> {
    let levels = directory.values(320)?.ok_or_else(|| Error::malformed("the TIFF has no palette for its colours"))?;
    let count = usize::from(Depth(bits).most()) + 1;
    if levels.len() < 3 * count {
        return Err(Error::malformed(format!(
            "the palette of the TIFF has {} values, but {count} colours need {}",
            levels.len(),
            3 * count
        )));
    }
    // A few old writers store 8-bit levels instead of 16-bit levels.
    let is_narrow = (0..3 * count).all(|at| levels.integer(at).is_some_and(|level| level < 256));
    let shift = if is_narrow { 0 } else { 8 };
    let level = |at| levels.integer(at).and_then(|level| u8::try_from(level >> shift).ok()).unwrap_or(u8::MAX);
    Ok((0..count).map(|index| [0, 1, 2].map(|channel| level(channel * count + index))).collect())
}

/// Returns the numbers of a tag. Missing numbers are taken from `default`. If a number is not finite, returns
/// `default` instead.
fn floats<const N: usize>(directory: &TiffDirectory<'_, [u8]>, tag: u16, default: [f64; N]) -> Result<[f64; N]> {
    let values = directory.values(tag)?;
    let mut found = default;
    for (at, number) in found.iter_mut().enumerate() {
        *number = values.as_ref().and_then(|values| values.float(at)).unwrap_or(*number);
    }
    Ok(if found.iter().all(|value| value.is_finite()) { found } else { default })
}

/// Conversion of luma and chroma to RGB (TIFF 6.0, section 21), and chroma subsampling.
#[derive(Debug, Clone, Copy)]
pub(super) struct YCbCr {
    /// Number of pixels per chroma sample, horizontally and vertically.
    pub(super) subsampling: [usize; 2],
    /// Weights of red, green and blue in the luma.
    luma: [f64; 3],
    /// Black and white level of each component.
    reference: [f64; 6],
}

impl YCbCr {
    fn of(directory: &TiffDirectory<'_, [u8]>) -> Result<Self> {
        let factor = |values: Option<&TiffValues<'_>>, at| values.and_then(|values| values.integer(at)).unwrap_or(2);
        let factors = directory.values(530)?;
        let subsampling = [factor(factors.as_ref(), 0), factor(factors.as_ref(), 1)];
        let [across, down] = subsampling.map(|factor| match factor {
            1 | 2 | 4 => usize::try_from(factor).ok(),
            _ => None,
        });
        let (Some(across), Some(down)) = (across, down) else {
            let [across, down] = subsampling;
            return Err(Error::malformed(format!(
                "TIFFs with {across} × {down} chroma subsampling are not supported: each factor must be 1, 2 or 4"
            )));
        };
        let luma = floats(directory, 529, [0.299, 0.587, 0.114])?;
        let reference = floats(directory, 532, [0.0, 255.0, 128.0, 255.0, 128.0, 255.0])?;
        Ok(Self { subsampling: [across, down], luma, reference })
    }

    fn rgb(&self, ycc: [u8; 3]) -> [u8; 3] {
        let [y, cb, cr] = ycc.map(f64::from);
        let [y0, y1, b0, b1, r0, r1] = self.reference;
        let [red, green, blue] = self.luma;
        let y = (y - y0) * 255.0 / (y1 - y0);
        let cb = (cb - b0) * 127.0 / (b1 - b0);
        let cr = (cr - r0) * 127.0 / (r1 - r0);
        let (r, b) = (y + cr * (2.0 - 2.0 * red), y + cb * (2.0 - 2.0 * blue));
        let g = (y - blue * b - red * r) / green;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255; no number becomes 0")]
        [r, g, b].map(|level| level.clamp(0.0, 255.0).round() as u8)
    }
}

/// Converts CMYK like Pillow.
fn cmyk([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let white = 255 - k;
    [c, m, y].map(|ink| white - product(ink, white))
}

/// Divides a colour by the alpha that it was multiplied by, like Pillow.
pub(super) fn divide(rgb: &mut [u8; 3], alpha: u8) {
    match u32::from(alpha) {
        0 => *rgb = [0; 3],
        255 => {}
        alpha => *rgb = rgb.map(|level| u8::try_from(u32::from(level) * 255 / alpha).unwrap_or(u8::MAX)),
    }
}

pub(super) fn narrow(level: u16, depth: Depth) -> u8 {
    depth.narrow(level)
}

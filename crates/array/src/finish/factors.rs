//! Factors that normalise each band by its mean and standard deviation.

use shardpack_base::{factors, vectorised};
use shardpack_format::{Error, Result};

/// Minimum length of the tables. Shorter tables are repeated, so that loops over few bands are long
/// enough to be fast.
const LEAST: usize = 128;

/// Factors that normalise values to `(value − mean) / std`, either per band or the same for all bands. They are
/// applied as `value · scale + bias` in float32, with a fused multiply-add, which rounds once. The scale is `1 / std`
/// and the bias is `−mean / std`. Both are computed in float64 and rounded to float32. A NaN becomes quiet, but keeps
/// its sign and the upper bits of its payload.
///
/// ```
/// use shardpack_array::Factors;
/// let factors = Factors::new(&[0.5, 1.0], &[2.0])?;
/// assert_eq!(factors.apply(1, 5.0), 2.0);
/// assert!(Factors::new(&[0.5], &[-1.0]).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// Number of different entries: one per band, or one for all bands.
    bands: usize,
    /// Scales, repeated to fill the table.
    scale: Vec<f32>,
    bias: Vec<f32>,
}

impl Factors {
    /// Creates factors from means and standard deviations. Each list must have one number per band, or a single
    /// number for all bands.
    ///
    /// # Errors
    /// `Usage` if a list is empty; if `mean` and `std` have different lengths and neither length is 1; if a mean is
    /// not finite; if a standard deviation is not a finite number above 0; or if the factors overflow float32.
    pub fn new(mean: &[f64], std: &[f64]) -> Result<Self> {
        let bands = mean.len().max(std.len());
        let fits = |one: &[f64]| one.len() == 1 || one.len() == bands && bands > 0;
        if !fits(mean) || !fits(std) {
            let (mean, std) = (mean.len(), std.len());
            return Err(Error::usage(format!(
                "found {mean} means and {std} standard deviations: pass as many means as standard deviations, or a \
                 single number for one of them"
            )));
        }
        let pairs = mean.iter().cycle().zip(std.iter().cycle()).take(bands);
        let of_band = |(band, (mean, std)): (usize, (&f64, &f64))| {
            let error = |error: Error| if bands > 1 { error.within(format_args!("band {band}")) } else { error };
            factors(1.0, *mean, *std).map_err(error)
        };
        let pairs: Vec<(f32, f32)> = pairs.enumerate().map(of_band).collect::<Result<_>>()?;
        Ok(Self::repeated(pairs))
    }

    /// Creates factors from pairs of scale and bias: one pair per band, or one pair for all bands. With a scale of 0,
    /// every value becomes the bias, even NaN and infinities.
    ///
    /// # Errors
    /// `Usage` if there are no pairs.
    pub fn of_pairs(pairs: Vec<(f32, f32)>) -> Result<Self> {
        match pairs.is_empty() {
            true => Err(Error::usage("normalisation needs at least one scale and bias")),
            false => Ok(Self::repeated(pairs)),
        }
    }

    fn repeated(pairs: Vec<(f32, f32)>) -> Self {
        let bands = pairs.len();
        let count = bands * LEAST.div_ceil(bands.max(1));
        let (scale, bias) = pairs.into_iter().cycle().take(count).unzip();
        Self { bands, scale, bias }
    }

    /// Returns the factors of the given bands, in the given order. If a single factor applies to all bands, it is
    /// returned unchanged.
    ///
    /// # Errors
    /// `Usage` if a band has no entry.
    pub fn of_bands(&self, bands: impl Iterator<Item = u64>) -> Result<Self> {
        if self.bands == 1 {
            return Ok(self.clone());
        }
        let entry = |band: u64| {
            let at = usize::try_from(band).ok().filter(|at| *at < self.bands);
            let pair = at.and_then(|at| Some((*self.scale.get(at)?, *self.bias.get(at)?)));
            pair.ok_or_else(|| {
                Error::usage(format!("mean and std cover only the first {} bands, not band {band}", self.bands))
            })
        };
        Ok(Self::repeated(bands.map(entry).collect::<Result<_>>()?))
    }

    /// Returns the number of factors: one per band, or 1.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bands
    }

    /// Returns false, because there is always at least one factor.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bands == 0
    }

    /// Returns the scale and bias of each factor.
    pub fn pairs(&self) -> impl Iterator<Item = (f32, f32)> {
        self.scale.iter().copied().zip(self.bias.iter().copied()).take(self.bands)
    }

    /// Fails unless there is a single factor for all bands, or one factor per band.
    ///
    /// # Errors
    /// `Usage` if the number of factors is neither 1 nor `bands`.
    pub fn check(&self, bands: u64) -> Result<()> {
        match self.bands == 1 || self.bands as u64 == bands {
            true => Ok(()),
            false => {
                let found = self.bands;
                Err(Error::usage(format!("expected one mean and std, or one per band ({bands}), found {found}")))
            }
        }
    }

    /// Normalises a value of a band. The result is the same on the host and on a device.
    #[must_use]
    pub fn apply(&self, band: usize, value: f32) -> f32 {
        let at = band % self.bands.max(1);
        match (self.scale.get(at), self.bias.get(at)) {
            (Some(scale), Some(bias)) => normalised(value, *scale, *bias),
            _ => value,
        }
    }

    pub(super) fn normalise_band(&self, band: usize, values: &mut [f32]) {
        let at = band % self.bands.max(1);
        let (Some(&scale), Some(&bias)) = (self.scale.get(at), self.bias.get(at)) else { return };
        vectorised(
            #[inline(always)]
            || values.iter_mut().for_each(|value| *value = normalised(*value, scale, bias)),
        );
    }

    /// Normalises values of consecutive bands, starting with `band`.
    pub(super) fn normalise(&self, band: usize, values: &mut [f32]) {
        let mut first = band % self.bands.max(1);
        let mut rest = values;
        while let (Some(scale), Some(bias)) = (self.scale.get(first..), self.bias.get(first..)) {
            let count = scale.len().min(rest.len());
            if count == 0 {
                return;
            }
            let (values, after) = rest.split_at_mut(count);
            vectorised(
                #[inline(always)]
                || {
                    for ((value, scale), bias) in values.iter_mut().zip(scale).zip(bias) {
                        *value = normalised(*value, *scale, *bias);
                    }
                },
            );
            (rest, first) = (after, 0);
        }
    }
}

/// Normalises one value. The bits of a NaN are set explicitly, because processors disagree about the NaN that results
/// from a multiply-add. With a scale of 0, the result is the bias.
#[inline(always)]
fn normalised(value: f32, scale: f32, bias: f32) -> f32 {
    let made = match value.is_nan() {
        true => f32::from_bits(value.to_bits() | 0x0040_0000),
        false => value.mul_add(scale, bias),
    };
    if scale == 0.0 { bias } else { made }
}

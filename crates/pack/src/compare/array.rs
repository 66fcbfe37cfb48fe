//! Compares two cubes value by value, band by band, and by the spectrum of each pixel.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::decibels::psnr;
use super::ssim::mean_ssim;
use shardpack_array::Array;
use shardpack_array::F16_MIN_NORMAL;
use shardpack_array::floats_of;
use shardpack_format::{Error, Result};
use std::ops::Range;

const SSIM_BANDS: usize = 32;
/// Options that enable additional measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DifferenceOptions {
    /// Longest lag of the error's autocorrelation, in elements. 0 omits the autocorrelation.
    pub lags: usize,
    /// Maximum number of individual errors, and of individual angles, to keep.
    pub keep: usize,
}

/// The error in one band, as sums that can be added over cubes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BandDifferences {
    /// Number of values that are finite and not no-data in both cubes.
    pub count: u64,
    /// Sum of the squared errors.
    pub sum_square: f64,
    /// Sum of the absolute errors.
    pub sum_abs: f64,
    /// Largest absolute error.
    pub max_abs: f64,
    /// Sum of the source values.
    pub sum_source: f64,
}

/// The angle between the two spectra of a pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelAngle {
    /// Row of the pixel.
    pub row: u64,
    /// Column of the pixel.
    pub column: u64,
    /// Angle in degrees.
    pub degrees: f64,
}

/// Percentiles of a cube's spectral angles, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpectralAngles {
    /// Median angle.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest angle.
    pub max: f64,
}

impl SpectralAngles {
    /// Returns nearest-rank percentiles, or `None` if there are no angles.
    fn of(mut angles: Vec<f64>) -> Option<Self> {
        angles.sort_unstable_by(f64::total_cmp);
        let rank = |percent: usize| {
            let at = angles.len().saturating_mul(percent).div_ceil(100).saturating_sub(1);
            angles.get(at).copied()
        };
        Some(Self { p50: rank(50)?, p95: rank(95)?, p99: rank(99)?, max: rank(100)? })
    }
}

/// The difference of two cubes. Values that are NaN, infinite or no-data in the source count only in `altered`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArrayDifference {
    /// True if all bytes are equal.
    pub identical: bool,
    /// Number of values.
    pub values: u64,
    /// Number of values that differ. NaN counts as equal to NaN.
    pub altered: u64,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Largest relative error among values whose magnitude is at least 2⁻¹⁴.
    pub max_rel_error: f64,
    /// PSNR in dB, with the range of the source's values as the peak. `None` if there is no error.
    pub psnr: Option<f64>,
    /// Mean SSIM over up to 32 evenly spaced bands, each scaled by its own range. `None` if all bands are
    /// constant, or if a side is shorter than seven pixels.
    pub ssim: Option<f64>,
    /// Spectral angles of the pixels, each over the bands that have a value in both cubes. `None` if no pixel
    /// has two such bands.
    pub spectral_angles: Option<SpectralAngles>,
    /// Number of pixels whose angle was measured.
    pub spectra: u64,
    /// The pixel with the largest angle, or `None` if no angle was measured.
    pub worst: Option<PixelAngle>,
    /// The pixel of `angles` that has the median angle.
    pub median: Option<PixelAngle>,
    /// Errors in each band.
    pub bands: Vec<BandDifferences>,
    /// Spectral angles of evenly spaced pixels.
    pub angles: Vec<PixelAngle>,
    /// Errors (decoded − source) of evenly spaced values.
    pub errors: Vec<f64>,
    /// Sums of error products, Σ e(i)·e(i+k), along rows, columns and bands for k = 1, 2, …, from
    /// at most 64 × 64 pixels in the centre. Divide by `products` to normalise.
    pub correlation: [Vec<f64>; 3],
    /// Mean of Σ e(i)² and Σ e(i+k)² over the same pairs, for normalising `correlation`.
    pub products: [Vec<f64>; 3],
}

/// Compares `decoded` with `source`, both `[height, width, bands]`. Their types may differ, because only values
/// are compared.
///
/// ```
/// use shardpack_array::Array;
/// use shardpack_pack::compare::{DifferenceOptions, compare_arrays};
/// use shardpack_format::Dtype;
/// let cube = |values: [u8; 4]| Array::new(Dtype::U8, vec![1, 2, 2], values.to_vec());
/// let found = compare_arrays(&cube([3, 4, 0, 9])?, &cube([4, 3, 0, 9])?, None, DifferenceOptions::default())?;
/// assert_eq!((found.altered, found.max_abs_error, found.max_rel_error), (2, 1.0, 1.0 / 3.0));
/// assert_eq!(found.worst.unwrap().column, 0);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
///
/// # Errors
/// `Usage` if the shapes differ, or the arrays do not have three axes.
pub fn compare_arrays(
    source: &Array,
    decoded: &Array,
    no_data: Option<f64>,
    options: DifferenceOptions,
) -> Result<ArrayDifference> {
    let (&[height, width, bands], true) = (source.shape(), source.shape() == decoded.shape()) else {
        let (source, decoded) = (source.shape(), decoded.shape());
        return Err(Error::usage(format!(
            "the two arrays must have three axes and the same shape, but their shapes are {source:?} and {decoded:?}"
        )));
    };
    let size = |axis: u64| {
        usize::try_from(axis)
            .map_err(|_| Error::usage(format!("the array does not fit in memory: an axis has {axis} elements")))
    };
    let (height, width, bands) = (size(height)?, size(width)?, size(bands)?);
    let mut meter = Meter::new(height, width, bands, no_data, options);
    let row = |array: &Array| (width * bands * array.dtype().size()).max(1);
    let rows = source.bytes().chunks_exact(row(source)).zip(decoded.bytes().chunks_exact(row(decoded)));
    for (y, (u, v)) in rows.enumerate() {
        let (u, v) = (floats_of(source.dtype(), u), floats_of(decoded.dtype(), v));
        meter.row(y, &u, &v);
    }
    let mut found = meter.finish();
    found.identical = source.dtype() == decoded.dtype() && source.bytes() == decoded.bytes();
    found.ssim = if found.altered == 0 { Some(1.0) } else { ssim(source, decoded, no_data, width, bands) };
    Ok(found)
}

struct Meter {
    found: ArrayDifference,
    no_data: Option<f64>,
    width: usize,
    bands: usize,
    low: f64,
    high: f64,
    /// Strides between the pixels whose angles are kept, and between the values whose errors are kept.
    keep: (usize, usize),
    block: ErrorCorrelation,
    /// Buffers for the two spectra of a pixel, limited to bands that have a value in both cubes.
    spectra: (Vec<f64>, Vec<f64>),
    angles: Vec<f64>,
}

impl Meter {
    fn new(height: usize, width: usize, bands: usize, no_data: Option<f64>, options: DifferenceOptions) -> Self {
        let pixels = height.saturating_mul(width);
        let every = |count: usize| count.checked_div(options.keep).map_or(usize::MAX, |step| step + 1);
        Self {
            found: ArrayDifference { bands: vec![BandDifferences::default(); bands], ..Default::default() },
            no_data,
            width,
            bands,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            keep: (every(pixels), every(pixels.saturating_mul(bands))),
            block: ErrorCorrelation::new(height, width, bands, options.lags),
            spectra: Default::default(),
            angles: Vec::new(),
        }
    }

    fn row(&mut self, y: usize, source: &[f64], decoded: &[f64]) {
        let bands = self.bands.max(1);
        for (x, (u, v)) in source.chunks_exact(bands).zip(decoded.chunks_exact(bands)).enumerate() {
            let pixel = y * self.width + x;
            self.values(pixel, u, v);
            self.block.take(y, x, u, v);
            if let Some(degrees) = self.angle(u, v) {
                let here = PixelAngle { row: y as u64, column: x as u64, degrees };
                self.found.spectra += 1;
                self.angles.push(degrees);
                if self.found.worst.is_none_or(|worst| degrees > worst.degrees) {
                    self.found.worst = Some(here);
                }
                if pixel.is_multiple_of(self.keep.0) {
                    self.found.angles.push(here);
                }
            }
        }
    }

    fn angle(&mut self, u: &[f64], v: &[f64]) -> Option<f64> {
        let no_data = self.no_data;
        let known = |u: &f64, v: &f64| u.is_finite() && v.is_finite() && no_data != Some(*u);
        if u.iter().zip(v).all(|(u, v)| known(u, v)) {
            return angle(u, v);
        }
        let (a, b) = &mut self.spectra;
        a.clear();
        b.clear();
        for (u, v) in u.iter().zip(v).filter(|(u, v)| known(u, v)) {
            a.push(*u);
            b.push(*v);
        }
        angle(a, b)
    }

    fn values(&mut self, pixel: usize, u: &[f64], v: &[f64]) {
        let found = &mut self.found;
        for (band, ((&u, &v), sums)) in u.iter().zip(v).zip(&mut found.bands).enumerate() {
            found.values += 1;
            found.altered += u64::from(u.to_bits() != v.to_bits() && !(u.is_nan() && v.is_nan()) && u != v);
            if !u.is_finite() || !v.is_finite() || self.no_data == Some(u) {
                continue;
            }
            (self.low, self.high) = (self.low.min(u), self.high.max(u));
            let error = v - u;
            let size = error.abs();
            sums.count += 1;
            sums.sum_square += error * error;
            sums.sum_abs += size;
            sums.max_abs = sums.max_abs.max(size);
            sums.sum_source += u;
            found.max_abs_error = found.max_abs_error.max(size);
            if u.abs() >= F16_MIN_NORMAL {
                found.max_rel_error = found.max_rel_error.max(size / u.abs());
            }
            if (pixel * self.bands + band).is_multiple_of(self.keep.1) {
                found.errors.push(error);
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "means")]
    fn finish(self) -> ArrayDifference {
        let mut found = self.found;
        let (count, square) =
            found.bands.iter().fold((0, 0.0), |(count, sum), band| (count + band.count, sum + band.sum_square));
        found.psnr = (count > 0).then(|| psnr(self.high - self.low, square / count as f64)).flatten();
        found.spectral_angles = SpectralAngles::of(self.angles);
        let mut by_angle = found.angles.clone();
        by_angle.sort_by(|a, b| a.degrees.total_cmp(&b.degrees));
        found.median = by_angle.get(by_angle.len() / 2).copied();
        (found.correlation, found.products) = self.block.correlation();
        found
    }
}

/// Returns the angle in degrees between two spectra of at least two bands, or `None` if a spectrum is zero.
fn angle(u: &[f64], v: &[f64]) -> Option<f64> {
    if u.len() < 2 {
        return None;
    }
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let (nu, nv) = (norm(u), norm(v));
    if nu <= 0.0 || nv <= 0.0 || !nu.is_finite() || !nv.is_finite() {
        return None;
    }
    // The cosine of a small angle rounds to 1, so compute half the angle from the chord.
    let chord = u.iter().zip(v).map(|(u, v)| (u / nu - v / nv).powi(2)).sum::<f64>().sqrt();
    Some((2.0 * (chord / 2.0).clamp(0.0, 1.0).asin()).to_degrees())
}

/// Collects the errors of the central pixels to compute their autocorrelation.
struct ErrorCorrelation {
    lags: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    bands: usize,
    errors: Vec<f64>,
}

impl ErrorCorrelation {
    fn new(height: usize, width: usize, bands: usize, lags: usize) -> Self {
        let middle = |side: usize| {
            let kept = side.min(64);
            let start = (side - kept) / 2;
            start..start + kept
        };
        Self { lags, rows: middle(height), columns: middle(width), bands, errors: Vec::new() }
    }

    fn take(&mut self, y: usize, x: usize, u: &[f64], v: &[f64]) {
        if self.lags > 0 && self.rows.contains(&y) && self.columns.contains(&x) {
            let errors = u.iter().zip(v).map(|(u, v)| v - u);
            self.errors.extend(errors.map(|error| if error.is_finite() { error } else { 0.0 }));
        }
    }

    /// Returns two values per lag along rows, columns and bands: Σ e(i)·e(i+k), and the mean of Σ e(i)² and Σ e(i+k)²
    /// to normalise it.
    fn correlation(&self) -> ([Vec<f64>; 3], [Vec<f64>; 3]) {
        let width = self.columns.len();
        let strides = [width * self.bands, self.bands, 1];
        let sides = [self.rows.len(), width, self.bands];
        let mut sums = [const { Vec::new() }; 3];
        let mut products = [const { Vec::new() }; 3];
        for (((stride, side), sums), products) in strides.into_iter().zip(sides).zip(&mut sums).zip(&mut products) {
            for lag in 1..=self.lags.min(side.saturating_sub(1)) {
                let (mut sum, mut square) = (0.0, 0.0);
                let further = self.errors.iter().skip(lag * stride);
                for (i, (a, b)) in self.errors.iter().zip(further).enumerate() {
                    // Only pair values on the same line of this axis.
                    if i / stride % side + lag < side {
                        sum += a * b;
                        square += (a * a + b * b) / 2.0;
                    }
                }
                sums.push(sum);
                products.push(square);
            }
        }
        (sums, products)
    }
}

fn ssim(source: &Array, decoded: &Array, no_data: Option<f64>, width: usize, bands: usize) -> Option<f64> {
    let step = bands.div_ceil(SSIM_BANDS).max(1);
    let plane = |array: &Array, band: usize| -> Vec<f32> {
        let element = array.dtype().size();
        let pixels = array.bytes().chunks_exact((bands * element).max(1));
        let bytes: Vec<u8> =
            pixels.flat_map(|pixel| pixel.chunks_exact(element).nth(band).unwrap_or_default().to_vec()).collect();
        #[allow(clippy::cast_possible_truncation, reason = "a similarity needs no more than float32")]
        let narrow = |value: f64| if no_data == Some(value) { f32::NAN } else { value as f32 };
        floats_of(array.dtype(), &bytes).into_iter().map(narrow).collect()
    };
    let (mut sum, mut count) = (0.0, 0_u32);
    for band in (0..bands).step_by(step) {
        let (a, b) = (plane(source, band), plane(decoded, band));
        let finite = a.iter().copied().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if let Some(similarity) = mean_ssim(&a, &b, width, f64::from(high) - f64::from(low)) {
            sum += similarity;
            count += 1;
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

    fn cube(shape: [u64; 3], values: impl IntoIterator<Item = f32>) -> Array {
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Array::new(Dtype::F32, shape.to_vec(), bytes).unwrap()
    }

    #[test]
    fn figures_of_a_known_error() {
        let source = cube([8, 8, 3], (0..192).map(|i| i as f32));
        let decoded = cube([8, 8, 3], (0..192).map(|i| i as f32 + if i % 2 == 0 { 0.5 } else { -0.5 }));
        let found = compare_arrays(&source, &decoded, None, DifferenceOptions { lags: 2, keep: 100 }).unwrap();
        assert_eq!((found.altered, found.values, found.max_abs_error), (192, 192, 0.5));
        assert!((found.max_rel_error - 0.5).abs() < 1e-9);
        assert!((found.psnr.unwrap() - 10.0 * (191.0_f64.powi(2) / 0.25).log10()).abs() < 1e-9);
        assert_eq!((found.bands[1].count, found.bands[1].max_abs), (64, 0.5));
        // The error alternates in sign from band to band, so its correlation is −1 at a lag of one
        // band and 1 at a lag of two.
        assert!((found.correlation[2][0] / found.products[2][0] + 1.0).abs() < 1e-12);
        assert!((found.correlation[2][1] / found.products[2][1] - 1.0).abs() < 1e-12);
        // The sign alternates from value to value. The value one row further is 24 values away, an
        // even number, so the correlation is 1. The value one column further is 3 values away, so
        // the correlation is −1.
        assert!((found.correlation[0][0] / found.products[0][0] - 1.0).abs() < 1e-12);
        assert!((found.correlation[1][0] / found.products[1][0] + 1.0).abs() < 1e-12);
        assert!(found.ssim.unwrap() < 1.0 && !found.identical);
    }

    #[test]
    fn percentiles_of_angles_are_those_of_pixels() {
        let angles = SpectralAngles::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!((angles.p50, angles.p95, angles.p99, angles.max), (100.0, 190.0, 198.0, 200.0));
        let one = SpectralAngles::of(vec![0.5]).unwrap();
        assert_eq!((one.p50, one.p99, one.max), (0.5, 0.5, 0.5));
        assert_eq!(SpectralAngles::of(Vec::new()), None);
    }

    #[test]
    fn the_types_of_two_cubes_change_no_similarity() {
        let values = || (0..10 * 12 * 2).map(|i| (i * 37 % 100) as f32);
        let decoded = cube([10, 12, 2], values().map(|value| value + 0.01));
        let wide = values().flat_map(|value| f64::from(value).to_le_bytes()).collect();
        let wide = Array::new(Dtype::F64, vec![10, 12, 2], wide).unwrap();
        let similarity =
            |source: &Array| compare_arrays(source, &decoded, None, DifferenceOptions::default()).unwrap().ssim;
        let same = similarity(&cube([10, 12, 2], values()));
        assert!(same.unwrap() > 0.999, "{same:?}");
        assert_eq!(similarity(&wide), same);
    }

    /// A constant error barely changes the direction of a bright pixel's spectrum, but strongly changes the direction
    /// of a dark pixel's spectrum. A mean over all pixels hides this difference.
    #[test]
    fn a_dark_pixel_among_bright_ones_is_seen() {
        let spectrum = |bright: bool| if bright { [900.0, 1000.0] } else { [9.0, 10.0] };
        let pixels = || (0..100).map(|i| spectrum(i % 50 != 0));
        let source = cube([10, 10, 2], pixels().flatten());
        let decoded = cube([10, 10, 2], pixels().flat_map(|[a, b]| [a + 5.0, b - 5.0]));
        let found = compare_arrays(&source, &decoded, None, DifferenceOptions::default()).unwrap();
        let angles = found.spectral_angles.unwrap();
        assert!(angles.p95 < 0.5 && angles.p99 > 15.0 && angles.max > 15.0, "{angles:?}");
    }

    #[test]
    fn a_right_angle_is_ninety_degrees_and_a_small_one_is_not_lost() {
        assert!((angle(&[1.0, 0.0], &[0.0, 2.0]).unwrap() - 90.0).abs() < 1e-9);
        let tiny = angle(&[1.0, 0.0], &[1.0, 1e-10]).unwrap();
        assert!((tiny.to_radians() / 1e-10 - 1.0).abs() < 1e-6, "{tiny}");
        assert_eq!((angle(&[0.0, 0.0], &[1.0, 1.0]), angle(&[1.0], &[2.0])), (None, None));
    }

    #[test]
    fn holes_are_left_out_and_equal_cubes_are_equal() {
        let nan = cube([8, 8, 2], [f32::NAN; 128]);
        let found = compare_arrays(&nan, &nan, None, DifferenceOptions { lags: 4, keep: 100 }).unwrap();
        assert!(found.identical && found.altered == 0 && found.spectra == 0);
        assert_eq!((found.psnr, found.spectral_angles, found.median), (None, None, None));
        let marked = cube([1, 2, 2], [-9.0, 1.0, 2.0, 3.0]);
        let other = cube([1, 2, 2], [5.0, 1.0, 2.0, 3.0]);
        let found = compare_arrays(&marked, &other, Some(-9.0), DifferenceOptions::default()).unwrap();
        assert_eq!((found.altered, found.max_abs_error, found.spectra), (1, 0.0, 1));
        let wide: Vec<u8> = [-9.0_f64, 1.0, 2.0, 3.0].into_iter().flat_map(f64::to_le_bytes).collect();
        let wide = Array::new(Dtype::F64, vec![1, 2, 2], wide).unwrap();
        let found = compare_arrays(&wide, &marked, None, DifferenceOptions::default()).unwrap();
        assert_eq!((found.altered, found.identical, found.ssim), (0, false, Some(1.0)));
        // A value is missing in one band. The angle is computed over the other bands, so it does not change.
        let holed = cube([1, 1, 3], [f32::NAN, 1.0, 0.0]);
        let turned = cube([1, 1, 3], [f32::NAN, 0.0, 1.0]);
        let found = compare_arrays(&holed, &turned, None, DifferenceOptions::default()).unwrap();
        assert!((found.spectral_angles.unwrap().max - 90.0).abs() < 1e-9);
        assert!(compare_arrays(&marked, &nan, None, DifferenceOptions::default()).is_err());
    }
}

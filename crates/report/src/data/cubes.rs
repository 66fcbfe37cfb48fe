//! Measures that only cubes have. They show where in the spectrum and in the picture the error is.

use serde::{Deserialize, Serialize};

/// The effect of one candidate on cubes, by band and by pixel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CubePanel {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Unit of the wavelengths, such as `nm`. Empty if the bands have only numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wavelength_unit: String,
    /// Error in each band, over all drawn samples. Empty if the samples differ in their number of bands.
    pub bands: Vec<BandError>,
    /// Spectra of single pixels, before and after.
    pub spectra: Vec<SpectrumPair>,
    /// Histogram of the pixels' spectral angles, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angles: Option<Histogram>,
    /// Histogram of the value errors (stored − original), in the values' unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Histogram>,
    /// Bound on the absolute error that the recipe guarantees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Autocorrelation of the error along the rows. Position k − 1 holds the correlation at a distance of k
    /// rows. Values near 0 mean noise; other values mean structure that training could learn.
    pub autocorrelation_rows: Vec<f64>,
    /// Autocorrelation of the error along the columns.
    pub autocorrelation_columns: Vec<f64>,
    /// Autocorrelation of the error along the bands.
    pub autocorrelation_bands: Vec<f64>,
}

/// The error in one band.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BandError {
    /// Wavelength of the band, if the sources state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wavelength: Option<f64>,
    /// Root mean square error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mean_abs_error: f64,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Mean of the source's values in this band, for comparison.
    pub mean: f64,
    /// Estimated noise of this band in the source of the median sample, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Largest ratio, over all samples, of the absolute error in this band to the noise of the band in the
    /// same sample. At most [`NO_NOISE`](super::NO_NOISE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_ratio: Option<f64>,
}

/// One pixel's spectrum before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpectrumPair {
    /// Position of the sample in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Row of the pixel.
    pub row: u64,
    /// Column of the pixel.
    pub column: u64,
    /// Why this pixel is shown.
    pub why: Why,
    /// Angle between the two spectra, in degrees.
    pub angle: f64,
    /// Source values by band; `None` for NaN, infinities and no-data.
    pub original: Vec<Option<f64>>,
    /// Values as stored, by band.
    pub stored: Vec<Option<f64>>,
}

/// Why a sample or a pixel is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The worst of all samples or pixels.
    Worst,
    /// The median of all samples or pixels.
    Median,
    /// Drawn at random.
    Random,
}

/// A histogram, with counts between equally spaced edges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Left edge of the first bin.
    pub low: f64,
    /// Right edge of the last bin.
    pub high: f64,
    /// Number of values in each bin. A value on an inner edge belongs to the bin on its right.
    pub counts: Vec<u64>,
}

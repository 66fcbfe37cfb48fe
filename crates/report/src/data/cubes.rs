//! Measures that only cubes have: where the error is in the spectrum and in the picture.

use serde::{Deserialize, Serialize};

/// One candidate's effect on cubes, by band and by pixel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CubePanel {
    /// The candidate, as a position in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Unit of the wavelengths, such as `nm`; empty if the bands only have numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wavelength_unit: String,
    /// The error in each band, over all drawn samples. Empty if their numbers of bands differ.
    pub bands: Vec<BandError>,
    /// Spectra before and after.
    pub spectra: Vec<SpectrumPair>,
    /// Histogram of the pixels' spectral angles, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angles: Option<Histogram>,
    /// Histogram of the value errors (stored − original), in the values' unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Histogram>,
    /// Bound on the absolute error that the recipe promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Correlation of the error with itself at a distance of k rows, at position k − 1. Values near 0 mean
    /// noise; others mean structure that training could learn.
    pub autocorrelation_rows: Vec<f64>,
    /// The same at a distance of k columns.
    pub autocorrelation_columns: Vec<f64>,
    /// The same at a distance of k bands.
    pub autocorrelation_bands: Vec<f64>,
}

/// The error in one band.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BandError {
    /// Wavelength of the band, if the sources have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wavelength: Option<f64>,
    /// Root mean square error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mean_abs_error: f64,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Mean of the source's values, for scale.
    pub mean: f64,
    /// Estimated noise of the median sample's source in this band, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Largest ratio of a sample's absolute error to the noise of this band in the same sample; at most
    /// [`NO_NOISE`](super::NO_NOISE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_ratio: Option<f64>,
}

/// One pixel's spectrum before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpectrumPair {
    /// The sample, as a position in [`Report::samples`](super::Report::samples).
    pub sample: usize,
    /// Row of the pixel.
    pub row: u64,
    /// Column of the pixel.
    pub column: u64,
    /// Reason for showing this pixel.
    pub why: Why,
    /// Angle between the two spectra, in degrees.
    pub angle: f64,
    /// Source values by band; `None` for NaN, infinities and no-data.
    pub original: Vec<Option<f64>>,
    /// Stored values by band.
    pub stored: Vec<Option<f64>>,
}

/// Reason for showing a sample or a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Worst of all.
    Worst,
    /// Median of all.
    Median,
    /// Drawn at random.
    Random,
}

/// Counts between equally spaced edges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Left edge of the first bin.
    pub low: f64,
    /// Right edge of the last bin.
    pub high: f64,
    /// Number of values in each bin. A value on an inner edge belongs to the bin on its right.
    pub counts: Vec<u64>,
}

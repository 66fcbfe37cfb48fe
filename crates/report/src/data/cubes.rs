//! Measures for cubes only. They show which bands and which pixels have errors.

use serde::{Deserialize, Serialize};

/// Effect of one candidate on cubes, per band and per pixel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CubePanel {
    /// Position of the candidate in [`Report::candidates`](super::Report::candidates).
    pub candidate: usize,
    /// Unit of the wavelengths, such as `nm`. Empty if bands are only numbered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wavelength_unit: String,
    /// Error in each band, over all drawn samples. Empty if samples have different numbers of bands.
    pub bands: Vec<BandError>,
    /// Spectra of single pixels, before and after storing.
    pub spectra: Vec<SpectrumPair>,
    /// Histogram of the spectral angles of all pixels, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub angles: Option<Histogram>,
    /// Histogram of the errors of all values (stored − original), in the unit of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Histogram>,
    /// Bound on the absolute error, as guaranteed by the recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Autocorrelation of the error along the rows. Element k − 1 is the correlation at a distance of k rows.
    /// Values near 0 mean noise. Other values mean structure that a model could learn.
    pub autocorrelation_rows: Vec<f64>,
    /// Autocorrelation of the error along the columns.
    pub autocorrelation_columns: Vec<f64>,
    /// Autocorrelation of the error along the bands.
    pub autocorrelation_bands: Vec<f64>,
}

/// The error of one band, over all drawn samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BandError {
    /// Wavelength of the band, if the sources contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wavelength: Option<f64>,
    /// Root mean square error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mean_abs_error: f64,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Mean value of the band in the sources, for comparison with the errors.
    pub mean: f64,
    /// Noise level of the band in the unit of the values, estimated from the median sample's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Largest ratio of a band's absolute error in a sample to the band's noise in the same sample, over all samples.
    /// At most [`NO_NOISE`](super::NO_NOISE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_ratio: Option<f64>,
}

/// The spectrum of one pixel, before and after storing.
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
    /// Source values by band. `None` for NaN, infinities and no-data.
    pub original: Vec<Option<f64>>,
    /// Stored values by band.
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
    /// Chosen at random.
    Random,
}

/// Counts of values in bins of equal width.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Left edge of the first bin.
    pub low: f64,
    /// Right edge of the last bin.
    pub high: f64,
    /// Number of values in each bin. A value on an inner edge belongs to the bin on its right.
    pub counts: Vec<u64>,
}

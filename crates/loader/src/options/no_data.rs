//! Option to replace no-data with a value.

use shardpack_reader::mask_names::is_mask;

/// Policy for no-data. An array may declare one value to mean "nothing was measured here"
/// (`data ignore value` of ENVI, `GDAL_NODATA` of GeoTIFF). All elements equal to this value are no-data.
///
/// Decoded values are compared in the source's type. This works because packing preserves no-data exactly, even if it
/// rounds floats, and never changes another value into no-data. Zeros are equal regardless of their sign. If the
/// declared value is NaN, every NaN is no-data. Otherwise NaN stays NaN. In an array that declares no such value, no
/// element is no-data, even if other arrays of the field declare one.
///
/// The replacement is in the unit of the output, which is normalised if there is a mean and a standard
/// deviation. It is rounded to the element type, which is float16, bfloat16 or float32. Band augmentations do
/// not change it, and values equal to it get no noise.
///
/// ```
/// use shardpack_loader::{LoaderOptions, NoData};
/// let options = LoaderOptions::default().no_data(NoData::Cubes(0.0));
/// assert_eq!(options.output.no_data.of("cube", 3), Some(0.0));
/// assert_eq!(options.output.no_data.of("mask", 2), None);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum NoData {
    /// No-data is loaded like any other value.
    #[default]
    AsStored,
    /// Replaces no-data with this value in arrays of three axes that are not masks. At least one of these
    /// arrays must declare no-data.
    Cubes(f32),
    /// Replaces no-data with these values in the named fields, each of which must declare no-data.
    Fields(Vec<(String, f32)>),
}

impl NoData {
    /// Returns the value that replaces no-data in a field whose arrays have `axes` axes and declare no-data, or
    /// `None` if no-data is not replaced.
    #[must_use]
    pub fn of(&self, field: &str, axes: usize) -> Option<f32> {
        match self {
            Self::AsStored => None,
            Self::Cubes(with) => (axes == 3 && !is_mask(field)).then_some(*with),
            Self::Fields(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, with)| *with),
        }
    }
}

//! What comes in the place of no-data.

use shardpack_reader::mask_names::is_mask;

/// What becomes of no-data: of values that equal the one that the array itself declares to mean
/// "nothing was measured here" (`data ignore value` of ENVI, `GDAL_NODATA` of GeoTIFF).
///
/// Decoded values are compared, in the type of the source: packing keeps no-data exactly, also where
/// it rounds floats, and lets no other value become it. The sign of a zero does not count. If the
/// declared value is NaN, every NaN is no-data; else NaNs stay NaN. An array that declares none, among
/// others that do, has none.
///
/// What comes in its place is in the units of the output: of normalised values, if there is a mean
/// and a standard deviation. It is rounded to the element type, which is float16, bfloat16 or float32,
/// and is the same however bands are changed at random; noise leaves alone what equals it.
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
    /// It is a value like any other.
    #[default]
    AsStored,
    /// This comes in its place, in arrays of three axes that are no masks, as far as they declare
    /// one. At least one of them must.
    Cubes(f32),
    /// This comes in its place in the fields that are named. Each of them must declare one.
    Fields(Vec<(String, f32)>),
}

impl NoData {
    /// What comes in the place of no-data in a field whose arrays have so many axes, if they declare
    /// any.
    #[must_use]
    pub fn of(&self, field: &str, axes: usize) -> Option<f32> {
        match self {
            Self::AsStored => None,
            Self::Cubes(with) => (axes == 3 && !is_mask(field)).then_some(*with),
            Self::Fields(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, with)| *with),
        }
    }
}

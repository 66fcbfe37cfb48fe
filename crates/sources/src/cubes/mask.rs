//! Reads label masks, with one class number per pixel, from a PNG or any cube file with one band.

use super::cube::LoadedMask;
use super::error::{CubeError, Result};
use super::format::CubeFormat;
use super::formats::CubeKind;
use super::options::CubeOptions;
use super::read::known;
use super::select::Purpose;
use super::source::CubeFile;
use shardpack_array::floats_of;
use shardpack_format::Dtype;
use std::path::Path;

/// Reads a label mask, `[height, width]`, from a PNG or from any file that [`load`](super::load) can read.
///
/// Integers and booleans do not change. Floats must be whole numbers and become the smallest
/// integer type that fits, unsigned unless there are negative values. A PNG must be grey or have a
/// palette. The labels are the palette indices, and 1, 2 and 4 bits become uint8. For a file with
/// several arrays, `options.variable` names the array. By default, the array with two axes is read.
///
/// # Errors
/// Same as [`load`](super::load). Also `Unsupported` if there is more than one band or the PNG has colours, and
/// `Format` if a float is not a whole number.
pub fn load_mask(path: &Path, options: &CubeOptions) -> Result<LoadedMask> {
    let source = CubeFile::open(path, &options.run)?;
    source.check_cancel()?;
    options.run.or_cancelled(path, load_from(&source, options))
}

/// Like [`load_mask`], but reads a file in memory, such as a member of an archive. Errors show `name` as the
/// path. Formats with several files are not supported.
///
/// ```
/// use shardpack_sources::cubes::{CubeOptions, CubeProblem, mask_of};
/// let error = mask_of("a.seg.png".as_ref(), b"no picture".to_vec(), &CubeOptions::default()).unwrap_err();
/// assert!(matches!(error.problem(), CubeProblem::Damaged(_) | CubeProblem::Unsupported(_)));
/// ```
///
/// # Errors
/// Same as [`load_mask`].
pub fn mask_of(name: &Path, bytes: Vec<u8>, options: &CubeOptions) -> Result<LoadedMask> {
    options.run.or_cancelled(name, load_from(&CubeFile::held(name, bytes, &options.run), options))
}

/// Returns the height and width of a label mask. For a PNG, reads only the header.
pub(crate) fn mask_size(path: &Path, options: &CubeOptions) -> Result<[u64; 2]> {
    let source = CubeFile::open(path, &options.run)?;
    source.check_cancel()?;
    options.run.or_cancelled(path, size_of(&source, options))
}

fn size_of(source: &CubeFile, options: &CubeOptions) -> Result<[u64; 2]> {
    let format = known(source)?.format();
    if let Some(size) = format.label_size(source)? {
        return Ok(size);
    }
    match *load_as(format, source, options)?.array.shape() {
        [height, width] => Ok([height, width]),
        ref other => Err(many_bands(source, other)),
    }
}

fn load_from(source: &CubeFile, options: &CubeOptions) -> Result<LoadedMask> {
    load_as(known(source)?.format(), source, options)
}

fn load_as(format: &dyn CubeFormat, source: &CubeFile, options: &CubeOptions) -> Result<LoadedMask> {
    if let Some(array) = format.labels(source, options.max_bytes)? {
        return Ok(LoadedMask { array, no_data: None });
    }
    let cube = format.load(source, &Purpose::Mask(options))?;
    let &[height, width, 1] = cube.array.shape() else {
        return Err(many_bands(source, cube.array.shape()));
    };
    let dtype = cube.array.dtype();
    let mut bytes = cube.array.into_bytes();
    let mut label = dtype;
    if dtype.is_float() {
        (label, bytes) = integers(source, width, &floats_of(dtype, &bytes))?;
    }
    Ok(LoadedMask { array: LoadedMask::array(source, label, [height, width], bytes)?, no_data: cube.no_data })
}

fn many_bands(source: &CubeFile, shape: &[u64]) -> CubeError {
    source.unsupported(format_args!("a label mask must have one band, but this one has shape {shape:?}"))
}

pub(crate) fn may_be_mask(head: &[u8], bytes: u64) -> bool {
    CubeKind::ALL.iter().any(|kind| kind.format().may_be_mask(head, bytes))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was found first")]
fn integers(source: &CubeFile, width: u64, labels: &[f64]) -> Result<(Dtype, Vec<u8>)> {
    // Beyond 2⁵³, float64 cannot distinguish neighbouring integers.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let (mut low, mut high) = (0.0f64, 0.0f64);
    for (pixel, &label) in (0u64..).zip(labels) {
        if label.fract() != 0.0 || label.abs() > EXACT || label.is_nan() {
            let (row, column) = (pixel / width, pixel % width);
            return Err(source.damaged(format_args!(
                "a label mask must contain only integers, but this one has {label} at row {row}, column {column}"
            )));
        }
        (low, high) = (low.min(label), high.max(label));
    }
    macro_rules! to {
        ($type:ty) => {
            labels.iter().flat_map(|&label| (label as $type).to_le_bytes()).collect()
        };
    }
    let fits = |min: f64, max: f64| low >= min && high <= max;
    Ok(if fits(0.0, f64::from(u8::MAX)) {
        (Dtype::U8, to!(u8))
    } else if fits(0.0, f64::from(u16::MAX)) {
        (Dtype::U16, to!(u16))
    } else if fits(0.0, f64::from(u32::MAX)) {
        (Dtype::U32, to!(u32))
    } else if fits(0.0, EXACT) {
        (Dtype::U64, to!(u64))
    } else if fits(f64::from(i8::MIN), f64::from(i8::MAX)) {
        (Dtype::I8, to!(i8))
    } else if fits(f64::from(i16::MIN), f64::from(i16::MAX)) {
        (Dtype::I16, to!(i16))
    } else if fits(f64::from(i32::MIN), f64::from(i32::MAX)) {
        (Dtype::I32, to!(i32))
    } else {
        (Dtype::I64, to!(i64))
    })
}

//! Recognises the format of a file and calls its reader.

use super::cube::LoadedCube;
use super::error::{CubeError, Result};
use super::formats::CubeKind;
use super::info::CubeInfo;
use super::options::CubeOptions;
use super::select::Purpose;
use super::source::CubeFile;
use super::values::{CubeValues, OpenCube};
use std::path::{Path, PathBuf};

/// Number of bytes that are enough to recognise any format, except HDF5 after a long user block.
const HEAD_BYTES: u64 = 520;

/// Returns true if files with this lower-case extension are usually cubes.
pub(crate) fn has_extension(extension: &str) -> bool {
    CubeKind::ALL.iter().any(|kind| kind.extensions().contains(&extension))
}

/// Detects the kind of a cube file from its content. Returns `None` if [`load`] cannot read it.
///
/// Reads a few hundred bytes or, for a zip archive, its directory.
///
/// # Errors
/// `Io` if the file cannot be read; `Usage` if it is not a regular file.
pub fn probe(path: &Path) -> Result<Option<CubeKind>> {
    probe_in(path, &CubeOptions::default())
}

pub(crate) fn probe_in(path: &Path, options: &CubeOptions) -> Result<Option<CubeKind>> {
    recognise(&CubeFile::open(path, &options.run)?)
}

/// Returns the data file of an ENVI header, if it exists, and `None` for any other file.
///
/// A data file with a header is not a separate sample.
#[must_use]
pub fn companion(path: &Path, options: &CubeOptions) -> Option<PathBuf> {
    let source = CubeFile::open(path, &options.run).ok()?;
    recognise(&source).ok()??.format().data_file(&source)
}

/// Returns the shape, element type and source size of a cube without reading its values.
///
/// # Errors
/// Same as [`load`], but only for the headers. Only [`load`] finds damage in the rest of a compressed stream.
pub fn peek(path: &Path, options: &CubeOptions) -> Result<CubeInfo> {
    let source = CubeFile::open(path, &options.run)?;
    source.check_cancel()?;
    let info = known(&source).and_then(|kind| {
        let header = kind.format().peek(&source, &Purpose::Cube(options))?;
        Ok(CubeInfo::of(kind, header))
    });
    options.run.or_cancelled(path, info)
}

/// Reads a cube.
///
/// ```
/// # use shardpack_sources::cubes::{CubeOptions, load};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cube.npy");
/// let mut file = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
/// file.extend(format!("{:<69}\n", "{'descr': '>u2', 'fortran_order': False, 'shape': (1, 2)}").bytes());
/// file.extend([0, 1, 0, 2]);
/// std::fs::write(&path, file)?;
/// let cube = load(&path, &CubeOptions::default())?;
/// assert_eq!(cube.array.shape(), [1, 2, 1]);
/// assert_eq!(cube.array.bytes(), [1, 0, 2, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Io` if the operating system reports an error; `Format` if the file is damaged; `Unsupported` if its content
/// cannot be a cube, for example because of complex numbers, four axes or no elements; `Usage` if the options
/// do not match the file; `Limit` if the cube exceeds `options.max_bytes`; `Cancelled` if the flag of
/// `options.run` is set.
pub fn load(path: &Path, options: &CubeOptions) -> Result<LoadedCube> {
    let source = CubeFile::open(path, &options.run)?;
    source.check_cancel()?;
    let loaded = known(&source).and_then(|kind| kind.format().load(&source, &Purpose::Cube(options)));
    options.run.or_cancelled(path, loaded)
}

/// Opens a cube. Unlike [`load`], leaves the values in the file if they are stored uncompressed and in the
/// order of the cube. Other values are read into `spare` if it is large enough. Its content is then discarded.
/// Reusing memory pages takes a third of the time of touching new ones.
///
/// # Errors
/// Same as [`load`].
pub fn open(path: &Path, options: &CubeOptions, spare: Vec<u8>) -> Result<OpenCube> {
    let source = CubeFile::open(path, &options.run)?.with_spare(spare);
    source.check_cancel()?;
    options.run.or_cancelled(path, open_in(&source, &Purpose::Cube(options)))
}

fn open_in(source: &CubeFile, want: &Purpose) -> Result<OpenCube> {
    let format = known(source)?.format();
    if let Some(cube) = format.open_in_file(source, want)? {
        return Ok(cube);
    }
    let LoadedCube { array, no_data, meta } = format.load(source, want)?;
    Ok(OpenCube { values: CubeValues::InMemory(array), no_data, meta })
}

fn recognise(source: &CubeFile) -> Result<Option<CubeKind>> {
    let head = source.prefix(HEAD_BYTES)?;
    for kind in CubeKind::ALL {
        if kind.format().recognises(source, &head)? {
            return Ok(Some(*kind));
        }
    }
    Ok(None)
}

pub(super) fn known(source: &CubeFile) -> Result<CubeKind> {
    recognise(source)?.ok_or_else(|| unknown(source))
}

fn unknown(source: &CubeFile) -> CubeError {
    let found = match source.prefix(8) {
        Ok(head) if head.is_empty() => "it is empty".to_owned(),
        Ok(head) => format!("it begins with `{}`", head.escape_ascii()),
        Err(error) => return error,
    };
    source.unsupported(format_args!(
        "the file is not a cube in a supported format ({}): {found}",
        CubeKind::names().join(", ")
    ))
}

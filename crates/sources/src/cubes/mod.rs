//! Readers of cube files: NumPy, ENVI, MATLAB, TIFF, PNG, Tivita, HDF5.
//!
//! A file's content tells its format, not its name. [`probe`] names the format, [`peek`] gives
//! shape and element type without reading the values, [`load`] gives the cube as
//! `[height, width, channels]`, [`load_mask`] a label mask as `[height, width]`. Files come from
//! strangers: sizes are compared with the file and with [`CubeOptions::max_bytes`] before memory is
//! allocated, and no bytes make these functions panic.
//!
//! | format | what is read | what is refused |
//! |---|---|---|
//! | `.npy` | versions 1 to 3, every real type, both byte orders, C and Fortran order | objects, structures, complex, strings |
//! | `.npz` | stored and deflated members | as `.npy` |
//! | ENVI | types 1–5 and 12–15, BSQ, BIL, BIP, both byte orders | complex, compressed, framed data, spectral libraries |
//! | MATLAB v4 | real matrices, both byte orders | sparse, complex |
//! | MATLAB v5 | real arrays and matrices, compressed or not, both byte orders | sparse, complex, structures |
//! | TIFF, BigTIFF | see [`CubeKind::Tiff`] | JPEG, CCITT, LERC and LZMA compression, odd bit depths |
//! | PNG | grey and colours of 1 to 16 bits | palettes |
//! | Tivita | `SpecCube.dat` | |
//! | HDF5, MATLAB v7.3 | with the cargo feature `hdf5` | without it |
//!
//! Memory: one cube, plus its stored bytes if their order differs from ours. The readers start no
//! threads.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod cube;
mod envi;
mod error;
mod gather;
mod hdf5;
mod layout;
mod mask;
mod mat;
mod meta;
mod npy;
mod npz;
mod open;
mod png;
mod run;
mod select;
mod sniff;
mod source;
#[cfg(test)]
mod tests;
mod tiff;
mod tivita;

pub use cube::{CubeInfo, CubeKind, CubeOptions, LoadedCube, LoadedMask};
pub use error::{CubeError, Result};
pub(crate) use mask::mask_size;
pub use mask::{load_mask, mask_of};
pub(crate) use mat::is_v4 as is_mat_v4;
pub use open::{CubeValues, OpenCube, ValuesInFile, open};
pub use run::CubeRun;

use select::Want;
use source::Source;
use std::path::{Path, PathBuf};

/// The kind of cube file, detected from its content; `None` if it is none of those that [`load`]
/// reads.
///
/// Reads a few hundred bytes (of a zip archive, its directory).
///
/// # Errors
/// `Io` if the file cannot be read; `Usage` if it is not a regular file.
pub fn probe(path: &Path) -> Result<Option<CubeKind>> {
    probe_in(path, &CubeOptions::default())
}

/// As [`probe`], where the run's files are.
pub(crate) fn probe_in(path: &Path, options: &CubeOptions) -> Result<Option<CubeKind>> {
    sniff::sniff(&Source::open(path, &options.run)?)
}

/// The other file that belongs to this one: for an ENVI header its data file, if it exists. `None`
/// for everything else.
///
/// A data file that some header claims is not a sample of its own.
#[must_use]
pub fn companion(path: &Path, options: &CubeOptions) -> Option<PathBuf> {
    let source = Source::open(path, &options.run).ok()?;
    match sniff::sniff(&source) {
        Ok(Some(CubeKind::EnviHeader)) => envi::companion(&source),
        _ => None,
    }
}

/// Shape, element type and source size of a cube, without reading its values.
///
/// # Errors
/// As [`load`], as far as the headers tell. Only [`load`] finds damage further on in a compressed
/// stream.
pub fn peek(path: &Path, options: &CubeOptions) -> Result<CubeInfo> {
    let source = Source::open(path, &options.run)?;
    source.check_cancel()?;
    options.run.or_cancelled(path, peek_in(&source, &Want::Cube(options)))
}

fn peek_in(source: &Source, want: &Want) -> Result<CubeInfo> {
    let kind = known(source)?;
    match kind {
        CubeKind::Npy => npy::peek(source, want),
        CubeKind::Npz => npz::peek(source, want),
        CubeKind::EnviHeader => envi::peek(source, want),
        CubeKind::Mat4 | CubeKind::Mat5 => mat::peek(kind, source, want),
        CubeKind::Hdf5 => hdf5::peek(source, want),
        CubeKind::Tiff => tiff::peek(source, want),
        CubeKind::Png => png::peek(source, want),
        CubeKind::Tivita => tivita::peek(source, want),
    }
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
/// `Io` from the operating system; `Format` if the file is damaged; `Unsupported` if its content
/// cannot be a cube (complex numbers, four axes, no elements, …); `Usage` if the options do not fit
/// it; `Limit` if the cube is above `options.max_bytes`; `Cancelled` if the flag of `options.run`
/// is raised.
pub fn load(path: &Path, options: &CubeOptions) -> Result<LoadedCube> {
    let source = Source::open(path, &options.run)?;
    source.check_cancel()?;
    let loaded = known(&source).and_then(|kind| load_as(kind, &source, &Want::Cube(options)));
    options.run.or_cancelled(path, loaded)
}

fn load_as(kind: CubeKind, source: &Source, want: &Want) -> Result<LoadedCube> {
    match kind {
        CubeKind::Npy => npy::load(source, want),
        CubeKind::Npz => npz::load(source, want),
        CubeKind::EnviHeader => envi::load(source, want),
        CubeKind::Mat4 | CubeKind::Mat5 => mat::load(kind, source, want),
        CubeKind::Hdf5 => hdf5::load(source, want),
        CubeKind::Tiff => tiff::load(source, want),
        CubeKind::Png => png::load(source, want),
        CubeKind::Tivita => tivita::load(source, want),
    }
}

fn known(source: &Source) -> Result<CubeKind> {
    sniff::sniff(source)?.ok_or_else(|| sniff::unknown(source))
}

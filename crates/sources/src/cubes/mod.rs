//! Readers of cube files: NumPy, Blosc2, ENVI, MATLAB, TIFF, PNG, Tivita, HDF5.
//!
//! The format is detected from the content of a file, not from its name. [`probe`] returns the format. [`peek`]
//! returns the shape and element type without reading the values. [`load`] returns the cube as `[height, width,
//! channels]`, and [`load_mask`] returns a label mask as `[height, width]`. Files are untrusted: sizes are
//! checked against the file and [`CubeOptions::max_bytes`] before memory is allocated, and no input makes these
//! functions panic.
//!
//! | format | read | refused |
//! |---|---|---|
//! | `.npy` | versions 1 to 3, every real type, both byte orders, C and Fortran order | objects, structures, complex, strings |
//! | `.npz` | stored and deflated members | as `.npy` |
//! | Blosc2 `.b2nd` | contiguous frames; BloscLZ, LZ4, LZ4HC, zlib, zstd; the filters shuffle, bit shuffle, delta and byte delta; special chunks | sparse frames (folders), frames without the metalayer `b2nd`, plugins, dictionaries; elements as `.npy` |
//! | ENVI | types 1–5 and 12–15, BSQ, BIL, BIP, both byte orders | complex, compressed, framed data, spectral libraries |
//! | MATLAB v4 | real matrices, both byte orders | sparse, complex |
//! | MATLAB v5 | real arrays and matrices, compressed or not, both byte orders | sparse, complex, structures |
//! | TIFF, BigTIFF | see [`CubeKind::Tiff`] | JPEG, CCITT, LERC and LZMA compression, odd bit depths |
//! | PNG | grey and colours of 1 to 16 bits | palettes |
//! | Tivita | `SpecCube.dat` | |
//! | HDF5, MATLAB v7.3 | with the cargo feature `hdf5` | without it |
//!
//! The readers need memory for one cube, plus its stored bytes if they are in a different order. They start no threads.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod cube;
mod error;
mod format;
mod formats;
mod gather;
mod info;
mod layout;
mod mask;
mod meta;
mod options;
mod read;
mod run;
mod select;
mod source;
#[cfg(test)]
mod tests;
mod values;

pub use cube::{LoadedCube, LoadedMask};
pub use error::{CubeError, CubeProblem, Result};
pub use formats::CubeKind;
pub use info::CubeInfo;
pub use mask::{load_mask, mask_of};
pub(crate) use mask::{mask_size, may_be_mask};
pub use options::CubeOptions;
pub(crate) use read::has_extension;
pub(crate) use read::probe_in;
pub use read::{companion, load, open, peek, probe};
pub use run::CubeRun;
pub use values::{CubeValues, OpenCube, ValuesInFile};

//! The table of cube file formats. Each format has its own module.

mod blosc2;
mod envi;
mod hdf5;
mod mat;
mod npy;
mod npz;
mod png;
mod tiff;
mod tivita;

use super::format::CubeFormat;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Formats are tested in this order. The extensions are lower-case and include the extensions of side files.
macro_rules! formats {
    ($($(#[$doc:meta])* $kind:ident($name:literal, $title:literal, $extensions:expr) => $format:path,)+) => {
        /// A file format for cubes.
        ///
        /// ```
        /// use shardpack_sources::cubes::CubeKind;
        /// assert_eq!(CubeKind::Mat5.to_string(), "MATLAB v5 file");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum CubeKind {
            $($(#[$doc])* $kind,)+
        }

        impl CubeKind {
            pub(super) const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the name of the program that writes this format. Several formats may belong to one program.
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            const fn title(self) -> &'static str {
                match self {
                    $(Self::$kind => $title,)+
                }
            }

            pub(super) const fn extensions(self) -> &'static [&'static str] {
                match self {
                    $(Self::$kind => &$extensions,)+
                }
            }

            pub(super) fn format(self) -> &'static dyn CubeFormat {
                match self {
                    $(Self::$kind => &$format,)+
                }
            }
        }
    };
}

formats! {
    /// A file with one NumPy array.
    Npy("NumPy", "NumPy array", ["npy"]) => npy::Npy,
    /// A zip archive of NumPy arrays.
    Npz("NumPy", "NumPy archive", ["npz"]) => npz::Npz,
    /// One array in a contiguous Blosc2 frame, as written by nnU-Net and mlarray. If there are more than three
    /// axes, leading axes of length 1 are dropped.
    Blosc2("Blosc2", "Blosc2 array", ["b2nd", "b2frame"]) => blosc2::Blosc2,
    /// The text header of an ENVI cube, with its data file in the same folder; see [`companion`](super::companion).
    EnviHeader("ENVI", "ENVI header", ["hdr", "img", "dat"]) => envi::Envi,
    /// A TIFF or BigTIFF with numbers, in either byte order: integers of 1 or 8–64 bits, or floats of 16–64
    /// bits, chunky or planar, in strips or tiles, uncompressed or compressed with LZW, deflate, PackBits or
    /// zstd, with predictors 1–3. Pages with one band are stacked.
    Tiff("TIFF", "TIFF", ["tif", "tiff"]) => tiff::Tiff,
    /// A grey or colour PNG of 1 to 16 bits, read as uint8 or uint16.
    Png("PNG", "PNG", ["png"]) => png::Png,
    /// An HDF5 file. MATLAB files of version 7.3 are HDF5 files too.
    Hdf5("HDF5", "HDF5 file", ["h5", "hdf5", "nc", "mat"]) => hdf5::Hdf5,
    /// A MATLAB file of version 5 to 7.
    Mat5("MATLAB", "MATLAB v5 file", ["mat"]) => mat::Mat5,
    /// A Tivita camera cube (`…_SpecCube.dat`).
    Tivita("Tivita", "Tivita cube", ["dat"]) => tivita::Tivita,
    /// A MATLAB file of version 4, where every array is a matrix.
    Mat4("MATLAB", "MATLAB v4 file", ["mat"]) => mat::Mat4,
}

impl CubeKind {
    /// Returns the name of each program once, in order of recognition.
    pub(crate) fn names() -> Vec<&'static str> {
        let mut names = Vec::new();
        for name in Self::ALL.iter().map(|kind| kind.name()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl fmt::Display for CubeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

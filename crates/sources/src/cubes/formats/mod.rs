//! The file formats of cubes, each in its own module, and the list of them.

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

/// The table of the formats of cubes: kind, name of the format, title of a file, usual extensions in
/// lower case (side files included), and reader. Files are tested against the formats in this order.
macro_rules! formats {
    ($($(#[$doc:meta])* $kind:ident($name:literal, $title:literal, $extensions:expr) => $format:path,)+) => {
        /// A file format that holds cubes.
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
            /// All kinds, in the order of recognition.
            pub(super) const ALL: &[Self] = &[$(Self::$kind),+];

            /// Name of the format. Formats of one program share it: `NumPy`.
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Description of a file of this format in a message: `NumPy array`.
            const fn title(self) -> &'static str {
                match self {
                    $(Self::$kind => $title,)+
                }
            }

            /// Usual extensions.
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
    /// One NumPy array.
    Npy("NumPy", "NumPy array", ["npy"]) => npy::Npy,
    /// A zip archive of NumPy arrays.
    Npz("NumPy", "NumPy archive", ["npz"]) => npz::Npz,
    /// The text header of an ENVI cube. Its data file is in the same folder, see
    /// [`companion`](super::companion).
    EnviHeader("ENVI", "ENVI header", ["hdr", "img", "dat"]) => envi::Envi,
    /// A TIFF or BigTIFF of numbers: integers of 8–64 bits (or 1 bit), floats of 16–64, chunky or
    /// planar, strips or tiles, none, LZW, deflate, PackBits or zstd compression, predictors 1–3,
    /// both byte orders. Pages of one band are stacked.
    Tiff("TIFF", "TIFF", ["tif", "tiff"]) => tiff::Tiff,
    /// A PNG of grey or colours, 1 to 16 bits: uint8 or uint16.
    Png("PNG", "PNG", ["png"]) => png::Png,
    /// An HDF5 file, which includes MATLAB files of version 7.3.
    Hdf5("HDF5", "HDF5 file", ["h5", "hdf5", "nc", "mat"]) => hdf5::Hdf5,
    /// A MATLAB file of version 5 to 7.
    Mat5("MATLAB", "MATLAB v5 file", ["mat"]) => mat::Mat5,
    /// A cube of a Tivita camera (`…_SpecCube.dat`).
    Tivita("Tivita", "Tivita cube", ["dat"]) => tivita::Tivita,
    /// A MATLAB file of version 4, in which all arrays are matrices.
    Mat4("MATLAB", "MATLAB v4 file", ["mat"]) => mat::Mat4,
}

impl CubeKind {
    /// Names of the formats, each once, in the order of recognition.
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

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

/// Names each format once: its kind, and its implementation. Files are tested against the formats
/// in this order.
macro_rules! formats {
    ($($(#[$doc:meta])* $kind:ident => $format:path,)+) => {
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
    Npy => npy::Npy,
    /// A zip archive of NumPy arrays.
    Npz => npz::Npz,
    /// The text header of an ENVI cube. Its data file is in the same folder, see
    /// [`companion`](super::companion).
    EnviHeader => envi::Envi,
    /// A TIFF or BigTIFF of numbers: integers of 8–64 bits (or 1 bit), floats of 16–64, chunky or
    /// planar, strips or tiles, none, LZW, deflate, PackBits or zstd compression, predictors 1–3,
    /// both byte orders. Pages of one band are stacked.
    Tiff => tiff::Tiff,
    /// A PNG of grey or colours, 1 to 16 bits: uint8 or uint16.
    Png => png::Png,
    /// An HDF5 file, which includes MATLAB files of version 7.3.
    Hdf5 => hdf5::Hdf5,
    /// A MATLAB file of version 5 to 7.
    Mat5 => mat::Mat5,
    /// A cube of a Tivita camera (`…_SpecCube.dat`).
    Tivita => tivita::Tivita,
    /// A MATLAB file of version 4, whose arrays are matrices.
    Mat4 => mat::Mat4,
}

impl fmt::Display for CubeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.format().title())
    }
}

//! JPEG: the header walk, and the fence around libjpeg-turbo.
//!
//! One libjpeg is in the tree, libjpeg-turbo through its TurboJPEG interface (docs/adr/0005-one-libjpeg.md); every call to it goes through
//! `turbo`, where all of its `unsafe` stands.

mod check;
mod header;
mod interval;
mod keep;
mod metadata;
#[cfg(test)]
pub(crate) mod testing;
mod tile;
mod turbo;

pub use check::PixelCheck;
pub use header::{Component, JpegError, JpegHeader, Sampling, end_of_image};
pub use interval::{Interval, restart_interval};
pub use keep::KeepReason;
pub use metadata::{MAX_ICC_BYTES, Metadata, with_metadata};
pub use tile::{JpegTiler, TileOptions, TileOutcome, Tiled};
pub(crate) use turbo::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Scale, Subsampling, Warnings};

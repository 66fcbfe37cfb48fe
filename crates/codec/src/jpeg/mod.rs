//! JPEG: the header walk, and the fence around libjpeg-turbo.
//!
//! One libjpeg is in the tree, libjpeg-turbo through its TurboJPEG interface (docs/adr/0005-one-libjpeg.md); every call to it goes through
//! `turbo`, where all of its `unsafe` stands.

mod header;
#[cfg(test)]
pub(crate) mod testing;
mod turbo;

pub use header::{Component, JpegError, JpegHeader, Sampling, end_of_image};
pub(crate) use turbo::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Scale, Subsampling, Warnings};

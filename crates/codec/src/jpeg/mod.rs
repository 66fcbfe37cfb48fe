//! JPEG: the header walk, cutting by restart markers, and the fence around libjpeg-turbo.
//!
//! One libjpeg is in the tree, libjpeg-turbo through its TurboJPEG interface (docs/adr/0005-one-libjpeg.md); every call to it goes through
//! `turbo`, where all of its `unsafe` stands.

mod cut;
mod grid;
mod header;
mod rect;
mod scan;
#[cfg(test)]
pub(crate) mod testing;
mod turbo;
mod upsample;

pub use cut::{Cut, CutKind, CutPlan, cut};
pub use header::{Component, JpegError, JpegHeader, Sampling, end_of_image};
pub use rect::Rect;
pub use turbo::Scale;
pub(crate) use turbo::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Subsampling, Warnings};

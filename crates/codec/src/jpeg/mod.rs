//! JPEG: the header walk, cutting by restart markers, decoding into a slot, and the fence around libjpeg-turbo.
//!
//! One libjpeg is in the tree, libjpeg-turbo through its TurboJPEG interface (docs/adr/0005-one-libjpeg.md); every call to it goes through
//! `turbo`, where all of its `unsafe` stands.

mod color;
mod cut;
mod decode;
mod draw;
mod grid;
mod header;
mod orientation;
mod rect;
mod render;
mod resize;
mod scan;
#[cfg(test)]
pub(crate) mod testing;
mod turbo;
mod upsample;
mod view;

pub use cut::{Cut, CutKind, CutPlan, cut};
pub use decode::{DecodeOptions, Decoded, JpegDecoder};
pub use draw::{DrawKey, Draws};
pub use header::{Component, JpegError, JpegHeader, Sampling, end_of_image};
pub use rect::Rect;
pub use render::{PixelLayout, Rendering};
pub use turbo::Scale;
pub(crate) use turbo::{Bounds, Compressor, Decompressor, Encoding, PixelFormat, Subsampling, Warnings};
pub use view::{Area, Crop, Framing, View};

//! JPEGs for training loops: parsing headers, cutting by restart markers, decoding into a slot, tiling and
//! re-encoding, and a safe interface to libjpeg-turbo.
//!
//! - [`JpegTiler`] adds restart markers to a JPEG by rewriting its coefficients. With the feature `encode`,
//!   `JpegReencoder` makes a smaller JPEG and measures the loss.
//! - [`cut()`] cuts a rectangle out of a tiled JPEG by copying bytes.
//! - [`JpegDecoder`] decodes into the caller's memory, and crops, resizes, turns and flips the picture. A
//!   [`View`] describes the part to show and its size, and a [`DrawKey`] seeds the random choices of a view.
//! - [`PictureDecoder`] decodes every [`PictureFormat`]. [`PictureCheck`] checks that it can decode a picture.
//! - [`SegmentIndexer`] lists the positions in a JPEG where decoding can begin ([`SegmentIndex`]). With this
//!   list, a JPEG without restart markers can be decoded in parts.
//! - [`Frames`] is a list of JPEGs: the frames of a clip, or several views.
//!
//! The only libjpeg in the tree is libjpeg-turbo with its TurboJPEG interface (docs/adr/0005-one-libjpeg.md).
//! All calls to it are in `turbo`, which contains all `unsafe` code. `baseline` has our own decoder for the
//! pictures that we store (docs/adr/0011-own-decoder.md), and our own transcoder for tiling. Both are faster
//! than libjpeg-turbo, and their output is identical.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod area;
mod baseline;
mod bmp;
mod check;
mod color;
mod crops;
mod cut;
mod damage_check;
mod decode;
mod elsewhere;
mod error;
mod frames;
mod grid;
mod header;
mod interpolation;
mod interval;
mod iou_crop;
mod jittered;
mod keep;
mod kinds;
mod markers;
mod mcu_grid;
mod metadata;
mod orientation;
mod picture;
mod picture_decoder;
mod picture_format;
mod picture_open;
#[cfg(feature = "encode")]
mod quantisation;
mod rect;
#[cfg(feature = "encode")]
mod reencode;
mod render;
mod resize;
mod scaling;
mod scan;
#[cfg(feature = "encode")]
mod score;
mod segment_index;
mod segment_indexer;
mod shared;
mod shown_part;
#[cfg(test)]
mod sources;
#[cfg(test)]
pub(crate) mod testing;
mod tidy;
mod tiff;
mod tile;
mod turbo;
mod upsample;
mod view;
mod walk;

pub use area::Area;
pub use check::PixelCheck;
pub use crops::Crops;
pub use cut::{Cut, CutKind, CutPlan, cut};
pub use decode::{DecodePaths, Decoded, JpegDecoder};
pub use elsewhere::{AxisFilter, Coding, ComponentCoding, Placement, ResizedAxis, StoredCode};
pub use error::JpegError;
pub use frames::{FRAMES, Frames};
pub use header::{Component, JpegHeader, Sampling, exif_orientation};
pub use interpolation::Interpolation;
pub use interval::{Interval, restart_interval};
pub use iou_crop::IouCrop;
pub use jittered::{Rescaled, ShortestSide};
pub use keep::KeepReason;
pub use markers::check_markers;
pub use mcu_grid::McuGrid;
pub use metadata::{MAX_ICC_BYTES, Metadata, with_metadata};
pub(crate) use orientation::Orientation;
pub use orientation::PixelLayout;
pub use picture::PictureCheck;
pub use picture_decoder::{PictureDecoder, SharedPixels, StoredPicture};
pub use picture_format::PictureFormat;
pub use rect::Rect;
#[cfg(feature = "encode")]
pub use reencode::{ChromaSampling, JpegReencoder, Quality, ReencodeOptions, Resize};
pub use render::Rendering;
pub(crate) use render::{RenderPlan, Renderer};
pub(crate) use resize::{Cutout, RgbPixels};
pub use scaling::{FloatTable, Scaling};
#[cfg(feature = "encode")]
pub use score::{Reference, SCORE_BYTES_PER_PIXEL, SCORE_MAX_PIXELS};
pub use segment_index::{SegmentBoundary, SegmentIndex};
pub use segment_indexer::SegmentIndexer;
pub use shardpack_base::{DrawKey, Draws};
pub(crate) use shared::trim;
pub use tidy::tidied;
pub use tiff::{TiffCoding, Unpacker};
pub use tile::{JpegTiler, Reencoding, TileOptions, TileOutcome, Tiled};
pub(crate) use turbo::{Bounds, Decompressor, Scale, Warnings};
#[cfg(test)]
pub(crate) use turbo::{Compressor, Encoding, PixelFormat, Subsampling};
pub use view::{Crop, Framing, View, ViewSize};
pub use walk::end_of_image;

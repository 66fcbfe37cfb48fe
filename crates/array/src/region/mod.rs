//! Decodes patches of cubes (a rectangle of pixels with some bands) without decoding the rest (spec §4.2 to §5.3).
//!
//! A [`Region`] becomes a [`RegionPlan`]: a list of runs of stored elements in payload order. A
//! [`PayloadReader`](source::PayloadReader) returns these elements and decodes each block at most once. The result is
//! a small array that is arranged like the payload. It is then decoded to values piece by piece.
//!
//! The cost of a region of an array `[height, width, channels]` depends on how the array is stored:
//!
//! - In shape order, every block that contains a requested band of a pixel is decoded. With cubes of 100 two-byte
//!   bands and rows of 640 pixels, that is about one block per row, however narrow the region.
//! - In band-major order, only the rows of the requested bands are decoded.
//! - With a band difference, each pixel needs all bands up to the last requested one, because a band is the sum of
//!   the differences up to it. In shape order, these bands are adjacent and cost nothing extra. In band-major order,
//!   a region of band 90 costs as much as one of bands 0 to 90.
//! - With LZ4 and a byte shuffle, if less than half of a block is needed, it is decoded only up to the last needed
//!   element.
//! - With plain zstd, every touched unit of 4 MiB is decoded. Raw payloads need no decoding.

mod plan;
mod request;
mod scatter;
mod source;
mod values;
mod voxels;

pub(crate) use plan::{Lists, RegionPlan};
pub use request::{Bands, Region, RegionDecoded, RegionShape};
pub(crate) use scatter::{Placed, Several};
pub(crate) use source::PayloadReader;
pub use voxels::Voxels;

use source::SourceScratch;

#[derive(Default)]
pub(crate) struct RegionScratch {
    pub(crate) source: SourceScratch,
    pub(crate) plan: Lists,
    pub(crate) several: Several,
    pub(crate) stored: Vec<u8>,
}

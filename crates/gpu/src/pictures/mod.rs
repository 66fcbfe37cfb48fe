//! Pictures: tiled JPEGs become a batch of pixels on the device, equal to the host's to the bit.
//!
//! A thread stages each record ([`PreparedPicture`]): it copies the entropy-coded segments that the view
//! needs. Tables of their places and of the output follow ([`assemble`]). After one upload, five kernels
//! ([`PictureBatch::launches`]) decode all pictures of the batch. A device thread decodes a segment, so
//! hundreds of threads decode a picture. Pictures that the kernels do not take are rejected with a
//! [`Reason`], and decoded on the host.
//!
//! The pixels equal the pixels of [`JpegDecoder`](shardpack_jpeg::JpegDecoder): libjpeg-turbo's accurate
//! IDCT, triangle upsampling and colours, and the same fixed-point resizing. [`Scaling`] converts these to
//! floats. A row with damaged segments is flagged in the batch's status words, and its content is
//! unspecified; the other rows are unaffected.

mod assembly;
mod batch;
mod changes;
mod coding;
mod frame;
mod kept;
mod kernels;
mod layout;
mod options;
mod prepared;
mod reason;
mod record;
mod segments;
mod staged;
mod tiles;
mod totals;

pub(crate) use assembly::assemble;
pub(crate) use batch::{PictureBatch, Regions};
pub(crate) use changes::most_level_bytes;
pub(crate) use kept::keep;
pub(crate) use kernels::SOURCE;
pub(crate) use options::{Dtype, Output, StagingOptions};
pub(crate) use prepared::{Destination, PreparedPicture};
pub(crate) use reason::Reason;
pub(crate) use staged::StagedPicture;
pub(crate) use totals::Totals;

#[cfg(test)]
pub(crate) mod tests;

//! Pictures: tiled JPEGs become a batch of pixels on the device, the host's to the bit.
//!
//! A thread that has a record [stages](Staging) it: the entropy-coded segments that the view needs,
//! as they are, and tables of where they are and what becomes of them. One upload later, five
//! kernels ([`PictureBatch::launches`]) decode all pictures of the batch: a thread decodes a segment, so
//! that a picture is decoded by hundreds of them. What the kernels do not take is refused with a
//! [`Reason`], and decoded on the host.
//!
//! The pixels are those of [`JpegDecoder`](shardpack_jpeg::JpegDecoder): libjpeg-turbo's
//! accurate IDCT, triangle upsampling and colours, and the same fixed-point resizing. Floats are
//! made of these by [`Scaling`]. A row whose segments are damaged is flagged in the batch's status
//! words, and holds anything; the other rows are as ever.

mod assembly;
mod batch;
mod changes;
mod coding;
mod decoder;
mod frame;
mod kept;
mod layout;
mod options;
mod prepared;
mod reason;
mod record;
mod segments;
mod staged;
mod staging;
mod tiles;
mod totals;

pub(crate) use assembly::assemble;
pub use batch::{PictureBatch, PictureRow, Regions};
pub(crate) use changes::most_level_bytes;
pub use decoder::{PictureDecoder, Timing};
pub(crate) use kept::keep;
pub use layout::{CONFIG, KERNELS};
pub use options::{Dtype, Output, StagingOptions};
pub(crate) use prepared::{Destination, PreparedPicture};
pub use reason::Reason;
pub(crate) use staged::StagedPicture;
pub use staging::Staging;
pub(crate) use totals::Totals;

pub use shardpack_jpeg::Scaling;

#[cfg(test)]
pub(crate) mod tests;

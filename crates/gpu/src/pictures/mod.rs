//! Decodes JPEGs on the device into a batch of pixels that are bit-identical to the host's. Usually, the JPEGs are
//! tiled or have a segment index.
//!
//! A thread stages each record ([`PreparedPicture`]): it copies the entropy-coded segments that the view needs. When
//! all records are staged, tables with the positions of segments and outputs are added ([`assemble`]). After one
//! upload, five kernels ([`PictureBatch::launches`]) decode all pictures of the batch. One device thread decodes each
//! segment, so hundreds of threads decode a picture. Pictures that the kernels do not accept are rejected with a
//! [`Reason`]: the host decodes them, and the device converts their levels to floats ([`LevelsBatch`]).
//!
//! The pixels are bit-identical to the output of [`JpegDecoder`](shardpack_jpeg::JpegDecoder): the kernels use
//! libjpeg-turbo's accurate IDCT, triangle upsampling and colour conversion, and the same fixed-point resizing.
//! [`Scaling`] converts the pixels to floats. A damaged segment flags its row in the batch's status words and makes
//! the row's content unspecified, but affects no other row.

mod assembly;
mod batch;
mod changes;
mod clips;
mod coding;
mod frame;
mod indexed;
mod kept;
mod kernels;
mod layout;
mod levels;
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
pub(crate) use clips::keep_clip;
pub(crate) use kept::keep;
pub(crate) use kernels::SOURCE;
pub(crate) use levels::{LevelsBatch, StagedLevels};
pub(crate) use options::{Output, PixelType, StagingOptions};
pub(crate) use prepared::{Destination, PreparedPicture, Shown};
pub(crate) use reason::Reason;
pub(crate) use staged::{Samples, StagedPicture};
pub(crate) use totals::Totals;

#[cfg(test)]
pub(crate) mod tests;

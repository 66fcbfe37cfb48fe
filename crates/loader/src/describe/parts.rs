//! What describing one field comes to.

use crate::fields::{From, Size};
use shardpack_format::ElementType;
use shardpack_jpeg::PixelLayout;
use shardpack_reader::Error;

/// Arrays of a field have several shapes, and the index does not say which.
pub(crate) fn several_shapes(field: &str) -> Error {
    let expected = "one, or such as the index tells by `height`, `width` and `channels`";
    Error::usage(format!("shape of the arrays `{field}`"), expected, "several")
        .with_hint("leave it out of the fields of the batch, and read it sample by sample")
}

/// Where a field comes from, its type, the shape of a row, and how long that is.
pub(crate) type Parts = (From, ElementType, Vec<u64>, Size);

/// Height, width and channels in the order of `layout`.
pub(crate) fn axes<T>(layout: PixelLayout, height: T, width: T, channels: T) -> [T; 3] {
    match layout {
        PixelLayout::HeightWidthChannels => [height, width, channels],
        PixelLayout::ChannelsHeightWidth => [channels, height, width],
    }
}

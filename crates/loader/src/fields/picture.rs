//! Properties of a picture that its own field and the fields that follow the picture need.

use super::axis::Col;
use shardpack_format::{Codec, Error, FieldValue};
use shardpack_jpeg::{Frames, View};
use shardpack_reader::Shard;

pub(crate) const JPEG: &str = "image/jpeg";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Followed {
    pub(crate) position: usize,
    pub(crate) view: View,
    pub(crate) orientation: Option<Col>,
}

/// Returns the orientation of a picture, from a column of the index or from the picture itself.
pub(crate) fn orientation_of(column: Option<Col>, shard: &Shard, record: u64, value: &FieldValue<'_>) -> u8 {
    let column = column.filter(|column| column.is_in(shard));
    let stored = column.and_then(|column| column.length(shard, record));
    let stored = stored.map(|stored| i64::try_from(stored).unwrap_or(0));
    // A clip has the orientation of its first frame.
    let media_type = std::str::from_utf8(value.descriptor).unwrap_or_default();
    let list = Frames::of(media_type, value.bytes).ok().filter(Frames::is_list);
    let (is_jpeg, bytes) = list.map_or((value.codec == Codec::Jpeg, value.bytes), |list| (true, list.first()));
    shardpack_reader::raw::orientation(stored, is_jpeg, bytes)
}

/// Returns the segment index of a picture from the value of its field. An index that cannot be read is as wrong as
/// an empty one, which decoders count before they decode the picture from its start.
pub(crate) fn segments_of<'a>(value: Result<Option<FieldValue<'a>>, Error>) -> Option<&'a [u8]> {
    value.map_or(Some(&[]), |value| value.map(|value| value.bytes))
}

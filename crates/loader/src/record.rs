//! A record in hand: its values, and what its pictures show.

use super::align::{Followed, Shape};
use super::arrays::Cut;
use super::fields::{Col, FieldPlan};
use super::large::{Large, There};
use super::objects::Values;
use super::recipe::Recipe;
use super::sample::SampleAt;
use shardpack_format::{Codec, Error as FormatError, FieldValue, Frame, Limits, Record};
use shardpack_jpeg::{Frames, PictureDecoder, Rendering, View};
use shardpack_reader::Shard;

/// What values are taken out of.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A whole record.
    Whole { frame: &'a Frame, bytes: &'a [u8] },
    /// What was kept of one that was made in parts, and what is staged of it.
    Parts(&'a Large, &'a [There]),
    /// None is at hand: all values are on the device.
    Device,
}

/// The record that is being decoded.
#[derive(Clone, Copy)]
pub(super) struct RecordOf<'a> {
    pub(super) shard: &'a Shard,
    pub(super) source: Source<'a>,
    pub(super) at: SampleAt,
}

impl<'a> RecordOf<'a> {
    /// The stored value; `None` if the sample has none.
    pub(super) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.value_within(position, &self.shard.options().limits)
    }

    fn value_within(&self, position: usize, limits: &Limits) -> Result<Option<FieldValue<'a>>, FormatError> {
        let Some(position) = self.shard.stored_at(position) else { return Ok(None) };
        match self.source {
            Source::Whole { frame, bytes } => Record::field_at(frame, bytes, position, limits),
            Source::Parts(large, there) => large.value(there, position, limits),
            Source::Device => Err(FormatError::internal("value of a record that is not read", "none", position)),
        }
    }

    /// Media type of a picture, and how it is to be shown.
    pub(super) fn rendering<'v>(
        &self,
        recipe: &Recipe,
        value: &FieldValue<'v>,
        view: View,
        orientation: Option<Col>,
    ) -> Result<(&'v str, Rendering), FormatError> {
        let media_type = std::str::from_utf8(value.descriptor)
            .map_err(|e| FormatError::format("media type of a picture", "UTF-8", e))?;
        let orientation = orientation_of(orientation, self.shard, self.at.record, value);
        Ok((media_type, Rendering { view, key: recipe.key(self.at), orientation, layout: recipe.layout }))
    }
}

/// A record, and what reads the headers of its pictures.
pub(super) struct Viewed<'a> {
    pub(super) record: RecordOf<'a>,
    pub(super) recipe: &'a Recipe,
    pub(super) pictures: &'a mut PictureDecoder,
}

impl Values for Viewed<'_> {
    fn value(&self, position: usize) -> Result<Option<FieldValue<'_>>, FormatError> {
        self.record.value(position)
    }

    fn shape(&mut self, picture: &Followed) -> Result<Option<Shape>, FormatError> {
        let Followed { position, view, orientation } = *picture;
        let Some(value) = self.record.value(position)? else { return Ok(None) };
        let (media_type, how) = self.record.rendering(self.recipe, &value, view, orientation)?;
        let (height, width) = self.pictures.size_of(media_type, value.bytes, how.orientation)?;
        Ok(Some(Shape { picture: [height, width], crop: view.resolve(width, height, &how.key)? }))
    }
}

/// A field of the record that is being decoded.
pub(super) struct FieldOf<'a> {
    pub(super) shard: &'a Shard,
    pub(super) source: Source<'a>,
    pub(super) at: SampleAt,
    pub(super) field: &'a FieldPlan,
    pub(super) number: usize,
}

impl<'a> FieldOf<'a> {
    /// The stored value; `None` if the sample has none.
    pub(super) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.record().value(position)
    }

    /// The record that it is of.
    pub(super) const fn record(&self) -> RecordOf<'a> {
        RecordOf { shard: self.shard, source: self.source, at: self.at }
    }

    /// The stored value of an array. One of which a part is asked for counts by the size of that:
    /// `ArrayRows` compares it with the limits.
    pub(super) fn array(&self, position: usize, cut: Option<&Cut>) -> Result<Option<FieldValue<'a>>, FormatError> {
        let limits = &self.shard.options().limits;
        match cut {
            Some(_) => self.record().value_within(position, &limits_of_a_part(limits)),
            None => self.record().value_within(position, limits),
        }
    }

    /// Its value, if that is in staging memory as it is stored.
    pub(super) fn there(&self) -> Option<&'a There> {
        match self.source {
            Source::Whole { .. } | Source::Device => None,
            Source::Parts(_, there) => there.iter().find(|there| there.field == self.number),
        }
    }
}

/// Limits for the whole of an array of which only a part is decoded.
pub(super) fn limits_of_a_part(limits: &Limits) -> Limits {
    Limits { max_decoded_bytes: u64::MAX, ..limits.clone() }
}

/// Compares a record with the index and with its CRC32. What is left out of the checks of
/// [`Shard::record`] are the parts that the loader takes from the index instead: key and scalars.
pub(super) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}

/// How a picture is turned, as a column of the index or the picture itself says.
pub(super) fn orientation_of(column: Option<Col>, shard: &Shard, record: u64, value: &FieldValue<'_>) -> u8 {
    let column = column.filter(|column| column.is_in(shard));
    let stored = column.and_then(|column| column.length(shard, record));
    let stored = stored.map(|stored| i64::try_from(stored).unwrap_or(0));
    // A clip has the orientation of its first frame.
    let media_type = std::str::from_utf8(value.descriptor).unwrap_or_default();
    let list = Frames::of(media_type, value.bytes).ok().filter(Frames::is_list);
    let (is_jpeg, bytes) = list.map_or((value.codec == Codec::Jpeg, value.bytes), |list| (true, list.first()));
    shardpack_reader::raw::orientation(stored, is_jpeg, bytes)
}

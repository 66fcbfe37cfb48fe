//! A record in hand: its values, and what its pictures show.

use super::recipe::Recipe;
use super::shape::Shape;
use super::values::Values;
use crate::fields::{Col, Cut, FieldPlan, Followed, limits_of_a_part, orientation_of};
use crate::sample::SampleAt;
use crate::stage::Memo;
use crate::supply::{LargeRecord, StagedValue};
use shardpack_format::{Error as FormatError, FieldValue, Frame, Limits, Record};
use shardpack_jpeg::{PictureDecoder, Rendering, View};
use shardpack_reader::Shard;

/// What values are taken out of.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// A whole record.
    Whole { frame: &'a Frame, bytes: &'a [u8] },
    /// The same, of which several rows are made, and what a stage has noted about its fields.
    Scene { frame: &'a Frame, bytes: &'a [u8], memos: &'a [Memo] },
    /// What was kept of one that was made in parts, and what is staged of it.
    Parts(&'a LargeRecord, &'a [StagedValue]),
    /// None is at hand: all values are on the device.
    Device,
}

/// The record that is being decoded.
#[derive(Clone, Copy)]
pub(crate) struct RecordOf<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) source: Payload<'a>,
    pub(crate) at: SampleAt,
}

impl<'a> RecordOf<'a> {
    /// The stored value; `None` if the sample has none.
    pub(crate) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.value_within(position, &self.shard.options().limits)
    }

    fn value_within(&self, position: usize, limits: &Limits) -> Result<Option<FieldValue<'a>>, FormatError> {
        let Some(position) = self.shard.stored_at(position) else { return Ok(None) };
        match self.source {
            Payload::Whole { frame, bytes } | Payload::Scene { frame, bytes, .. } => {
                Record::field_at(frame, bytes, position, limits)
            }
            Payload::Parts(large, there) => large.value(there, position, limits),
            Payload::Device => Err(FormatError::internal("value of a record that is not read", "none", position)),
        }
    }

    /// Media type of a picture, and how it is to be shown.
    pub(crate) fn rendering<'v>(
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
pub(crate) struct Viewed<'a> {
    pub(crate) record: RecordOf<'a>,
    pub(crate) recipe: &'a Recipe,
    pub(crate) pictures: &'a mut PictureDecoder,
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
pub(crate) struct FieldOf<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) source: Payload<'a>,
    pub(crate) at: SampleAt,
    pub(crate) field: &'a FieldPlan,
    pub(crate) number: usize,
}

impl<'a> FieldOf<'a> {
    /// The stored value; `None` if the sample has none.
    pub(crate) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.record().value(position)
    }

    /// The record that it is of.
    pub(crate) const fn record(&self) -> RecordOf<'a> {
        RecordOf { shard: self.shard, source: self.source, at: self.at }
    }

    /// The stored value of an array. One of which a part is asked for counts by the size of that:
    /// `ArrayRows` compares it with the limits.
    pub(crate) fn array(&self, position: usize, cut: Option<&Cut>) -> Result<Option<FieldValue<'a>>, FormatError> {
        let limits = &self.shard.options().limits;
        match cut {
            Some(_) => self.record().value_within(position, &limits_of_a_part(limits)),
            None => self.record().value_within(position, limits),
        }
    }

    /// Its value, if that is in staging memory as it is stored.
    pub(crate) fn there(&self) -> Option<&'a StagedValue> {
        match self.source {
            Payload::Whole { .. } | Payload::Scene { .. } | Payload::Device => None,
            Payload::Parts(_, there) => there.iter().find(|there| there.field == self.number),
        }
    }

    /// What a stage has noted about it, if several rows are made of its record.
    pub(crate) fn memo(&self) -> Option<&'a Memo> {
        match self.source {
            Payload::Scene { memos, .. } => memos.get(self.number),
            Payload::Whole { .. } | Payload::Parts(..) | Payload::Device => None,
        }
    }
}

//! A record in memory, with access to its values and to the views of its pictures.

use super::added::AddedRecords;
use super::points::stored_boxes;
use super::recipe::Recipe;
use super::shape::{Shape, VisiblePart, moves};
use crate::fields::{
    Col, FieldPlan, Followed, ViewBoxes, limits_of_a_part, media_type_of, orientation_of, segments_of,
};
use crate::sample::{SampleAt, name};
use crate::stage::Memo;
use crate::supply::{LargeRecord, StagedValue};
use shardpack_array::ArrayDecoder;
use shardpack_format::{Error as FormatError, FieldValue, Frame, Limits, Record};
use shardpack_jpeg::{PictureDecoder, Rendering, View};
use shardpack_reader::{Error, Shard};

#[derive(Clone, Copy)]
pub(crate) enum RecordBytes<'a> {
    Whole {
        frame: &'a Frame,
        bytes: &'a [u8],
    },
    /// Record of a scene. Several rows share the whole record, and a stage keeps notes about each of its fields.
    Scene {
        frame: &'a Frame,
        bytes: &'a [u8],
        memos: &'a [Memo],
    },
    /// Record that is decoded in parts: the bytes kept in memory, and the values in staging memory.
    Parts {
        large: &'a LargeRecord,
        staged: &'a [StagedValue],
    },
    /// Record that is not in memory. Its values are on the device or in the index.
    Elsewhere,
}

#[derive(Clone, Copy)]
pub(crate) struct RowRecord<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) shard: &'a Shard,
    pub(crate) at: SampleAt,
    pub(crate) payload: RecordBytes<'a>,
    pub(crate) added: &'a AddedRecords,
}

impl<'a> RowRecord<'a> {
    pub(crate) fn limits(&self) -> &'a Limits {
        &self.shard.options().limits
    }

    pub(crate) fn key(&self) -> &'a str {
        self.shard.index().key(self.at.record).unwrap_or_default()
    }

    pub(crate) fn named(&self, error: FormatError) -> Error {
        name(self.shard, self.at, error)
    }

    pub(crate) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.value_within(position, self.limits())
    }

    fn value_within(&self, position: usize, limits: &Limits) -> Result<Option<FieldValue<'a>>, FormatError> {
        if let Some((file, position)) = self.shard.added_at(position) {
            return self.added.value(file, position, limits);
        }
        let Some(position) = self.shard.stored_at(position) else { return Ok(None) };
        match self.payload {
            RecordBytes::Whole { frame, bytes } | RecordBytes::Scene { frame, bytes, .. } => {
                Record::field_at(frame, bytes, position, limits)
            }
            RecordBytes::Parts { large, staged } => large.value(staged, position, limits),
            // Users never see this error, because the record is then read.
            RecordBytes::Elsewhere => Err(FormatError::usage(format!("value {position} in the record was not read"))),
        }
    }

    /// Returns the segment index of the picture in stored field `position`, if its record has one.
    pub(crate) fn segments(&self, position: usize) -> Option<&'a [u8]> {
        let own = self.shard.segments_at(position)?;
        segments_of(match self.payload {
            RecordBytes::Whole { frame, bytes } | RecordBytes::Scene { frame, bytes, .. } => {
                Record::field_at(frame, bytes, own, self.limits())
            }
            RecordBytes::Parts { large, staged } => large.value(staged, own, self.limits()),
            RecordBytes::Elsewhere => return None,
        })
    }

    pub(crate) fn rendering<'v>(
        &self,
        value: &FieldValue<'v>,
        view: View,
        orientation: Option<Col>,
    ) -> Result<(&'v str, Rendering), FormatError> {
        let media_type = media_type_of(value)?;
        let orientation = orientation_of(orientation, self.shard, self.at.record, value);
        let Recipe { layout, .. } = *self.recipe;
        Ok((media_type, Rendering { view, key: self.recipe.key(self.at), orientation, layout }))
    }
}

impl RowRecord<'_> {
    /// Returns the view of an upright picture of this height and width. If the view depends on `boxes`, the result
    /// shows the part that was drawn for the boxes of this sample.
    pub(crate) fn view_of(
        &self,
        picture: [u32; 2],
        view: View,
        boxes: Option<ViewBoxes>,
        arrays: &mut ArrayDecoder,
    ) -> Result<View, FormatError> {
        let Some(of @ ViewBoxes { position, .. }) = boxes else { return Ok(view) };
        let plans = &self.recipe.fields.objects;
        let named = |error| match plans.iter().find(|plan| plan.position == position) {
            Some(plan) => plan.named(plans, error),
            None => error,
        };
        let value = self.value(position).map_err(named)?;
        let boxes = stored_boxes(value.as_ref(), of, picture, arrays, self.limits()).map_err(named)?;
        let [height, width] = picture;
        view.of_boxes(width, height, &self.recipe.key(self.at), &boxes)
    }

    /// Returns the visible part of an upright picture of this height and width.
    pub(crate) fn shape(
        &self,
        picture: [u32; 2],
        of: &Followed,
        arrays: &mut ArrayDecoder,
    ) -> Result<Shape, FormatError> {
        let [height, width] = picture;
        let key = self.recipe.key(self.at);
        let crop = self.view_of(picture, of.view, of.boxes, arrays)?.resolve(width, height, &key)?;
        let moves = moves(&self.recipe.fields.changes, &key, &crop);
        let has_centres = of.boxes.is_some();
        Ok(Shape { picture, crop, moves, visible: VisiblePart::All, has_centres, is_stored: true })
    }
}

pub(crate) struct ViewedRecord<'a> {
    pub(crate) record: RowRecord<'a>,
    pub(crate) pictures: &'a mut PictureDecoder,
    pub(crate) arrays: &'a mut ArrayDecoder,
}

impl ViewedRecord<'_> {
    /// Returns the part of a picture that its view shows, or `None` if the sample has no picture.
    pub(crate) fn shape(&mut self, picture: &Followed) -> Result<Option<Shape>, FormatError> {
        let Followed { position, view, orientation, .. } = *picture;
        let Some(value) = self.record.value(position)? else { return Ok(None) };
        let (media_type, how) = self.record.rendering(&value, view, orientation)?;
        let (height, width) = self.pictures.size_of(media_type, value.bytes, how.orientation)?;
        Ok(Some(self.record.shape([height, width], picture, self.arrays)?))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct RowField<'a> {
    pub(crate) record: RowRecord<'a>,
    pub(crate) field: &'a FieldPlan,
    /// Index of the field in the batch.
    pub(crate) number: usize,
}

impl<'a> RowField<'a> {
    pub(crate) const fn of(self, at: SampleAt) -> Self {
        Self { record: RowRecord { at, ..self.record }, ..self }
    }

    pub(crate) const fn at(&self) -> SampleAt {
        self.record.at
    }

    pub(crate) const fn recipe(&self) -> &'a Recipe {
        self.record.recipe
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        self.record.limits()
    }

    /// Returns the shape of a row, which is `dims` if the field is ragged.
    pub(crate) fn shape<'d>(&self, dims: &'d [u64]) -> &'d [u64]
    where
        'a: 'd,
    {
        if self.field.is_ragged() { dims } else { &self.field.shape }
    }

    pub(crate) fn value(&self, position: usize) -> Result<Option<FieldValue<'a>>, FormatError> {
        self.record.value(position)
    }

    /// Returns an array's value. If only a part is requested, the limits apply to that part, which is checked later.
    pub(crate) fn array(&self, position: usize, is_cut: bool) -> Result<Option<FieldValue<'a>>, FormatError> {
        match is_cut {
            true => self.record.value_within(position, &limits_of_a_part(self.limits())),
            false => self.record.value(position),
        }
    }

    pub(crate) fn staged(&self) -> Option<&'a StagedValue> {
        match self.record.payload {
            RecordBytes::Parts { staged, .. } => staged.iter().find(|staged| staged.field == self.number),
            RecordBytes::Whole { .. } | RecordBytes::Scene { .. } | RecordBytes::Elsewhere => None,
        }
    }

    /// Returns the stage's note about the field, or `None` unless several rows share the record.
    pub(crate) fn memo(&self) -> Option<&'a Memo> {
        match self.record.payload {
            RecordBytes::Scene { memos, .. } => memos.get(self.number),
            RecordBytes::Whole { .. } | RecordBytes::Parts { .. } | RecordBytes::Elsewhere => None,
        }
    }
}

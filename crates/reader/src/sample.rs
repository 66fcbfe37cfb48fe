//! Provides access to the fields of a sample by name.

use crate::error::{Error, Result};
use crate::owned_record::OwnedRecord;
use crate::scalar::Scalar;
use crate::shard::Shard;
use crate::union_columns::StoredPlace;
use shardpack_format::{FieldKind, FieldValue, Limits, Record, Schema};
use std::sync::Arc;

/// A sample that borrows its record from a buffer.
#[derive(Debug, Clone)]
pub struct RecordView<'a> {
    index: u64,
    record_number: u64,
    record: Record<'a>,
    bytes: &'a [u8],
    /// The records of the sample in the columns files.
    added: Vec<Option<Record<'a>>>,
    shard: &'a Shard,
}

/// An encoded picture as stored.
///
/// ```
/// use shardpack_reader::Image;
/// let image = Image { media_type: "image/png", bytes: b"\x89PNG" };
/// assert!(image.media_type.starts_with("image/"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    /// Media type of the picture, such as `image/jpeg` or `image/png`.
    pub media_type: &'a str,
    /// Bytes of the picture file.
    pub bytes: &'a [u8],
}

impl<'a> RecordView<'a> {
    pub(crate) fn new(
        index: u64,
        record_number: u64,
        record: Record<'a>,
        bytes: &'a [u8],
        added: &'a [Option<OwnedRecord>],
        shard: &'a Shard,
    ) -> Self {
        let added = added.iter().map(|added| added.as_ref().map(OwnedRecord::record)).collect();
        Self { index, record_number, record, bytes, added, shard }
    }

    /// Returns the index of the sample in the dataset, in stored order.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Returns the sample's key.
    #[must_use]
    pub const fn key(&self) -> &'a str {
        self.record.key
    }

    /// Returns the number of the sample in source order.
    #[must_use]
    pub const fn sample_id(&self) -> u64 {
        self.record.frame.sample_id
    }

    /// Returns the parsed record.
    #[must_use]
    pub const fn record(&self) -> &Record<'a> {
        &self.record
    }

    /// Returns the whole record as stored, without the padding after it.
    #[must_use]
    pub const fn record_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the fields of the dataset.
    #[must_use]
    pub fn schema(&self) -> &'a Schema {
        self.shard.schema()
    }

    pub(crate) const fn limits(&self) -> &'a Limits {
        &self.shard.options().limits
    }

    /// Returns the value of a scalar field.
    ///
    /// # Errors
    /// `Usage` if there is no scalar field of this name or this sample has no value for it.
    pub fn scalar(&self, name: &str) -> Result<Scalar> {
        self.scalar_if_any(name)?.ok_or_else(|| self.no_value(name))
    }

    /// Returns the value of a scalar field, or `None` if this sample is part of a concatenation and its own
    /// dataset lacks the field.
    ///
    /// # Errors
    /// `Usage` if the dataset has no scalar field of this name.
    pub fn scalar_if_any(&self, name: &str) -> Result<Option<Scalar>> {
        let (position, dtype) = self.schema().scalar_position(name).ok_or_else(|| self.no_field("scalar", name))?;
        if !self.shard.has_scalar(position) {
            return Ok(None);
        }
        // Take the value from the index. The record has already been compared with it.
        let start = usize::try_from(self.record_number).ok().and_then(|record| record.checked_mul(dtype.size()));
        let column = self.shard.column_bytes(position).unwrap_or_default();
        let value = start.and_then(|start| column.get(start..start.checked_add(dtype.size())?));
        let value = value.and_then(|value| Scalar::from_bytes(dtype, value));
        value.map(Some).ok_or_else(|| {
            let (record, bytes) = (self.record_number, column.len());
            Error::internal(format!("the column `{name}` of {bytes} bytes has no value for record {record}"), "", "")
        })
    }

    /// Returns the stored value of a field, or `None` if this sample has no value for it.
    ///
    /// # Errors
    /// `Usage` if there is no stored field of this name.
    pub fn field(&self, name: &str) -> Result<Option<FieldValue<'a>>> {
        let position = self.schema().stored_position(name).ok_or_else(|| self.no_field("stored", name))?;
        let Some(StoredPlace { file, position }) = self.shard.stored_place(position) else { return Ok(None) };
        let record = match file {
            None => Some(&self.record),
            Some(file) => self.added.get(file).and_then(Option::as_ref),
        };
        let fields = record.map(|record| record.fields.as_slice()).unwrap_or_default();
        let value = fields
            .get(position)
            .ok_or_else(|| Error::internal("number of fields in a record", format!("over {position}"), fields.len()))?;
        Ok(*value)
    }

    /// Returns the value of a field, which must be of one of these kinds. Fails with `Usage` if there is no such field
    /// or this sample has no value for it.
    pub(crate) fn present(&self, name: &str, kinds: &[FieldKind]) -> Result<FieldValue<'a>> {
        let value = self.field(name)?;
        if let Some(field) = self.schema().fields().iter().find(|f| f.name == name && !kinds.contains(&f.kind)) {
            let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
            return Err(Error::usage(format!(
                "field `{}` has kind {}, not {}",
                name.escape_debug(),
                field.kind,
                kinds.join(" or ")
            )));
        }
        value.ok_or_else(|| self.no_value(name))
    }

    /// Returns the picture in an image field.
    ///
    /// # Errors
    /// `Usage` if there is no image field of this name or this sample has no value for it; `Format` if its
    /// media type is not UTF-8.
    pub fn image(&self, name: &str) -> Result<Image<'a>> {
        let value = self.present(name, &[FieldKind::Image])?;
        image_of(&value).map_err(|e| self.field_error(name, e))
    }

    /// Adds the location of the field's record to an error about its bytes.
    pub(crate) fn error(&self, field: &str, error: shardpack_format::Error) -> Error {
        let position = self.schema().stored_position(field);
        let file = position.and_then(|position| self.shard.file_of(position)).map_or(self.shard, |(file, _)| file);
        file.in_record(self.record_number, error).into()
    }

    fn no_value(&self, name: &str) -> Error {
        let (key, name) = (self.key().escape_debug(), name.escape_debug());
        Error::usage(format!("sample `{key}` has no value for the field `{name}`"))
    }

    fn no_field(&self, kind: &str, name: &str) -> Error {
        let names: Vec<&str> = self.schema().user_fields().map(|f| f.name.as_str()).collect();
        Error::usage(format!(
            "there is no {kind} field `{}`; the fields are [{}]",
            name.escape_debug(),
            names.join(", ")
        ))
    }
}

/// Returns a picture. The media type has already been checked together with the record.
pub(crate) fn image_of<'a>(value: &FieldValue<'a>) -> Result<Image<'a>, shardpack_format::Error> {
    let media_type = std::str::from_utf8(value.descriptor)
        .map_err(|e| shardpack_format::Error::malformed(format!("the media type is not valid UTF-8: {e}")))?;
    Ok(Image { media_type, bytes: value.bytes })
}

/// A sample that owns its record.
///
/// It keeps the index of its shard in memory for the schema, so drop the sample when you no longer need it.
#[derive(Debug, Clone)]
pub struct Sample {
    index: u64,
    record_number: u64,
    record: OwnedRecord,
    added: Vec<Option<OwnedRecord>>,
    shard: Arc<Shard>,
}

impl Sample {
    /// Makes a sample of its record. Reads its records in the columns files.
    pub(crate) fn of(index: u64, record_number: u64, shard: &Arc<Shard>, record: OwnedRecord) -> Result<Self> {
        let added = shard.added(record_number)?;
        Ok(Self { index, record_number, record, added, shard: Arc::clone(shard) })
    }

    /// Returns the sample as a [`RecordView`], which has all the accessors.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        let (record, bytes) = (self.record.record(), self.record.bytes());
        RecordView::new(self.index, self.record_number, record, bytes, &self.added, &self.shard)
    }

    /// Returns the index of the sample in the dataset, in stored order.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Returns the sample's key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.record.key()
    }

    /// Returns the number of the sample in source order.
    #[must_use]
    pub const fn sample_id(&self) -> u64 {
        self.record.sample_id()
    }

    /// Returns the whole record as stored, without the padding after it.
    #[must_use]
    pub fn record_bytes(&self) -> &[u8] {
        self.record.bytes()
    }

    /// Same as [`RecordView::scalar`].
    ///
    /// # Errors
    /// Same as [`RecordView::scalar`].
    pub fn scalar(&self, name: &str) -> Result<Scalar> {
        self.view().scalar(name)
    }

    /// Same as [`RecordView::field`].
    ///
    /// # Errors
    /// Same as [`RecordView::field`].
    pub fn field(&self, name: &str) -> Result<Option<FieldValue<'_>>> {
        self.view().field(name)
    }

    /// Same as [`RecordView::image`].
    ///
    /// # Errors
    /// Same as [`RecordView::image`].
    pub fn image(&self, name: &str) -> Result<Image<'_>> {
        self.view().image(name)
    }
}

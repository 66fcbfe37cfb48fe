//! Builds records (spec §2.2): the head, followed by space for the field values.

use crate::bytes::align_up;
use crate::codec_id::Codec;
use crate::error::{Error, Result, bug};
use crate::name::check_key;
use crate::record::{FIELD_ENTRY_LEN, FRAME_BYTES, FRAME_LEN, Frame};
use crate::schema::Schema;
use std::ops::Range;

/// Sizes, codec and descriptor of a stored field value, declared before its bytes are written.
///
/// ```
/// assert_eq!(shardpack_format::StoredField::raw(10).decoded_bytes, 10);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredField<'a> {
    /// Codec of the bytes.
    pub codec: Codec,
    /// Size of the stored value, in bytes.
    pub stored_bytes: u64,
    /// Size of the value after decompression, in bytes.
    pub decoded_bytes: u64,
    /// Media type of an image, or array descriptor of an array. Empty for other kinds.
    pub descriptor: &'a [u8],
}

impl StoredField<'static> {
    /// Declares uncompressed bytes without a descriptor.
    #[must_use]
    pub const fn raw(bytes: u64) -> Self {
        Self { codec: Codec::Raw, stored_bytes: bytes, decoded_bytes: bytes, descriptor: &[] }
    }
}

struct RecordLayout {
    head: Vec<u8>,
    fields: Vec<Range<usize>>,
    frame: Frame,
    body_bytes: usize,
    padded: usize,
}

impl RecordLayout {
    fn new(
        schema: &Schema,
        shard_number: u32,
        sample_id: u64,
        key: &str,
        scalars: &[u8],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<Self> {
        check_key(key)?;
        if scalars.len() as u64 != schema.scalar_bytes() {
            return Err(Error::usage(format!(
                "the scalar values of a sample take {} bytes in this schema, but {} bytes were given",
                schema.scalar_bytes(),
                scalars.len()
            )));
        }
        if fields.len() != schema.stored_count() {
            return Err(Error::usage(format!(
                "expected {} stored fields, found {}",
                schema.stored_count(),
                fields.len()
            )));
        }
        let too_large = || {
            Error::usage(
                "the record is too large: it can have at most 65535 fields, a head of 4 GiB and 2^63 bytes in total",
            )
        };
        let mut head = Vec::with_capacity(256);
        for field in fields {
            let (codec, descriptor_bytes, stored, decoded) = match field {
                None => (0, 0, 0, 0),
                Some(f) => {
                    let descriptor_bytes = u32::try_from(f.descriptor.len()).map_err(|_| too_large())?;
                    (f.codec.code(), descriptor_bytes, f.stored_bytes, f.decoded_bytes)
                }
            };
            head.extend([codec, 0, 0, 0]);
            head.extend(descriptor_bytes.to_le_bytes());
            head.extend(stored.to_le_bytes());
            head.extend(decoded.to_le_bytes());
        }
        head.extend(scalars);
        fields.iter().flatten().for_each(|f| head.extend(f.descriptor));
        head.extend(key.as_bytes());
        head.resize(head.len().next_multiple_of(64), 0);

        let head_bytes = FRAME_BYTES + head.len() as u64;
        let mut end = head_bytes;
        let mut ranges = Vec::with_capacity(fields.len());
        for field in fields {
            let Some(field) = field else {
                ranges.push(0..0);
                continue;
            };
            let start = align_up(end).ok_or_else(too_large)?;
            end = start.checked_add(field.stored_bytes).filter(|&e| e < 1 << 63).ok_or_else(too_large)?;
            let range = usize::try_from(start).and_then(|s| usize::try_from(end).map(|e| s..e));
            ranges.push(range.map_err(|_| too_large())?);
        }
        let frame = Frame {
            shard_number,
            sample_id,
            record_bytes: end,
            head_bytes: u32::try_from(head_bytes).map_err(|_| too_large())?,
            body_crc32: 0,
            field_count: u16::try_from(fields.len()).map_err(|_| too_large())?,
            key_bytes: u32::try_from(key.len()).map_err(|_| too_large())?,
            scalar_bytes: u32::try_from(scalars.len()).map_err(|_| too_large())?,
        };
        let padded = usize::try_from(frame.padded_bytes()).map_err(|_| too_large())?;
        let body_bytes = usize::try_from(end - FRAME_BYTES).map_err(|_| too_large())?;
        Ok(Self { head, fields: ranges, frame, body_bytes, padded })
    }
}

/// Builds one record in a single buffer. The builder writes the head, and the caller fills in the field values.
#[derive(Debug)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    fields: Vec<Range<usize>>,
    frame: Frame,
    /// Number of bytes between the frame and the padding.
    body_bytes: usize,
}

impl RecordBuilder {
    /// Clears `buffer`, writes the head to it, and reserves space for the values.
    ///
    /// `scalars` contains the scalar fields, packed little-endian in schema order. `fields` has one entry per stored
    /// field, or `None` if the sample has no value.
    ///
    /// # Errors
    /// `Usage` if the scalars or fields do not match the schema, or if a length overflows; `Format` if the key is not
    /// allowed.
    pub fn new(
        buffer: Vec<u8>,
        schema: &Schema,
        shard_number: u32,
        sample_id: u64,
        key: &str,
        scalars: &[u8],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<Self> {
        let RecordLayout { head, fields, frame, body_bytes, padded } =
            RecordLayout::new(schema, shard_number, sample_id, key, scalars, fields)?;
        let mut bytes = buffer;
        bytes.clear();
        bytes.resize(FRAME_LEN, 0);
        bytes.extend(head);
        bytes.resize(padded, 0);
        Ok(Self { bytes, fields, frame, body_bytes })
    }

    /// Same as [`RecordBuilder::new`], but `buffer` already contains the first stored value, from byte `at` to the end.
    /// This avoids copying a large value: it is moved only if `at` differs from [`RecordBuilder::first_value_at`].
    ///
    /// ```
    /// use shardpack_format::{Field, FieldKind, RecordBuilder, Schema, StoredField};
    /// let schema = Schema::new(vec![Field::stored("text", FieldKind::Text)])?;
    /// let at = RecordBuilder::first_value_at(1, 0, 0, "a".len());
    /// let mut buffer = vec![0; at];
    /// buffer.extend(b"hello");
    /// let fields = [Some(StoredField::raw(5))];
    /// let around = RecordBuilder::around(buffer, at, &schema, 0, 0, "a", &[], &fields)?.finish();
    /// let mut new = RecordBuilder::new(Vec::new(), &schema, 0, 0, "a", &[], &fields)?;
    /// new.field_mut(0).copy_from_slice(b"hello");
    /// assert_eq!(around, new.finish());
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`RecordBuilder::new`]; also `Usage` if the number of bytes after `at` is not the
    /// declared size of the first field.
    #[allow(clippy::too_many_arguments, reason = "the arguments of `new`, and the offset of the value")]
    pub fn around(
        buffer: Vec<u8>,
        at: usize,
        schema: &Schema,
        shard_number: u32,
        sample_id: u64,
        key: &str,
        scalars: &[u8],
        fields: &[Option<StoredField<'_>>],
    ) -> Result<Self> {
        let has_first = matches!(fields.first(), Some(Some(_)));
        let RecordLayout { head, fields, frame, body_bytes, padded } =
            RecordLayout::new(schema, shard_number, sample_id, key, scalars, fields)?;
        let mut bytes = buffer;
        let place = fields.first().cloned().unwrap_or(0..0);
        if !has_first {
            return Err(Error::usage("the buffer contains the first value, but the first field has none"));
        }
        if bytes.len().checked_sub(at) != Some(place.len()) {
            return Err(Error::usage(format!(
                "the buffer must consist of {at} bytes and then the first value ({} bytes), but it is {} bytes long",
                place.len(),
                bytes.len()
            )));
        }
        if at != place.start {
            bytes.resize(bytes.len().max(place.end), 0);
            bytes.copy_within(at..at + place.len(), place.start);
        }
        bytes.truncate(place.end);
        let (head_place, frame_place) = (FRAME_LEN..place.start, 0..FRAME_LEN);
        let frame_bytes = bytes.get_mut(frame_place).unwrap_or_else(|| bug("a record has no room for its frame"));
        frame_bytes.fill(0);
        match bytes.get_mut(head_place) {
            Some(to) if to.len() == head.len() => to.copy_from_slice(&head),
            // The head is a multiple of 64 bytes, and the first value follows it directly.
            _ => bug("the head of a record does not end at its first value"),
        }
        bytes.resize(padded, 0);
        Ok(Self { bytes, fields, frame, body_bytes })
    }

    /// Returns the offset of the first stored value in a record, given the number of stored fields and the sizes in
    /// bytes of the scalars, the descriptors and the key.
    #[must_use]
    pub const fn first_value_at(
        stored_fields: usize,
        scalar_bytes: usize,
        descriptor_bytes: usize,
        key_bytes: usize,
    ) -> usize {
        (FRAME_LEN + FIELD_ENTRY_LEN * stored_fields + scalar_bytes + descriptor_bytes + key_bytes).next_multiple_of(64)
    }

    /// Returns the buffer of stored field `position`: `stored_bytes` zeros to overwrite, or an empty slice if the
    /// sample has no value.
    #[must_use]
    pub fn field_mut(&mut self, position: usize) -> &mut [u8] {
        debug_assert!(position < self.fields.len(), "stored field {position} of {}", self.fields.len());
        let range = self.fields.get(position).cloned().unwrap_or(0..0);
        debug_assert!(range.end <= self.bytes.len(), "the record was laid out in these bytes");
        self.bytes.get_mut(range).unwrap_or_default()
    }

    /// Computes the CRC32, and returns the record, padded to a multiple of 64 bytes, and its frame.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Frame) {
        // Use `split_at`, which panics if the buffer is too short. A silent fallback would store
        // the CRC32 of an empty slice.
        let (place, body) = self.bytes.split_at_mut(FRAME_LEN);
        self.frame.body_crc32 = crc32fast::hash(body.split_at(self.body_bytes).0);
        let mut frame_bytes = Vec::with_capacity(FRAME_LEN);
        self.frame.encode(&mut frame_bytes);
        place.copy_from_slice(&frame_bytes);
        (self.bytes, self.frame)
    }
}

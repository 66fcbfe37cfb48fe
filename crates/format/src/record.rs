//! Parses records: the frame, head and field values of one sample (spec §2.2).

use crate::bytes::{Cursor, align_up};
use crate::codec_id::Codec;
use crate::error::{Error, Result};
use crate::header::check_crc;
use crate::limits::Limits;
use crate::name::{MAX_KEY_BYTES, check_key};
use std::ops::Range;

/// Size of a record's frame in bytes.
pub const FRAME_BYTES: u64 = FRAME_LEN as u64;
pub(crate) const FRAME_LEN: usize = 64;
/// First bytes of a record.
pub const RECORD_MAGIC: [u8; 4] = *b"SREC";
const FIELD_ENTRY_BYTES: u64 = FIELD_ENTRY_LEN as u64;
pub(crate) const FIELD_ENTRY_LEN: usize = 24;
const FRAME_CRC_AT: usize = 60;

/// The first part of a record, with a fixed size. A reader needs only the frame to skip the record, or to recognise it
/// if the index is lost.
///
/// ```
/// use shardpack_format::{Field, FieldKind, Frame, RecordBuilder, Schema, StoredField};
/// let schema = Schema::new(vec![Field::stored("text", FieldKind::Text)])?;
/// let mut record = RecordBuilder::new(Vec::new(), &schema, 0, 5, "a.txt", &[], &[Some(StoredField::raw(2))])?;
/// record.field_mut(0).copy_from_slice(b"hi");
/// let (bytes, frame) = record.finish();
/// assert_eq!(Frame::parse(&bytes)?, frame);
/// assert_eq!((frame.sample_id, bytes.len()), (5, 192));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Shard that the record belongs to.
    pub shard_number: u32,
    /// Number of the sample in source order, before any permutation. Unique within the dataset.
    pub sample_id: u64,
    /// Bytes from the start of the frame to the end of the last field value, without padding.
    pub record_bytes: u64,
    /// Size of the frame and the head in bytes, a multiple of 64. The first field value follows the head.
    pub head_bytes: u32,
    /// CRC32 of everything after the frame: bytes 64 to `record_bytes`.
    pub body_crc32: u32,
    /// Number of entries in the field table, one per stored field of the schema.
    pub field_count: u16,
    /// Length of the sample key in bytes.
    pub key_bytes: u32,
    /// Length of the packed scalars in bytes.
    pub scalar_bytes: u32,
}

impl Frame {
    /// Creates the error for a record whose body does not match its CRC32.
    #[must_use]
    pub fn body_differs(&self, computed: u32) -> Error {
        let found = format!("{computed:#010x} (damaged)");
        Error::format("record CRC32", format!("{:#010x}", self.body_crc32), found)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(RECORD_MAGIC);
        out.extend(self.shard_number.to_le_bytes());
        out.extend(self.sample_id.to_le_bytes());
        out.extend(self.record_bytes.to_le_bytes());
        out.extend(self.head_bytes.to_le_bytes());
        out.extend(self.body_crc32.to_le_bytes());
        out.extend(self.field_count.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.key_bytes.to_le_bytes());
        out.extend(self.scalar_bytes.to_le_bytes());
        out.extend([0; 16]);
        let crc = crc32fast::hash(out.split_at(start).1);
        out.extend(crc.to_le_bytes());
    }

    /// Parses a frame from the first 64 bytes of a record.
    ///
    /// # Errors
    /// `Format` if the magic, CRC or reserved bytes are wrong, or if the lengths contradict each
    /// other.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut cur = Cursor::new(bytes, "record frame");
        let magic: [u8; 4] = cur.array()?;
        if magic != RECORD_MAGIC {
            return Err(Error::format("record magic", RECORD_MAGIC.escape_ascii(), magic.escape_ascii()));
        }
        check_crc("record frame CRC32", bytes, FRAME_CRC_AT)?;
        let shard_number = cur.u32()?;
        let sample_id = cur.u64()?;
        let record_bytes = cur.u64()?;
        let head_bytes = cur.u32()?;
        let body_crc32 = cur.u32()?;
        let field_count = cur.u16()?;
        cur.zeros(2)?;
        let key_bytes = cur.u32()?;
        let scalar_bytes = cur.u32()?;
        cur.zeros(16)?;
        let head = u64::from(head_bytes);
        if head < FRAME_BYTES || head % 64 != 0 || head > record_bytes || align_up(record_bytes).is_none() {
            return Err(Error::malformed(format!(
                "the record is damaged: the size of its head is {head} bytes, but must be a multiple of 64 from 64 to \
                 {record_bytes}"
            )));
        }
        Ok(Self { shard_number, sample_id, record_bytes, head_bytes, body_crc32, field_count, key_bytes, scalar_bytes })
    }

    /// Changes the sample id in this frame and in the record `bytes`. Neither the body nor its CRC32 changes.
    ///
    /// # Errors
    /// `Usage` if `bytes` is shorter than a frame.
    pub fn renumber(&mut self, bytes: &mut [u8], sample_id: u64) -> Result<()> {
        let found = bytes.len();
        let frame = bytes.get_mut(..FRAME_LEN).ok_or_else(|| {
            Error::usage(format!("cannot renumber the record: it has {found} bytes, but needs at least {FRAME_LEN}"))
        })?;
        self.sample_id = sample_id;
        let mut anew = Vec::with_capacity(FRAME_LEN);
        self.encode(&mut anew);
        frame.copy_from_slice(&anew);
        Ok(())
    }

    /// Returns the size of the record in the shard, including padding. If the length in a forged frame would overflow,
    /// the result is larger than any shard.
    #[must_use]
    pub const fn padded_bytes(&self) -> u64 {
        match align_up(self.record_bytes) {
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }
}

/// A stored field value in a parsed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldValue<'a> {
    /// Codec of the bytes.
    pub codec: Codec,
    /// Size of the value after decompression, in bytes.
    pub decoded_bytes: u64,
    /// Media type of an image, or array descriptor of an array. Empty for other kinds.
    pub descriptor: &'a [u8],
    /// The stored bytes.
    pub bytes: &'a [u8],
}

/// Location of a stored field value, read from the record's head ([`Record::places`]).
///
/// ```
/// use shardpack_format::{Field, FieldKind, Record, RecordBuilder, Schema, StoredField};
/// let schema = Schema::new(vec![Field::stored("text", FieldKind::Text)])?;
/// let mut record = RecordBuilder::new(Vec::new(), &schema, 0, 5, "a.txt", &[], &[Some(StoredField::raw(2))])?;
/// record.field_mut(0).copy_from_slice(b"hi");
/// let (bytes, frame) = record.finish();
/// let head = &bytes[..frame.head_bytes as usize];
/// let places = Record::places(&frame, head)?;
/// assert_eq!(places[0].as_ref().map(|place| place.bytes.clone()), Some(128..130));
/// assert!(Record::places(&frame, &head[..64]).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPlace<'a> {
    /// Codec of the bytes.
    pub codec: Codec,
    /// Size of the value after decompression, in bytes.
    pub decoded_bytes: u64,
    /// Media type of an image, or array descriptor of an array. Empty for other kinds.
    pub descriptor: &'a [u8],
    /// Byte range of the stored value, relative to the start of the record.
    pub bytes: Range<u64>,
}

/// A parsed record, which borrows the caller's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// The frame.
    pub frame: Frame,
    /// The sample key.
    pub key: &'a str,
    /// The packed scalars, in schema order.
    pub scalars: &'a [u8],
    /// Values of the stored fields, in schema order. `None` where the sample has no value.
    pub fields: Vec<Option<FieldValue<'a>>>,
}

fn no_field(frame: &Frame, position: usize) -> Error {
    Error::usage(format!("the record has {} stored fields, so there is none at position {position}", frame.field_count))
}

impl<'a> Record<'a> {
    /// Parses a record and checks its frame, CRC32, lengths and padding. `bytes` must start with the frame and have at
    /// least `record_bytes` bytes.
    ///
    /// # Errors
    /// `Format` if the record violates the specification; `Limit` if the record or a field is over the limits.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        let frame = Frame::parse(bytes)?;
        Self::check_body_crc(&frame, bytes)?;
        Self::parse_trusted(frame, bytes, limits)
    }

    /// Same as [`Record::parse`], but takes a parsed frame and does not check the CRC32 of the body. Callers have
    /// already checked the CRC32, or skip the check.
    ///
    /// # Errors
    /// Same as [`Record::parse`].
    pub fn parse_trusted(frame: Frame, bytes: &'a [u8], limits: &Limits) -> Result<Self> {
        if frame.record_bytes > limits.max_record_bytes {
            return Err(Error::limit("record", "max_record_bytes", limits.max_record_bytes, frame.record_bytes));
        }
        let mut cur = Cursor::new(bytes, "record");
        cur.take(FRAME_BYTES)?;
        // Read the entries first: each length is compared with the available bytes before memory is allocated for it.
        let table = cur.take(u64::from(frame.field_count) * FIELD_ENTRY_BYTES)?;
        let scalars = cur.take(u64::from(frame.scalar_bytes))?;
        let mut fields = Vec::with_capacity(usize::from(frame.field_count));
        let mut entries = Cursor::new(table, "field table");
        for _ in 0..frame.field_count {
            fields.push(Entry::parse(&mut entries)?);
        }
        let mut values = Vec::with_capacity(fields.len());
        for entry in &fields {
            let descriptor = cur.take(entry.as_ref().map_or(0, |e| u64::from(e.descriptor_bytes)))?;
            values.push(entry.as_ref().map(|e| FieldValue {
                codec: e.codec,
                decoded_bytes: e.decoded_bytes,
                descriptor,
                bytes: &[],
            }));
        }
        let key_at = cur.pos();
        if u64::from(frame.key_bytes) > MAX_KEY_BYTES {
            return Err(Error::format(
                "size of the sample key in bytes",
                format!("at most {MAX_KEY_BYTES}"),
                frame.key_bytes,
            )
            .at(36));
        }
        let key = std::str::from_utf8(cur.take(u64::from(frame.key_bytes))?)
            .map_err(|e| Error::malformed(format!("the sample key is not valid UTF-8: {e}")).at(key_at))?;
        check_key(key).map_err(|e| e.at(key_at))?;
        cur.pad()?;
        if cur.pos() != u64::from(frame.head_bytes) {
            let (found, declared) = (cur.pos(), frame.head_bytes);
            let text = format!("the record is damaged: the size of its head is {declared} bytes, but must be {found}");
            return Err(Error::malformed(text).at(24));
        }
        for (entry, value) in fields.iter().zip(&mut values) {
            // `value` was made from `entry`: both are `None` if the sample has no value.
            let (Some(entry), Some(value)) = (entry, value) else { continue };
            if entry.decoded_bytes > limits.max_decoded_bytes {
                let limit = limits.max_decoded_bytes;
                return Err(Error::limit("decoded field", "max_decoded_bytes", limit, entry.decoded_bytes));
            }
            cur.pad()?;
            value.bytes = cur.take(entry.stored_bytes)?;
        }
        if cur.pos() != frame.record_bytes {
            return Err(Error::format("size of the record in bytes", cur.pos(), frame.record_bytes).at(16));
        }
        Ok(Self { frame, key, scalars, fields: values })
    }

    /// Returns one stored field, or `None` if the sample has no value. The caller must have parsed the frame and
    /// checked the CRC32. Allocates nothing and reads nothing after the field, because some loaders need only one or
    /// two fields of millions of records.
    ///
    /// # Errors
    /// `Format` if the record is too short for its fields, or if an entry is invalid; `Limit` if the field decodes to
    /// more than `limits.max_decoded_bytes`; `Usage` if there is no field at this position.
    pub fn field_at(
        frame: &Frame,
        bytes: &'a [u8],
        position: usize,
        limits: &Limits,
    ) -> Result<Option<FieldValue<'a>>> {
        let mut head = Cursor::new(bytes, "record");
        head.take(FRAME_BYTES)?;
        let mut entries = Cursor::new(head.take(u64::from(frame.field_count) * FIELD_ENTRY_BYTES)?, "field table");
        head.take(u64::from(frame.scalar_bytes))?;
        let mut values = Cursor::new(bytes, "record");
        values.take(u64::from(frame.head_bytes))?;
        for i in 0..usize::from(frame.field_count) {
            let entry = Entry::parse(&mut entries)?;
            let value = match entry {
                None => None,
                Some(entry) => {
                    let descriptor = head.take(u64::from(entry.descriptor_bytes))?;
                    values.pad()?;
                    let bytes = values.take(entry.stored_bytes)?;
                    Some(FieldValue { codec: entry.codec, decoded_bytes: entry.decoded_bytes, descriptor, bytes })
                }
            };
            if i < position {
                continue;
            }
            return match value {
                Some(value) if value.decoded_bytes > limits.max_decoded_bytes => {
                    let limit = limits.max_decoded_bytes;
                    Err(Error::limit("decoded field", "max_decoded_bytes", limit, value.decoded_bytes))
                }
                value => Ok(value),
            };
        }
        Err(no_field(frame, position))
    }

    /// Returns the descriptor of one stored field, or `None` if the sample has no value. Needs only the first
    /// [`Frame::head_bytes`] bytes of a record, so a reader can find shapes and types without reading arrays. Does not
    /// check the CRC32 of the body.
    ///
    /// # Errors
    /// `Format` if the head is too short for its fields, or if an entry is invalid; `Usage` if there is no field at
    /// this position.
    pub fn descriptor_at(frame: &Frame, head: &'a [u8], position: usize) -> Result<Option<&'a [u8]>> {
        let mut head = Cursor::new(head, "record");
        head.take(FRAME_BYTES)?;
        let mut entries = Cursor::new(head.take(u64::from(frame.field_count) * FIELD_ENTRY_BYTES)?, "field table");
        head.take(u64::from(frame.scalar_bytes))?;
        for i in 0..usize::from(frame.field_count) {
            let entry = Entry::parse(&mut entries)?;
            let descriptor = head.take(entry.as_ref().map_or(0, |entry| u64::from(entry.descriptor_bytes)))?;
            if i == position {
                return Ok(entry.is_some().then_some(descriptor));
            }
        }
        Err(no_field(frame, position))
    }

    /// Returns the locations of the stored fields in schema order, or `None` where the sample has no value. Needs
    /// only the first [`Frame::head_bytes`] bytes of a record. Does not check the CRC32 of the body. A reader that
    /// fetches the values separately must check it at the end.
    ///
    /// # Errors
    /// `Format` if the head is too short for its fields, if an entry is invalid, or if the values do not end with the
    /// record.
    pub fn places(frame: &Frame, head: &'a [u8]) -> Result<Vec<Option<FieldPlace<'a>>>> {
        let mut head = Cursor::new(head, "record");
        head.take(FRAME_BYTES)?;
        let mut entries = Cursor::new(head.take(u64::from(frame.field_count) * FIELD_ENTRY_BYTES)?, "field table");
        head.take(u64::from(frame.scalar_bytes))?;
        let mut places = Vec::with_capacity(usize::from(frame.field_count));
        let mut end = u64::from(frame.head_bytes);
        for _ in 0..frame.field_count {
            let Some(Entry { codec, descriptor_bytes, stored_bytes, decoded_bytes }) = Entry::parse(&mut entries)?
            else {
                places.push(None);
                continue;
            };
            let descriptor = head.take(u64::from(descriptor_bytes))?;
            let bytes = align_up(end).and_then(|start| Some(start..start.checked_add(stored_bytes)?));
            let bytes = bytes.filter(|bytes| bytes.end <= frame.record_bytes).ok_or_else(|| {
                Error::malformed(format!(
                    "the record of {} bytes is damaged: a field value of {stored_bytes} bytes extends past its end",
                    frame.record_bytes
                ))
            })?;
            end = bytes.end;
            places.push(Some(FieldPlace { codec, decoded_bytes, descriptor, bytes }));
        }
        if end != frame.record_bytes {
            return Err(Error::format("size of the record in bytes", end, frame.record_bytes).at(16));
        }
        Ok(places)
    }

    /// Checks the body against the CRC32 in the frame.
    ///
    /// # Errors
    /// `Format` if they differ, or if `bytes` is too short.
    pub fn check_body_crc(frame: &Frame, bytes: &[u8]) -> Result<()> {
        let mut cur = Cursor::new(bytes, "record");
        cur.take(FRAME_BYTES)?;
        let body = cur.take(frame.record_bytes.saturating_sub(FRAME_BYTES))?;
        let computed = crc32fast::hash(body);
        if computed == frame.body_crc32 {
            return Ok(());
        }
        Err(frame.body_differs(computed).in_sample_if_known(frame, bytes))
    }
}

impl Error {
    /// Adds the sample key of a damaged record to the error, if the key can still be read. The key may be damaged too.
    fn in_sample_if_known(self, frame: &Frame, bytes: &[u8]) -> Self {
        let limits = Limits::none();
        match Record::parse_trusted(*frame, bytes, &limits) {
            Ok(record) => self.in_sample(record.key),
            Err(_) => self,
        }
    }
}

struct Entry {
    codec: Codec,
    descriptor_bytes: u32,
    stored_bytes: u64,
    decoded_bytes: u64,
}

impl Entry {
    fn parse(cur: &mut Cursor<'_>) -> Result<Option<Self>> {
        let code = cur.u8()?;
        cur.zeros(3)?;
        let descriptor_bytes = cur.u32()?;
        let stored_bytes = cur.u64()?;
        let decoded_bytes = cur.u64()?;
        if code == 0 {
            if (descriptor_bytes, stored_bytes, decoded_bytes) != (0, 0, 0) {
                return Err(Error::malformed(format!(
                    "the record is damaged: a missing field has a descriptor of {descriptor_bytes} bytes, \
                     {stored_bytes} stored bytes and {decoded_bytes} decoded bytes"
                )));
            }
            return Ok(None);
        }
        let codec = Codec::from_code(code)?;
        if matches!(codec, Codec::Raw | Codec::Jpeg) && stored_bytes != decoded_bytes {
            return Err(Error::format(
                format!("decoded size of a {codec} value in bytes"),
                stored_bytes,
                decoded_bytes,
            ));
        }
        Ok(Some(Self { codec, descriptor_bytes, stored_bytes, decoded_bytes }))
    }
}

//! Builds and parses the index, a table with one row per record. It is stored column by column between the records and
//! the footer (spec §2.3).

use crate::bytes::{Cursor, align_up, pad_to_alignment};
use crate::dtype::Dtype;
use crate::error::{Error, Result, bug};
use crate::footer::Footer;
use crate::header::HEADER_BYTES;
use crate::limits::Limits;
use crate::name::check_key;
use crate::number::to_usize;
use crate::record::{FRAME_BYTES, Frame};
use crate::schema::{Metadata, SharedMetadata};
use std::ops::Range;

const INDEX_MAGIC: [u8; 8] = *b"SHRDINDX";

/// Collects the rows of a shard's index in record order.
///
/// ```
/// use shardpack_format::{Field, FieldKind, IndexBuilder, Metadata, RecordBuilder, Schema, StoredField};
/// let schema = Schema::new(vec![Field::stored("text", FieldKind::Text)])?;
/// let record = RecordBuilder::new(Vec::new(), &schema, 0, 5, "a.txt", &[], &[Some(StoredField::raw(2))])?;
/// let mut index = IndexBuilder::new(&schema);
/// index.push(&record.finish().1, "a.txt", &[])?;
/// assert_eq!(index.index_offset(), 64 + 192);
/// let metadata = Metadata { schema, ..Default::default() };
/// assert!(index.encode(&metadata.encode()?)?.len() % 64 == 0);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct IndexBuilder {
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    crcs: Vec<u32>,
    sample_ids: Vec<u64>,
    scalars: Vec<(Dtype, Vec<u8>)>,
    key_ends: Vec<u64>,
    keys: Vec<u8>,
    next_offset: u64,
}

impl IndexBuilder {
    /// Creates an empty index for records with this schema.
    #[must_use]
    pub fn new(schema: &crate::Schema) -> Self {
        Self {
            offsets: Vec::new(),
            lengths: Vec::new(),
            crcs: Vec::new(),
            sample_ids: Vec::new(),
            scalars: schema.scalars().map(|(_, dtype)| (dtype, Vec::new())).collect(),
            key_ends: Vec::new(),
            keys: Vec::new(),
            next_offset: HEADER_BYTES,
        }
    }

    /// Adds the next record and returns its offset in the shard.
    ///
    /// # Errors
    /// `Usage` if `scalars` do not fit the schema, or if the shard grows past 2⁶³ bytes.
    pub fn push(&mut self, frame: &Frame, key: &str, scalars: &[u8]) -> Result<u64> {
        let expected: usize = self.scalars.iter().map(|(dtype, _)| dtype.size()).sum();
        if scalars.len() != expected {
            return Err(Error::usage(format!(
                "the scalar values of a sample take {expected} bytes in this schema, but {} bytes were given",
                scalars.len()
            )));
        }
        let offset = self.next_offset;
        let end = offset.checked_add(frame.padded_bytes()).filter(|&e| e < 1 << 63);
        self.next_offset =
            end.ok_or_else(|| Error::usage("the shard would exceed 2^63 bytes: split it into several shards"))?;
        let mut rest = scalars;
        for (dtype, column) in &mut self.scalars {
            let (value, tail) = rest
                .split_at_checked(dtype.size())
                .unwrap_or_else(|| bug("a sample has fewer scalar values than its schema"));
            column.extend(value);
            rest = tail;
        }
        self.offsets.push(offset);
        self.lengths.push(frame.record_bytes);
        self.crcs.push(frame.body_crc32);
        self.sample_ids.push(frame.sample_id);
        self.keys.extend(key.as_bytes());
        self.key_ends.push(self.keys.len() as u64);
        Ok(offset)
    }

    /// Returns the number of records added so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Returns true if there are no records yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns the offset of the next record. If no record follows, this is the offset of the index.
    #[must_use]
    pub const fn index_offset(&self) -> u64 {
        self.next_offset
    }

    /// Returns an upper bound on the size in bytes of an index without its metadata, given the number of records and
    /// the total length of their keys.
    ///
    /// ```
    /// use shardpack_format::{IndexBuilder, Schema};
    /// assert!(IndexBuilder::bytes_for(&Schema::default(), 1_000_000, 20_000_000) < 60_000_000);
    /// ```
    #[must_use]
    pub fn bytes_for(schema: &crate::Schema, records: u64, key_bytes: u64) -> u64 {
        // The head, the metadata, the keys and each column are padded to 64 bytes. The five fixed columns are offset,
        // length, CRC32, sample id and key end.
        let columns = 5 + schema.scalars().count() as u64;
        let row = 8 + 8 + 4 + 8 + 8 + schema.scalar_bytes();
        records.saturating_mul(row).saturating_add(key_bytes).saturating_add(64 * (columns + 3))
    }

    /// Encodes the index, whose size is a multiple of 64 bytes. `metadata` is an encoded [`Metadata`].
    ///
    /// # Errors
    /// `Usage` if there are 2³² scalar fields or more.
    pub fn encode(&self, metadata: &[u8]) -> Result<Vec<u8>> {
        let scalar_count = u32::try_from(self.scalars.len()).map_err(|_| {
            Error::usage(format!("a dataset must have fewer than 2^32 scalar fields, but has {}", self.scalars.len()))
        })?;
        let mut out = Vec::new();
        out.extend(INDEX_MAGIC);
        out.extend(self.len().to_le_bytes());
        out.extend((metadata.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        out.extend(scalar_count.to_le_bytes());
        pad_to_alignment(&mut out);
        let u64s = |column: &[u64]| column.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut section = |bytes: &[u8]| {
            out.extend(bytes);
            pad_to_alignment(&mut out);
        };
        section(metadata);
        section(&u64s(&self.offsets));
        section(&u64s(&self.lengths));
        section(&self.crcs.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>());
        section(&u64s(&self.sample_ids));
        self.scalars.iter().for_each(|(_, column)| section(column));
        section(&u64s(&self.key_ends));
        section(&self.keys);
        Ok(out)
    }
}

/// One row of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Offset of the record in the shard.
    pub offset: u64,
    /// Size of the record without padding.
    pub length: u64,
    /// CRC32 of the record's body.
    pub crc32: u32,
    /// Number of the sample in source order.
    pub sample_id: u64,
}

/// A parsed index. It owns its bytes, and reads values directly from them.
#[derive(Debug, Clone)]
pub struct Index {
    /// Columns and keys. The metadata, which precedes them in the file, is not included.
    bytes: Vec<u8>,
    metadata: SharedMetadata,
    records: u64,
    offsets: Range<usize>,
    lengths: Range<usize>,
    crcs: Range<usize>,
    sample_ids: Range<usize>,
    scalars: Vec<Range<usize>>,
    key_ends: Range<usize>,
    keys: Range<usize>,
}

impl Index {
    /// Parses and takes ownership of the bytes between the records and the footer.
    ///
    /// # Errors
    /// `Format` if the CRC, counts, lengths, padding, metadata or keys are wrong, or if the records leave gaps,
    /// overlap, or do not end where the index begins; `Limit` if the schema is over the limits.
    pub fn parse(bytes: Vec<u8>, footer: &Footer, limits: &Limits) -> Result<Self> {
        Self::parse_sharing(bytes, footer, limits, None)
    }

    /// Same as [`Index::parse`], but shares the metadata of an earlier shard if the bytes are
    /// equal.
    ///
    /// # Errors
    /// Same as [`Index::parse`].
    pub fn parse_sharing(
        bytes: Vec<u8>,
        footer: &Footer,
        limits: &Limits,
        known: Option<&SharedMetadata>,
    ) -> Result<Self> {
        let base = footer.index_offset;
        Self::parse_inner(bytes, footer, limits, known).map_err(|e| e.at(base))
    }

    fn parse_inner(
        mut bytes: Vec<u8>,
        footer: &Footer,
        limits: &Limits,
        known: Option<&SharedMetadata>,
    ) -> Result<Self> {
        if bytes.len() as u64 != footer.index_bytes {
            return Err(Error::format("size of the index in bytes", footer.index_bytes, bytes.len()));
        }
        let computed = crc32fast::hash(&bytes);
        if computed != footer.index_crc32 {
            let found = format!("{computed:#010x} (damaged)");
            return Err(Error::format("index CRC32", format!("{:#010x}", footer.index_crc32), found));
        }
        let mut cur = Cursor::new(&bytes, "index");
        let magic: [u8; 8] = cur.array()?;
        if magic != INDEX_MAGIC {
            return Err(Error::format("index magic", INDEX_MAGIC.escape_ascii(), magic.escape_ascii()));
        }
        let records = cur.u64()?;
        if records != footer.record_count {
            return Err(Error::format("record count in the index", footer.record_count, records));
        }
        let metadata_bytes = cur.u64()?;
        let keys_bytes = cur.u64()?;
        let scalar_count = cur.u32()?;
        cur.pad()?;
        if metadata_bytes > limits.max_manifest_bytes {
            let limit = limits.max_manifest_bytes;
            return Err(Error::limit("shard metadata", "max_manifest_bytes", limit, metadata_bytes));
        }
        let metadata = SharedMetadata::parse(cur.take(metadata_bytes)?, known, limits)?;
        cur.pad()?;
        let columns_at = cur.pos();
        let types: Vec<Dtype> = metadata.metadata().schema.scalars().map(|(_, dtype)| dtype).collect();
        if types.len() as u64 != u64::from(scalar_count) {
            return Err(Error::format("scalar count in the index", types.len(), scalar_count));
        }
        let section = |cur: &mut Cursor<'_>, item_bytes: u64| -> Result<Range<usize>> {
            let overflow =
                || Error::malformed(format!("the index is damaged: {records} records would need more than 2^64 bytes"));
            let start = cur.pos() - columns_at;
            let len = records.checked_mul(item_bytes).ok_or_else(overflow)?;
            cur.take(len)?;
            cur.pad()?;
            let range = usize::try_from(start).and_then(|s| usize::try_from(start + len).map(|e| s..e));
            range.map_err(|_| overflow())
        };
        let offsets = section(&mut cur, 8)?;
        let lengths = section(&mut cur, 8)?;
        let crcs = section(&mut cur, 4)?;
        let sample_ids = section(&mut cur, 8)?;
        let scalars = types.iter().map(|d| section(&mut cur, d.bytes())).collect::<Result<Vec<_>>>()?;
        let key_ends = section(&mut cur, 8)?;
        let keys_start = to_usize(cur.pos() - columns_at);
        let keys = keys_start..keys_start + cur.take(keys_bytes)?.len();
        cur.pad()?;
        cur.finish()?;
        let columns_at = to_usize(columns_at);
        bytes.drain(..columns_at);
        bytes.shrink_to_fit();
        let index = Self { metadata, records, offsets, lengths, crcs, sample_ids, scalars, key_ends, keys, bytes };
        index.check_rows(footer)?;
        index.check_booleans()?;
        Ok(index)
    }

    fn check_rows(&self, footer: &Footer) -> Result<()> {
        let mut expected = HEADER_BYTES;
        let mut key_end = 0;
        for i in 0..self.records {
            let row = self.row(i).unwrap_or_else(|| bug("the index has no row for a record"));
            if row.offset != expected || row.length < FRAME_BYTES {
                let found = format!("{} bytes at offset {}", row.length, row.offset);
                return Err(Error::format("record range", format!("at least 64 bytes at offset {expected}"), found)
                    .in_record(i));
            }
            let end = row.offset.checked_add(row.length).and_then(align_up).filter(|&end| end <= footer.index_offset);
            expected = end.ok_or_else(|| {
                let expected = format!("at most {} (the start of the index)", footer.index_offset);
                let end = u128::from(row.offset) + u128::from(row.length);
                Error::format("end of the record range", expected, end).in_record(i)
            })?;
            let next_end = self.u64_at(&self.key_ends, i);
            let next_end = next_end.unwrap_or_else(|| bug("the index has no key for a record"));
            if next_end < key_end || next_end > self.keys.len() as u64 {
                let expected = format!("{key_end} to {}", self.keys.len());
                return Err(Error::format("end of the sample key in the index", expected, next_end).in_record(i));
            }
            key_end = next_end;
            let key = self.key_bytes(i).map(std::str::from_utf8);
            match key {
                Some(Ok(key)) => check_key(key).map_err(|e| e.in_record(i))?,
                _ => return Err(Error::malformed("the sample key is not valid UTF-8").in_record(i)),
            }
        }
        if expected != footer.index_offset {
            return Err(Error::format("end of the last record", footer.index_offset, expected));
        }
        if key_end != self.keys.len() as u64 {
            return Err(Error::format("total size of the sample keys in bytes", self.keys.len(), key_end));
        }
        Ok(())
    }

    fn check_booleans(&self) -> Result<()> {
        for (position, (name, dtype)) in self.metadata().schema.scalars().enumerate() {
            if dtype != Dtype::Bool {
                continue;
            }
            let column = self.column(position).unwrap_or_else(|| bug("the index has no column for a scalar field"));
            if let Some((i, byte)) = column.iter().enumerate().find(|(_, byte)| **byte > 1) {
                return Err(Error::format(format!("bool scalar {name:?}"), "0 or 1", byte).in_record(i as u64));
            }
        }
        Ok(())
    }

    /// Returns the number of records.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.records
    }

    /// True if the shard has no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the shard's metadata: schema, classes and recipe.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.metadata.metadata()
    }

    /// Returns the shard's metadata in a form that other indexes can share.
    #[must_use]
    pub const fn shared_metadata(&self) -> &SharedMetadata {
        &self.metadata
    }

    /// Returns the memory that the index takes up, in bytes, not counting its metadata.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Returns the row of record `i`, or `None` past the end.
    #[must_use]
    pub fn row(&self, i: u64) -> Option<Row> {
        Some(Row {
            offset: self.u64_at(&self.offsets, i)?,
            length: self.u64_at(&self.lengths, i)?,
            crc32: u32::from_le_bytes(self.item(&self.crcs, i)?),
            sample_id: self.u64_at(&self.sample_ids, i)?,
        })
    }

    /// Returns the key of record `i`, or `None` past the end.
    #[must_use]
    pub fn key(&self, i: u64) -> Option<&str> {
        // `parse` has checked that the key is UTF-8.
        self.key_bytes(i).and_then(|k| std::str::from_utf8(k).ok())
    }

    /// Returns the column of scalar field `position`, as `len()` packed little-endian elements.
    #[must_use]
    pub fn column(&self, position: usize) -> Option<&[u8]> {
        self.bytes.get(self.scalars.get(position)?.clone())
    }

    /// Returns the bytes of scalar field `position` in row `i`.
    #[must_use]
    pub fn scalar(&self, i: u64, position: usize) -> Option<&[u8]> {
        let column = self.column(position)?;
        // `parse` has checked that the column has one element per row.
        let bytes = column.len().checked_div(usize::try_from(self.len()).ok()?)?;
        let start = usize::try_from(i).ok()?.checked_mul(bytes)?;
        column.get(start..start.checked_add(bytes)?)
    }

    /// True if a record's packed scalars equal the scalars of row `i`.
    #[must_use]
    pub fn scalars_match(&self, i: u64, packed: &[u8]) -> bool {
        let schema = &self.metadata().schema;
        let mut ranges = schema.scalar_ranges().enumerate();
        packed.len() as u64 == schema.scalar_bytes()
            && ranges.all(|(position, (.., range))| self.scalar(i, position) == packed.get(range))
    }

    fn key_bytes(&self, i: u64) -> Option<&[u8]> {
        let start = if i == 0 { 0 } else { self.u64_at(&self.key_ends, i - 1)? };
        let end = self.u64_at(&self.key_ends, i)?;
        let keys = self.bytes.get(self.keys.clone())?;
        keys.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    fn u64_at(&self, column: &Range<usize>, i: u64) -> Option<u64> {
        self.item(column, i).map(u64::from_le_bytes)
    }

    fn item<const N: usize>(&self, column: &Range<usize>, i: u64) -> Option<[u8; N]> {
        let column = self.bytes.get(column.clone())?;
        let start = usize::try_from(i).ok()?.checked_mul(N)?;
        column.get(start..)?.first_chunk().copied()
    }
}

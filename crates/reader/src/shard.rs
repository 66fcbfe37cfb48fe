//! Opens a shard, and reads and checks its records.

use crate::anatomy::Anatomy;
use crate::check::{Crc, ExpectedRecord, check_record};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::handles::ShardFile;
use crate::scratch::{STEP_BYTES, room};
use crate::union_columns::{StoredPlace, UnionColumn, UnionColumns};
use shardpack_format::{
    Error as FormatError, FRAME_BYTES, Footer, Identity, Index, Limits, Record, Row, SEGMENT_INDEXES, Schema,
    SharedMetadata, align_up, bug, to_usize,
};
use shardpack_io::open_regular;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Options for opening a shard.
///
/// ```
/// use shardpack_reader::ShardOptions;
/// assert!(ShardOptions::default().check_crc);
/// ```
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// Limits on sizes in the file.
    pub limits: Limits,
    /// Check the CRC32 of each record before returning it. Default: true. Header, footer, index and frames are
    /// always checked.
    pub check_crc: bool,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self { limits: Limits::default(), check_crc: true }
    }
}

/// An open shard, with its index in memory and its records on disk.
///
/// Opening a shard takes two reads: the 64-byte header and the last 64 KiB. A third read is needed if the index
/// does not fit into these 64 KiB.
#[derive(Debug)]
pub struct Shard {
    file: ShardFile,
    footer: Footer,
    index: Arc<Index>,
    options: ShardOptions,
    /// The columns files of the shard, in the order of the additions.
    columns_files: Arc<[Shard]>,
    /// Columns for the concatenation that the shard belongs to, or columns of the shard and its columns files. `None`
    /// if the shard's own columns need no conversion.
    union: Option<UnionColumns>,
}

impl Shard {
    /// Opens the shard at `path`.
    ///
    /// # Errors
    /// `Io` if it cannot be read, `Usage` if it is not a regular file, `Format` if the header, footer or
    /// index violates the specification, `Limit` if one of them exceeds the limits.
    pub fn open(path: impl AsRef<Path>, options: ShardOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::from_file(ShardFile::open(path.into(), open_regular(path)?), options, None)
    }

    /// Opens a shard. If the metadata equals `known`, the metadata of another shard, both shards share it in memory.
    pub(crate) fn from_file(file: ShardFile, options: ShardOptions, known: Option<&SharedMetadata>) -> Result<Self> {
        let anatomy = Anatomy::read(&file, &options.limits, known)?;
        let parts = |anatomy: Anatomy| {
            // Report an error in the header first, because it shows whether the file is a shard at all.
            let header = anatomy.header?;
            let footer = anatomy.footer?;
            footer.check_header(&header)?;
            let index = anatomy.index.unwrap_or_else(|| bug("a shard with a footer has no index"))?;
            Ok((footer, index))
        };
        let (footer, index) = parts(anatomy).map_err(|e: FormatError| e.in_file(file.path().to_string_lossy()))?;
        Ok(Self::from_parts(file, footer, index, options))
    }

    /// Creates a shard without checking its header, because `verify` continues even if the header is damaged.
    pub(crate) fn from_parts(file: ShardFile, footer: Footer, index: Index, options: ShardOptions) -> Self {
        Self { file, footer, index: Arc::new(index), options, columns_files: Arc::default(), union: None }
    }

    pub(crate) fn part_of(&self, union: UnionColumns) -> Self {
        let (file, footer, options) = (self.file.clone(), self.footer, self.options.clone());
        let columns_files = Arc::clone(&self.columns_files);
        Self { file, footer, index: Arc::clone(&self.index), options, columns_files, union: Some(union) }
    }

    /// Adds the columns files, with the columns of all these files.
    pub(crate) fn with_files(self, columns_files: Arc<[Self]>, union: UnionColumns) -> Self {
        Self { columns_files, union: Some(union), ..self }
    }

    /// Returns the columns files of this shard: shards with the same samples, but only with the fields that were added
    /// later (spec §3.6). They are in the order of the additions.
    #[must_use]
    pub fn columns_files(&self) -> &[Self] {
        &self.columns_files
    }

    /// Returns the fields of the dataset, with the added ones. For a concatenation, these are the fields of all its
    /// datasets. The records and the index have only the fields of [`Index::metadata`].
    #[must_use]
    pub fn schema(&self) -> &Schema {
        self.union.as_ref().map_or_else(|| &self.index.metadata().schema, |union| &union.schema)
    }

    /// Converts the position of a stored field in [`Shard::schema`] to its position in the records. Returns
    /// `None` if the records lack the field. A columns file may have it: see [`Shard::added_at`].
    #[must_use]
    pub fn stored_at(&self, position: usize) -> Option<usize> {
        self.stored_place(position).filter(|place| place.file.is_none()).map(|place| place.position)
    }

    /// Returns the columns file with a stored field, as its number in [`Shard::columns_files`], and the position of
    /// the field in the records of that file. Returns `None` if no columns file has the field. `position` is the
    /// position of the field in [`Shard::schema`].
    #[must_use]
    pub fn added_at(&self, position: usize) -> Option<(usize, usize)> {
        let place = self.stored_place(position)?;
        Some((place.file?, place.position))
    }

    /// Returns the file with a stored field (this shard, or one of its columns files) and the position of the field in
    /// the records of that file. Returns `None` if the samples have no values for the field. Records have the same
    /// numbers in all files. `position` is the position of the field in [`Shard::schema`].
    #[must_use]
    pub fn file_of(&self, position: usize) -> Option<(&Self, usize)> {
        let place = self.stored_place(position)?;
        Some((place.file.map_or(Some(self), |file| self.columns_files.get(file))?, place.position))
    }

    pub(crate) fn stored_place(&self, position: usize) -> Option<StoredPlace> {
        match &self.union {
            Some(union) => union.stored.get(position).copied().flatten(),
            None => Some(StoredPlace { file: None, position }),
        }
    }

    /// Returns the position in the records of a picture field's segment indexes (spec §5.5), or `None` if there
    /// are none. `position` is the picture's position among the stored fields of [`Shard::schema`].
    #[must_use]
    pub fn segments_at(&self, position: usize) -> Option<usize> {
        // Without the feature bit, a field of this name belongs to the user.
        let has_indexes = self.identity().optional_features & SEGMENT_INDEXES != 0;
        let picture = self.stored_at(position).filter(|_| has_indexes)?;
        self.index.metadata().schema.segments_position(picture)
    }

    /// Returns true if the samples of this shard have values for scalar field `position` of [`Shard::schema`].
    #[must_use]
    pub fn has_scalar(&self, position: usize) -> bool {
        self.values(position).is_some_and(|values| !matches!(values, UnionColumn::Absent(_)))
    }

    /// Returns the packed column of scalar field `position` of [`Shard::schema`]. Missing values are −1, NaN,
    /// false, or the maximum of an unsigned type.
    #[must_use]
    pub fn column_bytes(&self, position: usize) -> Option<&[u8]> {
        match &self.union {
            None => self.index.column(position),
            Some(union) => match union.columns.get(position)? {
                UnionColumn::Own(position) => self.index.column(*position),
                UnionColumn::Added { file, position } => self.columns_files.get(*file)?.index.column(*position),
                UnionColumn::Changed(bytes) | UnionColumn::Absent(bytes) => Some(bytes),
            },
        }
    }

    pub(crate) fn values(&self, position: usize) -> Option<UnionColumn> {
        match &self.union {
            None => self.index.column(position).map(|_| UnionColumn::Own(position)),
            Some(union) => union.columns.get(position).cloned(),
        }
    }

    /// Returns the path of the shard's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the size of the shard's file in bytes.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.file.len()
    }

    /// Returns the shard's format version, dataset and number.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.footer.identity
    }

    /// Returns the footer, with the offset and the size of the index.
    #[must_use]
    pub const fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the CRC32 of the footer, which the manifest also contains.
    #[must_use]
    pub fn footer_crc32(&self) -> u32 {
        self.footer.crc32()
    }

    /// Returns the index, with its rows, keys, scalar columns, schema and recipe.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the options that the shard was opened with.
    #[must_use]
    pub const fn options(&self) -> &ShardOptions {
        &self.options
    }

    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Returns true if the shard has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns all values of a scalar field without reading any records, or `None` if there is no scalar field
    /// of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Column> {
        let (position, dtype) = self.schema().scalar_position(name)?;
        Some(Column::new(dtype, self.column_bytes(position)?.to_vec()))
    }

    /// Returns the row of a record in the index.
    ///
    /// # Errors
    /// `Usage` past the end.
    pub fn row(&self, record: u64) -> Result<Row> {
        self.index.row(record).ok_or_else(|| {
            let records = self.len();
            Error::usage(format!("there is no record {record}: the shard has {records} records, numbered from 0"))
        })
    }

    /// Reads record `record` into the start of `buffer`, which grows if needed, then checks and parses it.
    ///
    /// # Errors
    /// `Usage` past the end, `Io` if it cannot be read, `Format` if it is damaged or disagrees with the index,
    /// `Limit` if it is too large.
    ///
    /// ```no_run
    /// use shardpack_reader::{Shard, ShardOptions};
    /// let shard = Shard::open("train/shard-00000.shard", ShardOptions::default())?;
    /// let mut buffer = Vec::new();
    /// assert_eq!(shard.record(0, &mut buffer)?.key, shard.index().key(0).unwrap_or_default());
    /// # Ok::<(), shardpack_reader::Error>(())
    /// ```
    pub fn record<'b>(&self, record: u64, buffer: &'b mut Vec<u8>) -> Result<Record<'b>> {
        let (bytes, crc) = self.read_with_crc(record, buffer)?;
        Ok(self.check(record, bytes, crc)?)
    }

    /// Reads a record, including padding. Also returns [`Crc::Known`] for a large record, whose CRC32 is computed
    /// during the read.
    pub(crate) fn read_with_crc<'b>(&self, record: u64, buffer: &'b mut Vec<u8>) -> Result<(&'b [u8], Crc)> {
        let (bytes, start) = self.record_room(record, buffer)?;
        let crc = match self.crc() {
            Crc::Compute if bytes.len() > STEP_BYTES => self.read_hashing(record, bytes)?,
            crc => {
                self.file.read_exact_at(bytes, start)?;
                crc
            }
        };
        Ok((bytes, crc))
    }

    /// Reads a record, including padding, in steps. Each step updates the CRC32 of the body while the new bytes
    /// are in the CPU cache.
    pub(crate) fn read_hashing(&self, record: u64, bytes: &mut [u8]) -> Result<Crc> {
        let row = self.row(record)?;
        let length = to_usize(row.length);
        let mut crc = crc32fast::Hasher::new();
        let mut at = 0;
        for step in bytes.chunks_mut(STEP_BYTES) {
            self.file.read_exact_at(step, row.offset.saturating_add(at as u64))?;
            let start = to_usize(FRAME_BYTES).saturating_sub(at).min(step.len());
            let end = length.saturating_sub(at).min(step.len());
            crc.update(step.get(start..end).unwrap_or_else(|| bug("a row that is no shorter than a frame")));
            at += step.len();
        }
        Ok(Crc::Known(crc.finalize()))
    }

    /// Returns [`Crc::Compute`] or [`Crc::Skip`], as the options request.
    pub const fn crc(&self) -> Crc {
        if self.options.check_crc { Crc::Compute } else { Crc::Skip }
    }

    /// Returns the file of the shard.
    pub const fn file(&self) -> &ShardFile {
        &self.file
    }

    /// Checks the bytes of a record, including padding. Errors include the file, record, key and offset if
    /// known.
    ///
    /// # Errors
    /// Same as [`Record::parse`], and also `Format` if the record disagrees with the index.
    pub fn check<'b>(&self, record: u64, bytes: &'b [u8], crc: Crc) -> Result<Record<'b>, FormatError> {
        check_record(&self.index, &self.expected(record), bytes, crc).map_err(|e| self.name_record(record, e))
    }

    fn expected(&self, record: u64) -> ExpectedRecord<'_> {
        ExpectedRecord { shard_number: self.identity().shard_number, record, limits: &self.options.limits }
    }

    /// Adds the file, record and key to an error in a record, and makes its offset relative to the file.
    pub fn in_record(&self, record: u64, error: FormatError) -> FormatError {
        let offset = self.index.row(record).map_or(0, |row| row.offset);
        self.name_record(record, error.at(offset))
    }

    /// Adds the file, record and key to an error whose offset is already relative to the file.
    fn name_record(&self, record: u64, error: FormatError) -> FormatError {
        error
            .in_record(record)
            .in_sample(self.index.key(record).unwrap_or_default())
            .in_file(self.path().to_string_lossy())
    }

    /// Returns the byte range from the first record to the end of the padding after the last one. Returns
    /// `0..0` if `records` is empty.
    ///
    /// # Errors
    /// `Usage` if there is no such record.
    pub fn span(&self, records: &Range<u64>) -> Result<Range<u64>> {
        let (Some(last), false) = (records.end.checked_sub(1), records.is_empty()) else { return Ok(0..0) };
        let (first, last) = (self.row(records.start)?, self.row(last)?);
        let end = last.offset.checked_add(last.length).and_then(align_up);
        let end = end.unwrap_or_else(|| bug("a record that ends inside the file"));
        Ok(first.offset..end)
    }

    /// Checks that a record does not exceed the limits. Call this before allocating memory for the record.
    ///
    /// # Errors
    /// `Limit` if it exceeds `max_record_bytes`; `Usage` if there is no such record.
    pub fn check_length(&self, record: u64) -> Result<()> {
        let limit = self.options.limits.max_record_bytes;
        let length = self.row(record)?.length;
        if length <= limit {
            return Ok(());
        }
        Err(self.in_record(record, FormatError::limit("record", "max_record_bytes", limit, length)).into())
    }

    /// Reads the bytes of a record, including padding, without checking them.
    ///
    /// # Errors
    /// Same as [`Shard::check_length`], and also `Usage` if memory for the record cannot be allocated, and `Io`
    /// if the record cannot be read.
    pub fn read_record<'b>(&self, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let (bytes, start) = self.record_room(record, buffer)?;
        self.file.read_exact_at(bytes, start)?;
        Ok(bytes)
    }

    /// Reads a record like [`read_record`](Self::read_record), but may skip the storage's own check of the bytes. A
    /// caller that finds a wrong record must call `read_record`.
    ///
    /// # Errors
    /// Same as [`read_record`](Self::read_record).
    pub fn read_record_unchecked<'b>(&self, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let (bytes, start) = self.record_room(record, buffer)?;
        self.file.read_exact_unchecked_at(bytes, start)?;
        Ok(bytes)
    }

    /// Makes room for a record in `buffer`. Also returns the record's offset in the file.
    fn record_room<'b>(&self, record: u64, buffer: &'b mut Vec<u8>) -> Result<(&'b mut [u8], u64)> {
        self.check_length(record)?;
        let span = self.span(&(record..record.saturating_add(1)))?;
        Ok((room(buffer, span.end - span.start)?, span.start))
    }
}

//! Checks that the parts of a dataset agree: record, index row, schema and manifest (spec §2.2, §2.3, §3.3, §8).
//!
//! Every value that is stored twice is compared. Otherwise two readers that trust different copies could read different
//! datasets from the same bytes.

use crate::added_columns::AddedColumns;
use crate::codec_id::Codec;
use crate::descriptor::ArrayDescriptor;
use crate::dtype::Dtype;
use crate::error::{Error, Result, bug};
use crate::footer::Footer;
use crate::index::Index;
use crate::limits::Limits;
use crate::manifest::Manifest;
use crate::record::{FieldValue, Frame, Record};
use crate::schema::{Field, FieldKind, Metadata, Schema};
use crate::shard_entry::ShardEntry;
use std::fmt;

impl Index {
    /// Compares the frame of record `i` with its index row and with the shard number.
    ///
    /// # Errors
    /// `Format` if they disagree, or if the index has no row `i`.
    pub fn check_frame(&self, i: u64, shard_number: u32, frame: &Frame) -> Result<()> {
        let row =
            self.row(i).ok_or_else(|| Error::format("record number", format!("a number below {}", self.len()), i))?;
        let same = |what: &str, in_row: u64, in_frame: u64| {
            if in_row == in_frame {
                return Ok(());
            }
            let (expected, found) = (format!("{in_row} (from the index)"), in_frame);
            Err(Error::format(what, expected, found).in_record(i).at(row.offset))
        };
        same("size of the record in bytes", row.length, frame.record_bytes)?;
        same("record CRC32", row.crc32.into(), frame.body_crc32.into())?;
        same("sample id", row.sample_id, frame.sample_id)?;
        if frame.shard_number != shard_number {
            return Err(Error::format("shard number in the record", shard_number, frame.shard_number)
                .in_record(i)
                .at(row.offset));
        }
        Ok(())
    }

    /// Compares record `i` with its index row (frame, key, scalars) and with the schema.
    ///
    /// # Errors
    /// `Format` if they disagree; `Limit` if an array is over the limits.
    pub fn check_record(&self, i: u64, shard_number: u32, record: &Record<'_>, limits: &Limits) -> Result<()> {
        self.check_frame(i, shard_number, &record.frame)?;
        let (row, key) =
            self.row(i).zip(self.key(i)).unwrap_or_else(|| bug("the index has no row or no key for a record"));
        let offset = row.offset;
        if key != record.key {
            let (expected, found) = (format!("{key:?} (from the index)"), format!("{:?}", record.key));
            return Err(Error::format("sample key", expected, found).in_record(i).at(offset));
        }
        record.check_schema(&self.metadata().schema, limits).map_err(|e| e.in_record(i).at(offset))?;
        if self.scalars_match(i, record.scalars) {
            return Ok(());
        }
        Err(Error::malformed("the scalars of the record differ from those in the index")
            .in_record(i)
            .in_sample(key)
            .at(offset))
    }
}

impl Index {
    /// Compares the samples of a columns file with the samples of its shard: their number, keys and ids (spec §3.6).
    /// `self` is the index of the shard.
    ///
    /// # Errors
    /// `Format` if they disagree, with the record.
    pub fn check_columns(&self, columns: &Self) -> Result<()> {
        if self.len() != columns.len() {
            let expected = format!("{} (as in its shard)", self.len());
            return Err(Error::format("number of records in the columns file", expected, columns.len()));
        }
        for i in 0..self.len() {
            let (expected, found) = (self.key(i).unwrap_or_default(), columns.key(i).unwrap_or_default());
            if expected != found {
                let expected = format!("{expected:?} (as in its shard)");
                return Err(Error::format("sample key", expected, format!("{found:?}")).in_record(i));
            }
            let id = |index: &Self| index.row(i).map_or(0, |row| row.sample_id);
            let (expected, found) = (id(self), id(columns));
            if expected != found {
                let expected = format!("{expected} (as in its shard)");
                return Err(Error::format("sample id", expected, found).in_record(i));
            }
        }
        Ok(())
    }
}

impl Manifest {
    /// Compares an open shard with its manifest entry, without reading the whole file.
    ///
    /// # Errors
    /// `Format` if they disagree on the dataset, shard number, file size, number of samples, footer or schema, or if
    /// the manifest has no entry for the shard.
    pub fn check_shard(&self, number: u32, footer: &Footer, metadata: &Metadata) -> Result<()> {
        self.check_file(&self.shards, &self.schema, number, footer, metadata)
    }

    /// Compares an open columns file of addition `addition` with its manifest entry, without reading the whole file.
    ///
    /// # Errors
    /// Same as [`Manifest::check_shard`], and also `Format` if the file lacks the feature bit of columns files.
    pub fn check_columns_file(&self, addition: usize, number: u32, footer: &Footer, metadata: &Metadata) -> Result<()> {
        let added = self.columns.get(addition);
        let AddedColumns { schema, files } = added
            .ok_or_else(|| Error::format("added columns", format!("fewer than {}", self.columns.len()), addition))?;
        self.check_file(files, schema, number, footer, metadata)?;
        match footer.identity.is_columns_file() {
            true => Ok(()),
            false => Err(Error::malformed("the file lacks the feature bit of columns files")),
        }
    }

    fn check_file(
        &self,
        files: &[ShardEntry],
        schema: &Schema,
        number: u32,
        footer: &Footer,
        metadata: &Metadata,
    ) -> Result<()> {
        let entry = usize::try_from(number).ok().and_then(|number| files.get(number));
        let entry =
            entry.ok_or_else(|| Error::format("shard number", format!("a number below {}", files.len()), number))?;
        let same = |what: &str, stated: &dyn fmt::Display, found: &dyn fmt::Display, equal: bool| match equal {
            true => Ok(()),
            false => Err(Error::format(what, format!("{stated} (from the manifest)"), found)),
        };
        let id = footer.identity.dataset_id;
        same("dataset id of the shard", &self.dataset_id, &id, self.dataset_id == id)?;
        let in_shard = footer.identity.shard_number;
        same("shard number", &number, &in_shard, number == in_shard)?;
        let bytes = footer.file_bytes();
        same("size of the shard in bytes", &entry.bytes, &bytes, entry.bytes == bytes)?;
        same(
            "number of samples in the shard",
            &entry.samples,
            &footer.record_count,
            entry.samples == footer.record_count,
        )?;
        let (stated, found) = (entry.footer_crc32, footer.crc32());
        same("footer CRC32", &format_args!("{stated:#010x}"), &format_args!("{found:#010x}"), stated == found)?;
        match *schema == metadata.schema {
            true => Ok(()),
            false => Err(Error::malformed("the schema of the shard differs from the schema in the manifest")),
        }
    }
}

impl Record<'_> {
    /// Checks a record against the schema: the number of stored fields, the scalars' size and their bool values, and
    /// the codec and descriptor of each field.
    ///
    /// # Errors
    /// `Format` if the record does not fit the schema; `Limit` if an array is over the limits.
    pub fn check_schema(&self, schema: &Schema, limits: &Limits) -> Result<()> {
        let count = schema.stored_count();
        if self.fields.len() != count {
            return Err(Error::format("number of fields in the record", count, self.fields.len()).in_sample(self.key));
        }
        if self.scalars.len() as u64 != schema.scalar_bytes() {
            let found = self.scalars.len();
            return Err(
                Error::format("size of the scalar values in bytes", schema.scalar_bytes(), found).in_sample(self.key)
            );
        }
        for (field, value) in schema.stored().zip(&self.fields) {
            if let Some(value) = value {
                value.check(field, limits).map_err(|e| e.in_sample(self.key))?;
            }
        }
        for (name, dtype, range) in schema.scalar_ranges() {
            let value =
                self.scalars.get(range).unwrap_or_else(|| bug("a sample has fewer scalar values than its schema"));
            if dtype == Dtype::Bool && value != [0] && value != [1] {
                let what = format!("bool scalar {name:?}");
                return Err(Error::format(what, "0 or 1", format!("{value:?}")).in_sample(self.key));
            }
        }
        Ok(())
    }
}

impl FieldValue<'_> {
    /// Checks that the codec, the descriptor and the decoded size fit the field's kind.
    ///
    /// # Errors
    /// `Format` if they do not fit; `Limit` if an array is over the limits.
    pub fn check(&self, field: &Field, limits: &Limits) -> Result<()> {
        let name = &field.name;
        let (codecs, expected) = match field.kind {
            FieldKind::Image => ([Codec::Raw, Codec::Jpeg].as_slice(), "raw or jpeg"),
            FieldKind::Array => (&[Codec::Raw, Codec::Zstd, Codec::Blosc2][..], "raw, zstd or blosc2"),
            _ => (&[Codec::Raw, Codec::Zstd][..], "raw or zstd"),
        };
        if !codecs.contains(&self.codec) {
            return Err(Error::format(format!("codec of field {name:?}"), expected, self.codec));
        }
        match field.kind {
            FieldKind::Image => {
                let fits = match self.codec {
                    Codec::Jpeg => self.descriptor == b"image/jpeg",
                    _ => is_picture_type(self.descriptor),
                };
                if !fits {
                    let found = self.descriptor.get(..80).unwrap_or(self.descriptor).escape_ascii();
                    return Err(Error::malformed(format!(
                        "the media type of field {name:?} is `{found}`, but must be image/jpeg for the codec jpeg, and \
                         image/ followed by 1 to 64 characters of a-z 0-9 . + - for other codecs"
                    )));
                }
            }
            FieldKind::Array => {
                let stored_bytes = ArrayDescriptor::parse(self.descriptor, limits)?.stored_bytes()?;
                if stored_bytes != self.decoded_bytes {
                    let expected = format!("{stored_bytes} (from the descriptor)");
                    return Err(Error::format(
                        format!("decoded size of field {name:?} in bytes"),
                        expected,
                        self.decoded_bytes,
                    ));
                }
            }
            _ if !self.descriptor.is_empty() => {
                let found = format!("{} bytes", self.descriptor.len());
                return Err(Error::format(format!("descriptor of field {name:?}"), "none", found));
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_picture_type(media_type: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-');
    media_type
        .strip_prefix(b"image/")
        .is_some_and(|subtype| (1..=64).contains(&subtype.len()) && subtype.iter().all(allowed))
}

//! The plainest reader that `crates/format` and `crates/codec` make possible: whole files in memory, one record after the other.
//!
//! The slow twin of `crates/reader`, and the Rust side of the comparison with the reader in `format-spec/`.
#![allow(dead_code, missing_docs, unreachable_pub)]

use sha2::{Digest as _, Sha256};
use shardpack_codec::{ArrayDecoder, decode_bytes};
use shardpack_format::{
    ArrayDescriptor, Error, FOOTER_BYTES, Field, FieldKind, FieldValue, Footer, HEADER_BYTES, Identity, Index, Limits,
    MANIFEST_NAME, Manifest, Metadata, Record, Result, align_up, check_json,
};
use std::collections::HashSet;
use std::path::Path;

/// Reads all of a shard or dataset: key, field, type and SHA-256 of each decoded value.
///
/// # Errors
/// The first violation.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let limits = Limits::default();
    let mut reader = Plain { limits: limits.clone(), ..Default::default() };
    if !path.is_dir() {
        reader.shard(&load(path)?, None)?;
        return Ok(reader.lines);
    }
    let manifest = Manifest::parse(&load(&path.join(MANIFEST_NAME))?, &limits)?;
    for number in 0..manifest.shards.len() {
        let bytes = load(&path.join(&manifest.shards[number].name))?;
        reader.shard(&bytes, Some((&manifest, number)))?;
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        same("SHA-256 of the shard", manifest.shards[number].sha256 == digest)?;
    }
    Ok(reader.lines)
}

/// Reads all of a lone shard in memory.
///
/// # Errors
/// The first violation.
pub fn read_bytes(bytes: &[u8]) -> Result<Vec<String>> {
    let mut reader = Plain { limits: Limits::default(), ..Default::default() };
    reader.shard(bytes, None)?;
    Ok(reader.lines)
}

fn load(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::usage(path.display().to_string(), "a readable file", e))
}

fn same(what: &str, equal: bool) -> Result<()> {
    if equal { Ok(()) } else { Err(Error::format(what, "the same everywhere", "another")) }
}

#[derive(Default)]
struct Plain {
    limits: Limits,
    metadata: Option<Metadata>,
    keys: HashSet<String>,
    ids: HashSet<u64>,
    lines: Vec<String>,
    decoder: ArrayDecoder,
}

impl Plain {
    fn shard(&mut self, bytes: &[u8], manifest: Option<(&Manifest, usize)>) -> Result<()> {
        let limits = self.limits.clone();
        let footer_at = bytes.len().saturating_sub(FOOTER_BYTES as usize);
        let footer = Footer::parse(&bytes[footer_at..], bytes.len() as u64, &limits)?;
        let header = Identity::parse_header(&bytes[..HEADER_BYTES as usize])?;
        footer.check_header(&header)?;
        let index = Index::parse(bytes[footer.index_offset as usize..footer_at].to_vec(), &footer, &limits)?;
        let metadata = index.metadata();
        if let Some((manifest, number)) = manifest {
            manifest.check_shard(u32::try_from(number).unwrap_or(u32::MAX), &footer, metadata)?;
            same("classes of the shards", manifest.classes == metadata.classes)?;
            same("recipe of the shards", manifest.recipe == metadata.recipe)?;
            let count = manifest.shards.len();
            same("number of shards", metadata.shards.is_none_or(|stated| stated as usize == count))?;
        }
        for i in 0..index.len() {
            let row = index.row(i).ok_or_else(|| Error::format("row", "present", "missing"))?;
            let end = row.offset + row.length;
            let stored = &bytes[row.offset as usize..end as usize];
            index.check_frame(i, header.shard_number, &shardpack_format::Frame::parse(stored)?)?;
            let record = Record::parse(stored, &limits)?;
            index.check_record(i, header.shard_number, &record, &limits)?;
            let padding = &bytes[end as usize..align_up(end).unwrap_or(end) as usize];
            if padding.iter().any(|&b| b != 0) {
                return Err(Error::format("padding after the record", "zero", "another byte").in_record(i));
            }
            if !self.keys.insert(record.key.to_owned()) || !self.ids.insert(row.sample_id) {
                return Err(Error::format("sample key or id", "each once", "twice").in_sample(record.key));
            }
            self.record(&record, metadata)?;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, metadata: &Metadata) -> Result<()> {
        let (mut scalars, mut values) = (record.scalars, record.fields.iter());
        for field in metadata.schema.fields() {
            let (kind, digest) = match field.dtype {
                Some(dtype) => {
                    let (value, rest) = scalars.split_at(dtype.bytes() as usize);
                    scalars = rest;
                    if let ("label", Some(classes), false) = (&*field.name, &metadata.classes, dtype.is_float()) {
                        let mut wide =
                            [if dtype.name().starts_with('i') && value[value.len() - 1] > 127 { 0xFF } else { 0 }; 16];
                        wide[..value.len()].copy_from_slice(value);
                        if !(0..classes.len() as i128).contains(&i128::from_le_bytes(wide)) {
                            return Err(Error::format("label", "a class", i128::from_le_bytes(wide)));
                        }
                    }
                    (dtype.to_string(), sha256(value))
                }
                None => match values.next().and_then(Option::as_ref) {
                    Some(value) => self.value(field, value)?,
                    None => ("absent".to_owned(), "-".to_owned()),
                },
            };
            self.lines.push(format!("{}\t{}\t{kind}\t{digest}", record.key, field.name));
        }
        Ok(())
    }

    fn value(&mut self, field: &Field, value: &FieldValue<'_>) -> Result<(String, String)> {
        let decode = || decode_bytes(value.codec, value.bytes, value.decoded_bytes, &self.limits);
        Ok(match field.kind {
            FieldKind::Image => (String::from_utf8_lossy(value.descriptor).into_owned(), sha256(value.bytes)),
            FieldKind::Array => {
                let descriptor = ArrayDescriptor::parse(value.descriptor, &self.limits)?;
                let array = self.decoder.decode(value.codec, &descriptor, value.bytes, &self.limits)?;
                let axes: Vec<String> = array.shape().iter().map(u64::to_string).collect();
                (format!("{}[{}]", array.dtype(), axes.join(",")), sha256(array.bytes()))
            }
            FieldKind::Text => {
                let text = decode()?;
                std::str::from_utf8(&text).map_err(|e| Error::format("text", "UTF-8", e))?;
                ("text".to_owned(), sha256(&text))
            }
            FieldKind::Json => {
                let text = decode()?;
                check_json(&text, &self.limits)?;
                ("json".to_owned(), sha256(&text))
            }
            _ => ("bytes".to_owned(), sha256(&decode()?)),
        })
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// `ok`, or the kind of the error as `fixtures/expected.txt` spells it.
pub fn verdict(result: &Result<Vec<String>>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Format { .. }) => "format",
        Err(Error::Limit { .. }) => "limit",
        Err(_) => "io",
    }
}

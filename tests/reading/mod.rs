//! Reads a file with `crates/reader`. Returns the verdict of `verify` and the values from `Dataset`, for comparison.
//!
//! Shared by the fixture tests, the damage tests, and the comparison with the independent reader in `format-spec/`.
#![allow(dead_code, missing_docs, unreachable_pub)]

use sha2::{Digest as _, Sha256};
use shardpack_format::{ErrorKind, Explain as _, FieldKind, to_usize};
use shardpack_reader::{ArrayDecoder, DatasetOptions, Error, RecordView, VerifyOptions, VerifyReport};
use std::path::Path;

/// Verifies every byte and every digest, and decodes every field. Pictures are not decoded, because their
/// content is not part of the format.
///
/// # Errors
/// If there is no dataset or shard at the path.
pub fn verify(path: &Path) -> Result<VerifyReport, Error> {
    let options = VerifyOptions {
        deep: Some(&|_, _| Ok(())),
        digest: true,
        threads: 1,
        follow_symlinks: true,
        ..VerifyOptions::default()
    };
    shardpack_reader::verify(path, &options)
}

/// Returns the key, field, type and SHA-256 of each value, in stored order.
///
/// # Errors
/// The first error of the reader.
pub fn values(path: &Path) -> Result<Vec<String>, Error> {
    let dataset = DatasetOptions::new().follow_symlinks(true).open(path)?;
    let schema = dataset.schema().clone();
    let columns = schema.scalars().map(|(name, _)| dataset.column(name)).collect::<Result<Vec<_>, _>>()?;
    let (mut stream, mut decoder) = (dataset.stream()?, ArrayDecoder::new());
    let mut lines = Vec::new();
    while let Some(record) = stream.next_record() {
        let record = record?;
        let mut columns = columns.iter();
        for field in schema.fields() {
            let (kind, digest) = match (field.dtype, columns.as_slice()) {
                (Some(dtype), [column, ..]) => {
                    columns.next();
                    let mut values = column.bytes().chunks(usize::try_from(dtype.bytes()).unwrap_or(1));
                    let value = values.nth(to_usize(record.index()));
                    (dtype.to_string(), sha256(value.unwrap_or_default()))
                }
                _ if record.field(&field.name)?.is_none() => ("absent".to_owned(), "-".to_owned()),
                _ => value(&record, &field.name, field.kind, &mut decoder)?,
            };
            lines.push(format!("{}\t{}\t{kind}\t{digest}", record.key(), field.name));
        }
    }
    Ok(lines)
}

fn value(
    record: &RecordView<'_>,
    name: &str,
    kind: FieldKind,
    decoder: &mut ArrayDecoder,
) -> Result<(String, String), Error> {
    Ok(match kind {
        FieldKind::Image => {
            let image = record.image(name)?;
            (image.media_type.to_owned(), sha256(image.bytes))
        }
        FieldKind::Array => {
            let array = record.array(name, decoder)?;
            let axes: Vec<String> = array.shape().iter().map(u64::to_string).collect();
            (format!("{}[{}]", array.dtype(), axes.join(",")), sha256(array.bytes()))
        }
        FieldKind::Text => ("text".to_owned(), sha256(record.text(name)?.as_bytes())),
        FieldKind::Json => ("json".to_owned(), sha256(record.text(name)?.as_bytes())),
        _ => ("bytes".to_owned(), sha256(&record.bytes(name)?)),
    })
}

/// Returns the kind of an error, as it is named in `fixtures/expected.txt`.
pub fn kind(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Format => "format",
        ErrorKind::Limit => "limit",
        ErrorKind::Io => "io",
        _ => "usage",
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

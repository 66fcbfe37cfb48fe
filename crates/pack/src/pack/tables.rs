//! ColumnValues that come from names and tables: labels and columns, packed for a record.

use sha2::{Digest, Sha256};
use shardpack_format::{Dtype, Field};
use shardpack_sources::{ColumnValues, Listing, SourceSample};

/// The scalar field `label`, if the listing has classes.
pub(super) fn label_field(listing: &Listing) -> Option<Field> {
    (!listing.classes.is_empty()).then(|| Field::scalar("label", Dtype::I64))
}

/// Appends the label, if there are classes.
pub(super) fn append_label(out: &mut Vec<u8>, entry: &SourceSample) {
    if let Some(class) = entry.class {
        out.extend(i64::from(class).to_le_bytes());
    }
}

/// Appends the scalar columns of the label table for one sample.
pub(super) fn append_columns(out: &mut Vec<u8>, listing: &Listing, sample: usize) {
    for column in &listing.columns {
        match &column.values {
            ColumnValues::Bool(values) => out.extend(values.get(sample).map(|&v| u8::from(v))),
            ColumnValues::Int(values) => out.extend(values.get(sample).into_iter().flat_map(|v| v.to_le_bytes())),
            ColumnValues::Float(values) => out.extend(values.get(sample).into_iter().flat_map(|v| v.to_le_bytes())),
            ColumnValues::Text(_) | ColumnValues::Json(_) => {}
        }
    }
}

/// A digest of everything that a sample takes from names and tables. Other labels make another
/// dataset.
pub(super) fn digest(listing: &Listing, sample: usize) -> [u8; 16] {
    let mut values = Vec::new();
    if let Some(entry) = listing.samples.get(sample) {
        append_label(&mut values, entry);
    }
    append_columns(&mut values, listing, sample);
    for text in texts(listing, sample) {
        values.extend((text.len() as u64).to_le_bytes());
        values.extend(text.as_bytes());
    }
    let mut digest = [0; 16];
    digest.iter_mut().zip(Sha256::digest(&values)).for_each(|(to, from)| *to = from);
    digest
}

/// The columns of text and of JSON of the label table for one sample, in order.
pub(super) fn texts(listing: &Listing, sample: usize) -> Vec<&str> {
    let texts = listing.columns.iter().filter_map(|column| match &column.values {
        ColumnValues::Text(texts) | ColumnValues::Json(texts) => {
            let text = texts.get(sample);
            debug_assert!(text.is_some(), "text of sample {sample} of {}", texts.len());
            Some(text.unwrap_or_default())
        }
        _ => None,
    });
    texts.collect()
}

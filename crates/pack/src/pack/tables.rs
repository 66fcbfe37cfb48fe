//! Stores labels and columns from file names and tables.

use crate::encode::{Columns, RecordDraft, StoredValue};
use sha2::{Digest, Sha256};
use shardpack_format::{Dtype, Field, Result, Schema, bug};
use shardpack_sources::{ColumnValues, Listing, SourceSample};

pub(super) fn label_field(listing: &Listing) -> Option<Field> {
    (!listing.classes.is_empty()).then(|| Field::scalar("label", Dtype::I64))
}

pub(super) fn column_fields(listing: &Listing) -> impl Iterator<Item = Field> {
    listing.columns.iter().map(|column| match column.values {
        ColumnValues::Bool(_) => Field::scalar(&column.name, Dtype::Bool),
        ColumnValues::Int(_) => Field::scalar(&column.name, Dtype::I64),
        ColumnValues::Float(_) => Field::scalar(&column.name, Dtype::F64),
        ColumnValues::Text(_) => Field::stored(&column.name, shardpack_format::FieldKind::Text),
        ColumnValues::Json(_) => Field::stored(&column.name, shardpack_format::FieldKind::Json),
    })
}

#[derive(Debug)]
pub(super) struct TablePlaces {
    scalars: Columns,
    texts: Vec<usize>,
}

impl TablePlaces {
    /// Finds the positions in records of `schema`, which must contain the listing's fields.
    pub(super) fn of(listing: &Listing, schema: &Schema) -> Self {
        let (scalars, texts): (Vec<Field>, Vec<Field>) =
            label_field(listing).into_iter().chain(column_fields(listing)).partition(|field| field.dtype.is_some());
        let texts = texts.iter().map(|field| schema.stored_position(&field.name)).collect::<Option<_>>();
        match (Columns::of(schema, &scalars), texts) {
            (Some(scalars), Some(texts)) => Self { scalars, texts },
            _ => bug("a schema without the columns of its listing"),
        }
    }

    pub(super) fn put(
        &self,
        listing: &Listing,
        number: usize,
        entry: &SourceSample,
        draft: &mut RecordDraft<'_>,
    ) -> Result<()> {
        draft.set_scalars(&self.scalars, &scalars(listing, number, entry));
        for (&position, text) in self.texts.iter().zip(texts(listing, number)) {
            draft.set(position, StoredValue::bytes(text.as_bytes())?);
        }
        Ok(())
    }
}

fn scalars(listing: &Listing, number: usize, entry: &SourceSample) -> Vec<u8> {
    let mut out: Vec<u8> = entry.class.into_iter().flat_map(|class| i64::from(class).to_le_bytes()).collect();
    for column in &listing.columns {
        match &column.values {
            ColumnValues::Bool(values) => out.extend(values.get(number).map(|&v| u8::from(v))),
            ColumnValues::Int(values) => out.extend(values.get(number).into_iter().flat_map(|v| v.to_le_bytes())),
            ColumnValues::Float(values) => out.extend(values.get(number).into_iter().flat_map(|v| v.to_le_bytes())),
            ColumnValues::Text(_) | ColumnValues::Json(_) => {}
        }
    }
    out
}

fn texts(listing: &Listing, number: usize) -> impl Iterator<Item = &str> {
    listing.columns.iter().filter_map(move |column| match &column.values {
        ColumnValues::Text(texts) | ColumnValues::Json(texts) => Some(texts.get(number).unwrap_or_default()),
        _ => None,
    })
}

/// Returns a digest of a sample's label and columns. The dataset id must change if they change.
pub(super) fn digest(listing: &Listing, number: usize, entry: &SourceSample) -> [u8; 16] {
    let mut values = scalars(listing, number, entry);
    for text in texts(listing, number) {
        values.extend((text.len() as u64).to_le_bytes());
        values.extend(text.as_bytes());
    }
    let mut digest = [0; 16];
    digest.iter_mut().zip(Sha256::digest(&values)).for_each(|(to, from)| *to = from);
    digest
}

//! Converts the shards of a dataset for a union of several datasets: labels become indexes into the union's classes.

use crate::error::Result;
use crate::scalar::Scalar;
use crate::shard::Shard;
use crate::union_columns::{UnionColumn, UnionColumns};
use shardpack_format::{Dtype, Error as FormatError, Schema, bug, to_usize};

/// Name of the field for class indexes.
pub(crate) const LABEL: &str = "label";

#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) schema: Schema,
    /// Index in the union's classes for each class of the dataset, or `None` if all indexes stay the same.
    pub(crate) classes: Option<Vec<i64>>,
}

impl Cast {
    /// Converts the columns of a shard for the union.
    ///
    /// # Errors
    /// `Format` if a label is not a class of the dataset.
    pub(crate) fn apply(&self, shard: &Shard) -> Result<UnionColumns> {
        let (own, records) = (shard.schema(), to_usize(shard.len()));
        let stored = self.schema.stored().map(|field| {
            let position = own.stored_position(&field.name)?;
            shard.stored_place(position)
        });
        let columns = self.schema.scalars().map(|(name, dtype)| {
            let Some((position, _)) = own.scalar_position(name) else {
                return Ok(UnionColumn::Absent(absent(dtype).repeat(records).into()));
            };
            match (&self.classes, name) {
                (Some(classes), LABEL) => labels(shard, position, dtype, classes),
                _ => Ok(shard.values(position).unwrap_or_else(|| bug("a scalar field in a shard has no column"))),
            }
        });
        Ok(UnionColumns {
            columns: columns.collect::<Result<_>>()?,
            stored: stored.collect(),
            schema: self.schema.clone(),
        })
    }
}

fn labels(shard: &Shard, position: usize, dtype: Dtype, classes: &[i64]) -> Result<UnionColumn> {
    let column = shard.column_bytes(position).unwrap_or_default();
    if !shard.has_scalar(position) {
        return Ok(UnionColumn::Absent(column.into()));
    }
    let mut out = Vec::with_capacity(column.len());
    for (record, bytes) in (0_u64..).zip(column.chunks(dtype.size())) {
        let found = Scalar::from_bytes(dtype, bytes).and_then(Scalar::as_i64);
        // Negative labels are not classes. Some datasets mark unlabelled samples with them.
        let number = match found {
            Some(unlabelled) if unlabelled < 0 => Some(unlabelled),
            Some(class) => usize::try_from(class).ok().and_then(|class| classes.get(class).copied()),
            None => None,
        };
        let Some(packed) = number.and_then(|number| packed(dtype, number)) else {
            let found = found.map_or_else(|| "none".to_owned(), |class| class.to_string());
            let expected = format!("a class number below {}", classes.len());
            return Err(shard.in_record(record, FormatError::format("field `label`", expected, found)).into());
        };
        out.extend(packed);
    }
    Ok(UnionColumn::Changed(out.into()))
}

pub(crate) fn packed(dtype: Dtype, value: i64) -> Option<Vec<u8>> {
    Some(match dtype {
        Dtype::I8 => i8::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::I16 => i16::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::I32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::I64 => value.to_le_bytes().to_vec(),
        Dtype::U8 => u8::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::U16 => u16::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::U32 => u32::try_from(value).ok()?.to_le_bytes().to_vec(),
        Dtype::U64 => u64::try_from(value).ok()?.to_le_bytes().to_vec(),
        _ => return None,
    })
}

/// Returns the placeholder for a missing value: false for a bool, otherwise all bits set, which means −1, NaN,
/// or the maximum of an unsigned type.
fn absent(dtype: Dtype) -> Vec<u8> {
    vec![if dtype == Dtype::Bool { 0 } else { 0xFF }; dtype.size()]
}

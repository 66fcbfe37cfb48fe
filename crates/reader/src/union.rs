//! What several datasets have together, and how a shard of one of them looks from there: fields by
//! name, and labels counted into one list of classes.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::scalar::Scalar;
use crate::shard::Shard;
use shardpack_format::{Dtype, Error as FormatError, Field, FieldKind, Schema, to_usize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Field whose numbers count into the classes.
const LABEL: &str = "label";

/// All fields of some datasets, those of the first one first, and all classes, likewise.
pub(crate) struct Union {
    pub(crate) schema: Schema,
    pub(crate) classes: Option<Vec<String>>,
}

impl Union {
    /// # Errors
    /// `Usage` if a field is of another kind or type in one of them, or if labels count into classes
    /// in one and into none in another: it says where.
    pub(crate) fn of(datasets: &[Dataset]) -> Result<Self> {
        let mut fields: Vec<(&Field, &Dataset)> = Vec::new();
        for dataset in datasets {
            for field in dataset.schema().fields() {
                match fields.iter().find(|(known, _)| known.name == field.name) {
                    None => fields.push((field, dataset)),
                    Some((known, _)) if known == &field => {}
                    Some((known, first)) => {
                        let what = format!("field `{}` of `{}`", field.name, dataset.path().display());
                        let expected = format!("{}, as in `{}`", words(known), first.path().display());
                        let hint = "`concat` needs one kind and one type for each name: pack one of them again";
                        return Err(Error::usage(what, expected, words(field)).with_hint(hint));
                    }
                }
            }
        }
        let schema = Schema::new(fields.into_iter().map(|(field, _)| field.clone()).collect())?;
        Ok(Self { classes: classes(datasets)?, schema })
    }

    /// How the shards of `dataset` stand in it; `None` if they are as they should be.
    ///
    /// # Errors
    /// `Usage` if its labels are no integers, or too narrow to count so many classes.
    pub(crate) fn cast(&self, dataset: &Dataset) -> Result<Option<Arc<Cast>>> {
        let ours = self.classes.as_deref().unwrap_or_default();
        let theirs = dataset.classes().unwrap_or_default();
        let known: HashMap<&String, i64> = ours.iter().zip(0..).collect();
        let numbers: Vec<i64> = theirs.iter().filter_map(|name| known.get(name).copied()).collect();
        let keep = numbers.iter().zip(0..).all(|(number, own)| *number == own);
        let label = dataset.schema().scalar_position(LABEL).filter(|_| !keep);
        if let Some((_, dtype)) = label {
            let most = numbers.iter().max().copied().unwrap_or(0);
            if packed(dtype, most).is_none() {
                let what = format!("field `{LABEL}` of `{}`", dataset.path().display());
                let expected = format!("integers that count to {most}: there are {} classes together", ours.len());
                return Err(Error::usage(what, expected, dtype));
            }
        }
        if label.is_none() && *dataset.schema() == self.schema {
            return Ok(None);
        }
        Ok(Some(Arc::new(Cast { schema: self.schema.clone(), classes: label.map(|_| numbers) })))
    }
}

/// Classes by name. Where the datasets that have labels name no classes, there are none.
fn classes(datasets: &[Dataset]) -> Result<Option<Vec<String>>> {
    let mut all: Option<Vec<String>> = None;
    let mut first: Option<&Dataset> = None;
    for dataset in datasets {
        let has_labels = dataset.schema().scalar_position(LABEL).is_some();
        let named = dataset.classes();
        if let Some(named) = named {
            let all = all.get_or_insert_default();
            let known: HashSet<String> = all.iter().cloned().collect();
            all.extend(named.iter().filter(|name| !known.contains(*name)).cloned());
        }
        if !has_labels {
            continue;
        }
        let before = *first.get_or_insert(dataset);
        if before.classes().is_some() != named.is_some() {
            let words = |dataset: &Dataset| if dataset.classes().is_some() { "names" } else { "none" };
            let what = format!("classes that the labels of `{}` count into", dataset.path().display());
            let expected = format!("{}, as in `{}`", words(before), before.path().display());
            let hint = "classes are matched by name: give them to both when you pack, or to neither";
            return Err(Error::usage(what, expected, words(dataset)).with_hint(hint));
        }
    }
    Ok(all)
}

/// `a scalar of int64`.
fn words(field: &Field) -> String {
    match field {
        Field { kind: FieldKind::Scalar, dtype: Some(dtype), .. } => format!("a scalar of {dtype}"),
        Field { kind, .. } => format!("of kind {kind:?}").to_lowercase(),
    }
}

/// How the shards of one dataset stand in the union.
#[derive(Debug)]
pub(crate) struct Cast {
    schema: Schema,
    /// For each class of the dataset its number in the union, if one is another.
    classes: Option<Vec<i64>>,
}

/// What a shard holds, as the union counts it.
#[derive(Debug)]
pub(crate) struct Within {
    pub(crate) schema: Schema,
    /// For each stored field its place in the records.
    pub(crate) stored: Vec<Option<usize>>,
    pub(crate) columns: Vec<Values>,
}

/// The values of a scalar field.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    /// Column of the index.
    Own(usize),
    /// Labels with the numbers of the union.
    Changed(Arc<[u8]>),
    /// The samples have none: what stands for it.
    Absent(Arc<[u8]>),
}

impl Cast {
    /// # Errors
    /// `Format` if a label is none of the dataset's classes.
    pub(crate) fn apply(&self, shard: &Shard) -> Result<Within> {
        let (own, records) = (shard.schema(), to_usize(shard.len()));
        let stored = self.schema.stored().map(|field| {
            let position = own.stored_position(&field.name)?;
            shard.stored_at(position)
        });
        let columns = self.schema.scalars().map(|(name, dtype)| {
            let Some((position, _)) = own.scalar_position(name) else {
                return Ok(Values::Absent(absent(dtype).repeat(records).into()));
            };
            match (&self.classes, name) {
                (Some(classes), LABEL) => labels(shard, (position, dtype), classes),
                _ => {
                    shard.values(position).ok_or_else(|| Error::internal("columns of a shard", position + 1, position))
                }
            }
        });
        Ok(Within { columns: columns.collect::<Result<_>>()?, stored: stored.collect(), schema: self.schema.clone() })
    }
}

fn labels(shard: &Shard, (position, dtype): (usize, Dtype), classes: &[i64]) -> Result<Values> {
    let column = shard.column_bytes(position).unwrap_or_default();
    if !shard.has_scalar(position) {
        return Ok(Values::Absent(column.into()));
    }
    let mut out = Vec::with_capacity(column.len());
    for (record, bytes) in (0_u64..).zip(column.chunks(dtype.size())) {
        let found = Scalar::from_bytes(dtype, bytes).and_then(Scalar::as_i64);
        // Below 0 it is no class: some mark so what nobody has labelled.
        let number = match found {
            Some(unlabelled) if unlabelled < 0 => Some(unlabelled),
            Some(class) => usize::try_from(class).ok().and_then(|class| classes.get(class).copied()),
            None => None,
        };
        let Some(packed) = number.and_then(|number| packed(dtype, number)) else {
            let found = found.map_or_else(|| "none".to_owned(), |class| class.to_string());
            let expected = format!("a class below {}, to count it into those of all datasets", classes.len());
            return Err(shard.in_record(record, FormatError::format("field `label`", expected, found)).into());
        };
        out.extend(packed);
    }
    Ok(Values::Changed(out.into()))
}

/// An integer in a type; `None` if it does not fit.
fn packed(dtype: Dtype, value: i64) -> Option<Vec<u8>> {
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

/// What stands in a column for a value that is not there: −1, NaN, the largest of an unsigned type,
/// which all have every bit set; and false.
fn absent(dtype: Dtype) -> Vec<u8> {
    vec![if dtype == Dtype::Bool { 0 } else { 0xFF }; dtype.size()]
}

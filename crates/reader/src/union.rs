//! Builds the union of several datasets: their fields, matched by name, and a combined list of
//! classes.

use crate::cast::{Cast, LABEL, packed};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use shardpack_format::{Field, FieldKind, Schema};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// All fields and classes of several datasets, in the order of the datasets.
pub(crate) struct Union {
    pub(crate) schema: Schema,
    pub(crate) classes: Option<Vec<String>>,
}

impl Union {
    /// Combines the fields and classes of the datasets.
    ///
    /// # Errors
    /// `Usage`, naming the dataset, if a field has different kinds or types in two datasets, or if one
    /// dataset names its classes and another has labels without class names.
    pub(crate) fn of(datasets: &[Dataset]) -> Result<Self> {
        let mut fields: Vec<(&Field, &Dataset)> = Vec::new();
        for dataset in datasets {
            for field in dataset.schema().fields() {
                match fields.iter().find(|(known, _)| known.name == field.name) {
                    None => fields.push((field, dataset)),
                    Some((known, _)) if known == &field => {}
                    Some((known, first)) => {
                        let here = format!("{} in `{}`", words(field), dataset.path().display());
                        let there = format!("{} in `{}`", words(known), first.path().display());
                        let hint = "pack one of the datasets again: `concat` needs fields with the same name to have \
                                    the same kind and type";
                        return Err(
                            Error::usage(format!("field `{}` is {there}, but {here}", field.name)).with_hint(hint)
                        );
                    }
                }
            }
        }
        let schema = Schema::new(fields.into_iter().map(|(field, _)| field.clone()).collect())?;
        // A field that belongs to the user in one dataset is visible, even if it contains segment
        // indexes in another.
        let is_users = |field: &Field| {
            let mut schemas = datasets.iter().map(Dataset::schema).filter(|schema| schema.fields().contains(field));
            schemas.any(|known| !known.is_segment_index(field))
        };
        let schema = if schema.fields().iter().any(|field| schema.is_segment_index(field) && is_users(field)) {
            schema.with_features(0)
        } else {
            schema
        };
        Ok(Self { classes: classes(datasets)?, schema })
    }

    /// Returns how `dataset`'s shards are converted for the union, or `None` if they need no conversion.
    ///
    /// # Errors
    /// `Usage` if its labels are not integers, or their type is too narrow for the number of classes.
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
                return Err(Error::usage(format!(
                    "field `{LABEL}` of `{}`: {dtype} cannot hold class {most}: the datasets together have {} classes",
                    dataset.path().display(),
                    ours.len()
                )));
            }
        }
        if label.is_none() && *dataset.schema() == self.schema {
            return Ok(None);
        }
        Ok(Some(Arc::new(Cast { schema: self.schema.clone(), classes: label.map(|_| numbers) })))
    }
}

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
            let (with, without) = if named.is_some() { (dataset, before) } else { (before, dataset) };
            let hint = "pack both datasets with class names, or both without: `concat` matches classes by name";
            return Err(Error::usage(format!(
                "the labels of `{}` have class names, but the labels of `{}` have none",
                with.path().display(),
                without.path().display()
            ))
            .with_hint(hint));
        }
    }
    Ok(all)
}

fn words(field: &Field) -> String {
    match field {
        Field { kind: FieldKind::Scalar, dtype: Some(dtype), .. } => format!("a scalar of type {dtype}"),
        Field { kind, .. } => format!("of kind `{kind}`"),
    }
}

//! Adapts new samples to a dataset's classes, columns and fields.

use super::some;
use crate::pack::{PackOptions, has_profile};
use crate::{Context, bail};
use shardpack_format::{Dtype, Field, FieldKind, Hint, Note, Schema, Setting, bug};
use shardpack_sources::{ColumnValues, Listing};
use std::collections::{BTreeSet, HashMap};

/// Renumbers the classes of `listing` to match the dataset's. Appends new classes in sorted order, and returns
/// their names.
pub(super) fn classes(listing: &mut Listing, known: Option<&[String]>) -> crate::Result<Vec<String>> {
    let Some(known) = known else {
        if !listing.classes.is_empty() {
            let names = some(listing.classes.iter().map(String::as_str), listing.classes.len());
            let text = format!("the new samples have classes ({names}), but the dataset has none");
            bail!(Note::new(text).with_hint("remove the label column from the table"));
        }
        return Ok(Vec::new());
    };
    if listing.classes.is_empty() {
        let hint =
            Hint::new("put the new samples into folders named after their classes, or pass a table of labels with ");
        let text = format!("the dataset has {} classes, but the new samples have none", known.len());
        bail!(Note::new(text).with_hint(hint.and([Setting::any("labels", "FILE")])));
    }
    let used: BTreeSet<&str> = listing
        .samples
        .iter()
        .filter_map(|sample| listing.classes.get(sample.class? as usize).map(String::as_str))
        .collect();
    let mut numbers: HashMap<&str, usize> = known.iter().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
    let mut new = Vec::new();
    for name in used {
        if !numbers.contains_key(name) {
            numbers.insert(name, known.len() + new.len());
            new.push(name.to_owned());
        }
    }
    let number = |class: u32| {
        let number = listing.classes.get(class as usize).and_then(|name| numbers.get(name.as_str()));
        number.and_then(|&number| u32::try_from(number).ok())
    };
    let labels: Vec<Option<u32>> = listing.samples.iter().map(|sample| sample.class.and_then(number)).collect();
    if labels.contains(&None) {
        bug("a new sample without a class");
    }
    listing.samples.iter_mut().zip(labels).for_each(|(sample, label)| sample.class = label);
    listing.classes = known.iter().chain(&new).cloned().collect();
    Ok(new)
}

/// Reorders and converts a table's columns to match the dataset's fields. `own` lists the fields that do not
/// come from a table.
pub(super) fn columns(listing: &mut Listing, schema: &Schema, own: &[Field]) -> crate::Result<()> {
    let is_own = |field: &&Field| own.iter().any(|other| other.name == field.name);
    let wanted: Vec<&Field> = schema.fields().iter().filter(|field| !is_own(field)).collect();
    let mut found: HashMap<String, ColumnValues> = HashMap::new();
    for column in std::mem::take(&mut listing.columns) {
        if !wanted.iter().any(|field| field.name == column.name) {
            let names = wanted.iter().map(|field| field.name.as_str());
            let text = format!(
                "the table has a column `{}`, but the dataset has no such field, only {}",
                column.name.escape_debug(),
                some(names, wanted.len())
            );
            bail!(Note::new(text).with_hint("remove the column from the table"));
        }
        found.insert(column.name, column.values);
    }
    for field in wanted {
        let name = field.name.escape_debug();
        let values = found.remove(&field.name).with_context(|| {
            format!("the table of labels has no column `{name}`, but the dataset has a field of this name")
        })?;
        let values = match (field.kind, field.dtype, values) {
            (FieldKind::Scalar, Some(Dtype::Bool), values @ ColumnValues::Bool(_))
            | (FieldKind::Scalar, Some(Dtype::I64), values @ ColumnValues::Int(_))
            | (FieldKind::Scalar, Some(Dtype::F64), values @ ColumnValues::Float(_))
            | (FieldKind::Text, None, values @ ColumnValues::Text(_))
            | (FieldKind::Json, None, values @ ColumnValues::Json(_)) => values,
            (FieldKind::Scalar, Some(Dtype::F64), ColumnValues::Int(whole)) => {
                if let Some(large) = whole.iter().find(|value| value.unsigned_abs() > 1 << 53) {
                    bail!("column `{name}`: the dataset stores it as float64, which cannot represent {large} exactly");
                }
                #[allow(clippy::cast_precision_loss, reason = "at most 53 bits, checked above")]
                ColumnValues::Float(whole.into_iter().map(|value| value as f64).collect())
            }
            (kind, dtype, values) => {
                let expected = match kind {
                    FieldKind::Json => "lists or objects",
                    _ => dtype.map_or("text", Dtype::name),
                };
                bail!("column `{name}`: the dataset stores {expected}, but the new values are {}", values.type_name())
            }
        };
        listing.columns.push(shardpack_sources::TableColumn { name: field.name.clone(), values });
    }
    Ok(())
}

/// Fails if samples have values that would be lost because the dataset has no field for them.
pub(super) fn refuse_more(listing: &Listing, schema: &Schema, options: &PackOptions) -> crate::Result<()> {
    let has = |name: &str| schema.fields().iter().any(|field| field.name == name);
    let refuse = |what: &str, field: &str, keys: Vec<&str>| match keys.len() {
        0 => Ok(()),
        count => {
            let text = format!(
                "the dataset has no field `{field}`, but {count} of {} new samples have {what}: {}",
                listing.samples.len(),
                some(keys.into_iter(), count)
            );
            let hint = "pack the new samples into another dataset, and load both datasets with `concat`";
            bail!(Note::new(text).with_hint(hint))
        }
    };
    let keys = |of: &dyn Fn(&shardpack_sources::SourceSample) -> bool| {
        listing.samples.iter().filter(|entry| of(entry)).map(|entry| entry.key.as_str()).collect()
    };
    if !has("icc") && options.pictures.takes_profiles_out() {
        refuse("a colour profile", "icc", keys(&has_profile))?;
    }
    if !has("mask") {
        refuse("a mask", "mask", keys(&|entry| entry.mask.is_some()))?;
    }
    // Training would treat a missing mask as pixels of class 0.
    let wanting: Vec<&str> = keys(&|entry| entry.mask.is_none());
    let has_masks = schema.fields().iter().any(|field| field.name == "mask" && field.kind == FieldKind::Array);
    if has_masks && !wanting.is_empty() {
        let count = wanting.len();
        let text = format!(
            "the dataset has a mask for each sample, but {count} of {} new samples have none: {}",
            listing.samples.len(),
            some(wanting.into_iter(), count)
        );
        let hint = Hint::new("pass a mask for each new sample with ").and([Setting::any("masks", "DIR")]);
        bail!(Note::new(text).with_hint(hint));
    }
    Ok(())
}

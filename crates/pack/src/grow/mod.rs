//! Grows and shrinks datasets. Each change creates a new generation, and older generations do not change (spec
//! §3.5).
//!
//! [`add`] packs new files with the dataset's recipe. [`remove`] removes samples. [`compact`] deletes older
//! generations, and with them the bytes of removed samples.
//! [`Collector::append`](crate::collect::Collector::append) adds samples from a program. [`add_indexes`] adds
//! segment indexes to the pictures of a dataset, and [`add_columns`] adds fields to its samples.

mod add;
mod add_options;
mod columns;
mod equal_columns;
mod fit;
mod held;
mod new_columns;
mod recipe;
mod remove;
mod rewritten_records;
mod segments;
#[cfg(test)]
mod tests;
mod whole_record;

pub use add::{AddReport, add};
pub use add_options::{AddOptions, OnKnownKey};
pub use columns::{ColumnsReport, add_columns};
pub use new_columns::{NewColumn, NewColumns};
pub use remove::{CompactReport, RemoveReport, RewriteOptions, compact, remove};
pub use segments::{IndexReport, add_indexes};

use shardpack_format::{Field, Manifest, Note, generation_of_name};
use shardpack_io::{Folder, Storage as _};
use shardpack_reader::{Dataset, DatasetOptions, Limits, Scalar};
use shardpack_recipe::MAX_BYTES;
use shardpack_sources::words::plural;
use shardpack_writer::Output;
use std::collections::{BTreeSet, HashSet};

/// Returns the default limits of everything that changes a dataset. A sample that could be added can also be removed.
pub(crate) fn default_limits() -> Limits {
    Limits { max_record_bytes: MAX_BYTES, max_decoded_bytes: MAX_BYTES, ..Limits::default() }
}

pub(crate) fn open(dataset: &Output, limits: &Limits) -> shardpack_reader::Result<Dataset> {
    open_with(dataset, &DatasetOptions::new().limits(limits.clone()))
}

fn open_with(dataset: &Output, options: &DatasetOptions) -> shardpack_reader::Result<Dataset> {
    match dataset.storage() {
        Some(storage) => options.open_in(storage),
        None => options.open(dataset.path()),
    }
}

/// Opens the generation before the newest samples were added or removed: the newest of the older ones that has another
/// number of samples. Returns `None` if it never existed, or if compacting has deleted it.
///
/// It is not always the generation before the newest. A killed run may have left shards of the next generation in a
/// store, or even its manifest, so that the run on another machine used a later number.
pub(crate) fn before(dataset: &Output, newest: &Dataset, limits: &Limits) -> Option<Dataset> {
    let names = match dataset.storage() {
        Some(storage) => storage.names(),
        None => Folder::open(dataset.path(), false).and_then(|folder| folder.names()),
    };
    let older = |name: &String| generation_of_name(name).filter(|&number| number < newest.generation());
    let older: BTreeSet<u32> = names.ok()?.iter().filter_map(older).collect();
    let options = DatasetOptions::new().limits(limits.clone());
    let mut older =
        older.into_iter().rev().filter_map(|n| open_with(dataset, &options.clone().generation(Some(n))).ok());
    older.find(|older| older.dataset_id() == newest.dataset_id() && older.len() != newest.len())
}

/// Returns true if the dataset has all of these keys or, if `are_there` is false, none of them.
fn all_held<'k>(
    dataset: &Dataset,
    keys: impl IntoIterator<Item = &'k &'k str>,
    are_there: bool,
) -> crate::Result<bool> {
    for key in keys {
        if dataset.by_key(key)?.is_some() != are_there {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the classes that have no samples but keep their names and numbers (spec §3.5). Returns an empty list
/// if the labels cannot be read, because `verify` reports that.
fn empty_classes(newest: &Dataset) -> Vec<String> {
    let (Some(classes), Ok(labels)) = (newest.classes(), newest.labels()) else { return Vec::new() };
    let used: HashSet<i64> = labels.into_iter().collect();
    (0..).zip(classes).filter(|(number, _)| !used.contains(number)).map(|(_, name)| name.clone()).collect()
}

/// Returns a note about skipped samples. `first` describes the first one.
pub(crate) fn other_samples(count: u64, first: &str) -> String {
    let samples = plural(count, "sample");
    format!("skipped {samples}, although the dataset has different content for the same key (first: {first})")
}

/// Formats a scalar for messages. Also used for comparisons in which NaN must equal NaN.
pub(crate) fn scalar_words(value: Option<Scalar>) -> String {
    match value {
        Some(Scalar::Bool(value)) => value.to_string(),
        Some(Scalar::Signed(value)) => value.to_string(),
        Some(Scalar::Unsigned(value)) => value.to_string(),
        Some(Scalar::Float(value)) => value.to_string(),
        None => "nothing".to_owned(),
    }
}

/// Fails if the dataset has added columns, because new samples would have no values for them.
pub(crate) fn refuse_columns(base: &Manifest) -> Result<(), Note> {
    let added: Vec<&Field> = base.columns.iter().flat_map(|columns| columns.schema.fields()).collect();
    if added.is_empty() {
        return Ok(());
    }
    let names = some(added.iter().map(|field| field.name.as_str()), added.len());
    let text = format!(
        "the dataset has columns that were added later ({names}), so no samples can be added to it: they would have no \
         values for these columns"
    );
    Err(Note::new(text).with_hint(
        "write the new samples to another dataset, add the same columns to it, and load both datasets with `concat`",
    ))
}

fn some<'a>(names: impl Iterator<Item = &'a str>, count: usize) -> String {
    let shown: Vec<String> = names.take(SHOWN).map(|name| format!("`{}`", name.escape_debug())).collect();
    let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

const SHOWN: usize = 5;

//! Removes samples from a dataset, and deletes older generations.

use super::rewritten_records::RewrittenRecords;
use super::whole_record::{ShardRecords, kept_sample};
use super::{all_held, before, default_limits, empty_classes, open, some};
use crate::bail;
use crate::encode::FidelityTotals;
use crate::pack::default_memory;
use serde::Serialize;
use shardpack_format::{Limits, Metadata, Note};
use shardpack_reader::Dataset;
use shardpack_writer::{Compacted, Growth, Next, Output, Plan, Progress, Tally as _, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of [`remove`], [`add_indexes`](super::add_indexes) and [`add_columns`](super::add_columns), which write a
/// generation from the samples of the dataset.
///
/// ```
/// use shardpack_pack::grow::{AddOptions, RewriteOptions};
/// assert!(!RewriteOptions::default().force);
/// assert_eq!(RewriteOptions::default().limits, AddOptions::default().limits);
/// ```
#[derive(Clone)]
pub struct RewriteOptions<'a> {
    /// Drop the unfinished result of an interrupted addition or removal. Default: false.
    pub force: bool,
    /// Number of threads. Default: all cores.
    pub threads: usize,
    /// Limits on the sizes that the dataset's files may declare. Default: as in [`AddOptions`](super::AddOptions).
    pub limits: Limits,
    /// Progress callback, called about ten times a second.
    pub on_progress: Option<&'a dyn Fn(&Progress)>,
    /// Cancels the run when set.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for RewriteOptions<'_> {
    fn default() -> Self {
        let threads = shardpack_io::cores();
        Self { force: false, threads, limits: default_limits(), on_progress: None, cancel: None }
    }
}

impl<'a> RewriteOptions<'a> {
    /// Returns the options for the writer. `largest` is the memory that the largest sample takes, in bytes.
    pub(super) fn to_write(&self, largest: u64) -> WriteOptions<'a> {
        WriteOptions {
            threads: self.threads.max(1),
            memory_bytes: default_memory(self.threads, largest),
            part: None,
            force: self.force,
            on_progress: self.on_progress,
            cancel: self.cancel,
        }
    }
}

impl std::fmt::Debug for RewriteOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RewriteOptions")
            .field("force", &self.force)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// The result of [`remove`]. Serialises to the object printed by `remove --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoveReport {
    /// Number of samples removed from the new generation.
    pub removed: u64,
    /// Number of samples in the new generation.
    pub samples: u64,
    /// Number of the new generation.
    pub generation: u32,
    /// Number of shards that were rewritten.
    pub shards: u32,
    /// Total size of the rewritten shards, in bytes.
    pub bytes_out: u64,
    /// Classes that have no samples left. Their names stay in the dataset.
    pub empty_classes: Vec<String>,
    /// Notes for the user.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Creates a new generation of the dataset in the folder `dataset` without the samples that have these keys.
/// Only the shards with these samples are rewritten. Older generations keep the samples until [`compact`]
/// deletes them. If the dataset has added columns, all shards are rewritten, with the columns in them.
///
/// An interrupted run leaves the dataset unchanged, and repeating the call continues the run. Repeating a call
/// that succeeded removes nothing.
///
/// # Errors
/// Fails if there is no dataset, if `keys` is empty or contains an unknown key, if no sample would be left, if
/// a record in an affected shard is damaged, or if the dataset cannot be written.
pub fn remove(
    dataset: impl Into<Output>,
    keys: &[String],
    options: &RewriteOptions<'_>,
) -> crate::Result<RemoveReport> {
    let dataset = &dataset.into();
    let growth = Growth::take(dataset.clone())?;
    let opened = open(dataset, &options.limits)?;
    let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    if keys.is_empty() {
        bail!("no keys to remove");
    }
    let is_done = || is_last_removal(dataset, &opened, &keys, options);
    let Some(leaving) = locate(&opened, &keys, is_done)? else {
        return Ok(report(0, &opened, 0, 0, Vec::new()));
    };
    if keys.len() as u64 == opened.len() {
        let text = format!("cannot remove all {} samples: a dataset must have at least one", keys.len());
        bail!(Note::new(text).with_hint("delete the folder instead"));
    }
    // The positions of the samples change, so columns files would no longer match. Store the columns in the shards.
    let stores_columns = !growth.manifest().columns.is_empty();
    let (mut shards, mut records, mut kept) = (Vec::new(), ShardRecords::default(), BTreeMap::new());
    let mut largest = 0;
    for (place, number) in (0..).zip(opened.shard_numbers()) {
        let shard = opened.shard(number)?;
        let gone = leaving.get(&number);
        if gone.is_none() && !stores_columns {
            kept.insert(place, FidelityTotals::of_shard(&shard));
            continue;
        }
        let mut samples = Vec::new();
        for record in (0..shard.len()).filter(|record| gone.is_none_or(|gone| !gone.contains(record))) {
            let sample = kept_sample(&shard, record)?;
            largest = largest.max(sample.record_bytes);
            samples.push(sample);
            records.0.push((Arc::clone(&shard), record));
        }
        shards.push((place, samples));
    }
    let base = growth.manifest();
    let source = RewrittenRecords::new(records, opened.schema(), &options.limits, 2);
    let metadata = Metadata {
        schema: opened.schema().clone(),
        classes: base.classes.clone(),
        recipe: base.shard_recipe(),
        shards: None,
    };
    let plan = Plan::anew(base, metadata, &shards)?;
    let write = options.to_write(largest.saturating_mul(2));
    let next = Next { kept, fidelity: &FidelityTotals::fidelity };
    let mut written = growth.write(&plan, &source, next, &write)?;
    if stores_columns {
        written.notes.push("all shards were rewritten: they now contain the columns that were added later".to_owned());
    }
    let newest = open(dataset, &options.limits)?;
    Ok(report(keys.len() as u64, &newest, written.shards, written.bytes_out, written.notes))
}

fn report(removed: u64, newest: &Dataset, shards: u32, bytes_out: u64, notes: Vec<String>) -> RemoveReport {
    let empty_classes = empty_classes(newest);
    let (samples, generation) = (newest.len(), newest.generation());
    RemoveReport { removed, samples, generation, shards, bytes_out, empty_classes, notes }
}

/// Returns true if the newest generation is the previous one without these keys, because the user repeated a
/// command that had already succeeded.
fn is_last_removal(
    dataset: &Output,
    opened: &Dataset,
    keys: &BTreeSet<&str>,
    options: &RewriteOptions<'_>,
) -> crate::Result<bool> {
    let Some(before) = before(dataset, opened, &options.limits) else { return Ok(false) };
    Ok(before.len() == opened.len() + keys.len() as u64 && all_held(&before, keys, true)?)
}

/// Finds the records with these keys, grouped by shard. Returns `None` if all of the keys have already been removed.
fn locate(
    opened: &Dataset,
    keys: &BTreeSet<&str>,
    is_done: impl Fn() -> crate::Result<bool>,
) -> crate::Result<Option<BTreeMap<usize, BTreeSet<u64>>>> {
    let (mut found, mut unknown) = (BTreeMap::<usize, BTreeSet<u64>>::new(), Vec::new());
    for key in keys {
        match opened.by_key(key)? {
            Some(index) => {
                let (number, record) = opened.locate(index)?;
                found.entry(number).or_default().insert(record);
            }
            None => unknown.push(*key),
        }
    }
    if found.is_empty() && is_done()? {
        return Ok(None);
    }
    let Some(first) = unknown.first() else { return Ok(Some(found)) };
    let like = opened.keys_like(first);
    let hint = match like.is_empty() {
        true => "list the keys with `shardpack ls`".to_owned(),
        false => format!(
            "check the spelling: similar keys in the dataset are {}",
            some(like.iter().map(String::as_str), like.len())
        ),
    };
    let text = format!(
        "{} of {} keys are not in the dataset, so nothing was removed: {}",
        unknown.len(),
        keys.len(),
        some(unknown.iter().copied(), unknown.len())
    );
    bail!(Note::new(text).with_hint(hint))
}

/// The result of [`compact`]. Serialises to the object printed by `compact --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactReport {
    /// Numbers of the deleted generations.
    pub generations: Vec<u32>,
    /// Shards that were deleted because the newest generation does not use them.
    pub shards: Vec<String>,
    /// Total size of the deleted shards, in bytes.
    pub bytes: u64,
    /// Classes that have no samples in the newest generation. Their names stay in the dataset.
    pub empty_classes: Vec<String>,
}

/// Deletes all older generations of the dataset in the folder `dataset`, with the shards that only they use.
/// Class names are kept.
///
/// # Errors
/// Fails if there is no dataset, if the newest generation is incomplete, or if an addition or removal is
/// unfinished.
pub fn compact(dataset: impl Into<Output>) -> crate::Result<CompactReport> {
    let dataset = &dataset.into();
    let Compacted { generations, shards, bytes, .. } = Growth::take(dataset.clone())?.compact()?;
    // The generations are gone, so a dataset that cannot be opened is no error here: `verify` reports it.
    let newest = open(dataset, &default_limits());
    let empty_classes = newest.as_ref().map(empty_classes).unwrap_or_default();
    Ok(CompactReport { generations, shards, bytes, empty_classes })
}

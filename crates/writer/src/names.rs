//! Names of the files in an output folder. The name of a file shows whether this crate wrote it. Only files of this
//! crate may be replaced or removed.

use crate::part::Part;
use shardpack_format::{bug, generation_of_shard_name, shard_name};

pub(crate) const MANIFEST_TEMPORARY: &str = ".manifest.json.tmp";
/// Name of the subfolder for the shards of the next generation.
pub(crate) const NEXT: &str = ".shardpack-next";
/// Name, in the folder of the next generation, of the manifest that the generation follows. Written only for a dataset
/// in a store, because there another machine may change the dataset before an interrupted run is repeated.
pub(crate) const BASE_NAME: &str = ".shardpack-base.json";
/// Name of the manifest while `force` removes a dataset. Other programs no longer see a dataset, but this file shows
/// that the remaining files are ours.
pub(crate) const RETIRED_NAME: &str = ".shardpack-retired.json";
/// Name that `shardpack salvage` gives to a damaged manifest.
pub(crate) const SET_ASIDE_NAME: &str = "manifest.json.damaged";
/// Name of the folder's lock file. The lock files of parts have a suffix.
pub(crate) const LOCK_NAME: &str = ".shardpack-lock";
/// Name of the file that stores the number of a spool. Consecutive runs with the same spool share this number.
pub(crate) const TOKEN_NAME: &str = ".shardpack-spool";

const JOURNAL_PREFIX: &str = ".shardpack-journal";
const JOURNAL_SUFFIX: &str = ".jsonl";

pub(crate) fn shard_count(shards: usize) -> u32 {
    u32::try_from(shards).unwrap_or_else(|_| bug("more shards than shard numbers"))
}

pub(crate) fn shard_temporary(number: u32) -> String {
    format!(".shard-{number:05}.tmp")
}

pub(crate) fn is_shard_temporary(name: &str) -> bool {
    let number = name.strip_prefix(".shard-").and_then(|n| n.strip_suffix(".tmp")).and_then(|n| n.parse().ok());
    number.is_some_and(|n| shard_temporary(n) == name)
}

/// Returns the number of a shard whose name comes from [`shard_name`].
pub(crate) fn shard_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix("shard-")?.strip_suffix(".shard")?.parse().ok()?;
    (shard_name(number) == name).then_some(number)
}

/// True for the name of a file that a later generation has written: a shard, or a columns file.
pub(crate) fn is_of_later_generation(name: &str) -> bool {
    generation_of_shard_name(name).is_some()
}

/// Returns the earliest generation that a shard with this name can belong to, or `None` if the name is not ours.
pub(crate) fn oldest_generation(name: &str) -> Option<u32> {
    generation_of_shard_name(name).or_else(|| shard_number(name).map(|_| 1))
}

pub(crate) fn journal_name(part: Option<Part>) -> String {
    format!("{JOURNAL_PREFIX}{}{JOURNAL_SUFFIX}", part.map(Part::suffix).unwrap_or_default())
}

pub(crate) fn journal_temporary(part: Option<Part>) -> String {
    format!("{}.tmp", journal_name(part))
}

pub(crate) fn is_journal_name(name: &str) -> bool {
    name.starts_with(JOURNAL_PREFIX) && name.ends_with(JOURNAL_SUFFIX)
}

pub(crate) fn is_journal_temporary(name: &str) -> bool {
    name.strip_suffix(".tmp").is_some_and(is_journal_name)
}

/// True if files with this name are always local, even if the dataset is in a store.
pub(crate) fn is_scratch(name: &str) -> bool {
    [MANIFEST_TEMPORARY, RETIRED_NAME, NEXT].contains(&name)
        || name == journal_name(None)
        || is_shard_temporary(name)
        || is_journal_temporary(name)
}

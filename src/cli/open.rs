//! Opening datasets for the commands that read.

use super::sniff;
use crate::place;
use anyhow::Context;
use shardpack_format::Limits;
use shardpack_reader::{Dataset, DatasetOptions};
use std::path::Path;

/// What the commands accept: records and decoded fields up to `max_record` bytes, defaults for the
/// rest.
pub(super) fn limits(max_record: u64) -> Limits {
    Limits { max_record_bytes: max_record, max_decoded_bytes: max_record, ..Limits::default() }
}

/// Opens a dataset, its manifest, or a lone shard, at a path or a URL.
pub(super) fn dataset(path: &Path, limits: &Limits) -> anyhow::Result<Dataset> {
    generation(path, limits, None)
}

/// The same, of this generation; of the newest if none is named.
pub(super) fn generation(path: &Path, limits: &Limits, generation: Option<u32>) -> anyhow::Result<Dataset> {
    sniff::check(path)?;
    let options = DatasetOptions::new().limits(limits.clone()).generation(generation);
    place::open(path, &options, &[]).context("cannot open the dataset")
}

/// As many threads as there are cores.
pub(super) fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

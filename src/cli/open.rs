//! Opens datasets for commands that read them.

use super::shared_args::FromStore;
use crate::place;
use crate::sniff;
use shardpack_format::Limits;
use shardpack_pack::Context;
use shardpack_reader::{Dataset, DatasetOptions};
use std::path::Path;

/// Opens a dataset, its manifest, or a single shard at a path or a URL. Opens the newest generation by default.
pub(super) fn generation(
    path: &Path,
    limits: &Limits,
    generation: Option<u32>,
    from: &FromStore,
) -> crate::Result<Dataset> {
    sniff::check(path)?;
    let options = DatasetOptions::new().limits(limits.clone()).generation(generation);
    place::open(path, &options, &from.settings()?).context("cannot open the dataset")
}

/// Returns the number of cores, the default number of threads.
pub(super) fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

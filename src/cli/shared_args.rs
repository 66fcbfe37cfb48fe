//! Arguments shared by several commands.

use crate::{place, read_limits, sniff};
use clap::Args;
use shardpack_pack::Context;
use shardpack_reader::{Dataset, DatasetOptions};
use shardpack_recipe::parse_size;
use std::path::PathBuf;

/// The dataset that a command reads.
#[derive(Debug, Args)]
pub(super) struct DatasetArgs {
    /// Folder or URL of a dataset, its manifest, or a single shard
    #[arg(id = "dataset", value_name = "DATASET")]
    pub path: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of the dataset, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
}

impl DatasetArgs {
    /// Opens the dataset. `max_record` is the size of the largest record or decoded field to accept, in bytes.
    pub(super) fn open(&self, max_record: u64) -> crate::Result<Dataset> {
        sniff::check(&self.path)?;
        let options = DatasetOptions::new().limits(read_limits(max_record)).generation(self.generation);
        place::open(&self.path, &options, &self.from.settings()?).context("cannot open the dataset")
    }
}

/// Options for reading from a store.
#[derive(Debug, Default, Args)]
pub(super) struct FromStore {
    /// Local folder that caches data from the store
    #[arg(long, value_name = "DIR", help_heading = "Object stores")]
    pub cache: Option<PathBuf>,
    /// Size limit of the cache [default: 100GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "cache", help_heading = "Object stores")]
    pub cache_bytes: Option<u64>,
}

impl FromStore {
    pub(super) fn settings(&self) -> crate::Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        if let Some(folder) = &self.cache {
            let folder = folder.to_str().with_context(|| format!("--cache: the path {folder:?} is not valid UTF-8"))?;
            settings.push(("cache".to_owned(), folder.to_owned()));
        }
        settings.extend(self.cache_bytes.map(|bytes| ("cache_bytes".to_owned(), bytes.to_string())));
        Ok(settings)
    }
}

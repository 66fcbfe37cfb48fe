//! Arguments that several commands share.

use clap::Args;
use shardpack_pack::Context;
use shardpack_recipe::parse_size;
use std::path::PathBuf;

/// How a dataset is read from a store.
#[derive(Debug, Default, Args)]
pub(super) struct FromStore {
    /// With a URL: folder of this machine that keeps what was read, for all processes
    #[arg(long, value_name = "DIR", help_heading = "Object stores")]
    pub cache: Option<PathBuf>,
    /// Most bytes in that folder [default: 100GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "cache", help_heading = "Object stores")]
    pub cache_bytes: Option<u64>,
}

impl FromStore {
    /// Returns the arguments as options of the store.
    pub(super) fn settings(&self) -> crate::Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        if let Some(folder) = &self.cache {
            let folder = folder.to_str().with_context(|| format!("cache: expected UTF-8, found {folder:?}"))?;
            settings.push(("cache".to_owned(), folder.to_owned()));
        }
        settings.extend(self.cache_bytes.map(|bytes| ("cache_bytes".to_owned(), bytes.to_string())));
        Ok(settings)
    }
}

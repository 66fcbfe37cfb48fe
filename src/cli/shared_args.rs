//! Arguments shared by several commands.

use clap::Args;
use shardpack_pack::Context;
use shardpack_recipe::parse_size;
use std::path::PathBuf;

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

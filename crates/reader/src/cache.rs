//! Drops a dataset's files from the page cache, so that the next pass reads from the disk.

use crate::dataset::Dataset;
use crate::error::Result;

impl Dataset {
    /// Asks the system to drop the cached pages of all shards, for benchmarks of cold reads. Does
    /// nothing on systems without such a call (all but Linux).
    ///
    /// # Errors
    /// As [`Dataset::shard`].
    pub fn drop_page_cache(&self) -> Result<()> {
        for number in 0..self.shards().len() {
            self.shard(number)?.file().handle()?.drop_cached();
        }
        Ok(())
    }
}

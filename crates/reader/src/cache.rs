//! The page cache: dropping a dataset's files from it, so that the next pass reads the disk.

use crate::dataset::Dataset;
use crate::error::Result;

impl Dataset {
    /// Asks the system to forget the cached pages of all shards: what a benchmark of cold reads
    /// needs. Where the system knows no such call (anything but Linux), nothing happens.
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

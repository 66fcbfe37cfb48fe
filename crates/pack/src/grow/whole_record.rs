//! Reads records with the values of their columns files (spec §3.6), for generations that rewrite shards.

use shardpack_format::Record;
use shardpack_reader::{Result, Shard};

/// Memory for a record and for its records in the columns files.
#[derive(Default)]
pub(super) struct WholeRecord {
    own: Vec<u8>,
    added: Vec<Vec<u8>>,
    scalars: Vec<u8>,
}

impl WholeRecord {
    /// Reads a record with all fields of [`Shard::schema`].
    pub(super) fn read(&mut self, shard: &Shard, record: u64) -> Result<Record<'_>> {
        let files = shard.columns_files();
        let mut whole = shard.record(record, &mut self.own)?;
        self.scalars.clear();
        self.scalars.extend(whole.scalars);
        self.added.resize_with(files.len(), Vec::new);
        for (file, bytes) in files.iter().zip(&mut self.added) {
            let added = file.record(record, bytes)?;
            self.scalars.extend(added.scalars);
            whole.fields.extend(added.fields);
        }
        Ok(Record { scalars: &self.scalars, ..whole })
    }
}

/// Returns the size of a record in all of its files, in bytes.
pub(super) fn bytes_in_files(shard: &Shard, record: u64) -> u64 {
    let bytes = |file: &Shard| file.index().row(record).map_or(0, |row| row.length);
    shard.columns_files().iter().map(bytes).fold(bytes(shard), u64::saturating_add)
}

//! Reads the records of a dataset with the values of their columns files (spec §3.6), for generations that are made
//! from them.

use shardpack_format::{Record, bug, to_usize};
use shardpack_reader::{Dataset, Result, Shard};
use shardpack_writer::KeptSample;
use std::borrow::Cow;
use std::sync::Arc;

/// Records of a dataset. The writer numbers them as samples, in this order.
#[derive(Default)]
pub(super) struct ShardRecords(pub(super) Vec<(Arc<Shard>, u64)>);

impl ShardRecords {
    /// Returns all records of the dataset.
    pub(super) fn all(opened: &Dataset) -> Result<Self> {
        let mut records = Vec::with_capacity(to_usize(opened.len()));
        for number in opened.shard_numbers() {
            let shard = opened.shard(number)?;
            records.extend((0..shard.len()).map(|record| (Arc::clone(&shard), record)));
        }
        Ok(Self(records))
    }

    pub(super) fn get(&self, sample: u64) -> (&Shard, u64) {
        let found = self.0.get(to_usize(sample)).map(|(shard, record)| (&**shard, *record));
        found.unwrap_or_else(|| bug("a record is not part of the plan"))
    }

    pub(super) fn key(&self, sample: u64) -> Cow<'_, str> {
        let (shard, record) = self.get(sample);
        Cow::Borrowed(shard.index().key(record).unwrap_or_default())
    }

    /// Returns the size of a record in all of its files, in bytes.
    pub(super) fn bytes_in_files(&self, sample: u64) -> u64 {
        let (shard, record) = self.get(sample);
        bytes_in_files(shard, record)
    }
}

/// Returns what a plan needs to know about a record that is rewritten.
pub(super) fn kept_sample(shard: &Shard, record: u64) -> Result<KeptSample> {
    let row = shard.row(record)?;
    Ok(KeptSample { sample_id: row.sample_id, record_bytes: bytes_in_files(shard, record), crc32: row.crc32 })
}

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

fn bytes_in_files(shard: &Shard, record: u64) -> u64 {
    let bytes = |file: &Shard| file.index().row(record).map_or(0, |row| row.length);
    shard.columns_files().iter().map(bytes).fold(bytes(shard), u64::saturating_add)
}

//! Test samples to write to stores, and the files that packing them into a folder must produce.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use shardpack_format::{Field, FieldKind, Metadata, RecordBuilder, Schema, StoredField};
use shardpack_store::StoreOptions;
use shardpack_writer::{
    Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource, WriteOptions, write_dataset,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const SAMPLES: u64 = 40;

/// Samples that consist of one repeated byte each. `salt` changes the bytes.
pub struct Bytes {
    schema: Schema,
    salt: u8,
    sample_bytes: u64,
    pub encoded: AtomicU64,
}

impl Bytes {
    pub fn new(salt: u8) -> Self {
        Self::of(salt, 1000)
    }

    /// Returns samples that fill shards of more than 64 KiB.
    pub fn large(salt: u8) -> Self {
        Self::of(salt, 20_000)
    }

    fn of(salt: u8, sample_bytes: u64) -> Self {
        let schema = Schema::new(vec![Field::stored("data", FieldKind::Bytes)]).unwrap();
        Self { schema, salt, sample_bytes, encoded: AtomicU64::new(0) }
    }

    pub fn plan(&self) -> Plan {
        let keys: Vec<String> = (0..SAMPLES).map(|n| format!("{n:03}-{}", self.salt)).collect();
        let (source_bytes, stored_bytes) = (self.sample_bytes, self.sample_bytes + 152);
        let samples = keys.iter().map(|key| PlanSample { key, source_bytes, stored_bytes, ..Default::default() });
        let metadata = Metadata { schema: self.schema.clone(), ..Default::default() };
        Plan::new(samples, metadata, PlanOptions { shard_bytes: 8192 * self.sample_bytes / 1000, ..Default::default() })
            .unwrap()
    }
}

impl SampleSource for Bytes {
    type Tally = ();
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        format!("{sample:03}-{}", self.salt).into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        2 * self.sample_bytes
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> shardpack_format::Result<Encoded<()>> {
        self.encoded.fetch_add(1, Ordering::Relaxed);
        let field = Some(StoredField::raw(self.sample_bytes));
        let mut builder = RecordBuilder::new(buffer, &self.schema, shard, sample, &self.key(sample), &[], &[field])?;
        builder.field_mut(0).fill(u8::try_from(sample).unwrap() ^ self.salt);
        let (record, frame) = builder.finish();
        Ok(Encoded::Record(EncodedSample {
            record,
            frame,
            scalars: Vec::new(),
            source_bytes: self.sample_bytes,
            tally: (),
        }))
    }
}

pub fn store_options() -> StoreOptions {
    StoreOptions { backoff: Duration::from_millis(1), ..StoreOptions::default() }
}

pub fn options() -> WriteOptions<'static> {
    WriteOptions { threads: 2, ..Default::default() }
}

pub fn expected(source: &Bytes) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    write_dataset(folder.path(), &source.plan(), source, &options()).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    files.map(|f| (f.file_name().into_string().unwrap(), std::fs::read(f.path()).unwrap())).collect()
}

pub fn assert_empty(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

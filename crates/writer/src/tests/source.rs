//! A source that generates samples from numbers.

use crate::{Encoded, EncodedSample, Plan, PlanOptions, PlanSample, SampleSource, Tally};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardpack_format::{Dtype, Field, FieldKind, Metadata, RecordBuilder, Schema, StoredField};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A floating-point sum. Its last bits depend on the order of addition, so the tests notice a wrong
/// order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sum(pub(crate) f64);

impl Tally for Sum {
    fn merge(&mut self, next: Self) {
        self.0 += next.0;
    }

    fn fidelity(&self) -> Map<String, Value> {
        [("image".to_owned(), json!({ "mean": self.0 }))].into_iter().collect()
    }
}

/// A source of `count` samples with a few hundred to a few thousand bytes each.
pub(crate) struct Numbers {
    pub(crate) count: u64,
    pub(crate) schema: Schema,
    pub(crate) keys: Vec<String>,
    pub(crate) skip: Vec<u64>,
    pub(crate) fail: Option<u64>,
    pub(crate) panic: Option<u64>,
    pub(crate) memory_bytes: u64,
    /// Total size of the samples that are being encoded now, and its peak.
    pub(crate) busy: AtomicU64,
    pub(crate) busy_peak: AtomicU64,
    pub(crate) encoded: AtomicU64,
}

impl Numbers {
    pub(crate) fn new(count: u64) -> Self {
        let fields = vec![Field::stored("image", FieldKind::Bytes), Field::scalar("label", Dtype::U16)];
        Self {
            count,
            schema: Schema::new(fields).unwrap(),
            keys: (0..count).map(|n| format!("class{}/{n:04}.bin", n % 3)).collect(),
            skip: Vec::new(),
            fail: None,
            panic: None,
            memory_bytes: 5000,
            busy: AtomicU64::new(0),
            busy_peak: AtomicU64::new(0),
            encoded: AtomicU64::new(0),
        }
    }

    pub(crate) fn bytes(sample: u64) -> u64 {
        100 + sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 3000
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let recipe = [("jpeg".to_owned(), json!("keep"))].into_iter().collect();
        let classes = Some(vec!["class0".into(), "class1".into(), "class2".into()]);
        Metadata { schema: self.schema.clone(), classes, recipe, shards: None }
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = PlanSample<'_>> + Clone {
        (0..self.count).zip(&self.keys).map(|(n, key)| PlanSample {
            key,
            source_bytes: Self::bytes(n),
            stored_bytes: Self::bytes(n) + 192,
            mtime_ns: 5,
            extra_digest: [0; 16],
        })
    }

    pub(crate) fn plan(&self, shard_bytes: u64) -> Plan {
        Plan::new(self.samples(), self.metadata(), PlanOptions { shard_bytes, shuffle: Some(7) }).unwrap()
    }
}

impl SampleSource for Numbers {
    type Tally = Sum;
    type Error = shardpack_io::Cause;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.keys[usize::try_from(sample).unwrap()].as_str().into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        self.memory_bytes
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<Sum>, Self::Error> {
        let busy = self.busy.fetch_add(self.memory_bytes, Ordering::SeqCst) + self.memory_bytes;
        self.busy_peak.fetch_max(busy, Ordering::SeqCst);
        self.encoded.fetch_add(1, Ordering::SeqCst);
        let result = self.encode_inner(sample, shard, buffer);
        self.busy.fetch_sub(self.memory_bytes, Ordering::SeqCst);
        result
    }
}

impl Numbers {
    fn encode_inner(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<Sum>, shardpack_io::Cause> {
        assert_ne!(Some(sample), self.panic, "planted");
        if Some(sample) == self.fail {
            return Err(std::io::Error::other("planted failure").into());
        }
        if self.skip.contains(&sample) {
            return Ok(Encoded::Skipped { reason: "planted skip".into() });
        }
        let bytes = Self::bytes(sample);
        let scalars = u16::try_from(sample % 3).unwrap().to_le_bytes();
        let field = Some(StoredField::raw(bytes));
        let mut record =
            RecordBuilder::new(buffer, &self.schema, shard, sample, &self.key(sample), &scalars, &[field]).unwrap();
        for (i, b) in record.field_mut(0).iter_mut().enumerate() {
            *b = (i as u64).wrapping_mul(sample + 1).to_le_bytes()[0];
        }
        let (record, frame) = record.finish();
        let tally = Sum(0.1 * f64::from(u32::try_from(sample).unwrap()));
        Ok(Encoded::Record(EncodedSample { record, frame, scalars: scalars.to_vec(), source_bytes: bytes, tally }))
    }
}

pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap())).collect()
}

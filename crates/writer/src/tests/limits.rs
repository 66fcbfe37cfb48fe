//! Checks that readers with default limits can open every dataset that was accepted, and that anything else is refused
//! before the first byte is written.

use super::said;
use super::source::files;
use crate::{Encoded, EncodedSample, Error, Plan, PlanOptions, PlanSample, SampleSource, WriteOptions, write_dataset};
use proptest::prelude::*;
use serde_json::{Value, json};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, FOOTER_BYTES, Field, FieldKind, Footer, Frame, Index, Limits, MAX_KEY_BYTES,
    Manifest, Metadata, Recipe, Record, RecordBuilder, Schema, StoredField, shard_name,
};
use std::borrow::Cow;
use tempfile::tempdir;

/// A source of samples with an array of this shape and a variable number of scalars.
struct Arrays {
    schema: Schema,
    keys: Vec<String>,
    shape: Vec<u64>,
}

impl SampleSource for Arrays {
    type Tally = ();
    type Error = shardpack_format::Error;

    fn key(&self, sample: u64) -> Cow<'_, str> {
        self.keys[usize::try_from(sample).unwrap()].as_str().into()
    }

    fn memory_bytes(&self, _: u64) -> u64 {
        1000
    }

    fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<()>, Self::Error> {
        let descriptor = ArrayDescriptor::plain(Dtype::U8, self.shape.clone());
        let decoded_bytes = descriptor.stored_bytes()?;
        let descriptor = descriptor.encode()?;
        // The bytes are not valid zstd, but only the layout is checked.
        let field = StoredField { codec: Codec::Zstd, stored_bytes: 9, decoded_bytes, descriptor: &descriptor };
        let scalars = vec![0; usize::try_from(self.schema.scalar_bytes()).unwrap()];
        let key = self.key(sample);
        let record = RecordBuilder::new(buffer, &self.schema, shard, sample, &key, &scalars, &[Some(field)])?;
        let (record, frame) = record.finish();
        Ok(Encoded::Record(EncodedSample { record, frame, scalars, source_bytes: 9, tally: () }))
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

fn read_back(dir: &std::path::Path) -> shardpack_format::Result<u64> {
    let limits = Limits::default();
    let files = files(dir);
    let manifest = Manifest::parse(&files["manifest.json"], &limits)?;
    let mut records = 0;
    for (number, entry) in (0..).zip(&manifest.shards) {
        let bytes = &files[&entry.name];
        assert_eq!(entry.name, shard_name(number));
        let tail = bytes.len() - usize::try_from(FOOTER_BYTES).unwrap();
        let footer = Footer::parse(&bytes[tail..], bytes.len() as u64, &limits)?;
        let index = bytes[usize::try_from(footer.index_offset).unwrap()..tail].to_vec();
        let index = Index::parse(index, &footer, &limits)?;
        manifest.check_shard(number, &footer, index.metadata())?;
        for i in 0..index.len() {
            let at = usize::try_from(index.row(i).unwrap().offset).unwrap();
            let record = Record::parse(&bytes[at..], &limits)?;
            index.check_record(i, number, &record, &limits)?;
            assert_eq!(Frame::parse(&bytes[at..])?, record.frame);
            records += 1;
        }
    }
    Ok(records)
}

/// Generates mostly small values, and sometimes values close to the limit.
fn beside(limit: usize, most: usize) -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..=most, 1 => limit.saturating_sub(2)..=limit + 2]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_accepted_is_read_by_default(
        scalars in beside(1023, 40),
        depth in beside(14, 8),
        nodes in beside(1 << 22, 1000),
        classes in prop::option::of(beside(1100, 30)),
        key_bytes in beside(usize::try_from(MAX_KEY_BYTES).unwrap(), 80),
        axis in prop_oneof![4 => 1_u64..50, 1 => (1_u64 << 31) - 3..(1 << 31) + 2],
        zero in any::<bool>(),
        count in 1_usize..12,
    ) {
        let mut fields = vec![Field::stored("cube", FieldKind::Array)];
        fields.extend((0..scalars).map(|i| Field::scalar(format!("x{i}"), Dtype::ALL[i % Dtype::ALL.len()])));
        let schema = Schema::new(fields).unwrap();
        let recipe: Recipe = [("deep".to_owned(), nested(depth)), ("long".to_owned(), json!(vec![0; nodes]))]
            .into_iter().collect();
        let classes = classes.map(|n| (0..n).map(|i| i.to_string()).collect());
        let metadata = Metadata { schema: schema.clone(), classes, recipe, shards: None };
        let keys: Vec<String> = (0..count).map(|i| format!("{i:0>key_bytes$}")).collect();
        // The source is responsible for the maximum size of a value. An axis of length 0 makes the array empty, so that
        // even a long axis takes no space.
        let shape = if zero || axis >= 50 { vec![axis, 0] } else { vec![axis] };
        let samples = keys.iter().map(|key| PlanSample { key, stored_bytes: 300, ..Default::default() });
        let dir = tempdir().unwrap();
        let options = PlanOptions { shard_bytes: 1000, shuffle: Some(1) };
        let source = Arrays { schema, keys: keys.clone(), shape };
        let written = Plan::new(samples, metadata, options)
            .and_then(|plan| write_dataset(dir.path(), &plan, &source, &WriteOptions::default()));
        match written {
            Ok(report) => prop_assert_eq!(read_back(dir.path()).unwrap(), report.samples),
            Err(error) => {
                // A shard that cannot be read must not have a final name.
                prop_assert!(files(dir.path()).keys().all(|name| name.starts_with('.')), "{}", error);
                prop_assert!(matches!(error, Error::Limit { .. } | Error::Format(_) | Error::Source { .. }), "{}", error);
                let within = scalars < 1024 && depth < 14 && nodes < 1 << 21 && key_bytes <= 4096 && axis < 1 << 31;
                prop_assert!(!within, "refused without need: {}", error);
            }
        }
    }
}

#[test]
fn a_refusal_names_the_quantity_and_the_limit() {
    let plan = |metadata| {
        let sample = PlanSample { key: "a", source_bytes: 1, stored_bytes: 1, ..Default::default() };
        said(&Plan::new([sample], metadata, PlanOptions::default()).unwrap_err())
    };
    let fields = (0..1100).map(|i| Field::scalar(format!("x{i}"), Dtype::U8)).collect();
    let wide = Metadata { schema: Schema::new(fields).unwrap(), ..Default::default() };
    let text = plan(wide);
    assert!(text.starts_with("number of fields: 1100 exceeds the limit of 1024\nhint: "), "{text}");
    let deep = Metadata { recipe: [("deep".to_owned(), nested(40))].into_iter().collect(), ..Default::default() };
    assert!(plan(deep).contains("nested too deeply"));
}

#[test]
fn an_index_that_no_reader_takes_is_refused_before_it_is_written() {
    // With 1,000 scalars of 8 bytes and 140,000 samples in one shard, the index would exceed 1 GiB.
    let fields = (0..1000).map(|i| Field::scalar(format!("x{i}"), Dtype::F64)).collect();
    let metadata = Metadata { schema: Schema::new(fields).unwrap(), ..Default::default() };
    let keys: Vec<String> = (0..140_000).map(|n| n.to_string()).collect();
    let samples = || keys.iter().map(|key| PlanSample { key, source_bytes: 1, stored_bytes: 1, ..Default::default() });
    let all = PlanOptions { shard_bytes: 1 << 30, shuffle: None };
    let error = Plan::new(samples(), metadata.clone(), all).unwrap_err();
    assert!(error.to_string().starts_with("number of index bytes in shard 0: "), "{error}");
    assert!(said(&error).ends_with("hint: choose smaller shards"), "{error}");
    let cut = PlanOptions { shard_bytes: 100_000, shuffle: None };
    assert!(Plan::new(samples(), metadata, cut).is_ok());
}

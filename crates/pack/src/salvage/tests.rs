use super::copy::guess_metadata;
use super::survey::gaps;
use super::*;
use crate::bounded;
use shardpack_format::{
    DatasetId, Dtype, Field, FieldKind, Footer, Identity, IndexBuilder, Limits, Metadata, Record, RecordBuilder,
    Schema, StoredField, shard_name,
};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Writes shards with these numbers and one sample each. They declare a total of `count` shards.
fn shards(folder: &Path, numbers: &[u32], count: u32) {
    let schema = Schema::new(vec![Field::stored("b", FieldKind::Bytes)]).unwrap();
    let metadata = Metadata { schema: schema.clone(), shards: Some(count), ..Metadata::default() };
    for &number in numbers {
        let identity = Identity::new(DatasetId([7; 16]), number);
        let key = format!("k{number}");
        let value = [Some(StoredField::raw(1))];
        let record = RecordBuilder::new(Vec::new(), &schema, number, u64::from(number), &key, &[], &value).unwrap();
        let (record, frame) = record.finish();
        let mut out = identity.encode_header().to_vec();
        let mut index = IndexBuilder::new(&schema);
        index.push(&frame, &key, &[]).unwrap();
        out.extend(record);
        let index = index.encode(&metadata.encode().unwrap()).unwrap();
        let footer = Footer {
            identity,
            record_count: 1,
            index_offset: out.len() as u64,
            index_bytes: index.len() as u64,
            index_crc32: crc32fast::hash(&index),
        };
        out.extend(index);
        out.extend(footer.encode());
        fs::write(folder.join(shard_name(number)), out).unwrap();
    }
}

fn scan(folder: &Path, limits: &Limits) -> Survey {
    let options = SalvageOptions { limits: limits.clone(), all_generations: true };
    Survey::scan(folder, &options, &AtomicBool::new(false)).unwrap()
}

#[test]
fn shards_that_are_said_to_be_four_thousand_million() {
    bounded::run(concat!(module_path!(), "::shards_that_are_said_to_be_four_thousand_million"), || {
        let folder = tempfile::tempdir().unwrap();
        shards(folder.path(), &[0, 3], u32::MAX);
        let survey = scan(folder.path(), &Limits::default());
        assert_eq!((survey.samples(), survey.lost.len()), (2, 0));
        let found = "the metadata lists 4294967295 shards, but at most 1000000 are allowed";
        assert_eq!(survey.damage.iter().filter(|damage| damage.ends_with(found)).count(), 2, "{:?}", survey.damage);
        // Even if the caller's limits allow this many shards, a run of missing shards is reported on one line.
        let survey = scan(folder.path(), &Limits::none());
        let lost = [
            "shards 1 to 2 of 4294967295: 2 whole shards are missing",
            "shards 4 to 4294967294 of 4294967295: 4294967291 whole shards are missing",
        ];
        assert_eq!(survey.lost, lost);
    });
}

#[test]
fn what_is_lost_is_listed_up_to_a_limit_and_counted_beyond() {
    let mut survey = Survey::default();
    (0..10_003).for_each(|number| survey.lose(number.to_string()));
    assert_eq!((survey.lost.len(), survey.lost_unlisted, survey.places_lost()), (10_000, 3, 10_003));
    assert_eq!(survey.lost.last().map(String::as_str), Some("9999"));
}

#[test]
fn missing_numbers_are_ranges() {
    let gaps = |count, there: &[u32]| -> Vec<(u32, u32)> {
        gaps(count, there.iter().copied().collect()).into_iter().map(|gap| (gap.start, gap.end)).collect()
    };
    assert_eq!(gaps(5, &[0, 1, 2, 3, 4, 9]), []);
    assert_eq!(gaps(5, &[]), [(0, 5)]);
    assert_eq!(gaps(8, &[7, 1, 2]), [(0, 1), (3, 7)]);
    assert_eq!(gaps(u32::MAX, &[0, u32::MAX - 1]), [(1, u32::MAX - 1)]);
}

#[test]
fn scalars_without_a_schema_are_fields_up_to_the_limit() {
    bounded::run(concat!(module_path!(), "::scalars_without_a_schema_are_fields_up_to_the_limit"), || {
        let guess = |scalars: u64| {
            let fields = (0..scalars / 8).map(|i| Field::scalar(format!("s{i}"), Dtype::F64)).collect();
            let schema = Schema::new(fields).unwrap();
            let packed = vec![0; usize::try_from(scalars).unwrap()];
            let record = RecordBuilder::new(Vec::new(), &schema, 0, 0, "k", &packed, &[]).unwrap().finish().0;
            let limits = Limits::default();
            guess_metadata(&Record::parse(&record, &limits).unwrap(), &limits)
        };
        assert_eq!(guess(1024).unwrap().schema.fields().len(), 1024);
        let error = guess(8_000_000).unwrap_err().to_string();
        assert!(
            error.ends_with("the record has 8000000 fields and scalar bytes, but at most 1024 are allowed"),
            "{error}"
        );
    });
}

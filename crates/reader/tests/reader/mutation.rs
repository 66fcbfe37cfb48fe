//! Tests random damage with recomputed CRC32s. The reader must return a result or an error, and
//! never panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::{fix_footer, fix_frame, fix_header, fix_index, fix_record, index_of, small_shard};
use proptest::prelude::*;
use shardpack_reader::{ArrayDecoder, Dataset, Limits, SalvageScan, VerifyOptions, verify};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn mutated_shards_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in 0..40_usize,
    ) {
        let original = small_shard(0..5);
        let (footer, index) = index_of(&original);
        let mut bytes = original.clone();
        for (at, value) in &edits {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        for record in 0..5 {
            let offset = index.row(record).unwrap().offset as usize;
            fix_record(&mut bytes, offset);
            fix_frame(&mut bytes, offset);
        }
        fix_header(&mut bytes);
        fix_index(&mut bytes, &footer);
        fix_footer(&mut bytes);
        if cut > 30 {
            let length = bytes.len();
            bytes.truncate(length - cut * 7);
        }
        let dir = crate::support::scratch();
        let path = dir.path().join("x.shard");
        std::fs::write(&path, &bytes).unwrap();
        let limits = Limits { max_record_bytes: 1 << 24, max_decoded_bytes: 1 << 24, ..Limits::default() };
        if let Ok(dataset) = Dataset::open(&path) {
            let mut decoder = ArrayDecoder::new();
            for i in 0..dataset.len() {
                let Ok(sample) = dataset.get(i) else { continue };
                for field in dataset.schema().fields() {
                    let _ = sample.scalar(&field.name);
                    let _ = sample.image(&field.name);
                    let _ = sample.text(&field.name);
                    let _ = sample.view().array(&field.name, &mut decoder);
                }
            }
            let _ = dataset.labels();
            let _ = dataset.by_key("class-0/sample-0000.png");
            let _ = dataset.get_many(&(0..dataset.len()).collect::<Vec<u64>>());
            dataset.iter().unwrap().for_each(drop);
        }
        let picture = |_: &str, _: &[u8]| Ok(());
        let options = VerifyOptions { limits: limits.clone(), deep: Some(&picture), threads: 1, ..VerifyOptions::default() };
        let report = verify(&path, &options).unwrap();
        if bytes == original {
            prop_assert!(report.is_whole(), "{:?}", report.problems);
        }
        SalvageScan::open(&path, &limits).unwrap().for_each(drop);
    }
}

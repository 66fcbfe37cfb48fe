//! Tests hostile and broken shards and manifests: files (cases T), lengths (L), structure (S) and
//! names (N).
//!
//! The structure cases recompute the CRC32s, so that the reader must refuse the structure itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod files;
mod lengths;
mod names;
mod structure;

use crate::support::{error_kind, fix_index, index_of, small_shard};
use shardpack_format::{ErrorKind, Explain as _};
use shardpack_reader::{Error, Limits, SalvageScan, Salvaged, Shard, ShardOptions};
use std::path::Path;

fn open_bytes(dir: &Path, bytes: &[u8]) -> Result<Shard, Error> {
    let path = dir.join("x.shard");
    std::fs::write(&path, bytes).unwrap();
    Shard::open(&path, ShardOptions::default())
}

fn read_all(dir: &Path, bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let shard = open_bytes(dir, bytes)?;
    let mut buffer = Vec::new();
    (0..shard.len())
        .map(|i| {
            let record = shard.record(i, &mut buffer)?;
            let mut values = record.scalars.to_vec();
            record.fields.iter().flatten().for_each(|f| values.extend(f.bytes));
            Ok((record.key.to_owned(), values))
        })
        .collect()
}

fn salvaged_ids(dir: &Path, bytes: &[u8]) -> Vec<u64> {
    let path = dir.join("x.shard");
    std::fs::write(&path, bytes).unwrap();
    let scan = SalvageScan::open(&path, &Limits::default()).unwrap();
    scan.filter_map(|found| match found {
        Salvaged::Whole(record) => Some(record.frame.sample_id),
        Salvaged::Lost(_) => None,
    })
    .collect()
}

fn assert_format<T: std::fmt::Debug>(result: Result<T, Error>, context: &str) -> String {
    match result {
        Err(e) if e.kind() == ErrorKind::Format => e.to_string(),
        other => panic!("{context}: expected a format error, found {other:?}"),
    }
}

fn is_about_data<T>(result: &Result<T, Error>) -> bool {
    error_kind(result).is_some_and(ErrorKind::is_about_data)
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, context: &str) {
    assert!(is_about_data(&result), "{context}: {result:?}");
}

type EditRow<'a> = &'a dyn Fn(usize, &mut u64, &mut u64);

/// Returns a shard after `edit` has changed the offset and length of each index row.
fn with_rows(edit: impl Fn(usize, &mut u64, &mut u64)) -> Vec<u8> {
    let mut bytes = small_shard(0..3);
    let (footer, index) = index_of(&bytes);
    let start = footer.index_offset as usize;
    let metadata_bytes = u64::from_le_bytes(bytes[start + 16..start + 24].try_into().unwrap());
    // Spec §2.3: the index consists of 64 bytes, the metadata, the offsets and the lengths, each padded to a
    // multiple of 64.
    let offsets = start + 64 + metadata_bytes.next_multiple_of(64) as usize;
    for record in 0..3 {
        let row = index.row(record as u64).unwrap();
        let (mut offset, mut length) = (row.offset, row.length);
        assert_eq!(bytes[offsets + 8 * record..][..8], offset.to_le_bytes());
        edit(record, &mut offset, &mut length);
        bytes[offsets + 8 * record..][..8].copy_from_slice(&offset.to_le_bytes());
        bytes[offsets + 64 + 8 * record..][..8].copy_from_slice(&length.to_le_bytes());
    }
    fix_index(&mut bytes, &footer);
    bytes
}

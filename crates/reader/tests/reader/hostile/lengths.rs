//! Tests that wrong lengths, offsets and counts are rejected (cases L).

use super::{assert_format, is_about_data, open_bytes, read_all, salvaged_ids, with_rows};
use crate::support::{self, error_kind, fix_footer, fix_index, fix_record, index_of, small_shard};
use shardpack_format::ErrorKind;
use shardpack_reader::{Limits, Shard, ShardOptions, VerifyOptions, verify};

const HOSTILE: [u64; 10] =
    [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX, u64::MAX - 7];

#[test]
fn l01_every_length_field_takes_every_hostile_value() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let (footer, index) = index_of(&bytes);
    let length = bytes.len() as u64;
    let values = HOSTILE.into_iter().chain([length, length - 1, length + 1]);
    let end = bytes.len() - 128;
    let index_at = footer.index_offset as usize;
    for value in values {
        let put = |at: usize| {
            let mut bytes = bytes.clone();
            let same = bytes[at..at + 8] == value.to_le_bytes();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            (bytes, same)
        };
        // Offsets in the footer: file bytes, record count, index offset and index bytes.
        for at in [end + 64, end + 72, end + 80, end + 88] {
            let (mut bytes, same) = put(at);
            fix_footer(&mut bytes);
            assert!(same || is_about_data(&open_bytes(dir.path(), &bytes)));
            salvaged_ids(dir.path(), &bytes);
        }
        // Offsets in the index: record count, metadata bytes, key bytes, and every row of every column.
        for at in [8, 16, 24].map(|at| index_at + at).into_iter().chain((index_at + 64..end).step_by(8)) {
            let (mut bytes, same) = put(at);
            fix_index(&mut bytes, &footer);
            let metadata = index_at + 64..index_at + 64 + 512;
            let result = read_all(dir.path(), &bytes);
            assert!(
                same || metadata.contains(&at) || is_about_data(&result),
                "index byte {}, value {value:#x}: {result:?}",
                at - index_at
            );
        }
        // Offsets in the frame: record bytes and head bytes. In the field table: stored bytes and decoded bytes.
        let offset = index.row(1).unwrap().offset as usize;
        for at in [16, 24, 72, 80, 96, 104].map(|at| offset + at) {
            let (mut bytes, same) = put(at);
            fix_record(&mut bytes, offset);
            let result = read_all(dir.path(), &bytes);
            assert!(same || error_kind(&result) == Some(ErrorKind::Format), "record byte {}: {result:?}", at - offset);
            salvaged_ids(dir.path(), &bytes);
        }
    }
}

#[test]
fn l02_offset_plus_length_wraps() {
    let dir = support::scratch();
    for (offset, length) in [(u64::MAX - 15, 32), (64, u64::MAX - 63), (64, u64::MAX), (u64::MAX - 63, 64)] {
        let bytes = with_rows(|i, o, l| {
            if i == 0 {
                (*o, *l) = (offset, length);
            }
        });
        assert!(assert_format(open_bytes(dir.path(), &bytes), "wrap").contains("record range"));
    }
}

#[test]
fn l03_record_count_times_entry_wraps() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let (footer, _) = index_of(&bytes);
    for count in [1 << 61, u64::MAX / 8 + 1, 1 << 31, 4, 1_000_000] {
        let mut bytes = bytes.clone();
        let (start, end) = (footer.index_offset as usize, bytes.len() - 128);
        bytes[start + 8..start + 16].copy_from_slice(&count.to_le_bytes());
        bytes[end + 72..end + 80].copy_from_slice(&count.to_le_bytes());
        fix_index(&mut bytes, &footer);
        let limits = Limits { max_records: u64::MAX, ..Limits::default() };
        let path = dir.path().join("x.shard");
        std::fs::write(&path, &bytes).unwrap();
        assert_format(Shard::open(&path, ShardOptions { limits, check_crc: true }), &format!("{count} records"));
    }
}

#[test]
fn l08_index_that_overlaps_something() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let (footer, _) = index_of(&bytes);
    let end = bytes.len() - 128;
    let moves = [(-64_i64, 0_i64), (64, 0), (0, 64), (0, -64), (-64, 64), (64, -64), (0, 1), (-1, 1), (0, 128)];
    for (offset, length) in moves {
        let mut bytes = bytes.clone();
        let (offset, length) =
            (footer.index_offset.strict_add_signed(offset), footer.index_bytes.strict_add_signed(length));
        bytes[end + 80..end + 88].copy_from_slice(&offset.to_le_bytes());
        bytes[end + 88..end + 96].copy_from_slice(&length.to_le_bytes());
        if let Some(index) = bytes.get(offset as usize..(offset + length) as usize) {
            let crc = crc32fast::hash(index);
            bytes[end + 96..end + 100].copy_from_slice(&crc.to_le_bytes());
        }
        fix_footer(&mut bytes);
        assert_format(open_bytes(dir.path(), &bytes), &format!("index at {offset} + {length}"));
    }
}

#[test]
fn l09_lengths_stored_twice_must_agree() {
    let dir = support::scratch();
    // The length in the frame differs from the index, but the record still ends within its padding, so the next
    // record stays in place.
    for change in [-1_i64, 1] {
        let mut bytes = small_shard(0..3);
        let (_, index) = index_of(&bytes);
        let row = index.row(1).unwrap();
        let at = row.offset as usize;
        let length = row.length.strict_add_signed(change);
        bytes[at + 16..at + 24].copy_from_slice(&length.to_le_bytes());
        fix_record(&mut bytes, at);
        let error = assert_format(read_all(dir.path(), &bytes), "frame against index");
        assert!(error.contains("size of the record in bytes: expected"), "{error}");
        let report = verify(dir.path().join("x.shard"), &VerifyOptions::default()).unwrap();
        assert_eq!(report.damaged_samples, 1);

        let bytes = with_rows(|i, _, length| {
            if i == 1 {
                *length = length.strict_add_signed(change);
            }
        });
        assert_format(read_all(dir.path(), &bytes), "index against frame");
    }
}

//! Tests that records and tables that contradict each other are rejected (cases S).

use super::{EditRow, assert_format, open_bytes, read_all, salvaged_ids, with_rows};
use crate::support::{
    self, ID, OnDisk, TestSample, fix_footer, fix_frame, fix_header, fix_index, index_of, small_shard,
};
use shardpack_format::*;
use shardpack_reader::{Dataset, VerifyOptions, verify};

#[test]
fn s01_records_that_overlap() {
    let dir = support::scratch();
    let edits: [EditRow<'_>; 4] = [
        &|i, offset, _| *offset -= u64::from(i == 1),
        &|i, _, length| *length += if i == 0 { 64 } else { 0 },
        &|_, offset, _| *offset = 64,
        &|i, offset, length| {
            if i == 1 {
                (*offset, *length) = (128, 64);
            }
        },
    ];
    for edit in edits {
        assert!(assert_format(open_bytes(dir.path(), &with_rows(edit)), "overlap").contains("record range"));
    }
}

#[test]
fn s02_holes_between_records() {
    let dir = support::scratch();
    // Insert 64 bytes before the first record, and shift all offsets so that only the gap is wrong.
    for fill in [0_u8, 0x5A] {
        let mut bytes = small_shard(0..3);
        bytes.splice(64..64, [fill; 64]);
        let end = bytes.len() - 128;
        let (length, old) = (bytes.len() as u64, u64::from_le_bytes(bytes[end + 80..end + 88].try_into().unwrap()));
        bytes[end + 64..end + 72].copy_from_slice(&length.to_le_bytes());
        bytes[end + 80..end + 88].copy_from_slice(&(old + 64).to_le_bytes());
        fix_footer(&mut bytes);
        assert_format(open_bytes(dir.path(), &bytes), "rows not moved");
    }
    let bytes = with_rows(|_, offset, _| *offset += 64);
    assert_format(open_bytes(dir.path(), &bytes), "rows moved");
    let mut bytes = small_shard(0..3);
    let row = index_of(&bytes).1.row(1).unwrap();
    assert_ne!(row.length % 64, 0);
    bytes[(row.offset + row.length) as usize] = 1;
    assert!(assert_format(read_all(dir.path(), &bytes), "padding").contains("padding after the record"));
}

#[test]
fn s03_rows_that_point_elsewhere() {
    let dir = support::scratch();
    let (footer, _) = index_of(&small_shard(0..3));
    let length = footer.file_bytes();
    for target in [0, 32, footer.index_offset, footer.index_offset + footer.index_bytes, length, length + 64] {
        let bytes = with_rows(|i, offset, _| {
            if i == 2 {
                *offset = target;
            }
        });
        assert_format(open_bytes(dir.path(), &bytes), &format!("row to {target}"));
    }
    let bytes = with_rows(|i, offset, length| {
        if i == 2 {
            (*offset, *length) = (footer.file_bytes(), 0);
        }
    });
    assert_format(open_bytes(dir.path(), &bytes), "at the end, empty");
}

#[test]
fn s04_rows_out_of_order() {
    let dir = support::scratch();
    let (_, index) = index_of(&small_shard(0..3));
    let bytes = with_rows(|i, offset, length| {
        let row = index.row(2 - i as u64).unwrap();
        (*offset, *length) = (row.offset, row.length);
    });
    assert_format(open_bytes(dir.path(), &bytes), "reversed");
}

#[test]
fn s05_no_records() {
    let disk = OnDisk::new(&[0]);
    let dataset = Dataset::open(disk.path()).unwrap();
    assert!(dataset.is_empty());
    assert!(dataset.stream().unwrap().next_record().is_none());
    assert_eq!(dataset.labels().unwrap(), [0_i64; 0]);
    assert_eq!(dataset.by_key("x").unwrap(), None);
    assert!(verify(disk.path(), &VerifyOptions { digest: true, ..Default::default() }).unwrap().is_whole());
    assert!(Dataset::open(OnDisk::new(&[]).path()).unwrap().is_empty());
}

#[test]
fn s08_feature_bits() {
    let dir = support::scratch();
    let samples = [TestSample::new(0)];
    let optional = Identity { optional_features: 1 << 40, ..Identity::new(ID, 0) };
    assert_eq!(read_all(dir.path(), &support::shard(optional, &samples)).unwrap().len(), 1);
    let minor = Identity { minor: 9, ..Identity::new(ID, 0) };
    assert_eq!(read_all(dir.path(), &support::shard(minor, &samples)).unwrap().len(), 1);
    let required = Identity { required_features: 1, ..Identity::new(ID, 0) };
    let error = assert_format(open_bytes(dir.path(), &support::shard(required, &samples)), "required");
    assert!(error.contains("features that this version of shardpack does not support"), "{error}");
    let bytes = small_shard(0..1);
    let mut header = bytes.clone();
    header[56] = 1;
    fix_header(&mut header);
    assert_format(open_bytes(dir.path(), &header), "header");
    let mut footer = bytes.clone();
    let end = footer.len() - 128;
    footer[end + 104] = 1;
    fix_footer(&mut footer);
    assert_format(open_bytes(dir.path(), &footer), "footer");
    let mut frame = bytes;
    frame[64 + 50] = 1;
    fix_frame(&mut frame, 64);
    assert_format(read_all(dir.path(), &frame), "frame");
}

#[test]
fn s11_nothing_between_header_and_footer() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let mut state = 1_u64;
    for _ in 0..500 {
        let mut noise = bytes.clone();
        let end = noise.len() - 128;
        for byte in &mut noise[64..end] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
        assert_format(open_bytes(dir.path(), &noise), "noise");
        let footer = index_of(&bytes).0;
        fix_index(&mut noise, &footer);
        assert_format(open_bytes(dir.path(), &noise), "noise with its CRC32");
        assert!(salvaged_ids(dir.path(), &noise).is_empty());
    }
}

//! Hostile and broken shards and manifests: the cases T, L, S and N of the list of hostile inputs, by their numbers.
//!
//! Where a case is about structure the CRC32s are recomputed, so that the structure is what is refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod support;

use shardpack_format::*;
use shardpack_reader::{
    Dataset, DatasetOptions, Error, Limits, SalvageScan, Salvaged, Shard, ShardOptions, VerifyOptions, verify,
};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{
    ID, OnDisk, TestSample, fix_footer, fix_frame, fix_header, fix_index, fix_record, index_of, small_shard,
};

/// A file with these bytes, opened as a shard.
fn open_bytes(dir: &Path, bytes: &[u8]) -> Result<Shard, Error> {
    let path = dir.join("x.shard");
    std::fs::write(&path, bytes).unwrap();
    Shard::open(&path, ShardOptions::default())
}

/// The key and bytes of every record, or the first error.
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
        Err(e @ Error::Format(_)) => e.to_string(),
        other => panic!("{context}: expected a format error, found {other:?}"),
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, context: &str) {
    assert!(matches!(result, Err(Error::Format(_) | Error::Limit(_))), "{context}: {result:?}");
}

#[test]
fn t01_cut_at_every_length() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let (_, index) = index_of(&bytes);
    for length in 0..bytes.len() {
        let error = assert_format(open_bytes(dir.path(), &bytes[..length]), &format!("{length} bytes"));
        assert!(error.contains("truncated") && error.contains("x.shard"), "{length} bytes: {error}");
        let whole_before = |i: &u64| {
            let row = index.row(*i).unwrap();
            (row.offset + row.length) as usize <= length
        };
        let expected: Vec<u64> = (0..3).filter(whole_before).collect();
        assert_eq!(salvaged_ids(dir.path(), &bytes[..length]), expected, "{length} bytes");
    }
}

#[test]
fn t03_every_single_bit() {
    let dir = support::scratch();
    let bytes = small_shard(0..2);
    assert!(bytes.len() <= 4096, "{}", bytes.len());
    read_all(dir.path(), &bytes).unwrap();
    let mut flipped = bytes.clone();
    for bit in 0..8 * bytes.len() {
        flipped[bit / 8] ^= 1 << (bit % 8);
        // No bit may be flipped unnoticed: the list of those that may be is empty.
        assert_refused(read_all(dir.path(), &flipped), &format!("bit {bit}"));
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn t05_torn_and_misdirected_writes() {
    let dir = support::scratch();
    let bytes = small_shard(0..40);
    let (footer, index) = index_of(&bytes);
    let whole = read_all(dir.path(), &bytes).unwrap();
    for block in [512_usize, 4096] {
        for (start, fill) in (0..bytes.len() - block).step_by(block).zip([0_u8, 0xFF, 1].into_iter().cycle()) {
            let mut torn = bytes.clone();
            if fill == 1 {
                let elsewhere = (start + 5 * block) % (bytes.len() - block) / 64 * 64;
                torn.copy_within(elsewhere..elsewhere + block, start);
            } else {
                torn[start..start + block].fill(fill);
            }
            if torn == bytes {
                continue;
            }
            assert_refused(read_all(dir.path(), &torn), &format!("{block} bytes at {start}"));
            if start < 64 || start + block > footer.index_offset as usize {
                continue;
            }
            // What was not hit can still be read one by one.
            let shard = open_bytes(dir.path(), &torn).unwrap();
            for (i, (key, _)) in whole.iter().enumerate() {
                let row = index.row(i as u64).unwrap();
                let span = row.offset as usize..(row.offset + row.length).next_multiple_of(64) as usize;
                let hit = torn[span.clone()] != bytes[span];
                let mut buffer = Vec::new();
                match shard.record(i as u64, &mut buffer) {
                    Ok(record) => assert!(!hit && record.key == key),
                    Err(e) => assert!(hit && e.is_about_data(), "{e}"),
                }
            }
        }
    }
}

#[test]
fn t06_bytes_after_the_footer() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    for extra in 1..=64 {
        let mut longer = bytes.clone();
        longer.resize(bytes.len() + extra, 0);
        assert_format(open_bytes(dir.path(), &longer), "zeros appended");
    }
    let twice = [bytes.clone(), bytes].concat();
    assert_format(open_bytes(dir.path(), &twice), "a second shard appended");
}

#[test]
fn t07_bytes_before_the_header() {
    let dir = support::scratch();
    for head in [&b"PK\x03\x04"[..], b"\x7fELF", b"<html>", &[0; 64]] {
        let error = assert_format(open_bytes(dir.path(), &[head, &small_shard(0..3)].concat()), "prefix");
        assert!(error.contains("header magic"), "{error}");
    }
}

#[test]
fn t08_what_is_no_file() {
    let dir = support::scratch();
    let start = Instant::now();
    let open = |path: &Path| Shard::open(path, ShardOptions::default());
    let fifo = dir.path().join("fifo.shard");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.path().join("socket.shard");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [fifo.as_path(), &socket, dir.path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
        assert!(matches!(open(path), Err(Error::Usage { .. })), "{path:?}: {:?}", open(path));
    }
    for path in [fifo.as_path(), &socket, Path::new("/dev/zero")] {
        assert!(matches!(Dataset::open(path), Err(Error::Usage { .. })));
        assert!(verify(path, &VerifyOptions::default()).is_err());
        assert!(SalvageScan::open(path, &Limits::default()).is_err());
    }
    let sparse = dir.path().join("sparse.shard");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 30).unwrap();
    assert_format(open(&sparse), "1 GiB of zeros");
    assert_format(open_bytes(dir.path(), b""), "empty");
    assert!(start.elapsed() < Duration::from_secs(5));
    // The salvage looks at all of it, and finds nothing.
    assert_eq!(SalvageScan::open(&sparse, &Limits::default()).unwrap().count(), 1);
}

/// Two records of equal length.
fn twins() -> (Vec<u8>, Index) {
    let mut samples = [TestSample::new(0), TestSample::new(0)];
    samples[1].id = 1;
    samples[1].key = "class-0/sample-0001.png".into();
    let bytes = support::shard(Identity::new(ID, 0), &samples);
    let index = index_of(&bytes).1;
    assert_eq!(index.row(0).unwrap().length, index.row(1).unwrap().length);
    (bytes, index)
}

#[test]
fn t09_swapped_records() {
    let dir = support::scratch();
    let (mut bytes, index) = twins();
    let (first, second) = (index.row(0).unwrap().offset as usize, index.row(1).unwrap().offset as usize);
    let (head, tail) = bytes.split_at_mut(second);
    head[first..].swap_with_slice(&mut tail[..second - first]);
    let error = assert_format(read_all(dir.path(), &bytes), "swapped");
    assert!(error.contains("as the index says"), "{error}");
}

#[test]
fn t10_a_shard_of_another_dataset() {
    let disk = OnDisk::new(&[2, 2]);
    let open = || Dataset::open(disk.path()).unwrap().get(2);
    open().unwrap();
    let samples: Vec<TestSample> = (2..4).map(TestSample::new).collect();
    let foreign = support::shard_with(Identity::new(DatasetId([9; 16]), 1), &samples, &support::metadata(Some(2)));
    std::fs::write(disk.shard_path(1), foreign).unwrap();
    assert!(assert_format(open(), "another dataset").contains("dataset id"));
    std::fs::copy(disk.shard_path(0), disk.shard_path(1)).unwrap();
    assert!(assert_format(open(), "another number").contains("shard number"));
    // The same dataset and number, other samples.
    let samples: Vec<TestSample> = (5..7).map(TestSample::new).collect();
    let stale = support::shard_with(Identity::new(ID, 1), &samples, &support::metadata(Some(2)));
    std::fs::write(disk.shard_path(1), stale).unwrap();
    assert!(assert_format(open(), "stale").contains("as the manifest says"));
    assert_eq!(Dataset::open(disk.path()).unwrap().get(1).unwrap().key(), disk.samples[1].key);
}

#[test]
fn t11_header_and_footer_disagree() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    // Minor version, optional features, dataset id, shard number.
    for at in [10, 24, 40, 48] {
        let mut header = bytes.clone();
        header[at] ^= 1;
        fix_header(&mut header);
        let error = assert_format(open_bytes(dir.path(), &header), &format!("header byte {at}"));
        assert!(error.contains("header"), "{error}");
        let mut footer = bytes.clone();
        let end = footer.len();
        footer[end - 128 + at] ^= 1;
        fix_footer(&mut footer);
        assert_format(open_bytes(dir.path(), &footer), &format!("footer byte {at}"));
    }
}

#[test]
fn t12_a_stale_index() {
    let dir = support::scratch();
    let mut samples: Vec<TestSample> = (0..3).map(TestSample::new).collect();
    let old = support::shard(Identity::new(ID, 0), &samples);
    samples[1].text.reverse();
    let new = support::shard(Identity::new(ID, 0), &samples);
    let (footer, _) = index_of(&old);
    let at = footer.index_offset as usize;
    let stale = [&new[..at], &old[at..]].concat();
    let error = assert_format(read_all(dir.path(), &stale), "stale index");
    assert!(error.contains("CRC32") && error.contains("record 1"), "{error}");
    // The records are whole for all that.
    assert_eq!(salvaged_ids(dir.path(), &stale), [0, 1, 2]);
}

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
        // Footer: file bytes, record count, index offset, index bytes.
        for at in [end + 64, end + 72, end + 80, end + 88] {
            let (mut bytes, same) = put(at);
            fix_footer(&mut bytes);
            assert!(same || matches!(open_bytes(dir.path(), &bytes), Err(Error::Format(_) | Error::Limit(_))));
            salvaged_ids(dir.path(), &bytes);
        }
        // Index: record count, metadata bytes, key bytes; every row of every column.
        for at in [8, 16, 24].map(|at| index_at + at).into_iter().chain((index_at + 64..end).step_by(8)) {
            let (mut bytes, same) = put(at);
            fix_index(&mut bytes, &footer);
            let metadata = index_at + 64..index_at + 64 + 512;
            let result = read_all(dir.path(), &bytes);
            assert!(
                same || metadata.contains(&at) || matches!(result, Err(Error::Format(_) | Error::Limit(_))),
                "index byte {}, value {value:#x}: {result:?}",
                at - index_at
            );
        }
        // Frame: record bytes, head bytes; field table: stored and decoded bytes.
        let offset = index.row(1).unwrap().offset as usize;
        for at in [16, 24, 72, 80, 96, 104].map(|at| offset + at) {
            let (mut bytes, same) = put(at);
            fix_record(&mut bytes, offset);
            let result = read_all(dir.path(), &bytes);
            assert!(same || matches!(result, Err(Error::Format(_))), "record byte {}: {result:?}", at - offset);
            salvaged_ids(dir.path(), &bytes);
        }
    }
}

/// Changes offset and length of a row.
type EditRow<'a> = &'a dyn Fn(usize, &mut u64, &mut u64);

/// The bytes of a shard of three records with a column of its index replaced: `column` counts offsets, lengths, CRC32s, sample ids.
fn with_rows(edit: impl Fn(usize, &mut u64, &mut u64)) -> Vec<u8> {
    let mut bytes = small_shard(0..3);
    let (footer, index) = index_of(&bytes);
    let start = footer.index_offset as usize;
    let metadata_bytes = u64::from_le_bytes(bytes[start + 16..start + 24].try_into().unwrap());
    // spec §2.3: 64 bytes, metadata, offsets, lengths; each padded to 64.
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
fn l09_lengths_said_twice_must_agree() {
    let dir = support::scratch();
    // The frame says less or more than the index; within the padding both leave the next record where it is.
    for change in [-1_i64, 1] {
        let mut bytes = small_shard(0..3);
        let (_, index) = index_of(&bytes);
        let row = index.row(1).unwrap();
        let at = row.offset as usize;
        let length = row.length.strict_add_signed(change);
        bytes[at + 16..at + 24].copy_from_slice(&length.to_le_bytes());
        fix_record(&mut bytes, at);
        let error = assert_format(read_all(dir.path(), &bytes), "frame against index");
        assert!(error.contains("record bytes: expected"), "{error}");
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

#[test]
fn s01_records_that_overlap() {
    let dir = support::scratch();
    let edits: [EditRow<'_>; 4] = [
        &|i, offset, _| *offset -= u64::from(i == 1),
        &|i, _, length| *length += if i == 0 { 64 } else { 0 },
        // The same range twice.
        &|_, offset, _| *offset = 64,
        // One within the other.
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
    // 64 bytes between header and first record, of zeros, then of something; everything else moved on and consistent.
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
    // The rows are moved too.
    let bytes = with_rows(|_, offset, _| *offset += 64);
    assert_format(open_bytes(dir.path(), &bytes), "rows moved");
    // Something in the padding after a record.
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
    assert!(error.contains("required features"), "{error}");
    // Reserved bytes: of the header, the footer, the frame.
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
        // With the CRC32 of the noise, too.
        let footer = index_of(&bytes).0;
        fix_index(&mut noise, &footer);
        assert_format(open_bytes(dir.path(), &noise), "noise with its CRC32");
        assert!(salvaged_ids(dir.path(), &noise).is_empty());
    }
}

fn manifest_with_name(disk: &OnDisk, name: &str) -> Result<Dataset, Error> {
    let text = String::from_utf8(disk.manifest.encode().unwrap()).unwrap();
    let quoted = serde_json::to_string(name).unwrap();
    let text = text.replacen("\"shard-00000.shard\"", &quoted, 1);
    std::fs::write(disk.path().join("manifest.json"), text).unwrap();
    Dataset::open(disk.path())
}

#[test]
fn n01_absolute_names() {
    let disk = OnDisk::new(&[2]);
    for name in ["/etc/passwd", "C:\\x", "\\\\host\\share", "//x", "/shard-00000.shard"] {
        assert!(assert_format(manifest_with_name(&disk, name), name).contains("shard name"));
    }
}

#[test]
fn n02_names_that_climb() {
    let disk = OnDisk::new(&[2]);
    for name in ["../x", "a/../../x", "./x", "a//b", "a/", "", "..", ".", "a/b/c", "a/.."] {
        assert!(assert_format(manifest_with_name(&disk, name), name).contains("shard name"));
    }
    manifest_with_name(&disk, "shard-00000.shard").unwrap().get(0).unwrap();
}

#[test]
fn n04_symlinks() {
    let disk = OnDisk::new(&[2, 2]);
    let outside = support::scratch();
    let target = outside.path().join("shard");
    std::fs::rename(disk.shard_path(1), &target).unwrap();
    std::os::unix::fs::symlink(&target, disk.shard_path(1)).unwrap();
    let read = |options: DatasetOptions| options.open(disk.path()).unwrap().get(3);
    assert!(matches!(read(DatasetOptions::new()), Err(Error::Usage { .. })));
    assert!(!verify(disk.path(), &VerifyOptions::default()).unwrap().is_whole());
    read(DatasetOptions::new().follow_symlinks(true)).unwrap();
    assert!(verify(disk.path(), &VerifyOptions { follow_symlinks: true, ..Default::default() }).unwrap().is_whole());
    // A loop.
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    std::os::unix::fs::symlink(disk.shard_path(1), disk.shard_path(1)).unwrap();
    assert!(read(DatasetOptions::new()).is_err());
    assert!(matches!(read(DatasetOptions::new().follow_symlinks(true)), Err(Error::Io { .. })));
    // A folder that is a link; a folder that is one is fine. So is a hard link.
    let mut manifest = disk.manifest.clone();
    manifest.shards[1].name = "more/x.shard".into();
    disk.write_manifest(&manifest);
    std::fs::rename(&target, outside.path().join("x.shard")).unwrap();
    std::os::unix::fs::symlink(outside.path(), disk.path().join("more")).unwrap();
    assert!(matches!(read(DatasetOptions::new()), Err(Error::Usage { .. })));
    std::fs::remove_file(disk.path().join("more")).unwrap();
    std::fs::create_dir(disk.path().join("more")).unwrap();
    std::fs::hard_link(outside.path().join("x.shard"), disk.path().join("more/x.shard")).unwrap();
    read(DatasetOptions::new()).unwrap();
    // The dataset's own folder may be reached through a link: the user named it.
    let link = outside.path().join("link");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    Dataset::open(&link).unwrap().get(3).unwrap();
}

#[test]
fn n07_keys_twice_and_keys_unknown() {
    let disk = OnDisk::new(&[2]);
    let text = String::from_utf8(disk.manifest.encode().unwrap()).unwrap();
    let twice = [
        text.replacen("\"samples\": 2", "\"samples\": 2, \"samples\": 2", 1),
        text.replacen("\"name\"", "\"name\": \"x.shard\", \"name\"", 1),
        text.replacen("\"seed\": 1", "\"seed\": 1, \"seed\": 1", 1),
        text.replacen("\"samples\": 2", "\"samples\": 2, \"shardz\": 2", 1),
        text.replacen("\"name\": ", "\"x\": 1, \"name\": ", 1),
        text.clone() + "{}",
        "\u{feff}".to_owned() + &text,
    ];
    for bad in twice {
        assert_ne!(bad, text);
        std::fs::write(disk.path().join("manifest.json"), &bad).unwrap();
        let error = assert_format(Dataset::open(disk.path()), &bad);
        assert!(error.contains("manifest.json"), "{error}");
        let report = verify(disk.path(), &VerifyOptions::default()).unwrap();
        assert_eq!((report.problems.len(), report.samples), (1, 2));
    }
}

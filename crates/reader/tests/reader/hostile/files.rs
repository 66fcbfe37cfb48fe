//! Tests files with missing bytes, flipped bits or partial writes, swapped files, and paths that
//! are not files (cases T).

use super::{assert_format, assert_refused, open_bytes, read_all, salvaged_ids};
use crate::support::{self, ID, OnDisk, TestSample, error_kind, fix_footer, fix_header, index_of, small_shard};
use shardpack_format::*;
use shardpack_reader::{Dataset, Limits, SalvageScan, Shard, ShardOptions, VerifyOptions, verify};
use std::path::Path;

#[test]
fn t01_cut_at_every_length() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    let (_, index) = index_of(&bytes);
    for length in 0..bytes.len() {
        let error = assert_format(open_bytes(dir.path(), &bytes[..length]), &format!("{length} bytes"));
        assert!(
            ["truncated", "cut short"].iter().any(|word| error.contains(word)) && error.contains("x.shard"),
            "{length} bytes: {error}"
        );
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
            let shard = open_bytes(dir.path(), &torn).unwrap();
            for (i, (key, _)) in whole.iter().enumerate() {
                let row = index.row(i as u64).unwrap();
                let span = row.offset as usize..(row.offset + row.length).next_multiple_of(64) as usize;
                let hit = torn[span.clone()] != bytes[span];
                let mut buffer = Vec::new();
                match shard.record(i as u64, &mut buffer) {
                    Ok(record) => assert!(!hit && record.key == key),
                    Err(e) => assert!(hit && e.kind().is_about_data(), "{e}"),
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
fn t08_not_a_regular_file() {
    let dir = support::scratch();
    let open = |path: &Path| Shard::open(path, ShardOptions::default());
    let fifo = dir.path().join("fifo.shard");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let socket = dir.path().join("socket.shard");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [fifo.as_path(), &socket, dir.path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
        assert_eq!(error_kind(&open(path)), Some(ErrorKind::Usage), "{path:?}: {:?}", open(path));
    }
    for path in [fifo.as_path(), &socket, Path::new("/dev/zero")] {
        assert_eq!(error_kind(&Dataset::open(path)), Some(ErrorKind::Usage));
        assert!(verify(path, &VerifyOptions::default()).is_err());
        assert!(SalvageScan::open(path, &Limits::default()).is_err());
    }
    let sparse = dir.path().join("sparse.shard");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 30).unwrap();
    assert_format(open(&sparse), "1 GiB of zeros");
    assert_format(open_bytes(dir.path(), b""), "empty");
    // Salvage scans the whole file and finds no records, just one gap.
    assert_eq!(SalvageScan::open(&sparse, &Limits::default()).unwrap().count(), 1);
}

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
    assert!(error.contains("(from the index)"), "{error}");
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
    // Replace shard 1 with a shard of different samples that has the same dataset id and shard
    // number.
    let samples: Vec<TestSample> = (5..7).map(TestSample::new).collect();
    let stale = support::shard_with(Identity::new(ID, 1), &samples, &support::metadata(Some(2)));
    std::fs::write(disk.shard_path(1), stale).unwrap();
    assert!(assert_format(open(), "stale").contains("(from the manifest)"));
    assert_eq!(Dataset::open(disk.path()).unwrap().get(1).unwrap().key(), disk.samples[1].key);
}

#[test]
fn t11_header_and_footer_disagree() {
    let dir = support::scratch();
    let bytes = small_shard(0..3);
    // Offsets of the header's minor version, optional features, dataset id and shard number.
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
    assert_eq!(salvaged_ids(dir.path(), &stale), [0, 1, 2]);
}

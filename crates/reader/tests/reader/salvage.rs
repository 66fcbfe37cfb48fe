//! Tests that salvaging a damaged shard returns exactly the records that are still intact.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::support::{ID, OnDisk, TestSample, index_of, small_shard};
use shardpack_format::*;
use shardpack_reader::{Lost, MetadataSource, SalvageScan, Salvaged, WholeRecord, rebuild_manifest};
use std::path::Path;
use std::time::Duration;

fn scan(path: &Path) -> (Vec<WholeRecord>, Vec<Lost>) {
    let (mut whole, mut lost) = (Vec::new(), Vec::new());
    for found in SalvageScan::open(path, &Limits::default()).unwrap() {
        match found {
            Salvaged::Whole(record) => whole.push(record),
            Salvaged::Lost(gap) => lost.push(gap),
        }
    }
    (whole, lost)
}

fn scan_bytes(bytes: &[u8]) -> (Vec<WholeRecord>, Vec<Lost>) {
    let dir = crate::support::scratch();
    let path = dir.path().join("x.shard");
    std::fs::write(&path, bytes).unwrap();
    scan(&path)
}

fn ids(records: &[WholeRecord]) -> Vec<u64> {
    records.iter().map(|r| r.frame.sample_id).collect()
}

#[test]
fn an_undamaged_shard_is_salvaged_completely() {
    let bytes = small_shard(0..9);
    let (whole, lost) = scan_bytes(&bytes);
    assert_eq!(ids(&whole), (0..9).collect::<Vec<u64>>());
    assert!(lost.is_empty());
    for record in &whole {
        let sample = TestSample::new(record.frame.sample_id);
        assert_eq!((&record.key, &record.scalars), (&sample.key, &sample.scalars()));
        assert_eq!(record.record(&Limits::default()).unwrap().fields[0].unwrap().bytes, sample.text);
    }
}

#[test]
fn damage_costs_the_record_it_hits() {
    let bytes = small_shard(0..9);
    let (_, index) = index_of(&bytes);
    for lose_index in [false, true] {
        for hit in 0..9_u64 {
            let row = index.row(hit).unwrap();
            for at in [3, 20, 62, 70, row.length - 1] {
                let mut bytes = bytes.clone();
                bytes[(row.offset + at) as usize] ^= 0x10;
                if lose_index {
                    let end = bytes.len();
                    bytes[end - 128..].fill(0);
                }
                let (whole, lost) = scan_bytes(&bytes);
                let expected: Vec<u64> = (0..9).filter(|&i| i != hit).collect();
                assert_eq!(ids(&whole), expected, "record {hit}, byte {at}");
                assert_eq!(lost.len(), 1);
                assert_eq!(lost[0].range.start, row.offset);
                if !lose_index {
                    assert_eq!((lost[0].record, lost[0].key.as_deref()), (Some(hit), index.key(hit)));
                }
            }
        }
    }
}

#[test]
fn neighbouring_damage_and_zeroed_blocks() {
    let bytes = small_shard(0..30);
    let (footer, index) = index_of(&bytes);
    for block in [512, 4096] {
        for start in (64..footer.index_offset as usize - block).step_by(block) {
            let mut bytes = bytes.clone();
            bytes[start..start + block].fill(0);
            let hit = |i: u64| {
                let row = index.row(i).unwrap();
                row.offset < (start + block) as u64 && row.offset + row.length > start as u64
            };
            let expected: Vec<u64> = (0..30).filter(|&i| !hit(i)).collect();
            assert_eq!(ids(&scan_bytes(&bytes).0), expected, "{block} bytes at {start}");
            bytes.truncate(footer.index_offset as usize + 40);
            assert_eq!(ids(&scan_bytes(&bytes).0), expected, "{block} bytes at {start}, no footer");
        }
    }
}

#[test]
fn a_record_inside_a_damaged_record_is_not_a_sample() {
    // The value of this sample is itself a shard with the same number. When the outer record is damaged, the
    // records inside must not be salvaged.
    let mut samples: Vec<TestSample> = (0..3).map(TestSample::new).collect();
    let mut inner = small_shard(10..12);
    samples[1].text.clear();
    let start = crate::support::record(&samples[1], 0).0.len();
    inner.splice(0..0, std::iter::repeat_n(b' ', (64 - start % 64) % 64));
    samples[1].text = inner;
    let mut bytes = crate::support::shard(Identity::new(ID, 0), &samples);
    let row = index_of(&bytes).1.row(1).unwrap();
    let last = (row.offset + row.length) as usize - 1;
    bytes[last] ^= 1;
    assert_eq!(ids(&scan_bytes(&bytes).0), [0, 2]);
    // Without an index, the walk finds the next record by the length in the frame.
    let end = bytes.len();
    bytes[end - 128..].fill(0);
    assert_eq!(ids(&scan_bytes(&bytes).0), [0, 2]);
}

#[test]
fn malicious_frames_do_not_waste_time() {
    // Each frame claims that its record extends to the end of the file, but the record's CRC32 does not match. Reading
    // all these records would mean reading 80 GB. Eight times as many frames should take 8 times as long, not 64 times.
    // Timings vary, so the test allows a factor of 24.
    let few = (0..3).map(|_| time_wasted(6_250)).max().unwrap();
    let many = time_wasted(50_000);
    assert!(many < 24 * few + Duration::from_millis(20), "{few:?}, then {many:?}");
}

/// Measures CPU time, which other programs on the machine hardly affect.
fn time_wasted(cells: u64) -> Duration {
    let mut bytes = Identity::new(ID, 0).encode_header().to_vec();
    for i in 0..cells {
        let (record, _) = crate::support::record(&TestSample::new(i % 1000), 0);
        let mut frame = record[..64].to_vec();
        let rest = (cells - i) * 64;
        frame[16..24].copy_from_slice(&rest.to_le_bytes());
        frame[24..28].copy_from_slice(&64_u32.to_le_bytes());
        crate::support::fix_frame(&mut frame, 0);
        bytes.extend(frame);
    }
    let before = crate::clock::thread();
    let (whole, _) = scan_bytes(&bytes);
    assert!(whole.is_empty());
    crate::clock::thread() - before
}

#[test]
fn the_schema_is_found_in_the_shard_the_manifest_or_a_sibling() {
    let disk = OnDisk::new(&[3, 3]);
    let source = |path: &Path| {
        let scan = SalvageScan::open(path, &Limits::default()).unwrap();
        scan.metadata().map(|(metadata, source)| {
            assert_eq!(metadata.schema, disk.manifest.schema);
            source.clone()
        })
    };
    let path = disk.shard_path(0);
    assert_eq!(source(&path), Some(MetadataSource::OwnIndex));
    disk.edit(0, |bytes| bytes.truncate(bytes.len() - 10));
    assert_eq!(source(&path), Some(MetadataSource::Manifest));
    std::fs::remove_file(disk.path().join("manifest.json")).unwrap();
    assert_eq!(source(&path), Some(MetadataSource::Sibling(disk.shard_path(1))));
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    assert_eq!(source(&path), None);
    assert_eq!(ids(&scan(&path).0), [0, 1, 2]);
}

#[test]
fn a_manifest_is_rebuilt_to_the_byte() {
    let disk = OnDisk::new(&[3, 0, 4]);
    let original = std::fs::read(disk.path().join("manifest.json")).unwrap();
    std::fs::remove_file(disk.path().join("manifest.json")).unwrap();
    let mut seen = Vec::new();
    let rebuilt = rebuild_manifest(disk.path(), &Limits::default(), &mut |shard, _| {
        seen.push(shard.len());
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [3, 0, 4]);
    assert_eq!(rebuilt.manifest.encode().unwrap(), original);
    assert!(rebuilt.left_out.is_empty());

    let foreign = crate::support::shard(Identity::new(DatasetId([9; 16]), 1), &[TestSample::new(0)]);
    std::fs::write(disk.path().join("zzz.shard"), foreign).unwrap();
    let rebuilt = rebuild_manifest(disk.path(), &Limits::default(), &mut |_, _| Ok(())).unwrap();
    assert_eq!(rebuilt.left_out.len(), 1);
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    assert!(rebuild_manifest(disk.path(), &Limits::default(), &mut |_, _| Ok(())).is_err());
}

//! Tests that damage to an intact shard is always found: truncation at every length, every flipped bit, and every
//! number replaced by a hostile one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::{Path, PathBuf};

struct Scratch {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        // Write to memory if the system has `/dev/shm`, because the tests write a file tens of thousands of times.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { path: folder.path().join("x.shard"), _folder: folder }
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        std::fs::write(&self.path, bytes).unwrap();
        crate::reading::verify(&self.path).unwrap().is_whole()
    }
}

fn golden() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/valid/golden.shard")).unwrap()
}

#[test]
fn t01_cut_at_every_length() {
    let (scratch, bytes) = (Scratch::new(), golden());
    for length in 0..bytes.len() {
        assert!(!scratch.is_whole(&bytes[..length]), "cut to {length} bytes");
    }
    assert!(scratch.is_whole(&bytes));
}

#[test]
fn t03_every_bit_flipped() {
    let (scratch, mut bytes) = (Scratch::new(), golden());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(!scratch.is_whole(&bytes), "bit {bit} of byte {at} flipped, and not noticed");
            bytes[at] ^= 1 << bit;
        }
    }
}

/// Recomputes the CRC32 of the footer after each change, so that a reader must notice the numbers themselves.
#[test]
fn l01_hostile_numbers_in_the_footer() {
    let (scratch, bytes) = (Scratch::new(), golden());
    let footer = bytes.len() - 128;
    let length = bytes.len() as u64;
    let edges = [0, 1, 1 << 31, 1 << 32, 1 << 63, u64::MAX, length].into_iter();
    for value in edges.flat_map(|v| [v.wrapping_sub(8), v.wrapping_sub(1), v, v.wrapping_add(1)]) {
        for at in [64, 72, 80, 88] {
            let mut spoilt = bytes.clone();
            spoilt[footer + at..footer + at + 8].copy_from_slice(&value.to_le_bytes());
            if spoilt == bytes || spoilt[footer + at..] == bytes[footer + at..] {
                continue;
            }
            let crc = crc32fast::hash(&spoilt[footer..footer + 116]);
            spoilt[footer + 116..footer + 120].copy_from_slice(&crc.to_le_bytes());
            assert!(!scratch.is_whole(&spoilt), "{value} at {at} of the footer");
        }
    }
}

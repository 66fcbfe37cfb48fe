//! Damage to a sound shard is always found: cut at every length, every bit flipped, every number replaced by a hostile one.
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod plain;

use std::path::Path;

fn golden() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/valid/golden.shard")).unwrap()
}

#[test]
fn t01_cut_at_every_length() {
    let bytes = golden();
    for length in 0..bytes.len() {
        assert!(plain::read_bytes(&bytes[..length]).is_err(), "cut to {length} bytes");
    }
    assert!(plain::read_bytes(&bytes).is_ok());
}

#[test]
fn t03_every_bit_flipped() {
    let mut bytes = golden();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(plain::read_bytes(&bytes).is_err(), "bit {bit} of byte {at} flipped, and not noticed");
            bytes[at] ^= 1 << bit;
        }
    }
}

/// With the footer's CRC made right again, so that the number itself is judged.
#[test]
fn l01_hostile_numbers_in_the_footer() {
    let bytes = golden();
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
            assert!(plain::read_bytes(&spoilt).is_err(), "{value} at {at} of the footer");
        }
    }
}

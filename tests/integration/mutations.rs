//! Tests files with random damage, which is derived from numbered seeds. No input may make a parser or a decoder panic,
//! and every flipped bit must be noticed.
//!
//! The short campaigns run with every `cargo test`. `cargo test --release --test integration -- --ignored mutations`
//! runs the long ones. A failure names its seed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    unreachable_pub
)]

use crate::random::Random;
use shardpack_format::{ArrayDescriptor, FOOTER_BYTES, Limits, Manifest, Record};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const EDGES: &[u64] = &[
    0,
    1,
    2,
    63,
    64,
    65,
    (1 << 15) - 1,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 63,
    u64::MAX - 7,
    u64::MAX,
];

/// Damages the bytes at random positions, more often where header fields are likely.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(0);
    }
    let len = bytes.len();
    let footer = len.saturating_sub(FOOTER_BYTES as usize);
    let near = match random.below(5) {
        0 => random.below(64),
        1 => footer + random.below(len - footer),
        2 => 64 + random.below(256),
        _ => random.below(len),
    };
    let at = near.min(len - 1);
    match random.below(10) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 | 3 => put(bytes, at & !3, &random.next().to_le_bytes()[..4]),
        4 => put(bytes, at & !7, &EDGES[random.below(EDGES.len())].to_le_bytes()),
        5 => put(bytes, at & !3, &(EDGES[random.below(EDGES.len())] as u32).to_le_bytes()),
        6 => {
            let at = at & !7;
            if let Some(old) = bytes.get(at..at + 8) {
                let old = u64::from_le_bytes(old.try_into().unwrap());
                let delta = [1, 8, 64, 128][random.below(4)];
                put(
                    bytes,
                    at,
                    &if random.below(2) == 0 { old.wrapping_add(delta) } else { old.wrapping_sub(delta) }.to_le_bytes(),
                );
            }
        }
        7 => {
            let from = random.below(len);
            let n = random.below(200).min(len - from).min(len - at);
            bytes.copy_within(from..from + n, at);
        }
        8 => {
            let n = random.below(600).min(len - at);
            bytes[at..at + n].fill([0, 0xFF, 0x20][random.below(3)]);
        }
        _ => match random.below(3) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 64).min(len))),
            _ => bytes.extend_from_within(at..),
        },
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Calls `check` with `count` damaged copies of `valid`. In seven of eight copies, `seal` first corrects the checksums,
/// so that the damage reaches the parsers.
fn campaign(
    name: &str,
    valid: &[u8],
    count: u64,
    seal: impl Fn(&mut Vec<u8>),
    check: impl Fn(&[u8]) + std::panic::RefUnwindSafe,
) {
    for seed in 0..count {
        let mut random = Random(seed ^ 0x5EED_0000_0000_0000);
        let mut bytes = valid.to_vec();
        for _ in 0..=random.below(3) {
            damage(&mut bytes, &mut random);
        }
        if random.below(8) != 0 {
            seal(&mut bytes);
        }
        if let Err(cause) = catch_unwind(|| check(&bytes)) {
            let cause = cause.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".into());
            panic!("campaign {name}, seed {seed}: {cause}");
        }
    }
}

fn shards(count: u64) {
    let valid = crate::shard::golden();
    assert_eq!(crate::shard::read(&valid), Ok(3));
    campaign("shard", &valid, count, |b| crate::shard::reseal(b), |b| drop(crate::shard::read(b)));
}

fn records(count: u64) {
    let valid = crate::shard::golden_record();
    let seal = |bytes: &mut Vec<u8>| {
        if bytes.len() >= 64 {
            let body = crc32fast::hash(&bytes[64..]).to_le_bytes();
            bytes[28..32].copy_from_slice(&body);
            let frame = crc32fast::hash(&bytes[..60]).to_le_bytes();
            bytes[60..64].copy_from_slice(&frame);
        }
    };
    campaign("record", &valid, count, seal, |b| drop(Record::parse(b, &crate::shard::limits())));
}

fn descriptors(count: u64) {
    let record = crate::shard::golden_record();
    let record = Record::parse(&record, &Limits::default()).expect("a valid record");
    let valid = record.fields[0].expect("the cube").descriptor;
    campaign(
        "descriptor",
        valid,
        count,
        |_| (),
        |bytes| {
            if let Ok(descriptor) = ArrayDescriptor::parse(bytes, &crate::shard::limits()) {
                assert_eq!(descriptor.encode().expect("an accepted descriptor can be written"), bytes, "one spelling");
                assert!(descriptor.decoded_bytes().expect("a size") <= crate::shard::limits().max_decoded_bytes);
            }
        },
    );
}

fn manifests(count: u64) {
    let valid = crate::shard::manifest();
    assert!(Manifest::parse(&valid, &crate::shard::limits()).is_ok());
    campaign(
        "manifest",
        &valid,
        count,
        |_| (),
        |bytes| {
            if let Ok(manifest) = Manifest::parse(bytes, &crate::shard::limits()) {
                let again = manifest.encode().expect("an accepted manifest can be written");
                assert_eq!(Manifest::parse(&again, &crate::shard::limits()).expect("and read again"), manifest);
            }
        },
    );
}

fn payloads(count: u64) {
    for (i, (codec, descriptor, valid)) in crate::payload::payloads().into_iter().enumerate() {
        assert!(crate::payload::decode(codec, &descriptor, &valid).is_ok());
        let check = |bytes: &[u8]| {
            if let Ok(array) = crate::payload::decode(codec, &descriptor, bytes) {
                assert_eq!(array.bytes().len() as u64, descriptor.decoded_bytes().expect("a size"));
            }
        };
        campaign(&format!("payload {i} ({codec})"), &valid, count, |_| (), check);
    }
}

fn jpegs(count: u64) {
    let valid = crate::jpeg::tiled();
    assert!(crate::jpeg::cut(&valid), "a tiled JPEG is cut");
    let cuts = AtomicU64::new(0);
    let check = |bytes: &[u8]| _ = cuts.fetch_add(u64::from(crate::jpeg::cut(bytes)), Ordering::Relaxed);
    campaign("jpeg", &valid, count, |_| (), check);
    let cuts = cuts.into_inner();
    assert!(cuts > count / 8, "the damage gets behind the header: {cuts} of {count} mutants are cut");
}

fn jpeg_decoders(count: u64) {
    let used = Mutex::new(crate::jpeg::Decoders::default());
    assert!(used.lock().expect("a decoder").read(crate::jpeg::TILES));
    let whole = AtomicU64::new(0);
    let check = |bytes: &[u8]| {
        let mut used = used.lock().expect("decoders that did not panic before");
        _ = whole.fetch_add(u64::from(used.read(bytes)), Ordering::Relaxed);
    };
    campaign("jpeg decoders", crate::jpeg::TILES, count, |_| (), check);
    let whole = whole.into_inner();
    assert!((count / 50..count).contains(&whole), "of {count} mutants, {whole} decode without a warning");
    assert!(
        used.into_inner().expect("decoders").read(crate::jpeg::TILES),
        "the decoder still reads an undamaged picture"
    );
}

/// C libraries decode array payloads. A bug in them would kill the whole process, not only this test.
#[test]
fn no_payload_makes_a_decoder_panic() {
    payloads(3_000);
}

#[test]
fn no_jpeg_makes_the_cutter_panic() {
    jpegs(100_000);
}

#[test]
fn no_jpeg_changes_how_the_next_is_read() {
    jpeg_decoders(5_000);
}

#[test]
fn no_shard_makes_a_parser_panic() {
    shards(100_000);
}

#[test]
fn no_record_makes_a_parser_panic() {
    records(100_000);
}

#[test]
fn no_descriptor_makes_a_parser_panic() {
    descriptors(200_000);
}

#[test]
fn no_manifest_makes_a_parser_panic() {
    manifests(50_000);
}

/// Regression test for a bug that the fuzzer found: numbers were not parsed exactly, so figures changed slightly each
/// time a manifest was read and written.
#[test]
fn figures_survive_reading_and_writing() {
    let text = String::from_utf8(crate::shard::manifest()).expect("UTF-8");
    for figure in [
        "33333333333333333333333333333333333333333333333333333333333333332.5",
        "0.1",
        "1.7976931348623157e308",
        "2.2250738585072011e-308",
    ] {
        let first =
            Manifest::parse(text.replace("2.5", figure).as_bytes(), &Limits::default()).expect("a valid manifest");
        let again = Manifest::parse(&first.encode().expect("JSON"), &Limits::default()).expect("a valid manifest");
        assert_eq!(first, again, "{figure}");
        let expected: f64 = figure.parse().expect("a number");
        assert_eq!(first.recipe["list"][1].as_f64().map(f64::to_bits), Some(expected.to_bits()), "{figure}");
    }
}

#[test]
#[ignore = "long: minutes in release mode"]
fn long_campaigns() {
    shards(5_000_000);
    records(20_000_000);
    descriptors(20_000_000);
    manifests(2_000_000);
    payloads(200_000);
    jpegs(5_000_000);
    jpeg_decoders(500_000);
}

/// A reader must notice any flipped bit of a shard, because each byte is covered by a checksum or is padding that must
/// be zero.
#[test]
fn every_flipped_bit_is_noticed() {
    let valid = crate::shard::golden();
    let mut bytes = valid.clone();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(crate::shard::read(&bytes).is_err(), "bit {bit} of byte {at} flipped: not noticed");
            bytes[at] ^= 1 << bit;
        }
    }
    assert_eq!(bytes, valid);
}

#[test]
fn every_other_length_is_noticed() {
    let valid = crate::shard::golden();
    for length in 0..valid.len() {
        assert!(crate::shard::read(&valid[..length]).is_err(), "cut at {length}: not noticed");
    }
    for more in 1..=130 {
        let mut longer = valid.clone();
        longer.resize(valid.len() + more, 0);
        assert!(crate::shard::read(&longer).is_err(), "{more} bytes after the footer: not noticed");
    }
    let twice = [valid.clone(), valid].concat();
    assert!(crate::shard::read(&twice).is_err(), "a second shard after the footer: not noticed");
}

/// Checks that correcting the checksums works: many damaged shards must be refused for reasons other than a checksum,
/// and some must be accepted.
#[test]
fn repaired_checksums_let_damage_through() {
    let valid = crate::shard::golden();
    let (mut accepted, mut behind) = (0, 0);
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let mut bytes = valid.clone();
        damage(&mut bytes, &mut random);
        crate::shard::reseal(&mut bytes);
        match crate::shard::read(&bytes) {
            Ok(_) => accepted += 1,
            Err(e) => behind += usize::from(!e.to_string().contains("CRC32") && !e.to_string().contains("magic")),
        }
    }
    assert!(
        accepted > 100 && behind > 500,
        "of 2000 mutants: {accepted} accepted, {behind} refused behind the checksums"
    );
}

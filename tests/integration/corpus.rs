//! Runs each fuzz target for a short time, on every seed input and on damaged copies of the inputs.
//!
//! Each target runs in a separate process with limits on memory and CPU time. `SHARDPACK_SEED=N` repeats a
//! run, and `SHARDPACK_ROUNDS=N` makes it longer.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    unreachable_pub
)]

use crate::random::Random;
use crate::targets::TARGETS;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

const ROUNDS: u64 = 1500;

const EDGES: &[u64] =
    &[0, 1, 2, 7, 8, 255, 256, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 62, (1 << 63) - 1, u64::MAX];

fn damage(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(0);
    }
    let len = bytes.len();
    // Put half of the damage into the first bytes, because the headers are there.
    let at = if random.next() & 1 == 0 { random.below(len) } else { random.below(len.min(200)) };
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 | 3 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            bytes.iter_mut().skip(at).zip(&edge[..width]).for_each(|(to, from)| *to = *from);
        }
        4 => bytes.truncate(at),
        5 => {
            let end = at + random.below(len - at).min(64);
            let piece = bytes[at..end].to_vec();
            let to = random.below(len);
            bytes.splice(to..to, piece);
        }
        6 => drop(bytes.drain(at..at + random.below(len - at).min(16))),
        _ => {
            let from = random.below(other.len());
            let piece = &other[from..other.len().min(from + 1 + random.below(64))];
            bytes.iter_mut().skip(at).zip(piece).for_each(|(to, from)| *to = *from);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// Writes the fuzzer's seed inputs: `cargo test --features hdf5 --test integration write_corpus -- --ignored`.
#[test]
#[ignore = "writes into the repository"]
fn write_corpus() {
    for target in TARGETS {
        let folder = fuzz().join("corpus").join(target.name);
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in target.seeds(&fuzz().join("seeds")) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

fn campaign(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let seeds = target.seeds(&fuzz().join("seeds"));
    let mut good = Vec::new();
    for (file, bytes) in &seeds {
        let bad = file.starts_with("bad-");
        assert_eq!((target.read)(bytes), !bad, "{name}: {file}");
        good.extend((!bad).then_some(bytes));
    }
    let seed = number("SHARDPACK_SEED").unwrap_or_else(|| RandomState::new().hash_one(name));
    // Print the seed first, because a bug may kill the process.
    println!("SHARDPACK_SEED={seed}");
    let mut random = Random(seed);
    for _ in 0..number("SHARDPACK_ROUNDS").unwrap_or(ROUNDS) {
        // Most attack files (`bad-…`) nearly exhaust the limits, so damaged copies of them would take most of the time.
        // Use them rarely.
        let mut bytes = match random.below(16) {
            0 => seeds[random.below(seeds.len())].1.clone(),
            _ => good[random.below(good.len())].clone(),
        };
        let (_, other) = &seeds[random.below(seeds.len())];
        for _ in 0..=random.below(4) {
            damage(&mut bytes, other, &mut random);
        }
        (target.read)(&bytes);
    }
}

macro_rules! campaigns {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            crate::bounded::run(concat!(module_path!(), "::", stringify!($target)), || campaign(stringify!($target)));
        })*

        #[test]
        fn every_target_has_a_campaign() {
            let named = [$(stringify!($target),)* "hdf5"];
            let listed: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert!(listed.iter().all(|target| named.contains(target)), "{listed:?}");
            for program in fs::read_dir(fuzz().join("fuzz_targets")).unwrap() {
                let program = program.unwrap().path();
                let name = program.file_stem().unwrap().to_str().unwrap();
                assert!(listed.contains(&name), "{name} is in no list");
            }
        }
    };
}

campaigns!(
    shard shard_tail record descriptor manifest blosc2_chunk zstd_frame jpeg_cut jpeg_decoders tiff matlab envi
    b2nd npz labels
);

#[cfg(feature = "hdf5")]
#[test]
fn hdf5() {
    crate::bounded::run(concat!(module_path!(), "::hdf5"), || campaign("hdf5"));
}

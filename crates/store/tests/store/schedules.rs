//! Tests with a server that has random faults. Each read must return correct bytes, or an error that names the object
//! and the attempt. Each run must end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::loader_support::Disk;
use crate::server::{Answer, Request, Server};
use shardpack_reader::{Dataset, DatasetOptions, Error};
use shardpack_store::{StoreOptions, open};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FAULTS: [Answer; 10] = [
    Answer::Status(503),
    Answer::Status(500),
    Answer::Status(403),
    Answer::Cut(1),
    Answer::Cut(700),
    Answer::Stall(100),
    Answer::Silence,
    Answer::Whole,
    Answer::OtherTag,
    Answer::Less(5),
];
/// Maximum duration of a schedule. It is much longer than all timeouts together.
const MOST: Duration = Duration::from_secs(60);

const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Chooses the response to a request, in a schedule with one to three kinds of faults. The faults are occasional,
/// frequent, or permanent from some request on.
fn answer(seed: u64, request: &Request) -> Answer {
    let number = request.number;
    let schedule = mix(seed);
    let kinds = 1 + schedule % 3;
    let dice = mix(schedule ^ mix(number + 1));
    let fails = match (schedule >> 8) % 4 {
        0 => dice.is_multiple_of(20),
        1 => dice.is_multiple_of(5),
        2 => dice.is_multiple_of(2),
        _ => number >= (schedule >> 16) % 40,
    };
    let kind = usize::try_from(mix(schedule + (dice >> 32) % kinds)).unwrap() % FAULTS.len();
    match fails {
        // A response that is too short can be recognised only if the request has a range.
        true if request.range.is_none() && matches!(FAULTS[kind], Answer::Less(_)) => Answer::Right,
        true => FAULTS[kind],
        false if dice.is_multiple_of(7) => Answer::Late(dice % 10),
        false => Answer::Right,
    }
}

fn options(seed: u64) -> StoreOptions {
    let short = Duration::from_millis(60);
    StoreOptions {
        first_byte_timeout: short,
        stall_timeout: short,
        backoff: Duration::from_millis(1),
        max_attempts: 4,
        hedge: seed.is_multiple_of(4),
        // In a third of the schedules, the read-ahead is smaller than the dataset.
        read_ahead_bytes: if seed.is_multiple_of(3) { 1 << 20 } else { 16 << 20 },
        ..StoreOptions::default()
    }
}

fn check(error: &Error) {
    let text = error.to_string();
    let object = text.contains("shard-0000") || text.contains("manifest.json");
    assert!(object && text.contains("attempt "), "an error that does not say where: {text}");
}

type Records = Vec<Vec<u8>>;

/// Reads in one of three ways. Returns the records and the number of errors.
fn read(dataset: &Dataset, seed: u64) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let (mut found, mut errors) = (BTreeMap::new(), 0);
    let mut take = |index: u64, result: Result<Vec<u8>, Error>| match result {
        Ok(bytes) => drop(found.insert(index, bytes)),
        Err(error) => {
            check(&error);
            errors += 1;
        }
    };
    match seed % 3 {
        0 => (0..dataset.len()).rev().step_by(3).for_each(|index| {
            take(index, dataset.get(index).map(|sample| sample.record_bytes().to_vec()));
        }),
        1 => {
            let all: Vec<u64> = (0..dataset.len()).rev().collect();
            match dataset.get_many(&all) {
                Ok(samples) => {
                    all.iter().zip(samples).for_each(|(at, sample)| take(*at, Ok(sample.record_bytes().to_vec())));
                }
                Err(error) => take(0, Err(error)),
            }
        }
        _ => match dataset.iter() {
            Ok(samples) => {
                for sample in samples {
                    let index = sample.as_ref().map_or(0, |sample| sample.index());
                    take(index, sample.map(|sample| sample.record_bytes().to_vec()));
                }
            }
            Err(error) => take(0, Err(error)),
        },
    }
    (found, errors)
}

/// Runs one schedule. The first result is true if all records were read. The second is true if any read failed.
fn run(seed: u64, folder: &Path, right: &Records) -> (bool, bool) {
    let begun = Instant::now();
    let server = Server::start(folder, move |request: &Request| answer(seed, request));
    let opened = open(&server.url(), &DatasetOptions::new(), &options(seed));
    let result = match opened {
        Ok(dataset) => {
            let (found, errors) = read(&dataset, seed);
            for (index, bytes) in &found {
                assert!(*bytes == right[usize::try_from(*index).unwrap()], "schedule {seed}: sample {index} is wrong");
            }
            (errors == 0, errors > 0)
        }
        Err(error) => {
            check(&error);
            (false, true)
        }
    };
    assert!(begun.elapsed() < MOST, "schedule {seed} took {:?}", begun.elapsed());
    result
}

/// Runs the schedules in parallel, because they spend most of the time waiting.
fn campaign(seeds: u64) {
    let disk = Disk::varied(&[25, 1, 0, 34]);
    let right: Records = disk.open().iter().unwrap().map(|sample| sample.unwrap().record_bytes().to_vec()).collect();
    let (next, ended) = (AtomicU64::new(0), Mutex::new((0_u64, 0_u64)));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let (whole, failed) = run(seed, disk.path(), &right);
                    let mut ended = ended.lock().unwrap();
                    *ended = (ended.0 + u64::from(whole), ended.1 + u64::from(failed));
                }
            });
        }
    });
    let (whole, failed) = ended.into_inner().unwrap();
    assert_eq!(whole + failed, seeds);
    assert!(whole > seeds / 5 && failed > seeds / 5, "{whole} were read, {failed} failed: too much of one");
}

#[test]
fn any_server_yields_the_right_bytes_or_an_error_with_the_place() {
    campaign(300);
}

#[test]
#[ignore = "takes minutes: scripts/check.sh --long"]
fn any_server_in_10_000_schedules() {
    campaign(10_000);
}

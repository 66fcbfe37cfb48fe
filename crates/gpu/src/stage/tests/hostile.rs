//! Tests hostile datasets with valid checksums. A stage must return the same batches or errors as the host, no kernel
//! may access memory outside its buffers, and nothing may panic.

use super::datasets::{Disk, Seen, assert_same, seen, ways};
use super::played::PlayedStage;
use super::{DatasetOptions, Limits, Loader, LoaderOptions, OnCorrupt, of};
use shardpack_format::{ErrorKind, Explain as _};
use std::sync::Arc;

fn all(loader: &mut Loader, what: &str) -> Vec<Result<Seen, ErrorKind>> {
    let mut batches = Vec::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.map(|batch| seen(&batch)).map_err(|error| {
            assert!(!error.to_string().contains("internal error"), "{what}: {error}");
            error.kind()
        });
        batches.push(batch);
        assert!(batches.len() < 1000, "{what}: no end");
    }
    batches
}

/// Returns the number of rows that the stage took, that it rejected, and that the kernels flagged.
fn attack(samples: u64, seed: u64) -> [u64; 3] {
    /// Number of samples per dataset. Three in four are hostile.
    const OF_DISK: u64 = 24;
    let ways = ways();
    let mut counts = [0; 3];
    for n in 0..samples.div_ceil(OF_DISK * 3 / 4) {
        let disk = Disk::hostile(OF_DISK, seed.wrapping_add(n));
        let (name, options) = &ways[n as usize % ways.len()];
        let what = format!("seed {seed}, disk {n}, {name}");
        let limits = Limits { max_decoded_bytes: 1 << 24, max_run_bytes: 1 << 22, ..Limits::default() };
        let options = options.clone().on_corrupt(OnCorrupt::Skip { max: 1000 }).part_bytes(if n % 3 == 0 {
            4096
        } else {
            options.resources.part_bytes
        });
        let stage = Arc::new(PlayedStage::new(n as usize % 2, 1));
        let open = |options: LoaderOptions| {
            let dataset = DatasetOptions::new().limits(limits.clone()).open(disk.dir.path()).unwrap();
            Loader::open(&dataset, options)
        };
        let mut host = open(options.clone()).expect(&what);
        let mut staged = open(options.stage(Arc::clone(&stage) as _)).expect(&what);
        let (found, expected) = (all(&mut staged, &what), all(&mut host, &what));
        assert_eq!(found.len(), expected.len(), "{what}: batches");
        for (found, expected) in found.into_iter().zip(expected) {
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_same(&[found], &[expected], &what),
                (found, expected) => assert_eq!(found.err(), expected.err(), "{what}"),
            }
        }
        assert_eq!(staged.stats().skipped, host.stats().skipped, "{what}");
        let seen = [&stage.counts.taken, &stage.counts.refused, &stage.counts.faults].map(of);
        counts.iter_mut().zip(seen).for_each(|(sum, more)| *sum += more);
    }
    counts
}

#[test]
fn hostile_samples_are_the_hosts_or_errors() {
    let [taken, refused, faults] = attack(250, 1);
    assert!(taken > 400 && refused > 50 && faults > 0, "{taken} taken, {refused} refused, {faults} flagged");
}

#[test]
#[ignore = "minutes: the long campaign"]
fn ten_thousand_hostile_samples_are_the_hosts_or_errors() {
    let seed = std::env::var("SHARDPACK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_000_000);
    let counts = attack(10_000, seed);
    assert!(counts[0] > 10_000 && counts[2] > 50, "{counts:?}");
}

#[test]
fn hostile_datasets_are_whole_by_their_checksums() {
    let disk = Disk::hostile(24, 5);
    let report = shardpack_reader::verify(disk.dir.path(), &shardpack_reader::VerifyOptions::default()).unwrap();
    assert!(report.problems.iter().all(|problem| !problem.to_string().contains("CRC32")), "{:?}", report.problems);
}

//! Tests stopping and resuming: the content of a state, and the loop of a training script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, base};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Loader, LoaderOptions};

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).seed(3).end(End::Uneven)
}

#[test]
fn a_training_loop_resumes_where_it_stopped() {
    let disk = Disk::alike(&[50]);
    fn train(loader: &mut Loader, stop: usize) -> Vec<(u32, Vec<u64>)> {
        let mut seen = Vec::new();
        for epoch in loader.current_epoch()..3 {
            loader.set_epoch(epoch).unwrap();
            while let Some(batch) = loader.next_batch() {
                seen.push((epoch, batch.unwrap().indices().to_vec()));
                if seen.len() == stop {
                    return seen;
                }
            }
        }
        seen
    }
    let open = || Loader::open(&disk.open(), options(8)).unwrap();
    let whole = train(&mut open(), usize::MAX);
    assert_eq!(whole.len(), 3 * 7);
    // Stop in the middle of an epoch, at its end, and before the first batch of the next one.
    for stop in [1, 6, 7, 8, 13, 20, 21] {
        let mut first = open();
        let mut seen = train(&mut first, stop);
        let state = first.state();
        let mut second = open();
        second.restore(&state).unwrap();
        assert_eq!(second.current_epoch(), state.epoch);
        seen.extend(train(&mut second, usize::MAX));
        assert_eq!(seen, whole, "stopped after {stop}");
    }
}

#[test]
fn setting_a_started_epoch_restarts_it() {
    let disk = Disk::alike(&[40]);
    let mut loader = Loader::open(&disk.open(), options(8)).unwrap();
    let next = |loader: &mut Loader| loader.next_batch().unwrap().unwrap().indices().to_vec();
    let first = next(&mut loader);
    loader.set_epoch(0).unwrap();
    assert_eq!(next(&mut loader), first);
    let second = next(&mut loader);
    let state = loader.state();
    loader.restore(&state).unwrap();
    loader.set_epoch(0).unwrap();
    loader.set_epoch(0).unwrap();
    let third = next(&mut loader);
    assert!(third != first && third != second, "the rest of the epoch that was restored");
    loader.set_epoch(1).unwrap();
    loader.set_epoch(0).unwrap();
    assert_eq!(next(&mut loader), first, "another epoch in between");
}

#[test]
fn a_batch_that_was_an_error_was_not_consumed() {
    let disk = Disk::alike(&[20]);
    let healthy = std::fs::read(disk.path().join("shard-00000.shard")).unwrap();
    disk.hurt(10);
    disk.hurt(18);
    let options = options(4).mode(Mode::Stored);
    let mut loader = Loader::open(&disk.open(), options.clone()).unwrap();
    for _ in 0..2 {
        assert!(loader.next_batch().unwrap().is_ok());
    }
    assert!(loader.next_batch().unwrap().is_err());
    let state = loader.state();
    assert_eq!(state.samples_consumed, 8, "a script that ends here resumes with the failed batch");
    assert!(loader.next_batch().unwrap().is_ok());
    assert_eq!(loader.state().samples_consumed, 16, "the next batch leaves it behind");
    assert!(loader.next_batch().unwrap().is_err());
    assert!(loader.next_batch().is_none());
    assert_eq!(loader.state().samples_consumed, 16, "nothing came after it");

    std::fs::write(disk.path().join("shard-00000.shard"), healthy).unwrap();
    let mut again = Loader::open(&disk.open(), options).unwrap();
    again.restore(&state).unwrap();
    assert_eq!(again.next_batch().unwrap().unwrap().indices(), [8, 9, 10, 11]);
}

#[test]
fn uneven_ranks_end_with_one_state() {
    let disk = Disk::alike(&[8]);
    for mode in [Mode::Windowed, Mode::Stored] {
        let mut counts = Vec::new();
        for rank in 0..5 {
            let options = options(1).rank(rank).world_size(5).mode(mode);
            let mut loader = Loader::open(&disk.open(), options).unwrap();
            assert_eq!(loader.state().samples_consumed, 0);
            let mut count = 0;
            while let Some(batch) = loader.next_batch() {
                batch.unwrap();
                count += 1;
                assert_eq!(loader.state().samples_consumed, (5 * count).min(8));
            }
            assert_eq!(loader.state().samples_consumed, 8, "rank {rank}, after {count} batches");
            counts.push(count);
        }
        assert_eq!(counts, [2, 2, 2, 1, 1]);
    }
}

//! The order as its users see it: every sample once, who reads what, and nothing depends on what it should not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use shardpack_reader::Dataset;
use shardpack_reader::order::{
    End, Members, Mixture, Mode, Order, Positions, Runs, Sampling, Share, State, Steps, Weighted, World,
    samples_by_key, samples_by_label,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

mod support;

fn all(epoch: &dyn Positions) -> Vec<u64> {
    (0..epoch.len()).map(|p| epoch.sample(p).unwrap().sample).collect()
}

fn sorted(mut samples: Vec<u64>) -> Vec<u64> {
    samples.sort_unstable();
    samples
}

fn steps(sampling: &dyn Sampling, world: World, end: End, state: &State) -> Steps {
    let epoch = sampling.epoch_of(state).unwrap();
    let share = Share::new(world, end, &*epoch, state);
    Steps::new(epoch, share)
}

#[test]
fn every_sample_comes_once_in_every_mode() {
    for samples in [0, 1, 2, 37, 241, 1000, 9_999, 100_000] {
        for run_samples in [1, 3, 37, 1366] {
            for mode in [Mode::Stored, Mode::Windowed, Mode::Full] {
                for lanes in [1, 7, 240] {
                    let order = Order::new(Runs::new(samples, run_samples), samples ^ lanes).mode(mode).lanes(lanes);
                    let epoch = order.epoch(1);
                    let order = all(&epoch);
                    assert_eq!(epoch.sample(samples), None);
                    assert_eq!(sorted(order), (0..samples).collect::<Vec<_>>(), "{mode:?} {run_samples} {lanes}");
                }
            }
        }
    }
}

#[test]
fn a_million_samples_come_once() {
    let order = Order::new(Runs::new(1_000_003, 38), 42);
    let mut seen = vec![false; 1_000_003];
    for sample in all(&order.epoch(0)) {
        assert!(!std::mem::replace(&mut seen[usize::try_from(sample).unwrap()], true), "{sample} twice");
    }
}

#[test]
fn stored_is_stored_and_other_epochs_and_seeds_are_other_orders() {
    let runs = Runs::new(20_000, 37);
    assert_eq!(all(&Order::new(runs, 1).mode(Mode::Stored).epoch(9)), (0..20_000).collect::<Vec<_>>());
    for mode in [Mode::Windowed, Mode::Full] {
        let order = |seed, epoch| all(&Order::new(runs, seed).mode(mode).epoch(epoch));
        assert_eq!(order(1, 0), order(1, 0));
        let same = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!(same(order(1, 0), order(1, 1)) < 20, "about one sample stays in its place by chance");
        assert!(same(order(1, 0), order(2, 0)) < 20);
    }
}

/// The digests of some orders: they must never change, or states that users saved would go on wrongly. If one does, `VERSION` in `state.rs` must count.
#[test]
fn orders_stay_what_they_are() {
    use sha2::{Digest, Sha256};
    let digest = |epoch: &dyn Positions| {
        let mut hash = Sha256::new();
        (0..epoch.len()).filter_map(|p| epoch.sample(p)).for_each(|s| {
            hash.update(s.source.to_le_bytes());
            hash.update(s.sample.to_le_bytes());
        });
        hash.finalize().iter().take(4).fold(0_u32, |value, &byte| value << 8 | u32::from(byte))
    };
    let order = Order::new(Runs::new(20_000, 37), 42);
    let labels: Vec<i64> = (0..500).map(|i| i % 7).collect();
    let sources: Vec<(Arc<dyn Sampling>, f64)> =
        vec![(Arc::new(order.clone()), 2.0), (Arc::new(Order::new(Runs::new(500, 4), 1)), 1.0)];
    let found = [
        digest(&order.epoch(0)),
        digest(&order.clone().lanes(16).epoch(3)),
        digest(&order.mode(Mode::Full).epoch(0)),
        digest(&*Weighted::balanced(&labels, 42).unwrap().epoch(0)),
        digest(&*Mixture::new(sources, 42).unwrap().epoch(1)),
    ];
    assert_eq!(found.map(|d| format!("{d:08x}")), ["2efabe68", "c9496a64", "ba0e619c", "5b2df129", "e6ab50ae"]);
}

/// Follows one rank: what it is given lies in what it was told to read, reads are opened once and closed, and no more is open than promised.
fn follow(steps: Steps, open_max: u64) -> (Vec<u64>, u64, u64) {
    let mut open: HashMap<(u32, u64, u64), (std::ops::Range<u64>, u64)> = HashMap::new();
    let (mut given, mut read, mut reads, mut held) = (Vec::new(), 0, 0, 0);
    for step in steps {
        let name = (step.at.source, step.read_start, step.pass);
        if let Some(new) = step.read {
            let len = new.samples.end - new.samples.start;
            (read, reads, held) = (read + len, reads + 1, held + len);
            assert!(open.insert(name, (new.samples, new.needed)).is_none(), "read twice at a time");
        }
        assert!(held <= open_max, "{held} samples are held, {open_max} were promised");
        let (samples, needed) = open.get_mut(&name).expect("a read brings the sample");
        assert!(samples.contains(&step.at.sample));
        *needed -= 1;
        assert_eq!(*needed == 0, step.done);
        if step.done {
            held -= samples.end - samples.start;
            open.remove(&name);
        }
        given.push(step.at.sample);
    }
    assert!(open.is_empty(), "every read is closed at the end");
    (given, read, reads)
}

#[test]
fn ranks_read_their_share_and_no_byte_twice_where_they_divide_the_lanes() {
    let order = Order::new(Runs::new(50_001, 37), 42);
    let state = State::start(&order);
    for world_size in [1, 2, 3, 4, 5, 6, 8, 15, 16, 32, 48, 64, 96, 240, 256, 1024] {
        let mut given = Vec::new();
        for rank in 0..world_size {
            let world = World::new(rank, world_size, 4).unwrap();
            let open = order.epoch(0).open_samples_max(world_size.into());
            let (own, read, _) = follow(steps(&order, world, End::Uneven, &state), open);
            assert_eq!(read, own.len() as u64, "rank {rank} of {world_size}");
            given.extend(own);
        }
        assert_eq!(sorted(given), (0..50_001).collect::<Vec<_>>());
    }
}

#[test]
fn other_world_sizes_read_large_samples_alone_and_small_ones_by_the_run() {
    for (run_samples, most) in [(37, 1.0), (1000, 7.0)] {
        let order = Order::new(Runs::new(700_000, run_samples), 42);
        let world = World::new(3, 7, 8).unwrap();
        let open = order.epoch(0).open_samples_max(7);
        let (own, read, reads) = follow(steps(&order, world, End::Uneven, &State::start(&order)), open);
        assert_eq!(own.len(), 100_000);
        assert!(read as f64 <= most * own.len() as f64 && reads <= own.len() as u64, "{read} read in {reads}");
    }
}

#[test]
fn stored_order_is_read_in_slices() {
    let order = Order::new(Runs::new(10_007, 37), 42).mode(Mode::Stored);
    for (world_size, batch) in [(1, 64), (7, 32), (8, 100), (64, 3)] {
        let mut given = BTreeSet::new();
        for rank in 0..world_size {
            let world = World::new(rank, world_size, batch).unwrap();
            let (own, read, _) = follow(steps(&order, world, End::Pad, &State::start(&order)), 37);
            assert_eq!(read, own.len() as u64);
            given.extend(own);
        }
        assert_eq!(given, (0..10_007).collect());
    }
}

#[test]
fn subsets_come_whole_and_are_read_together_where_they_are_dense() {
    let runs = Runs::new(100_000, 40);
    for (members, most) in [
        ((0..100_000).filter(|i| i % 3 != 0).collect::<Vec<u64>>(), 1.6),
        ((0..100_000).filter(|i| i % 97 == 0).collect(), 1.0),
        ((20_000..30_000).collect(), 1.0),
    ] {
        let order = Order::new(runs, 42).lanes(12).subset(Members::new(&runs, members.clone()));
        assert_eq!(order.len(), members.len() as u64);
        let mut given = Vec::new();
        for rank in 0..4 {
            let world = World::new(rank, 4, 8).unwrap();
            let open = order.epoch(0).open_samples_max(4);
            let (own, read, _) = follow(steps(&order, world, End::Uneven, &State::start(&order)), open);
            assert!(read as f64 <= most * own.len() as f64, "{read} read for {}", own.len());
            given.extend(own);
        }
        assert_eq!(sorted(given), members);
    }
}

#[test]
fn subsets_by_label_and_by_key() {
    let built = support::OnDisk::new(&[5, 7]);
    let dataset = Dataset::open(built.path()).unwrap();
    let ones = samples_by_label(&dataset, |label| label == 1).unwrap();
    assert_eq!(ones, [1, 4, 7, 10]);
    assert_eq!(samples_by_key(&dataset, [dataset.key(9).unwrap(), dataset.key(3).unwrap()]).unwrap(), [9, 3]);
    assert!(samples_by_key(&dataset, ["no such"]).unwrap_err().to_string().contains("`no such`"));
    assert_eq!(Order::of(&dataset, 1).len(), dataset.len());
}

#[test]
fn weighted_draws_follow_the_weights() {
    let weights: Vec<f64> = (0..10).map(f64::from).collect();
    let epoch = Weighted::by_sample(&weights, 3).unwrap().draws(450_000).epoch(2);
    let mut counts = [0_f64; 10];
    all(&*epoch).into_iter().for_each(|s| counts[usize::try_from(s).unwrap()] += 1.0);
    assert_eq!(counts[0], 0.0);
    let chi: f64 = (1..10).map(|i| (counts[i] - i as f64 * 1e4).powi(2) / (i as f64 * 1e4)).sum();
    assert!(chi < 8.0 + 5.0 * 4.0, "chi-square of 8 degrees of freedom: {chi}");

    let labels: Vec<i64> = (0..1000).map(|i| if i < 10 { -1 } else { i % 3 }).collect();
    let weights = BTreeMap::from([(-1, 1.0), (2, 3.0)]);
    let epoch = Weighted::by_class(&labels, &weights, 3).unwrap().draws(40_000).epoch(0);
    let rare =
        all(&*epoch).into_iter().map(|s| labels[usize::try_from(s).unwrap()]).inspect(|l| assert!([-1, 2].contains(l)));
    assert!((9_500..10_500).contains(&rare.filter(|&l| l == -1).count()));
    assert!(Weighted::by_class(&labels, &BTreeMap::from([(7, 1.0)]), 3).is_err());
}

#[test]
fn mixtures_go_through_each_source_and_keep_its_lanes() {
    let source = |samples, seed| Arc::new(Order::new(Runs::new(samples, 20), seed)) as Arc<dyn Sampling>;
    let mixture = Mixture::new(vec![(source(100_000, 1), 3.0), (source(30_000, 2), 1.0)], 9).unwrap();
    let mixture = mixture.draws(100_000);
    let mut counts = [vec![0_u32; 100_000], vec![0; 30_000]];
    for number in 0..4 {
        let epoch = mixture.epoch(number);
        for p in 0..epoch.len() {
            let at = epoch.sample(p).unwrap();
            counts[at.source as usize][usize::try_from(at.sample).unwrap()] += 1;
        }
    }
    // Source 0 gave 300,000: three times its all; source 1 a hundred thousand: three times, and a third.
    for (counts, draws) in counts.iter().zip([300_000_i64, 100_000]) {
        assert!((i64::from(counts.iter().sum::<u32>()) - draws).abs() < 240 * 2);
        let near = draws / counts.len() as i64;
        let off = counts.iter().filter(|&&n| (i64::from(n) - near).abs() > 1).count();
        assert_eq!(off, 0, "nobody is seen twice more than another");
    }
    for world_size in [1, 8, 60] {
        let world = World::new(world_size - 1, world_size, 4).unwrap();
        let mut read = 0;
        let steps = steps(&mixture, world, End::Uneven, &State::start(&mixture));
        let given = steps.inspect(|s| read += s.read.as_ref().map_or(0, |r| r.samples.end - r.samples.start)).count();
        let open = 240 * 20 * 2 / u64::from(world_size);
        assert!(read <= given as u64 + open, "{read} read for {given}: runs still open at the end, and no more");
    }
}

#[test]
fn a_state_of_something_else_is_refused() {
    let order = Order::new(Runs::new(1000, 37), 42);
    let state = State::start(&order);
    assert!(order.epoch_of(&state).is_ok());
    for other in [
        Order::new(Runs::new(1001, 37), 42),
        Order::new(Runs::new(1000, 36), 42),
        order.clone().mode(Mode::Full),
        order.clone().lanes(120),
        order.clone().subset(Members::new(&Runs::new(1000, 37), (0..999).collect())),
        order.clone().dataset(shardpack_format::DatasetId([1; 16])),
    ] {
        let error = other.epoch_of(&state).unwrap_err().to_string();
        assert!(error.contains("fingerprint of the state") && error.contains("hint:"), "{error}");
    }
    let error = Order::new(Runs::new(1000, 37), 43).epoch_of(&state).unwrap_err().to_string();
    assert_eq!(error, "seed of the state: expected 43, found 42");
    let error = order.epoch_of(&State { samples_consumed: 1001, ..state }).unwrap_err().to_string();
    assert_eq!(error, "samples consumed of the state: expected at most 1000, the samples of an epoch, found 1001");
}

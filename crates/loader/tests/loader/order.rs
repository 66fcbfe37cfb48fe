//! Tests the public interface of the order: each sample is visited once, each rank's reads contain its samples, and
//! only the dataset, seed, epoch and position affect the order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use shardpack_loader::order::{
    End, Members, Mixture, Mode, Order, OrderState, Own, Positions, Runs, Sampling, Share, Step, Steps, Weighted,
    World, samples_by_label,
};
use shardpack_reader::Dataset;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

fn all(epoch: &dyn Positions) -> Vec<u64> {
    (0..epoch.len()).map(|p| epoch.sample(p).unwrap().sample).collect()
}

fn sorted(mut samples: Vec<u64>) -> Vec<u64> {
    samples.sort_unstable();
    samples
}

fn steps(sampling: &dyn Sampling, world: World, end: End, state: &OrderState) -> Steps {
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
fn absurd_numbers_do_no_harm() {
    for (samples, run_samples, lanes) in
        [(u64::MAX, u64::MAX, 1), (u64::MAX, 3, u64::MAX), (1 << 62, 7, 1 << 40), (9, 9, 0)]
    {
        for mode in [Mode::Stored, Mode::Windowed, Mode::Full] {
            let epoch = Order::new(Runs::new(samples, run_samples), 1).mode(mode).lanes(lanes).epoch(u32::MAX);
            for position in [0, epoch.len() / 2, epoch.len() - 1, epoch.len(), u64::MAX] {
                for own in [Own::Every { world_size: 0 }, Own::Every { world_size: u64::MAX }, Own::Range(0..u64::MAX)]
                {
                    let pick = epoch.pick(position, &own);
                    assert_eq!(pick.as_ref().map(|pick| pick.at), epoch.sample(position));
                    assert!(
                        pick.is_none_or(|pick| pick.span.contains(&pick.at.sample) && pick.span.end <= epoch.len())
                    );
                }
            }
            assert!(epoch.open_samples_max(0) >= 1 && epoch.open_samples_max(u64::MAX) >= 1);
        }
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

/// Digests of orders. They must never change, because saved states would then resume at the wrong samples. If a
/// change is unavoidable, increase `VERSION` in `state.rs` or make the fingerprint differ.
#[test]
fn orders_do_not_change() {
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
    assert_eq!(found.map(|d| format!("{d:08x}")), ["2efabe68", "c9496a64", "ba0e619c", "5b2df129", "07ca2711"]);
}

struct Followed {
    given: Vec<u64>,
    samples_read: u64,
    reads: u64,
    open: usize,
}

/// Open reads by key, with their spans and the number of samples left in them. A key has several reads if one
/// of them ends only after the next read with the same key has begun.
type Open = HashMap<(u32, u64, u64), VecDeque<(std::ops::Range<u64>, u64)>>;

/// Follows one rank that reads `ahead` steps ahead of delivery. Its samples must be in its reads, each read
/// must start and end once, and the rank must not keep more samples than promised.
fn follow(steps: Steps, ahead: usize, held_max: u64) -> Followed {
    let mut open = Open::new();
    let mut given = Vec::new();
    let (mut samples_read, mut reads, mut held) = (0, 0, 0);
    let mut waiting = VecDeque::new();
    let mut hand_out = |step: Step, open: &mut Open| {
        let name = (step.at.source, step.read_start, step.pass);
        let same = open.get_mut(&name).expect("a read brings the sample");
        let (samples, needed) = same.front_mut().unwrap();
        assert!(samples.contains(&step.at.sample));
        *needed -= 1;
        assert_eq!(*needed == 0, step.done);
        given.push(step.at.sample);
        let mut freed = 0;
        if step.done {
            freed = samples.end - samples.start;
            same.pop_front();
        }
        if same.is_empty() {
            open.remove(&name);
        }
        freed
    };
    for step in steps {
        if let Some(new) = &step.read {
            let len = new.samples.end - new.samples.start;
            (samples_read, reads, held) = (samples_read + len, reads + 1, held + len);
            let name = (step.at.source, step.read_start, step.pass);
            open.entry(name).or_default().push_back((new.samples.clone(), new.needed));
        }
        assert!(held <= held_max, "{held} samples are held, {held_max} were promised");
        waiting.push_back(step);
        if waiting.len() > ahead {
            held -= hand_out(waiting.pop_front().unwrap(), &mut open);
        }
    }
    waiting.into_iter().for_each(|step| held -= hand_out(step, &mut open));
    Followed { given, samples_read, reads, open: open.len() }
}

#[test]
fn ranks_read_their_share_and_no_byte_twice_where_they_divide_the_lanes() {
    let order = Order::new(Runs::new(50_001, 37), 42);
    let state = OrderState::start(&order);
    for world_size in [1, 2, 3, 4, 5, 6, 8, 15, 16, 32, 48, 64, 96, 240, 256, 1024] {
        let mut given = Vec::new();
        for rank in 0..world_size {
            let world = World::new(rank, world_size, 4).unwrap();
            let ahead = [0, 1, 100, 700][rank as usize % 4];
            let held = order.epoch(0).held_samples_max(world_size.into(), ahead);
            let steps = steps(&order, world, End::Uneven, &state);
            let own = follow(steps, usize::try_from(ahead).unwrap(), held);
            assert_eq!(own.samples_read, own.given.len() as u64, "rank {rank} of {world_size}");
            assert_eq!(own.open, 0);
            given.extend(own.given);
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
        let own = follow(steps(&order, world, End::Uneven, &OrderState::start(&order)), 0, open);
        assert_eq!(own.given.len(), 100_000);
        assert!(own.samples_read as f64 <= most * 1e5 && own.reads <= 100_000, "{} read", own.samples_read);
    }
}

#[test]
fn stored_order_is_read_in_slices() {
    let order = Order::new(Runs::new(10_007, 37), 42).mode(Mode::Stored);
    for (world_size, batch) in [(1, 64), (7, 32), (8, 100), (64, 3)] {
        let mut given = BTreeSet::new();
        for rank in 0..world_size {
            let world = World::new(rank, world_size, batch).unwrap();
            let own = follow(steps(&order, world, End::Pad, &OrderState::start(&order)), 0, 37);
            assert_eq!(own.samples_read, own.given.len() as u64);
            given.extend(own.given);
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
            let held = order.epoch(0).held_samples_max(4, 50);
            let own = follow(steps(&order, world, End::Uneven, &OrderState::start(&order)), 50, held);
            let (read, needed) = (own.samples_read, own.given.len());
            assert!(read as f64 <= most * needed as f64, "{read} read for {needed}");
            given.extend(own.given);
        }
        assert_eq!(sorted(given), members);
    }
}

#[test]
fn subsets_by_label() {
    let built = crate::support::OnDisk::new(&[5, 7]);
    let dataset = Dataset::open(built.path()).unwrap();
    let ones = samples_by_label(&dataset, |label| label == 1).unwrap();
    assert_eq!(ones, [1, 4, 7, 10]);
    assert_eq!(Order::of(&dataset, 1).len(), dataset.len());
    let records = |samples| dataset.records_of(samples).collect::<Vec<_>>();
    assert_eq!(records(3..9), [(0, 3..5), (1, 0..4)]);
    assert_eq!(records(5..12), [(1, 0..7)]);
    assert_eq!(records(5..5), []);
    assert_eq!(records(12..20), []);
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
    // After four epochs, source 0 has delivered 300,000 samples, which is 3 times its size, and source 1 has delivered
    // 100,000, which is 3⅓ times its size.
    for (counts, draws) in counts.iter().zip([300_000_i64, 100_000]) {
        assert!((i64::from(counts.iter().sum::<u32>()) - draws).abs() < 240 * 2);
        let near = draws / counts.len() as i64;
        let off = counts.iter().filter(|&&n| (i64::from(n) - near).abs() > 1).count();
        assert_eq!(off, 0, "counts of samples differ by at most one");
    }
    for world_size in [1, 8, 60] {
        let world = World::new(world_size - 1, world_size, 4).unwrap();
        let held = mixture.epoch(0).held_samples_max(world_size.into(), 30);
        let own = follow(steps(&mixture, world, End::Uneven, &OrderState::start(&mixture)), 30, held);
        let (read, needed) = (own.samples_read, own.given.len() as u64);
        let cut = 240 * 20 * 2 / u64::from(world_size);
        assert!(read <= needed + cut, "{read} read for {needed}: what the end of the epoch cuts off, and no more");
        assert!(own.reads * 8 < needed, "{} reads: runs, not samples", own.reads);
    }
}

/// A record of 4 MiB or more is a run of its own, so a window of 240 runs keeps no read open.
#[test]
fn lanes_of_single_samples_keep_nothing_open() {
    let order = Order::new(Runs::new(1_000, 1), 5);
    for world_size in [1, 8, 16, 7] {
        let held = order.epoch(0).held_samples_max(world_size.into(), 0);
        assert_eq!(held, 1, "{world_size} ranks");
        let world = World::new(0, world_size, 4).unwrap();
        let own = follow(steps(&order, world, End::Uneven, &OrderState::start(&order)), 0, held);
        assert_eq!(own.samples_read, own.given.len() as u64);
    }
}

/// Counts how often each sample of the first source has occurred on any rank after a number of whole passes through
/// that source.
fn passes_of_the_first(mixture: &Mixture, len: u64, passes: u64, world_size: u32) -> Vec<u64> {
    let mut counts = vec![0_u64; usize::try_from(len).unwrap()];
    let mut left = len * passes;
    'epochs: for number in 0.. {
        let state = OrderState { epoch: number, ..OrderState::start(mixture) };
        let world = |rank| World::new(rank, world_size, 5).unwrap();
        let mut ranks: Vec<_> =
            (0..world_size).map(|rank| steps(mixture, world(rank), End::Uneven, &state).peekable()).collect();
        let (mut batch, mut before) = (0, left);
        loop {
            // All ranks finish a global batch before any rank starts the next one. The rows of the ranks alternate.
            let mut given: Vec<Step> = Vec::new();
            for rank in &mut ranks {
                while let Some(step) = rank.next_if(|step| step.batch == batch) {
                    given.push(step);
                }
            }
            if given.is_empty() {
                break;
            }
            given.sort_unstable_by_key(|step| step.position);
            for step in given.iter().filter(|step| step.at.source == 0) {
                counts[usize::try_from(step.at.sample).unwrap()] += 1;
                left -= 1;
                if left == 0 {
                    break 'epochs;
                }
            }
            batch += 1;
        }
        assert!(left < before, "an epoch brings the source");
        before = left;
        assert!(before > 0);
    }
    counts
}

#[test]
fn passes_of_small_sources_end_before_the_next_begin() {
    let order = |samples, run_samples, seed| Order::new(Runs::new(samples, run_samples), seed);
    for (len, passes) in [(10, 40), (50, 13), (300, 7), (5_000, 3)] {
        // A run of 4 MiB may have many samples or few. With 4 samples per run, a source of 5,000 samples is ordered in
        // lanes.
        for (run_samples, share, mode) in
            [(4, 0.3, Mode::Windowed), (400, 0.02, Mode::Windowed), (4, 0.5, Mode::Stored)]
        {
            let small = order(len, run_samples, 1).mode(mode);
            let sources: Vec<(Arc<dyn Sampling>, f64)> =
                vec![(Arc::new(small), share), (Arc::new(order(100_000, 38, 2)), 1.0 - share)];
            let mixture = Mixture::new(sources, 3).unwrap().draws(7_001);
            for world_size in [1, 3, 8] {
                for passes in [1, 2, passes] {
                    let counts = passes_of_the_first(&mixture, len, passes, world_size);
                    assert!(counts.iter().all(|&n| n == passes), "{len} samples, {world_size} ranks: {counts:?}");
                }
            }
            for world_size in [1, 3, 8] {
                let world = World::new(world_size - 1, world_size, 4).unwrap();
                let held = mixture.epoch(0).held_samples_max(world_size.into(), 30);
                follow(steps(&mixture, world, End::Uneven, &OrderState::start(&mixture)), 30, held);
            }
        }
    }
}

/// If a source in lanes is large enough to be counted by columns, no sample is two passes ahead of another, for any
/// number of lanes. In a smaller source, no sample is even one pass ahead.
#[test]
fn passes_of_large_sources_overlap_by_less_than_one() {
    for (lanes, len, share) in [(240, 15_360, 0.3), (240, 20_000, 0.51), (16, 1_100, 0.4), (1011, 70_000, 0.5)] {
        let order = |samples, seed| Arc::new(Order::new(Runs::new(samples, 9), seed).lanes(lanes)) as Arc<dyn Sampling>;
        let mixture = Mixture::new(vec![(order(len, 1), share), (order(100_000, 2), 1.0 - share)], 3).unwrap();
        for passes in [1, 2, 5] {
            let counts = passes_of_the_first(&mixture, len, passes, 8);
            let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
            assert!(least + 1 >= passes && most <= passes + 1, "{lanes} lanes, {passes} passes: {least} to {most}");
        }
    }
}

#[test]
fn a_state_of_something_else_is_refused() {
    let order = Order::new(Runs::new(1000, 37), 42);
    let state = OrderState::start(&order);
    assert!(order.epoch_of(&state).is_ok());
    for other in [
        Order::new(Runs::new(1001, 37), 42),
        Order::new(Runs::new(1000, 36), 42),
        order.clone().mode(Mode::Full),
        order.clone().lanes(120),
        order.clone().subset(Members::new(&Runs::new(1000, 37), (0..999).collect())),
        order.clone().dataset(shardpack_format::DatasetId([1; 16])),
    ] {
        let error = other.epoch_of(&state).unwrap_err();
        assert!(error.to_string().contains("the state belongs to another loader") && error.hint().is_some(), "{error}");
    }
    let hint = order.clone().lanes(120).epoch_of(&state).unwrap_err().hint().unwrap().to_string();
    assert_eq!(hint, "the state was saved with `lanes = 240`, so pass that instead of 120");
    let error = Order::new(Runs::new(1000, 37), 43).epoch_of(&state).unwrap_err().to_string();
    assert_eq!(error, "the state was saved with seed 42, but this loader has seed 43");
    let error = order.epoch_of(&OrderState { samples_consumed: 1001, ..state }).unwrap_err().to_string();
    assert_eq!(error, "the state was saved after 1001 samples of the epoch, but this loader has only 1000 per epoch");
}

#[test]
fn one_rank_reads_small_samples_of_a_set_that_fits_into_the_window_by_whole_runs() {
    let order = Order::new(Runs::new(5_001, 370), 42);
    assert_eq!(all(&order.epoch(1)), all(&order.clone().mode(Mode::Full).epoch(1)), "the order of both is the same");
    let held = order.epoch(0).held_samples_max(1, 100);
    let own = follow(steps(&order, World::new(0, 1, 8).unwrap(), End::Uneven, &OrderState::start(&order)), 100, held);
    assert_eq!((own.reads, own.samples_read, own.open), (14, 5_001, 0));
    assert_eq!(sorted(own.given), (0..5_001).collect::<Vec<_>>());
    // After resuming, the remaining samples of each run must be counted again.
    let state = OrderState { samples_consumed: 3_000, ..OrderState::start(&order) };
    let own = follow(steps(&order, World::new(0, 1, 8).unwrap(), End::Uneven, &state), 0, held);
    assert_eq!((own.given.len(), own.open), (2_001, 0));
    assert!(own.reads <= 14, "{} reads", own.reads);
    // Large samples are read one by one even if the dataset fits into the window. From a disk, this is as fast as
    // reading runs, and the dataset need not stay in memory.
    let large = Order::new(Runs::new(5_001, 37), 42);
    assert_eq!(all(&large.epoch(1)), all(&order.epoch(1)));
    let own = follow(steps(&large, World::new(0, 1, 8).unwrap(), End::Uneven, &OrderState::start(&large)), 0, 1);
    assert_eq!((own.reads, own.samples_read), (5_001, 5_001));
    // Several ranks read sample by sample too. With whole runs, each rank would read the whole dataset.
    let mut given = Vec::new();
    for rank in 0..3 {
        let own = follow(steps(&order, World::new(rank, 3, 8).unwrap(), End::Uneven, &OrderState::start(&order)), 0, 1);
        assert_eq!(own.samples_read, own.given.len() as u64);
        given.extend(own.given);
    }
    assert_eq!(sorted(given), (0..5_001).collect::<Vec<_>>());
}

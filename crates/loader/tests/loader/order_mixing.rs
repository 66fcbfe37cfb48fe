//! Compares how well samples are mixed by the windowed order, by a full permutation, and by a shuffle buffer
//! with the same memory.
//!
//! To print the table in `docs/order.md`: `cargo test --release -p shardpack-loader --test loader --
//! --ignored --nocapture order_mixing`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use shardpack_loader::order::{Keyed, Mode, Order, Permutation, Positions, Runs};
use std::collections::{HashMap, HashSet, VecDeque};

#[derive(Clone, Copy)]
struct Set {
    samples: u64,
    run_samples: u64,
    lanes: u64,
    shard_samples: u64,
    /// Number of classes. Samples are stored class by class, as with `pack --no-shuffle`, which is the hardest case.
    classes: u64,
    batch: usize,
}

/// ImageNet, with 110 KB per picture, shards of 1 GiB, and a window of 960 MiB.
const IMAGENET: Set =
    Set { samples: 1_281_167, run_samples: 38, lanes: 240, shard_samples: 9_761, classes: 1000, batch: 256 };
const SMALL: Set = Set { samples: 40_000, run_samples: 20, lanes: 48, shard_samples: 1000, classes: 200, batch: 64 };

fn order(set: Set, mode: Mode, epoch: u32) -> Vec<u64> {
    let order = Order::new(Runs::new(set.samples, set.run_samples), 42).mode(mode).lanes(set.lanes).epoch(epoch);
    (0..set.samples).map(|p| order.sample(p).unwrap().sample).collect()
}

/// Returns the order of WebDataset, tf.data and others: `open_shards` shards at a time, in random order, are
/// read in turn into a buffer as large as the window. For each sample that enters the buffer, a random one
/// leaves it.
fn shuffle_buffer(set: Set, epoch: u32, open_shards: u64) -> Vec<u64> {
    let random = Keyed::new(42, epoch, 100);
    let shards = set.samples.div_ceil(set.shard_samples);
    let shards_in_order = Permutation::new(shards, random.draw(u64::MAX));
    let mut waiting = (0..shards).map(|i| {
        let first = shards_in_order.apply(i) * set.shard_samples;
        first..(first + set.shard_samples).min(set.samples)
    });
    let mut open: VecDeque<_> = waiting.by_ref().take(usize::try_from(open_shards).unwrap()).collect();
    let mut incoming = std::iter::from_fn(|| {
        let mut shard = open.pop_front()?;
        let next = shard.next();
        open.extend(if shard.is_empty() { waiting.next() } else { Some(shard) });
        next
    });
    let mut buffer: Vec<u64> = incoming.by_ref().take(usize::try_from(set.lanes * set.run_samples).unwrap()).collect();
    let mut out = Vec::new();
    while !buffer.is_empty() {
        let drawn = usize::try_from(random.below(buffer.len() as u64, out.len() as u64)).unwrap();
        match incoming.next() {
            Some(next) => out.push(std::mem::replace(&mut buffer[drawn], next)),
            None => out.push(buffer.swap_remove(drawn)),
        }
    }
    out
}

/// Returns the entropy, in bits, of the distance in storage between consecutive samples, in 256 equal bins.
/// It is 7.72 for a fully random order.
fn distance_entropy(set: Set, order: &[u64]) -> f64 {
    let mut counts = [0_u64; 256];
    for pair in order.windows(2) {
        counts[usize::try_from(pair[0].abs_diff(pair[1]) * 256 / set.samples).unwrap()] += 1;
    }
    let total = (order.len() - 1) as f64;
    counts.iter().filter(|&&n| n > 0).map(|&n| n as f64 / total).map(|p| -p * p.log2()).sum()
}

/// Counts, for each sample, the other samples of the same run in its batch. Returns the mean count.
fn same_run_neighbours(set: Set, order: &[u64]) -> f64 {
    let batches = order.chunks_exact(set.batch);
    let samples = batches.len() * set.batch;
    let pairs: u64 = batches
        .map(|batch| {
            let mut runs: HashMap<u64, u64> = HashMap::new();
            batch.iter().for_each(|s| *runs.entry(s / set.run_samples).or_default() += 1);
            runs.values().map(|n| n * (n - 1)).sum::<u64>()
        })
        .sum();
    pairs as f64 / samples as f64
}

fn classes_in_a_batch(set: Set, order: &[u64]) -> f64 {
    let batches = order.chunks_exact(set.batch);
    let (number, class) = (batches.len(), |s: &u64| s * set.classes / set.samples);
    let distinct: usize = batches.map(|batch| batch.iter().map(class).collect::<HashSet<_>>().len()).sum();
    distinct as f64 / number as f64
}

/// Returns the mean distance of a sample from its stored position, as a fraction of the dataset. It is 1/3 for a
/// fully random order.
fn displacement(set: Set, order: &[u64]) -> f64 {
    let moved: f64 = (0_u64..).zip(order).map(|(p, &s)| p.abs_diff(s) as f64 / set.samples as f64).sum();
    moved / order.len() as f64
}

/// Returns the chi-square statistic for the positions of 200 samples over many epochs, in 16 bins, divided by
/// the degrees of freedom. It is 1 if all positions are equally likely.
fn chi_square_of_positions(set: Set, epochs: u32, order: impl Fn(u32) -> Vec<u64>) -> f64 {
    const BINS: u16 = 16;
    let watched: Vec<u64> = (0..200).map(|i| i * (set.samples - 1) / 199).collect();
    let mut counts = vec![[0_f64; BINS as usize]; watched.len()];
    for epoch in 0..epochs {
        let order = order(epoch);
        let place: HashMap<u64, u64> = order.iter().zip(0..).map(|(&s, p)| (s, p)).collect();
        for (sample, counts) in watched.iter().zip(&mut counts) {
            counts[usize::try_from(place[sample] * u64::from(BINS) / set.samples).unwrap()] += 1.0;
        }
    }
    let expected = f64::from(epochs) / f64::from(BINS);
    let chi = |counts: &[f64; 16]| counts.iter().map(|n| (n - expected).powi(2) / expected).sum::<f64>();
    counts.iter().map(chi).sum::<f64>() / (watched.len() as f64 * f64::from(BINS - 1))
}

#[test]
fn the_windowed_order_mixes_nearly_as_well_as_a_permutation() {
    let windowed = order(SMALL, Mode::Windowed, 0);
    let full = order(SMALL, Mode::Full, 0);
    let buffer = shuffle_buffer(SMALL, 0, 1);
    let mut sorted = buffer.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..SMALL.samples).collect::<Vec<_>>(), "the simulated buffer is a fair one");

    // In the windowed order, neighbouring samples stay close together for about a run. The distances of 4,000 pairs
    // of runs, instead of 40,000 pairs of samples, fill the 256 bins, which lowers the entropy by 0.05 bits.
    let entropies = [&full, &windowed, &buffer].map(|order| distance_entropy(SMALL, order));
    assert!(entropies[0] > 7.69 && entropies[1] > 7.6 && entropies[2] < 6.5, "{entropies:?}");

    // A batch takes 64 samples from 48 lanes, so 16 runs occur twice. The shuffle buffer holds the same number of runs,
    // but takes samples from them at random, so more samples share a run.
    assert!(same_run_neighbours(SMALL, &windowed) < 0.55);
    assert!(same_run_neighbours(SMALL, &buffer) > same_run_neighbours(SMALL, &windowed));

    assert!(classes_in_a_batch(SMALL, &windowed) > 0.75 * classes_in_a_batch(SMALL, &full));
    assert!(classes_in_a_batch(SMALL, &buffer) < 0.5 * classes_in_a_batch(SMALL, &full));

    assert!((displacement(SMALL, &windowed) - 1.0 / 3.0).abs() < 0.03);
}

/// The statistic is the mean of 200 × 15 squared deviations. It is about 1, with a standard deviation of 0.026. Samples
/// of the same run move together, but no two of the tested samples share a run.
#[test]
fn positions_are_uniform_over_epochs() {
    let set = Set { samples: 8_000, run_samples: 10, lanes: 24, shard_samples: 500, classes: 1, batch: 1 };
    for mode in [Mode::Windowed, Mode::Full] {
        let chi = chi_square_of_positions(set, 320, |epoch| order(set, mode, epoch));
        assert!((0.87..1.13).contains(&chi), "{mode:?}: {chi:.3}");
    }
}

/// If the time during which a run is open is divided into quarters, each quarter must deliver every quarter of the
/// run's samples equally often. Single samples may deviate for two reasons. If a part has an odd number of samples,
/// the middle one always goes to the half with the first turn. Also, the run in which a lane starts is split in two,
/// and its second part is delivered first. Each lane has one run like this.
#[test]
fn times_within_a_run_are_uniform_over_epochs() {
    let (run, runs, epochs) = (36, 400, 100);
    let mut counts = [[0_f64; 4]; 4];
    for epoch in 0..epochs {
        let order = Order::new(Runs::new(run * runs, run), 7).lanes(1).epoch(epoch);
        let mut seen = vec![0; usize::try_from(runs).unwrap()];
        for p in 0..order.len() {
            let sample = order.sample(p).unwrap().sample;
            let time = &mut seen[usize::try_from(sample / run).unwrap()];
            counts[usize::try_from(sample % run / 9).unwrap()][*time / 9] += 1.0;
            *time += 1;
        }
    }
    let expected = f64::from(epochs) * (run * runs) as f64 / 16.0;
    let chi: f64 = counts.iter().flatten().map(|n| (n - expected).powi(2) / expected).sum();
    assert!(chi < 9.0 + 5.0 * 18_f64.sqrt(), "chi-square of 9 degrees of freedom: {chi:.1}");
}

#[test]
#[ignore = "prints the table of docs/order.md"]
fn table() {
    let set = IMAGENET;
    println!("order | entropy | same-run | classes | displacement | chi-square");
    let small = Set { samples: 40_000, ..SMALL };
    type Ordered<'a> = &'a dyn Fn(Set, u32) -> Vec<u64>;
    let orders: [(&str, Ordered<'_>); 5] = [
        ("stored", &|set, epoch| order(set, Mode::Stored, epoch)),
        ("shuffle buffer", &|set, epoch| shuffle_buffer(set, epoch, 1)),
        ("shuffle buffer behind 16 open shards", &|set, epoch| shuffle_buffer(set, epoch, 16)),
        ("windowed", &|set, epoch| order(set, Mode::Windowed, epoch)),
        ("full", &|set, epoch| order(set, Mode::Full, epoch)),
    ];
    for (name, order) in orders {
        let epoch = order(set, 0);
        println!(
            "{name} | {:.2} | {:.4} | {:.1} | {:.3} | {:.2}",
            distance_entropy(set, &epoch),
            same_run_neighbours(set, &epoch),
            classes_in_a_batch(set, &epoch),
            displacement(set, &epoch),
            chi_square_of_positions(small, 400, |epoch| order(small, epoch)),
        );
    }
}

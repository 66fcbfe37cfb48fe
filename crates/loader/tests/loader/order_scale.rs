//! Tests how a hundred million samples of 110 KB are planned for 1 to 1,024 ranks, without any data.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use shardpack_loader::order::{
    End, Epoch, Keyed, Order, OrderState, Own, Positions, Runs, Sampling, Share, Step, Steps, World,
};
use std::time::Instant;

const SAMPLES: u64 = 100_000_000;
const BYTES: u64 = 110_000 * SAMPLES;
/// 64 parts of a run times 240 lanes. If the world size divides this number, no byte is read twice.
const EVEN: u64 = 64 * Order::LANES;

fn order() -> Order {
    Order::new(Runs::of_bytes(SAMPLES, BYTES, Runs::BYTES), 42)
}

/// Returns the number of samples that a rank needs from the read for `position`, and the number of samples in that
/// read. Counts them by following the rank's positions in both directions, without calling `rest`.
fn around(epoch: &Epoch, position: u64, world_size: u64) -> (u64, u64) {
    let own = Own::Every { world_size };
    let here = epoch.pick(position, &own).unwrap();
    let lcm = (1..).map(|i| i * world_size).find(|n| n.is_multiple_of(Order::LANES)).unwrap();
    let same = |p: &u64| epoch.pick(*p, &own).is_some_and(|pick| pick.span == here.span);
    let after = (0..).map(|i| position + i * lcm).take_while(same).count() as u64;
    let before = (1..).map_while(|i| position.checked_sub(i * lcm)).take_while(same).count() as u64;
    assert_eq!(after, here.rest);
    (before + after, here.span.end - here.span.start)
}

#[test]
fn every_world_size_reads_only_its_samples() {
    let epoch = order().epoch(0);
    let places = Keyed::new(1, 0, 0);
    for world_size in 1..=1024 {
        for place in 0..4 {
            let position = places.below(SAMPLES, world_size * 4 + place);
            let (taken, read) = around(&epoch, position, world_size);
            assert_eq!(taken, read, "{world_size} ranks, position {position}");
            assert!(EVEN.is_multiple_of(world_size) || read == 1, "ranks that do not divide {EVEN} read samples alone");
        }
    }
}

#[test]
fn a_rank_follows_its_plan_in_little_memory() {
    let order = order();
    for (world_size, rank) in [(1024, 517), (896, 3), (256, 255)] {
        let state = OrderState::start(&order);
        let epoch = order.epoch_of(&state).unwrap();
        let open_max = epoch.open_samples_max(world_size.into());
        let share = Share::new(World::new(rank, world_size, 32).unwrap(), End::Uneven, &*epoch, &state);
        let mut steps = Steps::new(epoch, share.clone());
        let (mut given, mut read, mut most_open) = (0, 0, 0);
        while let Some(Step { read: new, .. }) = steps.next() {
            given += 1;
            read += new.map_or(0, |r| r.samples.end - r.samples.start);
            most_open = most_open.max(steps.open_reads());
        }
        assert_eq!((given, read), (share.samples(), share.samples()));
        assert!(most_open as u64 <= open_max.min(Order::LANES));
    }
    assert!(size_of::<Order>() + size_of::<Epoch>() <= 512, "the order of any number of samples");
}

#[test]
#[ignore = "a bit for each of 10⁸ samples: 20 s with --release"]
fn a_hundred_million_samples_come_once() {
    let epoch = order().epoch(0);
    let mut seen = vec![0_u64; usize::try_from(SAMPLES / 64 + 1).unwrap()];
    let begin = Instant::now();
    for position in 0..SAMPLES {
        let sample = epoch.sample(position).unwrap().sample;
        let word = &mut seen[usize::try_from(sample / 64).unwrap()];
        assert_eq!(*word >> (sample % 64) & 1, 0, "{sample} twice");
        *word |= 1 << (sample % 64);
    }
    println!("{SAMPLES} samples in {:.1} s", begin.elapsed().as_secs_f64());
}

/// To print the table:
/// `cargo test --release -p shardpack-loader --test loader -- --ignored --nocapture order_scale::table`.
#[test]
#[ignore = "prints the table of docs/order.md"]
fn table_of_world_sizes() {
    let order = order();
    let places = Keyed::new(2, 0, 0);
    println!(
        "ranks | samples a read | MiB a read | read / taken | whole runs / taken | MiB held by a rank | ns a sample"
    );
    for world_size in [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024] {
        let epoch = order.epoch(0);
        let (mut weight, mut parts) = (0.0, 0.0);
        for i in 0..20_000 {
            // A random position hits a read with a probability proportional to the read's number of samples,
            // so each read is weighted by the inverse.
            let pick = epoch.pick(places.below(SAMPLES, i), &Own::Every { world_size }).unwrap();
            weight += 1.0;
            parts += 1.0 / (pick.span.end - pick.span.start) as f64;
        }
        let samples = weight / parts;
        let sharing = world_size
            / (1..=world_size)
                .filter(|g| world_size.is_multiple_of(*g) && Order::LANES.is_multiple_of(*g))
                .max()
                .unwrap();
        let splits = 1.0 + 2.0 * Order::LANES as f64 / Runs::of_bytes(SAMPLES, BYTES, Runs::BYTES).count() as f64;
        let state = OrderState::start(&order);
        let world = World::new(0, u32::try_from(world_size).unwrap(), 32).unwrap();
        let epoch = order.epoch_of(&state).unwrap();
        let held = epoch.open_samples_max(world_size) as f64 * 110e3 / f64::from(1 << 20);
        let share = Share::new(world, End::Drop, &*epoch, &state);
        let begin = Instant::now();
        let (mut steps, mut read) = (0_u64, 0);
        for step in Steps::new(epoch, share).take(300_000) {
            steps += 1;
            read += step.read.map_or(0, |r| if r.needed == 0 { 0 } else { r.samples.end - r.samples.start });
        }
        let ns = begin.elapsed().as_secs_f64() * 1e9 / steps as f64;
        assert!(read >= steps);
        println!(
            "{world_size} | {samples:.1} | {:.2} | 1.00 | {:.2} | {held:.1} | {ns:.0}",
            samples * 110e3 / f64::from(1 << 20),
            sharing.min(38) as f64 * splits,
        );
    }
}

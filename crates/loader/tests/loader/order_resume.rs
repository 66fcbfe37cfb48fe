//! Tests stopping anywhere, and resuming with a different number of ranks, batch size and end of the epoch. No sample
//! may be lost or repeated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};
use shardpack_loader::order::{
    End, Members, Mixture, Mode, Order, OrderState, Runs, SampleRef, Sampling, Share, Steps, Weighted, World,
};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
struct Leg {
    world_size: u32,
    batch_size: u32,
    kill_after: u64,
}

fn legs() -> impl Strategy<Value = Vec<Leg>> {
    let world = prop_oneof![1..=16_u32, Just(24), Just(32), Just(64), 1..=100_u32];
    let leg = (world, 1..=40_u32, 0..=30_u64).prop_map(|(world_size, batch_size, kill_after)| Leg {
        world_size,
        batch_size,
        kill_after,
    });
    prop::collection::vec(leg, 1..5)
}

fn order() -> impl Strategy<Value = Order> {
    let mode = prop_oneof![Just(Mode::Stored), Just(Mode::Windowed), Just(Mode::Windowed), Just(Mode::Full)];
    let lanes = prop_oneof![Just(1), Just(6), Just(16), Just(240), 1..=30_u64];
    (0..=3000_u64, 1..=60_u64, mode, lanes, any::<u64>(), 1..=5_u64).prop_map(
        |(samples, run_samples, mode, lanes, seed, every)| {
            let runs = Runs::new(samples, run_samples);
            let order = Order::new(runs, seed).mode(mode).lanes(lanes);
            match every {
                1 => order.subset(Members::new(&runs, (0..samples).filter(|i| i % 3 != 1).collect())),
                _ => order,
            }
        },
    )
}

fn sampling() -> impl Strategy<Value = Arc<dyn Sampling>> {
    let weighted = (1..2000_i64, any::<u64>()).prop_map(|(samples, seed)| {
        let labels: Vec<i64> = (0..samples).map(|i| i % 7).collect();
        Arc::new(Weighted::balanced(&labels, seed).unwrap()) as Arc<dyn Sampling>
    });
    let sources = prop::collection::vec((order(), 0.01..10.0), 1..4);
    let mixture = (sources, 1..600_u64, any::<u64>()).prop_map(|(sources, draws, seed)| {
        let full = sources.into_iter().filter(|(order, _)| !order.is_empty());
        let mut sources: Vec<_> = full.map(|(order, weight)| (Arc::new(order) as Arc<dyn Sampling>, weight)).collect();
        sources.push((Arc::new(Order::new(Runs::new(100, 9), 1)), 1.0));
        Arc::new(Mixture::new(sources, seed).unwrap().draws(draws)) as Arc<dyn Sampling>
    });
    prop_oneof![8 => order().prop_map(|order| Arc::new(order) as Arc<dyn Sampling>), 1 => weighted, 1 => mixture]
}

/// Returns the samples of all ranks and the number consumed, and checks each rank's counts.
fn deliver(order: &dyn Sampling, state: &OrderState, leg: Leg, end: End, batches: u64) -> (Vec<SampleRef>, u64) {
    let (mut given, mut consumed) = (Vec::new(), None);
    let mut counts = Vec::new();
    for rank in 0..leg.world_size {
        let epoch = order.epoch_of(state).unwrap();
        let world = World::new(rank, leg.world_size, leg.batch_size).unwrap();
        let share = Share::new(world, end, &*epoch, state);
        let mut own = 0;
        let mut last = None;
        for step in Steps::new(epoch, share.clone()).take_while(|step| step.batch < batches) {
            assert_eq!(share.position(step.batch, step.row), Some(step.position));
            assert!(step.row < share.filled(step.batch) && step.batch < share.batches());
            given.push(step.at);
            own += 1;
            last = Some(step.batch);
        }
        let promised: u64 = (0..share.batches().min(batches)).map(|batch| share.filled(batch)).sum();
        assert_eq!(own, promised, "rank {rank} gets its promised samples");
        if batches >= share.batches() {
            assert_eq!(own, share.samples());
            assert!(end == End::Pad || last.map_or(0, |batch| batch + 1) == share.batches());
        }
        counts.push(share.batches());
        // All ranks must compute the same number of consumed samples without communication.
        let after = share.consumed_after(batches.min(share.steps()));
        assert_eq!(*consumed.get_or_insert(after), after);
    }
    let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(fewest == most || (end == End::Uneven && fewest + 1 == *most));
    (given, consumed.unwrap())
}

fn check(order: &dyn Sampling, legs: &[Leg], end: End) {
    let mut state = OrderState { epoch: 5, ..OrderState::start(order) };
    let whole = order.epoch_of(&state).unwrap();
    let expected = |from: u64, to: u64| {
        let mut samples: Vec<SampleRef> = (from..to).map(|p| whole.sample(p).unwrap()).collect();
        samples.sort_unstable();
        samples
    };
    let (killed, last) = legs.split_at(legs.len() - 1);
    for &leg in killed {
        let (mut given, consumed) = deliver(order, &state, leg, End::Uneven, leg.kill_after);
        given.sort_unstable();
        assert_eq!(given, expected(state.samples_consumed, consumed), "the same set, however it is dealt");
        let text = serde_json::to_string(&OrderState { samples_consumed: consumed, ..state }).unwrap();
        state = serde_json::from_str(&text).unwrap();
    }
    let (mut given, consumed) = deliver(order, &state, last[0], end, u64::MAX);
    given.sort_unstable();
    assert_eq!(given, expected(state.samples_consumed, consumed));
    let left = whole.len() - consumed;
    match end {
        End::Drop => assert!(left < u64::from(last[0].world_size * last[0].batch_size)),
        _ => assert_eq!(left, 0),
    }
}

/// Returns 2,000, or ten times as many if `SHARDPACK_LONG` is set, as in `scripts/check.sh --long`.
fn cases() -> u32 {
    if std::env::var_os("SHARDPACK_LONG").is_some() { 20_000 } else { 2_000 }
}

/// Chooses where proptest stores failing cases. By default, it would look for a `lib.rs`, which does not exist here.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: kept(), ..ProptestConfig::default() })]

    #[test]
    fn no_sample_is_lost_or_repeated(
        sampling in sampling(),
        legs in legs(),
        end in prop_oneof![Just(End::Drop), Just(End::Pad), Just(End::Uneven)],
    ) {
        check(&*sampling, &legs, end);
    }
}

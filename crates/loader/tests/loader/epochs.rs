//! Tests consecutive epochs. Starting the next epoch before this one ends must save time and change nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::cubes::{ALIKE, Cubes, varied};
use crate::loader_support::fake_stage::{Counts, FakeStage, Trouble};
use crate::loader_support::{Disk, Seen, base, epoch, seen};
use shardpack_loader::order::{End, Mixture, Mode, Order, Runs, Sampling, Weighted};
use shardpack_loader::{
    CubeMode, Dataset, EpochPhase, Loader, LoaderOptions, Note, OnCorrupt, PatchPlace, Patches, Transform,
    TransformRow, Window,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EPOCHS: u32 = 5;

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).seed(3).end(End::Uneven)
}

fn alone(dataset: &Dataset, options: &LoaderOptions, number: u32) -> Vec<Seen> {
    epoch(&mut Loader::open(dataset, options.clone().epoch(number)).unwrap())
}

/// Consecutive epochs of one loader must be equal to epochs of separate loaders, including states and lengths.
fn check(dataset: &Dataset, options: &LoaderOptions, what: &str) {
    let mut loader = Loader::open(dataset, options.clone()).unwrap();
    for number in 0..EPOCHS {
        loader.set_epoch(number).unwrap();
        assert_eq!((loader.current_epoch(), loader.state().samples_consumed), (number, 0), "{what}");
        let mut fresh = Loader::open(dataset, options.clone().epoch(number)).unwrap();
        assert_eq!((loader.len(), loader.positions()), (fresh.len(), fresh.positions()), "{what}, epoch {number}");
        // The two loaders take turns, so each one works in the background while the other is used.
        while let Some(expected) = fresh.next_batch() {
            let batch = loader.next_batch().unwrap_or_else(|| panic!("{what}: epoch {number} is too short")).unwrap();
            let expected = expected.unwrap();
            assert!(seen(&batch) == seen(&expected), "{what}, epoch {number}");
            assert!(batch.draw_keys().eq(expected.draw_keys()), "{what}, epoch {number}");
            assert_eq!(batch.patches(), expected.patches(), "{what}, epoch {number}");
            assert_eq!(loader.state(), fresh.state(), "{what}, epoch {number}");
        }
        for _ in 0..3 {
            assert!(loader.next_batch().is_none(), "{what}: over until another epoch is set");
        }
        assert_eq!(loader.state(), fresh.state(), "{what}, after epoch {number}");
    }
    let stats = loader.stats();
    assert!(stats.peak_run_bytes <= loader.predicted_bytes(), "{what}: {stats:?}");
    assert_eq!(stats.extra_slots, 0, "{what}");
}

#[test]
fn epochs_of_one_loader_are_those_of_many() {
    let (alike, varied) = (Disk::alike(&[23, 14]), Disk::varied(&[23, 14]));
    for (disk, sizes) in [(&alike, "alike"), (&varied, "varied")] {
        let dataset = disk.open();
        for mode in [Mode::Windowed, Mode::Stored, Mode::Full] {
            for (end, rank, world_size) in [(End::Drop, 0, 1), (End::Pad, 2, 3), (End::Uneven, 4, 5)] {
                for window in [Window::Memory, Window::PageCache] {
                    let slots = if end == End::Pad { 1 } else { 6 };
                    let options =
                        options(4).mode(mode).end(end).rank(rank).world_size(world_size).window(window).slots(slots);
                    check(&dataset, &options, &format!("{sizes} {mode:?} {end:?} {window:?}"));
                }
            }
        }
    }
    // The order has several runs, and some of them are still open when an epoch ends.
    let order = Order::new(Runs::new(37, 5), 7).lanes(3);
    let sampling = Some(Arc::new(order) as Arc<dyn Sampling>);
    for threads in [1, 7] {
        let options = {
            let mut options = options(8).threads(threads).end(End::Drop);
            options.order.sampling = sampling.clone();
            options
        };
        check(&varied.open(), &options, &format!("runs, {threads} threads"));
        let options = options.part_bytes(400);
        check(&varied.open(), &options, &format!("records in parts, {threads} threads"));
    }
}

#[test]
fn epochs_of_draws_and_mixtures_are_those_of_many_loaders() {
    let (first, second) = (Disk::alike(&[9]), Disk::alike(&[14]));
    let weights: Vec<f64> = (0..9).map(f64::from).collect();
    let weighted = Weighted::by_sample(&weights, 3).unwrap().draws(20);
    check(&first.open(), &options(6).sampling(Arc::new(weighted)), "weights");
    let parts = [first.open(), second.open()];
    let order = |part: &Dataset, weight: f64| (Arc::new(Order::of(part, 3)) as Arc<dyn Sampling>, weight);
    let mixture = Mixture::new(vec![order(&parts[0], 0.4), order(&parts[1], 0.6)], 3).unwrap().draws(30);
    let both = Dataset::concat(&parts).unwrap();
    check(&both, &options(7).sampling(Arc::new(mixture)), "mixture");
}

#[test]
fn epochs_of_patches_are_those_of_many_loaders() {
    let cube = CubeMode::Patch { height: 9, width: 14, place: PatchPlace::Random };
    let fields = ["cube", "mask", "spectrum", "height"];
    for (made, sizes) in [(Cubes::packed(&[5, 4], |_| ALIKE), "alike"), (Cubes::packed(&[5, 4], varied), "varied")] {
        let weighted = Weighted::by_sample(&(1..10).map(f64::from).collect::<Vec<_>>(), 3).unwrap().draws(7);
        // The scenes differ in size and are drawn by weight, so epochs differ in length.
        let weighted = Arc::new(weighted) as Arc<dyn Sampling>;
        for (patches, sampling) in [
            (Patches::One, None),
            (Patches::PerSample(6), None),
            (Patches::PerSample(3), Some(Arc::clone(&weighted))),
            (Patches::Grid { overlap: [0, 2, 3] }, None),
            (Patches::Grid { overlap: [0, 2, 3] }, Some(weighted)),
        ] {
            for end in [End::Drop, End::Uneven] {
                let options = options(5).cube(cube).patches(patches).end(end).fields(fields);
                let options = {
                    let mut options = options.open_scenes(3);
                    options.order.sampling = sampling.clone();
                    options
                };
                check(&made.open(), &options, &format!("{sizes} {patches:?} {end:?} {sampling:?}"));
            }
        }
    }
}

#[test]
fn damaged_samples_are_skipped_in_the_order_of_batches() {
    let disk = Disk::alike(&[30]);
    disk.hurt(10);
    disk.hurt(18);
    let skip = options(4).on_corrupt(OnCorrupt::Skip { max: 7 }).end(End::Uneven);
    let mut loader = Loader::open(&disk.open(), skip.clone()).unwrap();
    for number in 0..3 {
        loader.set_epoch(number).unwrap();
        assert_eq!(epoch(&mut loader), alone(&disk.open(), &skip, number));
        assert_eq!(loader.stats().skipped, 2 * u64::from(number + 1), "skipped samples of delivered epochs only");
    }
    // Only one more sample may be skipped. The second damaged sample is an error of its batch, no matter how
    // far the loader has read ahead.
    loader.set_epoch(3).unwrap();
    let errors = std::iter::from_fn(|| loader.next_batch()).filter(Result::is_err).count();
    assert_eq!((errors, loader.stats().skipped), (1, 7));
}

fn counted(disk: &Disk, options: LoaderOptions) -> (Loader, Arc<Counts>) {
    let stage = Arc::new(FakeStage::default());
    let counts = stage.counts();
    (Loader::open(&disk.open(), options.stage(stage)).unwrap(), counts)
}

fn wait_for(counts: &Counts, submitted: u64) {
    let start = Instant::now();
    while counts.submitted.load(Ordering::Relaxed) < submitted {
        assert!(start.elapsed() < Duration::from_secs(60), "{counts:?}, not {submitted}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn settled(counts: &Counts) -> u64 {
    std::thread::sleep(Duration::from_millis(50));
    counts.submitted.load(Ordering::Relaxed)
}

#[test]
fn the_next_epoch_is_prepared_once_one_has_followed_another() {
    let disk = Disk::alike(&[16]);
    let (mut loader, counts) = counted(&disk, options(4).slots(3));
    assert_eq!(epoch(&mut loader).len(), 4);
    assert_eq!(settled(&counts), 4, "one epoch costs one epoch");
    loader.set_epoch(1).unwrap();
    assert_eq!(epoch(&mut loader).len(), 4);
    wait_for(&counts, 8 + 3);
    assert_eq!(settled(&counts), 8 + 3);
    assert!(loader.next_batch().is_none());
    assert_eq!((loader.current_epoch(), loader.stats().batches), (1, 8));
    loader.set_epoch(2).unwrap();
    assert_eq!(epoch(&mut loader), alone(&disk.open(), &options(4), 2));
    wait_for(&counts, 12 + 3);
    assert_eq!(loader.stats().samples, 48);
    // This loop takes exactly the available number of batches and never sees the end of the epoch.
    loader.set_epoch(3).unwrap();
    let four: Vec<Seen> = (0..4).map(|_| seen(&loader.next_batch().unwrap().unwrap())).collect();
    wait_for(&counts, 16 + 3);
    assert_eq!(loader.state().samples_consumed, 16, "what is under way does not count");
    loader.set_epoch(4).unwrap();
    assert_eq!(epoch(&mut loader), alone(&disk.open(), &options(4), 4));
    wait_for(&counts, 20 + 3);
    assert_eq!(four, alone(&disk.open(), &options(4), 3));
    assert_eq!(settled(&counts), 20 + 3, "no batch was made twice");
}

#[test]
fn a_jump_to_a_different_epoch_gives_its_batches() {
    let disk = Disk::varied(&[16]);
    // There are slots for more than one epoch, so the next epoch is prepared as soon as this one begins.
    let options = options(4).slots(7);
    let (mut loader, counts) = counted(&disk, options.clone());
    let whole = |number| alone(&disk.open(), &options, number);
    fn begin(loader: &mut Loader, number: u32, batches: usize) -> Vec<Seen> {
        loader.set_epoch(number).unwrap();
        (0..batches).map(|_| seen(&loader.next_batch().unwrap().unwrap())).collect()
    }
    for number in 0..2 {
        loader.set_epoch(number).unwrap();
        assert_eq!(epoch(&mut loader), whole(number));
    }
    // Leave each epoch before its end. The loader must use the batches of the next epoch that it has already prepared.
    for (number, batches) in [(2, 2), (3, 1), (4, 3), (5, 1), (6, 4)] {
        assert_eq!(begin(&mut loader, number, batches), whole(number)[..batches]);
        wait_for(&counts, 4 * (u64::from(number) + 2));
    }
    assert_eq!(settled(&counts), 4 * 8, "no epoch was made twice");
    for number in [1, 9, 9, 10, 3] {
        assert_eq!(begin(&mut loader, number, 2), whole(number)[..2]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut other = Loader::open(&disk.open(), options.clone().epoch(4)).unwrap();
    other.next_batch().unwrap().unwrap();
    let state = other.state();
    for _ in 0..2 {
        loader.restore(&state).unwrap();
        assert_eq!(loader.len(), 3);
        assert_eq!(epoch(&mut loader), whole(4)[1..]);
    }
    // Take the state near the end of an epoch: before and after the last batch, and after the end.
    loader.set_epoch(5).unwrap();
    for taken in 0..5 {
        let state = loader.state();
        let mut other = Loader::open(&disk.open(), options.clone()).unwrap();
        other.restore(&state).unwrap();
        assert_eq!(epoch(&mut other), whole(5)[taken..], "after {taken}");
        assert_eq!(loader.next_batch().is_some(), taken < 4);
    }
    // A batch that the caller keeps must not change while the next epoch is prepared.
    loader.set_epoch(6).unwrap();
    let kept: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect();
    std::thread::sleep(Duration::from_millis(20));
    loader.set_epoch(7).unwrap();
    assert_eq!(epoch(&mut loader), whole(7));
    assert_eq!(kept.iter().map(seen).collect::<Vec<_>>(), whole(6));
}

#[test]
fn phases_follow_each_other() {
    let disk = Disk::alike(&[16]);
    let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
    assert_eq!(loader.phase(), EpochPhase::Fresh);
    for number in 1..3 {
        for _ in 0..4 {
            loader.next_batch().unwrap().unwrap();
            assert_eq!(loader.phase(), EpochPhase::Running, "after the last batch, too, until the next request");
        }
        for _ in 0..2 {
            assert!(loader.next_batch().is_none());
            assert_eq!(loader.phase(), EpochPhase::Ended);
        }
        loader.set_epoch(number).unwrap();
        assert_eq!(loader.phase(), EpochPhase::Fresh);
    }
    let stage = Arc::new(FakeStage::with(Trouble::LostAt(2)));
    let mut loader = Loader::open(&disk.open(), options(4).stage(stage)).unwrap();
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    assert!(batches.last().unwrap().is_err() && loader.next_batch().is_none());
    assert_eq!(loader.phase(), EpochPhase::Broken);
    assert_eq!(loader.state().samples_consumed, 4 * (batches.len() as u64 - 1));
}

#[derive(Debug, Default)]
struct Called(AtomicU64);

impl Transform for Called {
    fn change(&self, _: &mut TransformRow<'_>) -> Result<(), Note> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_transform_is_called_for_the_epoch_at_hand_alone() {
    let disk = Disk::alike(&[16]);
    let called = Arc::new(Called::default());
    let mut options = options(4).transform(Arc::clone(&called) as _);
    options.resources.stage = None;
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    for number in 0..4 {
        loader.set_epoch(number).unwrap();
        assert_eq!(epoch(&mut loader).len(), 4);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(called.0.load(Ordering::Relaxed), 16 * u64::from(number + 1), "a program may change it in between");
    }
}

#[test]
fn no_epoch_follows_the_last_countable_one() {
    let disk = Disk::alike(&[8]);
    let mut loader = Loader::open(&disk.open(), options(4).epoch(u32::MAX - 2)).unwrap();
    for number in u32::MAX - 2..=u32::MAX {
        loader.set_epoch(number).unwrap();
        assert_eq!(epoch(&mut loader), alone(&disk.open(), loader.options(), number));
    }
    assert!(loader.next_batch().is_none());
    loader.set_epoch(0).unwrap();
    assert_eq!(epoch(&mut loader), alone(&disk.open(), loader.options(), 0));
}

//! The loader in trouble: damaged records, an index that lies, disks that hang or fail, callers who
//! are slow, keep everything, or leave early.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod loader_support;
#[path = "../../reader/tests/support/mod.rs"]
mod support;

use loader_support::{Disk, Made, RowOf, base, said, seen};
use shardpack_format::{Voice, told};
use shardpack_jpeg::View;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{
    Allocate, CubeMode, Heap, ImageMode, Loader, LoaderOptions, OnCorrupt, Place, SlotMemory, Window,
};
use shardpack_reader::{Dataset, DatasetOptions, Error, ReadAt, Result, Storage};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use support::faults::{Fault, FaultyStorage};

/// For `loader_staged.rs`, which has these tests too.
#[allow(dead_code)]
pub fn from_here() -> LoaderOptions {
    base()
}

fn options(batch_size: u32) -> LoaderOptions {
    LoaderOptions { batch_size, threads: 2, mode: Mode::Stored, end: End::Uneven, ..base() }
}

#[test]
fn a_damaged_record_is_named_and_the_loader_goes_on() {
    let disk = Disk::alike(&[32]);
    disk.hurt(10);
    disk.hurt(13);
    let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
    for number in 0..8_u64 {
        let batch = loader.next_batch().unwrap();
        if number == 2 || number == 3 {
            let text = batch.unwrap_err().to_string();
            let (record, key) = if number == 2 { (10, "sample-00010") } else { (13, "sample-00013") };
            assert!(text.contains("shard-00000.shard"), "{text}");
            assert!(text.contains(&format!("record {record}, sample `{key}`")) && text.contains("CRC32"), "{text}");
        } else {
            assert_eq!(batch.unwrap().indices(), (number * 4..number * 4 + 4).collect::<Vec<_>>());
        }
    }
    assert!(loader.next_batch().is_none());
    assert_eq!(loader.stats().skipped, 0);
}

#[test]
fn damaged_records_can_be_skipped_up_to_a_count() {
    let disk = Disk::varied(&[32]);
    for id in [3, 10, 13, 14] {
        disk.hurt(id);
    }
    let on_corrupt = OnCorrupt::Skip { max: 3 };
    let mut loader = Loader::open(&disk.open(), LoaderOptions { on_corrupt, ..options(8) }).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    assert_eq!(first.mask(), [true, true, true, false, true, true, true, true]);
    assert!(first.field("cube").unwrap().row_of(3).is_empty(), "a ragged row without a sample is empty");
    assert!(first.field("label").unwrap().row_of(3).iter().all(|&b| b == 0));
    assert_eq!(loader.stats().skipped, 1);
    let text = loader.next_batch().unwrap().unwrap_err().to_string();
    assert!(text.contains("sample-00014"), "the first one that is too much is named: {text}");
    assert_eq!(loader.next_batch().unwrap().unwrap().mask(), [true; 8]);
}

#[test]
fn an_index_that_lies_is_an_error_of_its_row() {
    let lie = |said_height| {
        Disk::new(&[12], move |id| Made {
            id,
            height: 16,
            width: 8 + id as u32,
            said_height: if id == 5 { said_height } else { 16 },
            half: false,
        })
    };
    // A little, in both directions; more than a record can hold; more than a number of bytes can
    // be.
    for (said, words) in [
        (17, "by height and width in the index"),
        (8, "in the index"),
        (1 << 20, "max_expansion"),
        (u32::MAX, "max_decoded_bytes"),
    ] {
        let disk = lie(said);
        let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
        assert!(loader.next_batch().unwrap().is_ok());
        let error = loader.next_batch().unwrap().unwrap_err();
        let text = told(&error, &error.hint(), Voice::Command);
        assert!(text.contains("sample-00005") && text.contains(words), "{said}: {text}");
        assert!(loader.next_batch().unwrap().is_ok());
    }
}

#[test]
fn a_batch_over_the_limit_is_refused_before_memory_is_taken() {
    let disk = Disk::alike(&[16]);
    let with = |fields: &[&str], batch_size| LoaderOptions {
        max_batch_bytes: 3_000,
        fields: Some(fields.iter().map(|&name| name.to_owned()).collect()),
        ..options(batch_size)
    };
    // What is known beforehand, when the loader is opened: 8 cubes of 16 × 24 × 3 uint16.
    let text = said(&Loader::open(&disk.open(), with(&["cube"], 8)).unwrap_err());
    assert!(text.contains("max_batch_bytes") && text.contains("found 18432, for 8 rows"), "{text}");
    // What depends on the samples, when the batch comes: whole pictures of 1,152 bytes.
    let mut loader = Loader::open(&disk.open(), with(&["image"], 8)).unwrap();
    for _ in 0..2 {
        let text = said(&loader.next_batch().unwrap().unwrap_err());
        assert!(text.contains("max_batch_bytes"), "{text}");
    }
    assert!(loader.next_batch().is_none());
    assert!(Loader::open(&disk.open(), with(&["cube"], 1)).unwrap().next_batch().unwrap().is_ok());
}

#[test]
fn absurd_batch_sizes_are_refused_or_cost_what_is_there() {
    let disk = Disk::alike(&[16]);
    let view = ImageMode::View(View::center_crop(1 << 20, 1 << 15, 1 << 15));
    for end in [End::Drop, End::Uneven, End::Pad] {
        let options = LoaderOptions { image: view, end, ..options(u32::MAX) };
        let text = said(&Loader::open(&disk.open(), options).unwrap_err());
        assert!(text.contains("max_batch_bytes"), "{text}");
    }
    let mut loader = Loader::open(&disk.open(), options(u32::MAX)).unwrap();
    assert!(loader.predicted_bytes() < 64 << 20, "{}", loader.predicted_bytes());
    assert_eq!(loader.next_batch().unwrap().unwrap().len(), 16);
}

#[test]
fn values_that_samples_do_not_have_are_zero_and_masked() {
    let disk = Disk::varied(&[12]);
    let other = support::scratch();
    // Every third sample has no cube.
    loader_support::write(other.path(), &loader_support::schema(), &[12], |schema, shard, id| {
        disk.samples[id as usize].record_with(schema, shard, id % 3 != 1)
    });
    let dataset = DatasetOptions::new().open(other.path()).unwrap();
    let mut loader = Loader::open(&dataset, options(12)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.mask(), [true; 12], "the samples are there");
    let cube = batch.field("cube").unwrap();
    assert_eq!(cube.mask().collect::<Vec<_>>(), (0..12).map(|id| id % 3 != 1).collect::<Vec<_>>());
    assert!(batch.field("image").unwrap().mask().all(|there| there));
    for (row, made) in disk.samples.iter().enumerate() {
        let expected = if row % 3 == 1 { Vec::new() } else { made.cube() };
        assert_eq!(cube.row_of(row), expected, "row {row}");
    }
    // Dense, a row is zero.
    let cube = CubeMode::Patch { height: 4, width: 4, place: Place::Center };
    let mut loader = Loader::open(&dataset, LoaderOptions { cube, ..options(12) }).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let cube = batch.field("cube").unwrap();
    assert_eq!(cube.mask().filter(|&there| there).count(), 8);
    assert_eq!(cube.row_of(4), [0; 96]);
}

#[test]
fn kept_batches_get_slots_of_their_own_and_outlive_the_loader() {
    let disk = Disk::alike(&[80]);
    let mut loader = Loader::open(&disk.open(), LoaderOptions { slots: 2, ..options(8) }).unwrap();
    let mut kept = Vec::new();
    while let Some(batch) = loader.next_batch() {
        kept.push(batch.unwrap());
    }
    assert_eq!(loader.stats().extra_slots, 8);
    drop(loader);
    for (batch, number) in kept.iter().zip(0..) {
        assert_eq!(batch.indices()[0], number * 8);
        for (i, &index) in batch.indices().iter().enumerate() {
            assert_eq!(batch.field("cube").unwrap().row_of(i), disk.samples[index as usize].cube());
        }
    }
    let clone = kept[0].clone();
    drop(kept);
    assert_eq!(clone.len(), 8);
}

#[test]
fn slots_are_used_again() {
    #[derive(Debug, Default)]
    struct Counted(AtomicU64);
    impl Allocate for Counted {
        fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Heap.allocate(bytes)
        }
    }
    let disk = Disk::alike(&[400]);
    let memory = Arc::new(Counted::default());
    let mut loader =
        Loader::open(&disk.open(), LoaderOptions { memory: memory.clone(), slots: 3, ..options(4) }).unwrap();
    for epoch in 0..3 {
        loader.set_epoch(epoch).unwrap();
        while let Some(batch) = loader.next_batch() {
            assert!(seen(&batch.unwrap()).1.iter().all(|&there| there));
        }
    }
    assert_eq!(memory.0.load(Ordering::Relaxed), 3);
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    #[derive(Debug)]
    struct None;
    impl Allocate for None {
        fn allocate(&self, _: usize) -> io::Result<Box<dyn SlotMemory>> {
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }
    let disk = Disk::alike(&[8]);
    let options = LoaderOptions { memory: Arc::new(None), ..options(4) };
    // With a stage, slots are made when the loader opens.
    if options.stage.is_some() {
        let text = Loader::open(&disk.open(), options).unwrap_err().to_string();
        assert!(text.starts_with("`memory of slot 1 of 3, "), "{text}");
        return;
    }
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    for number in 0..2 {
        let text = loader.next_batch().unwrap().unwrap_err().to_string();
        assert!(text.starts_with(&format!("`memory of batch {number}, ")), "{text}");
    }
    assert!(loader.next_batch().is_none());
}

/// Memory that cannot be had at some calls.
#[derive(Debug)]
struct Scarce(AtomicU64, fn(u64) -> bool);

impl Allocate for Scarce {
    fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
        match (self.1)(self.0.fetch_add(1, Ordering::SeqCst)) {
            true => Err(io::ErrorKind::OutOfMemory.into()),
            false => Heap.allocate(bytes),
        }
    }
}

#[test]
fn a_failed_allocation_is_the_error_of_one_batch() {
    let disk = Disk::alike(&[40, 24]);
    for (mode, slots) in [(Mode::Stored, 1), (Mode::Stored, 4), (Mode::Full, 2), (Mode::Full, 5)] {
        for fails in [|k| k == 0, |k| k == 1, |k| k % 2 == 0, |k| k < 5] as [fn(u64) -> bool; 4] {
            let memory = Arc::new(Scarce(AtomicU64::new(0), fails));
            let options = LoaderOptions { mode, slots, memory: memory.clone(), window: Window::Memory, ..options(4) };
            let at_open = options.stage.is_some() && (0..slots as u64).any(fails);
            let opened = Loader::open(&disk.open(), options);
            assert_eq!(opened.is_err(), at_open);
            let Ok(mut loader) = opened else { continue };
            for epoch in 0..2 {
                loader.set_epoch(epoch).unwrap();
                let mut errors = 0;
                let mut samples = 0;
                while let Some(batch) = loader.next_batch() {
                    match batch {
                        Ok(batch) => samples += batch.len(),
                        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::OutOfMemory => errors += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                assert_eq!(samples + 4 * errors, 64, "epoch {epoch} of {mode:?} with {slots} slots");
                // What failed in the first epoch is all that fails where memory comes back.
                assert!(errors <= 6, "{errors}");
            }
        }
    }
}

/// Bytes that come when they are let, or never, or with a panic.
#[derive(Debug)]
struct Gate {
    inner: FaultyStorage,
    gate: Arc<Hold>,
}

#[derive(Debug, Default)]
struct Hold {
    closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
    panics: AtomicBool,
    gone: AtomicBool,
    refused: AtomicU64,
}

impl Hold {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

#[derive(Debug)]
struct GatedFile(Arc<dyn ReadAt>, Arc<Hold>);

impl ReadAt for GatedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let closed = self.1.closed.lock().unwrap();
        if *closed {
            self.1.waiting.fetch_add(1, Ordering::SeqCst);
        }
        drop(self.1.opened.wait_while(closed, |closed| *closed).unwrap());
        if self.1.gone.load(Ordering::SeqCst) {
            self.1.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        assert!(!self.1.panics.load(Ordering::SeqCst), "a storage that panics");
        self.0.read_at(buffer, offset)
    }
}

impl Storage for Gate {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(GatedFile(self.inner.open(name)?, Arc::clone(&self.gate))))
    }

    fn shard_names(&self) -> Result<Vec<String>> {
        self.inner.shard_names()
    }
}

fn gated(disk: &Disk) -> (Loader, Arc<Hold>) {
    let gate = Arc::new(Hold::default());
    let storage = Gate { inner: FaultyStorage::of(disk.path(), Fault::None), gate: Arc::clone(&gate) };
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    let on_corrupt = OnCorrupt::Skip { max: 100 };
    let loader = Loader::open(&dataset, LoaderOptions { mode: Mode::Full, on_corrupt, ..options(4) }).unwrap();
    (loader, gate)
}

#[test]
fn a_loader_is_dropped_though_a_read_hangs() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.set(true);
    loader.set_epoch(1).unwrap();
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // The read goes on only after the drop.
    in_the_end(move || drop(loader));
    gate.set(false);
    // And at once where nothing hangs, in the middle of an epoch.
    for batches in 0..4 {
        let mut loader = Loader::open(&disk.open(), options(4)).unwrap();
        (0..batches).for_each(|_| assert!(loader.next_batch().unwrap().is_ok()));
        drop(loader);
    }
}

#[test]
fn a_wait_with_an_end_comes_back_without_a_batch() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.set(true);
    loader.set_epoch(1).unwrap();
    for _ in 0..3 {
        assert!(loader.next_batch_timeout(Duration::from_millis(1)).is_pending());
    }
    gate.set(false);
    while loader.next_batch().is_some() {}
    assert_eq!(loader.stats().batches, 1 + 10, "none was lost");
}

#[test]
fn a_panic_in_a_thread_is_an_error_not_a_hang() {
    let disk = Disk::alike(&[40]);
    let (mut loader, gate) = gated(&disk);
    assert!(loader.next_batch().unwrap().is_ok());
    gate.panics.store(true, Ordering::SeqCst);
    loader.set_epoch(1).unwrap();
    let text = loader.next_batch().unwrap().unwrap_err().to_string();
    // A record in parts is read by whoever decodes it: then it is the sample that is named.
    let whats = ["thread of the loader: ", "decoding of sample "];
    assert!(whats.iter().any(|what| text.starts_with(&format!("internal error: {what}"))), "{text}");
}

#[test]
fn a_slow_consumer_stops_the_pool() {
    let disk = Disk::alike(&[400]);
    let dataset = disk.open();
    let record = dataset.shard(0).unwrap().footer().index_offset / 400 + 64;
    let mut loader = Loader::open(&dataset, LoaderOptions { mode: Mode::Full, slots: 2, ..options(4) }).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    let mut before = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(10));
        let now = loader.stats().read_bytes;
        if now == before {
            break;
        }
        before = now;
    }
    // The batch that was handed out, the other slot, and what is planned behind it: slots + 1
    // batches.
    assert!(before <= 4 * 4 * record, "{before} bytes read ahead, of records of {record}");
    drop(first);
    assert!(loader.next_batch().unwrap().is_ok());
}

/// A loader of many shards, most of which nobody has opened yet.
fn gated_shards(samples: u64, threads: usize) -> (Dataset, Loader, Arc<Hold>) {
    let disk = Disk::alike(&[samples; 520]);
    let gate = Arc::new(Hold::default());
    let storage = Gate { inner: FaultyStorage::of(disk.path(), Fault::None), gate: Arc::clone(&gate) };
    let dataset = DatasetOptions::new().open_in(Arc::new(storage)).unwrap();
    // Fields of one shape: nothing of other shards has to be known.
    let fields = Some(vec!["label".into()]);
    let loader = Loader::open(&dataset, LoaderOptions { threads, fields, ..options(32) }).unwrap();
    let closed = (0..520).filter(|&number| !dataset.is_open(number)).count();
    assert!(closed > 300, "{closed}");
    (dataset, loader, gate)
}

#[test]
fn shards_are_opened_side_by_side_and_the_caller_waits_for_none_of_them() {
    let (dataset, mut loader, gate) = gated_shards(1, 5);
    gate.set(true);
    assert!(loader.next_batch_timeout(Duration::from_millis(1)).is_pending());
    // No record is read before its batch is planned: these are opens.
    let seen = Arc::clone(&gate);
    in_the_end(move || {
        while seen.waiting.load(Ordering::SeqCst) < 5 {
            std::thread::yield_now();
        }
    });
    // A loader that begins anew while all of them hang.
    let mut loader = in_the_end(move || {
        loader.set_epoch(3).unwrap();
        loader
    });
    gate.set(false);
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(Result::unwrap).collect();
    let mut samples: Vec<u64> = batches.iter().flat_map(|batch| batch.indices().to_vec()).collect();
    samples.sort_unstable();
    assert_eq!(samples, (0..520).collect::<Vec<_>>());
    assert!((0..520).all(|number| dataset.is_open(number)));
}

#[test]
fn a_shard_that_cannot_be_opened_is_tried_once_a_batch() {
    let (_, mut loader, gate) = gated_shards(32, 2);
    gate.gone.store(true, Ordering::SeqCst);
    // A batch is a shard here, and two of three are closed.
    let batches = 9;
    for _ in 0..batches {
        assert!(loader.next_batch().unwrap().is_err());
    }
    let refused = gate.refused.load(Ordering::SeqCst);
    assert!((1..=batches + base().slots as u64 + 2).contains(&refused), "{refused}");
}

#[test]
fn a_read_that_fails_once_is_tried_again() {
    let disk = Disk::alike(&[16]);
    let mut opened = 0;
    for k in 0..40 {
        let storage = Arc::new(FaultyStorage::of(disk.path(), Fault::FailAt(k)));
        let Ok(dataset) = DatasetOptions::new().open_in(storage) else { continue };
        let Ok(mut loader) = Loader::open(&dataset, LoaderOptions { mode: Mode::Full, ..options(4) }) else { continue };
        opened += 1;
        let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
        assert_eq!(batches.len(), 4);
        assert!(batches.iter().all(|batch| batch.is_ok()), "operation {k}: {batches:?}");
    }
    assert!(opened > 20, "{opened}");
}

/// A mount that is gone is no damaged sample: nothing is skipped, and nobody reads all records of
/// it one by one.
#[test]
fn a_storage_that_is_gone_is_an_error_of_every_batch() {
    let disk = Disk::alike(&[16]);
    let (mut loader, gate) = gated(&disk);
    gate.gone.store(true, Ordering::SeqCst);
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    assert_eq!(batches.len(), 4);
    for batch in batches {
        let error = batch.unwrap_err();
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("sample `sample-"), "{error}");
    }
    assert_eq!(loader.stats().skipped, 0);
}

/// Runs `work` in a thread of its own, so that a loader that hangs fails the test instead of
/// holding it up. Ten minutes are no bound on its speed.
fn in_the_end<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(Duration::from_secs(600)).expect("an end")
}

#[test]
fn epochs_that_are_left_early_begin_with_their_first_batch() {
    // A thread that was about to plan for the epoch before must not plan for this one beside
    // another thread.
    let disk = Disk::alike(&[64]);
    for threads in [2, 8] {
        let mut loader = Loader::open(&disk.open(), LoaderOptions { threads, slots: 2, ..options(2) }).unwrap();
        in_the_end(move || {
            for round in 0..1500_u64 {
                loader.set_epoch((round % 7 + 1) as u32).unwrap();
                for number in 0..round % 4 {
                    let batch = loader.next_batch().unwrap().unwrap();
                    assert_eq!(batch.indices(), [2 * number, 2 * number + 1], "round {round}, {threads} threads");
                }
            }
        });
    }
}

#[test]
fn memory_that_is_too_small_is_said_to_be() {
    #[derive(Debug)]
    struct Half;
    impl Allocate for Half {
        fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
            Heap.allocate(bytes / 2)
        }
    }
    let disk = Disk::alike(&[8]);
    let opened = Loader::open(&disk.open(), LoaderOptions { memory: Arc::new(Half), ..options(4) });
    let error = in_the_end(move || match opened {
        Ok(mut loader) => loader.next_batch().unwrap().unwrap_err().to_string(),
        // With a stage, slots are made when the loader opens.
        Err(error) => error.to_string(),
    });
    assert!(error.contains("memory for a batch: expected"), "{error}");
}

#[test]
fn a_first_sample_that_is_damaged_can_be_skipped() {
    let disk = Disk::alike(&[32]);
    disk.hurt(0);
    let skip = LoaderOptions { on_corrupt: OnCorrupt::Skip { max: 5 }, ..options(4) };
    let mut loader = Loader::open(&disk.open(), skip).unwrap();
    let first = loader.next_batch().unwrap().unwrap();
    assert_eq!(first.mask(), [false, true, true, true]);
}

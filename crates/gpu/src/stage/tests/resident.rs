//! Tests that batches are the same if values are kept on the device, and that no record is read then.

use super::datasets::{Disk, Harm, Seen, assert_same, epoch, seen, ways};
use super::of;
use super::played::PlayedStage;
use proptest::prelude::*;
use shardpack_jpeg::{PixelLayout, View};
use shardpack_loader::order::End;
use shardpack_loader::{CubeMode, Loader, LoaderOptions, OnCorrupt, PatchPlace, Watch};
use shardpack_reader::Dataset;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) fn resident(stage: &Arc<PlayedStage>, options: &LoaderOptions) -> LoaderOptions {
    options.clone().stage(Arc::clone(stage) as _).resident(true)
}

fn compare(dataset: &Dataset, check: impl Fn(&str, &PlayedStage, &Loader)) {
    for (n, (name, options)) in ways().into_iter().enumerate() {
        let stage = Arc::new(PlayedStage::new(n % 2, 1));
        let mut host = Loader::open(dataset, options.clone()).unwrap();
        let mut staged = Loader::open(dataset, resident(&stage, &options)).unwrap();
        // Skip odd epochs, because the loader would prefetch a consecutive epoch and count its rows too.
        for number in [0, 2] {
            host.set_epoch(number).unwrap();
            staged.set_epoch(number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        }
        assert_eq!(staged.stats().skipped, host.stats().skipped, "{name}");
        check(name, &stage, &staged);
    }
}

fn open(disk: &Disk) -> Dataset {
    Dataset::open(disk.dir.path()).unwrap()
}

fn bytes_of(dataset: &Dataset, samples: impl Iterator<Item = u64>) -> u64 {
    let records = samples.map(|sample| {
        let (shard, record) = dataset.locate(sample).unwrap();
        dataset.shard(shard).unwrap().row(record).unwrap().length
    });
    records.sum()
}

fn stored(dataset: &Dataset) -> u64 {
    bytes_of(dataset, 0..dataset.len())
}

#[test]
fn batches_of_samples_alike_are_the_hosts() {
    let disk = Disk::alike(16, Harm::None);
    compare(&open(&disk), |name, stage, loader| {
        assert!(of(&stage.counts.kept) > 0 && of(&stage.counts.faults) == 0, "{name}");
        assert!(loader.stats().resident_values > 0, "{name}");
    });
}

#[test]
fn batches_of_varied_samples_are_the_hosts() {
    let disk = Disk::varied(18, Harm::None);
    compare(&open(&disk), |name, stage, _| {
        let (kept, taken) = (of(&stage.counts.kept), of(&stage.counts.taken));
        assert!(kept > 0 && kept <= taken, "{name}: {kept} of {taken}");
    });
}

#[test]
fn damage_is_said_at_its_row() {
    let disk = Disk::alike(16, Harm::Damaged);
    compare(&open(&disk), |name, stage, loader| {
        assert!(name != "whole" || of(&stage.counts.faults) > 0 && loader.stats().skipped > 0, "{name}");
    });
    let disk = Disk::scattered(40);
    let options = LoaderOptions::default()
        .batch_size(9)
        .threads(2)
        .image(View::random_resized_crop((24, 20)))
        .on_corrupt(OnCorrupt::Skip { max: 1000 })
        .fields(["image", "label"]);
    let stage = Arc::new(PlayedStage::new(1, 1));
    let (mut host, mut staged) = (disk.loader(options.clone()), disk.loader(resident(&stage, &options)));
    for number in 0..4 {
        host.set_epoch(number).unwrap();
        staged.set_epoch(number).unwrap();
        assert_same(&epoch(&mut staged), &epoch(&mut host), "scattered");
    }
    assert!(staged.stats().skipped > 0 && of(&stage.counts.kept) > 0);
}

#[test]
fn a_record_of_another_checksum_is_an_error_of_its_batch() {
    let disk = Disk::alike(12, Harm::None);
    let dataset = open(&disk);
    let (shard, record) = dataset.locate(7).unwrap();
    let shard = dataset.shard(shard).unwrap();
    let (path, row) = (shard.path().to_owned(), shard.row(record).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(row.offset + row.length) as usize - 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let dataset = open(&disk);
    let options = LoaderOptions::default().batch_size(4).threads(2).fields(["image", "cube"]);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut both =
        [Loader::open(&dataset, options.clone()).unwrap(), Loader::open(&dataset, resident(&stage, &options)).unwrap()];
    let [host, staged] = both.each_mut().map(|loader| {
        let text = |batch: shardpack_loader::Result<_>| batch.map(|batch| seen(&batch)).map_err(|e| e.to_string());
        std::iter::from_fn(|| loader.next_batch().map(text)).collect::<Vec<Result<Seen, String>>>()
    });
    assert!(host == staged);
    assert_eq!(host.iter().filter(|batch| batch.as_ref().is_err_and(|e| e.contains("sample-7"))).count(), 1);
}

#[test]
fn no_record_is_read_after_the_loader_is_open() {
    let disk = Disk::alike(20, Harm::None);
    let dataset = open(&disk);
    let crops = LoaderOptions::default()
        .batch_size(5)
        .threads(2)
        .image(View::random_resized_crop(24))
        .fields(["image", "thumb", "label", "mask"]);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut loader = Loader::open(&dataset, resident(&stage, &crops)).unwrap();
    let read = loader.stats().read_bytes;
    assert_eq!((read, loader.stats().resident_values), (stored(&dataset), 60));
    let device_bytes = loader.predicted_device_bytes();
    assert!(device_bytes > 60 * 500 && device_bytes < read && loader.predicted_bytes() > 60 * 500, "{device_bytes}");
    // Skip odd epochs, because the loader would prefetch a consecutive epoch and count its rows too.
    for number in [0, 2, 4] {
        loader.set_epoch(number).unwrap();
        assert_eq!(epoch(&mut loader).len(), 4);
    }
    assert_eq!((loader.stats().read_bytes, loader.refusals()), (read, Vec::new()));
    assert_eq!((of(&stage.counts.kept), loader.stats().device_rows), (180, 180));
    // One cube in five is plain zstd, so its record is read.
    let whole = crops.fields(["cube"]);
    let mut loader = Loader::open(&dataset, resident(&stage, &whole)).unwrap();
    assert_eq!(loader.stats().resident_values, 16);
    epoch(&mut loader);
    let of_zstd = bytes_of(&dataset, (0..20).filter(|id| id % 5 == 3));
    let read = loader.stats().read_bytes - read;
    assert!((of_zstd..of_zstd + 4 * 64).contains(&read), "{read}, {of_zstd} without padding");
}

#[test]
fn large_records_are_not_read_either() {
    let disk = Disk::as_stored(20, Harm::None);
    let dataset = open(&disk);
    let whole = LoaderOptions::default().batch_size(5).threads(2).part_bytes(1500).fields(["cube", "label"]);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let mut loader = Loader::open(&dataset, resident(&stage, &whole)).unwrap();
    assert_eq!(loader.stats().resident_values, 19, "one is plain zstd");
    let read = loader.stats().read_bytes;
    epoch(&mut loader);
    let of_zstd = bytes_of(&dataset, std::iter::once(13));
    let read = loader.stats().read_bytes - read;
    assert!((of_zstd..of_zstd + 64).contains(&read), "{read}, {of_zstd} without padding");
}

#[test]
fn several_datasets_ranks_and_states() {
    let disks = [Disk::alike(11, Harm::None), Disk::alike(8, Harm::None), Disk::alike(14, Harm::None)];
    let dataset = Dataset::concat(&disks.iter().map(open).collect::<Vec<_>>()).unwrap();
    let options = LoaderOptions::default()
        .batch_size(3)
        .threads(2)
        .seed(9)
        .end(End::Pad)
        .cube(CubeMode::Patch { height: 9, width: 4, place: PatchPlace::Random })
        .world_size(2);
    for rank in 0..2 {
        let options = options.clone().rank(rank);
        let stage = Arc::new(PlayedStage::new(0, 1));
        let mut host = Loader::open(&dataset, options.clone()).unwrap();
        let mut staged = Loader::open(&dataset, resident(&stage, &options)).unwrap();
        let expected = epoch(&mut host);
        assert_same(&epoch(&mut staged), &expected, "an epoch");
        staged.set_epoch(1).unwrap();
        host.set_epoch(1).unwrap();
        for _ in 0..2 {
            assert!(seen(&staged.next_batch().unwrap().unwrap()) == seen(&host.next_batch().unwrap().unwrap()));
        }
        let state = staged.state();
        assert_eq!(state, host.state());
        let rest = epoch(&mut host);
        staged.restore(&state).unwrap();
        assert_same(&epoch(&mut staged), &rest, "the rest");
        let mut other = Loader::open(&dataset, resident(&stage, &options)).unwrap();
        other.restore(&state).unwrap();
        assert_same(&epoch(&mut other), &rest, "the rest, elsewhere");
    }
}

#[test]
fn a_host_does_not_keep_values_for_a_device() {
    let disk = Disk::alike(6, Harm::None);
    let dataset = open(&disk);
    let said = |options: LoaderOptions| {
        let error = Loader::open(&dataset, options).unwrap_err();
        shardpack_format::told(&error, &error.hint(), shardpack_format::Voice::Rust)
    };
    let error = said(LoaderOptions::default().resident(true));
    assert!(error.contains("a device that decodes") && error.contains("decoding runs on the host"), "{error}");
    let stage = Arc::new(PlayedStage::new(0, 1));
    let error = said(resident(&stage, &LoaderOptions::default().fields(["label"])));
    assert!(error.contains("the device cannot decode any field in the batch") && error.contains("hint:"), "{error}");
    let mut full = PlayedStage::new(0, 1);
    full.free = 1000;
    let full = Arc::new(full);
    let error = said(resident(&full, &LoaderOptions::default()));
    assert!(error.contains("1000 of 8589934592 bytes are free") && error.contains("short_side"), "{error}");
    assert!(error.contains(&format!("{} for the dataset", stored(&dataset) + 6 * 4 * 16)), "{error}");
}

#[test]
fn reading_can_be_watched_and_stopped() {
    let disk = Disk::alike(12, Harm::None);
    let dataset = open(&disk);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let options = resident(&stage, &LoaderOptions::default().batch_size(4));
    let (cancel, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |done: u64, all: u64| {
        assert_eq!(all, stored(&dataset));
        most.fetch_max(done, Ordering::Relaxed);
    };
    let watch = Watch { cancel: &cancel, progress: &progress };
    drop(Loader::open_watched(&dataset, options.clone(), watch).unwrap());
    assert_eq!(most.load(Ordering::Relaxed), stored(&dataset));
    let stop = |_, _| cancel.store(true, Ordering::Relaxed);
    let stopped = Loader::open_watched(&dataset, options, Watch { cancel: &cancel, progress: &stop });
    assert!(stopped.unwrap_err().to_string().contains("cancelled"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn views_are_the_hosts(
        seed in any::<u64>(),
        (height, width) in (1_u32..60, 1_u32..60),
        (rows, columns) in (1_u32..20, 1_u32..12),
        channels_first in any::<bool>(),
        arrays in any::<bool>(),
        threads in 1_usize..4,
        manner in 0_usize..2,
    ) {
        let disk = Disk::new(10, |id| [24 + (id * 7 % 23) as u32, 16 + (id * 5 % 41) as u32], Harm::None);
        let (first, last) = (PixelLayout::ChannelsHeightWidth, PixelLayout::HeightWidthChannels);
        let cube = match arrays {
            true => CubeMode::Patch { height: rows, width: columns, place: PatchPlace::Random },
            false => CubeMode::Whole,
        };
        let fields = if arrays { &["cube", "mask"][..] } else { &["image", "label", "thumb"] };
        let image = View::random_resized_crop((height, width)).with_flip(0.5);
        let options = LoaderOptions::default()
            .batch_size(4)
            .seed(seed)
            .threads(threads)
            .image(image)
            .cube(cube)
            .layout(if channels_first { first } else { last })
            .end(End::Uneven)
            .fields(fields.iter().copied());
        let stage = Arc::new(PlayedStage::new(manner, 1));
        let (mut host, mut staged) = (disk.loader(options.clone()), disk.loader(resident(&stage, &options)));
        assert_same(&epoch(&mut staged), &epoch(&mut host), "views");
        prop_assert!(of(&stage.counts.kept) > 0);
    }
}

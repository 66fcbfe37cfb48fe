//! Repeats the loader's tests with a stage and with records of two kilobytes. These are read in parts, directly into
//! the stage's staging memory, like records of many megabytes. Also tests behaviour specific to this combination.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::fake_stage::{FakeStage, Trouble};
use crate::loader_support::{Disk, Made, Seen, Way, epoch, record, seen, write};
use proptest::prelude::*;
use proptest::sample::select;
use shardpack_array::Bands;
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Field, FieldKind, Schema, shard_name};
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Loader, LoaderOptions, OnCorrupt, PatchPlace, Window};
use shardpack_reader::{Dataset, DatasetOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn options(trouble: Trouble) -> (LoaderOptions, Arc<FakeStage>) {
    let stage = Arc::new(FakeStage::with(trouble));
    let options = Way::StagedInParts.base().batch_size(4).threads(3).mode(Mode::Stored).end(End::Uneven);
    (options.stage(Arc::clone(&stage) as _), stage)
}

/// Returns the same options, but with decoding on the host and one thread per record.
fn by_host(options: &LoaderOptions) -> LoaderOptions {
    let mut options = options.clone().part_bytes(usize::MAX);
    options.resources.stage = None;
    options
}

fn epochs(dataset: &Dataset, options: LoaderOptions) -> Vec<Vec<Seen>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    // The epochs are not consecutive, because the next epoch would otherwise be prepared and counted too.
    [0, 2].map(|number| loader.set_epoch(number).map(|()| epoch(&mut loader)).unwrap()).into()
}

fn said(dataset: &Dataset, options: LoaderOptions) -> Vec<Result<Seen, String>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    let batch = |loader: &mut Loader| Some(loader.next_batch()?.map(|batch| seen(&batch)).map_err(|e| e.to_string()));
    std::iter::from_fn(|| batch(&mut loader)).collect()
}

fn shared(stage: &FakeStage) -> u64 {
    stage.counts().shared.load(Ordering::Relaxed)
}

fn record_bytes(dataset: &Dataset, records: u64) -> u64 {
    let shard = dataset.shard(0).unwrap();
    (0..records).map(|record| shard.row(record).unwrap().length).sum()
}

fn large(count: u64) -> Disk {
    Disk::new(&[count], |id| Made { id, height: 60, width: 80, said_height: 60, half: false })
}

#[test]
fn cubes_are_read_where_they_are_staged() {
    let disk = large(20);
    let dataset = disk.open();
    for fields in [None, Some(vec!["label".to_owned(), "cube".to_owned()])] {
        for threads in [1, 2, 7] {
            let (staged, stage) = options(Trouble::None);
            let mut staged = staged.threads(threads);
            staged.output.fields = fields.clone();
            let expected = epoch(&mut Loader::open(&dataset, by_host(&staged)).unwrap());
            let mut loader = Loader::open(&dataset, staged.clone()).unwrap();
            assert!(epoch(&mut loader) == expected, "{threads} threads");
            let stats = loader.stats();
            assert_eq!((stats.read_bytes, stats.peak_run_bytes), (record_bytes(&dataset, 20), 0));
            assert_eq!(shared(&stage), 20);
            // Without parts, each thread would need buffers for whole records. In parts, only staging memory is needed,
            // so the prediction must be lower.
            let as_one = staged.part_bytes(usize::MAX).window(Window::Memory);
            let as_one = Loader::open(&dataset, as_one).unwrap().predicted_bytes();
            assert!(loader.predicted_bytes() + 2 * 28_800 * threads as u64 <= as_one, "{threads} threads");
        }
    }
}

/// If the stage refuses a value that is already in staging memory, the host decodes it from there.
#[test]
fn refused_values_are_not_read_again() {
    let disk = large(9);
    let dataset = disk.open();
    let (staged, stage) = options(Trouble::RefusesAll);
    let expected = epoch(&mut Loader::open(&dataset, by_host(&staged)).unwrap());
    let mut loader = Loader::open(&dataset, staged).unwrap();
    assert!(epoch(&mut loader) == expected);
    assert_eq!((loader.stats().read_bytes, shared(&stage)), (record_bytes(&dataset, 9), 9));
    let refusals = loader.refusals();
    assert_eq!((refusals.len(), refusals[0].rows, refusals[0].reason.as_str()), (1, 18, "the device is tired"));
}

#[test]
fn records_without_room_are_decoded_like_small_ones() {
    let disk = large(9);
    let (staged, stage) = options(Trouble::NoRooms);
    assert!(epochs(&disk.open(), staged.clone()) == epochs(&disk.open(), by_host(&staged)));
    assert_eq!(shared(&stage), 0);
}

/// Tests three kinds of values: loaded by several fields, missing in a record, or accepted by the stage but not wanted
/// in staging memory.
#[test]
fn fields_may_be_named_twice_and_be_missing() {
    let dir = crate::support::scratch();
    let schema =
        Schema::new(["small", "cube", "other", "long"].map(|name| Field::stored(name, FieldKind::Array)).to_vec());
    write(dir.path(), &schema.unwrap(), &[12], |schema, number, id| {
        let stored = |shape: Vec<u64>| {
            let bytes = (0..shape.iter().product()).map(|i| (i * 7 + id) as u8).collect();
            Some((Codec::Raw, bytes, ArrayDescriptor::plain(Dtype::U8, shape).encode().unwrap(), None))
        };
        let values = [stored(vec![5]), stored(vec![30, 20, 9]), stored(vec![40, 60]), stored(vec![2400])];
        let values = values.into_iter().enumerate();
        let there = |field: usize| id == 0 || !(id + field as u64).is_multiple_of(3);
        let values: Vec<_> = values.map(|(field, value)| value.filter(|_| there(field))).collect();
        let key = format!("{id}");
        let (bytes, frame) = record(schema, (number, id), &key, &[], &values);
        (bytes, frame, key, Vec::new())
    });
    let dataset = Dataset::open(dir.path()).unwrap();
    for (names, is_shared) in [
        (&["small", "cube", "other"][..], true),
        (&["other"], true),
        (&["other", "cube"], true),
        (&["cube", "small", "cube"], false),
        (&["cube", "long"], false),
    ] {
        let (staged, stage) = options(Trouble::None);
        let staged = staged.window(Window::Memory).fields(names.iter().copied());
        let mut loader = Loader::open(&dataset, staged.clone()).unwrap();
        assert!(epoch(&mut loader) == epochs(&dataset, by_host(&staged))[0], "{names:?}");
        assert_eq!(shared(&stage) > 0, is_shared, "{names:?}");
        // Records are read in runs only if the stage copies one of their values out of a run.
        assert_eq!(loader.stats().peak_run_bytes > 0, names.contains(&"long"), "{names:?}");
    }
}

#[test]
fn damage_anywhere_is_reported_as_without_parts() {
    let disk = Disk::alike(&[12]);
    let path = disk.path().join(shard_name(0));
    let good = std::fs::read(&path).unwrap();
    let row = disk.open().shard(0).unwrap().row(5).unwrap();
    for at in (0..row.length).step_by(61).chain([row.length - 1]) {
        let mut bytes = good.clone();
        bytes[(row.offset + at) as usize] ^= 0x41;
        std::fs::write(&path, bytes).unwrap();
        for on_corrupt in [OnCorrupt::Error, OnCorrupt::Skip { max: 3 }] {
            let (staged, _) = options(Trouble::None);
            let staged = staged.on_corrupt(on_corrupt);
            let expected = said(&disk.open(), by_host(&staged));
            assert_eq!(expected[1].is_ok(), on_corrupt != OnCorrupt::Error, "byte {at}");
            assert!(said(&disk.open(), staged) == expected, "byte {at}, {on_corrupt:?}");
        }
    }
}

#[test]
fn checks_of_the_crc_can_be_left_out() {
    let disk = large(9);
    disk.hurt(5);
    let dataset = DatasetOptions::new().verify_crc(false).open(disk.path()).unwrap();
    let (staged, stage) = options(Trouble::None);
    assert!(epochs(&dataset, staged.clone()) == epochs(&dataset, by_host(&staged)));
    assert_eq!(shared(&stage), 18);
}

#[test]
fn reads_of_parts_that_fail_are_tried_again() {
    let disk = Disk::alike(&[9]);
    let (staged, _) = options(Trouble::None);
    let expected = epochs(&disk.open(), by_host(&staged));
    let mut opened = 0;
    for k in 0..60 {
        let storage = Arc::new(RiggedStorage::of_folder(disk.path(), Faults::new(Fault::FailAt(k))));
        let Ok(dataset) = DatasetOptions::new().open_in(storage) else { continue };
        let (staged, _) = options(Trouble::None);
        let Ok(mut loader) = Loader::open(&dataset, staged) else { continue };
        opened += 1;
        assert!(epoch(&mut loader) == expected[0], "operation {k}");
    }
    assert!(opened > 20, "{opened}");
}

#[test]
fn a_file_that_ends_early_is_reported_as_without_parts() {
    let disk = Disk::alike(&[12]);
    let rows: Vec<_> = (0..12).map(|record| disk.open().shard(0).unwrap().row(record).unwrap()).collect();
    let path = disk.path().join(shard_name(0));
    let good = std::fs::read(&path).unwrap();
    for end in [rows[7].offset + 1, rows[7].offset + 700, rows[7].offset + rows[7].length - 1] {
        for on_corrupt in [OnCorrupt::Error, OnCorrupt::Skip { max: 12 }] {
            let (staged, _) = options(Trouble::None);
            let staged = staged.on_corrupt(on_corrupt);
            let both = [by_host(&staged), staged].map(|options| {
                std::fs::write(&path, &good).unwrap();
                let dataset = disk.open();
                let mut loader = Loader::open(&dataset, options).unwrap();
                std::fs::File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
                let next =
                    |loader: &mut Loader| Some(loader.next_batch()?.map(|b| seen(&b)).map_err(|e| e.to_string()));
                std::iter::from_fn(|| next(&mut loader)).collect::<Vec<_>>()
            });
            assert_eq!(both[0].len(), 3);
            assert!(both[0][0].is_ok() && both[1] == both[0], "{end}, {on_corrupt:?}: {:?}", both[1][1].as_ref().err());
        }
    }
}

#[test]
fn a_stage_that_panics_harms_its_row_alone() {
    let disk = large(12);
    for trouble in [Trouble::PanicsOn(2), Trouble::PanicsInRoomOf(2)] {
        let (staged, _) = options(trouble);
        let staged = staged.fields(["cube"]).batch_size(5);
        let found = said(&disk.open(), staged);
        let (last, others) = found.split_last().unwrap();
        assert!(last.is_ok() && others.len() == 2, "the last batch has two rows");
        for batch in others {
            let error = batch.as_ref().unwrap_err();
            assert!(error.contains("the driver is broken"), "{error}");
        }
    }
}

#[test]
fn epochs_can_be_left_at_any_time() {
    let disk = Disk::alike(&[40]);
    for threads in [1, 2, 7] {
        let (staged, _) = options(Trouble::None);
        let staged = staged.threads(threads).part_bytes(64).batch_size(6);
        let mut loader = Loader::open(&disk.open(), staged).unwrap();
        for number in 0..60 {
            loader.set_epoch(number).unwrap();
            for batch in 0..u64::from(number % 4) {
                let first = 6 * batch;
                assert_eq!(loader.next_batch().unwrap().unwrap().indices(), (first..first + 6).collect::<Vec<_>>());
            }
        }
    }
}

fn cubes() -> impl Strategy<Value = CubeMode> {
    let patch = |(height, width, random)| CubeMode::Patch {
        height,
        width,
        place: if random { PatchPlace::Random } else { PatchPlace::Center },
    };
    prop_oneof![Just(CubeMode::Whole), Just(CubeMode::Raw), (1..=16_u32, 1..=24_u32, any::<bool>()).prop_map(patch)]
}

fn bands() -> impl Strategy<Value = Bands> {
    let run = |(start, count): (u64, u64)| Bands::Range(start..(start + count).min(3));
    prop_oneof![
        Just(Bands::All),
        (0..3_u64, 1..=3_u64).prop_map(run),
        prop::collection::vec(0..3_u64, 1..4).prop_map(Bands::List)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn batches_are_the_hosts(
        (rows, height, width, half) in (1..20_u64, 16..40_u32, 24..40_u32, any::<bool>()),
        part_bytes in 64..3000_usize,
        threads in select(vec![1, 2, 7]),
        (batch_size, slots) in (1..7_u32, 1..5_usize),
        (cube, bands) in (cubes(), bands()),
        channels_first in any::<bool>(),
        wide in any::<bool>(),
        fields in select(vec![None, Some(&["cube"][..]), Some(&["image", "label", "cube"]), Some(&["cube", "label", "cube"])]),
        in_memory in any::<bool>(),
    ) {
        let disk = Disk::new(&[rows], |id| Made { id, height, width, said_height: height, half });
        let layout = if channels_first { PixelLayout::ChannelsHeightWidth } else { PixelLayout::default() };
        let is_raw = cube == CubeMode::Raw;
        let dtype = if wide && half && !is_raw { ArrayDtype::Cubes(Dtype::F64.into()) } else { ArrayDtype::Source };
        let bands = if is_raw { Bands::All } else { bands };
        let fields = fields.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let (staged, _) = options(Trouble::None);
        let window = if in_memory { Window::Memory } else { Window::PageCache };
        let mode = Mode::Windowed;
        // Patches cannot be combined with decoded pictures, so load the pictures as stored bytes.
        let image = if matches!(cube, CubeMode::Patch { .. }) { ImageMode::Raw } else { staged.view.image };
        let mut staged = staged.part_bytes(part_bytes).threads(threads).batch_size(batch_size).slots(slots).cube(cube);
        staged = staged.bands(bands).layout(layout).dtype(dtype).window(window).mode(mode).image(image);
        staged.output.fields = fields;
        let dataset = disk.open();
        prop_assert!(epochs(&dataset, staged.clone()) == epochs(&dataset, by_host(&staged)));
    }
}

//! Tests several patches of each sample. An epoch must follow its order, each patch must be a crop of the whole array,
//! and each scene must be read only once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::cubes::{ALIKE, Cubes, Shape, crop, list, varied};
use crate::loader_support::{RowOf, base};
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Members, Mode, Order, OrderState, Runs, Unit, Weighted};
use shardpack_loader::{
    Array, Augment, Batch, CubeMode, Grid, Loader, LoaderOptions, Object, OnCorrupt, PatchPlace, Patches,
};
use shardpack_reader::{Bands, DatasetOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

fn patch(height: u32, width: u32) -> CubeMode {
    CubeMode::Patch { height, width, place: PatchPlace::Random }
}

fn options(patches: Patches) -> LoaderOptions {
    let fields = ["cube", "mask", "spectrum", "height"];
    let options = base().batch_size(5).threads(2).seed(9).end(End::Uneven).fields(fields);
    options.cube(patch(9, 14)).patches(patches).open_scenes(3)
}

/// A row: sample, patch number, position, and the bytes of its fields.
type Row = (u64, u32, [u64; 3], Vec<Vec<u8>>);

fn rows(batch: &Batch) -> Vec<Row> {
    let places = batch.patches().unwrap();
    let fields: Vec<_> = batch.fields().collect();
    let row = |i: usize| {
        let at = places[i].unwrap();
        (batch.indices()[i], at.number, at.origin, fields.iter().map(|field| field.row_of(i)).collect())
    };
    (0..batch.len()).filter(|&i| batch.mask()[i]).map(row).collect()
}

fn loaded(loader: &mut Loader) -> Vec<Row> {
    std::iter::from_fn(|| loader.next_batch()).flat_map(|batch| rows(&batch.unwrap())).collect()
}

fn load(made: &Cubes, options: LoaderOptions) -> Vec<Row> {
    loaded(&mut Loader::open(&made.open(), options).unwrap())
}

fn grid([rows, columns]: [u32; 2]) -> LoaderOptions {
    options(Patches::Grid { overlap: [0, rows, columns] })
}

#[test]
fn every_patch_is_a_crop_of_its_scene_and_each_scene_is_read_once() {
    // 6 patches cover half of a scene, so only the patches are kept. 40 patches cover each pixel several times, so
    // scenes are kept whole. With 14 patches, only the smaller scenes are kept whole.
    for patches in [6, 14, 40] {
        check_crops(patches);
    }
}

fn check_crops(patches: u32) {
    for (made, sizes) in [(Cubes::packed(&[8, 0, 5], |_| ALIKE), "alike"), (Cubes::packed(&[8, 5], varied), "varied")] {
        let bytes_of = |number: usize| {
            let shard = made.open().shard(number).unwrap();
            let span = |record| shard.span(&(record..record + 1)).unwrap();
            (0..shard.len()).map(|record| span(record).end - span(record).start).sum::<u64>()
        };
        let stored: u64 = made.open().shard_numbers().map(bytes_of).sum();
        for bands in [Bands::All, Bands::Range(3..8), Bands::List(vec![11, 0, 5, 0])] {
            for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
                let first = layout == PixelLayout::ChannelsHeightWidth;
                let options = options(Patches::PerSample(patches)).bands(bands.clone()).layout(layout);
                let mut loader = Loader::open(&made.open(), options).unwrap();
                assert_eq!(loader.len(), (13 * u64::from(patches)).div_ceil(5));
                let mut seen: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
                let mut places = BTreeSet::new();
                while let Some(batch) = loader.next_batch() {
                    let batch = batch.unwrap();
                    for (row, at) in batch.patches().unwrap().into_iter().enumerate() {
                        let (at, sample) = (at.unwrap(), batch.indices()[row]);
                        let (cube, mask) = (made.array(sample, "cube"), made.array(sample, "mask"));
                        assert_eq!(at.scene, [1, cube.shape()[0], cube.shape()[1]]);
                        let origin = [at.origin[1], at.origin[2]];
                        let key = batch.draw_keys().nth(row).unwrap();
                        assert_eq!(PatchPlace::Random.origin(&key, [at.scene[1], at.scene[2]], [9, 14]), Some(origin));
                        let of = |field: &str| batch.field(field).unwrap().row_of(row);
                        assert!(of("cube") == crop(&cube, origin, [9, 14], &list(&bands), first), "{sizes} {bands:?}");
                        assert!(of("mask") == crop(&mask, origin, [9, 14], &[0], false), "mask of {sample}");
                        assert_eq!(of("spectrum"), (0..12).collect::<Vec<u8>>());
                        assert_eq!(of("height"), (cube.shape()[0] as u32).to_le_bytes());
                        assert!(seen.entry(sample).or_default().insert(at.number), "patch {} twice", at.number);
                        places.insert((sample, origin));
                    }
                }
                assert!(seen.len() == 13 && seen.values().all(|found| *found == (0..patches).collect()));
                assert!(places.len() > 13 * 5, "{} places", places.len());
                assert_eq!(loader.stats().read_bytes, stored, "each record once");
                assert!(loader.stats().peak_run_bytes <= loader.predicted_bytes());
                if patches == 40 && sizes == "alike" && bands == Bands::All {
                    // Up to ten scenes take memory: eight are kept, and two are being decoded. As separate patches,
                    // each scene would take `apart` bytes. A whole scene has slightly more than a quarter of the pixels
                    // of its 40 patches, so it takes about a quarter of that, or an eighth if it stays float16.
                    let apart = 40 * 126 * (12 * 4 + 1);
                    assert!(2 * loader.stats().peak_run_bytes < 7 * apart, "{}", loader.stats().peak_run_bytes);
                }
            }
        }
    }
}

#[test]
fn the_first_patch_is_the_only_one_of_a_loader_of_one() {
    let made = Cubes::packed(&[7], varied);
    let one = options(Patches::One);
    let firsts = |rows: Vec<Row>| {
        rows.into_iter().filter(|row| row.1 == 0).map(|row| (row.0, row.3)).collect::<BTreeMap<_, _>>()
    };
    let (one, several) = (firsts(load(&made, one)), firsts(load(&made, options(Patches::PerSample(4)))));
    assert_eq!(one.len(), 7);
    assert!(one == several);
}

#[test]
fn threads_slots_and_batches_change_nothing() {
    let made = Cubes::packed(&[11, 12], varied);
    for patches in [Patches::PerSample(5), Patches::Grid { overlap: [0, 2, 3] }] {
        for mode in [Mode::Windowed, Mode::Full, Mode::Stored] {
            let options = options(patches).mode(mode);
            let expected = load(&made, options.clone().threads(1).slots(1));
            assert!(expected.len() >= 23 * 2);
            for (threads, slots, batch_size) in [(2, 3, 5), (7, 2, 1), (3, 4, 64)] {
                let rows = load(&made, options.clone().threads(threads).slots(slots).batch_size(batch_size));
                assert!(rows == expected, "{patches:?} {mode:?} {threads}");
            }
            assert!(load(&made, options.clone().seed(10)) != expected || mode == Mode::Stored);
            assert!(load(&made, options.epoch(1)) != expected || mode == Mode::Stored);
        }
    }
}

#[test]
fn ranks_share_the_patches_and_read_no_scene_twice_where_they_divide_the_open_ones() {
    let made = Cubes::packed(&[12, 12], varied);
    for patches in [Patches::PerSample(5), Patches::Grid { overlap: [0, 2, 3] }] {
        let base = options(patches).open_scenes(4);
        let mut expected = load(&made, base.clone());
        expected.sort();
        for world_size in [1, 2, 3, 4, 7] {
            let mut together = Vec::new();
            let mut read = 0;
            for rank in 0..world_size {
                let mut loader = Loader::open(&made.open(), base.clone().rank(rank).world_size(world_size)).unwrap();
                together.extend(loaded(&mut loader));
                read += loader.stats().read_bytes;
            }
            together.sort();
            assert!(together == expected, "{patches:?}, {world_size} ranks");
            let bytes: u64 = made.open().shards().map(|shard| shard.bytes).sum();
            // The number of patches in a grid differs from scene to scene, so ranks may share scenes even if their
            // number divides the number of open scenes.
            if 4 % world_size == 0 && patches == Patches::PerSample(5) {
                assert!(read <= bytes, "{world_size} ranks read {read} of {bytes}");
            }
        }
    }
}

#[test]
fn a_grid_shows_every_pixel_and_each_patch_comes_once() {
    for made in [Cubes::packed(&[4, 3], varied), Cubes::packed(&[7], |_| ALIKE)] {
        for (overlap, mode) in [([0, 0], Mode::Windowed), ([4, 5], Mode::Full), ([8, 13], Mode::Stored)] {
            // With the largest overlap, patches advance by only one pixel, so only some scenes are tested.
            let mut loader = Loader::open(&made.open(), grid(overlap).mode(mode)).unwrap();
            let mut seen: BTreeMap<u64, BTreeMap<[u64; 3], Vec<u8>>> = BTreeMap::new();
            let mut order = Vec::new();
            while let Some(batch) = loader.next_batch() {
                for (sample, number, origin, fields) in rows(&batch.unwrap()) {
                    order.push((sample, number));
                    let before = seen.entry(sample).or_default().insert(origin, fields[1].clone());
                    assert!(before.is_none(), "{origin:?} of {sample} twice");
                }
            }
            assert_eq!(loader.len(), (order.len() as u64).div_ceil(5));
            if mode == Mode::Stored {
                assert!(order.is_sorted(), "in stored order");
            } else {
                assert!(!order.is_sorted_by_key(|(_, number)| number));
            }
            for sample in 0..7 {
                let mask = made.array(sample, "mask");
                let (height, width) = (mask.shape()[0], mask.shape()[1]);
                let grid = Grid { size: [1, 9, 14], overlap: [0, overlap[0].into(), overlap[1].into()] };
                assert_eq!(seen[&sample].len() as u64, grid.count([1, height, width]).unwrap());
                let mut whole = vec![None; (height * width) as usize];
                for (origin, values) in &seen[&sample] {
                    for (i, value) in (0_u64..).zip(values) {
                        let at = (origin[1] + i / 14) * width + origin[2] + i % 14;
                        let before = whole[at as usize].replace(*value);
                        assert!(before.is_none_or(|before| before == *value));
                    }
                }
                let whole: Vec<u8> =
                    whole.into_iter().map(|value| value.expect("a pixel that no patch shows")).collect();
                assert_eq!(whole, mask.bytes(), "{sample}");
            }
        }
    }
}

#[test]
fn a_loader_resumes_in_the_middle_of_a_scene() {
    let made = Cubes::packed(&[9, 8], varied);
    for patches in [Patches::PerSample(7), Patches::Grid { overlap: [0, 3, 0] }] {
        let base = options(patches);
        let expected = load(&made, base.clone().epoch(2));
        for stop in [1, 4, 9] {
            let mut loader = Loader::open(&made.open(), base.clone().epoch(2)).unwrap();
            let mut seen: Vec<Row> = (0..stop).flat_map(|_| rows(&loader.next_batch().unwrap().unwrap())).collect();
            let state = loader.state();
            assert_eq!(state.samples_consumed, seen.len() as u64);
            let text = serde_json::to_string(&state).unwrap();
            assert!(text.contains(if patches == Patches::PerSample(7) {
                "7 patches a sample"
            } else {
                "grids of 9x14"
            }));
            drop(loader);
            let again = base.clone().batch_size(3).threads(7);
            let mut loader = Loader::open(&made.open(), again.clone()).unwrap();
            loader.restore(&serde_json::from_str::<OrderState>(&text).unwrap()).unwrap();
            seen.extend(loaded(&mut loader));
            assert!(seen == expected, "{patches:?}, after {stop}");
            loader.set_epoch(2).unwrap();
            assert!(loaded(&mut loader) == expected);
            let mut rest: Vec<Row> = Vec::new();
            for rank in 0..2 {
                let mut loader = Loader::open(&made.open(), again.clone().rank(rank).world_size(2)).unwrap();
                loader.restore(&state).unwrap();
                rest.extend(loaded(&mut loader));
            }
            let mut missing = expected[state.samples_consumed as usize..].to_vec();
            rest.sort();
            missing.sort();
            assert!(rest == missing);
        }
    }
}

#[test]
fn states_of_a_different_unit_are_refused() {
    let made = Cubes::packed(&[9], |_| ALIKE);
    let open = |patches| Loader::open(&made.open(), options(patches)).unwrap();
    let refused = |from, to| open(to).restore(&open(from).state()).unwrap_err().to_string();
    let (one, six, seven) = (Patches::One, Patches::PerSample(6), Patches::PerSample(7));
    let grid = Patches::Grid { overlap: [0, 1, 2] };
    assert_eq!(
        refused(one, six),
        "the state was saved by a loader that loads whole samples, but this loader loads 6 patches per sample"
    );
    assert_eq!(
        refused(six, one),
        "the state was saved by a loader that loads 6 patches per sample, but this loader loads whole samples"
    );
    assert_eq!(
        refused(six, seven),
        "the state was saved by a loader that loads 6 patches per sample, but this loader loads 7 patches per sample"
    );
    assert_eq!(
        refused(grid, six),
        "the state was saved by a loader that loads grid patches of size 9x14 with overlap 1x2, but this loader loads \
         6 patches per sample"
    );
    // States that count samples keep the old format, without a unit.
    assert!(!serde_json::to_string(&open(one).state()).unwrap().contains("unit"));
    let fewer = options(six).open_scenes(2);
    let error = Loader::open(&made.open(), fewer).unwrap().restore(&open(six).state()).unwrap_err().to_string();
    assert!(error.starts_with("the state belongs to another loader"), "{error}");
    assert_eq!(open(six).state().unit, Unit::Patches(6));
}

#[test]
fn samplings_turns_and_objects_go_with_patches() {
    let made = Cubes::packed(&[9], |_| ALIKE);
    let dataset = made.open();
    let subset = Order::of(&dataset, 9).subset(Members::new(&Runs::of(&dataset, Runs::BYTES), vec![1, 4, 7]));
    let rows = load(&made, options(Patches::PerSample(4)).sampling(Arc::new(subset)));
    assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<BTreeSet<_>>().len(), 12);
    assert!(rows.iter().all(|row| [1, 4, 7].contains(&row.0)));

    // Sample 3 is repeated more often than any other, with different draws each time.
    let weights: Vec<f64> = (0..9).map(|i| if i == 3 { 100.0 } else { 1.0 }).collect();
    let weighted = Weighted::by_sample(&weights, 9).unwrap().draws(8);
    let rows = load(&made, options(Patches::PerSample(4)).sampling(Arc::new(weighted)));
    assert_eq!(rows.len(), 32);
    let threes: BTreeSet<_> = rows.iter().filter(|row| row.0 == 3).map(|row| row.2).collect();
    let count = rows.iter().filter(|row| row.0 == 3).count();
    assert!(count >= 20 && threes.len() > count * 3 / 4, "{} places of {count}", threes.len());

    let augment = Augment { flip_rows: true, flip_columns: true, rotate: true, ..Augment::default() };
    let square = options(Patches::PerSample(12)).cube(patch(8, 8)).augment(augment);
    let mut loader = Loader::open(&dataset, square).unwrap();
    let mut turns = BTreeSet::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        for (row, at) in batch.patches().unwrap().into_iter().enumerate() {
            let at = at.unwrap();
            let turn = augment.turn(&batch.draw_keys().nth(row).unwrap(), [8, 8]);
            turns.insert((turn.flip_rows, turn.flip_columns, turn.transpose));
            let mask = made.array(batch.indices()[row], "mask");
            let cut = crop(&mask, [at.origin[1], at.origin[2]], [8, 8], &[0], false);
            let mut sorted = (batch.field("mask").unwrap().row_of(row), cut.clone());
            assert_eq!(sorted.0 == cut, turn.is_none() || cut.iter().all(|&value| value == cut[0]));
            sorted.0.sort_unstable();
            sorted.1.sort_unstable();
            assert_eq!(sorted.0, sorted.1);
        }
    }
    assert_eq!(turns.len(), 8, "patches of a scene are turned each on its own");

    let objects = options(Patches::PerSample(3)).objects(["spectrum"]).fields(["cube"]);
    let mut loader = Loader::open(&dataset, objects).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    for object in batch.objects("spectrum").unwrap() {
        let Some(Object::Array(array)) = object else { panic!("{object:?}") };
        assert_eq!(*array, Array::new(array.dtype(), vec![12], (0..12).collect()).unwrap());
    }
}

#[test]
fn a_damaged_scene_is_an_error_of_each_batch_or_is_skipped() {
    let made = Cubes::packed(&[6], |_| ALIKE);
    let path = made.dir.path().join(shardpack_format::shard_name(0));
    let row = made.open().shard(0).unwrap().row(2).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(row.offset + row.length / 2) as usize] ^= 0xFF;
    std::fs::write(&path, bytes).unwrap();
    let stored = options(Patches::PerSample(8)).mode(Mode::Stored).batch_size(4);
    let mut loader = Loader::open(&made.open(), stored.clone()).unwrap();
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    assert_eq!(batches.len(), 12);
    for (number, batch) in batches.iter().enumerate() {
        match batch {
            Ok(batch) => assert!(batch.indices().iter().all(|&sample| sample == number as u64 / 2 && sample != 2)),
            Err(error) => {
                assert_eq!(number / 2, 2);
                assert!(error.to_string().contains("cube-2"), "{error}");
            }
        }
    }
    let skip = stored.on_corrupt(OnCorrupt::Skip { max: 8 });
    let mut loader = Loader::open(&made.open(), skip).unwrap();
    assert_eq!(loaded(&mut loader).len(), 40);
    assert_eq!(loader.stats().skipped, 8, "patches are counted");
}

#[test]
fn a_scene_that_is_too_small_is_named() {
    let made = Cubes::packed(&[6], |id| Shape { width: if id == 2 { 10 } else { 30 }, ..ALIKE });
    for patches in [Patches::PerSample(3), Patches::Grid { overlap: [0; 3] }] {
        let options = options(patches).batch_size(1).mode(Mode::Stored);
        let mut loader = Loader::open(&made.open(), options).unwrap();
        let mut errors = BTreeSet::new();
        while let Some(batch) = loader.next_batch() {
            errors.extend(batch.err().map(|error| error.to_string()));
        }
        let expected = "sample 2, `cube-2`: the patch (9 × 14) does not fit in the array (40 × 10)";
        assert_eq!(errors.into_iter().collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn invalid_patches_per_sample_are_refused() {
    let made = Cubes::packed(&[3], |_| ALIKE);
    let six = || options(Patches::PerSample(6));
    for (options, said) in [
        (options(Patches::PerSample(0)), "the number of patches per sample must be at least 1, not 0"),
        (grid([9, 0]), "the overlap of patches (9 × 0) must be smaller than a patch (9 × 14)"),
        (six().cube(CubeMode::Whole), "several patches per sample need a patch size, such as `patch64x64`"),
        (
            six().cube(CubeMode::Patch { height: 4, width: 4, place: PatchPlace::Center }),
            "`center` cuts one patch from each sample, so it cannot be used with several patches per sample\n\
             hint: choose a patch such as `patch64x64`, or load one patch per sample",
        ),
    ] {
        assert_eq!(made.refused(options), said);
    }
    let bands = Cubes::packed(&[3], |id| Shape { bands: 5 + id, ..ALIKE });
    let cube = || six().fields(["cube"]);
    assert_eq!(
        bands.refused(cube()),
        "cannot cut several patches per sample from field `cube`: its samples have different numbers of bands\n\
         hint: use `bands` to select bands that all samples have, or pack each sensor as a separate dataset"
    );
    assert_eq!(load(&bands, cube().bands(Bands::Range(0..5))).len(), 18);
    // Not all samples are inspected, so the loader does not know the sizes in advance.
    let varied = Cubes::new(&[6], &[], varied);
    assert_eq!(
        varied.refused(grid([0, 0]).fields(["cube"])),
        "patches cannot form a grid: the arrays of field `cube` differ in size, and their sizes are not in the index\n\
         hint: pack the dataset with scalar fields `height` and `width`"
    );
    assert_eq!(load(&varied, six().fields(["cube"])).len(), 36);
    let late = Cubes::new(&[200], &[], |id| if id == 1 { Shape { width: 60, ..ALIKE } } else { ALIKE });
    let stored = grid([0, 0]).mode(Mode::Stored).batch_size(1).fields(["cube"]);
    let mut loader = Loader::open(&late.open(), stored).unwrap();
    let errors: BTreeSet<_> =
        std::iter::from_fn(|| loader.next_batch()).filter_map(|batch| Some(batch.err()?.to_string())).collect();
    let expected = "sample 1, `cube-1`: the loader planned 15 grid patches for this sample, but its size \
                    [1, 40, 60] needs 25";
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), [expected], "no pixel is lost in silence");
}

/// A scene whose shard could not be opened is requested again, behind the scenes that were announced in the meantime.
/// The next scenes must not wait for it.
#[test]
fn a_shard_that_cannot_be_opened_once_holds_up_nothing() {
    // Write more shards than a loader inspects when it is opened.
    let made = Cubes::packed(&[1; 300], |_| Shape { height: 20, width: 15, ..ALIKE });
    let options = options(Patches::PerSample(20)).batch_size(2);
    let run = |fault| {
        let storage = Arc::new(RiggedStorage::of_folder(made.dir.path(), Faults::new(fault)));
        let faults = Arc::clone(&storage.rig);
        let dataset = DatasetOptions::new().open_in(storage).unwrap();
        let mut loader = Loader::open(&dataset, options.clone()).unwrap();
        let opened = faults.operations.load(Ordering::SeqCst);
        // Run in a separate thread, so a hang fails the test. The limit of ten minutes is not a test of speed.
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let failed = std::iter::from_fn(|| loader.next_batch()).filter(Result::is_err).count();
            send.send(failed).unwrap();
        });
        let failed = receive.recv_timeout(Duration::from_secs(600)).expect("an end");
        (failed, opened..faults.operations.load(Ordering::SeqCst))
    };
    let (failed, all) = run(Fault::None);
    assert_eq!(failed, 0);
    // With a stage, each of these runs of three thousand batches is slower, so fewer failures are injected.
    let points = if options.resources.stage.is_some() { 5 } else { 40 };
    for k in all.clone().step_by((all.end - all.start) as usize / points) {
        let (failed, _) = run(Fault::FailAt(k));
        assert!(failed <= 20, "operation {k}: {failed} batches");
    }
}

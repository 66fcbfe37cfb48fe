//! The tests of the loader once more, with a stage in place of the host; and what only a stage can
//! do: fail late, lose its device, refuse.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
// The same files once more: `module_path!` tells their support that they are here.
#![allow(clippy::duplicate_mod)]

// Their support begins from a stage if this is where it is compiled: `loader_support::base`.
#[path = "loader.rs"]
mod loader;
#[path = "loader_dtypes.rs"]
mod loader_dtypes;
#[path = "loader_patches.rs"]
mod loader_patches;
#[path = "loader_reads.rs"]
mod loader_reads;
#[path = "loader_resume.rs"]
mod loader_resume;
#[path = "loader_several.rs"]
mod loader_several;
mod loader_support;
#[path = "loader_trouble.rs"]
mod loader_trouble;
#[path = "../../reader/tests/support/mod.rs"]
mod support;

use loader_support::fake_stage::{FakeStage, Trouble};
use loader_support::{Disk, RowOf, base, epoch, seen};
use shardpack_format::Dtype;
use shardpack_jpeg::{PixelLayout, Scaling, View};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, ImageMode, Loader, LoaderOptions, OnCorrupt};
use shardpack_reader::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn options(trouble: Trouble) -> (LoaderOptions, Arc<FakeStage>) {
    let stage = Arc::new(FakeStage::with(trouble));
    let options = LoaderOptions { batch_size: 6, threads: 3, mode: Mode::Stored, end: End::Uneven, ..base() };
    (LoaderOptions { stage: Some(Arc::clone(&stage) as _), ..options }, stage)
}

fn on_host(options: &LoaderOptions) -> LoaderOptions {
    LoaderOptions { stage: None, ..options.clone() }
}

#[test]
fn every_module_here_begins_from_a_stage() {
    let bases = [base(), loader::from_here(), loader_patches::from_here(), loader_trouble::from_here()];
    assert!(bases.iter().all(|options| options.stage.is_some()));
}

/// Several epochs, ragged and dense, uint8 and floats: the host's batches, to the bit.
#[test]
fn batches_are_the_hosts() {
    let disk = Disk::varied(&[23, 31]);
    let crop = ImageMode::View(View::random_resized_crop(12, 10).with_flip(0.5));
    let scaling = Some(Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]));
    let image = |dtype| ArrayDtype::Fields(vec![("image".into(), dtype)]);
    let layouts = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth];
    for layout in layouts {
        for (image, dtype, scaling) in [
            (crop, ArrayDtype::Source, None),
            (crop, image(Dtype::F16), scaling),
            (LoaderOptions::default().image, image(Dtype::F32), scaling),
            (LoaderOptions::default().image, image(Dtype::F16), None),
            (ImageMode::Raw, ArrayDtype::Source, None),
        ] {
            let (staged, _) = options(Trouble::None);
            let staged = LoaderOptions { layout, image, dtype, scaling, mode: Mode::Windowed, ..staged };
            let mut host = Loader::open(&disk.open(), on_host(&staged)).unwrap();
            let mut device = Loader::open(&disk.open(), staged).unwrap();
            for number in 0..3 {
                host.set_epoch(number).unwrap();
                device.set_epoch(number).unwrap();
                assert!(epoch(&mut device) == epoch(&mut host), "epoch {number}");
            }
        }
    }
}

#[test]
fn a_field_says_where_it_is() {
    let disk = Disk::alike(&[8]);
    let (staged, stage) = options(Trouble::None);
    let mut loader = Loader::open(&disk.open(), staged).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let device = batch.device().unwrap();
    assert_eq!((device.kind, device.number), (2, 3));
    let (cube, label) = (batch.field("cube").unwrap(), batch.field("label").unwrap());
    let place = cube.on_device().unwrap();
    assert_eq!((place.bytes, place.address % 64), (6 * 16 * 24 * 3 * 2, 0));
    assert!(cube.bytes().is_empty(), "it is only on the device");
    assert_eq!(label.bytes(), label.all(), "the host has decoded it, and it is on the device too");
    assert_eq!(label.on_device().unwrap().bytes, 6 * 8);
    batch.used_on(77);
    let counts = stage.counts();
    assert_eq!(counts.released.load(Ordering::Relaxed), 0);
    let kept = batch.clone();
    drop(batch);
    assert_eq!(counts.released.load(Ordering::Relaxed), 0, "a clone holds it");
    drop(kept);
    assert_eq!(counts.released.load(Ordering::Relaxed), 1);
    assert_eq!(*counts.streams.lock().unwrap(), [77]);
    assert!(loader.predicted_device_bytes() >= 3 * place.bytes as u64);
}

#[test]
fn refusals_are_counted_and_named() {
    let disk = Disk::alike(&[12]);
    let (staged, _) = options(Trouble::RefusesAll);
    let expected = epoch(&mut Loader::open(&disk.open(), on_host(&staged)).unwrap());
    let mut loader = Loader::open(&disk.open(), staged).unwrap();
    assert!(epoch(&mut loader) == expected);
    let refusals = loader.refusals();
    assert_eq!(refusals.len(), 1);
    // Picture and cube of each of the samples.
    assert_eq!((refusals[0].reason.as_str(), refusals[0].rows), ("the device is tired", 24));
    assert_eq!(refusals[0].first.len(), 3);
    assert!(refusals[0].first[0].starts_with("sample-0"));
}

/// A row that fails on the device is that row's error, or skipped; its neighbours are as ever.
#[test]
fn a_fault_on_the_device_harms_its_row_alone() {
    let disk = Disk::varied(&[24]);
    let bad = 11;
    let length = disk.samples[bad].jpeg().len();
    let same: Vec<u64> = disk.samples.iter().filter(|made| made.jpeg().len() == length).map(|made| made.id).collect();
    let (staged, _) = options(Trouble::FailsOn(length));
    let expected = epoch(&mut Loader::open(&disk.open(), on_host(&staged)).unwrap());

    let mut loader = Loader::open(&disk.open(), staged.clone()).unwrap();
    let results: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    assert_eq!(results.len(), 4);
    let errors: Vec<String> = results.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
    assert!(!errors.is_empty());
    for error in errors {
        assert!(error.contains("sample-0") && error.contains("a stream that ends early"), "{error}");
    }

    let skip = LoaderOptions { on_corrupt: OnCorrupt::Skip { max: 24 }, ..staged };
    let mut loader = Loader::open(&disk.open(), skip).unwrap();
    let batches: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(|b| seen(&b.unwrap())).collect();
    let mut skipped = 0;
    for (batch, expected) in batches.iter().zip(&expected) {
        for (row, &index) in batch.0.iter().enumerate() {
            if batch.1[row] {
                assert!(batch.2.iter().zip(&expected.2).all(|(a, b)| a.2[row] == b.2[row]), "sample {index}");
            } else {
                skipped += 1;
                assert!(same.contains(&index));
                assert!(batch.2.iter().filter(|f| f.0 == "image").all(|f| f.2[row].iter().all(|&b| b == 0)));
            }
        }
    }
    assert!(skipped > 0 && loader.stats().skipped == skipped);
}

#[test]
fn a_lost_device_is_one_error_and_the_end() {
    let disk = Disk::alike(&[30]);
    for (trouble, words) in
        [(Trouble::LostAt(2), "the device fell off the bus"), (Trouble::DropsAt(1), "one that is done or has failed")]
    {
        let (staged, _) = options(trouble);
        let mut loader = Loader::open(&disk.open(), staged).unwrap();
        let results: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
        let errors: Vec<String> = results.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(words), "{errors:?}");
        assert!(loader.next_batch().is_none());
    }
}

#[test]
fn no_memory_on_the_device_is_an_error_with_figures() {
    let disk = Disk::alike(&[6]);
    let (staged, _) = options(Trouble::NoMemory);
    let error = Loader::open(&disk.open(), staged).unwrap().next_batch().unwrap().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("3 bytes wanted, 2 free"), "{error}");
}

/// Left in the middle, begun again, dropped with work in flight.
#[test]
fn epochs_can_be_left_at_any_time() {
    let disk = Disk::alike(&[40]);
    let (staged, stage) = options(Trouble::None);
    let mut loader = Loader::open(&disk.open(), staged).unwrap();
    for number in 0..20 {
        loader.set_epoch(number).unwrap();
        for _ in 0..number % 4 {
            assert_eq!(loader.next_batch().unwrap().unwrap().len(), 6);
        }
    }
    assert!(stage.counts().slots.load(Ordering::Relaxed) <= 4, "slots go round");
    let kept = loader.next_batch().unwrap().unwrap();
    drop(loader);
    assert_eq!(kept.field("cube").unwrap().all().len(), 6 * 16 * 24 * 3 * 2, "a batch outlives its loader");
}

#[test]
fn floats_need_pictures_to_make_them_of() {
    let disk = Disk::alike(&[6]);
    let scaling = Some(Scaling::UNIT);
    let error = Loader::open(&disk.open(), LoaderOptions { scaling, ..base() }).unwrap_err().to_string();
    assert!(error.contains("expected pictures that come as floats") && error.contains("float16 or float32"), "{error}");
    let dtype = ArrayDtype::Cubes(Dtype::F64);
    let error = Loader::open(&disk.open(), LoaderOptions { scaling, dtype, ..base() }).unwrap_err().to_string();
    assert!(error.contains("expected uint8, float16 or float32, found float64"), "{error}");
}

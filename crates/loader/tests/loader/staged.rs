//! Repeats the loader's tests with a stage that decodes instead of the host. Also tests what only a stage can do: fail
//! late, lose the device, and refuse values.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::fake_stage::{FakeStage, Hook, Trouble};
use crate::loader_support::{Disk, Made, RowOf, Way, epoch, said, seen};
use shardpack_format::Dtype;
use shardpack_jpeg::{PixelLayout, Scaling, View};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::stage::StreamHandle;
use shardpack_loader::{ArrayDtype, BatchMix, ImageMode, Loader, LoaderOptions, OnCorrupt, Window};
use shardpack_reader::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn options(trouble: Trouble) -> (LoaderOptions, Arc<FakeStage>) {
    let stage = Arc::new(FakeStage::with(trouble));
    let options = Way::Staged.base().batch_size(6).threads(3).mode(Mode::Stored).end(End::Uneven);
    (options.stage(Arc::clone(&stage) as _), stage)
}

fn on_host(options: &LoaderOptions) -> LoaderOptions {
    let mut options = options.clone();
    options.resources.stage = None;
    options
}

#[test]
fn batches_are_the_hosts() {
    let disk = Disk::varied(&[23, 31]);
    let crop = ImageMode::View(View::random_resized_crop((12, 10)).with_flip(0.5));
    let scaling = Some(Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).unwrap());
    let image = |dtype: Dtype| ArrayDtype::Fields(vec![("image".into(), dtype.into())]);
    let layouts = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth];
    for layout in layouts {
        for (image, dtype, scaling) in [
            (crop, ArrayDtype::Source, None),
            (crop, image(Dtype::F16), scaling),
            (LoaderOptions::default().view.image, image(Dtype::F32), scaling),
            (LoaderOptions::default().view.image, image(Dtype::F16), None),
            (ImageMode::Raw, ArrayDtype::Source, None),
        ] {
            let (staged, _) = options(Trouble::None);
            let staged = {
                let mut options = staged.layout(layout).image(image).dtype(dtype).mode(Mode::Windowed);
                options.output.scaling = scaling;
                options
            };
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

/// If the device refuses rows, the host must add the noise to them.
#[test]
fn noise_is_the_hosts() {
    let disk = Disk::varied(&[9, 5]);
    let (staged, _) = options(Trouble::None);
    for (part_bytes, layout) in [(1 << 20, PixelLayout::HeightWidthChannels), (64, PixelLayout::ChannelsHeightWidth)] {
        let staged = staged
            .clone()
            .layout(layout)
            .part_bytes(part_bytes)
            .dtype(ArrayDtype::Cubes(Dtype::F32.into()))
            .augment_bands(vec!["gaussian_noise(sigma=0.5)".parse().unwrap()]);
        let plain = on_host(&staged).augment_bands(Vec::new());
        let load = |options: LoaderOptions| {
            let mut loader = Loader::open(&disk.open(), options).unwrap();
            (epoch(&mut loader), loader.refusals())
        };
        let (host, refused) = load(on_host(&staged));
        assert!(refused.is_empty());
        let (device, refused) = load(staged);
        assert!(device == host && host != load(plain).0);
        let cubes: u64 = refused.iter().map(|refusal| refusal.rows).sum();
        assert!((1..14).contains(&cubes), "{refused:?}");
    }
}

#[test]
fn a_field_has_a_location_on_its_device() {
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
    batch.used_on(StreamHandle::LEGACY);
    let counts = stage.counts();
    assert_eq!(counts.released.load(Ordering::Relaxed), 0);
    let kept = batch.clone();
    drop(batch);
    assert_eq!(counts.released.load(Ordering::Relaxed), 0, "a clone holds it");
    drop(kept);
    assert_eq!(counts.released.load(Ordering::Relaxed), 1);
    assert_eq!(*counts.streams.lock().unwrap(), [1]);
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
    assert_eq!((refusals[0].reason.as_str(), refusals[0].rows), ("the device is tired", 24));
    assert_eq!(refusals[0].first.len(), 3);
    assert!(refusals[0].first[0].starts_with("sample-0"));
}

/// If the device cannot decode a value that it has already accepted, the host must read the record again.
#[test]
fn odd_rows_are_decoded_by_the_host() {
    let disk = Disk::varied(&[24]);
    let length = disk.samples[11].jpeg().len();
    let odd = disk.samples.iter().filter(|made| made.jpeg().len() == length).count() as u64;
    for window in [Window::Memory, Window::PageCache] {
        let (staged, _) = options(Trouble::OddOn(length));
        let staged = staged.window(window);
        let mut host = Loader::open(&disk.open(), on_host(&staged)).unwrap();
        let mut device = Loader::open(&disk.open(), staged).unwrap();
        // The epochs are not consecutive, because the next epoch would otherwise be prepared and counted too.
        for number in [0, 2] {
            host.set_epoch(number).unwrap();
            device.set_epoch(number).unwrap();
            assert!(epoch(&mut device) == epoch(&mut host), "epoch {number}");
        }
        // One in seven of the odd values was refused for another reason before it reached the device.
        let refusals = device.refusals();
        let of = |reason: &str| refusals.iter().find(|refusal| refusal.reason == reason).unwrap();
        let found = of("a stream that ends early");
        assert!((1..=2 * odd).contains(&found.rows), "{} of {}", found.rows, 2 * odd);
        assert!(found.first[0].starts_with("sample-0"));
        let refused = found.rows + of("one of seven").rows;
        assert_eq!(device.stats().device_rows, 2 * 2 * 24 - refused);
    }
}

/// If a sample is skipped after the device has decoded it, none of its fields may remain in the batch, neither intact
/// fields nor fields that the host decoded.
#[test]
fn unreadable_odd_values_are_skipped() {
    let disk = Arc::new(Disk::alike(&[12]));
    let (staged, stage) = options(Trouble::OddOn(disk.samples[0].jpeg().len()));
    let hurt = Arc::clone(&disk);
    *stage.counts().first.lock().unwrap() = Some(Hook(Box::new(move || (0..12).for_each(|id| hurt.hurt(id)))));
    let skip = staged.on_corrupt(OnCorrupt::Skip { max: 12 }).window(Window::Memory);
    let mut loader = Loader::open(&disk.open(), skip).unwrap();
    let batches = epoch(&mut loader);
    let skipped: usize = batches.iter().map(|(_, mask, _)| mask.iter().filter(|&&there| !there).count()).sum();
    assert!(skipped > 0 && loader.stats().skipped == skipped as u64);
    assert!(loader.refusals().iter().any(|refusal| refusal.reason == "a stream that ends early"));
    for (_, mask, fields) in &batches {
        for (name, _, rows) in fields {
            for (row, there) in rows.iter().zip(mask) {
                assert!(*there || row.iter().all(|&byte| byte == 0), "`{name}` of a skipped sample");
            }
        }
    }
}

#[test]
fn a_batch_that_the_device_has_no_memory_for_is_one_error() {
    let disk = Disk::alike(&[30]);
    let (staged, _) = options(Trouble::FullAt(2));
    let expected = epoch(&mut Loader::open(&disk.open(), on_host(&staged)).unwrap());
    let mut loader = Loader::open(&disk.open(), staged).unwrap();
    let results: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(|batch| batch.map(|b| seen(&b))).collect();
    assert_eq!(results.len(), expected.len());
    let mut errors = Vec::new();
    for (found, expected) in results.iter().zip(&expected) {
        match found {
            Ok(found) => assert!(found == expected),
            Err(error) => errors.push(error.to_string()),
        }
    }
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("9 bytes needed, 5 free"), "{errors:?}");
    loader.set_epoch(1).unwrap();
    assert_eq!(epoch(&mut loader).len(), expected.len(), "the loader continues");
}

#[test]
fn a_slot_that_cannot_grow_is_an_error_of_its_batch() {
    // One of 300 samples is so large that it does not fit in a slot of the predicted size.
    let disk = Disk::new(&[300], |id| {
        let side = if id == 150 { 96 } else { 8 };
        Made { id, height: side, width: side, said_height: side, half: false }
    });
    let (staged, _) = options(Trouble::None);
    let staged = staged.batch_size(2).slots(2).mode(Mode::Full);
    let slots = |stage: &FakeStage| stage.counts().slots.load(Ordering::Relaxed);
    let grown = Arc::new(FakeStage::default());
    let staged = staged.stage(Arc::clone(&grown) as _);
    let batches = epoch(&mut Loader::open(&disk.open(), staged.clone()).unwrap()).len();
    assert!(slots(&grown) > 2, "one batch is larger than was predicted");

    let tight = Arc::new(FakeStage::with(Trouble::NoMoreThan(40_000)));
    let staged = staged.stage(Arc::clone(&tight) as _);
    let mut loader = Loader::open(&disk.open(), staged).unwrap();
    let results: Vec<_> = std::iter::from_fn(|| loader.next_batch()).map(|batch| batch.map(drop)).collect();
    assert_eq!(results.len(), batches);
    let errors: Vec<String> = results.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
    assert!(errors.len() == 1 && errors[0].contains("3 bytes wanted, 2 free"), "{errors:?}");
    assert_eq!(slots(&tight), 3, "in place of the one that went for a larger one");
}

/// Freeing device memory waits for the device, so it must not happen in the consumer or under the loader's lock.
#[test]
fn threads_of_the_loader_let_go_of_slots() {
    let disk = Disk::alike(&[60]);
    let (staged, stage) = options(Trouble::None);
    let mut loader = Loader::open(&disk.open(), staged.slots(2)).unwrap();
    let kept: Vec<_> = (0..5).map(|_| loader.next_batch().unwrap().unwrap()).collect();
    assert!(loader.stats().extra_slots > 0);
    drop(kept);
    // In this epoch, the loader drops all slots but two.
    while loader.next_batch().is_some() {}
    let dropped = stage.counts().dropped.lock().unwrap().clone();
    assert!(!dropped.is_empty() && dropped.iter().all(|name| name == "shardpack-load"), "{dropped:?}");
}

#[test]
fn a_lost_device_is_one_error_and_the_end() {
    let disk = Disk::alike(&[30]);
    for (trouble, words) in [
        (Trouble::LostAt(2), "the device fell off the bus"),
        (Trouble::DropsAt(1), "the device dropped a batch without finishing it"),
    ] {
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
    let (staged, _) = options(Trouble::NoMemory(2));
    let error = Loader::open(&disk.open(), staged).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let text = said(&error);
    assert!(text.contains("slot 3 of 3") && text.contains("3 bytes wanted, 2 free"), "{text}");
    assert!(text.contains("\nhint: use fewer slots"), "{text}");
}

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
    let options = {
        let mut options = Way::Staged.base().batch_size(2);
        options.output.scaling = scaling;
        options
    };
    // These options are accepted, because the type is float32 by default.
    assert!(Loader::open(&disk.open(), options.clone()).is_ok());
    let raw = options.clone().image(ImageMode::Raw);
    let error = said(&Loader::open(&disk.open(), raw).unwrap_err());
    assert!(error.contains("mean and std without a field name apply to pictures, but `"), "{error}");
    let dtype = ArrayDtype::Cubes(Dtype::F64.into());
    let error = Loader::open(&disk.open(), options.dtype(dtype)).unwrap_err().to_string();
    assert!(
        error.contains("pictures can be loaded as uint8, float16, bfloat16 or float32, but not as float64"),
        "{error}"
    );
}

/// A batch that was not delivered because of an error does not count in the state. A run that ends with the error then
/// resumes with the samples of this batch.
#[test]
fn a_batch_that_cannot_be_mixed_is_not_delivered() {
    let disk = Disk::alike(&[30]);
    let with = |trouble| {
        let (options, _) = options(trouble);
        let image = ImageMode::View(View::random_resized_crop((20, 14)));
        let mix = Some(BatchMix { choices: vec!["mixup".parse().unwrap()], classes: 40 });
        Loader::open(&disk.open(), {
            let mut options = options.image(image).fields(["image", "label"]);
            options.output.mix = mix;
            options
        })
        .unwrap()
    };
    let mut whole = with(Trouble::None);
    let expected: Vec<_> = std::iter::from_fn(|| whole.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    // Two fields of each batch are mixed, so the fifth call mixes a field of the third batch.
    let mut first = with(Trouble::MixFailsAt(4));
    (0..2).for_each(|_| drop(first.next_batch().unwrap().unwrap()));
    let before = first.state();
    let error = first.next_batch().unwrap().unwrap_err();
    assert!(said(&error).contains("no memory to mix in"), "{error}");
    assert_eq!(first.state(), before);
    let mut second = with(Trouble::None);
    second.restore(&before).unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| second.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    assert!(rest.len() == 3 && rest == expected[2..]);
    assert_eq!(seen(&first.next_batch().unwrap().unwrap()), expected[3], "the loader continues after it");
}

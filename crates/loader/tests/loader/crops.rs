//! Tests several crops of each picture. Each crop must equal the picture from a loader that has only this view and
//! uses the crop's seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, RowOf, base, said, seen};
use shardpack_augment::Augmentation;
use shardpack_format::Dtype;
use shardpack_jpeg::{DrawKey, Framing, PixelLayout, View};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Align, ArrayDtype, BatchMix, ImageMode, Interpolation, Loader, LoaderOptions, PictureCrop};
use std::collections::BTreeMap;

const SEED: u64 = 4;

fn augment(text: &str) -> Augmentation {
    text.parse().unwrap()
}

/// Returns two large and three small crops, as for DINO, and a padded picture.
fn crops() -> Vec<PictureCrop> {
    let crop = |size: u32, scale: (f64, f64)| {
        let framing = Framing::RandomResizedCrop { size: size.into(), scale, ratio: Framing::RATIO };
        PictureCrop::from(View { framing, ..View::whole() }.with_flip(0.5))
    };
    let (large, small) = (crop(22, (0.4, 1.0)), crop(9, (0.05, 0.4)));
    let bicubic = PictureCrop { view: large.view.with_interpolation(Interpolation::Bicubic), ..large.clone() };
    let padded = PictureCrop::from(View::pad((17, 12)).with_flip(0.5)).named("padded");
    let blurred =
        bicubic.augmented([augment("gaussian_blur(kernel_size=3)"), augment("random_solarize(threshold=128)")]);
    vec![large, blurred, small.clone(), small.clone(), small, padded]
}

fn options() -> LoaderOptions {
    base().batch_size(5).threads(3).seed(SEED).end(End::Uneven).mode(Mode::Stored).fields(["label", "image"])
}

type Rows = BTreeMap<u64, (Vec<u64>, Vec<u8>)>;

fn rows(disk: &Disk, options: LoaderOptions, epoch: u32) -> BTreeMap<String, Rows> {
    let mut loader = Loader::open(&disk.open(), options.epoch(epoch)).unwrap();
    let names: Vec<String> = loader.names().map(str::to_owned).collect();
    let mut all: BTreeMap<String, Rows> = BTreeMap::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        for name in names.iter().filter(|name| *name != "label") {
            let field = batch.field(name).unwrap();
            for (row, &index) in batch.indices().iter().enumerate() {
                let row = (field.row_shape(row).unwrap().to_vec(), field.row_of(row));
                all.entry(name.clone()).or_default().insert(index, row);
            }
        }
    }
    all
}

#[test]
fn crops_are_those_of_loaders_with_one_view() {
    let disk = Disk::varied(&[17, 12]);
    let floats = ArrayDtype::Fields(vec![("image".into(), Dtype::F32.into())]);
    let common = vec![augment("color_jitter(hue=0.3)")];
    let plain = options();
    let ways = [
        (plain.clone(), 0),
        (plain.clone().augment_pictures(common.clone()).threads(1).batch_size(4), 3),
        (plain.augment_pictures(common).layout(PixelLayout::ChannelsHeightWidth).dtype(floats), 1),
    ];
    for (options, epoch) in ways {
        let found = rows(&disk, options.clone().crops(crops()), epoch);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["image_0", "image_1", "image_2", "image_3", "image_4", "padded"]);
        for (number, (crop, (name, found))) in (0..).zip(crops().iter().zip(&found)) {
            let mut alone = options.clone().image(crop.view);
            alone.view.augment_pictures.extend(&crop.augment);
            let seed = DrawKey { seed: SEED, epoch: 0, sample: 0 }.of_crop(number).seed;
            let expected = rows(&disk, alone.seed(seed), epoch);
            assert_eq!(found.len(), 29);
            assert!(*found == expected["image"], "{name}");
        }
        assert!(found["image_2"] != found["image_3"], "each has its own draws");
    }
}

/// Crops must not affect the order or the state.
#[test]
fn a_resumed_loader_continues_with_the_same_crops() {
    let disk = Disk::varied(&[31]);
    let options = options().mode(Mode::Full).crops(crops());
    let mut whole = Loader::open(&disk.open(), options.clone()).unwrap();
    let mut single = Loader::open(&disk.open(), self::options().mode(Mode::Full).image(crops()[0].view)).unwrap();
    let mut first = Loader::open(&disk.open(), options.clone()).unwrap();
    for _ in 0..2 {
        let batch = whole.next_batch().unwrap().unwrap();
        assert_eq!(batch.indices(), single.next_batch().unwrap().unwrap().indices());
        assert!(seen(&first.next_batch().unwrap().unwrap()) == seen(&batch));
    }
    assert_eq!(first.state(), single.state());
    let mut second = Loader::open(&disk.open(), options.threads(1)).unwrap();
    second.restore(&first.state()).unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| second.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    let expected: Vec<_> = std::iter::from_fn(|| whole.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    assert!(rest.len() == 5 && rest == expected);
}

/// For each crop, the batch must report the part of the picture that the crop's own draws select.
#[test]
fn crops_say_what_they_show() {
    let disk = Disk::varied(&[9]);
    let mut loader = Loader::open(&disk.open(), options().crops(crops())).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let shown = |name: &str| batch.shown(name).unwrap();
    for (number, crop) in (0..).zip(crops()) {
        let name = crop.name.unwrap_or_else(|| format!("image_{number}"));
        for (&sample, shown) in batch.indices().iter().zip(shown(&name)) {
            let shown = shown.unwrap();
            let key = DrawKey { seed: SEED, epoch: 0, sample }.of_crop(number);
            assert_eq!(crop.view.resolve(shown.source[1], shown.source[0], &key).unwrap(), shown.crop);
        }
    }
    assert_ne!(shown("image_2"), shown("image_3"));
    assert!(batch.shown("image").is_err());
}

#[test]
fn several_crops_are_mixed_alike() {
    let disk = Disk::alike(&[12]);
    let mix = BatchMix { choices: vec!["mixup(alpha=1)".parse().unwrap()], classes: 10 };
    let views = [View::center_crop(16, 12), View::center_crop(16, 12)];
    let mut loader = Loader::open(&disk.open(), options().crops(views).mix(mix)).unwrap();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        assert!(batch.field("image_0").unwrap().all() == batch.field("image_1").unwrap().all());
    }
}

#[test]
fn crops_that_contradict_other_options_are_refused() {
    let disk = Disk::alike(&[4]);
    let refused = |options: LoaderOptions| said(&Loader::open(&disk.open(), options).unwrap_err());
    let crops = || options().crops(crops());
    for image in [ImageMode::Raw, View::center_crop(8, 8).into()] {
        let error = refused(crops().image(image));
        assert!(error.contains("crops: each crop has its own view") && error.contains("hint: leave"), "{error}");
    }
    let error = refused(crops().fields(["label"]));
    assert!(error.contains("crops need a picture field, but none is loaded"), "{error}");
    let view = PictureCrop::from(View::center_crop(8, 8));
    for name in ["label", "image_0"] {
        let error = refused(options().crops([view.clone(), view.clone().named(name)]));
        assert!(error.contains(&format!("crops: two fields have the name `{name}`")), "{error}");
    }
    let error = refused(crops().align([("cube", "mask".parse::<Align>().unwrap())]));
    assert!(error.contains("field `cube` is aligned with one picture and cannot follow several crops"), "{error}");
    let bad = view.clone().augmented([Augmentation::TrivialAugmentWide { bins: 0 }]);
    assert!(refused(options().crops([bad])).contains("num_magnitude_bins"));
    let many = view.clone().augmented(vec![augment("random_grayscale"); 1024]);
    let error = refused(options().augment_pictures(vec![augment("random_grayscale")]).crops([many]));
    assert!(error.contains("at most 1024 picture augmentations are supported, not 1025"), "{error}");
    let mut every_field = options().crops([view.augmented([augment("random_rotation(degrees=5)")])]);
    every_field.output.fields = None;
    let error = refused(every_field);
    assert!(
        error.contains(
            "picture augmentation would move `image_0` but not `cube`, so their pixels would no longer match"
        ),
        "{error}"
    );
}

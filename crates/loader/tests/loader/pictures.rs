//! Tests augmentations of pictures. For any number of threads, layout, element type and device, batches must equal the
//! result of simple, slow code on the unchanged picture.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, RowOf, base, said, seen};
use shardpack_augment::{Augmentation, ChangeScratch, Picture};
use shardpack_format::Dtype;
use shardpack_jpeg::{DrawKey, PixelLayout, View};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, ImageMode, Loader, LoaderOptions};
use std::collections::BTreeMap;

const RECIPE: [&str; 4] = ["trivial_augment_wide", "rand_augment", "color_jitter(hue=0.3)", "random_erasing(value=9)"];

fn recipe() -> Vec<Augmentation> {
    RECIPE.map(|text| text.parse().unwrap()).to_vec()
}

fn options() -> LoaderOptions {
    base().batch_size(5).threads(3).seed(4).end(End::Uneven).augment_pictures(recipe()).fields(["image", "label"])
}

fn rows(disk: &Disk, options: LoaderOptions, number: u32) -> BTreeMap<u64, (Vec<u64>, Vec<u8>)> {
    let mut loader = Loader::open(&disk.open(), options.epoch(number)).unwrap();
    let mut rows = BTreeMap::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        let image = batch.field("image").unwrap();
        for (row, &index) in batch.indices().iter().enumerate() {
            rows.insert(index, (image.row_shape(row).unwrap().to_vec(), image.row_of(row)));
        }
    }
    rows
}

/// Applies the recipe to unchanged pictures, with simple, slow code.
fn slow(plain: BTreeMap<u64, (Vec<u64>, Vec<u8>)>, epoch: u64) -> BTreeMap<u64, (Vec<u64>, Vec<u8>)> {
    let changed = |(sample, (shape, mut pixels)): (u64, (Vec<u64>, Vec<u8>))| {
        let [height, width] = [shape[0] as usize, shape[1] as usize];
        let draws = DrawKey { seed: 4, epoch, sample }.draws();
        let mut picture = Picture::new(&mut pixels, height, width).unwrap();
        for (place, one) in (0..).zip(recipe()) {
            let operations = one.resolve(&draws, place, height, width);
            operations.iter().for_each(|one| one.apply(&mut picture, &mut ChangeScratch::default()));
        }
        (sample, (shape, pixels))
    };
    plain.into_iter().map(changed).collect()
}

#[test]
fn batches_are_those_of_a_slow_twin() {
    let disk = Disk::varied(&[17, 12]);
    let crop = ImageMode::View(View::random_resized_crop((20, 14)).with_flip(0.5));
    for (image, epoch) in [(crop, 0), (crop, 3), (LoaderOptions::default().view.image, 1)] {
        let options = options().image(image);
        let plain = rows(&disk, options.clone().augment_pictures(Vec::new()), epoch);
        let expected = slow(plain.clone(), epoch.into());
        assert_eq!(plain.len(), 29);
        assert!(plain != expected);
        for (threads, batch_size, mode) in [(1, 4, Mode::Stored), (4, 7, Mode::Full)] {
            assert!(rows(&disk, options.clone().threads(threads).batch_size(batch_size).mode(mode), epoch) == expected);
        }
        let planes = options.clone().layout(PixelLayout::ChannelsHeightWidth);
        let floats = ArrayDtype::Fields(vec![("image".into(), Dtype::F32.into())]);
        let found = rows(&disk, planes.clone(), epoch);
        let found_floats = rows(&disk, planes.dtype(floats), epoch);
        for (sample, (shape, pixels)) in &expected {
            let area = pixels.len() / 3;
            let turned: Vec<u8> = (0..3 * area).map(|at| pixels[at % area * 3 + at / area]).collect();
            let shape = vec![3, shape[0], shape[1]];
            assert!(found[sample] == (shape.clone(), turned.clone()), "{sample}");
            let floats = turned.iter().flat_map(|&x| (f32::from(x) * (1.0 / 255.0)).to_le_bytes()).collect();
            assert!(found_floats[sample] == (shape, floats), "{sample}");
        }
    }
}

#[test]
fn a_resumed_loader_continues_with_the_same_draws() {
    let disk = Disk::varied(&[31]);
    let mut whole = Loader::open(&disk.open(), options()).unwrap();
    let mut first = Loader::open(&disk.open(), options()).unwrap();
    for _ in 0..2 {
        let expected = seen(&whole.next_batch().unwrap().unwrap());
        assert!(seen(&first.next_batch().unwrap().unwrap()) == expected);
    }
    let mut second = Loader::open(&disk.open(), options().threads(1)).unwrap();
    second.restore(&first.state()).unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| second.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    let expected: Vec<_> = std::iter::from_fn(|| whole.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    assert!(rest.len() == 5 && rest == expected);
}

#[test]
fn with_a_device_nothing_else_is_refused() {
    let disk = Disk::alike(&[12]);
    let mut loader = Loader::open(&disk.open(), options().mode(Mode::Stored)).unwrap();
    while let Some(batch) = loader.next_batch() {
        batch.unwrap();
    }
    let refusals = loader.refusals();
    assert_eq!(refusals.len(), usize::from(options().resources.stage.is_some()));
    assert!(refusals.iter().all(|refusal| refusal.reason == "one of seven"), "{refusals:?}");
}

#[test]
fn useless_or_harmful_augmentations_are_refused() {
    let disk = Disk::alike(&[4]);
    let refused = |options| said(&Loader::open(&disk.open(), options).unwrap_err());
    let none = "picture augmentation needs a field with decoded pictures, but none is loaded";
    let filled = vec!["random_affine(degrees=5,fill=0.5)".parse().unwrap()];
    let error = refused(options().augment_pictures(filled));
    assert!(error.contains("`fill` and `mask_fill` apply only to arrays, but pictures are loaded"), "{error}");
    assert!(refused(options().fields(["label"])).contains(none));
    assert!(refused(options().image(ImageMode::Raw)).contains(none));
    // The cube and the picture have the same height and width.
    let mut every_field = options();
    every_field.output.fields = None;
    let moved = refused(every_field.clone());
    assert!(
        moved.contains(
            "picture augmentation would move `image` but not `cube`, so their pixels would no longer match\nhint: "
        ),
        "{moved}"
    );
    let colours = vec!["random_grayscale".parse().unwrap()];
    assert!(Loader::open(&disk.open(), every_field.augment_pictures(colours)).is_ok());
    let bad = vec![Augmentation::TrivialAugmentWide { bins: 0 }];
    assert!(refused(options().augment_pictures(bad)).contains("num_magnitude_bins"));
    let many = refused(options().augment_pictures(vec![recipe()[0]; 1025]));
    assert!(many.contains("at most 1024"), "{many}");
}

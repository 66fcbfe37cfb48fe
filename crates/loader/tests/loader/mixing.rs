//! Tests Mixup and CutMix. Batches must equal the result of simple, slow code applied to unmixed batches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use crate::loader_support::{Disk, RowOf, base, seen};
use shardpack_augment::{Mix, Mixed};
use shardpack_format::Dtype;
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, Batch, BatchMix, Loader, LoaderOptions, OnCorrupt, View};

const SIZE: [usize; 2] = [20, 14];
/// Number of classes. Some labels exceed it.
const CLASSES: u32 = 40;

fn options() -> LoaderOptions {
    base()
        .batch_size(5)
        .threads(3)
        .seed(4)
        .end(End::Pad)
        .mode(Mode::Full)
        .fields(["image", "label"])
        .image(View::random_resized_crop((20, 14)))
}

fn mix(texts: &[&str]) -> Option<BatchMix> {
    Some(BatchMix { choices: texts.iter().map(|text| text.parse().unwrap()).collect(), classes: CLASSES })
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

/// Mixes a batch with simple, slow code. Returns, for each row, the picture `[height, width, 3]` as floats, and the
/// weights of the classes.
fn slow(plain: &Batch, choices: &[Mix], pixels: impl Fn(usize) -> Vec<f32>) -> Vec<(Vec<f32>, Vec<f32>)> {
    let there: Vec<usize> = (0..plain.len()).filter(|&row| plain.mask()[row]).collect();
    let key = plain.draw_keys().nth(there[0]).unwrap();
    let mixed = Mix::resolve(choices, &key.draws(), SIZE[0], SIZE[1]).unwrap();
    let weights = |row: usize| -> Vec<f32> {
        let label = plain.field("label").unwrap().row_of(row);
        let label = i64::from_le_bytes(label.try_into().unwrap());
        (0..i64::from(CLASSES)).map(|class| f32::from(class == label)).collect()
    };
    let blend = |own: Vec<f32>, other: Vec<f32>, share: f64| -> Vec<f32> {
        own.iter().zip(other).map(|(own, other)| own * share as f32 + other * (1.0 - share) as f32).collect()
    };
    let pair = |n: usize| {
        let (own, other) = (there[n], there[(n + there.len() - 1) % there.len()]);
        let image = match mixed {
            Mixed::Sum { share } => blend(pixels(own), pixels(other), share),
            Mixed::Rectangle { origin: [top, left], size: [rows, columns], .. } => {
                let is_in = |at: usize| {
                    let (y, x) = (at / 3 / SIZE[1], at / 3 % SIZE[1]);
                    (top..top + rows).contains(&y) && (left..left + columns).contains(&x)
                };
                let both = pixels(own).into_iter().zip(pixels(other)).enumerate();
                both.map(|(at, (own, other))| if is_in(at) { other } else { own }).collect()
            }
            Mixed::Mosaic(_) => panic!("mosaics have no weights"),
        };
        (image, blend(weights(own), weights(other), mixed.share()))
    };
    (0..there.len()).map(pair).collect()
}

#[test]
fn batches_are_those_of_a_slow_twin() {
    // 32 samples fill six batches of five. The last batch has two samples and padding.
    let disk = Disk::alike(&[17, 15]);
    for (texts, dtype) in [
        (&["mixup(alpha=0.8)"][..], None),
        (&["cutmix"], None),
        (&["mixup", "cutmix(alpha=0.5)"], None),
        (&["mixup", "cutmix"], Some(Dtype::F32)),
        (&["mixup", "cutmix"], Some(Dtype::F16)),
    ] {
        for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
            let types = dtype.map(|dtype| ArrayDtype::Fields(vec![("image".into(), dtype.into())]));
            let dtype_of = types.unwrap_or_default();
            let mixed = {
                let mut options = options().layout(layout).dtype(dtype_of);
                options.output.mix = mix(texts);
                options
            };
            let mut plain = Loader::open(&disk.open(), options()).unwrap();
            let mut mixed = Loader::open(&disk.open(), mixed).unwrap();
            while let Some(batch) = mixed.next_batch() {
                let (batch, plain) = (batch.unwrap(), plain.next_batch().unwrap().unwrap());
                let unit = if dtype.is_some() { 1.0 / 255.0 } else { 1.0 };
                let image = plain.field("image").unwrap();
                let pixels = |row| image.row_of(row).iter().map(|&x| f32::from(x) * unit).collect::<Vec<_>>();
                let expected = slow(&plain, &mix(texts).unwrap().choices, pixels);
                let (image, label) = (batch.field("image").unwrap(), batch.field("label").unwrap());
                assert_eq!(label.shape().unwrap(), [5, u64::from(CLASSES)]);
                for (row, (pixels, weights)) in expected.iter().enumerate() {
                    let bytes = image.row_of(row);
                    let (found, tolerance): (Vec<f32>, f32) = match dtype {
                        None => (bytes.iter().map(|&x| f32::from(x)).collect(), 0.51),
                        Some(Dtype::F16) => {
                            (bytes.chunks(2).map(|x| half::f16::from_le_bytes([x[0], x[1]]).to_f32()).collect(), 1e-3)
                        }
                        Some(_) => (floats(&bytes), 1e-6),
                    };
                    let area = SIZE[0] * SIZE[1];
                    for (at, value) in pixels.iter().enumerate() {
                        let at = if layout == PixelLayout::HeightWidthChannels { at } else { at % 3 * area + at / 3 };
                        assert!((found[at] - value).abs() <= tolerance, "{texts:?} {row}: {} {value}", found[at]);
                    }
                    let found = floats(&label.row_of(row));
                    assert!(found.iter().zip(weights).all(|(a, b)| (a - b).abs() < 1e-6));
                    assert!((found.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                }
                for row in expected.len()..batch.len() {
                    assert!(image.row_of(row).iter().chain(&label.row_of(row)).all(|&byte| byte == 0), "padding");
                }
            }
        }
    }
}

#[test]
fn a_resumed_loader_continues_with_the_same_draws() {
    let disk = Disk::alike(&[32]);
    let options = || {
        let mut options = options();
        options.output.mix = mix(&["mixup", "cutmix"]);
        options
    };
    let mut whole = Loader::open(&disk.open(), options()).unwrap();
    let expected: Vec<_> = std::iter::from_fn(|| whole.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    let mut first = Loader::open(&disk.open(), options()).unwrap();
    (0..3).for_each(|_| drop(first.next_batch().unwrap().unwrap()));
    let mut second = Loader::open(&disk.open(), options().threads(1)).unwrap();
    second.restore(&first.state()).unwrap();
    let rest: Vec<_> = std::iter::from_fn(|| second.next_batch()).map(|batch| seen(&batch.unwrap())).collect();
    assert!(rest.len() == 4 && rest == expected[3..]);
}

#[test]
fn skipped_samples_are_not_mixed() {
    let disk = Disk::alike(&[10]);
    disk.hurt(3);
    let on_corrupt = OnCorrupt::Skip { max: 5 };
    let plain = || options().on_corrupt(on_corrupt).mode(Mode::Stored).batch_size(10);
    let mixed = {
        let mut options = plain();
        options.output.mix = mix(&["mixup"]);
        options
    };
    let plain = Loader::open(&disk.open(), plain()).unwrap().next_batch().unwrap().unwrap();
    let mixed = Loader::open(&disk.open(), mixed).unwrap().next_batch().unwrap().unwrap();
    let image = plain.field("image").unwrap();
    let pixels = |row| image.row_of(row).iter().map(|&x| f32::from(x)).collect::<Vec<_>>();
    let expected = slow(&plain, &[Mix::Mixup { alpha: 1.0 }], pixels);
    assert_eq!((mixed.mask()[3], expected.len()), (false, 9));
    let rows = (0..10).filter(|&row| row != 3);
    for (row, (pixels, _)) in rows.zip(expected) {
        let found = mixed.field("image").unwrap().row_of(row);
        assert!(
            found.iter().zip(pixels).all(|(&found, expected)| (f32::from(found) - expected).abs() <= 0.51),
            "{row}"
        );
    }
    assert!(mixed.field("image").unwrap().row_of(3).iter().all(|&level| level == 0));
}

#[test]
fn unmixable_fields_are_refused() {
    let disk = Disk::alike(&[12]);
    let refused = |options: LoaderOptions| match Loader::open(&disk.open(), options) {
        Err(error) => crate::loader_support::said(&error),
        Ok(mut loader) => crate::loader_support::said(&loader.next_batch().unwrap().unwrap_err()),
    };
    let options = || {
        let mut options = options().mode(Mode::Stored);
        options.output.mix = mix(&["mixup"]);
        options
    };
    let mut every_field = options();
    every_field.output.fields = None;
    for (options, said) in [
        (
            options().image(LoaderOptions::default().view.image),
            "mixing a batch needs decoded pictures of a fixed size\nhint: ",
        ),
        (options().fields(["label"]), "mixing a batch needs a picture field, but none is loaded\nhint: "),
        (options().fields(["image"]), "mixing a batch needs an integer field `label`, but none is loaded"),
        (
            every_field,
            "field `cube` cannot be mixed: only fixed-size pictures, their aligned masks and scalars can be\nhint: ",
        ),
        (
            {
                let mut options = options();
                options.output.mix = mix(&[]);
                options
            },
            "mixing a batch needs at least one of mixup, cutmix and mosaic",
        ),
        (
            options().mix(BatchMix { classes: 0, ..mix(&["mixup"]).unwrap() }),
            "cannot mix the field `label`: the number of classes is 0\nhint: ",
        ),
        (
            options().mix(mix(&["mosaic", "mixup"]).unwrap()),
            "a mosaic shows four pictures, which have no common `label`\nhint: ",
        ),
        (options().mix(BatchMix { classes: 2, ..mix(&["mixup"]).unwrap() }), ", but must be a class number below 2"),
    ] {
        let error = refused(options);
        assert!(error.contains(said), "{error}");
    }
}

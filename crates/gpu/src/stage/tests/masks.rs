//! Tests that masks follow the view and the augmentation of their picture on a device in the same way as on the host.

use super::datasets::{assert_same, epoch};
use super::generate::{Fill, array};
use super::jpegs::Source;
use super::loader_support::{record, write};
use super::of;
use super::played::PlayedStage;
use super::resident::resident;
use super::support::scratch;
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{Codec, Dtype, Field, FieldKind, Schema};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::End;
use shardpack_loader::{ArrayDtype, BatchMix, ImageMode, Loader, LoaderOptions, OnCorrupt, parse_mixes};
use shardpack_reader::Dataset;
use std::sync::Arc;

fn settings(n: u64) -> ArraySettings {
    let of = |coder, filter, layout, band_difference| ArraySettings {
        values: ValueRule::Keep,
        coder,
        level: matches!(coder, Coder::Blosc2Zstd | Coder::Zstd).then_some(1),
        filter,
        band_difference,
        layout,
    };
    match n % 6 {
        0 => of(Coder::Blosc2Lz4, Filter::Bitshuffle, ArrayLayout::BandMajor, true),
        1 => of(Coder::Blosc2Lz4, Filter::Shuffle, ArrayLayout::AsShape, false),
        2 => of(Coder::Blosc2Zstd, Filter::Shuffle, ArrayLayout::AsShape, true),
        3 => of(Coder::Blosc2Zstd, Filter::Bitshuffle, ArrayLayout::BandMajor, false),
        4 => of(Coder::Zstd, Filter::None, ArrayLayout::AsShape, false),
        _ => of(Coder::Raw, Filter::None, ArrayLayout::AsShape, false),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Odd {
    None,
    /// The mask of every fifth sample ends in invalid bytes, and the mask of every seventh sample has the wrong size.
    Damaged,
}

/// Writes pictures with four masks each: a plain one, one with two channels, one with a wider type, and one with
/// flags. Every fourth picture has no boxes, and the others have up to three.
fn dataset(count: u64, size: fn(u64) -> [u32; 2], odd: Odd) -> tempfile::TempDir {
    let mut fields = vec![Field::stored("image", FieldKind::Image)];
    fields.extend(["mask", "planes", "wide", "flags", "boxes"].map(|name| Field::stored(name, FieldKind::Array)));
    fields.extend(["height", "width", "orientation"].map(|name| Field::scalar(name, Dtype::U32)));
    let schema = Schema::new(fields).unwrap();
    let dir = scratch();
    write(dir.path(), &schema, &[count / 2, count - count / 2], |schema, number, id| {
        let [height, width] = size(id);
        let interval = 1 + (id % 7) as u16;
        let source = Source { size: (width as u16, height as u16), factors: (2, 2), interval, detail: 12, seed: id };
        let orientation = [1_u32, 6, 3, 5][id as usize % 4];
        let [upright_height, upright_width] = if orientation > 4 { [width, height] } else { [height, width] };
        let sides = [u64::from(upright_height), u64::from(upright_width)];
        let mut values = vec![(Codec::Jpeg, source.encoded(), b"image/jpeg".to_vec(), None)];
        for (n, dtype, channels) in
            [(0, Dtype::U8, None), (1, Dtype::U16, Some(2)), (2, Dtype::I64, None), (3, Dtype::Bool, None)]
        {
            let mut shape: Vec<u64> = sides.iter().copied().chain(channels).collect();
            if odd == Odd::Damaged && id % 7 == 2 && n == 0 {
                shape[0] += 1;
            }
            let fill = if dtype == Dtype::Bool { Fill::Bits(1) } else { Fill::Counts };
            let array = array(dtype, shape, fill, id as u32 + n);
            let mut coded = ArrayEncoder::new(settings(id + u64::from(n))).unwrap().encode(&array, None).unwrap();
            if odd == Odd::Damaged && id % 5 == 3 && coded.payload.len() > 80 {
                let from = coded.payload.len() - 40;
                coded.payload[from..].fill(0xFF);
            }
            let bytes = coded.descriptor.stored_bytes().ok();
            values.push((coded.codec, coded.payload, coded.descriptor.encode().unwrap(), bytes));
        }
        let corners = (0..id % 4).flat_map(|n| {
            let [height, width] = sides;
            let (x, y) = ((id * 5 + n * 11) % (width - 8), (id * 3 + n * 7) % (height - 8));
            [x, y, (x + 8 + n * 9).min(width), (y + 6 + n * 8).min(height)]
        });
        let corners: Vec<u8> = corners.flat_map(|corner| (corner as f32).to_le_bytes()).collect();
        let boxes = Array::new(Dtype::F32, vec![id % 4, 4], corners).unwrap();
        let coded = ArrayEncoder::new(settings(5)).unwrap().encode(&boxes, None).unwrap();
        let bytes = coded.descriptor.stored_bytes().ok();
        values.push((coded.codec, coded.payload, coded.descriptor.encode().unwrap(), bytes));
        let scalars: Vec<u8> = [height, width, orientation].into_iter().flat_map(u32::to_le_bytes).collect();
        let key = format!("sample-{id}");
        let values: Vec<_> = values.into_iter().map(Some).collect();
        let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values);
        (bytes, frame, key, scalars)
    });
    dir
}

fn alike(_: u64) -> [u32; 2] {
    [40, 56]
}

fn varied(id: u64) -> [u32; 2] {
    [28 + (id * 7 % 23) as u32, 24 + (id * 5 % 41) as u32]
}

const MOVES: [&[&str]; 4] = [
    &[],
    &["random_affine(degrees=40,translate=0.2:0.1,scale=0.6..1.5,shear=12,mask_fill=1)", "random_erasing"],
    &["trivial_augment_wide", "random_rotation(degrees=180,p=0.5,mask_fill=0)"],
    &["rand_augment(num_ops=4,magnitude=25)"],
];

fn options(view: &str, moves: &[&str]) -> LoaderOptions {
    let align = ["mask", "planes", "wide", "flags"].map(|name| (name.to_owned(), "mask,fill=1".parse().unwrap()));
    LoaderOptions::default()
        .batch_size(7)
        .threads(3)
        .seed(5)
        .end(End::Uneven)
        .image(view.parse::<ImageMode>().unwrap())
        .fields(["image", "mask", "planes", "wide", "flags"])
        .align(align.to_vec())
        .augment_pictures(moves.iter().map(|text| text.parse().unwrap()).collect())
        .on_corrupt(OnCorrupt::Skip { max: 1000 })
}

fn compare(dir: &tempfile::TempDir, options: &LoaderOptions, name: &str, n: usize) -> (u64, u64) {
    let dataset = Dataset::open(dir.path()).unwrap();
    let mut host = Loader::open(&dataset, options.clone()).unwrap();
    let mut counts = (0, 0);
    for is_resident in [false, true] {
        let stage = Arc::new(PlayedStage::new(n % 2, 1));
        let options =
            if is_resident { resident(&stage, options) } else { options.clone().stage(Arc::clone(&stage) as _) };
        let mut staged = Loader::open(&dataset, options).unwrap();
        for number in [0, 2] {
            host.set_epoch(number).unwrap();
            staged.set_epoch(number).unwrap();
            assert_same(&epoch(&mut staged), &epoch(&mut host), name);
        }
        let refused: u64 = staged.refusals().iter().map(|refusal| refusal.rows).sum();
        assert_eq!(staged.stats().grown_slots, 0, "{name}: what is needed was predicted");
        counts = (counts.0 + of(&stage.counts.taken), counts.1 + refused);
    }
    counts
}

#[test]
fn masks_follow_their_picture_as_on_the_host() {
    let dirs = [dataset(10, alike, Odd::None), dataset(9, varied, Odd::None)];
    let views = ["rrc24x20,flip=0.5", "full,flip=0.5", "center30x28"];
    for (n, (view, moves)) in views.into_iter().flat_map(|view| MOVES.map(|moves| (view, moves))).enumerate() {
        let layout = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth][n / 2 % 2];
        let mut options = options(view, moves).layout(layout);
        if n % 3 == 1 {
            options = options.dtype(ArrayDtype::Fields(vec![("mask".into(), Dtype::I64.into())]));
        }
        let (taken, refused) = compare(&dirs[n % 2], &options, &format!("{view} {moves:?}"), n);
        assert!(taken >= 4 * 5 * 9 && refused == 0, "{view} {moves:?}: {taken} taken, {refused} refused");
    }
}

#[test]
fn masks_of_padded_pictures_are_decoded_on_the_device() {
    let dir = dataset(14, varied, Odd::None);
    for (n, moves) in MOVES.into_iter().enumerate() {
        let (taken, refused) = compare(&dir, &options("pad41x37,flip=0.5", moves), &format!("pad {moves:?}"), n);
        assert!(taken >= 4 * 5 * 14 && refused == 0, "{taken} taken, {refused} refused");
    }
}

#[test]
fn damaged_masks_and_masks_of_another_size_are_the_hosts() {
    let dir = dataset(30, varied, Odd::Damaged);
    for (n, moves) in MOVES.into_iter().enumerate() {
        let mut options = options("rrc24x20", moves);
        // A mask of the wrong size is a usage error, so it is not skipped.
        options.view.align[0].1 = "mask,fill=1".parse().unwrap();
        options = options.fields(["image", "planes", "wide", "flags"]);
        options.view.align.remove(0);
        let (taken, refused) = compare(&dir, &options, &format!("damaged {moves:?}"), n);
        assert!(taken > 200 && refused > 0, "{taken} {refused}");
    }
    let dataset = Dataset::open(dir.path()).unwrap();
    let said = |options: LoaderOptions| {
        let mut loader = Loader::open(&dataset, options.batch_size(30).threads(1)).unwrap();
        loader.next_batch().unwrap().err().map(|error| error.to_string())
    };
    let options = options("rrc24x20", MOVES[1]);
    let stage = Arc::new(PlayedStage::new(0, 1));
    let expected = said(options.clone());
    assert!(
        expected.as_ref().is_some_and(|text| text.contains("but the picture (after Exif rotation) is")),
        "{expected:?}"
    );
    assert_eq!(said(options.clone().stage(Arc::clone(&stage) as _)), expected);
    assert_eq!(said(resident(&stage, &options)), expected);
}

#[test]
fn mixed_batches_are_the_hosts() {
    let dir = dataset(10, varied, Odd::None);
    for (n, text) in ["mosaic", "cutmix", "mosaic(degrees=30,p=0.6,fill=9),cutmix"].into_iter().enumerate() {
        let layout = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth][n % 2];
        for view in ["rrc24x20", "pad31x22", "jitter26x30", "randcrop20x24,short=10..40"] {
            let choices = parse_mixes(text).unwrap();
            let mut options = options(view, MOVES[n % 2]).layout(layout).mix(BatchMix { choices, classes: 0 });
            if n == 1 {
                options = options.dtype(ArrayDtype::Fields(vec![("image".into(), Dtype::F16.into())]));
            }
            let (taken, refused) = compare(&dir, &options, &format!("{view} {text}"), n);
            assert!(taken >= 4 * 5 * 10 && refused == 0, "{view} {text}: {taken} taken, {refused} refused");
        }
    }
}

#[test]
fn views_of_a_random_size_are_the_hosts() {
    let dir = dataset(14, varied, Odd::None);
    let views = ["jitter41x37,scale=0.2..2.5", "randcrop40x30,short=9..60,flip=0.3", "short9..71,step=7,max=80"];
    for (n, view) in views.into_iter().enumerate() {
        let (taken, refused) = compare(&dir, &options(view, MOVES[n]), view, n);
        assert!(taken >= 4 * 5 * 14 && refused == 0, "{taken} taken, {refused} refused");
    }
}

#[test]
fn crops_that_depend_on_boxes_are_the_hosts() {
    let dir = dataset(14, varied, Odd::None);
    let views =
        ["ioucrop41x37", "ioucrop30,zoom=1..4,fill=9:20:250", "ioucrop24,zoom=2..2,interpolation=bicubic,flip=1"];
    for (n, view) in views.into_iter().enumerate() {
        let mut options = options(view, MOVES[n]);
        options.view.align.push(("boxes".into(), "boxes".parse().unwrap()));
        let (taken, refused) = compare(&dir, &options, view, n);
        assert!(taken >= 4 * 5 * 14 && refused == 0, "{taken} taken, {refused} refused");
        // Without its boxes, the picture would have another crop.
        let mut loader = Loader::open(&Dataset::open(dir.path()).unwrap(), options).unwrap();
        let mut cropped = 0;
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            let shown = batch.shown("image").unwrap().into_iter().flatten();
            cropped += shown.filter(|shown| shown.crop.area.width < f64::from(shown.source[1])).count();
        }
        assert!(cropped >= 3, "{cropped}");
    }
}

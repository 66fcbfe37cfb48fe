//! Tests boxes of volumes: one or several per volume, or all boxes of a grid.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{RowOf, base};
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Filter, Finish, Resampling, Turn, ValueRule, Warp,
};
use shardpack_format::*;
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::order::{End, Mode, Unit};
use shardpack_loader::{
    Array, ArrayDtype, Augment, Augmentation, BandAugmentation, Batch, CubeMode, Loader, LoaderOptions, PatchClasses,
    PatchPlace, Patches,
};
use shardpack_reader::{Bands, Dataset};
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn options(patches: Patches) -> LoaderOptions {
    base().batch_size(5).threads(2).seed(9).end(End::Uneven).patches(patches)
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
    (0..batch.len()).map(row).collect()
}

fn loaded(loader: &mut Loader) -> Vec<Row> {
    std::iter::from_fn(|| loader.next_batch()).flat_map(|batch| rows(&batch.unwrap())).collect()
}

/// Shape of a volume, its bytes, and the bytes of its mask.
type Made = (Vec<u64>, Vec<u8>, Vec<u8>);

/// Writes volumes of two depths, and a mask for each volume.
fn volumes(depth: impl Fn(u64) -> u64, mask_planes: u64) -> (tempfile::TempDir, Vec<Made>) {
    let fields = ["volume", "mask"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
    let dir = crate::support::scratch();
    let mut all = Vec::new();
    crate::loader_support::write(dir.path(), &Schema::new(fields).unwrap(), &[4, 3], |schema, number, id| {
        let shape = vec![depth(id), 12, 15, 2];
        let values: Vec<u8> =
            (0..shape.iter().product::<u64>()).flat_map(|i| ((i * 7 + id) as u16).to_le_bytes()).collect();
        let volume = Array::new(Dtype::U16, shape.clone(), values.clone()).unwrap();
        let layout = if id % 2 == 0 { ArrayLayout::AsShape } else { ArrayLayout::BandMajor };
        let settings = ArraySettings {
            values: ValueRule::Keep,
            coder: Coder::Blosc2Lz4,
            level: None,
            filter: Filter::Shuffle,
            band_difference: id % 3 == 0,
            layout,
        };
        let volume = ArrayEncoder::new(settings).unwrap().encode(&volume, None).unwrap();
        let planes = shape[0] + if id == 5 { mask_planes } else { 0 };
        let mask: Vec<u8> = (0..planes * 12 * 15).map(|i| (i * 5 + id) as u8).collect();
        let plain = ArrayDescriptor::plain(Dtype::U8, vec![planes, 12, 15]).encode().unwrap();
        let stored = volume.descriptor.stored_bytes().unwrap();
        let values_of = [
            Some((volume.codec, volume.payload, volume.descriptor.encode().unwrap(), Some(stored))),
            Some((Codec::Raw, mask.clone(), plain, None)),
        ];
        let key = format!("v{id}");
        let (bytes, frame) = crate::loader_support::record(schema, (number, id), &key, &[], &values_of);
        all.push((shape, values, mask));
        (bytes, frame, key, Vec::new())
    });
    (dir, all)
}

/// Cuts a box voxel by voxel, for comparison.
fn boxed(shape: &[u64], values: &[u8], pixel: u64, origin: [u64; 3], size: [u64; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    for (z, y, x) in (0..size[0]).flat_map(|z| (0..size[1]).flat_map(move |y| (0..size[2]).map(move |x| (z, y, x)))) {
        let at = (((origin[0] + z) * shape[1] + origin[1] + y) * shape[2] + origin[2] + x) * pixel;
        out.extend(&values[at as usize..(at + pixel) as usize]);
    }
    out
}

#[test]
fn boxes_of_volumes_are_cut_along_the_axes_of_the_shape() {
    let (dir, all) = volumes(|id| 8 + id % 4, 0);
    let dataset = Dataset::open(dir.path()).unwrap();
    let size = [3, 5, 7];
    let cube = CubeMode::Volume { size, place: PatchPlace::Random };
    assert_eq!("patch3x5x7".parse::<CubeMode>().unwrap(), cube);
    let options = |patches, cube| options(patches).cube(cube);
    let size = size.map(u64::from);
    let mut several = Vec::new();
    for (patches, threads) in [(Patches::One, 2), (Patches::PerSample(6), 1), (Patches::PerSample(6), 7)] {
        let mut loader = Loader::open(&dataset, options(patches, cube).threads(threads)).unwrap();
        let (mut planes, mut seen) = (BTreeSet::new(), Vec::new());
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            assert_eq!(batch.patch_axes(), 3);
            assert_eq!(batch.field("volume").unwrap().shape().unwrap()[1..], [3, 5, 7, 2]);
            for (row, at) in batch.patches().unwrap().into_iter().enumerate() {
                let (at, (shape, values, mask)) = (at.unwrap(), &all[batch.indices()[row] as usize]);
                assert!(at.is_volume && at.scene == shape[..3]);
                assert!(batch.field("volume").unwrap().row_of(row) == boxed(shape, values, 4, at.origin, size));
                assert!(batch.field("mask").unwrap().row_of(row) == boxed(shape, mask, 1, at.origin, size));
                planes.insert(at.origin[0]);
            }
            seen.extend(rows(&batch));
        }
        assert!(planes.len() > if patches == Patches::One { 2 } else { 6 }, "{planes:?}");
        several.push(seen);
    }
    assert!(several[1] == several[2]);
    let firsts: BTreeMap<_, _> = several[1].iter().filter(|row| row.1 == 0).map(|row| (row.0, &row.3)).collect();
    assert!(several[0].iter().map(|row| (row.0, &row.3)).collect::<BTreeMap<_, _>>() == firsts);

    let center = CubeMode::Volume { size: [4, 5, 7], place: PatchPlace::Center };
    let mut loader = Loader::open(&dataset, options(Patches::One, center)).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    for at in batch.patches().unwrap().into_iter().flatten() {
        assert_eq!(at.origin, [(at.scene[0] - 4) / 2, 3, 4]);
    }
}

#[test]
fn a_grid_of_a_volume_shows_every_pixel() {
    let (dir, all) = volumes(|_| 8, 0);
    let dataset = Dataset::open(dir.path()).unwrap();
    let cube = CubeMode::Volume { size: [3, 5, 7], place: PatchPlace::Random };
    let grid = options(Patches::Grid { overlap: [1, 0, 3] }).cube(cube);
    let mut loader = Loader::open(&dataset, grid).unwrap();
    assert_eq!(loader.state().unit, Unit::Grid { size: [3, 5, 7], overlap: [1, 0, 3] });
    let mut shown: Vec<Vec<Option<u8>>> = all.iter().map(|(_, _, mask)| vec![None; mask.len()]).collect();
    let mut count = 0;
    for (sample, _, origin, fields) in loaded(&mut loader) {
        count += 1;
        for (i, value) in (0_u64..).zip(&fields[1]) {
            let (z, y, x) = (origin[0] + i / 35, origin[1] + i / 7 % 5, origin[2] + i % 7);
            shown[sample as usize][((z * 12 + y) * 15 + x) as usize] = Some(*value);
        }
    }
    // Each of the seven volumes has boxes that begin at planes 0, 2, 4 and 5, at rows 0, 5 and 7, and at columns 0, 4
    // and 8.
    assert_eq!(count, 7 * 4 * 3 * 3);
    for ((_, _, mask), shown) in all.iter().zip(shown) {
        assert!(shown.iter().zip(mask).all(|(shown, value)| *shown == Some(*value)));
    }
}

/// Returns both fields of all boxes and, for comparison, the boxes at the same positions in the stored arrays.
fn beside_stored(change: impl Fn(LoaderOptions) -> LoaderOptions, size: [u32; 3]) -> Vec<(Row, [Vec<u8>; 2])> {
    let (dir, all) = volumes(|id| 8 + id % 4, 0);
    let dataset = Dataset::open(dir.path()).unwrap();
    let cube = CubeMode::Volume { size, place: PatchPlace::Random };
    let options = change(options(Patches::PerSample(9)).cube(cube));
    let rows = loaded(&mut Loader::open(&dataset, options).unwrap());
    let size = size.map(u64::from);
    let stored = |row: &Row| {
        let (shape, values, mask) = &all[row.0 as usize];
        [boxed(shape, values, 4, row.2, size), boxed(shape, mask, 1, row.2, size)]
    };
    rows.into_iter().map(|row| (row.clone(), stored(&row))).collect()
}

fn turned(stored: &[u8], [planes, height, width]: [usize; 3], pixel: usize, turn: Turn) -> Vec<u8> {
    let mut out = Vec::new();
    for (z, y, x) in (0..planes).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x)))) {
        let y = if turn.flip_rows { height - 1 - y } else { y };
        let x = if turn.flip_columns { width - 1 - x } else { x };
        let z = if turn.flip_planes { planes - 1 - z } else { z };
        let [y, x] = if turn.transpose { [x, y] } else { [y, x] };
        let at = ((z * height + y) * width + x) * pixel;
        out.extend(&stored[at..at + pixel]);
    }
    out
}

#[test]
fn all_arrays_of_a_volume_are_turned_alike() {
    let all = Augment { flip_planes: true, flip_rows: true, flip_columns: true, rotate: true };
    for size in [[3, 5, 7], [2, 6, 6]] {
        let rows = beside_stored(|options| options.augment(all), size);
        let mut seen = HashSet::new();
        for ((sample, patch, _, fields), stored) in &rows {
            let key = DrawKey { seed: 9, epoch: u64::from(*patch) << 32, sample: *sample };
            let sides = size.map(|side| side as usize);
            let turn = all.turn(&key, [size[1], size[2]].map(u64::from));
            for ((field, stored), pixel) in fields.iter().zip(stored).zip([4, 1]) {
                assert!(*field == turned(stored, sides, pixel, turn), "sample {sample}, patch {patch}: {turn:?}");
            }
            seen.insert(turn);
        }
        assert_eq!(seen.len(), if size[1] == size[2] { 16 } else { 8 });
    }
}

#[test]
fn planes_of_a_box_are_moved_alike_and_masks_by_nearest_pixels() {
    let moves: Augmentation = "random_affine(degrees=60,scale=0.7..1.5,p=0.8,fill=-2,mask_fill=9)".parse().unwrap();
    let flips = Augment { flip_planes: true, flip_rows: true, flip_columns: true, rotate: true };
    for size in [[3, 5, 7], [2, 6, 6]] {
        // Integers in a volume become float32, because pixels are interpolated.
        let rows = beside_stored(|options| options.augment(flips).augment_pictures(vec![moves]), size);
        let [planes, height, width] = size.map(u64::from);
        for ((sample, patch, _, fields), stored) in &rows {
            let key = DrawKey { seed: 9, epoch: u64::from(*patch) << 32, sample: *sample };
            let map = moves.map(&key.draws(), 0, height as usize, width as usize);
            let turn = flips.turn(&key, [height, width]);
            let made = [
                (Dtype::U16, As::F32, 2, Resampling::Bilinear { outside: -2.0 }),
                (Dtype::U8, As::Decoded, 1, Resampling::Nearest { outside: 9.0 }),
            ];
            for ((field, stored), (dtype, to, channels, sampling)) in fields.iter().zip(stored).zip(made) {
                let finish = Finish { to, warp: map.map(|map| Warp { map, sampling }), turn, ..Finish::NOTHING };
                let mut expected = vec![0; field.len()];
                let [from, into] = [stored.len(), field.len()].map(|bytes| bytes / planes as usize);
                let mut outs: Vec<&mut [u8]> = expected.chunks_mut(into).collect();
                if turn.flip_planes {
                    outs.reverse();
                }
                for (plane, out) in stored.chunks(from).zip(outs) {
                    let shape = [height, width, channels];
                    finish.apply(dtype, shape, Layout::AsShape, plane, out).unwrap();
                }
                assert!(*field == expected, "sample {sample}, patch {patch}: {finish:?}");
            }
        }
    }
}

#[test]
fn channels_of_volumes_are_changed_and_masks_are_not() {
    let gain = BandAugmentation::RandomGain { gain: (0.5, 1.5), p: 1.0 };
    let noise = BandAugmentation::GaussianNoise { sigma: (0.25, 0.25), p: 1.0 };
    let dtype = ArrayDtype::Cubes(Dtype::F32.into());
    let change = |options: LoaderOptions| options.dtype(dtype.clone()).augment_bands(vec![gain, noise]);
    let (mut gains, mut off) = (BTreeSet::new(), 0);
    for ((_, _, _, fields), [volume, mask]) in beside_stored(change, [3, 5, 7]) {
        assert!(fields[1] == mask);
        let came = fields[0].as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v));
        let stored = volume.as_chunks::<2>().0.iter().map(|v| f32::from(u16::from_le_bytes(*v)));
        let pairs: Vec<(f32, f32)> = came.zip(stored).collect();
        // The noise is small compared with the values, so the gain of a box can be computed from
        // its largest value.
        let (largest, of) = pairs.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let gain = largest / of;
        assert!((0.49..1.51).contains(&gain), "{gain}");
        gains.insert((gain * 100.0) as i32);
        off += pairs.iter().filter(|(came, stored)| (came - gain * stored).abs() > 1e-3).count();
    }
    assert!(gains.len() > 10 && off > 1000, "{gains:?} {off}");
}

#[test]
fn a_volume_alone_has_a_type_and_is_turned() {
    let (dir, all) = volumes(|_| 8, 0);
    let dataset = Dataset::open(dir.path()).unwrap();
    let cube = CubeMode::Volume { size: [8, 12, 15], place: PatchPlace::Random };
    let options = options(Patches::PerSample(4))
        .cube(cube)
        .fields(["volume"])
        .dtype(ArrayDtype::Cubes(Dtype::F32.into()))
        .augment(Augment { flip_columns: true, ..Augment::default() });
    let floats =
        |bytes: &[u8]| bytes.as_chunks::<2>().0.iter().map(|v| f32::from(u16::from_le_bytes(*v))).collect::<Vec<_>>();
    let mut turned = 0;
    let rows = loaded(&mut Loader::open(&dataset, options).unwrap());
    for (sample, _, _, fields) in &rows {
        let came: Vec<f32> = fields[0].as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
        let stored = &all[*sample as usize].1;
        let flipped = self::turned(stored, [8, 12, 15], 4, Turn { flip_columns: true, ..Turn::default() });
        assert!(came == floats(stored) || came == floats(&flipped));
        turned += usize::from(came == floats(&flipped));
    }
    assert!(rows.len() == 28 && (5..23).contains(&turned), "{turned} of {}", rows.len());
}

#[test]
fn boxes_of_volumes_show_the_requested_classes() {
    // The classes are 0 to 255. Each is rare, so a random box would seldom contain class 40.
    let change = |options: LoaderOptions| options.patch_classes(PatchClasses::Weighted(vec![(40, 1.0)]));
    let rows = beside_stored(change, [3, 2, 2]);
    assert!(rows.iter().all(|((.., fields), [_, mask])| fields[1] == *mask && mask.contains(&40)));
    let places: BTreeSet<_> = rows.iter().map(|((.., origin, _), _)| *origin).collect();
    assert!(places.len() > rows.len() / 2);
}

#[test]
fn volumes_that_cannot_be_cut_are_refused() {
    let (dir, _) = volumes(|_| 8, 1);
    let dataset = Dataset::open(dir.path()).unwrap();
    let open = |cube: &str, change: fn(LoaderOptions) -> LoaderOptions| {
        let options = options(Patches::PerSample(2)).cube(cube.parse().unwrap());
        Loader::open(&dataset, change(options))
    };
    let mut loader = open("patch3x5x7", |options| options.mode(Mode::Stored).batch_size(1)).unwrap();
    let errors: BTreeSet<_> =
        std::iter::from_fn(|| loader.next_batch()).filter_map(|b| Some(b.err()?.to_string())).collect();
    let expected = "sample 5, `v5`: cannot cut the same patch from all arrays: field `mask` is \
                    9 × 12 × 15, but another field is 8 × 12 × 15";
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), [expected]);
    let mut loader = open("patch9x5x7", |options| options).unwrap();
    let error = loader.next_batch().unwrap().unwrap_err().to_string();
    assert!(error.ends_with(": the patch (9 × 5 × 7) does not fit in the array (8 × 12 × 15)"), "{error}");
    let refused = |cube: &str, change| open(cube, change).map(|_| ()).unwrap_err().to_string();
    for (found, said) in [
        (
            refused("patch3x5x7", |o| o.bands(Bands::Range(0..1))),
            "field `volume`: selecting bands is not supported for volumes",
        ),
        (
            refused("patch3x5x7", |o| o.layout(PixelLayout::ChannelsHeightWidth)),
            "field `volume`: the layout `chw` is not supported for volumes with channels",
        ),
        (
            refused("patch5x7", |o| o.fields(["mask"]).augment(Augment { flip_planes: true, ..Augment::default() })),
            "`dflip` mirrors the depth of volumes, but no volumes are loaded",
        ),
        (
            refused("patch3x5x7", |o| o.patches(Patches::Grid { overlap: [3, 0, 0] })),
            "the overlap of patches (3 × 0 × 0) must be smaller than a patch (3 × 5 × 7)",
        ),
    ] {
        assert_eq!(found, said);
    }
    for text in ["cycle3x5x7", "patch0x5x7", "patch1x2x3x4", "patch1xx3"] {
        assert!(text.parse::<CubeMode>().is_err(), "{text}");
    }
}

//! Tests bfloat16, mean and standard deviation, affine maps, and flips and rotations of arrays. On host and device,
//! and for all patch positions, batches must equal the result of simple, slow code that works on the whole array.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{RowOf, Seen, base, epoch, record, said, write};
use proptest::prelude::*;
use shardpack_array::{ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, Turn, ValueRule};
use shardpack_augment::Outside;
use shardpack_format::*;
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{
    ArrayDtype, Augment, Augmentation, BandAugmentation, CubeMode, Factors, Loader, LoaderOptions, PatchPlace, Patches,
};
use shardpack_reader::{Array, ArrayDecoder, Bands, Dataset};
use std::collections::BTreeMap;

const BANDS: u64 = 5;
const SEED: u64 = 9;
const CHANGES: [&[&str]; 3] = [
    &[],
    &["band_dropout(p=0.4,value=2.5)"],
    &["random_gain(gain=0.5)", "band_jitter(gain=0.2,offset=1)", "band_dropout(p=0.2)"],
];
const MOVES: [&str; 3] = [
    "random_affine(degrees=40,translate=0.2:0.1,scale=0.6..1.6,shear=20,p=0.8,fill=0.5,mask_fill=7)",
    "random_affine(degrees=0,translate=0.5)",
    "random_rotation(degrees=-90..90)",
];
const ALL: Augment = Augment { flip_planes: false, flip_rows: true, flip_columns: true, rotate: true };

/// Cubes of float32, some of them stored as float16. Each has a mask and a row of numbers.
struct Cubes {
    dir: tempfile::TempDir,
}

impl Cubes {
    fn new(count: u64, size: impl Fn(u64) -> [u64; 2], mask_rows: u64) -> Self {
        let mut fields = ["cube", "mask", "flags"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
        fields.extend(["height", "width", "channels"].map(|name| Field::scalar(name, Dtype::U32)));
        let dir = crate::support::scratch();
        write(dir.path(), &Schema::new(fields).unwrap(), &[count / 2, count.div_ceil(2)], |schema, number, id| {
            let [height, width] = size(id);
            let settings = ArraySettings {
                values: if id.is_multiple_of(2) { ValueRule::F16 } else { ValueRule::Keep },
                coder: Coder::Blosc2Lz4,
                level: None,
                filter: Filter::Shuffle,
                band_difference: false,
                layout: if id % 4 < 2 { ArrayLayout::AsShape } else { ArrayLayout::BandMajor },
            };
            let value = |i: u64| match i % 97 {
                3 => f32::NAN,
                5 => f32::INFINITY,
                _ => ((i * 13 + id * 7) % 2003) as f32 / 16.0 - 40.0,
            };
            let cube = (0..height * width * BANDS).flat_map(|i| value(i).to_le_bytes()).collect();
            let cube = Array::new(Dtype::F32, vec![height, width, BANDS], cube).unwrap();
            let cube = ArrayEncoder::new(settings).unwrap().encode(&cube, None).unwrap();
            let mask: Vec<u8> = (0..(height + mask_rows) * width).map(|i| (i * 5 + id) as u8).collect();
            let plain = |dtype, shape| ArrayDescriptor::plain(dtype, shape).encode().unwrap();
            let stored_bytes = cube.descriptor.stored_bytes().unwrap();
            let values = [
                (cube.codec, cube.payload, cube.descriptor.encode().unwrap(), Some(stored_bytes)),
                (Codec::Raw, mask, plain(Dtype::U8, vec![height + mask_rows, width]), None),
                (Codec::Raw, vec![0, 1, 1], plain(Dtype::Bool, vec![3]), None),
            ];
            let scalars = [height, width, BANDS].map(|axis| (axis as u32).to_le_bytes()).concat();
            let key = format!("cube-{id}");
            let (bytes, frame) = record(schema, (number, id), &key, &scalars, &values.map(Some));
            (bytes, frame, key, scalars)
        });
        Self { dir }
    }

    fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }

    fn loader(&self, options: LoaderOptions) -> Loader {
        Loader::open(&self.open(), options).unwrap()
    }

    fn array(&self, id: u64, field: &str) -> Array {
        self.open().get(id).unwrap().view().array(field, &mut ArrayDecoder::new()).unwrap()
    }

    fn refused(&self, options: LoaderOptions) -> String {
        match Loader::open(&self.open(), options) {
            Err(error) => said(&error),
            Ok(mut loader) => said(&loader.next_batch().unwrap().unwrap_err()),
        }
    }
}

fn options() -> LoaderOptions {
    base().batch_size(3).threads(2).seed(SEED).end(End::Uneven).mode(Mode::Full)
}

fn float(element: ElementType, value: f32) -> Vec<u8> {
    match element {
        ElementType::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::Dtype(Dtype::F16) => half::f16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// Returns the source pixels of an output pixel, with their weights. A source pixel outside the array is `None`.
fn around(
    map: Option<[f64; 6]>,
    [row, column]: [usize; 2],
    [rows, columns]: [usize; 2],
    is_mixed: bool,
) -> Vec<(Option<[usize; 2]>, f32)> {
    let Some([a, b, c, d, e, f]) = map else { return vec![(Some([row, column]), 1.0)] };
    let (wide, high) = (columns as f64, rows as f64);
    let (x, y) = (column as f64 + 0.5 - wide / 2.0, row as f64 + 0.5 - high / 2.0);
    let (x, y) = (a * x + (b * y + c + wide / 2.0), d * x + (e * y + f + high / 2.0));
    let inside = |x: f64, y: f64| (x >= 0.0 && x < wide && y >= 0.0 && y < high).then_some([y as usize, x as usize]);
    if !is_mixed {
        return vec![(inside(x, y), 1.0)];
    }
    let near = 1.0 / 1_048_576.0;
    let [(left, right), (top, bottom)] = [x - 0.5, y - 0.5].map(|at| {
        let low = (at + near).floor();
        (low, if at - low < near { 0.0 } else { (at - low) as f32 })
    });
    let pixels = [(top, 1.0 - bottom), (top + 1.0, bottom)]
        .into_iter()
        .flat_map(|(y, high)| [(left, 1.0 - right), (left + 1.0, right)].map(|(x, wide)| (inside(x, y), wide * high)));
    let pixels: Vec<_> = pixels.filter(|(_, weight)| *weight != 0.0).collect();
    if pixels.iter().all(|(pixel, _)| pixel.is_none()) { vec![(None, 1.0)] } else { pixels }
}

fn mean(pixels: &[(Option<[usize; 2]>, f32)], outside: f32, value: impl Fn([usize; 2]) -> f32) -> f32 {
    let terms = pixels.iter().map(|&(pixel, weight)| weight * pixel.map_or(outside, &value));
    let mean = terms.reduce(|sum, term| sum + term).unwrap();
    if mean.is_nan() { f32::NAN } else { mean }
}

fn expected(cubes: &Cubes, options: &LoaderOptions, sample: u64, number: u32) -> [Vec<u8>; 2] {
    let (cube, mask) = (cubes.array(sample, "cube"), cubes.array(sample, "mask"));
    let [height, width] = [cube.shape()[0], cube.shape()[1]];
    let key = DrawKey { seed: SEED, epoch: number.into(), sample };
    let (origin, size) = match options.view.cube {
        CubeMode::Patch { height: h, width: w, place } => {
            let size = [h.into(), w.into()];
            (place.origin(&key, [height, width], size).unwrap(), size)
        }
        _ => ([0, 0], [height, width]),
    };
    let turn: Turn = options.view.augment.turn(&key, size);
    let bands: Vec<u64> = match &options.view.bands {
        Bands::List(list) => list.clone(),
        Bands::Range(range) => range.clone().collect(),
        Bands::All => (0..BANDS).collect(),
    };
    let varied: Vec<Factors> = match &*options.view.augment_bands {
        [] => Vec::new(),
        changes => {
            let pairs: Vec<_> =
                options.output.normalise.first().map_or(vec![(1.0, 0.0)], |(_, factors)| factors.pairs().collect());
            let pairs = bands.iter().map(|&band| pairs[band as usize % pairs.len()]);
            let folded = BandAugmentation::fold(changes, &key.draws(), pairs);
            folded.into_iter().map(|pair| Factors::of_pairs(vec![pair]).unwrap()).collect()
        }
    };
    let ArrayDtype::Cubes(element) = options.output.dtype else { panic!("a type for cubes") };
    let [rows, columns] = size.map(|n| n as usize);
    let mut out = [Vec::new(), Vec::new()];
    let outside = options.view.augment_pictures.first().map(|moves| moves.outside().unwrap());
    let map = options.view.augment_pictures.first().and_then(|moves| moves.map(&key.draws(), 0, rows, columns));
    let pixels = |is_mixed: bool| {
        let pixel = move |i| {
            let source = turn.source([i / columns, i % columns], [rows, columns]);
            around(map, source, [rows, columns], is_mixed)
        };
        (0..rows * columns).map(pixel).collect::<Vec<_>>()
    };
    let number = |[y, x]: [usize; 2]| (origin[0] as usize + y) * width as usize + origin[1] as usize + x;
    let single = |pixel: [usize; 2], band: usize| {
        let from = 4 * (number(pixel) * BANDS as usize + bands[band] as usize);
        let value = f32::from_le_bytes(cube.bytes()[from..from + 4].try_into().unwrap());
        match (varied.get(band), options.output.normalise.first()) {
            (Some(factors), _) => factors.apply(0, value),
            (None, Some((_, factors))) => factors.apply(bands[band] as usize, value),
            (None, None) => value,
        }
    };
    let value = |around: &Vec<(Option<[usize; 2]>, f32)>, band: usize| match (map, &around[..]) {
        (None, &[(Some(pixel), _)]) => float(element, single(pixel, band)),
        (None, _) => panic!("a pixel stays in its place"),
        (Some(_), around) => float(element, mean(around, outside.unwrap().fill, |pixel| single(pixel, band))),
    };
    let mask = |around: Vec<(Option<[usize; 2]>, f32)>| match around[0].0 {
        Some(pixel) => mask.bytes()[number(pixel)],
        None => outside.unwrap().mask_fill as u8,
    };
    out[1].extend(pixels(false).into_iter().map(mask));
    let pixels = pixels(true);
    match options.output.layout {
        PixelLayout::HeightWidthChannels => {
            pixels.iter().for_each(|pixel| (0..bands.len()).for_each(|band| out[0].extend(value(pixel, band))));
        }
        PixelLayout::ChannelsHeightWidth => {
            (0..bands.len()).for_each(|band| pixels.iter().for_each(|pixel| out[0].extend(value(pixel, band))));
        }
    }
    out
}

fn check(cubes: &Cubes, options: &LoaderOptions, number: u32, found: &[Seen]) {
    let mut rows = 0;
    for (indices, _, fields) in found {
        for (row, &sample) in indices.iter().enumerate() {
            for (field, expected) in fields.iter().zip(expected(cubes, options, sample, number)) {
                assert!(field.2[row] == expected, "`{}` of sample {sample}: {options:?}", field.0);
                rows += 1;
            }
        }
    }
    assert!(rows > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn arrays_are_finished_as_the_slow_twin_does(
        (flip_rows, flip_columns, rotate) in any::<(bool, bool, bool)>(),
        element in prop::sample::select(&[ElementType::Bf16, ElementType::Dtype(Dtype::F16), ElementType::Dtype(Dtype::F32)][..]),
        cube in prop::sample::select(&[
            CubeMode::Whole,
            CubeMode::Patch { height: 6, width: 6, place: PatchPlace::Random },
            CubeMode::Patch { height: 5, width: 7, place: PatchPlace::Cycle },
        ][..]),
        bands in prop::sample::select(vec![Bands::All, Bands::Range(1..4), Bands::List(vec![4, 0, 4])]),
        layout in prop::sample::select(&[PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth][..]),
        normalise in prop::sample::select(&[0, 1, BANDS as usize][..]),
        changes in prop::sample::select(&CHANGES[..]),
        moves in prop::option::of(prop::sample::select(&MOVES[..])),
        sizes in prop::sample::select(&[[9, 9], [8, 10], [0, 0]][..]),
        number in 0..3_u32,
    ) {
        let size = |id: u64| if sizes == [0, 0] { [7 + id % 3, 7 + id % 2] } else { sizes };
        let cubes = Cubes::new(8, size, 0);
        let numbers = |step: f64| (0..normalise).map(|n| n as f64 * step + 0.25).collect::<Vec<_>>();
        // float16 cannot represent all values of these cubes, so they are normalised if they are loaded as float16
        // without other changes.
        let normalise = (normalise > 0 || element == Dtype::F16 && changes.is_empty())
            .then(|| if normalise > 0 { Factors::new(&numbers(-7.5), &numbers(0.875)) } else { Factors::new(&[0.5], &[3.0]) })
            .map(|factors| ("cube".to_owned(), factors.unwrap()));
        let options = options()
            .augment(Augment { flip_rows, flip_columns, rotate, ..Augment::default() })
            .dtype(ArrayDtype::Cubes(element))
            .normalise(normalise)
            .augment_bands(changes.iter().map(|text| text.parse().unwrap()).collect())
            .augment_pictures(moves.into_iter().map(|text| text.parse().unwrap()).collect())
            .cube(cube)
            .bands(bands)
            .layout(layout)
            .epoch(number)
            .fields(["cube", "mask"]);
        let mut loader = cubes.loader(options.clone());
        prop_assert_eq!(loader.next_batch().unwrap().unwrap().field("cube").unwrap().dtype(), element);
        loader.set_epoch(number).unwrap();
        check(&cubes, &options, number, &epoch(&mut loader));
    }
}

fn by_patch(cubes: &Cubes, options: &LoaderOptions, world_size: u32) -> BTreeMap<(u64, u32), Vec<Vec<u8>>> {
    let mut rows = BTreeMap::new();
    for rank in 0..world_size {
        let mut loader = cubes.loader(options.clone().rank(rank).world_size(world_size));
        while let Some(batch) = loader.next_batch() {
            let batch = batch.unwrap();
            for (row, at) in batch.patches().unwrap().into_iter().enumerate() {
                let fields = batch.fields().map(|field| field.row_of(row)).collect();
                rows.insert((batch.indices()[row], at.unwrap().number), fields);
            }
        }
    }
    rows
}

/// A single rank takes 48 patches from each scene, so it keeps the scenes whole. With 48 ranks, each rank takes one
/// patch and keeps only that patch.
#[test]
fn patches_do_not_depend_on_how_scenes_are_kept() {
    let cubes = Cubes::new(3, |id| [9, 8 + id % 2], 0);
    let factors = Factors::new(&[-7.5, 1.0, 2.0, 3.0, 4.0], &[0.875, 1.0, 2.0, 0.5, 3.0]).unwrap();
    let (last, first) = (PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth);
    for (element, bands, layout, augment, changes) in [
        (ElementType::Dtype(Dtype::F32), Bands::All, last, Augment::default(), &CHANGES[0]),
        (ElementType::Dtype(Dtype::F16), Bands::All, first, ALL, &CHANGES[0]),
        (ElementType::Bf16, Bands::List(vec![4, 0, 4]), last, ALL, &CHANGES[1]),
        (ElementType::Dtype(Dtype::F32), Bands::Range(1..4), first, ALL, &CHANGES[1]),
    ] {
        for moves in [None, Some(MOVES[0])] {
            let options = options()
                .cube(CubeMode::Patch { height: 6, width: 6, place: PatchPlace::Random })
                .patches(Patches::PerSample(48))
                .open_scenes(1)
                .augment(augment)
                .dtype(ArrayDtype::Cubes(element))
                .normalise([("cube", factors.clone())])
                .augment_bands(changes.iter().map(|text| text.parse().unwrap()).collect())
                .augment_pictures(moves.into_iter().map(|text| text.parse().unwrap()).collect())
                .bands(bands.clone())
                .layout(layout)
                .fields(["cube", "mask"]);
            let (whole, apart) = (by_patch(&cubes, &options, 1), by_patch(&cubes, &options, 48));
            assert_eq!(whole.len(), 3 * 48);
            assert!(whole == apart, "{options:?}");
        }
    }
}

fn by_sample(batches: Vec<Seen>) -> std::collections::BTreeMap<u64, Vec<Vec<u8>>> {
    let rows = batches.into_iter().flat_map(|(indices, _, fields)| {
        indices
            .into_iter()
            .enumerate()
            .map(move |(row, index)| (index, fields.iter().map(|field| field.2[row].clone()).collect::<Vec<_>>()))
            .collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn ranks_and_resumed_runs_turn_as_one() {
    let cubes = Cubes::new(13, |_| [8, 8], 0);
    let options = options().augment(ALL).epoch(2).fields(["cube", "mask"]);
    let whole = by_sample(epoch(&mut cubes.loader(options.clone())));
    assert_eq!(whole.len(), 13);
    let mut ranks = std::collections::BTreeMap::new();
    for rank in 0..3 {
        let options = options.clone().rank(rank).world_size(3).batch_size(2).threads(1);
        ranks.extend(by_sample(epoch(&mut cubes.loader(options))));
    }
    assert!(ranks == whole);
    let mut first = cubes.loader(options.clone());
    let begun = by_sample((0..2).map(|_| crate::loader_support::seen(&first.next_batch().unwrap().unwrap())).collect());
    let mut second = cubes.loader(options.batch_size(5));
    second.restore(&first.state()).unwrap();
    let mut resumed = by_sample(epoch(&mut second));
    assert_eq!((begun.len(), resumed.len()), (6, 7));
    resumed.extend(begun);
    assert!(resumed == whole);
}

#[test]
fn impossible_options_are_refused_at_open() {
    let cubes = Cubes::new(4, |_| [8, 9], 0);
    let factors = |count: usize| Factors::new(&vec![1.0; count], &[2.0]).unwrap();
    let normalise = |name: &str, count| vec![(name.to_owned(), factors(count))];
    let f32s = || ArrayDtype::Fields(vec![("mask".into(), Dtype::F32.into())]);
    let counts = |normalise| cubes.refused(options().normalise(normalise));
    let error = counts(normalise("cube", 4));
    assert!(
        error.contains("expected one mean and std, or one per band (5), found 4") && error.contains("`cube`"),
        "{error}"
    );
    let error = counts(normalise("mask", 1));
    assert!(
        error.contains(
            "`mask` is uint8, but must be float16, bfloat16 or float32 to be normalised with mean and std\nhint:"
        ),
        "{error}"
    );
    let error = counts(normalise("cubes", 1));
    assert!(
        error.contains("mean and std cannot be applied to field `cubes`: it is not loaded as a decoded array"),
        "{error}"
    );
    let error = cubes.refused(options().normalise(normalise("mask", 2)).dtype(f32s()));
    assert!(error.contains("field `mask`: expected one mean and std"), "{error}");
    let error = cubes.refused(options().augment(ALL).fields(["flags"]));
    assert!(
        error.contains("flips and rotations need a decoded array with two or three axes, but none is loaded"),
        "{error}"
    );
    let augment_bands = vec!["band_dropout(p=0.5)".parse().unwrap()];
    let error = cubes.refused(options().augment_bands(augment_bands.clone()).fields(["mask"]));
    assert!(error.contains("band augmentation needs a decoded array with three axes"), "{error}");
    let doubles = ArrayDtype::Cubes(Dtype::F64.into());
    let error = cubes.refused(options().augment_bands(augment_bands).dtype(doubles));
    assert!(
        error.contains("`cube` is float64, but must be float16, bfloat16 or float32 for band augmentation"),
        "{error}"
    );
    let flags = ArrayDtype::Fields(vec![("flags".into(), ElementType::Bf16)]);
    let error = cubes.refused(options().dtype(flags));
    assert!(error.contains("a bool array cannot be converted to bfloat16") && error.contains("cube-0"), "{error}");
    let odd = Cubes::new(4, |_| [8, 9], 1);
    let error = odd.refused(options().augment(ALL).mode(Mode::Stored));
    assert!(
        error.contains("cannot flip or rotate the arrays together: field `mask` is 9 × 9, but another field is 8 × 9"),
        "{error}"
    );
}

#[test]
fn arrays_that_cannot_be_moved_are_refused() {
    let cubes = Cubes::new(4, |_| [8, 9], 0);
    let moved = |texts: &[&str]| options().augment_pictures(texts.iter().map(|text| text.parse().unwrap()).collect());
    let error = cubes.refused(moved(&[MOVES[0]]).fields(["flags"]));
    assert!(
        error.contains(
            "`random_affine` and `random_rotation` need a decoded picture, or an array with two or three axes, but \
             none is loaded"
        ),
        "{error}"
    );
    for texts in [&MOVES[..2], &[MOVES[2], "random_invert"]] {
        let error = cubes.refused(moved(texts));
        let expected = "needs a field with decoded pictures, but none is loaded\nhint: to move the pixels \
                        of arrays, pass a single `random_affine`";
        assert!(error.contains(expected), "{error}");
    }
    let error = cubes.refused(moved(&["random_rotation(degrees=9,mask_fill=256)"]));
    assert!(error.contains("field `mask`: uint8 cannot represent `mask_fill` 256\nhint:"), "{error}");
    let doubles = ArrayDtype::Cubes(Dtype::F64.into());
    let error = cubes.refused(moved(&[MOVES[0]]).dtype(doubles));
    assert!(error.contains("`cube` is float64, but must be float16, bfloat16 or float32 for interpolation"), "{error}");
    let odd = Cubes::new(4, |_| [8, 9], 1);
    let error = odd.refused(moved(&[MOVES[0]]).mode(Mode::Stored));
    let expected = "cannot flip or rotate the arrays together: field `mask` is 9 × 9, but another field is 8 × 9";
    assert!(error.contains(expected), "{error}");
    let mut wrong = moved(&[MOVES[0]]);
    wrong.view.augment_pictures =
        vec![Augmentation::RandomRotation { degrees: (5.0, -5.0), p: 1.0, outside: Outside::default() }];
    assert!(cubes.refused(wrong).contains("`degrees` in random_rotation"));
}

#[test]
fn one_number_is_for_every_element_of_any_array() {
    let cubes = Cubes::new(4, |_| [8, 9], 0);
    let options = options()
        .normalise([("mask", Factors::new(&[1.0], &[4.0]).unwrap())])
        .dtype(ArrayDtype::Fields(vec![("mask".into(), ElementType::Bf16)]))
        .fields(["mask"]);
    for (indices, _, fields) in epoch(&mut cubes.loader(options)) {
        for (index, row) in indices.iter().zip(&fields[0].2) {
            let levels = cubes.array(*index, "mask");
            let floats =
                levels.bytes().iter().flat_map(|&level| float(ElementType::Bf16, f32::from(level) * 0.25 - 0.25));
            assert!(floats.eq(row.iter().copied()));
        }
    }
}

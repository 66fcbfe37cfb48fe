//! Tests that all no-data elements are replaced and no others, on host and device and for any number of parts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::float_cmp)]

use crate::loader_support::{base, epoch, record, said, write};
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, As, Coder, Fill, Filter, Finish, Resampling, ValueRule, Warp,
};
use shardpack_format::*;
use shardpack_jpeg::{DrawKey, PixelLayout};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{
    Align, ArrayDtype, Augmentation, CubeMode, Factors, Loader, LoaderOptions, NoData, PatchPlace, Patches,
};
use shardpack_reader::{Array, ArrayDecoder, Bands, Dataset};

const BANDS: u64 = 4;
const SIDE: u64 = 32;
/// The no-data value. float16 cannot represent −9999. The nearest float16 values are −9992 and −10000.
const NO_DATA: f64 = -9999.0;
const FILL: f32 = 0.25;

struct Cubes {
    dir: tempfile::TempDir,
}

impl Cubes {
    /// Writes `count` cubes, which declare `no_data(sample)`. Each has a mask, which declares 255.
    fn new(count: u64, no_data: impl Fn(u64) -> Option<f64>) -> Self {
        let fields = ["cube", "mask"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
        let dir = crate::support::scratch();
        write(dir.path(), &Schema::new(fields).unwrap(), &[count], |schema, number, id| {
            let settings = |values, layout| ArraySettings {
                values,
                coder: Coder::Blosc2Lz4,
                level: None,
                filter: Filter::Shuffle,
                band_difference: false,
                layout,
            };
            let rule = match id % 4 {
                0 => ValueRule::Keep,
                1 => ValueRule::F16,
                2 => ValueRule::Fixed { max_error: 0.5 },
                _ => ValueRule::IntegerOrF16,
            };
            let layout = if id.is_multiple_of(2) { ArrayLayout::AsShape } else { ArrayLayout::BandMajor };
            let value = |i: u64| match (i * 7 + id) % 23 {
                0 | 1 => -9999.0,
                2 => f32::NAN,
                3 => -9998.0,
                n => (n * 13 + i % 5) as f32,
            };
            let cube = (0..SIDE * SIDE * BANDS).flat_map(|i| value(i).to_le_bytes()).collect();
            let cube = Array::new(Dtype::F32, vec![SIDE, SIDE, BANDS], cube).unwrap();
            let cube = ArrayEncoder::new(settings(rule, layout)).unwrap().encode(&cube, no_data(id)).unwrap();
            let mask = (0..SIDE * SIDE).map(|i| if i % 9 == 0 { 255 } else { (i % 3) as u8 }).collect();
            let mask = Array::new(Dtype::U8, vec![SIDE, SIDE], mask).unwrap();
            let settings = settings(ValueRule::Keep, ArrayLayout::AsShape);
            let mask = ArrayEncoder::new(settings).unwrap().encode(&mask, Some(255.0)).unwrap();
            let values = [cube, mask].map(|array| {
                let stored = array.descriptor.stored_bytes().unwrap();
                Some((array.codec, array.payload, array.descriptor.encode().unwrap(), Some(stored)))
            });
            let key = format!("cube-{id}");
            let (bytes, frame) = record(schema, (number, id), &key, &[], &values);
            (bytes, frame, key, Vec::new())
        });
        Self { dir }
    }

    fn all_declare() -> Self {
        Self::new(8, |_| Some(NO_DATA))
    }

    fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }

    fn refused(&self, options: LoaderOptions) -> String {
        said(&Loader::open(&self.open(), options).map(|_| ()).unwrap_err())
    }
}

fn options() -> LoaderOptions {
    let normalise = vec![("cube".to_owned(), factors())];
    base()
        .batch_size(3)
        .threads(2)
        .end(End::Uneven)
        .mode(Mode::Stored)
        .normalise(normalise)
        .no_data(NoData::Cubes(FILL))
        .fields(["cube"])
}

fn rows(cubes: &Cubes, options: LoaderOptions) -> Vec<(u64, Vec<u8>)> {
    let batches = epoch(&mut Loader::open(&cubes.open(), options).unwrap());
    batches.into_iter().flat_map(|(indices, _, mut fields)| indices.into_iter().zip(fields.remove(0).2)).collect()
}

fn singles(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn factors() -> Factors {
    Factors::new(&[100.0], &[50.0]).unwrap()
}

fn decoded(cubes: &Cubes, sample: u64) -> Vec<f32> {
    singles(cubes.open().get(sample).unwrap().view().array("cube", &mut ArrayDecoder::new()).unwrap().bytes())
}

fn same(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

#[test]
fn only_no_data_is_replaced() {
    let cubes = Cubes::all_declare();
    let rows = rows(&cubes, options());
    assert_eq!(rows.len(), 8);
    for (sample, row) in rows {
        let values = decoded(&cubes, sample);
        let filled = values.iter().filter(|value| f64::from(**value) == NO_DATA).count();
        assert_eq!(filled as u64, (0..SIDE * SIDE * BANDS).filter(|i| (i * 7 + sample) % 23 < 2).count() as u64);
        for (value, found) in values.iter().zip(singles(&row)) {
            let expected = if f64::from(*value) == NO_DATA { FILL } else { factors().apply(0, *value) };
            assert!(same(found, expected), "{value} became {found}, not {expected}, in sample {sample}");
        }
    }
}

/// Without a replacement, no-data is loaded as −9999, converted like all other elements. No other value becomes the
/// same number, so these elements mark where the replacement must be.
#[test]
fn no_data_is_the_same_for_all_cuts() {
    let cubes = Cubes::all_declare();
    let (patch, first) =
        (CubeMode::Patch { height: 9, width: 7, place: PatchPlace::Random }, PixelLayout::ChannelsHeightWidth);
    let bands = Bands::List(vec![3, 0]);
    let several = Patches::PerSample(48);
    let turned = shardpack_loader::Augment {
        flip_rows: true,
        flip_columns: true,
        rotate: true,
        ..shardpack_loader::Augment::default()
    };
    for options in [
        options().layout(first),
        options().cube(patch).bands(bands.clone()),
        options().cube(patch).layout(first).augment(turned),
        options().cube(patch).patches(several).layout(first),
        options().cube(patch).patches(several).augment(turned),
        options().cube(CubeMode::Volume { size: [5, 6, 3], place: PatchPlace::Random }),
    ] {
        let plain = rows(&cubes, options.clone().no_data(NoData::AsStored));
        let filled = rows(&cubes, options);
        let no_data = factors().apply(0, NO_DATA as f32);
        let mut count = 0;
        for ((_, plain), (_, filled)) in plain.iter().zip(&filled) {
            for (plain, filled) in singles(plain).into_iter().zip(singles(filled)) {
                count += u32::from(plain == no_data);
                assert!(same(filled, if plain == no_data { FILL } else { plain }), "{plain} became {filled}");
            }
        }
        assert!(plain.len() == filled.len() && count > 0);
    }
}

#[test]
fn bands_that_are_changed_at_random_leave_it_alone() {
    let cubes = Cubes::all_declare();
    for changes in [&["random_gain(gain=0.5)", "band_dropout(p=0.4,value=3)"][..], &["gaussian_noise(sigma=0.5)"]] {
        let dtype = ArrayDtype::Cubes(Dtype::F16.into());
        let augment_bands = changes.iter().map(|text| text.parse().unwrap()).collect();
        // 0.1 has no exact float16 representation, so the replacement must be rounded.
        let options = options().augment_bands(augment_bands).dtype(dtype).no_data(NoData::Cubes(0.1));
        for (sample, row) in rows(&cubes, options) {
            let found: Vec<u16> = row.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
            for (value, found) in decoded(&cubes, sample).into_iter().zip(found) {
                if f64::from(value) == NO_DATA {
                    assert_eq!(found, half::f16::from_f32(0.1).to_bits(), "{changes:?}");
                }
            }
        }
    }
}

#[test]
fn arrays_declare_it_one_by_one() {
    let cubes = Cubes::new(8, |id| [Some(NO_DATA), Some(f64::NAN), None, Some(-9998.0)][id as usize % 4]);
    for (sample, row) in rows(&cubes, options()) {
        for (value, found) in decoded(&cubes, sample).into_iter().zip(singles(&row)) {
            let is_no_data = match sample % 4 {
                0 => f64::from(value) == NO_DATA,
                1 => value.is_nan(),
                2 => false,
                _ => value == -9998.0,
            };
            let expected = if is_no_data { FILL } else { factors().apply(0, value) };
            assert!(same(found, expected), "{value} became {found} in sample {sample}");
        }
    }
}

/// If the source pixels of a moved pixel include no-data, the result is no-data and not a mean that includes it.
#[test]
fn moved_no_data_stays_no_data() {
    let moves: Augmentation = "random_affine(degrees=25,translate=0.1:0.1,p=0.9,fill=3)".parse().unwrap();
    let cubes = Cubes::all_declare();
    let (mut moved, mut replaced) = (0, 0);
    for (sample, row) in rows(&cubes, options().augment_pictures(vec![moves])) {
        let draws = DrawKey { seed: 0, epoch: 0, sample }.draws();
        let map = moves.map(&draws, 0, SIDE as usize, SIDE as usize);
        let finish = Finish {
            to: As::F32,
            factors: Some(factors()),
            fill: Some(Fill { no_data: NO_DATA, with: FILL }),
            warp: map.map(|map| Warp { map, sampling: Resampling::Bilinear { outside: 3.0 } }),
            ..Finish::NOTHING
        };
        let elements: Vec<u8> = decoded(&cubes, sample).into_iter().flat_map(f32::to_le_bytes).collect();
        let mut expected = vec![0; row.len()];
        finish.apply(Dtype::F32, [SIDE, SIDE, BANDS], Layout::AsShape, &elements, &mut expected).unwrap();
        assert!(row == expected, "sample {sample}");
        moved += u32::from(map.is_some());
        replaced += singles(&row).iter().filter(|value| **value == FILL).count();
    }
    assert!(moved > 4 && replaced > 1000, "{moved} {replaced}");
    let error = cubes.refused(options().augment_pictures(vec![moves]).no_data(NoData::AsStored));
    let expected = "interpolation would mix the no-data value -9999 of field `cube` with other values\nhint: ";
    assert!(error.contains(expected), "{error}");
    // NaN as no-data is accepted, because a mean that includes NaN is NaN.
    let options = options().augment_pictures(vec![moves]).no_data(NoData::AsStored);
    assert!(Loader::open(&Cubes::new(8, |_| Some(f64::NAN)).open(), options).is_ok());
}

#[test]
fn masks_have_theirs_by_name() {
    let cubes = Cubes::all_declare();
    let no_data = NoData::Fields(vec![("mask".to_owned(), -1.0)]);
    let dtype = ArrayDtype::Fields(vec![("mask".to_owned(), Dtype::F32.into())]);
    let options = {
        let mut options = options().no_data(no_data).dtype(dtype).fields(["mask"]);
        options.output.normalise = Vec::new();
        options
    };
    for (_, row) in rows(&cubes, options) {
        let expected = (0..SIDE * SIDE).map(|i| if i % 9 == 0 { -1.0 } else { (i % 3) as f32 });
        assert!(singles(&row).into_iter().eq(expected));
    }
}

#[test]
fn a_missing_no_data_value_is_an_error() {
    let (with, without) = (Cubes::all_declare(), Cubes::new(8, |_| None));
    let error = without.refused(options());
    let expected = "cannot replace no-data values: no decoded array with three axes declares a no-data value\nhint: ";
    assert!(error.contains(expected) && error.contains("GDAL_NODATA"), "{error}");
    let named = |field: &str| NoData::Fields(vec![(field.to_owned(), 0.0)]);
    let error = without.refused(options().no_data(named("cube")));
    assert!(error.contains("field `cube` declares none in the 8 inspected samples"), "{error}");
    let error = with.refused(options().no_data(named("cubes")));
    assert!(
        error.contains("no-data replacement cannot be applied to field `cubes`: it is not loaded as a decoded array"),
        "{error}"
    );
    let mut every_field = options().no_data(named("mask"));
    every_field.output.fields = None;
    let error = with.refused(every_field);
    assert!(
        error.contains("`mask` is uint8, but must be float16, bfloat16 or float32 for no-data replacement"),
        "{error}"
    );
    let align = vec![("mask".to_owned(), "mask".parse::<Align>().unwrap())];
    let error = with.refused(options().no_data(named("mask")).align(align));
    assert!(error.contains("no-data values of an aligned field cannot be replaced"), "{error}");
}

/// A device replaces no-data itself, so it must not refuse arrays for that reason.
#[test]
fn a_device_gets_arrays_with_no_data() {
    let mut loader = Loader::open(&Cubes::all_declare().open(), options()).unwrap();
    epoch(&mut loader);
    assert!(loader.refusals().iter().all(|refusal| refusal.reason == "one of seven"), "{:?}", loader.refusals());
}

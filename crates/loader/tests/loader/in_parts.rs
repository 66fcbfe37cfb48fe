//! Repeats the loader's tests with records of two kilobytes that are decoded in parts, like records of many
//! megabytes. Also tests behaviour specific to decoding in parts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, Seen, Way, epoch, record, seen, write};
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{Dtype, ElementType, Field, FieldKind, Schema, shard_name};
use shardpack_io::{Fault, Faults, RiggedStorage};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{
    ArrayDtype, Augment, CubeMode, Factors, ImageMode, Loader, LoaderOptions, OnCorrupt, PatchPlace, Window,
};
use shardpack_reader::{Bands, Dataset, DatasetOptions};

fn options(batch_size: u32) -> LoaderOptions {
    Way::InParts.base().batch_size(batch_size).mode(Mode::Stored).end(End::Uneven)
}

fn by_one(dataset: &Dataset, options: &LoaderOptions) -> Vec<Vec<Seen>> {
    epochs(dataset, options.clone().part_bytes(usize::MAX).threads(1))
}

fn epochs(dataset: &Dataset, options: LoaderOptions) -> Vec<Vec<Seen>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    (0..2).map(|number| loader.set_epoch(number).map(|()| epoch(&mut loader)).unwrap()).collect()
}

#[test]
fn batches_are_those_of_one_thread() {
    let raw = (ImageMode::Raw, CubeMode::Raw);
    let whole = (LoaderOptions::default().view.image, CubeMode::Whole);
    let first = PixelLayout::ChannelsHeightWidth;
    let named = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    for disk in [
        Disk::varied(&[23, 31]),
        Disk::alike(&[40]),
        Disk::new(&[30], |id| Made { id, height: 40, width: 24, said_height: 40, half: true }),
    ] {
        let dataset = disk.open();
        let plain = LoaderOptions::default();
        for ((image, cube), layout, fields, dtype) in [
            (whole, plain.output.layout, None, ArrayDtype::Source),
            (whole, first, None, ArrayDtype::Source),
            (whole, plain.output.layout, named(&["cube"]), ArrayDtype::Cubes(Dtype::F64.into())),
            (whole, plain.output.layout, named(&["label", "image"]), ArrayDtype::Source),
            (whole, plain.output.layout, named(&["cube", "image", "cube"]), ArrayDtype::Source),
            (raw, plain.output.layout, None, ArrayDtype::Source),
            (raw, plain.output.layout, named(&["cube"]), ArrayDtype::Source),
        ] {
            for (mode, window) in [(Mode::Stored, Window::Memory), (Mode::Windowed, Window::PageCache)] {
                let dtype = dtype.clone();
                let mut options =
                    options(6).image(image).cube(cube).layout(layout).dtype(dtype).mode(mode).window(window);
                options.output.fields = fields.clone();
                if Loader::open(&dataset, options.clone()).is_err() {
                    // The cubes contain 16-bit integers. Skip the requested types that cannot represent all of them.
                    continue;
                }
                let expected = by_one(&dataset, &options);
                for threads in [1, 2, 7] {
                    let options = options.clone().threads(threads);
                    assert!(
                        epochs(&dataset, options) == expected,
                        "{threads} threads, {image:?}, {cube:?}, {fields:?}"
                    );
                }
            }
        }
    }
}

/// Writes cubes whose chunks begin and end inside pixels.
fn chunked(settings: ArraySettings) -> tempfile::TempDir {
    let dir = crate::support::scratch();
    let schema =
        Schema::new(["mask", "cube", "notes"].map(|name| Field::stored(name, FieldKind::Array)).to_vec()).unwrap();
    let mut encoder = ArrayEncoder::new(settings).unwrap();
    write(dir.path(), &schema, &[3], |schema, number, id| {
        let mut state = id + 1;
        let values = (0..150 * 64 * 103_u64).flat_map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((i % 103) as f32 / 8.0 + (state >> 57) as f32 / 64.0).to_le_bytes()
        });
        let cube = Array::new(Dtype::F32, vec![150, 64, 103], values.collect()).unwrap();
        let small = Array::new(Dtype::F32, vec![5], vec![id as u8; 20]).unwrap();
        let mut stored = |array: &Array| {
            let encoded = encoder.encode(array, None).unwrap();
            let bytes = encoded.descriptor.stored_bytes().unwrap();
            Some((encoded.codec, encoded.payload, encoded.descriptor.encode().unwrap(), Some(bytes)))
        };
        let key = format!("cube-{id}");
        let values = [stored(&small), stored(&cube), stored(&small)];
        let (bytes, frame) = record(schema, (number, id), &key, &[], &values);
        (bytes, frame, key, Vec::new())
    });
    dir
}

#[test]
fn chunks_of_one_cube_are_decoded_by_several_threads() {
    for (coder, filter, band_difference, values) in [
        (Coder::Blosc2Lz4, Filter::Bitshuffle, true, ValueRule::F16),
        (Coder::Blosc2Lz4, Filter::Shuffle, false, ValueRule::Fixed { max_error: 0.01 }),
        (Coder::Raw, Filter::None, true, ValueRule::F16),
    ] {
        let layout = ArrayLayout::AsShape;
        let level = coder.default_level();
        let dir = chunked(ArraySettings { values, coder, level, filter, band_difference, layout });
        let dataset = Dataset::open(dir.path()).unwrap();
        let options = options(2).part_bytes(1 << 16);
        let expected = by_one(&dataset, &options);
        for threads in [1, 2, 7] {
            assert!(epochs(&dataset, options.clone().threads(threads)) == expected, "{coder:?}, {threads}");
        }
    }
}

fn asked() -> Vec<(&'static str, LoaderOptions)> {
    let normalised = |bands: usize| {
        let numbers: Vec<f64> = (1..=bands).map(|n| n as f64 / 4.0).collect();
        vec![("cube".to_owned(), Factors::new(&numbers, &numbers).unwrap())]
    };
    let bf16 = ArrayDtype::Fields(vec![("cube".into(), ElementType::Bf16)]);
    let flips = Augment { flip_rows: true, flip_columns: true, rotate: false, ..Augment::default() };
    let turns = Augment { rotate: true, ..flips };
    let augment_bands = vec!["band_jitter(gain=0.2,offset=1)".parse().unwrap(), "band_dropout(p=0.2)".parse().unwrap()];
    let first = PixelLayout::ChannelsHeightWidth;
    let patch = CubeMode::Patch { height: 48, width: 48, place: PatchPlace::Random };
    let bands = Bands::List(vec![90, 3, 4]);
    let options = || options(2).part_bytes(1 << 16).dtype(bf16.clone());
    vec![
        ("normalised", options().normalise(normalised(103))),
        ("normalised, bands first", options().normalise(normalised(103)).layout(first)),
        ("only turned", options().augment(flips).dtype(ArrayDtype::Source)),
        ("bands changed", options().augment_bands(augment_bands).augment(flips).layout(first)),
        ("some bands", options().bands(bands.clone()).normalise(normalised(103)).layout(first)),
        ("patches", options().cube(patch).normalise(normalised(103))),
        ("turned patches", options().cube(patch).bands(bands).augment(turns).layout(first)),
    ]
}

#[test]
fn several_threads_decode_cubes_with_all_conversions() {
    let difference = |coder: Coder, filter| (coder, filter, true, ArrayLayout::AsShape);
    for (coder, filter, band_difference, layout) in [
        difference(Coder::Blosc2Lz4, Filter::Bitshuffle),
        difference(Coder::Zstd, Filter::None),
        (Coder::Raw, Filter::None, false, ArrayLayout::AsShape),
        (Coder::Blosc2Lz4, Filter::Shuffle, false, ArrayLayout::BandMajor),
    ] {
        let level = coder.default_level();
        let dir = chunked(ArraySettings { values: ValueRule::F16, coder, level, filter, band_difference, layout });
        let dataset = Dataset::open(dir.path()).unwrap();
        for (what, options) in asked() {
            let rows = |options: LoaderOptions| {
                let mut loader = Loader::open(&dataset, options).unwrap();
                let rows = epoch(&mut loader);
                (rows, loader.stats().peak_run_bytes)
            };
            let (expected, _) = rows(options.clone().part_bytes(usize::MAX).threads(1));
            for threads in [1, 2, 7] {
                let (found, run_bytes) = rows(options.clone().threads(threads));
                assert!(found == expected, "{what}, {coder:?}, {threads} threads");
                // Records are read in runs only if one thread decodes each of them. Arrays in shape order are decoded
                // in parts instead.
                let in_order = layout == ArrayLayout::AsShape;
                assert!(!in_order || run_bytes == 0, "{what}, {coder:?}");
            }
        }
    }
}

#[test]
fn damaged_chunks_are_reported_as_without_parts() {
    let (coder, filter, layout) = (Coder::Blosc2Lz4, Filter::Shuffle, ArrayLayout::AsShape);
    let settings = ArraySettings { values: ValueRule::F16, coder, level: None, filter, band_difference: true, layout };
    let dir = chunked(settings);
    let path = dir.path().join(shard_name(0));
    let good = std::fs::read(&path).unwrap();
    let row = Dataset::open(dir.path()).unwrap().shard(0).unwrap().row(1).unwrap();
    for at in [70, 400, row.length / 3, row.length / 2, row.length - 9] {
        let mut bytes = good.clone();
        bytes[(row.offset + at) as usize] ^= 0x41;
        std::fs::write(&path, bytes).unwrap();
        for check_crc in [true, false] {
            let dataset = DatasetOptions::new().verify_crc(check_crc).open(dir.path()).unwrap();
            for (what, options) in asked().into_iter().step_by(3) {
                let expected = said(&dataset, options.clone().part_bytes(usize::MAX).threads(1));
                assert!(!check_crc || expected[0].is_err(), "byte {at}");
                let found = said(&dataset, options.threads(2));
                assert!(found == expected, "byte {at}, {what}, {check_crc}");
            }
        }
    }
}

fn said(dataset: &Dataset, options: LoaderOptions) -> Vec<Result<Seen, String>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    let batch = |loader: &mut Loader| Some(loader.next_batch()?.map(|batch| seen(&batch)).map_err(|e| e.to_string()));
    std::iter::from_fn(|| batch(&mut loader)).collect()
}

#[test]
fn damage_anywhere_is_reported_as_without_parts() {
    let disk = Disk::alike(&[12]);
    let path = disk.path().join(shard_name(0));
    let good = std::fs::read(&path).unwrap();
    let row = disk.open().shard(0).unwrap().row(5).unwrap();
    for (image, cube) in [(LoaderOptions::default().view.image, CubeMode::Whole), (ImageMode::Raw, CubeMode::Raw)] {
        for at in (0..row.length).step_by(61).chain([row.length - 1]) {
            let mut bytes = good.clone();
            bytes[(row.offset + at) as usize] ^= 0x41;
            std::fs::write(&path, bytes).unwrap();
            for on_corrupt in [OnCorrupt::Error, OnCorrupt::Skip { max: 3 }] {
                let options = options(4).image(image).cube(cube).on_corrupt(on_corrupt).threads(2);
                let expected = said(&disk.open(), options.clone().part_bytes(usize::MAX));
                let skips = on_corrupt != OnCorrupt::Error;
                assert_eq!(expected[1].is_ok(), skips, "byte {at}");
                assert!(said(&disk.open(), options) == expected, "byte {at}, {on_corrupt:?}");
            }
        }
    }
}

#[test]
fn checks_of_the_crc_can_be_left_out() {
    let disk = Disk::alike(&[12]);
    disk.hurt(5);
    let dataset = DatasetOptions::new().verify_crc(false).open(disk.path()).unwrap();
    let options = options(4).threads(2).image(ImageMode::Raw);
    let batches = epochs(&dataset, options.clone());
    assert!(batches == by_one(&dataset, &options) && batches[0].len() == 3);
}

/// If any single read fails once, the batches must still be complete. If a file is truncated, its missing
/// rows must be errors.
#[test]
fn reads_of_parts_that_fail_are_tried_again() {
    let disk = Disk::alike(&[9]);
    let options = options(3).threads(2);
    let expected = by_one(&disk.open(), &options);
    let mut opened = 0;
    for k in 0..60 {
        let storage = std::sync::Arc::new(RiggedStorage::of_folder(disk.path(), Faults::new(Fault::FailAt(k))));
        let Ok(dataset) = DatasetOptions::new().open_in(storage) else { continue };
        let Ok(mut loader) = Loader::open(&dataset, options.clone()) else { continue };
        opened += 1;
        assert!(epoch(&mut loader) == expected[0], "operation {k}");
    }
    assert!(opened > 20, "{opened}");
}

#[test]
fn every_byte_is_read_once() {
    let disk = Disk::new(&[20], |id| Made { id, height: 60, width: 80, said_height: 60, half: false });
    for fields in [None, Some(vec!["label".to_owned(), "cube".to_owned()])] {
        let mut options = options(4).threads(3);
        options.output.fields = fields;
        let mut loader = Loader::open(&disk.open(), options).unwrap();
        while let Some(batch) = loader.next_batch() {
            batch.unwrap();
        }
        let stats = loader.stats();
        let shard = disk.open().shard(0).unwrap();
        let lengths: u64 = (0..20).map(|record| shard.row(record).unwrap().length).sum();
        assert_eq!((stats.read_bytes, stats.peak_run_bytes), (lengths, 0));
    }
}

#[test]
fn epochs_can_be_left_at_any_time() {
    let disk = Disk::alike(&[40]);
    for threads in [1, 2, 7] {
        let mut loader = Loader::open(&disk.open(), options(6).threads(threads)).unwrap();
        for number in 0..60 {
            loader.set_epoch(number).unwrap();
            for batch in 0..u64::from(number % 4) {
                let first = 6 * batch;
                assert_eq!(loader.next_batch().unwrap().unwrap().indices(), (first..first + 6).collect::<Vec<_>>());
            }
        }
    }
}

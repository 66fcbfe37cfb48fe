//! The tests of the loader once more, with records of two kilobytes made in parts, as those of many
//! megabytes are; and what is only so with parts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
// The same files once more: `module_path!` tells their support that they are here.
#![allow(clippy::duplicate_mod)]

#[path = "loader.rs"]
mod loader;
#[path = "loader_dtypes.rs"]
mod loader_dtypes;
#[path = "loader_patches.rs"]
mod loader_patches;
#[path = "loader_resume.rs"]
mod loader_resume;
#[path = "loader_several.rs"]
mod loader_several;
mod loader_support;
#[path = "loader_trouble.rs"]
mod loader_trouble;
#[path = "loader_union.rs"]
mod loader_union;
#[path = "../../reader/tests/support/mod.rs"]
mod support;

use loader_support::{Disk, Made, Seen, base, epoch, record, seen, write};
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{Dtype, Field, FieldKind, Schema, shard_name};
use shardpack_jpeg::PixelLayout;
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Loader, LoaderOptions, OnCorrupt, Window};
use shardpack_reader::{Dataset, DatasetOptions};
use support::faults::{Fault, FaultyStorage};

fn options(batch_size: u32) -> LoaderOptions {
    LoaderOptions { batch_size, mode: Mode::Stored, end: End::Uneven, ..base() }
}

/// Two epochs as one thread makes each record.
fn by_one(dataset: &Dataset, options: &LoaderOptions) -> Vec<Vec<Seen>> {
    epochs(dataset, LoaderOptions { part_bytes: usize::MAX, threads: 1, ..options.clone() })
}

fn epochs(dataset: &Dataset, options: LoaderOptions) -> Vec<Vec<Seen>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    (0..2).map(|number| loader.set_epoch(number).map(|()| epoch(&mut loader)).unwrap()).collect()
}

#[test]
fn batches_are_those_of_one_thread() {
    let raw = (ImageMode::Raw, CubeMode::Raw);
    let whole = (LoaderOptions::default().image, CubeMode::Whole);
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
            (whole, plain.layout, None, ArrayDtype::Source),
            (whole, first, None, ArrayDtype::Source),
            (whole, plain.layout, named(&["cube"]), ArrayDtype::Cubes(Dtype::F64.into())),
            (whole, plain.layout, named(&["label", "image"]), ArrayDtype::Source),
            (whole, plain.layout, named(&["cube", "image", "cube"]), ArrayDtype::Source),
            (raw, plain.layout, None, ArrayDtype::Source),
            (raw, plain.layout, named(&["cube"]), ArrayDtype::Source),
        ] {
            for (mode, window) in [(Mode::Stored, Window::Memory), (Mode::Windowed, Window::PageCache)] {
                let dtype = dtype.clone();
                let options =
                    LoaderOptions { image, cube, layout, fields: fields.clone(), dtype, mode, window, ..options(6) };
                if Loader::open(&dataset, options.clone()).is_err() {
                    // Cubes of 16-bit integers do not come as every type.
                    continue;
                }
                let expected = by_one(&dataset, &options);
                for threads in [1, 2, 7] {
                    let options = LoaderOptions { threads, ..options.clone() };
                    assert!(
                        epochs(&dataset, options) == expected,
                        "{threads} threads, {image:?}, {cube:?}, {fields:?}"
                    );
                }
            }
        }
    }
}

/// `[rows, 64, 103]` of three units of two bytes, in chunks whose borders are within pixels; a small
/// array beside it.
fn chunked(settings: ArraySettings) -> tempfile::TempDir {
    let dir = support::scratch();
    let schema =
        Schema::new(["mask", "cube", "notes"].map(|name| Field::stored(name, FieldKind::Array)).to_vec()).unwrap();
    let mut encoder = ArrayEncoder::new(settings).unwrap();
    write(dir.path(), &schema, &[3], |schema, number, id| {
        let mut state = id + 1;
        let values = (0..700 * 64 * 103_u64).flat_map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((i % 103) as f32 / 8.0 + (state >> 57) as f32 / 64.0).to_le_bytes()
        });
        let cube = Array::new(Dtype::F32, vec![700, 64, 103], values.collect()).unwrap();
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
        let options = LoaderOptions { part_bytes: 1 << 18, ..options(2) };
        let expected = by_one(&dataset, &options);
        for threads in [1, 2, 7] {
            assert!(epochs(&dataset, LoaderOptions { threads, ..options.clone() }) == expected, "{coder:?}, {threads}");
        }
    }
}

/// What is said of each batch.
fn said(dataset: &Dataset, options: LoaderOptions) -> Vec<Result<Seen, String>> {
    let mut loader = Loader::open(dataset, options).unwrap();
    let batch = |loader: &mut Loader| Some(loader.next_batch()?.map(|batch| seen(&batch)).map_err(|e| e.to_string()));
    std::iter::from_fn(|| batch(&mut loader)).collect()
}

#[test]
fn damage_anywhere_is_said_as_ever() {
    let disk = Disk::alike(&[12]);
    let path = disk.path().join(shard_name(0));
    let good = std::fs::read(&path).unwrap();
    let row = disk.open().shard(0).unwrap().row(5).unwrap();
    for (image, cube) in [(LoaderOptions::default().image, CubeMode::Whole), (ImageMode::Raw, CubeMode::Raw)] {
        for at in (0..row.length).step_by(61).chain([row.length - 1]) {
            let mut bytes = good.clone();
            bytes[(row.offset + at) as usize] ^= 0x41;
            std::fs::write(&path, bytes).unwrap();
            for on_corrupt in [OnCorrupt::Error, OnCorrupt::Skip { max: 3 }] {
                let options = LoaderOptions { image, cube, on_corrupt, threads: 2, ..options(4) };
                let expected = said(&disk.open(), LoaderOptions { part_bytes: usize::MAX, ..options.clone() });
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
    let options = LoaderOptions { threads: 2, image: ImageMode::Raw, ..options(4) };
    let batches = epochs(&dataset, options.clone());
    assert!(batches == by_one(&dataset, &options) && batches[0].len() == 3);
}

/// Whichever read fails, once, the batches are there; and a file that ends early is an error of the
/// rows that it lacks.
#[test]
fn reads_of_parts_that_fail_are_tried_again() {
    let disk = Disk::alike(&[9]);
    let options = LoaderOptions { threads: 2, ..options(3) };
    let expected = by_one(&disk.open(), &options);
    let mut opened = 0;
    for k in 0..60 {
        let storage = std::sync::Arc::new(FaultyStorage::of(disk.path(), Fault::FailAt(k)));
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
        let options = LoaderOptions { fields, threads: 3, ..options(4) };
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

/// Left in the middle, begun again, dropped with parts in flight.
#[test]
fn epochs_can_be_left_at_any_time() {
    let disk = Disk::alike(&[40]);
    for threads in [1, 2, 7] {
        let mut loader = Loader::open(&disk.open(), LoaderOptions { threads, ..options(6) }).unwrap();
        for number in 0..60 {
            loader.set_epoch(number).unwrap();
            for batch in 0..u64::from(number % 4) {
                let first = 6 * batch;
                assert_eq!(loader.next_batch().unwrap().unwrap().indices(), (first..first + 6).collect::<Vec<_>>());
            }
        }
    }
}

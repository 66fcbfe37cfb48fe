//! Tests that the memory of a loader, as counted by the allocator, agrees with the prediction. Samples have equal
//! sizes, or differ a hundredfold in size.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::print_stdout)]

use crate::counting::{LARGE, NOW, PEAK};
use crate::loader_support::{Disk, Made, write};
use shardpack_array::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{Dtype, ElementType, Field, FieldKind, RecordBuilder, Schema, StoredField};
use shardpack_jpeg::{PixelLayout, View};
use shardpack_loader::order::{Mode, Order, Runs, Sampling};
use shardpack_loader::{
    ArrayDtype, CubeMode, Factors, ImageMode, Loader, LoaderOptions, LoaderStats, PatchPlace, Window,
};
use shardpack_reader::Dataset;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn epoch(disk: &Disk, options: LoaderOptions) -> (u64, u64, LoaderStats) {
    let dataset = disk.open();
    // Open all shards first, because their indexes do not count as memory of the loader.
    (0..dataset.shards().len()).for_each(|number| assert!(dataset.shard(number).is_ok()));
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut loader = Loader::open(&dataset, options).unwrap();
    while let Some(batch) = loader.next_batch() {
        assert!(batch.unwrap().mask().iter().all(|&there| there));
    }
    let peak = PEAK.load(Ordering::Relaxed) - before;
    (peak, loader.predicted_bytes(), loader.stats())
}

fn side(id: u64, side: u32) -> Made {
    Made { id, height: side, width: side, said_height: side, half: false }
}

fn raw(batch_size: u32) -> LoaderOptions {
    // The files were written just now and are cached, so `Auto` would choose the page cache.
    let window = Window::Memory;
    LoaderOptions::default().batch_size(batch_size).threads(2).window(window).image(ImageMode::Raw).cube(CubeMode::Raw)
}

fn windowed(samples: u64, run_samples: u64, lanes: u64) -> Option<Arc<dyn Sampling>> {
    Some(Arc::new(Order::new(Runs::new(samples, run_samples), 7).lanes(lanes)))
}

fn cubes(count: u64, rows: u64, dtype: Dtype, settings: ArraySettings) -> tempfile::TempDir {
    let dir = crate::support::scratch();
    let schema = Schema::new(vec![Field::stored("cube", FieldKind::Array)]).unwrap();
    let shape = vec![rows, 640, 100];
    let mut encoder = ArrayEncoder::new(settings).unwrap();
    write(dir.path(), &schema, &[count], |schema, number, id| {
        // Half of the bits are noise, so a record is about half as large as its cube.
        let mut state = id + 1;
        let values = (0..rows * 64_000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1000 + (state >> 56) as u16
        });
        let bytes = match dtype {
            Dtype::F32 => values.flat_map(|value| (f32::from(value) / 64.0).to_le_bytes()).collect(),
            _ => values.flat_map(u16::to_le_bytes).collect(),
        };
        let encoded = encoder.encode(&Array::new(dtype, shape.clone(), bytes).unwrap(), None).unwrap();
        let (key, descriptor) = (format!("cube-{id}"), encoded.descriptor.encode().unwrap());
        let field = StoredField {
            codec: encoded.codec,
            stored_bytes: encoded.payload.len() as u64,
            decoded_bytes: encoded.descriptor.stored_bytes().unwrap(),
            descriptor: &descriptor,
        };
        let mut builder = RecordBuilder::new(Vec::new(), schema, number, id, &key, &[], &[Some(field)]).unwrap();
        builder.field_mut(0).copy_from_slice(&encoded.payload);
        let (record, frame) = builder.finish();
        (record, frame, key, Vec::new())
    });
    dir
}

/// Loads whole cubes and patches. The consumer is slow, to let the loader fill its whole read-ahead.
fn cubes_take_the_predicted_memory(rows: u64) {
    let by_shape = ArraySettings {
        values: ValueRule::Keep,
        coder: Coder::Blosc2Lz4,
        level: None,
        filter: Filter::Shuffle,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    let difference = ArraySettings { band_difference: true, ..by_shape };
    let by_band = ArraySettings { layout: ArrayLayout::BandMajor, ..difference };
    let halves = ArraySettings { values: ValueRule::F16, ..by_shape };
    let patch = CubeMode::Patch { height: 40, width: 64, place: PatchPlace::Random };
    for (name, dtype, settings) in [
        ("as shape", Dtype::U16, by_shape),
        ("as shape, difference", Dtype::U16, difference),
        ("as shape, float16", Dtype::F32, halves),
        ("by band", Dtype::U16, by_band),
    ] {
        let dir = cubes(8, rows, dtype, settings);
        let dataset = Dataset::open(dir.path()).unwrap();
        let (last, first) = (PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth);
        for (cube, layout, is_normalised) in [
            (CubeMode::Whole, last, false),
            (CubeMode::Whole, first, false),
            (CubeMode::Whole, first, true),
            (patch, last, false),
        ] {
            // In a band-major payload, streams that are stored uncompressed need no scratch memory. The prediction
            // does not know how many there are, so it may exceed the peak by a larger margin.
            let least = if settings.layout == ArrayLayout::BandMajor { 0.8 } else { 0.9 };
            // A record of 61 MB exceeds any usual read-ahead.
            let read_ahead_bytes = 0;
            let plain = LoaderOptions::default();
            let (normalise, dtype) = match is_normalised {
                true => {
                    let factors = Factors::new(&[1000.0], &[100.0]).unwrap();
                    (vec![("cube".to_owned(), factors)], ArrayDtype::Cubes(ElementType::Bf16))
                }
                false => (Vec::new(), plain.output.dtype.clone()),
            };
            let options = plain
                .batch_size(1)
                .threads(2)
                .cube(cube)
                .layout(layout)
                .read_ahead_bytes(read_ahead_bytes)
                .normalise(normalise)
                .dtype(dtype);
            let before = NOW.load(Ordering::Relaxed);
            PEAK.store(before, Ordering::Relaxed);
            let mut loader = Loader::open(&dataset, options).unwrap();
            // Each round starts with all slots free. Repeat, because in a single round the threads may not all decode
            // at the same time.
            for number in 0..60 {
                let peak = PEAK.load(Ordering::Relaxed) - before;
                if number >= 3 && peak as f64 >= least * loader.predicted_bytes() as f64 {
                    break;
                }
                loader.set_epoch(number).unwrap();
                while let Some(batch) = loader.next_batch() {
                    batch.unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(10 * rows / 48));
                }
            }
            let (peak, predicted) = (PEAK.load(Ordering::Relaxed) - before, loader.predicted_bytes());
            let ratio = peak as f64 / predicted as f64;
            println!("{rows} rows, {name}, {cube:?}, {layout:?}: {peak} of {predicted}, {ratio:.2}");
            assert!((least..1.1).contains(&ratio), "{name}, {cube:?}, {layout:?}: {peak} of {predicted}");
        }
    }
}

#[test]
#[ignore = "cubes of 61 MB"]
fn large_cubes_take_the_predicted_memory() {
    cubes_take_the_predicted_memory(480);
}

/// This file has only one test, because the count covers the whole process.
#[test]
fn loaders_take_the_predicted_memory() {
    let _alone = crate::alone();
    // Samples of two kilobytes, except for the last twelve, which have 4.4 MB. All runs have the same number of
    // samples, but their sizes range from 30 kB to 66 MB.
    let skewed = Disk::new(&[90, 90], |id| side(id, if id < 168 { 16 } else { 850 }));
    // The same records, with the large ones spread among the small ones.
    let mixed = Disk::new(&[90, 90], |id| side(id, if id % 15 != 7 { 16 } else { 850 }));
    let alike = Disk::alike(&[4000]);
    for (name, disk, options) in [
        ("large ones together, windowed", &skewed, {
            let mut options = raw(4);
            options.order.sampling = windowed(180, 15, 4);
            options
        }),
        ("large ones apart, windowed", &mixed, {
            let mut options = raw(4);
            options.order.sampling = windowed(180, 15, 4);
            options
        }),
        ("large ones together, in stored order", &skewed, raw(4).mode(Mode::Stored)),
        ("large ones together, permuted", &skewed, raw(4).mode(Mode::Full)),
        ("large ones apart, permuted", &mixed, raw(4).mode(Mode::Full).read_ahead_bytes(0)),
        ("alike, windowed", &alike, {
            let mut options = raw(32);
            options.order.sampling = windowed(4000, 20, 12);
            options
        }),
        ("in the page cache", &mixed, raw(4).window(Window::PageCache)),
    ] {
        let (peak, predicted, stats) = epoch(disk, options);
        println!("{name}: {peak} of {predicted}, {:.2}; runs {}", peak as f64 / predicted as f64, stats.peak_run_bytes);
        // Above the prediction, allow 10 % and 256 KiB for batch plans and other small allocations.
        assert!(peak <= predicted + predicted / 10 + (256 << 10), "{name}: {peak} of {predicted}");
        assert_eq!(stats.grown_slots, 0, "{name}");
    }

    // Two pictures of 3.2 megapixels among small ones. They are decoded whole before they are resized.
    let pictures = Disk::new(&[60], |id| side(id, if id % 25 == 7 { 1800 } else { 64 }));
    for (name, image, threads) in [
        ("a random part", ImageMode::View(View::random_resized_crop(224)), 2),
        ("the centre", ImageMode::View(View::center_crop(256, 224)), 2),
        ("between borders", ImageMode::View(View::pad(640)), 7),
    ] {
        let (peak, predicted, _) = epoch(&pictures, raw(4).image(image).threads(threads).fields(["image"]));
        println!("{name}: {peak} of {predicted}, {:.2}", peak as f64 / predicted as f64);
        assert!(peak <= predicted + (256 << 10), "{name}: {peak} of {predicted}");
    }

    cubes_take_the_predicted_memory(96);

    // Records of 3.6 to 5.4 MB. After one epoch, all necessary buffers exist.
    let large = Disk::new(&[16], |id| side(id, 780 + 10 * (id % 16) as u32));
    let mut loader = Loader::open(&large.open(), raw(2).mode(Mode::Full)).unwrap();
    let mut counts = Vec::new();
    for number in 0..4 {
        loader.set_epoch(number).unwrap();
        let before = LARGE.load(Ordering::Relaxed);
        while let Some(batch) = loader.next_batch() {
            batch.unwrap();
        }
        counts.push(LARGE.load(Ordering::Relaxed) - before);
    }
    println!("large allocations by epoch: {counts:?}");
    assert!(counts[1..].iter().all(|&count| count <= 4), "{counts:?}");
}

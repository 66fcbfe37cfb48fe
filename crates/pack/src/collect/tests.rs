//! Tests collecting samples and reading the dataset back.

mod trouble;

use super::*;
use shardpack_array::{Array, ArrayOptions, Values};
use shardpack_format::{Dtype, Explain, FieldKind};
use shardpack_jpeg::{JpegReencoder, ReencodeOptions};
use shardpack_reader::{ArrayDecoder, Dataset, VerifyOptions, verify};
use shardpack_recipe::{PictureOptions, Share};
use shardpack_writer::Progress;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

impl From<Array> for SampleValue {
    fn from(array: Array) -> Self {
        Self::Array(array)
    }
}

impl From<Vec<u8>> for SampleValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// Returns the text of an error as the command prints it.
fn said(error: &CollectError) -> String {
    shardpack_format::told(error, &error.hints(), shardpack_format::Voice::Command)
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

fn jpeg(width: u32, height: u32, seed: u8) -> Vec<u8> {
    let pixel = |i: u32| [(i % width) as u8, (i / width) as u8, seed];
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    let mut out = Vec::new();
    let options = ReencodeOptions::default();
    JpegReencoder::new().encode_pixels(&pixels, (width, height), 3, &options, false, &mut out).unwrap();
    out
}

fn floats(shape: &[u64], seed: u64) -> Array {
    let count: u64 = shape.iter().product();
    let bytes = noise(count as usize * 2, seed);
    let values = bytes.chunks(2).flat_map(|b| (f32::from(u16::from_le_bytes([b[0], b[1]])) / 7.0).to_le_bytes());
    Array::new(Dtype::F32, shape.to_vec(), values.collect()).unwrap()
}

fn open(folder: &tempfile::TempDir, options: CollectOptions) -> Collector {
    Collector::open(&folder.path().join("out"), None, options).unwrap()
}

fn files(folder: &tempfile::TempDir) -> BTreeMap<String, Vec<u8>> {
    let list = fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap());
    list.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn mixed(i: u64) -> Sample {
    let mask = Array::new(Dtype::U8, vec![12, 10], noise(120, i + 1)).unwrap();
    Sample::new()
        .with_key(format!("class-{}/{i:03}", i % 3))
        .with("photo", jpeg(40, 24, i as u8))
        .with("cube", floats(&[12, 10, 3], i))
        .with("mask", mask)
        .with("caption", if i == 4 { "an exception" } else { "the usual one" })
        .with("meta", SampleValue::Json(format!("{{\"i\": {i}}}")))
        .with("label", i64::try_from(i % 3).unwrap())
}

fn small_shards() -> CollectOptions {
    let classes = Some(["a", "b", "c"].map(str::to_owned).to_vec());
    CollectOptions { classes, shard_bytes: 20_000, threads: 2, ..CollectOptions::default() }
}

#[test]
fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, small_shards());
    (0..40).for_each(|i| collector.add(mixed(i)).unwrap());
    let report = collector.commit(None, None).unwrap();
    assert_eq!((report.report.samples, report.classes), (40, 3));
    assert!(report.report.shards > 1);
    assert!(collector.add(mixed(99)).unwrap_err().to_string().contains("complete"));
    drop(collector);
    let names: Vec<String> = files(&folder).into_keys().collect();
    assert!(names.iter().all(|name| name == "manifest.json" || name.ends_with(".shard")), "{names:?}");

    let path = folder.path().join("out");
    assert!(verify(&path, &VerifyOptions { digest: true, ..Default::default() }).unwrap().is_whole());
    let dataset = Dataset::open(&path).unwrap();
    let mut decoder = ArrayDecoder::new();
    for index in 0..dataset.len() {
        let sample = dataset.get(index).unwrap();
        let i: u64 = sample.key().rsplit_once('/').unwrap().1.parse().unwrap();
        let values: BTreeMap<String, Option<SampleValue>> = mixed(i).values.into_iter().collect();
        let view = sample.view();
        let Some(SampleValue::Array(mask)) = &values["mask"] else { panic!() };
        assert_eq!(view.array("mask", &mut decoder).unwrap(), *mask);
        let Some(SampleValue::Array(cube)) = &values["cube"] else { panic!() };
        let found = view.array("cube", &mut decoder).unwrap();
        let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        for (a, b) in cube.bytes().chunks(4).zip(found.bytes().chunks(4)) {
            assert!((float(a) - float(b)).abs() <= 4.0, "float16 rounds by no more");
        }
        assert_eq!(view.bytes("caption").unwrap(), if i == 4 { &b"an exception"[..] } else { b"the usual one" });
        assert_eq!(view.scalar("label").unwrap().as_i64(), Some((i % 3) as i64));
        let columns = ["height", "width", "orientation"].map(|name| view.scalar(name).unwrap().as_i64().unwrap());
        assert_eq!(columns, [24, 40, 1]);
    }
    assert!(dataset.schema().stored_position("icc").is_none());
    let fidelity = dataset.fidelity().unwrap();
    assert_eq!(fidelity["photo"]["samples"], 40);
    assert_eq!(fidelity["photo"]["tiled"].as_u64().unwrap() + fidelity["photo"]["in_rows"].as_u64().unwrap(), 40);
    assert_eq!(fidelity["cube"]["values"], 40 * 360);
    assert!(fidelity["cube"]["max_abs_error"].as_f64().unwrap() > 0.0);
    assert_eq!(dataset.recipe()["order"]["shuffle_seed"], 0);
    assert!(dataset.recipe()["cube"]["settings"]["codec"].is_string());
}

#[test]
fn the_same_samples_give_the_same_bytes_whatever_the_threads() {
    let write = |threads: u64, shuffle: Option<u64>| {
        let folder = tempfile::tempdir().unwrap();
        let collector = open(&folder, CollectOptions { shuffle, threads: threads as usize, ..small_shards() });
        let place = |i| shuffle.is_none().then_some(i);
        collector.add(Sample { order: place(0), ..mixed(0) }).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let collector = &collector;
                scope.spawn(move || {
                    // Add samples in reverse, so that the order of addition differs even if one thread does all
                    // the work.
                    for i in (1..60).rev().filter(|i| i % threads == thread) {
                        collector.add(Sample { order: place(i), ..mixed(i) }).unwrap();
                    }
                });
            }
        });
        assert_eq!(collector.len(), 60);
        collector.commit(None, None).unwrap();
        // Drop the collector to remove its lock file, whose content depends on the time.
        drop(collector);
        files(&folder)
    };
    for shuffle in [Some(7), None] {
        let (one, eight) = (write(1, shuffle), write(8, shuffle));
        assert!(one.len() > 3 && one.keys().eq(eight.keys()));
        for (name, bytes) in &one {
            assert!(eight[name] == *bytes, "`{name}` differs, shuffle {shuffle:?}");
        }
    }
    assert!(write(1, Some(7)) != write(1, Some(8)));
}

#[test]
fn without_shuffling_samples_stay_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions { shuffle: None, ..CollectOptions::default() });
    for i in (0..20i64).rev() {
        collector.add(Sample::new().with("i", i)).unwrap();
    }
    collector.commit(None, None).unwrap();
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    assert_eq!(dataset.column("i").unwrap().to_i64s().unwrap(), (0..20).rev().collect::<Vec<_>>());
    assert_eq!(dataset.get(0).unwrap().key(), "00000000");
}

#[test]
fn every_dtype_comes_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        CollectOptions { arrays: ArrayOptions { values: Values::Keep, ..Default::default() }, ..Default::default() };
    let collector = open(&folder, options);
    let shapes: [&[u64]; 6] = [&[], &[5], &[0, 3], &[4, 6], &[3, 4, 5], &[2, 2, 2, 2, 2]];
    let array = |dtype: Dtype, shape: &[u64]| {
        let mut bytes = noise(dtype.array_bytes(shape).unwrap() as usize, u64::from(dtype.code()));
        if dtype == Dtype::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        Array::new(dtype, shape.to_vec(), bytes).unwrap()
    };
    let mut sample = Sample::new();
    for dtype in Dtype::ALL {
        for (i, shape) in shapes.iter().enumerate() {
            sample = sample.with(format!("{dtype}-{i}"), array(*dtype, shape));
        }
    }
    collector.add(sample.clone()).unwrap();
    collector.commit(None, None).unwrap();
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    let stored = dataset.get(0).unwrap();
    for dtype in Dtype::ALL {
        for (i, shape) in shapes.iter().enumerate() {
            let found = stored.view().array(&format!("{dtype}-{i}"), &mut ArrayDecoder::new()).unwrap();
            assert_eq!(found, array(*dtype, shape), "{dtype} {shape:?}");
        }
    }
}

#[test]
fn a_schema_is_held_to() {
    let folder = tempfile::tempdir().unwrap();
    let schema = [("x", "float32"), ("y", "uint8"), ("z", "json"), ("image", "image")];
    let schema = schema.map(|(name, kind)| (name.to_owned(), kind.parse().unwrap())).to_vec();
    let collector = Collector::open(&folder.path().join("out"), Some(schema), CollectOptions::default()).unwrap();
    let sample = |y: i64| Sample::new().with("x", 3).with("y", y).with("z", "a word");
    collector.add(sample(255)).unwrap();
    assert!(collector.add(sample(256)).unwrap_err().to_string().contains("expected uint8, found the number 256"));
    assert!(collector.add(sample(-1)).is_err());
    let huge = SampleValue::Number { value: Number::Float(1e300), dtype: None };
    let error = collector.add(Sample::new().with("x", huge).with("y", 1)).unwrap_err().to_string();
    assert!(error.contains("expected float32"), "{error}");
    collector.commit(None, None).unwrap();
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    assert_eq!(dataset.get(0).unwrap().view().bytes("z").unwrap(), b"\"a word\"");
    assert_eq!(dataset.column("x").unwrap().to_f64s(), [3.0]);
    assert_eq!(dataset.schema().fields()[3].kind, FieldKind::Image);
    let taken = Collector::open(&folder.path().join("b"), None, CollectOptions::default()).unwrap();
    let error = said(&taken.add(Sample::new().with("image", jpeg(8, 8, 0)).with("width", 3)).unwrap_err());
    assert!(error.contains("\"width\" occurs twice") && error.contains("rename the field"), "{error}");
}

#[test]
fn pixels_are_kept_to_the_bit_or_re_encoded() {
    let pixels = |channels: &[u64]| {
        let shape: Vec<u64> = [20, 30].iter().chain(channels).copied().collect();
        let bytes = noise(shape.iter().product::<u64>() as usize, 3);
        Array::new(Dtype::U8, shape, bytes).unwrap()
    };
    for (channels, color) in
        [(&[][..], png::ColorType::Grayscale), (&[1], png::ColorType::Grayscale), (&[3], png::ColorType::Rgb)]
    {
        let folder = tempfile::tempdir().unwrap();
        let collector = open(&folder, CollectOptions::default());
        collector.add(Sample::new().with("image", pixels(channels))).unwrap();
        collector.commit(None, None).unwrap();
        let dataset = Dataset::open(folder.path().join("out")).unwrap();
        let sample = dataset.get(0).unwrap();
        let image = sample.image("image").unwrap();
        assert_eq!(image.media_type, "image/png");
        let mut reader = png::Decoder::new(std::io::Cursor::new(image.bytes)).read_info().unwrap();
        let mut decoded = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut decoded).unwrap();
        assert_eq!((reader.info().color_type, &decoded[..]), (color, pixels(channels).bytes()));
    }
    let folder = tempfile::tempdir().unwrap();
    let pictures =
        PictureOptions::Reencode { how: ReencodeOptions::default(), score: Share::All, keep_metadata: false };
    let options = CollectOptions { pictures, ..CollectOptions::default() };
    let collector = open(&folder, options);
    collector.add(Sample::new().with("image", pixels(&[3]))).unwrap();
    let report = collector.commit(None, None).unwrap();
    assert_eq!(report.report.fidelity["image"]["reencoded"], 1);
    assert_eq!(report.report.fidelity["image"]["quality"]["min"], 90.0);
    assert!(report.report.fidelity["image"]["ssimulacra2"]["min"].as_f64().unwrap() < 100.0);
    let dataset = Dataset::open(folder.path().join("out")).unwrap();
    assert_eq!(dataset.get(0).unwrap().image("image").unwrap().media_type, "image/jpeg");
    // An array with four channels is not accepted as a picture, but a field with a name other than
    // `image` stores it as an array.
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions::default());
    let error = collector.add(Sample::new().with("image", SampleValue::Pixels(pixels(&[4])))).unwrap_err().to_string();
    assert!(error.contains("[height, width, 3]), found an array of uint8 with shape [20, 30, 4]"), "{error}");
}

#[test]
fn arrays_that_are_no_cubes_lose_nothing_unless_asked() {
    let write = |values| {
        let folder = tempfile::tempdir().unwrap();
        let arrays = ArrayOptions { values, ..Default::default() };
        let collector = open(&folder, CollectOptions { arrays, ..Default::default() });
        let sample = Sample::new().with("boxes", floats(&[9, 4], 1)).with("cube", floats(&[9, 4, 2], 1));
        collector.add(sample).unwrap();
        let fidelity = collector.commit(None, None).unwrap().report.fidelity;
        ["boxes", "cube"].map(|field| fidelity[field]["changed"].as_u64().unwrap() > 0)
    };
    assert_eq!(write(Values::Auto), [false, true]);
    assert_eq!(write(Values::F16), [true, true]);
    assert_eq!(write(Values::Keep), [false, false]);
}

#[test]
fn empty_masks_do_not_choose_the_codec() {
    let folder = tempfile::tempdir().unwrap();
    let collector = open(&folder, CollectOptions::default());
    let mask = |bytes: Vec<u8>| Array::new(Dtype::U8, vec![64, 64], bytes).unwrap();
    for _ in 0..3 {
        collector.add(Sample::new().with("mask", mask(vec![0; 4096]))).unwrap();
    }
    let layout = lock(&collector.layout).clone().unwrap();
    let layout::FieldEncoder::Array(_, choice) = &layout.fields[0].encoder else { panic!() };
    let chosen = || choice.chosen().unwrap().1;
    let first = chosen();
    collector.add(Sample::new().with("mask", mask(noise(4096, 1)))).unwrap();
    assert_ne!(chosen().table, first.table, "tried again on the first that says anything");
    let second = chosen();
    collector.add(Sample::new().with("mask", mask(vec![7; 4096]))).unwrap();
    assert_eq!(chosen(), second);
    assert_eq!(collector.commit(None, None).unwrap().trials[0].1, second);
}

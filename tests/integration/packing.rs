//! Tests packing as a library: errors that stop a run, skipped files, and results that do not depend on the number of
//! threads.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::making::{contents, cube, run, write_cubes, write_npy};
use shardpack_array::Array;
use shardpack_format::{Dtype, Voice};
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::{Jpeg, PictureOptions};
use shardpack_sources::{OnBadInput, SourceOptions};
use std::fs;
use std::path::Path;

fn skipping(source: SourceOptions) -> PackOptions {
    PackOptions { source: SourceOptions { on_bad_input: OnBadInput::Skip, ..source }, ..PackOptions::default() }
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .collect();
    out.sort();
    out
}

#[test]
fn a_bad_file_stops_the_run_before_it_starts_or_is_left_out() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, out) = (scratch.path().join("src"), scratch.path().join("out"));
    write_cubes(&src, 4);
    let whole = fs::read(src.join("cube1.npy")).unwrap();
    fs::write(src.join("cube1.npy"), &whole[..whole.len() - 7]).unwrap();

    let error = run(&src, &out, &PackOptions::default()).unwrap_err();
    assert!(error.to_string().contains("cube1.npy"), "{error:#}");
    assert!(!out.exists());

    let report = run(&src, &out, &skipping(SourceOptions::default())).unwrap();
    assert_eq!((report.report.samples, report.bad.len(), report.bad[0].key.as_str()), (3, 1, "cube1.npy"));
    let keys: Vec<String> = contents(&out).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["cube0.npy", "cube2.npy", "cube3.npy"]);
}

/// A JPEG with odd markers is decoded even if it is kept unchanged. If decoding succeeds, it is stored and named in a
/// note. Otherwise it is bad input.
#[test]
fn odd_pictures_are_named_and_damaged_ones_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, out) = (scratch.path().join("src"), scratch.path().join("out"));
    fs::create_dir(&src).unwrap();
    let whole = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/jpeg/testdata/tiles.jpg")).unwrap();
    let marker = whole.windows(2).position(|pair| pair == [0xFF, 0xD2]).unwrap();
    let swapped = [&whole[..marker], &[0xFF, 0xD5], &whole[marker + 2..]].concat();
    let cut = [&whole[..marker], &[0xFF, 0xD9]].concat();
    // One picture has bytes between two header segments, and the other has zeros before the end.
    let stray = [&whole[..20], b"odd", &whole[20..]].concat();
    let late = [&whole[..whole.len() - 2], &[0; 40], b"\xFF\xD9"].concat();
    let all = [("a", &whole), ("b", &swapped), ("c", &stray), ("d", &cut), ("e", &late)];
    for (name, bytes) in all {
        fs::write(src.join(name).with_extension("jpg"), bytes).unwrap();
    }
    for jpeg in [Jpeg::Keep, Jpeg::Tile] {
        let pictures = PictureOptions::of(jpeg);
        let error = run(&src, &out, &PackOptions { pictures: pictures.clone(), ..PackOptions::default() }).unwrap_err();
        assert!(error.to_string().contains(".jpg`: cannot decode the picture: "), "{error:#}");
        let report = run(&src, &out, &PackOptions { pictures, ..skipping(SourceOptions::default()) }).unwrap();
        let mut skipped: Vec<_> = report.report.skipped.iter().map(|skipped| skipped.key.as_str()).collect();
        skipped.sort_unstable();
        assert_eq!(skipped, ["b.jpg", "d.jpg"], "{jpeg:?}");
        let named: Vec<_> = report.odd_pictures.iter().map(|d| d.key.as_str()).collect();
        // `e.jpg` is not named: the zeros before its end count as picture data, not as bytes between markers.
        assert_eq!(named, ["c.jpg"], "{jpeg:?}");
        assert_eq!(report.to_json()["odd_pictures"].as_array().unwrap().len(), named.len());
        let dataset = shardpack_reader::Dataset::open(&out).unwrap();
        let pixels: Vec<_> = (0..3).map(|at| dataset.get(at).unwrap().pixels("image").unwrap()).collect();
        assert!(pixels[1] == pixels[0] && pixels[2] == pixels[0], "{jpeg:?}");
        fs::remove_dir_all(&out).unwrap();
    }
}

/// Packing decodes pictures other than JPEGs once, just as the loader does, and refuses those that fail.
#[test]
fn pictures_that_cannot_be_loaded_are_bad_input() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, out) = (scratch.path().join("src"), scratch.path().join("out"));
    fs::create_dir(&src).unwrap();
    // A TIFF of 2 × 2 palette pixels in one strip. It has tags for the width, height, bits, compression,
    // colours, strip and palette.
    let tiff = |compression: u16| {
        let mut out = b"II\x2a\0\x0c\0\0\0\0\x01\x01\0".to_vec();
        let entries: [(u16, u16, u32, u32); 9] = [
            (256, 3, 1, 2),
            (257, 3, 1, 2),
            (258, 3, 1, 8),
            (259, 3, 1, compression.into()),
            (262, 3, 1, 3),
            (273, 4, 1, 8),
            (277, 3, 1, 1),
            (279, 4, 1, 4),
            (320, 3, 768, 12 + 2 + 9 * 12 + 4),
        ];
        out.extend(9_u16.to_le_bytes());
        for (tag, kind, count, value) in entries {
            out.extend(tag.to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend(count.to_le_bytes());
            out.extend(value.to_le_bytes());
        }
        out.extend([0; 4]);
        let level = |channel: u16, index: u16| if index == 1 { 256 * (channel + 1) } else { 0 };
        out.extend((0..3).flat_map(|channel| (0..256).flat_map(move |index| level(channel, index).to_le_bytes())));
        out
    };
    fs::write(src.join("a.tif"), tiff(1)).unwrap();
    fs::write(src.join("b.tif"), tiff(34887)).unwrap();
    let error = run(&src, &out, &PackOptions::default()).unwrap_err();
    assert!(error.to_string().contains("sample `b.tif`: cannot decode the picture: TIFF compression"), "{error:#}");
    let report = run(&src, &out, &skipping(SourceOptions::default())).unwrap();
    let skipped = &report.report.skipped;
    assert_eq!((report.report.samples, skipped.len()), (1, 1));
    assert!(skipped[0].reason.contains("34887 (LERC)"), "{}", skipped[0].reason);
    let sample = shardpack_reader::Dataset::open(&out).unwrap().get(0).unwrap();
    assert_eq!(sample.pixels("image").unwrap().bytes(), [0, 0, 0, 1, 2, 3, 1, 2, 3, 0, 0, 0]);
}

#[test]
fn a_cube_is_left_out_with_its_bad_mask() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, masks) = (scratch.path().join("src"), scratch.path().join("masks"));
    write_cubes(&src, 3);
    for i in 0..3 {
        let (height, width) = if i == 1 { (5, 6) } else { (6, 5) };
        let mask = Array::new(Dtype::U8, vec![height, width], vec![i; 30]).unwrap();
        write_npy(&masks.join(format!("cube{i}.npy")), &mask);
    }
    let source = SourceOptions { masks: Some(masks), ..SourceOptions::default() };
    let options = PackOptions { source: source.clone(), ..PackOptions::default() };
    let error = run(&src, &scratch.path().join("stopped"), &options).unwrap_err();
    assert!(error.to_string().contains("6 × 5"), "{error:#}");

    let out = scratch.path().join("out");
    let report = run(&src, &out, &skipping(source)).unwrap();
    assert_eq!(report.report.samples, 2);
    let left_out: Vec<&str> = report.bad.iter().map(|bad| bad.key.as_str()).collect();
    let skipped: Vec<&str> = report.report.skipped.iter().map(|skipped| skipped.key.as_str()).collect();
    assert!([left_out, skipped].concat().iter().any(|key| key.contains("cube1.npy")));
    assert_eq!(contents(&out).len(), 2);
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let src = scratch.path().join("src");
    write_cubes(&src, 5);
    let pack = |threads: usize| {
        let out = scratch.path().join(threads.to_string());
        run(&src, &out, &PackOptions { threads, shard_bytes: 2000, ..PackOptions::default() }).unwrap();
        files(&out)
    };
    let one = pack(1);
    assert!(one.iter().filter(|(name, _)| name.ends_with(".shard")).count() > 1);
    assert_eq!(one, pack(3));
}

#[test]
fn options_without_meaning_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let src = scratch.path().join("src");
    write_cubes(&src, 1);
    for out in [src.clone(), src.join("below"), scratch.path().to_owned()] {
        let error = run(&src, &out, &PackOptions::default()).unwrap_err();
        assert!(error.to_string().contains("overlaps the source"), "{error}");
    }
    assert_eq!(files(&src).len(), 1);

    // First no error bound is given. Then it is too small for values of about 1e38.
    let out = scratch.path().join("out");
    let mut options = PackOptions::default();
    options.arrays.values = shardpack_array::Values::Fixed;
    let error = shardpack::explain::explain(&run(&src, &out, &options).unwrap_err(), Voice::Command);
    assert!(
        error.ends_with("fixed-point values need a maximum error\nhint: set `--max-error E`, in the units of the data"),
        "{error}"
    );
    let huge = cube(0);
    let bytes = huge.bytes().chunks(8).flat_map(|_| [3e38_f32, -3e38].map(f32::to_le_bytes)).flatten().collect();
    write_npy(&src.join("cube0.npy"), &Array::new(Dtype::F32, huge.shape().to_vec(), bytes).unwrap());
    options.arrays.max_error = Some(1e-3);
    let error = shardpack::explain::explain(&run(&src, &out, &options).unwrap_err(), Voice::Command);
    assert!(error.contains("\nhint: ") && !error.contains("inf"), "{error}");
}

use super::testing::{Jpeg, bmp, npy, npy_of, png, put, said, shared_data, tiff, told as notes, webp};
use super::*;
use shardpack_format::Dtype;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::{TempDir, tempdir};

fn jpeg() -> Vec<u8> {
    Jpeg::default().bytes()
}

fn tree(files: &[(&str, Vec<u8>)]) -> TempDir {
    let root = tempdir().unwrap();
    for (path, bytes) in files {
        put(root.path(), path, bytes);
    }
    root
}

fn skip() -> SourceOptions {
    SourceOptions { on_bad_input: OnBadInput::Skip, ..SourceOptions::default() }
}

fn list(root: &TempDir) -> Listing {
    enumerate(root.path(), &SourceOptions::default()).unwrap()
}

fn keys(listing: &Listing) -> Vec<&str> {
    listing.samples.iter().map(|sample| sample.key.as_str()).collect()
}

fn bad(list: &[BadInput]) -> Vec<(&str, BadKind)> {
    list.iter().map(|bad| (bad.key.as_str(), bad.kind)).collect()
}

#[test]
fn class_folders_of_pictures() {
    let root = tree(&[
        ("dog/1.jpg", jpeg()),
        ("cat/2.png", png(2, 3)),
        ("cat/in/3.bmp", bmp(2, 2)),
        ("eel/4", tiff(3, 8, 1, 1)),
    ]);
    fs::create_dir(root.path().join("ant")).unwrap();
    let listing = list(&root);
    assert_eq!(listing.kind, SourceKind::Images);
    assert_eq!(keys(&listing), ["cat/2.png", "cat/in/3.bmp", "dog/1.jpg", "eel/4"]);
    assert_eq!(listing.classes, ["ant", "cat", "dog", "eel"]);
    assert_eq!(listing.samples.iter().map(|sample| sample.class.unwrap()).collect::<Vec<_>>(), [1, 1, 2, 3]);
    assert_eq!(notes(&listing), ["1 of 4 class folders has no samples, but still counts as a class: `ant`"]);
    assert!(
        matches!(listing.samples[0].content, SampleContent::Picture(picture) if (picture.width, picture.height) == (2, 3))
    );
    assert_eq!(
        listing.source_bytes(),
        (jpeg().len() + png(2, 3).len() + bmp(2, 2).len() + tiff(3, 8, 1, 1).len()) as u64
    );
}

#[test]
fn a_flat_folder_has_no_labels() {
    let listing = list(&tree(&[("b.jpg", jpeg()), ("a.jpg", jpeg())]));
    assert_eq!(keys(&listing), ["a.jpg", "b.jpg"]);
    assert!(listing.classes.is_empty() && listing.samples.iter().all(|sample| sample.class.is_none()));
}

#[test]
fn content_counts_not_the_name() {
    let listing =
        list(&tree(&[("a.jpg", png(1, 1)), ("b.txt", jpeg()), ("c", webp(b"VP8X", &[0, 0, 0, 0, 4, 0, 0, 6, 0, 0]))]));
    let types: Vec<_> = listing
        .samples
        .iter()
        .map(|sample| match sample.content {
            SampleContent::Picture(picture) => picture.media_type,
            SampleContent::Cube(_) => "cube",
        })
        .collect();
    assert_eq!(types, ["image/png", "image/jpeg", "image/webp"]);
}

#[test]
fn bad_input_stops_with_the_complete_list() {
    let files = [
        ("a/good.jpg", jpeg()),
        ("a/cut.jpg", jpeg()[..jpeg().len() - 2].to_vec()),
        ("a/anim.gif", b"GIF89a\x01\0".to_vec()),
        ("b/notes.bin", b"hello world".to_vec()),
        ("b/empty.png", vec![]),
        ("b/.DS_Store", b"x".to_vec()),
    ];
    let root = tree(&files);
    let error = enumerate(root.path(), &SourceOptions::default()).unwrap_err();
    let SourceError::BadInputs(stopped) = error else { panic!("{error}") };
    let expected = [
        ("a/anim.gif", BadKind::Unsupported),
        ("a/cut.jpg", BadKind::Damaged),
        ("b/empty.png", BadKind::Empty),
        ("b/notes.bin", BadKind::Unknown),
    ];
    assert_eq!((bad(&stopped.list), stopped.of), (expected.to_vec(), 5));
    assert!(stopped.to_string().starts_with(
        "4 of 5 files cannot be packed:\n  `a/anim.gif`: GIF pictures are not supported: convert the picture to PNG\n"
    ));

    let listing = enumerate(root.path(), &skip()).unwrap();
    assert_eq!((keys(&listing), bad(&listing.bad), listing.ignored), (vec!["a/good.jpg"], expected.to_vec(), 1));
    assert_eq!(listing.classes, ["a", "b"], "skipping does not renumber the classes");
}

#[test]
fn files_next_to_samples_are_ignored_and_named() {
    let files = [
        ("a/1.jpg", jpeg()),
        ("a/1.txt", b"0 0.5 0.5 0.1 0.1".to_vec()),
        ("a/2.jpg", jpeg()),
        ("a/2.txt", vec![]),
        ("README", b"hello".to_vec()),
        ("instances.json", b"{}".to_vec()),
        ("labels.csv", b"key,label".to_vec()),
        // The content decides what is a sample, not the name. The first file is a sample, and the second is not.
        ("b/picture.txt", jpeg()),
        ("b/3.jpg", b"hello".to_vec()),
    ];
    let root = tree(&files);
    let listing = enumerate(root.path(), &skip()).unwrap();
    assert_eq!(keys(&listing), ["a/1.jpg", "a/2.jpg", "b/picture.txt"]);
    assert_eq!((bad(&listing.bad), listing.ignored), (vec![("b/3.jpg", BadKind::Unknown)], 5));
    let note = "ignored 5 files that are not samples: `labels.csv`, `instances.json`, 2 `.txt` files (first: \
                `a/1.txt`), `README`\n\
                hint: pass `--labels FILE` to read labels from a table";
    assert!(notes(&listing).iter().any(|found| found == note), "{:?}", listing.notes);
    // Text files neither stop the listing nor turn their folder into a class.
    let root = tree(&[("a/1.jpg", jpeg()), ("b/2.jpg", jpeg()), ("notes/all.md", b"#".to_vec())]);
    let listing = list(&root);
    assert_eq!((keys(&listing), listing.ignored), (vec!["a/1.jpg", "b/2.jpg"], 1));
    // A source that contains only text files is an error.
    let error = enumerate(tree(&[("a.txt", b"x".to_vec())]).path(), &SourceOptions::default()).unwrap_err();
    assert!(matches!(error, SourceError::BadInputs(_)), "{error}");
}

#[test]
fn nothing_to_pack_is_an_error() {
    let text = |files: &[(&str, Vec<u8>)]| enumerate(tree(files).path(), &skip()).unwrap_err().to_string();
    assert!(text(&[]).ends_with("contains no samples: 0 files examined, 0 unusable, 0 ignored"));
    assert!(text(&[(".x", vec![1]), ("y", b"text".to_vec())]).ends_with(
        "contains no samples: 1 file examined, 1 unusable, 1 ignored\n\
         first unusable file: `y`: neither a picture nor a cube: the file begins with `text`"
    ));
}

#[test]
fn pictures_and_cubes_do_not_mix() {
    let root =
        tree(&[("a.jpg", jpeg()), ("b.npy", npy()), ("c.tif", tiff(224, 32, 3, 1)), ("d.tif", tiff(3, 8, 1, 1))]);
    let error = said(&enumerate(root.path(), &SourceOptions::default()).unwrap_err());
    assert!(error.contains("2 pictures (first: `a.jpg`), 2 cubes (first: `b.npy`)\nhint: "), "{error}");
    let one = enumerate(tree(&[("a.jpg", jpeg()), ("b.npy", npy())]).path(), &SourceOptions::default()).unwrap_err();
    assert!(said(&one).contains("1 picture (first: `a.jpg`), 1 cube (first: `b.npy`)\nhint: "), "{one}");
    // The user decides whether an 8-bit RGB TIFF is a picture or a cube.
    for (kind, samples, others) in [
        (SourceKind::Images, ["a.jpg", "d.tif"].as_slice(), ["b.npy", "c.tif"].as_slice()),
        (SourceKind::Cubes, &["b.npy", "c.tif", "d.tif"], &["a.jpg"]),
    ] {
        let listing = enumerate(root.path(), &SourceOptions { kind: Some(kind), ..skip() }).unwrap();
        assert_eq!((keys(&listing), listing.kind), (samples.to_vec(), kind));
        assert_eq!(bad(&listing.bad), others.iter().map(|&key| (key, BadKind::WrongKind)).collect::<Vec<_>>());
        assert!(listing.bad[0].detail.starts_with(if kind == SourceKind::Images {
            "expected a picture, found a cube"
        } else {
            "expected a cube, found a picture (image/jpeg, 33 × 17)"
        }));
    }
}

#[test]
fn tables_give_labels_and_columns() {
    let root = tree(&[
        ("x/1.jpg", jpeg()),
        ("y/2.jpg", jpeg()),
        ("y/bad.gif", b"GIF89a".to_vec()),
        ("labels.csv", b"key,label,age\ny/2.jpg,cat,7\nx/1.jpg,dog,8\ny/bad.gif,cat,9\n".to_vec()),
        ("ages.csv", b"key,age\ny/2.jpg,7\nx/1.jpg,8\ny/bad.gif,9\n".to_vec()),
    ]);
    let with =
        |name: &str| enumerate(root.path(), &SourceOptions { labels: Some(root.path().join(name)), ..skip() }).unwrap();
    let listing = with("labels.csv");
    assert_eq!(listing.classes, ["cat", "dog"]);
    assert_eq!(listing.samples.iter().map(|sample| sample.class.unwrap()).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(listing.columns, [TableColumn { name: "age".into(), values: ColumnValues::Int(vec![8, 7]) }]);
    assert_eq!(bad(&listing.bad), [("y/bad.gif", BadKind::Unsupported)], "the table itself is no input");
    let note = "ignored 1 file that is not a sample: `ages.csv`";
    assert!(notes(&listing).iter().any(|found| found == note), "the other table is: {:?}", listing.notes);
    // If the table has no labels, folder names are used.
    let listing = with("ages.csv");
    assert_eq!((listing.classes, listing.columns.len()), (vec!["x".to_owned(), "y".to_owned()], 1));
}

#[test]
fn headers_claim_their_data() {
    // A data file may start like a picture.
    let header = "ENVI\nsamples = 4\nlines = 2\nbands = 2\ndata type = 1\ninterleave = bil\n";
    let root =
        tree(&[("a.hdr", header.into()), ("a.raw", b"BM not a picture".to_vec()), ("b.raw", b"no header".to_vec())]);
    let listing = enumerate(root.path(), &skip()).unwrap();
    assert_eq!((keys(&listing), bad(&listing.bad)), (vec!["a.hdr"], vec![("b.raw", BadKind::Unknown)]));
    let data = listing.samples[0].data.as_ref().unwrap();
    assert_eq!((data.path.file_name().unwrap().to_str(), data.bytes), (Some("a.raw"), 16));
    assert_eq!(listing.samples[0].source_bytes(), header.len() as u64 + 16);
    assert!(matches!(&listing.samples[0].content, SampleContent::Cube(info) if info.shape == [2, 4, 2]));
    put(root.path(), "c.hdr", header);
    let listing = enumerate(root.path(), &skip()).unwrap();
    let text = listing.bad[1].to_string();
    assert!(text.starts_with("`c.hdr`: found no data file for this ENVI header"), "{text}");
    assert!(text.ends_with("or similar") && text.matches("c.hdr").count() == 1, "{text}");
    // A header given as the source also finds its data file.
    let single = enumerate(&root.path().join("a.hdr"), &SourceOptions::default()).unwrap();
    assert_eq!((keys(&single), single.samples[0].data.as_ref()), (vec!["a.hdr"], Some(data)));
}

#[test]
fn cubes_have_no_class_folders_unless_asked() {
    let root = tree(&[("p1/a.npy", npy()), ("p2/b.npy", npy())]);
    assert!(list(&root).classes.is_empty());
    let asked =
        enumerate(root.path(), &SourceOptions { class_folders: Some(true), ..SourceOptions::default() }).unwrap();
    assert_eq!(asked.classes, ["p1", "p2"]);
}

#[test]
fn side_files_of_rasters_are_ignored() {
    let stack = tiff(224, 32, 3, 1);
    let root = tree(&[
        ("a.tif", stack.clone()),
        ("a.tif.aux.xml", b"<PAM".to_vec()),
        ("a.tif.ovr", stack.clone()),
        ("b.ovr", stack),
    ]);
    let listing = list(&root);
    assert_eq!((keys(&listing), listing.ignored), (vec!["a.tif", "b.ovr"], 2));
}

#[test]
fn the_output_inside_the_source_is_left_out() {
    let root = tree(&[("a.jpg", jpeg()), ("out/shard-00000.shard", b"shard".to_vec())]);
    let listing =
        enumerate(root.path(), &SourceOptions { exclude: Some(root.path().join("out")), ..SourceOptions::default() })
            .unwrap();
    assert_eq!(keys(&listing), ["a.jpg"]);
}

#[test]
fn names_that_cannot_be_keys_are_bad_input() {
    let header = "ENVI\nsamples = 4\nlines = 2\nbands = 2\ndata type = 1\ninterleave = bil\n";
    let root = tree(&[("a.npy", npy()), ("b\n.npy", npy()), ("c\u{85}/d.npy", npy()), ("e\t.bin", b"text".to_vec())]);
    let listing = enumerate(root.path(), &skip()).unwrap();
    let expected = [("b\n.npy", BadKind::Name), ("c\u{85}/d.npy", BadKind::Name), ("e\t.bin", BadKind::Unknown)];
    assert_eq!((keys(&listing), bad(&listing.bad)), (vec!["a.npy"], expected.to_vec()));
    let text = listing.bad[0].to_string();
    assert_eq!(text, r"`b\n.npy`: the path cannot be used as a sample key: expected a key without control characters");
    assert!(matches!(enumerate(root.path(), &SourceOptions::default()), Err(SourceError::BadInputs(_))));
    assert!(listing.samples.iter().all(|sample| shardpack_format::check_key(&sample.key).is_ok()));
    // A single file given as the source is checked in the same way. A header's data file may have any name.
    let single = enumerate(&root.path().join("b\n.npy"), &SourceOptions::default()).unwrap_err();
    assert!(matches!(&single, SourceError::BadInputs(list) if list.list[0].kind == BadKind::Name), "{single}");
    let root = tree(&[("f.hdr", header.into()), ("f.\x07", vec![0; 16])]);
    assert_eq!(keys(&list(&root)), ["f.hdr"]);
}

#[test]
fn complete_but_unreadable_files_are_unsupported() {
    let complex = "ENVI\nsamples = 1\nlines = 1\nbands = 1\ndata type = 6\ninterleave = bil\n";
    let root = tree(&[
        ("a.npy", npy()),
        ("b.npy", npy_of(&[2, 2, 2, 2])),
        ("c.hdr", complex.into()),
        ("d.tif", tiff(5, 12, 1, 1)),
        ("e.npy", npy()[..npy().len() - 1].to_vec()),
    ]);
    let listing = enumerate(root.path(), &skip()).unwrap();
    let unsupported = |key| (key, BadKind::Unsupported);
    let expected = [unsupported("b.npy"), unsupported("c.hdr"), unsupported("d.tif"), ("e.npy", BadKind::Damaged)];
    assert_eq!(bad(&listing.bad), expected);
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn hdf5_is_unsupported_and_not_damaged() {
    let root = tree(&[("a.npy", npy()), ("b.mat", b"\x89HDF\r\n\x1a\n".to_vec())]);
    assert_eq!(bad(&enumerate(root.path(), &skip()).unwrap().bad), [("b.mat", BadKind::Unsupported)]);
}

#[test]
fn listing_can_be_stopped() {
    let root = tree(&[("a.npy", npy()), ("d/b.npy", npy()), ("masks/a.npy", npy_of(&[1, 1]))]);
    let flag = Arc::new(AtomicBool::new(false));
    for masks in [None, Some(root.path().join("masks"))] {
        let options = SourceOptions { cancel: Some(Arc::clone(&flag)), masks, ..skip() };
        flag.store(false, Ordering::Relaxed);
        assert!(enumerate(root.path(), &options).is_ok());
        flag.store(true, Ordering::Relaxed);
        assert!(matches!(enumerate(root.path(), &options), Err(SourceError::Cancelled)));
    }
}

#[test]
fn every_file_of_a_sample_counts_in_its_fingerprint() {
    let header = "ENVI\nsamples = 4\nlines = 2\nbands = 2\ndata type = 1\ninterleave = bil\n";
    let root = tree(&[("a.hdr", header.into()), ("a.raw", vec![0; 16]), ("masks/a.npy", npy_of(&[2, 4]))]);
    let masks = root.path().join("masks");
    let entry = |masks: Option<&Path>| {
        let options = SourceOptions {
            masks: masks.map(Path::to_owned),
            exclude: Some(root.path().join("masks")),
            ..SourceOptions::default()
        };
        enumerate(root.path(), &options).unwrap().samples.remove(0)
    };
    let mut seen = HashSet::from([entry(None).fingerprint_mtime_ns(), entry(Some(&masks)).fingerprint_mtime_ns()]);
    assert_eq!(seen.len(), 2);
    for (i, name) in ["a.hdr", "a.raw", "masks/a.npy"].iter().enumerate() {
        let file = fs::File::options().write(true).open(root.path().join(name)).unwrap();
        // An older time also counts as a change, because files from archives keep their old times.
        for seconds in [1000, 1_000_000_000 + i as u64] {
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
            assert!(seen.insert(entry(Some(&masks)).fingerprint_mtime_ns()), "{name}");
        }
    }
    let one = tree(&[("a.npy", npy())]);
    let listing = list(&one);
    assert_eq!(listing.samples[0].fingerprint_mtime_ns(), listing.samples[0].mtime_ns);
}

#[test]
fn a_source_that_changes_is_noticed() {
    let root = tree(&[("a.jpg", jpeg()), ("b.jpg", jpeg())]);
    let listing = list(&root);
    let [a, b] = [0, 1].map(|i| &listing.samples[i]);
    let mut bytes = vec![0; jpeg().len()];
    listing.read_into(a, &mut bytes).unwrap();
    assert_eq!(bytes, jpeg());
    listing.check_unchanged(b).unwrap();
    // One file gets a new time. The other file gets a new length but keeps its time.
    let modified = fs::metadata(listing.path(b)).unwrap().modified().unwrap();
    fs::File::options()
        .write(true)
        .open(listing.path(a))
        .unwrap()
        .set_modified(modified + std::time::Duration::from_nanos(1))
        .unwrap();
    put(root.path(), "b.jpg", [jpeg(), vec![0]].concat());
    fs::File::options().write(true).open(listing.path(b)).unwrap().set_modified(modified).unwrap();
    for entry in [a, b] {
        assert!(matches!(
            listing.read_into(entry, &mut vec![0; usize::try_from(entry.bytes).unwrap()]),
            Err(SourceError::Changed { .. })
        ));
        assert!(matches!(listing.check_unchanged(entry), Err(SourceError::Changed { .. })));
    }
    fs::remove_file(listing.path(a)).unwrap();
    assert!(matches!(listing.read_into(a, &mut bytes), Err(SourceError::Io { .. })));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let files: Vec<_> =
        (0..200).map(|i| (format!("{}/{i}", i % 9), if i % 7 == 0 { b"bad".to_vec() } else { jpeg() })).collect();
    let root = tempdir().unwrap();
    files.iter().for_each(|(path, bytes)| put(root.path(), path, bytes));
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| enumerate(root.path(), &skip()).unwrap())
    };
    assert_eq!(on(1), on(7));
}

#[test]
fn a_thousand_photos() {
    let Some(data) = shared_data() else { return };
    let listing = enumerate(&data.join("imagenet-sample"), &SourceOptions::default()).unwrap();
    assert_eq!((listing.kind, listing.samples.len(), listing.classes.len()), (SourceKind::Images, 1000, 1000));
    assert!(listing.samples.iter().enumerate().all(|(i, sample)| sample.class == u32::try_from(i).ok()));
    assert!(listing.notes.is_empty() && listing.bad.is_empty());
}

#[test]
fn pictures_of_16_bits_are_arrays_unless_others_have_8() {
    let deep = || {
        let mut out = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut out, 4, 3);
        encoder.set_color(::png::ColorType::Rgb);
        encoder.set_depth(::png::BitDepth::Sixteen);
        encoder.write_header().unwrap().write_image_data(&[7; 4 * 3 * 6]).unwrap();
        out
    };
    let root = tree(&[("cat/a.png", deep()), ("dog/b.png", deep()), ("dog/c.tif", tiff(1, 16, 1, 1))]);
    let listing = |kind| enumerate(root.path(), &SourceOptions { kind, ..SourceOptions::default() }).unwrap();
    let arrays = listing(None);
    assert_eq!((arrays.kind, arrays.classes.len()), (SourceKind::Cubes, 2));
    let SampleContent::Cube(info) = &arrays.samples[0].content else { panic!("a picture") };
    assert_eq!((info.dtype, info.shape), (Dtype::U16, [3, 4, 3]));
    let told = "2 PNG pictures with 16 bits per sample are packed as uint16 arrays [height, width, channels] in the field \
                `cube` (first: `cat/a.png`)\n\
                hint: pass `--kind images` to store the PNG files unchanged; loaders then decode them to 8 bits";
    assert_eq!(notes(&arrays), [told]);
    assert_eq!(listing(Some(SourceKind::Cubes)).classes.len(), 0, "folders of cubes are no classes");
    assert_eq!(listing(Some(SourceKind::Images)).kind, SourceKind::Images);

    // These 16-bit PNGs may be masks, because there are cubes in another format. The kind of the
    // source is therefore unclear.
    put(root.path(), "dog/e.npy", npy());
    assert!(matches!(enumerate(root.path(), &SourceOptions::default()), Err(SourceError::Mixed { .. })));
    std::fs::remove_file(root.path().join("dog/e.npy")).unwrap();

    put(root.path(), "dog/d.jpg", jpeg());
    std::fs::remove_file(root.path().join("dog/c.tif")).unwrap();
    let among = listing(None);
    assert_eq!(among.kind, SourceKind::Images);
    assert!(among.notes[0].text.starts_with("2 pictures have more than 8 bits per channel"), "{:?}", among.notes);
    let cubes = SourceOptions { kind: Some(SourceKind::Cubes), ..SourceOptions::default() };
    let error = enumerate(root.path(), &cubes).unwrap_err().to_string();
    assert!(error.contains("`dog/d.jpg`: expected a cube, found a picture"), "{error}");
    // A preview next to cubes is not a sample.
    put(root.path(), "dog/d.jpg", png(4, 3));
    let error = enumerate(root.path(), &cubes).unwrap_err().to_string();
    assert!(error.contains("`dog/d.jpg`: expected a cube, found a picture"), "{error}");
}

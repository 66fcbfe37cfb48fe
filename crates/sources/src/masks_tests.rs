use super::*;
use crate::testing::{Jpeg, bmp, exif, npy, npy_of, png, put, tiff};
use crate::{OnBadInput, SourceError, SourceOptions, enumerate};

fn pair(masks: &[&str], samples: &[(&str, Option<&str>)]) -> (Vec<Result<String, String>>, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    for key in masks {
        put(folder.path(), key, if key.ends_with("txt") { b"text".to_vec() } else { npy() });
    }
    let samples: Vec<_> = samples.iter().map(|&(key, data)| MaskedSample { key, data }).collect();
    let paired =
        Masks::list(folder.path(), Path::new("elsewhere"), &Files::default(), Follow::Inside, Cancel::default())
            .unwrap()
            .pair(&samples);
    let root = std::fs::canonicalize(folder.path()).unwrap();
    let name = |file: SideFile| file.path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    (paired.masks.into_iter().map(|mask| mask.map(name).map_err(|flaw| flaw.detail)).collect(), paired.note)
}

#[test]
fn pairs_by_path_then_by_name() {
    let (masks, note) = pair(
        &["a/x.npy", "b/x.npy", "deep/er/y.npy", "z.tif.npy", "cube.npy"],
        &[
            ("a/x.tif", None),
            ("b/x.tif", None),
            ("other/y.tif", None),
            ("z.tif", None),
            ("cube.img.hdr", Some("cube.img")),
        ],
    );
    let masks: Vec<_> = masks.into_iter().map(Result::unwrap).collect();
    assert_eq!(masks, ["a/x.npy", "b/x.npy", "deep/er/y.npy", "z.tif.npy", "cube.npy"]);
    assert_eq!(note, None);
}

#[test]
fn no_mask_or_two_are_flaws() {
    let (masks, note) = pair(
        &["a.npy", "a.png", "a.txt", "x/b.npy", "y/b.npy", "c.npy", "lonely.npy"],
        &[("a.tif", None), ("b.tif", None), ("p/c.tif", None), ("q/c.tif", None), ("d.tif", None)],
    );
    let flaws: Vec<_> = masks.into_iter().map(Result::unwrap_err).collect();
    assert_eq!(
        flaws,
        [
            "expected one mask, found 2: `a.npy`, `a.png`",
            "expected one mask, found 2: `x/b.npy`, `y/b.npy`",
            "there is no mask `p/c.*`, and the mask named `c` could belong to any of 2 samples with this name",
            "there is no mask `q/c.*`, and the mask named `c` could belong to any of 2 samples with this name",
            "there is no mask `d.*`",
        ]
    );
    assert_eq!(note.unwrap(), "6 of 6 masks belong to no sample (first: `a.npy`)");
}

#[test]
fn one_mask_is_no_masks() {
    assert_eq!(pair(&["a.npy"], &[]).1.unwrap(), "1 of 1 mask belongs to no sample (first: `a.npy`)");
}

#[test]
fn stems() {
    for (key, expected) in [("a.b/c", "a.b/c"), ("a.b/c.d", "a.b/c"), ("c.d.e", "c.d"), (".c", ".c"), ("a/.c", "a/.c")]
    {
        assert_eq!(stem(key), expected);
    }
}

#[test]
fn content_decides_what_a_mask_is() {
    let folder = tempfile::tempdir().unwrap();
    // MATLAB version 4 has no magic number. The fields of its header are type, rows, columns, imaginary flag,
    // and length of the name.
    let words = [50_u32, 1, 2, 0, 2].map(u32::to_le_bytes).concat();
    let mat = [&words[..], b"m\0", &[0, 1]].concat();
    for (name, bytes, expected) in [
        ("a.txt", png(1, 1), true),
        ("b.png", b"no".to_vec(), false),
        ("c", npy(), true),
        ("d.mat", mat.clone(), true),
        ("e.mat", mat[..mat.len() - 1].to_vec(), false),
    ] {
        put(folder.path(), name, &bytes);
        assert_eq!(is_mask(&Files::default(), &folder.path().join(name), bytes.len() as u64), expected, "{name}");
    }
}

fn options(root: &Path, on_bad_input: OnBadInput) -> SourceOptions {
    SourceOptions { masks: Some(root.join("masks")), on_bad_input, ..SourceOptions::default() }
}

#[test]
fn masks_are_found_below_the_source_and_missing_ones_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for key in ["a.npy", "c.npy"] {
        put(root, key, npy());
    }
    put(root, "d/b.tif", tiff(5, 8, 1, 1));
    put(root, "masks/a.npy", npy_of(&[1, 1]));
    put(root, "masks/d/b.tif", tiff(1, 8, 1, 1));
    let error = enumerate(root, &options(root, OnBadInput::Stop)).unwrap_err();
    assert!(error.to_string().contains("`c.npy`: there is no mask `c.*`"), "{error}");
    let listing = enumerate(root, &options(root, OnBadInput::Skip)).unwrap();
    let keys: Vec<_> = listing.samples.iter().map(|sample| sample.key.as_str()).collect();
    assert_eq!(keys, ["a.npy", "d/b.tif"]);
    let mask = listing.samples[1].mask.as_ref().unwrap();
    assert!(mask.path.ends_with("masks/d/b.tif") && mask.bytes == tiff(1, 8, 1, 1).len() as u64);
    assert_eq!(
        listing.bad.iter().map(|bad| (bad.key.as_str(), bad.kind)).collect::<Vec<_>>(),
        [("c.npy", BadKind::Mask)]
    );
}

#[test]
fn a_mask_in_another_format_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for key in ["a.npy", "b.npy", "d/c.npy"] {
        put(root, key, npy());
    }
    put(root, "masks/a.npy", npy_of(&[1, 1]));
    put(root, "masks/b.bmp", bmp(1, 1));
    put(root, "masks/elsewhere/c.jpg", Jpeg::default().bytes());
    let error = enumerate(root, &options(root, OnBadInput::Stop)).unwrap_err().to_string();
    for found in ["b.bmp", "elsewhere/c.jpg"] {
        let told = format!("the mask `{found}` is not a PNG, NumPy, Blosc2, TIFF, MATLAB or HDF5 file");
        assert!(error.contains(&told), "{error}");
    }
}

#[test]
fn masks_that_do_not_fit_are_all_listed_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let cut = npy_of(&[3, 4]);
    let mut broken = png(4, 3);
    broken[29] ^= 1;
    for (key, mask) in [
        ("cut.npy", cut[..cut.len() - 1].to_vec()),
        ("good.npy", npy_of(&[3, 4])),
        ("broken.png", broken),
        ("turned.npy", npy_of(&[4, 3])),
        ("bands.npy", npy_of(&[3, 4, 2])),
    ] {
        let key = key.split_once('.').unwrap().0;
        put(root, &format!("{key}.npy"), npy_of(&[3, 4, 5]));
        put(root, &format!("masks/{key}"), mask);
    }
    let error = enumerate(root, &options(root, OnBadInput::Stop)).unwrap_err();
    let SourceError::BadInputs(bad) = &error else { panic!("{error}") };
    let masks = std::fs::canonicalize(root.join("masks")).unwrap();
    let text = |key: &str| {
        let bad = bad.list.iter().find(|bad| bad.key == format!("{key}.npy")).unwrap();
        assert_eq!(bad.kind, BadKind::Mask);
        bad.to_string().replace(&format!("{}/", masks.display()), "")
    };
    assert_eq!(bad.list.len(), 4, "{error}");
    assert_eq!(text("turned"), "`turned.npy`: mask `turned` has 4 × 3 pixels, but the cube has 3 × 4");
    assert_eq!(
        text("bands"),
        "`bands.npy`: mask `bands`: a label mask must have one band, but this one has shape [3, 4, 2]"
    );
    assert!(text("broken").starts_with("`broken.npy`: mask `broken`: cannot decode the PNG: "), "{}", text("broken"));
    assert!(text("cut").starts_with("`cut.npy`: mask `cut`: the npy file has "), "{}", text("cut"));
    let listing = enumerate(root, &options(root, OnBadInput::Skip)).unwrap();
    assert_eq!((listing.samples.len(), listing.samples[0].key.as_str(), listing.bad.len()), (1, "good.npy", 4));
}

#[test]
fn masks_of_pictures_have_their_upright_size() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let turned = Jpeg { segments: vec![(0xE1, exif(6, true))], ..Jpeg::default() };
    put(root, "a.jpg", Jpeg::default().bytes());
    put(root, "turned.jpg", turned.bytes());
    put(root, "wrong.jpg", turned.bytes());
    put(root, "masks/a.npy", npy_of(&[17, 33]));
    put(root, "masks/turned.npy", npy_of(&[33, 17]));
    put(root, "masks/wrong.npy", npy_of(&[17, 33]));
    let listing = enumerate(root, &options(root, OnBadInput::Skip)).unwrap();
    let keys: Vec<_> = listing.samples.iter().map(|sample| (sample.key.as_str(), sample.mask.is_some())).collect();
    assert_eq!(keys, [("a.jpg", true), ("turned.jpg", true)]);
    let told = listing.bad[0].to_string();
    assert!(told.ends_with("has 17 × 33 pixels, but the upright picture has 33 × 17"), "{told}");
}

#[test]
fn masks_next_to_pictures_come_from_an_unpacked_dataset() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.jpg", Jpeg::default().bytes());
    put(folder.path(), "a.jpg.mask.npy", npy_of(&[17, 33]));
    let listing = enumerate(folder.path(), &SourceOptions::default()).unwrap();
    assert_eq!((listing.samples.len(), listing.samples[0].mask.is_some()), (1, true));
}

#[test]
fn masks_that_are_links_or_pipes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("masks")).unwrap();
    std::fs::write(folder.path().join("elsewhere"), "x").unwrap();
    std::os::unix::fs::symlink("../elsewhere", folder.path().join("masks/a.npy")).unwrap();
    std::os::unix::net::UnixListener::bind(folder.path().join("masks/b.npy")).unwrap();
    let masks = Masks::list(
        &folder.path().join("masks"),
        Path::new("/nowhere"),
        &Files::default(),
        Follow::Inside,
        Cancel::default(),
    )
    .unwrap();
    let wanting = ["a.npy", "c/b.tif", "d.npy"].map(|key| MaskedSample { key, data: None });
    let paired = masks.pair(&wanting);
    let found: Vec<_> =
        paired.masks.into_iter().map(|mask| mask.map(drop).unwrap_err().of(String::new()).detail).collect();
    assert!(found[0].starts_with("cannot use the mask `a.npy`: the link points outside the source"), "{found:?}");
    assert!(found[1].starts_with("cannot use the mask `b.npy`: expected a regular file, found"), "{found:?}");
    assert_eq!(found[2], "there is no mask `d.*`");
}

#[test]
fn masks_with_longer_names_get_a_hint_with_the_difference() {
    let root = tempfile::tempdir().unwrap();
    for name in ["1", "10"] {
        put(root.path(), &format!("src/{name}.npy"), npy());
        put(root.path(), &format!("masks/{name}_clouds.npy"), npy());
    }
    let options = SourceOptions { masks: Some(root.path().join("masks")), ..SourceOptions::default() };
    let Err(SourceError::BadInputs(bad)) = enumerate(&root.path().join("src"), &options) else { panic!() };
    let hints: Vec<String> = bad.hints().iter().map(ToString::to_string).collect();
    assert_eq!(hints, ["give each mask the name of its picture or cube, without `_clouds`"]);
}

#[test]
fn masks_are_paired_by_names_of_ground_truth() {
    let (masks, note) = pair(
        &["Pines_gt.npy", "a/x-mask.npy", "s_gt.npy", "u_gt.npy", "u_mask.npy"],
        &[("Pines_corrected.mat", None), ("a/x.tif", None), ("s_1.tif", None), ("s_2.tif", None), ("u.tif", None)],
    );
    assert_eq!(masks[..2], [Ok("Pines_gt.npy".to_owned()), Ok("a/x-mask.npy".to_owned())]);
    assert_eq!(masks[2..4], ["s_1.*", "s_2.*"].map(|name| Err(format!("there is no mask `{name}`"))));
    assert_eq!(masks[4], Err("expected one mask, found 2: `u_gt.npy`, `u_mask.npy`".to_owned()));
    assert_eq!(note.unwrap(), "3 of 5 masks belong to no sample (first: `s_gt.npy`)");
}

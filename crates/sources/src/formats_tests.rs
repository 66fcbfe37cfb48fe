//! Tests that every list of formats in the docs is complete.

use crate::cubes::CubeKind;
use crate::pictures::PictureFormat;
use std::path::Path;

const PICTURES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "crates/recipe/src/kind.rs",
    "crates/pack/src/collect/encode.rs",
    "crates/pack/src/collect/value.rs",
    "python/shardpack/_given.py",
    "python/shardpack/_writer.py",
];

const CUBES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "crates/sources/README.md",
    "crates/sources/src/cubes/mod.rs",
    "crates/recipe/src/kind.rs",
];

fn lists(file: &str, names: &[&str]) -> bool {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
    text.split("\n\n").any(|paragraph| names.iter().all(|name| paragraph.contains(name)))
}

#[test]
fn docs_name_every_format() {
    let pictures = PictureFormat::ALL.map(PictureFormat::name);
    for file in PICTURES {
        assert!(lists(file, &pictures), "{file} does not list all formats of pictures: {pictures:?}");
    }
    let cubes = CubeKind::names();
    for file in CUBES {
        assert!(lists(file, &cubes), "{file} does not list all formats of cubes: {cubes:?}");
    }
}

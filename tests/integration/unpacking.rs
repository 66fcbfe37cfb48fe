//! Tests `shardpack unpack` with keys that collide, or that are impossible as file names.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::making::texts::pictures;
use std::fs;

/// This file has only one test, because the command can install its signal handlers only once per process.
#[test]
fn an_impossible_name_affects_no_other_sample() {
    let scratch = tempfile::tempdir().unwrap();
    let (dataset, out) = (scratch.path().join("packed"), scratch.path().join("files"));
    let long = format!("folder/{}/a.png", "x".repeat(300));
    let samples: [(&str, &[u8]); 10] = [
        ("a.png", b"first"),
        (".b.png.shardpack-tmp", b"like one that is not complete"),
        ("b.png", b"second"),
        (&long, b"a name that is too long"),
        ("folder/c.png", b"third"),
        ("d.png", b"fourth"),
        // `e` and the next name to try already exist as folders, because other keys are below them.
        ("e", b"a name that folders have"),
        ("e/f.png", b"fifth"),
        ("e.image.bin/g.png", b"sixth"),
        (".d.png.shardpack-tmp/h.png", b"in a folder like a file that is not complete"),
    ];
    pictures(&dataset, &samples, 1 << 20);
    fs::create_dir(&out).unwrap();
    // A killed run has left this file. `unpack` must replace it, but keep the user's files.
    fs::write(out.join(".a.png.shardpack-tmp"), "half").unwrap();
    // Count the files of the dataset, because `unpack` must not write anything next to the shards.
    let held = || fs::read_dir(&dataset).unwrap().count();
    let before = held();
    for inside in [dataset.clone(), dataset.join("files")] {
        let words = ["shardpack", "unpack", dataset.to_str().unwrap(), inside.to_str().unwrap()];
        assert_eq!((shardpack::cli::main_from(words), held()), (2, before));
    }
    let words = ["shardpack", "unpack", dataset.to_str().unwrap(), out.to_str().unwrap()];
    assert_eq!(shardpack::cli::main_from(words), 1, "a problem, of one sample");
    let read = |name: &str| fs::read(out.join(name)).ok();
    for (key, bytes) in samples.iter().filter(|(key, _)| key.len() < 255 && !key.starts_with('.') && *key != "e") {
        assert_eq!(read(key).as_deref(), Some(*bytes), "{key}");
    }
    assert_eq!(read(".b.png.shardpack-tmp.image.bin").as_deref(), Some(samples[1].1));
    assert!(read(".b.png.shardpack-tmp").is_none() && read(".a.png.shardpack-tmp").is_none());
}

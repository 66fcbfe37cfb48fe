//! Reads source files of `pack`: cubes of every format, and label tables.

use shardpack_sources::cubes::{self, CubeOptions};
use shardpack_sources::{OnBadInput, SourceOptions, enumerate};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Folder(TempDir);

thread_local! {
    static FOLDER: Folder = Folder::default();
}

/// Reads a cube file. Its bytes determine the format.
///
/// # Panics
/// If the cube differs from its announced shape, or loads although its header was refused.
pub fn cube(data: &[u8]) -> bool {
    FOLDER.with(|folder| read_cube(&folder.put("x.hdr", data)))
}

/// Reads a label table as CSV or JSON Lines.
///
/// # Panics
/// If the number of values in a column differs from the number of samples.
pub fn labels(data: &[u8]) -> bool {
    FOLDER.with(|folder| folder.labels(&folder.put("labels", data)))
}

impl Default for Folder {
    fn default() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Write the data file that belongs to the ENVI header.
        std::fs::write(folder.path().join("x.img"), [7; 4096]).expect("a file");
        let samples = folder.path().join("samples");
        std::fs::create_dir(&samples).expect("a folder");
        for name in ["a", "b", "c"] {
            let mut npy =
                b"\x93NUMPY\x01\0\x76\0{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1), }".to_vec();
            npy.resize(127, b' ');
            npy.extend(b"\n\x01");
            std::fs::write(samples.join(name).with_extension("npy"), npy).expect("a file");
        }
        Self(folder)
    }
}

impl Folder {
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        // Remove the file first, because ext4 flushes files that are truncated and rewritten.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    fn labels(&self, table: &Path) -> bool {
        let options = SourceOptions {
            labels: Some(table.to_owned()),
            on_bad_input: OnBadInput::Skip,
            ..SourceOptions::default()
        };
        let Ok(listing) = enumerate(&self.0.path().join("samples"), &options) else { return false };
        for column in &listing.columns {
            assert_eq!(column.values.len(), listing.samples.len(), "a value for each sample");
        }
        true
    }
}

fn read_cube(path: &Path) -> bool {
    let options = CubeOptions { max_bytes: 1 << 20, ..CubeOptions::default() };
    let _ = cubes::companion(path, &options);
    let peeked = cubes::peek(path, &options);
    let loaded = cubes::load(path, &options);
    match (&peeked, &loaded) {
        (Ok(info), Ok(cube)) => {
            assert_eq!((cube.array.shape(), cube.array.dtype()), (&info.shape[..], info.dtype), "as announced");
            assert_eq!(cube.array.bytes().len() as u64, info.array_bytes, "as announced");
        }
        (Err(error), Ok(_)) => panic!("loaded, although its header was refused: {error}"),
        _ => {}
    }
    let spatial = CubeOptions { variable: vec!["cube".into()], spatial: Some((3, 5)), ..options.clone() };
    let _ = cubes::load(path, &spatial);
    let _ = cubes::load_mask(path, &options);
    loaded.is_ok()
}

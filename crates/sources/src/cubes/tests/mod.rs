//! Tests every format with a computed cube, with damaged files, and with real files if available.

mod attacks;
mod blosc2;
mod blosc2_writer;
mod envi;
#[cfg(feature = "hdf5")]
mod hdf5;
#[cfg(feature = "hdf5")]
mod hdf5_attacks;
mod hostile;
mod matlab;
mod numpy;
mod pictures;
mod real;
mod tiff;
mod tiff_writer;
mod tivita;
mod writers;

use super::*;
use shardpack_array::ArraySource;
use shardpack_format::{Dtype, Voice};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        // Remove the file first. ext4 flushes a file that is truncated and rewritten, which would slow down
        // thousands of rewrites.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Returns the value at `[y, x, k]` of the test cubes. All its bytes depend on all three indices.
fn value(y: usize, x: usize, k: usize) -> u64 {
    ((y as u64) << 12 | (x as u64) << 6 | k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(24)
}

fn element(dtype: Dtype, value: u64) -> Vec<u8> {
    match dtype {
        Dtype::Bool => vec![(value & 1) as u8],
        _ => value.to_le_bytes()[..dtype.bytes() as usize].to_vec(),
    }
}

/// Returns the cube that every reader should produce: `[height, width, channels]`, C order, little-endian.
fn cube(dtype: Dtype, [h, w, c]: [usize; 3]) -> Vec<u8> {
    ordered(dtype, false, [h, w, c], |[a, b, k]| [a, b, k])
}

/// Returns the same cube with its axes in another order. `at` maps a position in the file to `[y, x, k]`, and
/// `dims` are the axis lengths in the file.
fn ordered(dtype: Dtype, big_endian: bool, dims: [usize; 3], at: impl Fn([usize; 3]) -> [usize; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    for a in 0..dims[0] {
        for b in 0..dims[1] {
            for c in 0..dims[2] {
                let [y, x, k] = at([a, b, c]);
                let mut bytes = element(dtype, value(y, x, k));
                if big_endian {
                    bytes.reverse();
                }
                out.extend(bytes);
            }
        }
    }
    out
}

#[track_caller]
fn assert_cube(path: &Path, kind: CubeKind, dtype: Dtype, shape: [usize; 3], options: &CubeOptions) -> LoadedCube {
    assert_eq!(probe(path).unwrap(), Some(kind));
    let info = peek(path, options).unwrap();
    let expected = cube(dtype, shape);
    let shape = shape.map(|axis| axis as u64);
    assert_eq!((info.kind, info.dtype, info.shape, info.array_bytes), (kind, dtype, shape, expected.len() as u64));
    let loaded = load(path, options).unwrap();
    assert_eq!((loaded.array.dtype(), loaded.array.shape()), (dtype, &shape[..]));
    assert!(loaded.array.bytes() == expected, "values differ");
    let opened = open(path, options, Vec::new()).unwrap();
    assert_eq!(matches!(opened.values, CubeValues::InFile(_)), info.in_file);
    let bits = |value: Option<f64>| value.map(f64::to_bits);
    assert_eq!((bits(opened.no_data), &opened.meta), (bits(loaded.no_data), &loaded.meta));
    assert_eq!((opened.values.dtype(), opened.values.shape()), (dtype, &shape[..]));
    let mut values = vec![0; expected.len()];
    let (first, rest) = values.split_at_mut(loaded.array.dtype().bytes() as usize);
    opened.values.read_at(0, first).unwrap();
    opened.values.read_at(first.len() as u64, rest).unwrap();
    assert!(values == expected, "values differ when they are read as they are needed");
    loaded
}

#[track_caller]
fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    let folder = error.path().parent().map(|folder| format!("{}/", folder.display())).unwrap_or_default();
    shardpack_format::told(&error, &error.hint(), Voice::Command).replace(&folder, "")
}

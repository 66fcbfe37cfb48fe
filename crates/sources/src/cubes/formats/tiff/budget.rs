//! Limits for a whole file. Directories, tables and chunks may overlap, so a few bytes can cause
//! any amount of work. Each of these sums is therefore bounded by the file or by the cube.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::cell::Cell;

/// Limit for directories, values of tags and the numbers made of them: this many times the file,
/// but at least the first of these constants, and at most the second. A value is read two or three
/// times.
const TABLE_TIMES: u64 = 8;
const SMALL_TABLES: u64 = 1 << 20;
const MAX_TABLES: u64 = 256 << 20;

/// Compressed bytes of all strips and tiles: this many times the file. Writers may share equal
/// tiles.
const PACKED_TIMES: u64 = 16;

/// Decoded bytes of all strips and tiles: this many times the cube. Tiles may be larger than the
/// picture.
const DECODED_TIMES: u64 = 16;

/// Either sum may always be this large: 224 bands of 32 × 32 float32 in tiles of 512 × 512 need it.
const SMALL_CHUNKS: u64 = 256 << 20;

/// Remaining bytes for directories and values.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    all: u64,
}

impl Budget {
    pub(super) fn new(source: &CubeFile) -> Self {
        let all = source.len().saturating_mul(TABLE_TIMES).clamp(SMALL_TABLES, MAX_TABLES);
        Self { left: Cell::new(all), all }
    }

    /// Subtracts `bytes`, before memory is allocated for them.
    pub(super) fn take(&self, source: &CubeFile, bytes: u64) -> Result<()> {
        source.check_cancel()?;
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            let expected = format!("at most {} bytes in a file of {}", self.all, source.len());
            source.format("TIFF directories and tables", expected, "more, which overlap")
        })?;
        self.left.set(left);
        Ok(())
    }
}

/// Sums over all strips and tiles of a file.
#[derive(Default)]
pub(super) struct Chunks {
    pub(super) packed: u64,
    pub(super) decoded: u64,
}

impl Chunks {
    /// Adds one chunk.
    pub(super) fn add(&mut self, packed: u64, decoded: u64) {
        self.packed = self.packed.saturating_add(packed);
        self.decoded = self.decoded.saturating_add(decoded);
    }

    /// Checks the sums against the file, and against the cube of `bytes`.
    pub(super) fn check(&self, source: &CubeFile, bytes: u64) -> Result<()> {
        let check = |what: &str, found: u64, times: u64, of: u64| {
            let most = of.saturating_mul(times).max(SMALL_CHUNKS);
            if found <= most {
                return Ok(());
            }
            Err(source.format(what, format_args!("at most {most} bytes in all"), found))
        };
        check("compressed TIFF strips or tiles", self.packed, PACKED_TIMES, source.len())?;
        check("decoded TIFF strips or tiles", self.decoded, DECODED_TIMES, bytes)
    }
}

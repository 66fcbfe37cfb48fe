//! Enforces limits on a whole TIFF file. Directories, tables and chunks may overlap, so a few bytes could cause
//! any amount of work. Each sum is therefore limited by the file size or the cube size.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::cell::Cell;

/// Limit on the bytes read as directories and tag values, and on the numbers parsed from them:
/// `TABLE_TIMES` × the file size, but at least `SMALL_TABLES` and at most `MAX_TABLES`. A value may
/// be read two or three times.
const TABLE_TIMES: u64 = 8;
const SMALL_TABLES: u64 = 1 << 20;
const MAX_TABLES: u64 = 256 << 20;

/// Limit on the stored bytes of all chunks, as a multiple of the file size. It is above 1 because writers may
/// let equal tiles share their bytes.
const PACKED_TIMES: u64 = 16;

/// Limit on the decoded bytes of all chunks, as a multiple of the cube size. It is above 1 because tiles may
/// be larger than the picture.
const DECODED_TIMES: u64 = 16;

/// Either sum may always reach this value, even in a small file. For example, 224 bands of 32 × 32
/// float32 in tiles of 512 × 512 need it.
const SMALL_CHUNKS: u64 = 256 << 20;

/// Number of bytes left for directories and values.
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

    /// Subtracts `bytes` from the budget. Call this before allocating memory for these bytes.
    pub(super) fn take(&self, source: &CubeFile, bytes: u64) -> Result<()> {
        source.check_cancel()?;
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            let (most, file) = (self.all, source.len());
            source.damaged(format_args!(
                "the TIFF directories and tables overlap: they have more than {most} bytes in a file of {file} bytes"
            ))
        })?;
        self.left.set(left);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Chunks {
    pub(super) packed: u64,
    pub(super) decoded: u64,
}

impl Chunks {
    pub(super) fn add(&mut self, packed: u64, decoded: u64) {
        self.packed = self.packed.saturating_add(packed);
        self.decoded = self.decoded.saturating_add(decoded);
    }

    /// Checks both sums against the file size and against a cube of `bytes` bytes.
    pub(super) fn check(&self, source: &CubeFile, bytes: u64) -> Result<()> {
        let check = |what: &str, found: u64, times: u64, of: u64| {
            let most = of.saturating_mul(times).max(SMALL_CHUNKS);
            if found <= most {
                return Ok(());
            }
            Err(source.damaged(format_args!("the {what} take {found} bytes in total, but at most {most} are allowed")))
        };
        check("compressed TIFF strips or tiles", self.packed, PACKED_TIMES, source.len())?;
        check("decoded TIFF strips or tiles", self.decoded, DECODED_TIMES, bytes)
    }
}

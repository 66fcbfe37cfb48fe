//! Reads an HDF5 file for the HDF5 library, and limits the number of bytes read.
//!
//! A small file can contain any number of paths through its structures, and the library follows all of them.

use crate::cubes::run::CubeRun;
use crate::cubes::source::{CubeFile, PIECE_BYTES};
use crate::files::OpenFile;
use hdf5_pure::FormatError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The limit on bytes of metadata is `METADATA_TIMES` × the file size + `METADATA_BYTES`.
const METADATA_TIMES: u64 = 8;
const METADATA_BYTES: u64 = 16 << 20;

/// Minimum charge per read, so that the limit also stops many tiny reads.
const LEAST_COST: u64 = 64;

/// Address that means "undefined" in HDF5.
const UNDEFINED: u64 = u64::MAX;

/// Number of bytes that may still be read.
pub(super) struct Allowance {
    left: AtomicU64,
    met_undefined: AtomicBool,
}

impl Allowance {
    pub(super) fn add(&self, bytes: u64) {
        let more = |left: u64| Some(left.saturating_add(bytes));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Returns true if the library tried to read at the undefined address. It does so for soft
    /// links in old-style groups.
    pub(super) fn has_met_undefined(&self) -> bool {
        self.met_undefined.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes.max(LEAST_COST));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

pub(super) struct Metered {
    file: Arc<OpenFile>,
    len: u64,
    run: CubeRun,
    allowance: Arc<Allowance>,
}

impl Metered {
    pub(super) fn new(source: &CubeFile) -> (Self, Arc<Allowance>) {
        let file = Arc::clone(source.file());
        let bytes = source.len().saturating_mul(METADATA_TIMES).saturating_add(METADATA_BYTES);
        let allowance = Arc::new(Allowance { left: AtomicU64::new(bytes), met_undefined: AtomicBool::new(false) });
        let metered = Self { file, len: source.len(), run: source.run().clone(), allowance: Arc::clone(&allowance) };
        (metered, allowance)
    }

    fn refuse(&self, why: &str) -> FormatError {
        FormatError::Source(why.to_owned())
    }

    /// Checks a read against the limit before allocating memory for it.
    fn check(&self, offset: u64, len: usize) -> Result<(), FormatError> {
        if offset == UNDEFINED {
            self.allowance.met_undefined.store(true, Ordering::Relaxed);
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(self.refuse(&format!(
                "it is truncated or damaged (it refers to {len} bytes at offset {offset}, but ends at offset {})",
                self.len
            )));
        }
        if !self.allowance.take(len as u64) {
            return Err(self.refuse("it is probably damaged (its metadata refers to the same bytes over and over)"));
        }
        Ok(())
    }

    fn fill(&self, mut offset: u64, out: &mut [u8]) -> Result<(), FormatError> {
        for piece in out.chunks_mut(PIECE_BYTES) {
            let read = self.run.check().and_then(|()| self.file.read_exact_at(piece, offset));
            read.map_err(|error| self.refuse(&error.to_string()))?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

impl hdf5_pure::Source for Metered {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), FormatError> {
        self.check(offset, out.len())?;
        self.fill(offset, out)
    }

    fn read_exact_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, FormatError> {
        self.check(offset, len)?;
        let mut out = Vec::new();
        out.try_reserve_exact(len).map_err(|error| self.refuse(&error.to_string()))?;
        out.resize(len, 0);
        self.fill(offset, &mut out)?;
        Ok(out)
    }
}

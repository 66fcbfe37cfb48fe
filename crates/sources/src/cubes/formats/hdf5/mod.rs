//! Reads HDF5 files, including MATLAB files of version 7.3. This requires the cargo feature `hdf5`.

#[cfg(feature = "hdf5")]
mod metered;
#[cfg(feature = "hdf5")]
mod read;
#[cfg(feature = "hdf5")]
mod stack;
#[cfg(not(feature = "hdf5"))]
mod without;

#[cfg(feature = "hdf5")]
use read::{load, peek};
#[cfg(not(feature = "hdf5"))]
use without::{load, peek};

use crate::cubes::cube::{CubeHeader, LoadedCube};
use crate::cubes::error::Result;
use crate::cubes::format::CubeFormat;
use crate::cubes::select::Purpose;
use crate::cubes::source::CubeFile;

/// The HDF5 signature. It may be at offset 0, 512, 1024, 2048, and so on.
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

fn is_hdf5(source: &CubeFile, head: &[u8]) -> Result<bool> {
    if head.starts_with(SIGNATURE) || head.get(512..520) == Some(SIGNATURE) {
        return Ok(true);
    }
    // Longer user blocks are rare. Five more reads of 8 bytes cover user blocks of up to 16 KiB.
    for offset in [1024, 2048, 4096, 8192, 16384] {
        if offset + 8 <= source.len() && source.read_at("signature", offset, 8)? == SIGNATURE {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) struct Hdf5;

impl CubeFormat for Hdf5 {
    fn recognises(&self, source: &CubeFile, head: &[u8]) -> Result<bool> {
        is_hdf5(source, head)
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        head.starts_with(SIGNATURE)
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        peek(source, want)
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        load(source, want)
    }
}

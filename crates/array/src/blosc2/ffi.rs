//! The only `unsafe` code for Blosc2 chunks: calls to the LZ4 library.
//!
//! The library is LZ4 1.10, the version in c-blosc2 2.21. The version is fixed because another version might compress
//! differently, and the bytes of a chunk must not change.
#![allow(unsafe_code)]

// `lz4_sys` only links the LZ4 library. It has no bindings for the functions declared below.
use lz4_sys as _;
use shardpack_format::{Error, Result};
use std::ffi::{c_char, c_int};

unsafe extern "C" {
    fn LZ4_compress_fast(
        source: *const c_char,
        out: *mut c_char,
        source_bytes: c_int,
        room: c_int,
        acceleration: c_int,
    ) -> c_int;

    fn LZ4_compress_HC(
        source: *const c_char,
        out: *mut c_char,
        source_bytes: c_int,
        room: c_int,
        level: c_int,
    ) -> c_int;

    fn LZ4_decompress_safe_partial(
        source: *const c_char,
        out: *mut c_char,
        source_bytes: c_int,
        wanted: c_int,
        room: c_int,
    ) -> c_int;

    fn LZ4_decompress_safe(source: *const c_char, out: *mut c_char, source_bytes: c_int, room: c_int) -> c_int;
}

/// Encodes with LZ4HC if there is a `level`, otherwise with the fast coder. Returns the coded length, or `None` if
/// `out` is too small.
pub(super) fn lz4_encode(source: &[u8], level: Option<i32>, out: &mut [u8]) -> Result<Option<usize>> {
    let (source_bytes, room) = lengths(source, out)
        .map_err(|n| Error::usage(format!("an lz4 stream must be smaller than 2 GiB, but has {n} bytes")))?;
    // SAFETY: both buffers are live, do not overlap (one borrow is shared, the other exclusive),
    // and have the lengths passed. LZ4 only reads the source and writes at most `room` bytes.
    // Neither function keeps a pointer after it returns.
    let written = unsafe {
        match level {
            None => LZ4_compress_fast(source.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, room, 1),
            Some(level) => LZ4_compress_HC(source.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, room, level),
        }
    };
    Ok(usize::try_from(written).ok().filter(|&n| n > 0 && n <= out.len()))
}

/// Decodes the whole LZ4 block `block` into `out`, whose length must be the decoded length.
pub(super) fn lz4(block: &[u8], out: &mut [u8]) -> Result<()> {
    let (source_bytes, room) = lengths(block, out).map_err(large)?;
    // SAFETY: as for `lz4_prefix`.
    let written = unsafe { LZ4_decompress_safe(block.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, room) };
    decoded(written, room)
}

/// Decodes the LZ4 block `block` until `out` is full.
pub(super) fn lz4_prefix(block: &[u8], out: &mut [u8]) -> Result<()> {
    let (source_bytes, room) = lengths(block, out).map_err(large)?;
    // SAFETY: both buffers are live, do not overlap, and have the lengths passed. For any input, LZ4 promises to only
    // read the source, to write at most `room` bytes, and to read back from `out` only bytes that it has written.
    let written = unsafe {
        LZ4_decompress_safe_partial(block.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, room, room)
    };
    decoded(written, room)
}

fn lengths(source: &[u8], out: &[u8]) -> std::result::Result<(c_int, c_int), usize> {
    let length = |bytes: &[u8]| c_int::try_from(bytes.len()).map_err(|_| bytes.len());
    Ok((length(source)?, length(out)?))
}

fn large(bytes: usize) -> Error {
    Error::malformed(format!("an lz4 block must be smaller than 2 GiB, but has {bytes} bytes"))
}

fn decoded(written: c_int, expected: c_int) -> Result<()> {
    if written == expected {
        return Ok(());
    }
    Err(Error::malformed(match written {
        ..0 => format!("the lz4 block is damaged: it does not decode to {expected} bytes"),
        _ => format!("the lz4 block is damaged: it decodes to {written} bytes, but should decode to {expected}"),
    }))
}

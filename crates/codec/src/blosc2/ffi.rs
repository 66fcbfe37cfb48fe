//! The fence around c-blosc2 and the LZ4 inside it: every line of `unsafe` in this crate stands here.
//!
//! Contexts only, never the library's global state, one thread per context. c-blosc2 lets environment variables (`BLOSC_CLEVEL`,
//! `BLOSC_SHUFFLE`, `BLOSC_NTHREADS`, …) override what a program asks for when a context is made. The same options must give the same
//! bytes on every machine, so each new context is read back and compared with what was asked.
#![allow(unsafe_code)]

use super::{Blosc2Coder, Params};
use blosc2_rs_sys as sys;
use shardpack_format::{Error, Result};
use std::ffi::{c_char, c_int};
use std::ptr::NonNull;
use std::sync::Once;

/// Bytes that a chunk may be longer than what it holds: its extended header.
pub(super) const MAX_OVERHEAD: usize = 32;

/// `BLOSC_ALWAYS_SPLIT`.
const ALWAYS_SPLIT: i32 = 1;

// The numbers written out above and below are those of the library that was built.
const _: () =
    assert!(sys::BLOSC_ALWAYS_SPLIT == 1 && sys::BLOSC_LZ4 == 1 && sys::BLOSC_LZ4HC == 2 && sys::BLOSC_ZSTD == 5);

/// `blosc2_init` registers the plug-in filters (byte delta among them) in tables that are only read afterwards.
fn init() {
    static ONCE: Once = Once::new();
    // SAFETY: no preconditions; `Once` keeps a second thread from running it at the same time.
    ONCE.call_once(|| unsafe { sys::blosc2_init() });
}

/// A context that this value alone owns, freed on drop.
struct Context(NonNull<sys::blosc2_context>);

// SAFETY: a context with one thread has no thread of its own and no thread-local state; it may be used by one thread at a time, which
// `&mut self` on every use of it guarantees.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `blosc2_create_*ctx`, is owned by `self`, and is not used after this.
        unsafe { sys::blosc2_free_ctx(self.0.as_ptr()) }
    }
}

/// A reusable compressor for one set of parameters.
pub(super) struct Compressor {
    context: Context,
}

impl Compressor {
    pub(super) fn new(params: &Params) -> Result<Self> {
        init();
        let typesize = i32::from(params.typesize);
        let blocksize = i32::try_from(params.block_bytes)
            .map_err(|_| Error::usage("blosc2 block size", "below 2^31 bytes", params.block_bytes))?;
        // Compressor numbers of c-blosc2 (`BLOSC_LZ4`, …), which its chunk headers hold too.
        let compcode: u8 = match params.coder {
            Blosc2Coder::Lz4 => 1,
            Blosc2Coder::Lz4hc => 2,
            Blosc2Coder::Zstd => 5,
        };
        // SAFETY: no preconditions; returns a plain struct by value.
        let mut asked = unsafe { sys::blosc2_get_blosc2_cparams_defaults() };
        asked.compcode = compcode;
        asked.clevel = params.clevel;
        asked.use_dict = 0;
        asked.typesize = typesize;
        asked.nthreads = 1;
        asked.blocksize = blocksize;
        asked.splitmode = ALWAYS_SPLIT;
        asked.filters = params.filters;
        asked.filters_meta = params.filters_meta;
        // SAFETY: `asked` holds no dangling pointer: schunk, prefilter and tuner parameters are null by default.
        let context = unsafe { sys::blosc2_create_cctx(asked) };
        let context = Context(NonNull::new(context).ok_or_else(|| no_context(params.coder))?);
        // SAFETY: as above.
        let mut got = unsafe { sys::blosc2_get_blosc2_cparams_defaults() };
        // SAFETY: the context is live, and `got` is a valid place to write a `blosc2_cparams`.
        unsafe { sys::blosc2_ctx_get_cparams(context.0.as_ptr(), &raw mut got) };
        let same = (got.compcode, got.clevel, got.typesize, got.nthreads, got.blocksize, got.splitmode)
            == (compcode, params.clevel, typesize, 1, blocksize, asked.splitmode)
            && got.filters == params.filters
            && got.filters_meta == params.filters_meta;
        if same { Ok(Self { context }) } else { Err(overridden()) }
    }

    /// Appends the chunk that holds `unit` to `out`.
    pub(super) fn compress(&mut self, unit: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let source_bytes =
            i32::try_from(unit.len()).map_err(|_| Error::usage("blosc2 unit", "below 2^31 bytes", unit.len()))?;
        let room = unit.len() + MAX_OVERHEAD;
        let room_bytes =
            i32::try_from(room).map_err(|_| Error::usage("blosc2 unit", "below 2^31 bytes", unit.len()))?;
        out.reserve(room);
        let place = out.spare_capacity_mut();
        // SAFETY: source and destination are live, do not overlap (one is borrowed shared, the other exclusively) and are at least as long as
        // the sizes passed: `reserve` made room. The library only writes to the destination before it has written there. The context is a
        // compression context used by this thread alone.
        let written = unsafe {
            sys::blosc2_compress_ctx(
                self.context.0.as_ptr(),
                unit.as_ptr().cast(),
                source_bytes,
                place.as_mut_ptr().cast(),
                room_bytes,
            )
        };
        match usize::try_from(written) {
            Ok(n) if n > 0 && n <= room => {
                // SAFETY: `n` is at most the room reserved, and the library has written that many bytes.
                unsafe { out.set_len(out.len() + n) };
                Ok(())
            }
            _ => Err(Error::usage("blosc2 compression", "a chunk", format!("error {written} of the library"))),
        }
    }
}

/// A reusable decompressor.
pub(super) struct Decompressor {
    context: Context,
}

impl Decompressor {
    pub(super) fn new() -> Result<Self> {
        init();
        // SAFETY: no preconditions; returns a plain struct by value.
        let mut asked = unsafe { sys::blosc2_get_blosc2_dparams_defaults() };
        asked.nthreads = 1;
        // SAFETY: `asked` holds no dangling pointer: schunk and postfilter are null by default.
        let context = unsafe { sys::blosc2_create_dctx(asked) };
        let context = Context(
            NonNull::new(context).ok_or_else(|| Error::usage("blosc2 decompression context", "memory", "none"))?,
        );
        // SAFETY: no preconditions; returns a plain struct by value.
        let mut got = unsafe { sys::blosc2_get_blosc2_dparams_defaults() };
        // SAFETY: the context is live, and `got` is a valid place to write a `blosc2_dparams`.
        unsafe { sys::blosc2_ctx_get_dparams(context.0.as_ptr(), &raw mut got) };
        if got.nthreads == 1 { Ok(Self { context }) } else { Err(overridden()) }
    }

    /// Decodes `chunk`, which [`super::Chunk::parse`] has accepted as holding `out.len()` bytes, into `out`.
    pub(super) fn decompress(&mut self, chunk: &super::Chunk<'_>, out: &mut [u8]) -> Result<()> {
        let bytes = chunk.bytes();
        let (Ok(source_bytes), Ok(out_bytes)) = (i32::try_from(bytes.len()), i32::try_from(out.len())) else {
            return Err(Error::format("blosc2 chunk", "below 2^31 bytes", out.len().max(bytes.len())));
        };
        // SAFETY: both buffers are live, do not overlap, and are as long as the sizes passed. The chunk's header, block starts and stream
        // lengths were checked against those sizes by our own walker; the library bounds every read and write by them once more.
        let written = unsafe {
            sys::blosc2_decompress_ctx(
                self.context.0.as_ptr(),
                bytes.as_ptr().cast(),
                source_bytes,
                out.as_mut_ptr().cast(),
                out_bytes,
            )
        };
        // Equality, not "no error": a decoder that wrote less would leave old bytes in `out`.
        if written == out_bytes {
            return Ok(());
        }
        Err(Error::format("blosc2 streams", format!("{out_bytes} bytes decoded"), format!("{written}")))
    }

    /// Decodes one block of `chunk`, which [`super::Chunk::parse`] has accepted: the one that starts at item `first`, into `out`, which is as
    /// long as the block.
    ///
    /// The library decodes a block that is asked for as a whole straight into `out`, without its usual copy (`get_single_block` in its
    /// `_blosc_getitem`).
    pub(super) fn decompress_block(
        &mut self,
        chunk: &super::Chunk<'_>,
        item_bytes: u8,
        first: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let bytes = chunk.bytes();
        let items = out.len() / usize::from(item_bytes.max(1));
        let (Ok(source_bytes), Ok(out_bytes), Ok(first), Ok(items)) =
            (i32::try_from(bytes.len()), i32::try_from(out.len()), i32::try_from(first), i32::try_from(items))
        else {
            return Err(Error::format("blosc2 chunk", "below 2^31 bytes", out.len().max(bytes.len())));
        };
        // SAFETY: both buffers are live, do not overlap, and are as long as the sizes passed. `items` of the chunk's item size, which the
        // walker has compared with `item_bytes`, are at most `out`. The chunk's header, block starts and stream lengths were checked by our
        // own walker; the library compares `first` and `items` with the header and bounds every read and write by the sizes once more.
        let written = unsafe {
            sys::blosc2_getitem_ctx(
                self.context.0.as_ptr(),
                bytes.as_ptr().cast(),
                source_bytes,
                first,
                items,
                out.as_mut_ptr().cast(),
                out_bytes,
            )
        };
        if written == out_bytes {
            return Ok(());
        }
        Err(Error::format("blosc2 block", format!("{out_bytes} bytes decoded"), format!("{written}")))
    }
}

// Of the LZ4 1.10 that is part of the c-blosc2 that is linked (`internal-complibs`); the bindings list c-blosc2's own functions only. Were it ever
// left out, programs would not link.
unsafe extern "C" {
    fn LZ4_decompress_safe_partial(
        source: *const c_char,
        out: *mut c_char,
        source_bytes: c_int,
        wanted: c_int,
        room: c_int,
    ) -> c_int;

    fn LZ4_decompress_safe(source: *const c_char, out: *mut c_char, source_bytes: c_int, room: c_int) -> c_int;
}

/// Fills `out` with what the LZ4 block `block` decodes to, all of it.
pub(super) fn lz4(block: &[u8], out: &mut [u8]) -> Result<()> {
    let (Ok(source_bytes), Ok(out_bytes)) = (c_int::try_from(block.len()), c_int::try_from(out.len())) else {
        return Err(Error::format("lz4 block", "below 2^31 bytes", out.len().max(block.len())));
    };
    // SAFETY: as for `lz4_prefix`.
    let written =
        unsafe { LZ4_decompress_safe(block.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, out_bytes) };
    decoded(written, out_bytes)
}

/// Fills `out` with the first bytes that the LZ4 block `block` decodes to.
pub(super) fn lz4_prefix(block: &[u8], out: &mut [u8]) -> Result<()> {
    let (Ok(source_bytes), Ok(out_bytes)) = (c_int::try_from(block.len()), c_int::try_from(out.len())) else {
        return Err(Error::format("lz4 block", "below 2^31 bytes", out.len().max(block.len())));
    };
    // SAFETY: both buffers are live, do not overlap, and are as long as the sizes passed. LZ4 promises, for any bytes, to read only the source
    // and to write no more than the room; it reads back from `out` only what it has written there.
    let written = unsafe {
        LZ4_decompress_safe_partial(block.as_ptr().cast(), out.as_mut_ptr().cast(), source_bytes, out_bytes, out_bytes)
    };
    decoded(written, out_bytes)
}

fn decoded(written: c_int, expected: c_int) -> Result<()> {
    if written == expected {
        return Ok(());
    }
    Err(Error::format("lz4 block", format!("{expected} bytes decoded"), format!("{written}")))
}

fn no_context(coder: Blosc2Coder) -> Error {
    Error::usage("blosc2 compression context", format!("one for {coder:?}"), "none (refused by the library)")
}

fn overridden() -> Error {
    Error::usage(
        "blosc2 parameters",
        "those that were asked for",
        "others, set by a BLOSC_… environment variable\nhint: unset BLOSC_CLEVEL, BLOSC_SHUFFLE, BLOSC_DELTA, BLOSC_TYPESIZE, BLOSC_COMPRESSOR, \
         BLOSC_BLOCKSIZE, BLOSC_NTHREADS and BLOSC_SPLITMODE",
    )
}

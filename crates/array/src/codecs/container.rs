//! The interface that a codec offers to readers.

use crate::block::StoredBlock;
use crate::blosc2::Chunk;
use crate::bytes::check_coded;
use shardpack_format::{Limits, Result};
use std::ops::Range;

/// The units of an array's payload (spec §5), in order. Every unit except the last has
/// [`UNIT_BYTES`](crate::UNIT_BYTES) bytes of stored elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Units<'a> {
    /// The stored elements, not coded.
    Raw(&'a [u8]),
    /// Zstd frames, one per unit.
    Zstd(Vec<&'a [u8]>),
    /// Blosc2 chunks, one per unit.
    Blosc2(Vec<Chunk<'a>>),
}

/// The properties of a codec that readers need.
pub(crate) trait Container: Sync {
    /// Fails if a payload of `payload` bytes cannot contain `stored` bytes under the limits.
    fn check_length(&self, stored: u64, payload: u64, limits: &Limits) -> Result<()>;

    /// True if a payload of `payload` bytes has room for all units of `stored` bytes.
    fn fits(&self, stored: usize, payload: usize) -> bool;

    /// Returns the size of a block in stored bytes, for elements of `width` bytes. Blocks are decoded one at a time.
    fn block_bytes(&self, width: usize) -> usize;

    /// Returns the number of scratch bytes for decoding a payload block by block, or `None` if the payload is not
    /// coded.
    fn scratch_bytes(&self, width: usize, stored: u64) -> Option<u64>;

    /// Returns the number of blocks of scratch memory that a region needs.
    fn region_blocks(&self) -> u64;

    /// Parses and checks all units of a payload.
    fn units<'a>(&self, coded: Coded<'a>, limits: &Limits) -> Result<Units<'a>>;

    /// Returns the length of the coded unit at offset `at`, or `None` if the length cannot be found or would take too
    /// many reads. The unit has at most `left` bytes, and `read` returns bytes of the payload.
    fn unit_length(
        &self,
        at: usize,
        left: usize,
        read: &mut dyn FnMut(usize, &mut [u8]) -> Option<()>,
    ) -> Option<usize>;
}

/// Decodes payloads of one codec. Each thread has its own decoder, which reuses its contexts and scratch memory.
pub(crate) trait PayloadDecoder {
    fn decode(&mut self, coded: Coded<'_>, out: &mut [u8], limits: &Limits) -> Result<()>;

    /// Decodes the blocks that overlap the stored bytes `wanted`, in order. Passes each block to `each`, with the
    /// range of its stored bytes. `window` is used for blocks that are not available as byte planes.
    fn for_each(
        &mut self,
        coded: Coded<'_>,
        limits: &Limits,
        window: &mut Vec<u8>,
        wanted: &dyn Fn(Range<usize>) -> bool,
        each: &mut dyn FnMut(&StoredBlock<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()>;

    /// Decodes all blocks at once and returns them. Blocks that the payload does not contain unchanged are decoded to
    /// `scratch`. Also returns the number of elements in each block. Only the last block may have fewer.
    fn all<'a>(
        &mut self,
        coded: Coded<'a>,
        scratch: &'a mut Vec<u8>,
        limits: &Limits,
    ) -> Result<(Vec<StoredBlock<'a>>, usize)>;

    /// Prepares to read regions of a payload with elements of `width` bytes.
    fn begin(&mut self, width: usize) {
        let _ = width;
    }

    /// Parses the unit at the start of `bytes`, which decodes to `unit_bytes` stored bytes. Must be called before its
    /// blocks are decoded.
    fn enter(&mut self, bytes: &[u8], width: usize, unit_bytes: usize) -> Result<()> {
        let _ = (bytes, width, unit_bytes);
        Ok(())
    }

    /// Leaves the unit at the start of `bytes`, even if it was not entered. Returns the length of the unit.
    fn leave(&mut self, bytes: &[u8]) -> Result<usize>;

    /// Decodes one block of the entered unit, as far as it is needed. The bytes are written to `out` or, if `out` has
    /// room for only part of the block, to `scratch`.
    fn block(
        &mut self,
        block: &mut BlockRequest<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<BlockPlace>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Coded<'a> {
    pub(crate) payload: &'a [u8],
    /// Size of an element in bytes.
    pub(crate) width: usize,
    pub(crate) stored_bytes: usize,
}

/// A request for the part of a block that a region needs.
pub(crate) struct BlockRequest<'a> {
    /// The payload, starting at the block's unit.
    pub(crate) bytes: &'a [u8],
    /// Size of an element in bytes.
    pub(crate) width: usize,
    /// Index of the block within its unit.
    pub(crate) number: usize,
    pub(crate) block_bytes: usize,
    /// First stored byte that is needed, relative to the start of the unit.
    pub(crate) start: usize,
    /// Returns the number of bytes of this block that are needed, and the end of the last needed byte within the
    /// block.
    pub(crate) need: &'a mut dyn FnMut() -> (usize, usize),
}

impl BlockRequest<'_> {
    pub(crate) const fn is_whole(&self, out: &[u8]) -> bool {
        out.len() == self.block_bytes
    }
}

/// Place where [`PayloadDecoder::block`] stored the bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockPlace {
    /// The requested bytes were copied to `out`, because they did not have to be decoded.
    Copied,
    /// The whole block is in `out`.
    Out,
    /// The block is in the scratch memory.
    Scratch,
    /// The scratch memory contains the start of each byte plane of the block. The number is the length of each part in
    /// bytes.
    ScratchPlanes(usize),
}

/// Counts the bytes that a region's blocks have decoded to so far, and checks them against the limits.
pub(crate) struct Budget<'a> {
    coded: u64,
    runs: u64,
    stored: u64,
    payload: u64,
    limits: &'a Limits,
}

impl<'a> Budget<'a> {
    pub(crate) const fn new(stored: usize, payload: usize, limits: &'a Limits) -> Self {
        Self { coded: 0, runs: 0, stored: stored as u64, payload: payload as u64, limits }
    }

    /// Adds coded bytes and bytes in runs, and checks both sums against the limits.
    pub(crate) fn spend(&mut self, coded: u64, runs: u64) -> Result<()> {
        self.coded += coded;
        self.runs += runs;
        check_coded(self.stored, self.coded, self.payload, self.limits)?;
        self.limits.check_runs(self.runs, self.payload)
    }
}

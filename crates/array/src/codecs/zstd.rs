//! The codec for plain zstd: one frame per unit (spec §5.2).

use super::container::{BlockPlace, BlockRequest, Budget, Coded, Container, PayloadDecoder, Units};
use super::spec::{CoderSpec, Levels, UnitEncoder};
use crate::block::StoredBlock;
use crate::bytes::{UNIT_BYTES, ZstdDecoder, ZstdEncoder, check_expansion, end_of};
use crate::zstd_frame;
use shardpack_base::parts::{grow, part, rest};
use shardpack_format::{Codec, Error, Limits, Result};
use std::ops::Range;

const LEVEL: i32 = 3;
/// Decoding time on one core, in nanoseconds per byte that zstd outputs.
pub(super) const DECODE_NS: f64 = 0.57;
/// Estimated decoding time on a GPU, in nanoseconds per byte: a warp takes about 60 ms for a frame of 4 MiB, and a
/// device decodes about 270 frames at a time.
const DEVICE_NS: f64 = 0.054;

pub(crate) const ZSTD: CoderSpec = CoderSpec {
    name: "zstd",
    codec: Codec::Zstd,
    levels: Levels::Range { default: LEVEL, all: 1..=22 },
    has_filters: false,
    decode_ns: DECODE_NS,
    device_ns: DEVICE_NS,
    encoder: |level, _| Ok(Box::new(ZstdEncoder::new(level.unwrap_or(LEVEL))?)),
};

impl UnitEncoder for ZstdEncoder {
    fn codec(&self) -> Codec {
        Codec::Zstd
    }

    fn encode(&mut self, unit: &[u8], _: u8, payload: &mut Vec<u8>) -> Result<u64> {
        self.frame(unit, payload)?;
        Ok(unit.len() as u64)
    }
}

pub(crate) struct Zstd;

impl Container for Zstd {
    fn check_length(&self, stored: u64, payload: u64, limits: &Limits) -> Result<()> {
        check_expansion(stored, stored, payload, limits)
    }

    fn fits(&self, stored: usize, payload: usize) -> bool {
        payload >= stored.div_ceil(UNIT_BYTES)
    }

    fn block_bytes(&self, _: usize) -> usize {
        UNIT_BYTES
    }

    fn scratch_bytes(&self, _: usize, stored: u64) -> Option<u64> {
        Some(stored.min(UNIT_BYTES as u64))
    }

    fn region_blocks(&self) -> u64 {
        1
    }

    fn units<'a>(&self, coded: Coded<'a>, limits: &Limits) -> Result<Units<'a>> {
        let Coded { payload, stored_bytes, .. } = coded;
        check_expansion(stored_bytes as u64, stored_bytes as u64, payload.len() as u64, limits)?;
        let mut frames = Vec::new();
        let (mut pos, mut left) = (0, stored_bytes);
        while left > 0 {
            let unit = left.min(UNIT_BYTES);
            let bytes = rest(payload, pos, "bytes before the next zstd frame")?;
            let frame = zstd_frame::walk(bytes).map_err(|e| e.at(pos as u64))?;
            if frame.content_bytes != unit as u64 {
                return Err(Error::format("zstd content size", unit, frame.content_bytes).at(pos as u64));
            }
            frames.push(part(bytes, 0..frame.len, "bytes in a zstd frame")?);
            pos += frame.len;
            left -= unit;
        }
        end_of(payload, pos)?;
        Ok(Units::Zstd(frames))
    }

    /// Reads the block headers one by one, because a frame does not store its length.
    fn unit_length(
        &self,
        at: usize,
        left: usize,
        read: &mut dyn FnMut(usize, &mut [u8]) -> Option<()>,
    ) -> Option<usize> {
        /// Frames without blocks, and frames that need more reads than this, are decoded with the whole payload
        /// instead. A frame exceeds this limit if its blocks have about a tenth of the usual size.
        const MOST_READS: usize = 400;
        let mut reads = 0;
        let frame = zstd_frame::walk_by(left, |range| {
            reads += 1;
            let mut bytes = [0; 8];
            read(at.checked_add(range.start)?, bytes.get_mut(..range.len())?)?;
            (reads <= MOST_READS).then(|| u64::from_le_bytes(bytes))
        });
        frame.ok().map(|frame| frame.len)
    }
}

impl PayloadDecoder for ZstdDecoder {
    fn decode(&mut self, coded: Coded<'_>, out: &mut [u8], limits: &Limits) -> Result<()> {
        self.frames(coded.payload, out, limits)
    }

    fn for_each(
        &mut self,
        coded: Coded<'_>,
        limits: &Limits,
        window: &mut Vec<u8>,
        _: &dyn Fn(Range<usize>) -> bool,
        each: &mut dyn FnMut(&StoredBlock<'_>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let Coded { payload, stored_bytes, .. } = coded;
        check_expansion(stored_bytes as u64, stored_bytes as u64, payload.len() as u64, limits)?;
        let mut pos = 0;
        for start in (0..stored_bytes).step_by(UNIT_BYTES) {
            let bytes = start..(start + UNIT_BYTES).min(stored_bytes);
            let to = grow(window, bytes.len());
            let frame = rest(payload, pos, "bytes before the next zstd frame")?;
            pos += self.decode_unit(frame, to).map_err(|e| e.at(pos as u64))?;
            each(&StoredBlock::Bytes(to), bytes)?;
        }
        end_of(payload, pos)
    }

    fn all<'a>(
        &mut self,
        coded: Coded<'a>,
        scratch: &'a mut Vec<u8>,
        limits: &Limits,
    ) -> Result<(Vec<StoredBlock<'a>>, usize)> {
        let scratch = grow(scratch, coded.stored_bytes);
        self.frames(coded.payload, scratch, limits)?;
        Ok((vec![StoredBlock::Bytes(scratch)], coded.stored_bytes / coded.width))
    }

    fn leave(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(zstd_frame::walk(bytes)?.len)
    }

    fn block(
        &mut self,
        block: &mut BlockRequest<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<BlockPlace> {
        budget.spend(block.block_bytes as u64, 0)?;
        if block.is_whole(out) {
            self.decode_unit(block.bytes, out)?;
            return Ok(BlockPlace::Out);
        }
        self.decode_unit(block.bytes, grow(scratch, block.block_bytes))?;
        Ok(BlockPlace::Scratch)
    }
}

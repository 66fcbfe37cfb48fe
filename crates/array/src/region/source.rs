//! Reads ranges of a payload's stored bytes, with as little decoding as the codec allows.

use crate::blosc2::planes;
use crate::bytes::{UNIT_BYTES, end_of, in_memory};
use crate::codecs::{BlockPlace, BlockRequest, Budget, Container, Decoders, PayloadDecoder, container};
use crate::coded::CodedArray;
use shardpack_base::parts::{grow, part, rest, split_mut};
use shardpack_format::{Codec, Error, Limits, Result, bug};
use std::ops::Range;

#[derive(Default)]
pub(crate) struct SourceScratch {
    /// The last decoded block. Its size is 64 KiB per byte of an element for Blosc2, and 4 MiB for plain zstd.
    block: Vec<u8>,
    /// A whole block, shared by several regions.
    pub(crate) tile: Vec<u8>,
}

/// Reads the stored bytes of a payload. They must be requested in ascending order.
///
/// Units before the first touched unit are skipped by their length alone. A touched Blosc2 chunk is parsed
/// completely before any part of it is decoded.
pub(crate) struct PayloadReader<'p, 's> {
    decoder: Option<&'s mut dyn PayloadDecoder>,
    container: &'static dyn Container,
    payload: &'p [u8],
    /// Size of an element in bytes.
    width: usize,
    stored_bytes: usize,
    pub(crate) scratch: &'s mut SourceScratch,
    /// Index of the current unit, and its byte offset in the payload.
    unit: usize,
    at: usize,
    /// Start of the loaded block, and where its bytes are stored.
    loaded: Option<(usize, BlockPlace)>,
    budget: Budget<'s>,
    decoded: u64,
}

pub(crate) type StoredRange = Range<usize>;

impl<'p, 's> PayloadReader<'p, 's> {
    /// Fails if the payload is too short for the array, or if the array has no elements but the payload has bytes.
    pub(crate) fn new(
        array: CodedArray<'p>,
        limits: &'s Limits,
        decoders: &'s mut Decoders,
        scratch: &'s mut SourceScratch,
    ) -> Result<Self> {
        let CodedArray { codec, descriptor, payload } = array;
        let width = descriptor.stored.size();
        let stored_bytes = in_memory(descriptor.stored_bytes()?)?;
        let (container, decoder) = (container(codec)?, decoders.of(codec)?);
        if !container.fits(stored_bytes, payload.len()) {
            let payload = payload.len();
            return Err(Error::malformed(format!(
                "the payload is damaged: its size of {payload} bytes does not fit an array of {stored_bytes} bytes"
            )));
        }
        if stored_bytes == 0 {
            end_of(payload, 0)?;
        }
        decoder.begin(width);
        Ok(Self {
            decoder: (codec != Codec::Raw).then_some(decoder),
            container,
            payload,
            width,
            stored_bytes,
            scratch,
            unit: 0,
            at: 0,
            loaded: None,
            budget: Budget::new(stored_bytes, payload.len(), limits),
            decoded: 0,
        })
    }

    /// Returns the number of blocks, or units of plain zstd, in the whole payload.
    pub(crate) fn blocks(&self) -> u64 {
        // Every unit except the last consists of whole blocks.
        if self.decoder.is_none() { 0 } else { self.stored_bytes.div_ceil(self.block_bytes()) as u64 }
    }

    fn block_bytes(&self) -> usize {
        self.container.block_bytes(self.width)
    }

    /// Fills `out` with the stored bytes of `runs`, without gaps. Each run must consist of whole elements,
    /// and the runs must be sorted and must not overlap.
    pub(crate) fn read(&mut self, mut runs: impl Iterator<Item = StoredRange> + Clone, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        loop {
            let ahead = runs.clone();
            let Some(run) = runs.next() else { return Ok(()) };
            let mut start = run.start;
            while start < run.end {
                if self.decoder.is_none() {
                    let (here, tail) = split_mut(rest, run.len(), "output range for a run")?;
                    here.copy_from_slice(part(self.payload, run.clone(), "stored bytes in a run")?);
                    rest = tail;
                    break;
                }
                let first = start - start % self.block_bytes();
                let block = first..self.stored_bytes.min(first + self.block_bytes());
                let count = run.end.min(block.end).saturating_sub(start);
                if count == 0 {
                    bug("a region requests bytes beyond the end of its array");
                }
                let (here, tail) = split_mut(rest, count, "output range for a run")?;
                if self.loaded.is_none_or(|(loaded, _)| loaded != first) {
                    self.enter(start / UNIT_BYTES)?;
                    self.block(start, &block, ahead.clone(), here)?;
                }
                let from = start - first;
                match self.loaded {
                    Some((_, BlockPlace::ScratchPlanes(items))) => {
                        planes::of(&self.scratch.block, self.width, items).join(from / self.width, here)?;
                    }
                    Some(_) => here.copy_from_slice(part(&self.scratch.block, from..from + count, "bytes in a block")?),
                    // `None` means that the bytes have already been written to `out`.
                    None => {}
                }
                rest = tail;
                start += count;
            }
        }
    }

    /// Returns the decoded block that contains stored byte `at`, or the rest of the payload if it is raw. Blocks must
    /// be requested in ascending order.
    pub(crate) fn whole_block<'t>(&mut self, at: usize, tile: &'t mut Vec<u8>) -> Result<(Range<usize>, &'t [u8])>
    where
        'p: 't,
    {
        if self.decoder.is_none() {
            return Ok((0..self.stored_bytes, self.payload));
        }
        let first = at - at % self.block_bytes();
        let block = first..self.stored_bytes.min(first + self.block_bytes());
        if block.is_empty() {
            bug("a region requests bytes beyond the end of its array");
        }
        self.enter(first / UNIT_BYTES)?;
        let tile = grow(tile, block.len());
        self.block(first, &block, std::iter::empty(), tile)?;
        Ok((block, tile))
    }

    /// Fills `out` with the stored bytes from `start` on, or loads the block that contains them. The block is decoded
    /// only up to the last byte that `runs` needs.
    fn block(
        &mut self,
        start: usize,
        block: &Range<usize>,
        runs: impl Iterator<Item = StoredRange> + Clone,
        out: &mut [u8],
    ) -> Result<()> {
        let number = block.start % UNIT_BYTES / self.block_bytes();
        let Some(decoder) = &mut self.decoder else { bug("stored elements have no blocks") };
        let mut request = BlockRequest {
            bytes: rest(self.payload, self.at, "payload after the last unit")?,
            width: self.width,
            number,
            block_bytes: block.len(),
            start: start % UNIT_BYTES,
            need: &mut || {
                let (needed, end) = need(block, runs.clone());
                (needed, end - block.start)
            },
        };
        self.loaded = None;
        let place = decoder.block(&mut request, &mut self.budget, out, &mut self.scratch.block);
        let place = place.map_err(|e| e.at(self.at as u64))?;
        self.decoded += u64::from(place != BlockPlace::Copied);
        self.loaded = match place {
            BlockPlace::Copied | BlockPlace::Out => None,
            BlockPlace::Scratch | BlockPlace::ScratchPlanes(_) => Some((block.start, place)),
        };
        Ok(())
    }

    fn enter(&mut self, unit: usize) -> Result<()> {
        self.walk_to(unit)?;
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let bytes = rest(self.payload, self.at, "payload after the last unit")?;
        let unit_bytes = UNIT_BYTES.min(self.stored_bytes.saturating_sub(unit * UNIT_BYTES));
        decoder.enter(bytes, self.width, unit_bytes).map_err(|e| e.at(self.at as u64))
    }

    fn walk_to(&mut self, unit: usize) -> Result<()> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        while self.unit < unit {
            let bytes = rest(self.payload, self.at, "payload after the last unit")?;
            self.at += decoder.leave(bytes).map_err(|e| e.at(self.at as u64))?;
            self.unit += 1;
        }
        Ok(())
    }

    /// Skips to the end of the last unit, which must also be the end of the payload. Returns the
    /// number of decoded blocks.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.walk_to(self.stored_bytes.div_ceil(UNIT_BYTES))?;
        if self.decoder.is_some() {
            end_of(self.payload, self.at)?;
        }
        Ok(self.decoded)
    }
}

/// Returns the number of bytes of `block` that the runs need, and the end of the last needed byte.
fn need(block: &Range<usize>, runs: impl Iterator<Item = StoredRange>) -> (usize, usize) {
    let here = runs.take_while(|run| run.start < block.end);
    here.fold((0, block.start), |(needed, _), run| {
        let end = run.end.min(block.end);
        (needed + end.saturating_sub(run.start.max(block.start)), end)
    })
}

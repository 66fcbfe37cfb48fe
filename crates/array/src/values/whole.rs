//! Decodes the stored elements of an array to values while they are in the cache, and writes the values to the output.

use super::{Tables, decode_piece};
use crate::arrange::Arrangement;
use crate::block::StoredBlock;
use crate::finish::{self, OutputRow, Taker, Target};
use shardpack_base::parts::{grow, part, part_mut, split_mut};
use shardpack_format::{ArrayDescriptor, Dtype, Result, Transform, bug};
use std::ops::Range;

/// Decodes stored elements as they arrive, and writes the values to the output.
pub(crate) struct Values<'a> {
    descriptor: &'a ArrayDescriptor,
    arrangement: Arrangement,
    tables: &'a Tables,
    /// Indices of the requested bands within a pixel, or empty if all bands are requested.
    picks: &'a [usize],
    /// Stored elements of some pixels. Between two blocks, it keeps the elements of a pixel that is not complete yet.
    piece: &'a mut Vec<u8>,
    picked: &'a mut Vec<u8>,
    values: &'a mut Vec<u8>,
    pixels: usize,
    /// Number of elements kept at the start of `piece`. Always less than a pixel.
    kept: usize,
    /// Number of stored elements that have been converted to values.
    done: usize,
    out: Out<'a>,
}

pub(crate) enum To<'a> {
    /// A contiguous output, for values that need no further conversion.
    Plain(&'a mut [u8]),
    /// A target row, filled from this unit on.
    Row(&'a Target, usize, &'a mut dyn OutputRow),
}

enum Out<'a> {
    Plain(&'a mut [u8]),
    Row(Taker<'a>),
}

#[derive(Default)]
pub(crate) struct ValueScratch {
    tables: Tables,
    picks: Vec<usize>,
    piece: Vec<u8>,
    picked: Vec<u8>,
    values: Vec<u8>,
    finish: finish::TakerScratch,
}

/// True if the stored elements are the values themselves.
pub(crate) fn is_as_stored(descriptor: &ArrayDescriptor) -> bool {
    matches!(descriptor.transform, Transform::None)
        && descriptor.stored == descriptor.decoded
        && descriptor.decoded != Dtype::Bool
}

impl<'a> Values<'a> {
    /// Prepares to decode an array, or part of one, with all its bands.
    pub(crate) fn new(
        descriptor: &'a ArrayDescriptor,
        arrangement: Arrangement,
        scratch: &'a mut ValueScratch,
        to: To<'a>,
    ) -> Result<Self> {
        Self::of_bands(descriptor, arrangement, 0..arrangement.bands, None::<std::iter::Empty<usize>>, scratch, to)
    }

    /// Prepares to decode only some bands. `bands` are their indices in the array. If the decoded pixels contain
    /// other bands too, `picks` are the indices within a decoded pixel. Otherwise it is `None`.
    pub(crate) fn of_bands(
        descriptor: &'a ArrayDescriptor,
        arrangement: Arrangement,
        bands: impl Iterator<Item = usize>,
        picks: Option<impl Iterator<Item = usize>>,
        scratch: &'a mut ValueScratch,
        to: To<'a>,
    ) -> Result<Self> {
        let pixels = arrangement.piece_pixels().min(arrangement.pixels.max(1));
        let ValueScratch { tables, picks: list, piece, picked, values, finish } = scratch;
        tables.refill(descriptor, bands, pixels)?;
        list.clear();
        list.extend(picks.into_iter().flatten());
        let out = match to {
            To::Plain(out) => Out::Plain(out),
            To::Row(target, first, out) => {
                let asked = if list.is_empty() { arrangement.bands } else { list.len() };
                let mut taker = Taker::new(target, finish, out, first);
                taker.expect(arrangement.pixels * asked / target.each().max(1));
                Out::Row(taker)
            }
        };
        Ok(Self { descriptor, arrangement, tables, picks: list, piece, picked, values, pixels, kept: 0, done: 0, out })
    }

    /// Decodes the next elements, a range of a block in shape order.
    pub(crate) fn take(&mut self, block: &StoredBlock<'_>, elements: Range<usize>) -> Result<()> {
        let Arrangement { bands, width, .. } = self.arrangement;
        let Range { start: mut first, end: count } = elements;
        if let (Out::Plain(out), true, []) = (&mut self.out, is_as_stored(self.descriptor), self.picks) {
            let count = count.saturating_sub(first);
            let (before, rest) = split_mut(out, self.done * width, "elements before a block")?;
            let place = part_mut(rest, 0..count * width, "output range for a block")?;
            let band = self.done % bands;
            self.arrangement.read(block, first, band, if band == 0 { &[] } else { before }, place)?;
            self.done += count;
            return Ok(());
        }
        while first < count {
            let whole = (count - first) / bands * bands;
            if let (StoredBlock::Bytes(bytes), 0, true, 1..) = (block, self.kept, self.arrangement.is_identity(), whole)
            {
                let bytes = part(bytes, first * width..(first + whole) * width, "whole pixels in a block")?;
                bytes.chunks(self.pixels * bands * width).try_for_each(|piece| self.put(piece))?;
                first += whole;
                continue;
            }
            let here = (self.pixels * bands - self.kept).min(count - first);
            let mut piece = std::mem::take(self.piece);
            let room = grow(&mut piece, self.pixels * bands * width);
            let (before, to) = split_mut(room, self.kept * width, "elements in an incomplete pixel")?;
            let to = part_mut(to, 0..here * width, "output range for a piece")?;
            self.arrangement.read(block, first, self.kept, before, to)?;
            let held = self.kept + here;
            let whole = held / bands * bands;
            let result = self.put(part(&piece, 0..whole * width, "whole pixels in a piece")?);
            piece.copy_within(whole * width..held * width, 0);
            *self.piece = piece;
            result?;
            self.kept = held - whole;
            first += here;
        }
        Ok(())
    }

    /// Skips to the pixel that starts with `unit` of the target. The next element must be the first of that pixel.
    /// Elements of an incomplete pixel are dropped.
    pub(crate) fn skip_to(&mut self, unit: usize) -> Result<()> {
        self.kept = 0;
        match &mut self.out {
            Out::Row(taker) => taker.skip_to(unit),
            Out::Plain(_) => bug("elements of a plain row are not skipped"),
        }
    }

    /// Decodes all elements of a band-major array from `blocks` of equal size.
    pub(crate) fn take_planes(&mut self, blocks: &[StoredBlock<'_>], block: usize, window: &mut Vec<u8>) -> Result<()> {
        let Arrangement { bands, width, pixels, .. } = self.arrangement;
        let step = self.arrangement.tile_pixels();
        for first in (0..pixels).step_by(step) {
            let count = step.min(pixels - first);
            let tile = grow(window, count * bands * width);
            self.arrangement.tile(blocks, block, first, tile)?;
            let tiled = Arrangement { difference: false, pixels: count, ..self.arrangement };
            self.take_pixels(&tiled, tile)?;
        }
        Ok(())
    }

    pub(crate) fn take_pixels(&mut self, arrangement: &Arrangement, stored: &[u8]) -> Result<()> {
        let Arrangement { bands, width, pixels, .. } = *arrangement;
        for at in (0..pixels).step_by(self.pixels) {
            let elements = self.pixels.min(pixels - at) * bands;
            if let (Out::Plain(out), true, []) = (&mut self.out, is_as_stored(self.descriptor), self.picks) {
                let range = self.done * width..(self.done + elements) * width;
                arrangement.fetch(stored, at, part_mut(out, range, "output range for a piece")?)?;
                self.done += elements;
                continue;
            }
            let mut piece = std::mem::take(self.piece);
            let room = grow(&mut piece, elements * width);
            arrangement.fetch(stored, at, room)?;
            let result = self.put(room);
            *self.piece = piece;
            result?;
        }
        Ok(())
    }

    /// Writes the elements that were held back until the end.
    pub(crate) fn finish(self) -> Result<()> {
        match self.out {
            Out::Plain(_) => Ok(()),
            Out::Row(mut taker) => taker.finish(),
        }
    }

    fn put(&mut self, stored: &[u8]) -> Result<()> {
        let Arrangement { bands, width, .. } = self.arrangement;
        if let Out::Row(taker) = &mut self.out {
            let asked = if self.picks.is_empty() { bands } else { self.picks.len() };
            if !taker.wants(stored.len() / (bands * width) * asked / taker.each()) {
                return Ok(());
            }
        }
        let stored = match self.picks {
            [] => stored,
            picks => {
                let picked = grow(self.picked, stored.len() / bands * picks.len());
                let pixels = stored.chunks_exact(bands * width).zip(picked.chunks_exact_mut(picks.len() * width));
                for (from, to) in pixels {
                    for (pick, to) in picks.iter().zip(to.chunks_exact_mut(width)) {
                        to.copy_from_slice(part(from, pick * width..(pick + 1) * width, "requested band")?);
                    }
                }
                &*picked
            }
        };
        let (elements, size) = (stored.len() / width, self.descriptor.decoded.size());
        match &mut self.out {
            Out::Plain(out) => {
                let to = part_mut(out, self.done * size..(self.done + elements) * size, "output range for values")?;
                decode_piece(self.descriptor, self.tables, stored, to)?;
            }
            Out::Row(taker) if is_as_stored(self.descriptor) => taker.take(stored)?,
            Out::Row(taker) => {
                let values = grow(self.values, elements * size);
                decode_piece(self.descriptor, self.tables, stored, values)?;
                taker.take(values)?;
            }
        }
        self.done += elements;
        Ok(())
    }
}

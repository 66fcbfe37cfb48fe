//! The values of a whole array, made from its stored elements while these are in the cache.

use super::{Tables, decode_piece};
use crate::arrange::Arrangement;
use crate::decoder::grow;
use crate::window::Block;
use shardpack_base::parts::{part, part_mut, split_mut};
use shardpack_format::{ArrayDescriptor, Dtype, Result, Transform};
use std::ops::Range;

/// Takes stored elements as they arrive and puts their values in their places.
pub(crate) struct Values<'a> {
    descriptor: &'a ArrayDescriptor,
    arrangement: Arrangement,
    tables: Tables,
    /// Stored elements of some pixels; between blocks, those of an incomplete pixel.
    piece: &'a mut Vec<u8>,
    /// Pixels of a piece.
    pixels: usize,
    /// Number of the elements at the start of `piece`; less than a pixel.
    kept: usize,
    /// Number of elements that have become values.
    done: usize,
    out: &'a mut [u8],
    /// Bytes of a value.
    size: usize,
}

/// Whether every stored element is its own value.
pub(crate) fn is_as_stored(descriptor: &ArrayDescriptor) -> bool {
    matches!(descriptor.transform, Transform::None)
        && descriptor.stored == descriptor.decoded
        && descriptor.decoded != Dtype::Bool
}

impl<'a> Values<'a> {
    pub(crate) fn new(
        descriptor: &'a ArrayDescriptor,
        arrangement: Arrangement,
        piece: &'a mut Vec<u8>,
        out: &'a mut [u8],
    ) -> Self {
        let pixels = arrangement.piece_pixels().min(arrangement.pixels.max(1));
        let size = descriptor.decoded.size();
        let tables = Tables::new(descriptor, pixels);
        Self { descriptor, arrangement, tables, piece, pixels, kept: 0, done: 0, out, size }
    }

    /// Takes these elements of a block in shape order, after those taken before.
    pub(crate) fn take(&mut self, block: &Block<'_>, elements: Range<usize>) -> Result<()> {
        let Arrangement { bands, width, .. } = self.arrangement;
        let Range { start: mut first, end: count } = elements;
        if is_as_stored(self.descriptor) {
            let count = count.saturating_sub(first);
            let (before, rest) = split_mut(self.out, self.done * width, "elements before a block")?;
            let place = part_mut(rest, 0..count * width, "place of a block")?;
            let band = self.done % bands;
            self.arrangement.read(block, first, band, if band == 0 { &[] } else { before }, place)?;
            self.done += count;
            return Ok(());
        }
        while first < count {
            let whole = (count - first) / bands * bands;
            if let (Block::Bytes(bytes), 0, true, 1..) = (block, self.kept, self.arrangement.is_identity(), whole) {
                // The order is right already.
                let bytes = part(bytes, first * width..(first + whole) * width, "whole pixels of a block")?;
                bytes.chunks(self.pixels * bands * width).try_for_each(|piece| self.put(piece))?;
                first += whole;
                continue;
            }
            let here = (self.pixels * bands - self.kept).min(count - first);
            let mut piece = std::mem::take(self.piece);
            let room = grow(&mut piece, self.pixels * bands * width);
            let (before, to) = split_mut(room, self.kept * width, "elements of an incomplete pixel")?;
            let to = part_mut(to, 0..here * width, "place of a piece")?;
            self.arrangement.read(block, first, self.kept, before, to)?;
            let held = self.kept + here;
            let whole = held / bands * bands;
            let result = self.put(part(&piece, 0..whole * width, "whole pixels of a piece")?);
            piece.copy_within(whole * width..held * width, 0);
            *self.piece = piece;
            result?;
            self.kept = held - whole;
            first += here;
        }
        Ok(())
    }

    /// Takes all elements of a band-major array, in `blocks` of equal size.
    pub(crate) fn take_planes(&mut self, blocks: (&[Block<'_>], usize), window: &mut Vec<u8>) -> Result<()> {
        let Arrangement { bands, width, pixels, .. } = self.arrangement;
        let step = self.arrangement.tile_pixels();
        for first in (0..pixels).step_by(step) {
            let count = step.min(pixels - first);
            let tile = grow(window, count * bands * width);
            self.arrangement.tile(blocks, first, tile)?;
            let tiled = Arrangement { difference: false, pixels: count, ..self.arrangement };
            for at in (0..count).step_by(self.pixels) {
                let elements = self.pixels.min(count - at) * bands;
                if is_as_stored(self.descriptor) {
                    let range = self.done * width..(self.done + elements) * width;
                    tiled.fetch(tile, at, part_mut(self.out, range, "place of a piece")?)?;
                    self.done += elements;
                } else {
                    let mut piece = std::mem::take(self.piece);
                    let stored = grow(&mut piece, elements * width);
                    tiled.fetch(tile, at, stored)?;
                    let result = self.put(stored);
                    *self.piece = piece;
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Makes values of the next pixels.
    fn put(&mut self, stored: &[u8]) -> Result<()> {
        let elements = stored.len() / self.arrangement.width;
        let range = self.done * self.size..(self.done + elements) * self.size;
        self.done += elements;
        decode_piece(self.descriptor, &self.tables, stored, part_mut(self.out, range, "place of values")?)
    }
}

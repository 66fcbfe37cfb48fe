//! Passes stored elements to a coder one unit at a time, while they are produced, so that the whole array need not be
//! in memory.

use crate::bytes::UNIT_BYTES;
use crate::error::EncodeResult;
use crate::source::{ArraySource, BLOCK_BYTES, byte_count};
use shardpack_base::parts::{item_bytes, part};
use shardpack_format::Result;

/// Receives stored elements in units of [`UNIT_BYTES`]. The last unit may be shorter.
pub(crate) trait UnitSink {
    /// Discards all units received so far and starts again.
    fn begin(&mut self);
    /// Receives the next unit, whose elements have `item_bytes` bytes each.
    fn unit(&mut self, unit: &[u8], item_bytes: u8) -> Result<()>;
}

impl UnitSink for Vec<u8> {
    fn begin(&mut self) {
        self.clear();
    }

    fn unit(&mut self, unit: &[u8], _: u8) -> Result<()> {
        self.extend_from_slice(unit);
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct ElementScratch {
    /// The unit that is being filled, and the part of a piece that extends beyond it.
    pending: Vec<u8>,
    /// All elements. Used only if they do not arrive in payload order.
    whole: Vec<u8>,
}

pub(crate) struct Elements<'a> {
    units: &'a mut dyn UnitSink,
    scratch: &'a mut ElementScratch,
    /// Number of valid bytes in `pending`.
    filled: usize,
    total: usize,
    /// True if elements are written directly to `whole`.
    out_of_order: bool,
    item_bytes: u8,
}

impl<'a> Elements<'a> {
    pub(crate) fn new(units: &'a mut dyn UnitSink, scratch: &'a mut ElementScratch) -> Self {
        Self { units, scratch, filled: 0, total: 0, out_of_order: false, item_bytes: 1 }
    }

    /// Starts (or restarts) an array of `total` bytes with elements of `width` bytes.
    pub(crate) fn begin(&mut self, width: usize, total: usize) -> Result<()> {
        self.filled = 0;
        self.total = total;
        self.out_of_order = false;
        self.item_bytes = item_bytes(width)?;
        self.units.begin();
        Ok(())
    }

    /// Passes all elements of an array to the coder unchanged. Calls `look` with all bytes, in order, just before the
    /// coder receives them.
    pub(crate) fn take_all(
        &mut self,
        array: &dyn ArraySource,
        width: usize,
        mut look: impl FnMut(&[u8]) -> EncodeResult<()>,
    ) -> EncodeResult<()> {
        let total = byte_count(array);
        self.begin(width, total)?;
        if let Some(bytes) = array.bytes() {
            for unit in bytes.chunks(UNIT_BYTES) {
                look(unit)?;
                self.units.unit(unit, self.item_bytes)?;
            }
            return Ok(());
        }
        let mut offset = 0;
        while offset < total {
            let block = self.room(BLOCK_BYTES.min(total - offset));
            array.read_at(offset as u64, block)?;
            look(block)?;
            let length = block.len();
            self.filled(length)?;
            offset += length;
        }
        self.finish()
    }

    /// Returns a buffer for the next `length` bytes. Its content is unspecified.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        let end = self.filled + length;
        if self.scratch.pending.len() < end {
            self.scratch.pending.resize(end, 0);
        }
        // The split is in bounds, because `pending` has just grown.
        self.scratch.pending.split_at_mut(end).0.split_at_mut(self.filled).1
    }

    /// Confirms that the caller has filled `length` bytes of the buffer from [`Elements::room`].
    pub(crate) fn filled(&mut self, length: usize) -> EncodeResult<()> {
        self.filled += length;
        let pending = part(&self.scratch.pending, 0..self.filled, "elements for a coder")?;
        let (units, rest) = pending.as_chunks::<UNIT_BYTES>();
        if units.is_empty() {
            return Ok(());
        }
        for unit in units {
            self.units.unit(unit, self.item_bytes)?;
        }
        let (end, rest) = (self.filled, rest.len());
        self.scratch.pending.copy_within(end - rest..end, 0);
        self.filled = rest;
        Ok(())
    }

    /// Returns a buffer for all elements. Call this instead of [`Elements::room`] if the elements are not produced in
    /// payload order.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        // Do not zero the buffer, because every byte will be written anyway.
        self.scratch.whole.resize(self.total, 0);
        self.out_of_order = true;
        &mut self.scratch.whole
    }

    /// Passes the remaining elements to the coder.
    pub(crate) fn finish(&mut self) -> EncodeResult<()> {
        if self.out_of_order {
            for unit in self.scratch.whole.chunks(UNIT_BYTES) {
                self.units.unit(unit, self.item_bytes)?;
            }
        }
        match part(&self.scratch.pending, 0..self.filled, "elements for a coder")? {
            [] => Ok(()),
            rest => Ok(self.units.unit(rest, self.item_bytes)?),
        }
    }
}

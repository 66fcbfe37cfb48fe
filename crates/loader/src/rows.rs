//! Encapsulates the only operation that safe Rust cannot express: many threads write disjoint rows of one
//! block of memory, with borders known only at run time. All `unsafe` blocks for it are in this module.
//!
//! The types enforce these rules, and outside code cannot violate them:
//! 1. Only [`Rows::lend`] creates handles. It needs the only reference to the block (`Arc::get_mut`), so no
//!    handle or reader can exist at that time.
//! 2. `lend` creates one handle for each row, and panics if parts overlap or exceed the block. So no byte
//!    belongs to two handles.
//! 3. A handle lends its bytes to one caller at a time (`&mut self`), and cannot be cloned. A divided handle
//!    ([`RowMut::divide`]) lends no bytes. Its parts lend their own. Each byte comes from one pixel, given by
//!    [`Origins`], and parts have no pixel in common. They share the handle, which can be taken back
//!    (`Arc::into_inner`) only after all of them are dropped.
//! 4. [`Rows::bytes`] lends the whole block for reading if there are no handles. By rule 1, no handle can be
//!    created while the block is lent.
//! 5. [`Rows::memory`] returns a pointer under the same condition. The pointer may be passed to another
//!    library, which may write through it. Meanwhile, no slice of the same block may be made with
//!    [`Rows::bytes`]. The pointer does not come from a slice, because writing through a pointer made from a
//!    `&[u8]` is not allowed.
//! 6. [`Rows::bytes_mut`] lends the whole block for writing. As in rule 1, it needs the only reference to the
//!    block and borrows it mutably, so no other access can begin meanwhile.
//!
//! Every handle and reader holds a reference to the block, so the memory outlives them all.
#![allow(unsafe_code)]

use crate::memory::SlotMemory;
use crate::stage::{SlotRoom, Spot, StageSlot};
use shardpack_array::{Origins, OutputRow};
use shardpack_format::bug;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A block of memory that is divided into rows.
pub(crate) struct Rows {
    base: *mut u8,
    len: usize,
    /// Byte range of each row in each field, field by field.
    parts: Vec<Range<usize>>,
    /// Start of the device part. Parts at or after this offset are on the device instead of in the block.
    host: usize,
    stage: Option<Arc<dyn StageSlot>>,
    rows: usize,
    lent: AtomicUsize,
    /// Owner of the memory. It is dropped last, and is not touched between taking `base` from it and dropping
    /// it. This is a pointer, because moving a `Box` claims exclusive access to its content.
    memory: NonNull<dyn SlotMemory>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: the pointer was leaked from a box in `new`, and is freed only here. Handles and readers
        // keep references to the block, so there are none left.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

// SAFETY: `base` points into `memory`, which is `Send + Sync` itself. Access through it follows the rules
// above, which hold for all threads.
unsafe impl Send for Rows {}
// SAFETY: as above. `&Rows` alone gives access to the bytes only for reading, through `bytes`.
unsafe impl Sync for Rows {}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("len", &self.len).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A handle with the exclusive right to write the parts of one row.
pub(crate) struct RowMut {
    block: Arc<Rows>,
    row: usize,
}

/// A handle with the exclusive right to write a part of one field, after the row was divided.
pub(crate) struct PartMut {
    row: Arc<RowMut>,
    field: Range<usize>,
    share: Share,
}

/// The bytes of a field that one thread writes. They all come from the pixels of one part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    pub(crate) origins: Origins,
    pub(crate) own: Range<usize>,
}

impl Share {
    pub(crate) const fn of_bytes(own: Range<usize>) -> Self {
        Self { origins: Origins::in_order(1), own }
    }

    fn has(&self, bytes: Range<usize>) -> bool {
        let is_own = |pixel: i64| usize::try_from(pixel).is_ok_and(|pixel| self.own.contains(&pixel));
        bytes.is_empty() || self.origins.of(bytes).is_some_and(|pixels| pixels.into_iter().all(is_own))
    }
}

impl Rows {
    pub(crate) fn new(memory: Box<dyn SlotMemory>) -> Self {
        let mut memory = NonNull::from(Box::leak(memory));
        // SAFETY: the box was just leaked, so the memory lives until `drop`, and there is no other reference to it.
        let bytes = unsafe { memory.as_mut() }.bytes_mut();
        let (base, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { base, len, parts: Vec::new(), host: len, stage: None, rows: 0, lent: AtomicUsize::new(0), memory }
    }

    pub(crate) fn beside(mut self, stage: Arc<dyn StageSlot>) -> Self {
        self.stage = Some(stage);
        self
    }

    pub(crate) fn host(&self) -> usize {
        self.host.min(self.len)
    }

    pub(crate) const fn stage(&self) -> Option<&Arc<dyn StageSlot>> {
        self.stage.as_ref()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn holds(&self, room: &SlotRoom) -> bool {
        self.len >= room.host_bytes && self.stage.as_ref().is_none_or(|stage| stage.room().holds(room))
    }

    pub(crate) fn room(&self) -> SlotRoom {
        let host = SlotRoom { host_bytes: self.len, ..SlotRoom::default() };
        self.stage.as_ref().map_or(host, |stage| stage.room())
    }

    /// Divides the block into `rows` rows and appends a handle for each row to `handles`. `parts` are the byte ranges
    /// of the rows, field by field, in ascending order. Ranges at or after `host` are on the device. Does nothing and
    /// returns `false` if the block is still in use.
    ///
    /// # Panics
    /// Panics if `parts` are not ascending or exceed the block.
    pub(crate) fn lend(
        this: &mut Arc<Self>,
        rows: usize,
        host: usize,
        parts: &[Range<usize>],
        handles: &mut Vec<Option<RowMut>>,
    ) -> bool {
        let Some(block) = Arc::get_mut(this) else { return false };
        let mut end = 0;
        for part in parts.iter().filter(|part| part.start < host) {
            if part.start < end || part.end < part.start {
                bug("parts of a batch overlap");
            }
            end = part.end;
        }
        if end > host.min(block.len) {
            bug("parts of a batch exceed its slot");
        }
        if rows.checked_mul(parts.len().checked_div(rows).unwrap_or(0)) != Some(parts.len()) {
            bug("parts of a batch are not whole rows");
        }
        block.parts.clear();
        block.parts.extend_from_slice(parts);
        block.rows = rows;
        block.host = host;
        *block.lent.get_mut() = rows;
        handles.extend((0..rows).map(|row| Some(RowMut { block: Arc::clone(this), row })));
        true
    }

    /// Returns the bytes of the block, or `None` while there are handles.
    pub(crate) fn bytes(this: &Arc<Self>) -> Option<&[u8]> {
        // Acquire: makes everything that was written through dropped handles visible here.
        if this.lent.load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: base and length describe the memory, which is initialised. There are no handles, and none
        // can be created while the result lives: that takes a mutable borrow of the only reference to the
        // block, and the result borrows one.
        Some(unsafe { std::slice::from_raw_parts(this.base, this.len) })
    }

    /// Returns the bytes of the block for writing, or `None` while there are handles or other references to the
    /// block.
    pub(crate) fn bytes_mut(this: &mut Arc<Self>) -> Option<&mut [u8]> {
        let block = Arc::get_mut(this)?;
        if *block.lent.get_mut() != 0 {
            return None;
        }
        // SAFETY: base and length describe the memory, which is initialised. This is the only reference to
        // the block, and it is borrowed mutably: there are no handles and no readers, and none can be
        // created.
        Some(unsafe { std::slice::from_raw_parts_mut(block.base, block.len) })
    }

    /// Returns a pointer for reading and writing, or `None` while there are handles or if the range exceeds the
    /// block. The pointer is valid while `this` or a clone of it lives.
    pub(crate) fn memory(this: &Arc<Self>, range: Range<usize>) -> Option<NonNull<[u8]>> {
        // Acquire: as in `bytes`.
        if this.lent.load(Ordering::Acquire) != 0 || range.end > this.len {
            return None;
        }
        let length = range.end.checked_sub(range.start)?;
        let start = NonNull::new(this.base.wrapping_add(range.start))?;
        Some(NonNull::slice_from_raw_parts(start, length))
    }
}

impl RowMut {
    fn place(&self, field: usize) -> Option<Range<usize>> {
        let at = field.checked_mul(self.block.rows).and_then(|at| at.checked_add(self.row));
        at.and_then(|at| self.block.parts.get(at)).cloned()
    }

    /// Returns the length of the row's part of a field, or 0 if the part is on the device.
    pub(crate) fn length(&self, field: usize) -> usize {
        self.place(field).filter(|part| part.start < self.block.host).map_or(0, |part| part.len())
    }

    /// Returns the location of a field on the device, or `None` if the field is not on a device.
    pub(crate) fn spot(&self, field: usize) -> Option<(Arc<dyn StageSlot>, Spot)> {
        let stage = self.block.stage()?;
        let bytes = self.place(field).filter(|part| part.start >= self.block.host)?;
        let number = |n: usize| u32::try_from(n).ok();
        Some((Arc::clone(stage), Spot { row: number(self.row)?, field: number(field)?, bytes }))
    }

    /// Divides the row among several threads. `parts` lists fields in ascending order, and a share for each. Shares
    /// of the same field must ascend by pixel and have the same origins. Otherwise, or if a field is not in the
    /// block, returns the row undivided.
    pub(crate) fn divide(self, parts: &[(usize, Share)]) -> Result<(Arc<Self>, Vec<PartMut>), Self> {
        let mut shares = Vec::with_capacity(parts.len());
        let mut last: Option<&(usize, Share)> = None;
        for part in parts {
            let (field, share) = part;
            let Some(place) = self.place(*field).filter(|place| place.start < self.block.host) else {
                return Err(self);
            };
            let follows = last.is_none_or(|(before, other)| {
                let beside = other.origins == share.origins && other.own.end <= share.own.start;
                before < field || (before == field && beside)
            });
            if !follows || share.own.end < share.own.start {
                return Err(self);
            }
            last = Some(part);
            shares.push((place, share.clone()));
        }
        let row = Arc::new(self);
        let part = |(field, share)| PartMut { row: Arc::clone(&row), field, share };
        let parts = shares.into_iter().map(part).collect();
        Ok((row, parts))
    }

    pub(crate) fn clear(&mut self, field: usize) {
        match self.spot(field) {
            Some((stage, spot)) => stage.clear(&spot),
            None => self.part(field).fill(0),
        }
    }

    /// Fills part `field` of this row with zeros, both in the block and in the batch on the device.
    ///
    /// # Errors
    /// Same as [`StageSlot::write`].
    pub(crate) fn erase(&mut self, field: usize) -> std::io::Result<()> {
        self.part(field).fill(0);
        match (self.block.stage(), self.place(field)) {
            (Some(stage), Some(place)) => stage.write(place.start, &vec![0; place.len()]),
            _ => Ok(()),
        }
    }

    /// Returns the bytes field by field. Fields on the device are empty.
    pub(crate) fn parts(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let Self { block, row } = self;
        let all = block.parts.iter().skip(*row).step_by(block.rows.max(1));
        all.map(|part| match part.start < block.host {
            // SAFETY: as in `part`. Each part comes once while the handle is borrowed, and `lend` has checked
            // that no two parts overlap.
            true => unsafe { std::slice::from_raw_parts_mut(block.base.add(part.start), part.end - part.start) },
            false => &mut [],
        })
    }

    /// Returns the bytes of a field. The slice is empty if the field does not exist or is on the device.
    pub(crate) fn part(&mut self, field: usize) -> &mut [u8] {
        let Some(part) = self.place(field).filter(|part| part.start < self.block.host) else { return &mut [] };
        // SAFETY: `lend` has checked that the part is inside the block and overlaps no other part. Only this
        // handle has it, and the handle is borrowed mutably. The block is not read while there are handles.
        unsafe { std::slice::from_raw_parts_mut(self.block.base.add(part.start), part.end - part.start) }
    }
}

impl PartMut {
    /// Returns all bytes of the part if they form one range, and an empty slice otherwise.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self.share == Share::of_bytes(self.share.own.clone()) {
            true => OutputRow::bytes(self, self.share.own.clone()).unwrap_or_default(),
            false => &mut [],
        }
    }
}

impl OutputRow for PartMut {
    fn bytes(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        let inside = range.start <= range.end && range.end <= self.field.len();
        if !inside || !self.share.has(range.clone()) {
            return None;
        }
        // SAFETY: the range is inside a field of the row, which is inside the block. All of its bytes belong
        // to this part: origins assign one pixel to each byte, a byte between two bytes of a line gets a
        // pixel between theirs, and `divide` has checked that the parts of a field have the same origins and
        // no pixel in common. Only this part has the range, and the part is borrowed mutably. The handle
        // lends no bytes while a part shares it, because that takes a mutable borrow of the handle.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.row.block.base.add(self.field.start + range.start), range.len())
        })
    }
}

impl Drop for RowMut {
    fn drop(&mut self) {
        // Release: pairs with the load of `bytes`.
        self.block.lent.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;

//! The fence around the one thing that safe Rust cannot say: many threads write disjoint rows of
//! one block of memory, whose borders are known only at run time. All `unsafe` of this crate stands
//! here.
//!
//! The rules, which the types uphold and nobody outside can break:
//! 1. Only [`Rows::lend`] makes handles. It needs the only reference to the block (`Arc::get_mut`),
//!    so no handle, and no reader, exists before it.
//! 2. It makes one handle for each row, and refuses parts that overlap or leave the block. So no
//!    byte belongs to two handles.
//! 3. A handle gives its bytes to one caller at a time (`&mut self`), and cannot be cloned.
//!    A handle that was divided gives none ([`RowMut::divide`]): its parts do, each its own bytes.
//!    Parts are checked to be disjoint and within the row. They share the handle, which can be had
//!    alone (`Arc::into_inner`) only when all of them are dropped.
//! 4. [`Rows::bytes`] lends everything for reading, if no handle is left; and none can come while
//!    it is lent, because of rule 1.
//! 5. [`Rows::memory`] gives a pointer under the same condition. Whoever hands it to another
//!    library, which may write through it, makes no slice of the same block by [`Rows::bytes`]
//!    meanwhile. No slice stands between the pointer and the block: a pointer made out of a `&[u8]`
//!    could not be written through.
//! 6. [`Rows::bytes_mut`] lends everything for writing. As rule 1, it needs the only reference to the
//!    block, and borrows it mutably: nobody else can come meanwhile.
//!
//! Every handle and every reader holds a reference to the block, so the memory outlives them all.
#![allow(unsafe_code)]

use super::memory::SlotMemory;
use super::stage::{Room, Spot, StageSlot};
use shardpack_reader::{Error, Result};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A block of memory and the rows it is divided into at the moment.
pub(super) struct Rows {
    base: *mut u8,
    len: usize,
    /// Field by field, the part of each row.
    parts: Vec<Range<usize>>,
    /// Parts that begin here or later are on the device, not in the block.
    host: usize,
    /// What the slot has on a device.
    stage: Option<Arc<dyn StageSlot>>,
    rows: usize,
    /// Handles that are alive.
    lent: AtomicUsize,
    /// Never touched again once `base` was taken from it; dropped last of all. A pointer, because a
    /// `Box` claims its content for itself whenever it is moved, and the bytes may lie in the very
    /// value.
    memory: NonNull<dyn SlotMemory>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        // SAFETY: it was leaked from a box in `new`, and is freed here alone. Handles and readers
        // hold references to the block, so none is left.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

// SAFETY: `base` points into `memory`, which is `Send + Sync` itself; access through it follows the
// rules above, which hold for any threads.
unsafe impl Send for Rows {}
// SAFETY: as above; `&Rows` alone gives access to no byte but by `bytes`, for reading.
unsafe impl Sync for Rows {}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("len", &self.len).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// One row: the right to write its parts.
pub(super) struct RowMut {
    block: Arc<Rows>,
    row: usize,
}

/// A part of a field of a row that was divided: the right to write it.
pub(super) struct PartMut {
    row: Arc<RowMut>,
    /// In the block.
    bytes: Range<usize>,
}

impl Rows {
    pub(super) fn new(memory: Box<dyn SlotMemory>) -> Self {
        let mut memory = NonNull::from(Box::leak(memory));
        // SAFETY: it was just leaked, so it lives until `drop`, and nobody else has it.
        let bytes = unsafe { memory.as_mut() }.bytes_mut();
        let (base, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { base, len, parts: Vec::new(), host: len, stage: None, rows: 0, lent: AtomicUsize::new(0), memory }
    }

    /// With a part on a device.
    pub(super) fn beside(mut self, stage: Arc<dyn StageSlot>) -> Self {
        self.stage = Some(stage);
        self
    }

    /// Bytes of the fields that are in the block.
    pub(super) fn host(&self) -> usize {
        self.host.min(self.len)
    }

    /// What the slot has on a device.
    pub(super) const fn stage(&self) -> Option<&Arc<dyn StageSlot>> {
        self.stage.as_ref()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether a batch that needs `room` fits.
    pub(super) fn holds(&self, room: &Room) -> bool {
        self.len >= room.host_bytes && self.stage.as_ref().is_none_or(|stage| stage.room().holds(room))
    }

    /// What it was made for.
    pub(super) fn room(&self) -> Room {
        let host = Room { host_bytes: self.len, ..Room::default() };
        self.stage.as_ref().map_or(host, |stage| stage.room())
    }

    /// Divides the block into `rows` rows and appends a handle for each to `handles`. `parts` are
    /// field by field those of each row; the ones from `host` on are on the device. `false`, and
    /// nothing happens, if somebody still uses the block.
    ///
    /// # Errors
    /// `Internal` if the parts of the block are not ascending, or leave it.
    pub(super) fn lend(
        this: &mut Arc<Self>,
        (rows, host): (usize, usize),
        parts: &[Range<usize>],
        handles: &mut Vec<Option<RowMut>>,
    ) -> Result<bool> {
        let Some(block) = Arc::get_mut(this) else { return Ok(false) };
        let mut end = 0;
        for part in parts.iter().filter(|part| part.start < host) {
            if part.start < end || part.end < part.start {
                return Err(Error::internal("parts of a batch", format!("one from {end} on"), format!("{part:?}")));
            }
            end = part.end;
        }
        if end > host.min(block.len)
            || rows.checked_mul(parts.len().checked_div(rows).unwrap_or(0)) != Some(parts.len())
        {
            let expected = format!("whole rows in {} bytes", block.len);
            return Err(Error::internal("parts of a batch", expected, format!("{} that end at {end}", parts.len())));
        }
        block.parts.clear();
        block.parts.extend_from_slice(parts);
        block.rows = rows;
        block.host = host;
        *block.lent.get_mut() = rows;
        handles.extend((0..rows).map(|row| Some(RowMut { block: Arc::clone(this), row })));
        Ok(true)
    }

    /// Everything, for reading; `None` while there are handles.
    pub(super) fn bytes(this: &Arc<Self>) -> Option<&[u8]> {
        // Acquire: what handles wrote before they were dropped is seen.
        if this.lent.load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: base and length are those of the memory, initialised. No handle exists, and none
        // is made while the result lives: that takes the only reference to the block mutably, and
        // the result borrows one.
        Some(unsafe { std::slice::from_raw_parts(this.base, this.len) })
    }

    /// Everything, for writing; `None` while there are handles, or others who refer to the block.
    pub(super) fn bytes_mut(this: &mut Arc<Self>) -> Option<&mut [u8]> {
        let block = Arc::get_mut(this)?;
        if *block.lent.get_mut() != 0 {
            return None;
        }
        // SAFETY: base and length are those of the memory, initialised. This is the only reference
        // to the block, and it is borrowed mutably: no handle and no reader exists or can come.
        Some(unsafe { std::slice::from_raw_parts_mut(block.base, block.len) })
    }

    /// Where `range` of the block lies, for reading and writing; `None` while there are handles,
    /// and if the range leaves the block. The pointer is good as long as `this` or a clone of it
    /// lives.
    pub(super) fn memory(this: &Arc<Self>, range: Range<usize>) -> Option<NonNull<[u8]>> {
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
    /// Where part `field` of this row is in the batch.
    fn place(&self, field: usize) -> Option<Range<usize>> {
        let at = field.checked_mul(self.block.rows).and_then(|at| at.checked_add(self.row));
        at.and_then(|at| self.block.parts.get(at)).cloned()
    }

    /// Bytes of part `field` of this row; none of what is on the device.
    pub(super) fn length(&self, field: usize) -> usize {
        self.place(field).filter(|part| part.start < self.block.host).map_or(0, |part| part.len())
    }

    /// Where part `field` of this row is, if that is on a device.
    pub(super) fn spot(&self, field: usize) -> Option<(Arc<dyn StageSlot>, Spot)> {
        let stage = self.block.stage()?;
        let bytes = self.place(field).filter(|part| part.start >= self.block.host)?;
        let number = |n: usize| u32::try_from(n).ok();
        Some((Arc::clone(stage), Spot { row: number(self.row)?, field: number(field)?, bytes }))
    }

    /// Divides the row among several threads. `parts` are fields, ascending, and ranges of the bytes
    /// of each, ascending. The row itself comes back, undivided, if they are not, or are not in the
    /// block.
    pub(super) fn divide(self, parts: &[(usize, Range<usize>)]) -> Result<(Arc<Self>, Vec<PartMut>), Self> {
        let mut ranges = Vec::with_capacity(parts.len());
        let mut last = (0, 0);
        for (field, range) in parts {
            let Some(place) = self.place(*field).filter(|place| place.start < self.block.host) else {
                return Err(self);
            };
            let free = if last.0 == *field { last.1 } else { 0 };
            if *field < last.0 || range.start < free || range.end < range.start || range.end > place.end - place.start {
                return Err(self);
            }
            last = (*field, range.end);
            ranges.push(place.start + range.start..place.start + range.end);
        }
        let row = Arc::new(self);
        let parts = ranges.into_iter().map(|bytes| PartMut { row: Arc::clone(&row), bytes }).collect();
        Ok((row, parts))
    }

    /// Makes part `field` of this row zero, wherever it is.
    pub(super) fn clear(&mut self, field: usize) {
        match self.spot(field) {
            Some((stage, spot)) => stage.clear(&spot),
            None => self.part(field).fill(0),
        }
    }

    /// Makes part `field` of this row zero of a batch that is on the device already: there, and in
    /// the block.
    ///
    /// # Errors
    /// As [`StageSlot::write`].
    pub(super) fn erase(&mut self, field: usize) -> std::io::Result<()> {
        self.part(field).fill(0);
        match (self.block.stage(), self.place(field)) {
            (Some(stage), Some(place)) => stage.write(place.start, &vec![0; place.len()]),
            _ => Ok(()),
        }
    }

    /// The bytes of part `field` of this row; empty if there is no such field, and of one that is
    /// on the device.
    pub(super) fn part(&mut self, field: usize) -> &mut [u8] {
        let Some(part) = self.place(field).filter(|part| part.start < self.block.host) else { return &mut [] };
        // SAFETY: `lend` has checked that the part is inside the block and overlaps no other; only
        // this handle has it, and it is borrowed mutably. Nobody reads while there are handles.
        unsafe { std::slice::from_raw_parts_mut(self.block.base.add(part.start), part.end - part.start) }
    }
}

impl PartMut {
    /// Its bytes.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `divide` has checked that the range is inside a field of the row, which is inside
        // the block, and overlaps that of no other part; only this one has it, and it is borrowed
        // mutably. The handle gives no bytes while a part shares it: that takes it mutably.
        unsafe { std::slice::from_raw_parts_mut(self.row.block.base.add(self.bytes.start), self.bytes.len()) }
    }
}

impl Drop for RowMut {
    fn drop(&mut self) {
        // Release: pairs with the load of `bytes`.
        self.block.lent.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Allocate, Heap};

    /// The bytes lie in the value: where it goes, they go.
    struct Inline([u8; 64], Arc<AtomicUsize>);

    impl SlotMemory for Inline {
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Inline {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn bytes_may_lie_in_the_value_itself() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut moved = vec![Rows::new(Box::new(Inline([7; 64], Arc::clone(&dropped))))];
        moved.reserve(100);
        let mut block = Arc::new(moved.remove(0));
        assert_eq!(Rows::bytes(&block), Some(&[7; 64][..]));
        let mut handles = Vec::new();
        assert!(Rows::lend(&mut block, (1, usize::MAX), std::slice::from_ref(&(0..64)), &mut handles).unwrap());
        handles.iter_mut().flatten().for_each(|handle| handle.part(0).fill(9));
        handles.clear();
        assert_eq!(Rows::bytes(&block), Some(&[9; 64][..]));
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        drop(block);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    fn block(bytes: usize) -> Arc<Rows> {
        Arc::new(Rows::new(Heap.allocate(bytes).unwrap()))
    }

    #[test]
    fn threads_write_their_rows_and_nothing_else() {
        let mut block = block(64);
        // Two fields of four rows: 4 bytes each, then 8.
        let parts: Vec<_> = (0..4).map(|r| r * 4..r * 4 + 4).chain((0..4).map(|r| 16 + r * 8..24 + r * 8)).collect();
        for round in 0..20_u8 {
            let mut handles = Vec::new();
            assert!(Rows::lend(&mut block, (4, usize::MAX), &parts, &mut handles).unwrap());
            assert!(Rows::bytes(&block).is_none(), "rows are being written");
            std::thread::scope(|scope| {
                for (row, handle) in (0_u8..).zip(handles) {
                    let mut handle = handle.unwrap();
                    scope.spawn(move || {
                        handle.part(0).fill(round + row);
                        handle.part(1).fill(round + row + 100);
                        assert!(handle.part(2).is_empty());
                    });
                }
            });
            let bytes = Rows::bytes(&block).unwrap();
            for row in 0..4_u8 {
                let at = usize::from(row);
                assert!(bytes[at * 4..at * 4 + 4].iter().all(|&b| b == round + row));
                assert!(bytes[16 + at * 8..24 + at * 8].iter().all(|&b| b == round + row + 100));
            }
        }
    }

    #[test]
    fn another_library_writes_through_the_pointer() {
        let mut block = block(8);
        let whole = std::slice::from_ref(&(0..8));
        let mut handles = Vec::new();
        assert!(Rows::lend(&mut block, (1, usize::MAX), whole, &mut handles).unwrap());
        handles[0].as_mut().unwrap().part(0).fill(1);
        assert_eq!(Rows::memory(&block, 0..8), None, "a row is being written");
        handles.clear();
        for range in [7..9, 9..9, Range { start: 5, end: 4 }] {
            assert_eq!(Rows::memory(&block, range), None);
        }
        let part = Rows::memory(&block, 2..6).unwrap();
        assert_eq!(part.len(), 4);
        // SAFETY: rule 5: four bytes of the block, which lives, and no slice of it is there.
        unsafe { std::ptr::write_bytes(part.cast::<u8>().as_ptr(), 9, part.len()) };
        assert_eq!(Rows::bytes(&block), Some(&[1, 1, 9, 9, 9, 9, 1, 1][..]));
        // And the next batch is written into it as ever.
        assert!(Rows::lend(&mut block, (1, usize::MAX), whole, &mut handles).unwrap());
        handles[0].as_mut().unwrap().part(0).fill(2);
        handles.clear();
        assert_eq!(Rows::bytes(&block), Some(&[2; 8][..]));
    }

    #[test]
    fn parts_on_the_device_are_not_in_the_block() {
        let mut block = block(8);
        let mut handles = Vec::new();
        assert!(Rows::lend(&mut block, (1, 4), &[64..1000, 0..4], &mut handles).unwrap());
        let handle = handles[0].as_mut().unwrap();
        assert!(handle.part(0).is_empty());
        assert_eq!((handle.place(0), handle.part(1).len()), (Some(64..1000), 4));
        handles.clear();
        assert!(Rows::lend(&mut block, (1, 3), &[64..1000, 0..4], &mut handles).is_err(), "across the border");
    }

    #[test]
    fn threads_share_a_row_and_give_it_back() {
        let mut block = block(64);
        let mut handles = Vec::new();
        let fields = [0..4, 4..8, 8..40, 40..64];
        assert!(Rows::lend(&mut block, (2, usize::MAX), &fields, &mut handles).unwrap());
        let mut second = handles.swap_remove(1).unwrap();
        drop(handles);
        let overlapping = [[(0, 0..3), (0, 2..4)], [(1, 0..3), (0, 0..2)], [(0, 3..4), (0, 0..1)]];
        for parts in overlapping.iter().map(|parts| &parts[..]).chain([&[(1, 0..25)][..], &[(2, 0..0)], &[(9, 0..0)]]) {
            second = second.divide(parts).map(|_| ()).unwrap_err();
        }
        let parts = [(0, 1..3), (1, 0..10), (1, 10..10), (1, 12..24)];
        let (row, parts) = second.divide(&parts).ok().unwrap();
        let row = Arc::try_unwrap(row).map(|_| ()).expect_err("parts share it");
        std::thread::scope(|scope| {
            for (value, mut part) in (1_u8..).zip(parts) {
                scope.spawn(move || part.bytes().fill(value));
            }
        });
        assert!(Rows::bytes(&block).is_none(), "the row is still lent");
        let mut row = Arc::into_inner(row).unwrap();
        row.part(1)[10..12].fill(9);
        drop(row);
        let bytes = Rows::bytes(&block).unwrap();
        assert_eq!(bytes[4..8], [0, 1, 1, 0]);
        assert_eq!((&bytes[40..50], &bytes[50..52], &bytes[52..]), (&[2; 10][..], &[9; 2][..], &[4; 12][..]));
        assert!(bytes[..4].iter().chain(&bytes[8..40]).all(|&byte| byte == 0), "the other row");
    }

    #[test]
    fn a_block_in_use_is_not_lent_again() {
        let mut block = block(8);
        let whole = std::slice::from_ref(&(0..8));
        let mut handles = Vec::new();
        assert!(Rows::lend(&mut block, (1, usize::MAX), whole, &mut handles).unwrap());
        assert!(!Rows::lend(&mut block, (1, usize::MAX), whole, &mut Vec::new()).unwrap(), "a handle is out");
        handles.clear();
        let reader = Arc::clone(&block);
        assert!(!Rows::lend(&mut block, (1, usize::MAX), whole, &mut Vec::new()).unwrap(), "a reader is out");
        drop(reader);
        assert!(Rows::lend(&mut block, (1, usize::MAX), whole, &mut handles).unwrap());
    }

    #[test]
    fn parts_that_overlap_or_leave_the_block_are_refused() {
        let mut block = block(8);
        for parts in [&[0..4, 3..8][..], &[0..4, 4..9], &[2..4, 0..1], &[0..1, 1..2, 2..3]] {
            assert!(Rows::lend(&mut block, (2, usize::MAX), parts, &mut Vec::new()).is_err(), "{parts:?}");
        }
        assert!(Rows::bytes(&block).is_some());
    }
}

//! Lends bytes of an arena to several threads, which fill them at the same time.
//!
//! The rules of [`Arena`](super::Arena) for claims also hold here, by reference counting instead of borrowing:
//! 1. A loan and each of its parts hold a reference to the memory. The arena is reset, or hands its memory to a
//!    device, only when it has the only reference.
//! 2. A loan creates all its parts at once, contiguous and without overlap. So no byte belongs to two parts, and each
//!    part lends its bytes to one caller at a time (`&mut self`).
//! 3. A loan gives read access to its bytes only after all its parts have been dropped. No more parts can be created
//!    then.
#![allow(unsafe_code)]

use super::block::Block;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of an arena that are lent to several threads. They can be read once they are filled.
///
/// ```
/// use shardpack_gpu::kernels::{Arena, Heap};
/// let mut arena = Arena::new(Heap::new(64))?;
/// let (loan, parts) = arena.lend(40, 16).unwrap();
/// assert_eq!((loan.at(), parts.len()), (0, 3));
/// std::thread::scope(|scope| {
///     for (value, mut part) in (1..).zip(parts) {
///         scope.spawn(move || part.bytes().fill(value));
///     }
/// });
/// assert_eq!(loan.bytes().unwrap()[14..18], [1, 1, 2, 2]);
/// assert!(arena.memory().is_err(), "it is still lent");
/// drop(loan);
/// assert_eq!(arena.memory()?.bytes_mut()[38..42], [3, 3, 0, 0]);
/// # Ok::<(), shardpack_gpu::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Loan<M> {
    memory: Arc<M>,
    bytes: Range<usize>,
    /// Number of parts that have not been dropped yet.
    left: Arc<AtomicUsize>,
}

/// A writable part of a [`Loan`].
#[derive(Debug)]
pub struct LoanPart<M> {
    memory: Arc<M>,
    bytes: Range<usize>,
    left: Arc<AtomicUsize>,
}

impl<M: Block> Loan<M> {
    /// Lends `bytes` of `memory` in parts of `step` bytes.
    ///
    /// # Safety
    /// The bytes must be within the memory. As long as the loan or its parts hold `memory`, no other code may
    /// read or write these bytes.
    pub(super) unsafe fn new(memory: &Arc<M>, bytes: Range<usize>, step: usize) -> (Self, Vec<LoanPart<M>>) {
        let step = step.max(1);
        let count = bytes.len().div_ceil(step);
        let left = Arc::new(AtomicUsize::new(count));
        let part = |number: usize| {
            let start = bytes.start + number * step;
            let bytes = start..start + step.min(bytes.end - start);
            LoanPart { memory: Arc::clone(memory), bytes, left: Arc::clone(&left) }
        };
        let parts = (0..count).map(part).collect();
        (Self { memory: Arc::clone(memory), bytes, left }, parts)
    }

    /// Returns the offset in the memory, a multiple of 16.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.bytes.start
    }

    /// Returns the filled bytes, or `None` as long as parts exist.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        // Acquire ordering makes the writes to dropped parts visible.
        if self.left.load(Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: the bytes are within the memory, which is initialised and lives as long as `self`. No part
        // is left that could write them, none can be made, and no other code writes them, as `new` requires.
        Some(unsafe {
            std::slice::from_raw_parts(self.memory.start().as_ptr().add(self.bytes.start), self.bytes.len())
        })
    }
}

impl<M: Block> LoanPart<M> {
    /// Returns the bytes of the part, with content left over from earlier use.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as in `Loan::bytes`; in addition, the bytes belong to no other part, `self` is borrowed
        // exclusively, and the loan gives no access while `self` lives.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(self.bytes.start), self.bytes.len()) }
    }
}

impl<M> Drop for LoanPart<M> {
    fn drop(&mut self) {
        // Release ordering pairs with the load in `Loan::bytes`.
        self.left.fetch_sub(1, Ordering::Release);
    }
}

//! Divides staging memory among many threads, which claim parts of it and fill them at the same time.
//!
//! The types uphold these rules, and no other code can break them:
//! 1. The state records the number of bytes handed out at the front and at the back. A claim takes bytes between the
//!    two, under a lock, so no byte belongs to two claims.
//! 2. A claim borrows the arena. [`Arena::reset`] and [`Arena::memory`] need exclusive access to the arena
//!    (`&mut self`), so they can run only when no claim is left. For the same reason, the arena does not move while
//!    there are claims. A [`Loan`] is for bytes that are filled over a longer time: it holds the memory, and both
//!    functions fail as long as a loan exists.
//! 3. Bytes that a device copies are not written: after [`Arena::memory`], nothing is handed out until
//!    [`Arena::reset`], which waits until all copies are done.
//! 4. While claims and loans are possible, only they give access to bytes, because a [`Block`] provides only a
//!    pointer.
#![allow(unsafe_code)]

use super::block::Block;
use super::error::GpuError;
use super::loan::{Loan, LoanPart};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const ALIGN: usize = 16;

/// A [`Block`] of memory that is divided again for each batch.
///
/// Bytes that are uploaded in one piece are claimed from the front, other bytes from the back.
///
/// ```
/// use shardpack_gpu::kernels::{Arena, Heap};
/// let mut arena = Arena::new(Heap::new(64))?;
/// let (front, back) = (arena.claim(10).unwrap(), arena.claim_back(20).unwrap());
/// front.bytes.fill(1);
/// back.bytes.fill(2);
/// assert_eq!((front.at, back.at, arena.used()), (0, 32, 16));
/// assert!(arena.claim(17).is_none(), "16 bytes are between the two");
/// assert_eq!(arena.memory()?.bytes_mut()[32..52], [2; 20]);
/// # Ok::<(), shardpack_gpu::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Arena<M> {
    /// The memory. Loans hold references to it.
    memory: Arc<M>,
    state: Mutex<ArenaState>,
}

/// Bytes of an [`Arena`] that only the holder of this value can access.
#[derive(Debug)]
pub struct ArenaPart<'a> {
    /// Offset of the part, a multiple of 16.
    pub at: usize,
    /// Bytes of the part, with content left over from earlier use.
    pub bytes: &'a mut [u8],
}

/// Boundaries of the bytes that are handed out. All are multiples of [`ALIGN`].
#[derive(Debug, Default)]
struct ArenaState {
    front: usize,
    /// First byte handed out from the back.
    back: usize,
    /// Number of reserved bytes between the front and the back.
    reserved: usize,
}

impl ArenaState {
    fn free(&self) -> usize {
        (self.back - self.front).saturating_sub(self.reserved)
    }
}

impl<M: Block> Arena<M> {
    /// Creates an arena from all of `memory`.
    ///
    /// # Errors
    /// Same as [`reset`](Self::reset).
    pub fn new(memory: M) -> Result<Self, GpuError> {
        let mut arena = Self { memory: Arc::new(memory), state: Mutex::default() };
        arena.reset()?;
        Ok(arena)
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.size() / ALIGN * ALIGN
    }

    /// Waits until no device uses the memory, then frees all parts.
    ///
    /// # Errors
    /// `Driver` if the device has failed; `Lent` if a loan still exists. After an error, nothing can be claimed.
    pub fn reset(&mut self) -> Result<(), GpuError> {
        let back = self.size();
        self.memory()?.settle()?;
        *self.state_mut() = ArenaState { back, ..ArenaState::default() };
        Ok(())
    }

    /// Claims a part from the front, or returns `None` if it does not fit.
    pub fn claim(&self, len: usize) -> Option<ArenaPart<'_>> {
        self.hand_out(len, |state, taken| {
            state.front += taken;
            state.front - taken
        })
    }

    /// Claims a part from the back, or returns `None` if it does not fit.
    pub fn claim_back(&self, len: usize) -> Option<ArenaPart<'_>> {
        self.hand_out(len, |state, taken| {
            state.back -= taken;
            state.back
        })
    }

    /// Claims bytes, as [`claim`](Self::claim) does, and divides them into parts of `step` bytes for several threads.
    pub fn lend(&self, len: usize, step: usize) -> Option<(Loan<M>, Vec<LoanPart<M>>)> {
        let bytes = self.claim(len)?.range();
        // SAFETY: the claim had exclusive access to these bytes and is given up here. Neither these bytes nor
        // the whole memory are handed out again while a loan holds the memory: rule 2.
        Some(unsafe { Loan::new(&self.memory, bytes, step) })
    }

    /// Reserves `len` bytes, which then cannot be claimed. Returns `false` if fewer bytes are free.
    pub fn reserve(&self, len: usize) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = len <= state.free();
        state.reserved += if fits { len } else { 0 };
        fits
    }

    /// Makes the reserved bytes claimable again.
    pub fn release(&mut self) {
        self.state_mut().reserved = 0;
    }

    /// Returns the number of bytes handed out at the front.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).front
    }

    /// Returns the memory itself. Nothing can be claimed until the next [`reset`](Self::reset).
    ///
    /// # Errors
    /// `Lent` if a loan still exists.
    pub fn memory(&mut self) -> Result<&mut M, GpuError> {
        *self.state_mut() = ArenaState::default();
        Arc::get_mut(&mut self.memory).ok_or(GpuError::Lent)
    }

    fn state_mut(&mut self) -> &mut ArenaState {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a part of `len` bytes. `take` moves one end of the free range by the given number of bytes and returns
    /// the offset of these bytes.
    fn hand_out(&self, len: usize, take: impl FnOnce(&mut ArenaState, usize) -> usize) -> Option<ArenaPart<'_>> {
        let taken = len.checked_next_multiple_of(ALIGN)?;
        let at = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if taken > state.free() {
                return None;
            }
            take(&mut state, taken)
        };
        // SAFETY: `len` bytes from `at` on were free and are within the block: rule 1. Only this claim has
        // access to them until `self` is borrowed exclusively: rules 2 to 4.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), len) };
        Some(ArenaPart { at, bytes })
    }
}

impl ArenaPart<'_> {
    /// Returns the part's range in the memory.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.at..self.at + self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Heap;
    use super::*;
    use std::ptr::NonNull;

    fn arena(len: usize) -> Arena<Heap> {
        Arena::new(Heap::new(len)).unwrap()
    }

    #[test]
    fn threads_fill_their_claims_and_nothing_else() {
        let mut arena = arena(64 << 10);
        for round in 0..10_u8 {
            let mut claimed: Vec<(Range<usize>, u8)> = std::thread::scope(|scope| {
                let fill = |thread: u8| {
                    let arena = &arena;
                    move || {
                        let mut found = Vec::new();
                        for n in 1.. {
                            let len = usize::from(thread) * 7 + n;
                            let claim = if n % 3 == 0 { arena.claim_back(len) } else { arena.claim(len) };
                            let Some(claim) = claim else { break };
                            let value = round.wrapping_mul(31) ^ thread.wrapping_mul(97) ^ n as u8;
                            claim.bytes.fill(value);
                            found.push((claim.range(), value));
                        }
                        found
                    }
                };
                let threads: Vec<_> = (0..4).map(|thread| scope.spawn(fill(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            claimed.sort_by_key(|(range, _)| range.start);
            assert!(claimed.len() > 100 && claimed.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
            let bytes = arena.memory().unwrap().bytes_mut();
            for (range, value) in claimed {
                assert!(bytes[range].iter().all(|byte| *byte == value));
            }
            assert!(arena.claim(1).is_none(), "it may be on its way to a device");
            arena.reset().unwrap();
        }
    }

    #[test]
    fn reserved_bytes_are_not_claimed() {
        let mut arena = arena(100);
        assert_eq!(arena.size(), 96);
        assert!(arena.reserve(40) && !arena.reserve(57));
        assert_eq!(arena.claim(40).unwrap().at, 0);
        assert!(arena.claim(1).is_none() && arena.claim_back(1).is_none() && !arena.reserve(9));
        assert!(arena.claim(usize::MAX).is_none());
        arena.release();
        assert_eq!(arena.claim_back(16).unwrap().at, 80);
        assert_eq!(arena.claim(32).unwrap().range(), 48..80);
        assert_eq!(arena.used(), 80);
        assert!(arena.claim(0).unwrap().bytes.is_empty());
    }

    #[test]
    fn threads_fill_their_parts_of_a_loan_and_nothing_else() {
        let mut arena = arena(1 << 12);
        for (round, (len, step)) in [(1000, 100), (1001, 100), (7, 100), (100, 0), (0, 5)].into_iter().enumerate() {
            let before = arena.claim(100).unwrap();
            before.bytes.fill(0xEE);
            let before = before.range();
            let (loan, parts) = arena.lend(len, step).unwrap();
            let after = arena.claim(100).unwrap();
            after.bytes.fill(0xDD);
            let after = after.range();
            assert_eq!(parts.len(), len.div_ceil(step.max(1)), "{round}");
            assert_eq!(loan.bytes().is_none(), len > 0, "parts may be written");
            std::thread::scope(|scope| {
                for (number, mut part) in (1_u8..).zip(parts) {
                    scope.spawn(move || part.bytes().fill(number));
                }
            });
            let expected: Vec<u8> = (0..len).map(|at| (at / step.max(1)) as u8 + 1).collect();
            assert_eq!(loan.bytes().unwrap(), expected);
            let at = loan.at();
            drop(loan);
            let bytes = arena.memory().unwrap().bytes_mut();
            assert_eq!(bytes[at..at + len], expected);
            assert!(bytes[before].iter().all(|byte| *byte == 0xEE) && bytes[after].iter().all(|byte| *byte == 0xDD));
            arena.reset().unwrap();
        }
        assert!(arena.lend((1 << 12) + 1, 1).is_none());
    }

    #[test]
    fn lent_bytes_are_neither_uploaded_nor_claimed_again() {
        let mut arena = arena(64);
        let (loan, mut parts) = arena.lend(20, 10).unwrap();
        parts.truncate(1);
        for held in [true, false] {
            assert_eq!(arena.memory().err(), Some(GpuError::Lent));
            assert_eq!(arena.reset(), Err(GpuError::Lent));
            assert!(arena.claim(1).is_none() && arena.lend(1, 1).is_none(), "nothing is handed out twice");
            assert_eq!(loan.bytes().is_none(), held);
            parts.clear();
        }
        // This part of a loan outlives its arena.
        parts.extend(Arena::new(Heap::new(16)).unwrap().lend(16, 16).unwrap().1);
        parts[0].bytes().fill(3);
        drop(loan);
        arena.reset().unwrap();
        assert_eq!(arena.claim(64).unwrap().at, 0);
    }

    /// Memory of a device that fails while reading from it.
    struct Lost(Heap, bool);

    // SAFETY: as for `Heap`.
    unsafe impl Block for Lost {
        fn start(&self) -> NonNull<u8> {
            self.0.start()
        }

        fn size(&self) -> usize {
            self.0.size()
        }

        fn settle(&mut self) -> Result<(), GpuError> {
            if self.1 { Err(GpuError::NoDriver) } else { Ok(()) }
        }
    }

    #[test]
    fn nothing_is_claimed_while_a_device_may_read() {
        let mut arena = Arena::new(Lost(Heap::new(32), false)).unwrap();
        assert!(arena.claim(32).is_some());
        arena.memory().unwrap().1 = true;
        assert_eq!(arena.reset(), Err(GpuError::NoDriver));
        assert!(arena.claim(0).is_some_and(|claim| claim.bytes.is_empty()) && arena.claim(1).is_none());
        assert!(arena.claim_back(1).is_none() && !arena.reserve(1));
    }
}

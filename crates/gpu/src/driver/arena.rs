//! Staging memory from which many threads claim parts, to fill them at the same time.
//!
//! The rules, which the types uphold and nobody outside can break:
//! 1. The state says what is handed out: from the front, and from the back. A claim takes bytes
//!    between the two, under a lock. So no byte belongs to two claims.
//! 2. A claim borrows the arena. [`Arena::reset`] and [`Arena::memory`] need the arena for
//!    themselves (`&mut self`), so they come when no claim is left, and the arena is not moved while
//!    there are any.
//!    What is filled for longer than that is a [`Loan`]: it holds the memory, and both fail as long as
//!    somebody does.
//! 3. What a device copies is not written: after [`Arena::memory`] nothing is handed out until
//!    [`Arena::reset`], and that waits until all copies are done.
//! 4. Nothing but a claim or a loan gives out bytes while they are possible: a [`Block`] gives a
//!    pointer.
#![allow(unsafe_code)]

use super::block::Block;
use super::error::GpuError;
use super::loan::{Loan, LoanPart};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Parts begin at multiples of this.
const ALIGN: usize = 16;

/// A [`Block`] that is divided anew for each batch.
///
/// What is uploaded in one piece is claimed from the front, what goes somewhere else from the back.
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
    /// Loans hold it too.
    memory: Arc<M>,
    state: Mutex<ArenaState>,
}

/// A part of an [`Arena`], for whoever claimed it.
#[derive(Debug)]
pub struct ArenaPart<'a> {
    /// Where it begins: a multiple of 16.
    pub at: usize,
    /// Its bytes. What they hold is left from before.
    pub bytes: &'a mut [u8],
}

/// What is handed out, in multiples of [`ALIGN`].
#[derive(Debug, Default)]
struct ArenaState {
    /// Bytes from the front.
    front: usize,
    /// The first byte of the back.
    back: usize,
    /// Bytes between the two that are kept for later.
    reserved: usize,
}

impl ArenaState {
    fn free(&self) -> usize {
        (self.back - self.front).saturating_sub(self.reserved)
    }
}

impl<M: Block> Arena<M> {
    /// All of `memory`.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    pub fn new(memory: M) -> Result<Self, GpuError> {
        let mut arena = Self { memory: Arc::new(memory), state: Mutex::default() };
        arena.reset()?;
        Ok(arena)
    }

    /// Bytes that can be handed out.
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.size() / ALIGN * ALIGN
    }

    /// Begins again: everything is free. Waits until no device uses the memory.
    ///
    /// # Errors
    /// `Driver` if the device has failed, `Lent` if a loan is left; then nothing can be claimed.
    pub fn reset(&mut self) -> Result<(), GpuError> {
        let back = self.size();
        self.memory()?.settle()?;
        *self.state_mut() = ArenaState { back, ..ArenaState::default() };
        Ok(())
    }

    /// A part behind those that were claimed so far; `None` if there is no room for it.
    pub fn claim(&self, len: usize) -> Option<ArenaPart<'_>> {
        self.hand_out(len, |state, taken| {
            state.front += taken;
            state.front - taken
        })
    }

    /// A part at the end, before those that were claimed there.
    pub fn claim_back(&self, len: usize) -> Option<ArenaPart<'_>> {
        self.hand_out(len, |state, taken| {
            state.back -= taken;
            state.back
        })
    }

    /// A part as [`claim`](Self::claim) gives it, for several threads: cut into parts of `step` bytes.
    pub fn lend(&self, len: usize, step: usize) -> Option<(Loan<M>, Vec<LoanPart<M>>)> {
        let bytes = self.claim(len)?.range();
        // SAFETY: the claim was alone with these bytes, and is given up. Nobody gets them again, nor
        // the whole memory, while a loan holds it: rule 2.
        Some(unsafe { Loan::new(&self.memory, bytes, step) })
    }

    /// Keeps so many bytes from being claimed; `false` if there are not so many.
    pub fn reserve(&self, len: usize) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = len <= state.free();
        state.reserved += if fits { len } else { 0 };
        fits
    }

    /// What is reserved can be claimed from now on.
    pub fn release(&mut self) {
        self.state_mut().reserved = 0;
    }

    /// Bytes at the front that are handed out.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).front
    }

    /// The memory itself. Nothing can be claimed from now on, until [`reset`](Self::reset).
    ///
    /// # Errors
    /// `Lent` if a loan is left.
    pub fn memory(&mut self) -> Result<&mut M, GpuError> {
        *self.state_mut() = ArenaState::default();
        Arc::get_mut(&mut self.memory).ok_or(GpuError::Lent)
    }

    fn state_mut(&mut self) -> &mut ArenaState {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// `take` moves one end of what is free by the bytes that it is told, and says where they begin.
    fn hand_out(&self, len: usize, take: impl FnOnce(&mut ArenaState, usize) -> usize) -> Option<ArenaPart<'_>> {
        let taken = len.checked_next_multiple_of(ALIGN)?;
        let at = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if taken > state.free() {
                return None;
            }
            take(&mut state, taken)
        };
        // SAFETY: `len` bytes from `at` on were free and are within the block: rule 1. Nobody has
        // them but this claim, until `self` is borrowed exclusively: rules 2 to 4.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.memory.start().as_ptr().add(at), len) };
        Some(ArenaPart { at, bytes })
    }
}

impl ArenaPart<'_> {
    /// Where it is.
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
    fn what_is_reserved_is_kept_for_later() {
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
    fn what_is_lent_is_neither_uploaded_nor_begun_again() {
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
        // It outlives the arena.
        parts.extend(Arena::new(Heap::new(16)).unwrap().lend(16, 16).unwrap().1);
        parts[0].bytes().fill(3);
        drop(loan);
        arena.reset().unwrap();
        assert_eq!(arena.claim(64).unwrap().at, 0);
    }

    /// A device that has failed while it read the memory.
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

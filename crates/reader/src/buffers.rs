//! A limited set of buffers. The read-ahead threads fill them, and the consumer returns them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of runs in flight: being read, waiting, or in use by the consumer.
pub(crate) const RUNS_IN_FLIGHT: usize = 6;
/// Maximum number of bytes in flight. Two runs of any size are always allowed: one being read and one in use.
const BYTES_IN_FLIGHT: u64 = 24 << 20;
/// Size above which a buffer counts as large. At most two large buffers are kept for later records.
const LARGE_BYTES: usize = 4 << 20;

/// A stack of empty buffers. If the consumer keeps up, the same one or two buffers are reused and stay in the
/// CPU cache.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    stack: Vec<Vec<u8>>,
    in_flight: usize,
    bytes_in_flight: u64,
}

impl Buffers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a run of this size may be read. Returns `None` once the consumer is gone.
    pub(crate) fn take(&self, bytes: u64) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let total = state.bytes_in_flight.saturating_add(bytes);
            if state.in_flight < 2 || (state.in_flight < RUNS_IN_FLIGHT && total <= BYTES_IN_FLIGHT) {
                state.in_flight += 1;
                state.bytes_in_flight = total;
                return Some(state.stack.pop().unwrap_or_default());
            }
            state = self.given.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn give(&self, buffer: Vec<u8>, bytes: u64) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.bytes_in_flight = state.bytes_in_flight.saturating_sub(bytes);
        let large = |b: &&Vec<u8>| b.capacity() > LARGE_BYTES;
        if !large(&&buffer) || state.stack.iter().filter(large).count() < 2 {
            state.stack.push(buffer);
        }
        drop(state);
        self.given.notify_one();
    }

    /// Marks the consumer as gone, and wakes all threads that wait for a buffer.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.given.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_runs_or_many_small_ones() {
        let small = Buffers::default();
        for _ in 0..RUNS_IN_FLIGHT {
            assert!(small.take(1 << 20).is_some());
        }
        assert_eq!(small.state().in_flight, RUNS_IN_FLIGHT);

        let large = Buffers::default();
        for _ in 0..20 {
            let held: Vec<Vec<u8>> = (0..2).map(|_| large.take(100 << 20).unwrap()).collect();
            assert_eq!(large.state().bytes_in_flight, 200 << 20);
            held.into_iter().for_each(|mut buffer| {
                buffer.reserve(LARGE_BYTES + 1);
                large.give(buffer, 100 << 20);
            });
        }
        let state = large.state();
        assert_eq!((state.in_flight, state.bytes_in_flight), (0, 0));
        assert!(state.stack.len() <= 2);
    }

    #[test]
    fn a_third_large_run_waits_for_the_first() {
        let buffers = Buffers::default();
        let first = buffers.take(100 << 20).unwrap();
        buffers.take(100 << 20).unwrap();
        std::thread::scope(|scope| {
            let third = scope.spawn(|| buffers.take(100 << 20).is_some());
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert!(!third.is_finished());
            buffers.give(first, 100 << 20);
            assert!(third.join().unwrap());
            let fourth = scope.spawn(|| buffers.take(100 << 20).is_none());
            buffers.close();
            assert!(fourth.join().unwrap());
        });
    }
}

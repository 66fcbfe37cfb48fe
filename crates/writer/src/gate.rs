//! The gate between the encoding threads and the writer. It hands out samples in plan order, as far as the memory
//! budget allows, and returns their results in plan order.
//!
//! It cannot deadlock: samples are admitted strictly in order, so the sample that the writer needs next is always
//! admitted. If no sample is in flight, the next one is admitted regardless of its size.

use crate::error::Error;
use crate::source::Encoded;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Samples may run ahead of the writer by two samples per thread or by this number of bytes, whichever is more. The
/// other threads can then continue with small samples while one slow sample is encoded. The number is small compared
/// with the default budget.
const LOOKAHEAD_BYTES: u64 = 64 << 20;
/// Maximum number of samples that run ahead. The bookkeeping of tiny samples takes more memory than their bytes.
const LOOKAHEAD_SAMPLES: u64 = 8192;

/// Result of encoding one sample. Its bytes count towards the budget until [`Gate::release`].
pub(crate) struct SampleResult<T> {
    pub(crate) sample: u64,
    pub(crate) key: String,
    pub(crate) result: Result<Encoded<T>, Error>,
    pub(crate) charge: u64,
}

#[derive(Debug)]
pub(crate) enum StopReason {
    Fatal(Error),
    /// A shard could not be synced. It may be written once more from the start.
    Sync {
        shard: u32,
        error: Error,
    },
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Returned if the run has stopped. The gate stores the reason.
#[derive(Debug)]
pub(crate) struct Stopped;

pub(crate) struct Admitted {
    slot: u64,
    charge: u64,
}

pub(crate) struct Gate<T> {
    state: Mutex<InFlight<T>>,
    /// Signals the workers that there may be memory for the next sample.
    room: Condvar,
    /// Signals the writer that the next sample is ready.
    ready: Condvar,
    budget_bytes: u64,
    threads: u64,
}

struct InFlight<T> {
    /// Results of slot `first` and the slots after it. `None` while a sample is being encoded.
    window: VecDeque<Option<SampleResult<T>>>,
    first: u64,
    in_flight: u64,
    in_flight_bytes: u64,
    stopped: bool,
    reason: Option<StopReason>,
}

impl<T> Gate<T> {
    pub(crate) fn new(budget_bytes: u64, threads: usize) -> Self {
        let state = InFlight {
            window: VecDeque::new(),
            first: 0,
            in_flight: 0,
            in_flight_bytes: 0,
            stopped: false,
            reason: None,
        };
        Self {
            state: Mutex::new(state),
            room: Condvar::new(),
            ready: Condvar::new(),
            budget_bytes,
            threads: threads as u64,
        }
    }

    /// Waits until there is memory for a sample. Returns `None` if the run has stopped. Only one thread may call this
    /// at a time.
    pub(crate) fn admit(&self, memory_bytes: u64) -> Option<Admitted> {
        let mut state = self.lock();
        while !state.stopped && !self.has_room(&state, memory_bytes) {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            return None;
        }
        let slot = state.first + state.window.len() as u64;
        state.window.push_back(None);
        state.in_flight += 1;
        state.in_flight_bytes = state.in_flight_bytes.saturating_add(memory_bytes);
        Some(Admitted { slot, charge: memory_bytes })
    }

    fn has_room(&self, state: &InFlight<T>, memory_bytes: u64) -> bool {
        let with_it = state.in_flight_bytes.saturating_add(memory_bytes);
        let few = state.in_flight < 2 * self.threads || with_it <= LOOKAHEAD_BYTES;
        state.in_flight == 0 || (few && state.in_flight < LOOKAHEAD_SAMPLES && with_it <= self.budget_bytes)
    }

    /// Stores the result of a sample. From then on, only the size of its record counts towards the budget.
    pub(crate) fn put(&self, place: &Admitted, sample: u64, key: String, result: Result<Encoded<T>, Error>) {
        let charge = match &result {
            Ok(Encoded::Record(encoded)) => encoded.record.capacity() as u64,
            _ => 0,
        };
        let mut state = self.lock();
        state.in_flight_bytes = state.in_flight_bytes.saturating_sub(place.charge).saturating_add(charge);
        let offset = place.slot.checked_sub(state.first).and_then(|offset| usize::try_from(offset).ok());
        let (first, waiting) = (state.first, state.window.len());
        match offset.and_then(|offset| state.window.get_mut(offset)) {
            Some(entry @ None) => *entry = Some(SampleResult { sample, key, result, charge }),
            // Stop the run. Otherwise the writer would wait forever for this result.
            _ => {
                drop(state);
                let what = format!(
                    "sample {sample} returned a result for slot {}, which is not waiting for one (slots waiting: \
                     {waiting}, starting at {first})",
                    place.slot
                );
                return self.fail(Error::internal(what, "", "").into());
            }
        }
        let is_next = offset == Some(0);
        drop(state);
        if is_next {
            self.ready.notify_one();
        }
        self.room.notify_one();
    }

    /// Takes all results that are next in order. If there are none, waits for one, but not longer than `patience`.
    /// Returns false if the run has stopped.
    pub(crate) fn take_ready(&self, run: &mut VecDeque<SampleResult<T>>, patience: Duration) -> bool {
        let mut state = self.lock();
        if !state.stopped && !matches!(state.window.front(), Some(Some(_))) {
            state = self.ready.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        while let Some(Some(_)) = state.window.front() {
            state.first += 1;
            run.extend(state.window.pop_front().flatten());
        }
        !state.stopped
    }

    pub(crate) fn release(&self, charge: u64) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.in_flight_bytes = state.in_flight_bytes.saturating_sub(charge);
        drop(state);
        self.room.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
        self.ready.notify_all();
    }

    /// Stops the run. Only the first reason is reported.
    pub(crate) fn fail(&self, reason: StopReason) {
        self.lock().reason.get_or_insert(reason);
        self.stop();
    }

    pub(crate) fn check<V, E: Into<StopReason>>(&self, result: Result<V, E>) -> Result<V, Stopped> {
        result.map_err(|e| {
            self.fail(e.into());
            Stopped
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    pub(crate) fn into_reason(self) -> Option<StopReason> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).reason
    }

    /// Locks the state. A poisoned lock is accepted: the state is valid after every statement, and a panic elsewhere
    /// must not cause another one here.
    fn lock(&self) -> MutexGuard<'_, InFlight<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the run when dropped, even if its thread panics.
pub(crate) struct StopOnDrop<'a, T>(pub(crate) &'a Gate<T>);

impl<T> Drop for StopOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

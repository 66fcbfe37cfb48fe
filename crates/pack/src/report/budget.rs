//! Limits the memory of samples that are measured at the same time.

use crate::lock::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// A budget of bytes shared by threads. A sample larger than the whole budget waits until it can run alone.
pub(super) struct Budget {
    most: u64,
    taken: Mutex<u64>,
    freed: Condvar,
}

/// Bytes reserved from a budget, and released on drop.
pub(super) struct Taken<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(most: u64) -> Self {
        Self { most, taken: Mutex::new(0), freed: Condvar::new() }
    }

    pub(super) fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.most);
        let taken = lock(&self.taken);
        let mut taken = self
            .freed
            .wait_while(taken, |taken| taken.saturating_add(bytes) > self.most)
            .unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Taken { budget: self, bytes }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.budget.taken) -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn never_more_than_there_is_and_a_large_one_alone() {
        let (budget, now) = (Budget::new(10), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [4, 4, 4, 100, 3, 7] {
                let (budget, now) = (&budget, &now);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let _taken = budget.take(bytes);
                        let held = bytes.min(10);
                        assert!(now.fetch_add(held, Ordering::SeqCst) + held <= 10);
                        now.fetch_sub(held, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}

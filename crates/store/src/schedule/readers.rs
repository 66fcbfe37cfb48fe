//! The readers that wait for a request. The request ends when all readers have abandoned it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Readers {
    waiting: AtomicUsize,
    given_up: AtomicBool,
}

impl Readers {
    /// Counts a waiting reader while the guard is alive.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Records that a reader has given up. The request continues only if other readers wait for it.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    /// Returns true if all readers have given up. An announced request without readers is not abandoned.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.given_up.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) == 0
    }
}

#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Readers);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

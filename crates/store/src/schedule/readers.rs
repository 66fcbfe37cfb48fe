//! The readers that wait for a request, which ends once they have all given up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The readers of one request.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    waiting: AtomicUsize,
    given_up: AtomicBool,
}

impl Readers {
    /// Counts a reader in until the guard is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Notes that a reader has given up: the request goes on only for others that wait.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    /// Returns whether the request is for no reader any more. One that is announced, and that no reader
    /// waits for yet, is not abandoned by that.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.given_up.load(Ordering::SeqCst) && self.waiting.load(Ordering::SeqCst) == 0
    }
}

/// A reader that waits.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Readers);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

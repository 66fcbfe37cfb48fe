//! Cancels reads that a thread is waiting for. The flag belongs to the thread rather than to the storage, because all
//! readers of a dataset share its storage.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CANCEL: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

struct Restore(Option<Arc<AtomicBool>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CANCEL.set(self.0.take());
    }
}

/// Runs `work`. As soon as `cancel` is true, every read on this thread that may have to wait for a network fails.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
/// let cancel = Arc::new(AtomicBool::new(true));
/// assert!(shardpack_io::cancellable(&cancel, shardpack_io::is_cancelled));
/// assert!(!shardpack_io::is_cancelled());
/// ```
pub fn cancellable<R>(cancel: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> R {
    with_cancel_flag(Some(Arc::clone(cancel)), work)
}

/// Same as [`cancellable`], but takes the flag that another thread got from [`cancel_flag`]. With `None`, reads
/// cannot be cancelled while `work` runs.
pub fn with_cancel_flag<R>(cancel: Option<Arc<AtomicBool>>, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(CANCEL.replace(cancel));
    work()
}

/// Returns the flag of this thread, so that it can be passed to helper threads.
#[must_use]
pub fn cancel_flag() -> Option<Arc<AtomicBool>> {
    CANCEL.with_borrow(Clone::clone)
}

/// Returns whether the work of this thread has been cancelled. Storage implementations check this while they wait.
#[must_use]
pub fn is_cancelled() -> bool {
    CANCEL.with_borrow(|cancel| cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)))
}

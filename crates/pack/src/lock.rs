//! Locks the mutexes of this crate, even after a panic. Every change leaves the protected value
//! consistent, so a panic in another thread does no harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

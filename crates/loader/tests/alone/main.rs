//! Tests that need their own process, because they fork it or count its allocations. They run one at a time.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![allow(unsafe_code, reason = "fork, and an allocator that counts")]

mod allocations;
mod counting;
mod fork;
#[path = "../loader_support/mod.rs"]
mod loader_support;
mod memory;
#[path = "../../../reader/tests/support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps other tests from running at the same time. Every test calls this first.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

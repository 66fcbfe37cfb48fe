//! The allocator of this test program, which counts calls and bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of calls that allocate or grow.
pub static CALLS: AtomicU64 = AtomicU64::new(0);
/// Number of calls for at least one mebibyte.
pub static LARGE: AtomicU64 = AtomicU64::new(0);
/// Number of bytes that are currently allocated.
pub static NOW: AtomicU64 = AtomicU64::new(0);
/// Largest value of [`NOW`] since a test last set `PEAK`.
pub static PEAK: AtomicU64 = AtomicU64::new(0);

struct Counting;

impl Counting {
    fn added(bytes: u64) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        LARGE.fetch_add(u64::from(bytes >= 1 << 20), Ordering::Relaxed);
        let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed to the system's allocator with the caller's arguments. `realloc` is the
// default implementation, which uses the other two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::added(layout.size() as u64);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

//! Memory that an [`Arena`](super::Arena) divides: ordinary or pinned host memory.
#![allow(unsafe_code)]

use super::error::GpuError;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Memory that an [`Arena`](super::Arena) divides.
///
/// # Safety
/// `start` must point to `size` initialised bytes that belong to the value alone. They may be written through
/// this pointer as long as the value is shared and is neither moved nor dropped.
pub unsafe trait Block: Send + Sync {
    /// Returns a pointer to the first byte.
    fn start(&self) -> NonNull<u8>;

    /// Returns the size in bytes.
    fn size(&self) -> usize;

    /// Waits until neither a device nor another user accesses the memory.
    ///
    /// # Errors
    /// `Driver` if the device has failed.
    fn settle(&mut self) -> Result<(), GpuError>;
}

/// Ordinary host memory, for tests and for emulated devices.
#[derive(Debug)]
pub struct Heap(Box<[UnsafeCell<u8>]>);

// SAFETY: a shared `Heap` hands out only a pointer. Writes through it follow the rules in `arena.rs`.
unsafe impl Sync for Heap {}

impl Heap {
    /// Allocates `len` zero bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self((0..len).map(|_| UnsafeCell::new(0)).collect())
    }

    /// Returns the content for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the box has this many bytes, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.size()) }
    }
}

// SAFETY: the box owns the bytes, which are in cells: they may be written while the box is shared.
unsafe impl Block for Heap {
    fn start(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn settle(&mut self) -> Result<(), GpuError> {
        Ok(())
    }
}

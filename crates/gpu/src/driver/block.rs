//! Memory that an [`Arena`](super::Arena) divides: of the host, or pinned.
#![allow(unsafe_code)]

use super::error::GpuError;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Memory that an [`Arena`](super::Arena) divides.
///
/// # Safety
/// `start` is the begin of `size` bytes that are initialised, belong to the value alone, and may be
/// written through this pointer as long as the value is shared and neither moved nor dropped.
pub unsafe trait Block: Send + Sync {
    /// Its first byte.
    fn start(&self) -> NonNull<u8>;

    /// Its bytes.
    fn size(&self) -> usize;

    /// Waits until nobody else, such as a device, reads or writes it.
    ///
    /// # Errors
    /// `Driver` if the device has failed.
    fn settle(&mut self) -> Result<(), GpuError>;
}

/// Memory of the host, for tests and for devices that are played there.
#[derive(Debug)]
pub struct Heap(Box<[UnsafeCell<u8>]>);

// SAFETY: a shared `Heap` gives a pointer only; who writes through it follows the rules of `arena.rs`.
unsafe impl Sync for Heap {}

impl Heap {
    /// As many bytes, all zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self((0..len).map(|_| UnsafeCell::new(0)).collect())
    }

    /// What it holds.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the box has as many bytes, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.size()) }
    }
}

// SAFETY: the box owns the bytes, which are in cells: they may be written while it is shared.
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

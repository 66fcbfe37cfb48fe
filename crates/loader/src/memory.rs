//! Allocates the memory of batches: ordinary memory, or memory from the caller that a device can read.

use std::io;

/// The memory of one slot. It is allocated by [`Allocate`].
///
/// The ring requests the bytes once, when it creates the slot, and keeps this value until the slot is freed.
/// Meanwhile many threads read and write the bytes. An implementation needs no `unsafe` code of its own:
/// pinned memory, for example, is a type whose `Drop` unpins it.
pub trait SlotMemory: Send + Sync {
    /// Returns all bytes. Their content does not matter, but they must not move during the life of the value.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Allocates the memory of slots.
///
/// ```
/// use shardpack_loader::{Allocate, Heap, SlotMemory};
/// #[derive(Debug)]
/// struct Counted(std::sync::atomic::AtomicUsize);
/// impl Allocate for Counted {
///     fn allocate(&self, bytes: usize) -> std::io::Result<Box<dyn SlotMemory>> {
///         self.0.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
///         Heap.allocate(bytes)
///     }
/// }
/// let counted = Counted(0.into());
/// assert_eq!(counted.allocate(100)?.bytes_mut().len(), 100);
/// # std::io::Result::Ok(())
/// ```
pub trait Allocate: Send + Sync + std::fmt::Debug {
    /// Allocates exactly `bytes` bytes. They should be aligned to 64, because the fields of a batch start at
    /// multiples of 64.
    ///
    /// # Errors
    /// Any error of the allocation. It becomes the error of the batch that needed the memory.
    fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>>;
}

/// Ordinary memory, aligned to 64 bytes. The default.
///
/// ```
/// use shardpack_loader::{Allocate, Heap, SlotMemory};
/// let mut memory = Heap.allocate(1000)?;
/// assert_eq!(memory.bytes_mut().as_ptr().addr() % 64, 0);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

const ALIGNMENT: usize = 64;

const ZEROS: [u8; 4096] = [0; 4096];

struct HeapMemory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl SlotMemory for HeapMemory {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).and_then(|tail| tail.get_mut(..self.length)).unwrap_or_default()
    }
}

impl Allocate for Heap {
    fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
        let mut memory = Vec::new();
        let room = bytes.checked_add(ALIGNMENT).ok_or(io::ErrorKind::OutOfMemory)?;
        memory.try_reserve_exact(room).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Zero the memory now, so the first batch does not wait for fresh pages. Copy zeros, because a debug build of
        // `Vec::resize` writes byte by byte.
        while memory.len() < room {
            memory.extend_from_slice(ZEROS.get(..room - memory.len()).unwrap_or(&ZEROS));
        }
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Ok(Box::new(HeapMemory { bytes: memory, start, length: bytes }))
    }
}

/// Returns true if a buffer of `length` bytes is large enough for `bytes` and not much larger.
pub(crate) const fn suits(length: u64, bytes: u64) -> bool {
    length >= bytes && length - bytes <= bytes / 4 + (16 << 10)
}

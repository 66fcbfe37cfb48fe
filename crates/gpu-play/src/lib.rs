//! Runs the kernels of `shardpack-gpu` on the CPU, for tests.
//!
//! The kernels are compiled as C++, and `play.h` emulates blocks, threads, shared memory, barriers and warps. A
//! launch fails with a message if the kernel accesses memory outside the buffers of its [`Device`], uses an unaligned
//! address, or waits for threads that never arrive. New buffers and shared memory are filled with [`Manner::poison`],
//! so a kernel that reads unwritten memory or lacks a barrier produces different results under the two [`MANNERS`].
#![deny(unsafe_code)]

mod ffi;

/// Order in which threads and blocks run, and initial content of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// True to run the last thread and the last block first.
    pub backward: bool,
    /// Value of each byte of new buffers and of shared memory.
    pub poison: u8,
}

/// Two manners that differ in both fields.
pub const MANNERS: [Manner; 2] = [Manner { backward: false, poison: 0xA5 }, Manner { backward: true, poison: 0x5B }];

/// Size of the margin on each side of a buffer, in bytes. No kernel may touch it.
const MARGIN: usize = 1024;

/// An emulated device, with its memory.
#[derive(Debug)]
pub struct Device {
    manner: Manner,
    buffers: Vec<Buffer>,
}

/// Memory whose first byte is aligned to 256 bytes.
#[derive(Debug)]
struct Buffer {
    room: Vec<u8>,
    start: usize,
    len: usize,
}

/// Index of a buffer of a [`Device`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferId(usize);

impl Device {
    /// Creates a device without buffers.
    #[must_use]
    pub const fn new(manner: Manner) -> Self {
        Self { manner, buffers: Vec::new() }
    }

    /// Allocates a buffer and fills it with the poison byte. Access to even one byte past its end is out of bounds.
    pub fn alloc(&mut self, len: usize) -> BufferId {
        // `fill` is fast even in builds that are hardly optimised, and `vec![poison; …]` is not.
        let mut room = vec![0; len + 2 * MARGIN + 256];
        room.fill(self.manner.poison);
        let start = MARGIN + room.as_ptr().align_offset(256).min(256);
        self.buffers.push(Buffer { room, start, len });
        BufferId(self.buffers.len() - 1)
    }

    /// Allocates a buffer that holds `bytes`.
    pub fn upload(&mut self, bytes: &[u8]) -> BufferId {
        let id = self.alloc(bytes.len());
        if let Some(to) = self.bytes_mut(id) {
            to.copy_from_slice(bytes);
        }
        id
    }

    /// Returns the address of a buffer, as kernels use it, or 0 if there is no such buffer.
    #[must_use]
    pub fn address(&self, id: BufferId) -> u64 {
        self.bytes(id).as_ptr().expose_provenance() as u64
    }

    /// Returns the content of a buffer, or an empty slice if there is no such buffer.
    #[must_use]
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        self.buffers.get(id.0).and_then(|b| b.room.get(b.start..b.start + b.len)).unwrap_or_default()
    }

    /// Returns the content of a buffer for writing, or `None` if there is no such buffer.
    pub fn bytes_mut(&mut self, id: BufferId) -> Option<&mut [u8]> {
        self.buffers.get_mut(id.0).and_then(|b| b.room.get_mut(b.start..b.start + b.len))
    }

    /// Runs a kernel on `grid` blocks of `block` threads. `params` holds the bytes of the kernel's parameter struct.
    ///
    /// # Errors
    /// A message that describes the forbidden access, or says that no kernel has this name and these parameters.
    pub fn launch(&mut self, kernel: &str, grid: [u32; 3], block: [u32; 3], params: &[u8]) -> Result<(), String> {
        let buffers = self.buffers.iter_mut().filter_map(|b| b.room.get_mut(b.start..b.start + b.len));
        ffi::launch(kernel, grid, block, params, buffers, self.manner)
    }
}

#[cfg(test)]
mod tests;

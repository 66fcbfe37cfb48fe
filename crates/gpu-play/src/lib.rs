//! Runs the kernels of `shardpack-gpu` on the CPU, for tests.
//!
//! The kernels' own files, compiled as C++: `play.h` plays blocks, threads, shared memory, barriers
//! and warps. A [`Device`] holds buffers; a kernel that reads or writes anything else, at an
//! address that is not aligned, or waits for threads that never come, ends with a message. New
//! buffers and shared memory are filled with [`Manner::poison`]; run in both [`MANNERS`], a kernel
//! that looks at what nobody wrote, or needs a barrier and has none, gives two results.
#![deny(unsafe_code)]

mod ffi;

/// In which order threads and blocks run, and what memory holds before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// The last thread and the last block first.
    pub backward: bool,
    /// Each byte of new buffers and of shared memory.
    pub poison: u8,
}

/// Two manners that have nothing in common.
pub const MANNERS: [Manner; 2] = [Manner { backward: false, poison: 0xA5 }, Manner { backward: true, poison: 0x5B }];

/// Bytes around a buffer, which no kernel may touch.
const MARGIN: usize = 1024;

/// Played device memory.
#[derive(Debug)]
pub struct Device {
    manner: Manner,
    buffers: Vec<Buffer>,
}

/// Bytes at a multiple of 256.
#[derive(Debug)]
struct Buffer {
    room: Vec<u8>,
    start: usize,
    len: usize,
}

/// A buffer of a [`Device`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferId(usize);

impl Device {
    /// A device without buffers.
    #[must_use]
    pub const fn new(manner: Manner) -> Self {
        Self { manner, buffers: Vec::new() }
    }

    /// A new buffer, poisoned. Its end is where it says: the byte behind it is out of bounds.
    pub fn alloc(&mut self, len: usize) -> BufferId {
        let room = vec![self.manner.poison; len + 2 * MARGIN + 256];
        let start = MARGIN + room.as_ptr().align_offset(256).min(256);
        self.buffers.push(Buffer { room, start, len });
        BufferId(self.buffers.len() - 1)
    }

    /// A new buffer that holds `bytes`.
    pub fn upload(&mut self, bytes: &[u8]) -> BufferId {
        let id = self.alloc(bytes.len());
        if let Some(to) = self.bytes_mut(id) {
            to.copy_from_slice(bytes);
        }
        id
    }

    /// Address of a buffer, as kernels take it; 0 if there is no such buffer.
    #[must_use]
    pub fn address(&self, id: BufferId) -> u64 {
        self.bytes(id).as_ptr().expose_provenance() as u64
    }

    /// The content of a buffer; nothing if there is no such buffer.
    #[must_use]
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        self.buffers.get(id.0).and_then(|b| b.room.get(b.start..b.start + b.len)).unwrap_or_default()
    }

    /// The same, to be changed.
    pub fn bytes_mut(&mut self, id: BufferId) -> Option<&mut [u8]> {
        self.buffers.get_mut(id.0).and_then(|b| b.room.get_mut(b.start..b.start + b.len))
    }

    /// Runs a kernel on `grid` blocks of `block` threads. `params` are the bytes of its parameter
    /// struct.
    ///
    /// # Errors
    /// The forbidden access of the kernel, or that there is no such kernel with such parameters.
    pub fn launch(&mut self, kernel: &str, grid: [u32; 3], block: [u32; 3], params: &[u8]) -> Result<(), String> {
        let buffers = self.buffers.iter_mut().filter_map(|b| b.room.get_mut(b.start..b.start + b.len));
        ffi::launch(kernel, grid, block, params, buffers, self.manner)
    }
}

#[cfg(test)]
mod tests;

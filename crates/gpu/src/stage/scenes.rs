//! Keeps stored arrays on the device as long as rows use parts of them. Batches decode these parts without another
//! upload.

use crate::driver::{Device, GpuError, Memory, Pinned, Stream};
use crate::gather::MARGIN;
use shardpack_loader::stage::DeviceArray;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Block sizes are rounded up to a multiple of this size in bytes, so that more arrays can reuse a block.
const STEP: usize = 64 << 10;
/// Maximum number of free blocks to keep that are too small or too large for the current array.
const SPARE: usize = 4;
/// Size of a pinned buffer in bytes. Each uploading thread uses two of them: it fills one while the other is uploaded.
const PIECE: usize = 1 << 20;
/// Maximum number of pairs of pinned buffers.
const PIECES: usize = 8;
/// The pool may use at most 1/`SHARE` of the device memory.
const SHARE: u64 = 16;

/// Keeps scenes in device memory.
pub(super) trait Scenes: Debug + Send + Sync {
    /// Copies an array to the device and waits for the copy. Returns `None` if there is not enough memory.
    fn put(self: Arc<Self>, bytes: &[u8]) -> Option<Arc<dyn DeviceArray>>;
}

#[derive(Debug)]
pub(super) struct ScenePool {
    device: Device,
    most: u64,
    rooms: Mutex<Rooms>,
}

#[derive(Debug, Default)]
struct Rooms {
    /// Total size of all blocks of the pool in bytes, including blocks in use.
    bytes: u64,
    free: Vec<ArrayMemory>,
    /// Free pairs of pinned buffers, and the total number of pairs.
    pieces: Vec<[Pinned; 2]>,
    pairs: usize,
}

#[derive(Debug)]
struct ArrayMemory {
    memory: Memory,
    stream: Stream,
}

impl ScenePool {
    pub(super) fn new(device: Device) -> Self {
        let most = Self::most_bytes(&device);
        Self { device, most, rooms: Mutex::default() }
    }

    /// Estimates the memory for `arrays` arrays with `bytes` bytes in total. The block of an array may be larger than
    /// the array.
    pub(super) const fn bytes_of(bytes: u64, arrays: u64) -> u64 {
        bytes.saturating_add(bytes / 4).saturating_add(arrays.saturating_mul(2 * STEP as u64))
    }

    /// Returns the maximum size of a pool on this device, in bytes.
    pub(super) fn most_bytes(device: &Device) -> u64 {
        device.properties().memory_bytes / SHARE
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a block for `bytes` bytes, which may be slightly larger.
    fn room(&self, bytes: usize) -> Option<ArrayMemory> {
        let size = bytes.checked_next_multiple_of(STEP)?;
        let suits = |room: &ArrayMemory| room.memory.len() >= bytes && room.memory.len() - bytes <= bytes / 4 + STEP;
        let mut rooms = self.rooms();
        if let Some(place) = rooms.free.iter().rposition(suits) {
            return Some(rooms.free.swap_remove(place));
        }
        let free: u64 = rooms.free.iter().map(|room| room.memory.len() as u64).sum();
        let with_it = rooms.bytes.saturating_add(size as u64);
        if with_it.saturating_sub(free) > self.most {
            return None;
        }
        // Free unused blocks that do not fit, to stay within the limit.
        let others = match rooms.free.len() {
            _ if with_it > self.most => rooms.take_free(0),
            SPARE.. => rooms.take_free(SPARE - 1),
            _ => Vec::new(),
        };
        rooms.bytes += size as u64;
        drop(rooms);
        // Freeing waits for the whole device, so drop these blocks outside the lock.
        drop(others);
        let made = self.make(size).or_else(|error| match error {
            GpuError::OutOfMemory { .. } => {
                let others = self.rooms().take_free(0);
                drop(others);
                self.make(size)
            }
            error => Err(error),
        });
        if made.is_err() {
            self.rooms().bytes -= size as u64;
        }
        made.ok()
    }

    fn fill(&self, room: &ArrayMemory, bytes: &[u8]) -> Result<(), GpuError> {
        let Some(mut pieces) = self.pieces() else { return room.stream.write(bytes, &room.memory, 0) };
        let mut copy = || {
            for (number, part) in bytes.chunks(PIECE).enumerate() {
                let [piece, other] = &mut pieces;
                let piece = if number % 2 == 0 { piece } else { other };
                if let Some(to) = piece.bytes_mut()?.get_mut(..part.len()) {
                    to.copy_from_slice(part);
                }
                room.stream.upload(piece, 0..part.len(), &room.memory, number * PIECE)?;
            }
            room.stream.synchronize()
        };
        let copied = copy();
        self.rooms().pieces.push(pieces);
        copied
    }

    /// Returns a pair of pinned buffers, or `None` if other threads use all pairs.
    fn pieces(&self) -> Option<[Pinned; 2]> {
        let mut rooms = self.rooms();
        if let Some(pieces) = rooms.pieces.pop() {
            return Some(pieces);
        }
        if rooms.pairs == PIECES {
            return None;
        }
        rooms.pairs += 1;
        drop(rooms);
        let pieces = Pinned::new(&self.device, PIECE).and_then(|one| Ok([one, Pinned::new(&self.device, PIECE)?]));
        if pieces.is_err() {
            self.rooms().pairs -= 1;
        }
        pieces.ok()
    }

    fn make(&self, size: usize) -> Result<ArrayMemory, GpuError> {
        Ok(ArrayMemory { memory: Memory::new(&self.device, size)?, stream: Stream::new(&self.device)? })
    }
}

impl Rooms {
    fn take_free(&mut self, but: usize) -> Vec<ArrayMemory> {
        let free = self.free.split_off(but.min(self.free.len()));
        self.bytes -= free.iter().map(|room| room.memory.len() as u64).sum::<u64>();
        free
    }
}

impl Scenes for ScenePool {
    fn put(self: Arc<Self>, bytes: &[u8]) -> Option<Arc<dyn DeviceArray>> {
        let room = self.room(bytes.len().checked_add(MARGIN)?)?;
        let scene = InPool { pool: Arc::clone(&self), room: Some(room) };
        self.fill(scene.room.as_ref()?, bytes).ok()?;
        Some(Arc::new(scene))
    }
}

#[derive(Debug)]
struct InPool {
    pool: Arc<ScenePool>,
    /// `None` only while the value is being dropped.
    room: Option<ArrayMemory>,
}

impl DeviceArray for InPool {
    fn at(&self) -> u64 {
        // In a stage without kept values, offsets count from address 0.
        self.room.as_ref().map_or(0, |room| room.memory.address())
    }
}

impl Drop for InPool {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.pool.rooms().free.push(room);
        }
    }
}

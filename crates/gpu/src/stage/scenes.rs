//! Arrays that lie on the device for as long as rows take parts of them, as they are stored: the batches of
//! that time decode what they need of them there, and nothing is uploaded again.

use crate::driver::{Device, GpuError, Memory, Pinned, Stream};
use crate::gather::MARGIN;
use shardpack_loader::stage::DeviceArray;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory is taken in multiples of this, so that it suits other arrays, too.
const STEP: usize = 64 << 10;
/// Free rooms of other sizes that are kept.
const SPARE: usize = 4;
/// Arrays go there through pinned memory, two pieces of this size in turn: one is filled while the other
/// is uploaded.
const PIECE: usize = 1 << 20;
/// As many threads at most have such pieces.
const PIECES: usize = 8;
/// All such memory is at most this part of the device's.
const SHARE: u64 = 16;

/// Where arrays are put.
pub(super) trait Scenes: Debug + Send + Sync {
    /// Copies an array to the device, and waits for it. `None` if there is no room.
    fn put(&self, bytes: &[u8]) -> Option<Arc<dyn DeviceArray>>;
}

/// Memory of a device for arrays.
#[derive(Debug)]
pub(super) struct ScenePool {
    device: Device,
    /// Bytes that it may take.
    most: u64,
    rooms: Mutex<Rooms>,
}

#[derive(Debug, Default)]
struct Rooms {
    /// Bytes of all rooms, of those in use, too.
    bytes: u64,
    free: Vec<ArrayMemory>,
    /// Pinned memory that nobody uses, and how many pairs there are.
    pieces: Vec<[Pinned; 2]>,
    pairs: usize,
}

/// Memory for an array, and the stream in which it is copied there.
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

    /// Bytes that so many arrays of `bytes` together take, about: rooms may be larger than what is in them.
    pub(super) const fn bytes_of(bytes: u64, arrays: u64) -> u64 {
        bytes.saturating_add(bytes / 4).saturating_add(arrays.saturating_mul(2 * STEP as u64))
    }

    /// Bytes that one of a device may take.
    pub(super) fn most_bytes(device: &Device) -> u64 {
        device.properties().memory_bytes / SHARE
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for so many bytes, or a little more.
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
        // Rooms of other sizes go for it: all, if there would be too much; one, if there are some.
        let others = match rooms.free.len() {
            _ if with_it > self.most => rooms.take_free(0),
            SPARE.. => rooms.take_free(SPARE - 1),
            _ => Vec::new(),
        };
        rooms.bytes += size as u64;
        drop(rooms);
        // The driver waits for the whole device.
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

    /// Copies an array to its room, and waits for it.
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

    /// Pinned memory to copy through, unless others have all.
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
    /// Takes free rooms but the first so many of them.
    fn take_free(&mut self, but: usize) -> Vec<ArrayMemory> {
        let free = self.free.split_off(but.min(self.free.len()));
        self.bytes -= free.iter().map(|room| room.memory.len() as u64).sum::<u64>();
        free
    }
}

/// Gives the whole pool to whoever has a part of it.
#[derive(Debug, Clone)]
pub(super) struct SharedPool(pub(super) Arc<ScenePool>);

impl Scenes for SharedPool {
    fn put(&self, bytes: &[u8]) -> Option<Arc<dyn DeviceArray>> {
        let room = self.0.room(bytes.len().checked_add(MARGIN)?)?;
        let scene = InPool { pool: Arc::clone(&self.0), room: Some(room) };
        self.0.fill(scene.room.as_ref()?, bytes).ok()?;
        Some(Arc::new(scene))
    }
}

/// An array in a pool.
#[derive(Debug)]
struct InPool {
    pool: Arc<ScenePool>,
    /// Until it is dropped.
    room: Option<ArrayMemory>,
}

impl DeviceArray for InPool {
    fn at(&self) -> u64 {
        // Of a stage without kept values these begin at 0.
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

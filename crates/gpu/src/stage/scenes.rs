//! Arrays that lie on the device for as long as rows take parts of them, as they are stored: the batches of
//! that time decode what they need of them there, and nothing is uploaded again.

use crate::driver::{Device, GpuError, Memory, Pinned, Stream};
use crate::gather::MARGIN;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory is taken in multiples of this, so that it suits other arrays, too.
const STEP: usize = 1 << 20;
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
    fn put(&self, bytes: &[u8]) -> Option<Arc<dyn Scene>>;
}

/// An array on the device. Nothing may read it any more when it is dropped: its memory is for the next one.
pub(super) trait Scene: Send + Sync {
    /// Where it begins, from where kept values begin.
    fn at(&self) -> u64;
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
    free: Vec<Room>,
    /// Pinned memory that nobody uses, and how many pairs there are.
    pieces: Vec<[Pinned; 2]>,
    pairs: usize,
}

/// Memory for an array, and the stream in which it is copied there.
#[derive(Debug)]
struct Room {
    memory: Memory,
    stream: Stream,
}

impl ScenePool {
    pub(super) fn new(device: Device) -> Self {
        let most = Self::most_bytes(&device);
        Self { device, most, rooms: Mutex::default() }
    }

    /// Bytes that one of a device may take.
    pub(super) fn most_bytes(device: &Device) -> u64 {
        device.properties().memory_bytes / SHARE
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for so many bytes, or a little more.
    fn room(&self, bytes: usize) -> Option<Room> {
        let size = bytes.checked_next_multiple_of(STEP)?;
        let suits = |room: &Room| room.memory.len() >= bytes && room.memory.len() - bytes <= bytes / 4 + STEP;
        let mut rooms = self.rooms();
        if let Some(place) = rooms.free.iter().rposition(suits) {
            return Some(rooms.free.swap_remove(place));
        }
        let fits = |rooms: &Rooms| rooms.bytes.saturating_add(size as u64) <= self.most;
        // Those of other sizes go for it.
        let others = if fits(&rooms) { Vec::new() } else { rooms.take_free() };
        if !fits(&rooms) {
            return None;
        }
        rooms.bytes += size as u64;
        drop(rooms);
        // The driver waits for the whole device.
        drop(others);
        let made = self.make(size).or_else(|error| match error {
            GpuError::OutOfMemory { .. } => {
                let others = self.rooms().take_free();
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
    fn fill(&self, room: &Room, bytes: &[u8]) -> Result<(), GpuError> {
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
        let pinned = || Pinned::new(&self.device, PIECE);
        Some([pinned().ok()?, pinned().ok()?])
    }

    fn make(&self, size: usize) -> Result<Room, GpuError> {
        Ok(Room { memory: Memory::new(&self.device, size)?, stream: Stream::new(&self.device)? })
    }
}

impl Rooms {
    fn take_free(&mut self) -> Vec<Room> {
        let free = std::mem::take(&mut self.free);
        self.bytes -= free.iter().map(|room| room.memory.len() as u64).sum::<u64>();
        free
    }
}

/// Gives the whole pool to whoever has a part of it.
#[derive(Debug, Clone)]
pub(super) struct SharedPool(pub(super) Arc<ScenePool>);

impl Scenes for SharedPool {
    fn put(&self, bytes: &[u8]) -> Option<Arc<dyn Scene>> {
        let room = self.0.room(bytes.len().checked_add(MARGIN)?)?;
        let scene = InPool { pool: Arc::clone(&self.0), room: Some(room) };
        self.0.fill(scene.room.as_ref()?, bytes).ok()?;
        Some(Arc::new(scene))
    }
}

/// An array in a pool.
struct InPool {
    pool: Arc<ScenePool>,
    /// Until it is dropped.
    room: Option<Room>,
}

impl Scene for InPool {
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

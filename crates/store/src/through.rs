//! A range through the cache: pages that are there from the disk, the others from the store.
//!
//! If the cache has room for the dataset, a miss brings the whole block around it. So small samples
//! in random order take one request and one file a MiB, not one each.

use crate::block::Block;
use crate::cache::Cache;
use crate::cache_block::{Cached, PAGE, WHOLE, bytes_of, pages_of};
use crate::client::Shared;
use crate::failure::Failure;
use crate::fetch::{Want, fetch};
use crate::object::Pin;
use crate::readers::Readers;
use bytes::Bytes;
use futures_util::stream::{StreamExt, iter};
use shardpack_format::to_usize;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

/// Holes of one range that are fetched side by side.
const HOLES: usize = 4;
/// Locks that blocks share by their numbers: few wait for another block's. Nobody waits for one
/// while holding another.
const TURNS: usize = 1024;

/// What keeps two requests from fetching the same block as a whole, and bounds their memory.
#[derive(Debug)]
pub(crate) struct Turns {
    locks: Vec<Mutex<()>>,
    /// Blocks that are fetched as a whole at a time.
    room: Semaphore,
}

impl Turns {
    /// A block is held twice while it is written: pieces, and all of them together.
    pub(crate) fn new(read_ahead_bytes: u64) -> Self {
        let room = to_usize(read_ahead_bytes / (2 * WHOLE * PAGE));
        Self {
            locks: (0..TURNS).map(|_| Mutex::default()).collect(),
            room: Semaphore::new(room.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    fn of(&self, pin: &Pin, number: u64) -> Option<&Mutex<()>> {
        let place = pin.id.wrapping_mul(31).wrapping_add(number) % self.locks.len() as u64;
        self.locks.get(usize::try_from(place).ok()?)
    }
}

/// Brings the bytes of `block`. Without a cache, or a strong ETag, all come from the store.
pub(crate) async fn bring(shared: &Shared, pin: &Pin, block: &Block) -> Result<(), Failure> {
    let Some((cache, object)) = shared.cache_of(pin) else {
        let want = Want::Range(block.range.clone());
        return fetch(shared, &pin.key, want, Some(pin), &block.readers, &mut |bytes| block.push(bytes))
            .await
            .map(drop);
    };
    let source = Source { shared, pin, cache, object: Arc::new(object), readers: &block.readers };
    let found = source.find(pages_of(&block.range)).await?;
    // The disk has room for all of the dataset, so what lies around is wanted sooner or later.
    let whole = cache.has_room_for(shared.opened_bytes());
    let holes = found.into_iter().flat_map(|(range, hit)| {
        let parts = if hit.is_none() && whole { by_blocks(&range) } else { vec![range] };
        parts.into_iter().map(move |range| (range, hit.clone()))
    });
    let mut parts = iter(holes).map(|(range, hit)| source.fill(range, hit, whole)).buffered(HOLES);
    while let Some(part) = parts.next().await {
        let Part { range, pieces, wanted, is_new } = part?;
        let mut at = range.start;
        for piece in &pieces {
            push(block, &wanted, at, piece);
            at += piece.len() as u64;
        }
        if is_new {
            source.keep(range, pieces).await?;
        }
    }
    Ok(())
}

/// Bytes of an object.
struct Part {
    range: Range<u64>,
    pieces: Vec<Bytes>,
    /// Those of them that were looked for: the others come from elsewhere, or nobody reads them.
    wanted: Range<u64>,
    /// Whether they are not in the cache yet.
    is_new: bool,
}

/// Where bytes come from.
struct Source<'a> {
    shared: &'a Shared,
    pin: &'a Pin,
    cache: &'a Arc<Cache>,
    object: Arc<Cached>,
    readers: &'a Readers,
}

impl Source<'_> {
    /// A part of what was looked for; if it was not found, from the store.
    async fn fill(&self, range: Range<u64>, hit: Option<Bytes>, whole: bool) -> Result<Part, Failure> {
        if let Some(bytes) = hit {
            return Ok(Part { wanted: range.clone(), range, pieces: vec![bytes], is_new: false });
        }
        if whole && range.end - range.start < WHOLE * PAGE {
            return self.fill_whole(range).await;
        }
        let pieces = self.fetch(range.clone()).await?;
        Ok(Part { wanted: range.clone(), range, pieces, is_new: true })
    }

    /// All of the block that holds a hole, which then is in the cache as one file.
    async fn fill_whole(&self, wanted: Range<u64>) -> Result<Part, Failure> {
        let number = wanted.start / (WHOLE * PAGE);
        let Some(turn) = self.shared.turns.of(self.pin, number) else { return Err(gone()) };
        let _turn = turn.lock().await;
        let found = self.find(pages_of(&wanted)).await?;
        if found.iter().all(|(_, hit)| hit.is_some()) {
            let pieces = found.into_iter().filter_map(|(_, hit)| hit).collect();
            return Ok(Part { range: wanted.clone(), pieces, wanted, is_new: false });
        }
        let _room = self.shared.turns.room.acquire().await;
        let range = bytes_of(&(number * WHOLE..(number + 1) * WHOLE), self.pin.size);
        let pieces = self.fetch(range.clone()).await?;
        // Before the next one has its turn: it finds them.
        self.keep(range.clone(), pieces.clone()).await?;
        Ok(Part { range, pieces, wanted, is_new: false })
    }

    async fn find(&self, pages: Range<u64>) -> Result<Vec<(Range<u64>, Option<Bytes>)>, Failure> {
        let (cache, object) = (Arc::clone(self.cache), Arc::clone(&self.object));
        tokio::task::spawn_blocking(move || cache.find(&object, &pages)).await.map_err(|_| gone())
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Vec<Bytes>, Failure> {
        let mut pieces = Vec::new();
        let push = &mut |piece| pieces.push(piece);
        fetch(self.shared, &self.pin.key, Want::Range(range), Some(self.pin), self.readers, push).await?;
        Ok(pieces)
    }

    async fn keep(&self, range: Range<u64>, pieces: Vec<Bytes>) -> Result<(), Failure> {
        let (cache, object) = (Arc::clone(self.cache), Arc::clone(&self.object));
        let write = move || cache.put(&object, pages_of(&range), &pieces.concat());
        tokio::task::spawn_blocking(write).await.map_err(|_| gone())
    }
}

/// A hole that is shorter than a block, cut where blocks meet.
fn by_blocks(range: &Range<u64>) -> Vec<Range<u64>> {
    let middle = (range.start + 1).next_multiple_of(WHOLE * PAGE);
    if range.end - range.start >= WHOLE * PAGE || middle >= range.end {
        return vec![range.clone()];
    }
    vec![range.start..middle, middle..range.end]
}

fn gone() -> Failure {
    Failure::given_up()
}

/// Hands on what of `bytes`, which stand at `at`, is wanted and in the block's range.
fn push(block: &Block, wanted: &Range<u64>, at: u64, bytes: &Bytes) {
    let place = |offset: u64| to_usize(offset.saturating_sub(at)).min(bytes.len());
    let part = place(block.range.start.max(wanted.start))..place(block.range.end.min(wanted.end));
    if !part.is_empty() {
        block.push(bytes.slice(part));
    }
}

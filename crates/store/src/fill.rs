//! Fetches a range through the cache: cached pages are read from disk, and all others are fetched from the
//! store.
//!
//! If the cache has room for the whole dataset, a miss fetches the whole block around it. Reading small
//! samples in random order then takes one request and one file per MiB rather than per sample.

use crate::cache::{Cache, CachedObject, PAGE, WHOLE, bytes_of, pages_of};
use crate::fetch::{Extent, fetch};
use crate::folder::StoreFolder;
use crate::schedule::{Pin, Readers, RequestError, Transfer};
use bytes::Bytes;
use futures_util::stream::{StreamExt, iter};
use shardpack_format::to_usize;
use std::ops::Range;
use std::sync::Arc;

/// Number of missing ranges that a transfer fetches in parallel.
const HOLES: usize = 4;

/// Fetches a transfer through the cache. Without a cache or a strong ETag, all bytes come directly from the store.
pub(crate) async fn bring(folder: &StoreFolder, pin: &Pin, transfer: &Transfer) -> Result<(), RequestError> {
    let Some((cache, object)) = folder.cache_of(pin) else {
        let extent = Extent::Range(transfer.range.clone());
        return fetch(folder, &pin.key, extent, Some(pin), &transfer.readers, &mut |bytes| transfer.push(bytes))
            .await
            .map(drop);
    };
    let source = CacheFill { folder, pin, cache, object: Arc::new(object), readers: &transfer.readers };
    let found = source.find(pages_of(&transfer.range)).await?;
    // If the whole dataset fits into the cache, the bytes around a miss will be needed eventually.
    let whole = cache.has_room_for(folder.schedule().opened_bytes);
    let holes = found.into_iter().flat_map(|(range, hit)| {
        let parts = if hit.is_none() && whole { by_blocks(&range) } else { vec![range] };
        parts.into_iter().map(move |range| (range, hit.clone()))
    });
    let mut parts = iter(holes).map(|(range, hit)| source.fill(range, hit, whole)).buffered(HOLES);
    while let Some(part) = parts.next().await {
        let FilledRange { range, pieces, wanted, is_new } = part?;
        let mut at = range.start;
        for piece in &pieces {
            push(transfer, &wanted, at, piece);
            at += piece.len() as u64;
        }
        if is_new {
            source.keep(range, pieces).await?;
        }
    }
    Ok(())
}

struct FilledRange {
    range: Range<u64>,
    pieces: Vec<Bytes>,
    /// Part of `range` that this transfer needs. The rest is fetched only to fill the cache.
    wanted: Range<u64>,
    is_new: bool,
}

struct CacheFill<'a> {
    folder: &'a StoreFolder,
    pin: &'a Pin,
    cache: &'a Arc<Cache>,
    object: Arc<CachedObject>,
    readers: &'a Readers,
}

impl CacheFill<'_> {
    async fn fill(&self, range: Range<u64>, hit: Option<Bytes>, whole: bool) -> Result<FilledRange, RequestError> {
        if let Some(bytes) = hit {
            return Ok(FilledRange { wanted: range.clone(), range, pieces: vec![bytes], is_new: false });
        }
        if whole && range.end - range.start < WHOLE * PAGE {
            return self.fill_whole(range).await;
        }
        let pieces = self.fetch(range.clone()).await?;
        Ok(FilledRange { wanted: range.clone(), range, pieces, is_new: true })
    }

    async fn fill_whole(&self, wanted: Range<u64>) -> Result<FilledRange, RequestError> {
        let number = wanted.start / (WHOLE * PAGE);
        let Some(turn) = self.folder.locks.of(self.pin, number) else { return Err(gone()) };
        let _turn = turn.lock().await;
        let found = self.find(pages_of(&wanted)).await?;
        if found.iter().all(|(_, hit)| hit.is_some()) {
            let pieces = found.into_iter().filter_map(|(_, hit)| hit).collect();
            return Ok(FilledRange { range: wanted.clone(), pieces, wanted, is_new: false });
        }
        let _memory = self.folder.locks.memory.acquire().await;
        let range = bytes_of(&(number * WHOLE..(number + 1) * WHOLE), self.pin.size);
        let pieces = self.fetch(range.clone()).await?;
        // Write the block before releasing the lock, so that the next request finds it in the cache.
        self.keep(range.clone(), pieces.clone()).await?;
        Ok(FilledRange { range, pieces, wanted, is_new: false })
    }

    async fn find(&self, pages: Range<u64>) -> Result<Vec<(Range<u64>, Option<Bytes>)>, RequestError> {
        let (cache, object) = (Arc::clone(self.cache), Arc::clone(&self.object));
        tokio::task::spawn_blocking(move || cache.find(&object, &pages)).await.map_err(|_| gone())
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Vec<Bytes>, RequestError> {
        let mut pieces = Vec::new();
        let push = &mut |piece| pieces.push(piece);
        fetch(self.folder, &self.pin.key, Extent::Range(range), Some(self.pin), self.readers, push).await?;
        Ok(pieces)
    }

    async fn keep(&self, range: Range<u64>, pieces: Vec<Bytes>) -> Result<(), RequestError> {
        let Some(write) = self.cache.begin_write() else { return Ok(()) };
        let object = Arc::clone(&self.object);
        let put = move || write.put(&object, pages_of(&range), &pieces.concat());
        tokio::task::spawn_blocking(put).await.map_err(|_| gone())
    }
}

/// Splits a range at the boundary between two blocks, if the range is shorter than a block.
fn by_blocks(range: &Range<u64>) -> Vec<Range<u64>> {
    let middle = (range.start + 1).next_multiple_of(WHOLE * PAGE);
    if range.end - range.start >= WHOLE * PAGE || middle >= range.end {
        return vec![range.clone()];
    }
    vec![range.start..middle, middle..range.end]
}

fn gone() -> RequestError {
    RequestError::given_up()
}

/// Passes on the bytes that lie in both `wanted` and the transfer's range. `at` is the offset of the first byte of
/// `bytes`.
fn push(transfer: &Transfer, wanted: &Range<u64>, at: u64, bytes: &Bytes) {
    let place = |offset: u64| to_usize(offset.saturating_sub(at)).min(bytes.len());
    let part = place(transfer.range.start.max(wanted.start))..place(transfer.range.end.min(wanted.end));
    if !part.is_empty() {
        transfer.push(bytes.slice(part));
    }
}

//! A range through the cache: pages that are there from the disk, the others from the store.

use crate::block::Block;
use crate::cache_block::pages_of;
use crate::client::Shared;
use crate::failure::Failure;
use crate::fetch::{Want, fetch};
use crate::object::Pin;
use bytes::Bytes;
use futures_util::stream::{StreamExt, iter};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

/// Holes of one range that are fetched side by side.
const HOLES: usize = 4;

/// Brings the bytes of `block`. Without a cache, or a strong ETag, all come from the store.
pub(crate) async fn bring(shared: &Shared, pin: &Pin, block: &Block) -> Result<(), Failure> {
    let (Some(cache), Some(e_tag)) = (&shared.cache, pin.strong_tag()) else {
        let want = Want::Range(block.range.clone());
        return fetch(shared, &pin.key, want, Some(pin), &mut |bytes| block.push(bytes)).await.map(drop);
    };
    let object = Arc::new(cache.object(pin.key.as_ref(), e_tag, pin.size));
    let found = {
        let (cache, object, pages) = (Arc::clone(cache), Arc::clone(&object), pages_of(&block.range));
        tokio::task::spawn_blocking(move || cache.find(&object, &pages)).await.map_err(|_| gone())?
    };
    let mut parts = iter(found).map(|part| fill(shared, pin, part)).buffered(HOLES);
    while let Some(part) = parts.next().await {
        let (range, pieces, is_new) = part?;
        let mut at = range.start;
        for piece in &pieces {
            push(block, at, piece);
            at += piece.len() as u64;
        }
        if is_new {
            let (cache, object) = (Arc::clone(cache), Arc::clone(&object));
            let write = move || cache.put(&object, pages_of(&range), &pieces.concat());
            tokio::task::spawn_blocking(write).await.map_err(|_| gone())?;
        }
    }
    Ok(())
}

/// A part of what was found; if it was not, from the store.
async fn fill(
    shared: &Shared,
    pin: &Pin,
    (range, hit): (Range<u64>, Option<Bytes>),
) -> Result<(Range<u64>, Vec<Bytes>, bool), Failure> {
    if let Some(bytes) = hit {
        return Ok((range, vec![bytes], false));
    }
    let mut pieces = Vec::new();
    fetch(shared, &pin.key, Want::Range(range.clone()), Some(pin), &mut |piece| pieces.push(piece)).await?;
    Ok((range, pieces, true))
}

fn gone() -> Failure {
    Failure::last(ErrorKind::Other, "the request was given up")
}

/// Hands on what of `bytes`, which stand at `at`, is in the block's range.
fn push(block: &Block, at: u64, bytes: &Bytes) {
    let place = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
    let part = place(block.range.start)..place(block.range.end);
    if !part.is_empty() {
        block.push(bytes.slice(part));
    }
}

//! A range through the cache: blocks that are there from the disk, the others from the store.

use crate::block::Block;
use crate::cache::{BLOCK, Cache};
use crate::client::Shared;
use crate::failure::Failure;
use crate::fetch::{Want, fetch};
use crate::object::Pin;
use bytes::Bytes;
use std::io::ErrorKind;
use std::sync::Arc;

/// Brings the bytes of `block`. Without a cache, or a strong ETag, all come from the store.
pub(crate) async fn bring(shared: &Shared, pin: &Pin, block: &Block) -> Result<(), Failure> {
    let e_tag = pin.e_tag.as_ref().filter(|tag| !tag.starts_with("W/"));
    let (Some(cache), Some(e_tag)) = (&shared.cache, e_tag) else {
        let want = Want::Range(block.range.clone());
        return fetch(shared, &pin.key, want, Some(pin), &mut |bytes| block.push(bytes)).await.map(drop);
    };
    let identity = |number| cache.identity(pin.key.as_ref(), e_tag, pin.size, number);
    let mut number = block.range.start / BLOCK;
    while number * BLOCK < block.range.end {
        let mut missing = number;
        let mut hit = None;
        while hit.is_none() && number * BLOCK < block.range.end {
            hit = get(cache, identity(number), (pin.size - number * BLOCK).min(BLOCK)).await?;
            number += 1;
        }
        let end = number - u64::from(hit.is_some());
        if missing < end {
            let range = missing * BLOCK..(end * BLOCK).min(pin.size);
            let (mut at, mut whole) = (range.start, Vec::new());
            let mut take = |piece: Bytes| {
                push(block, at, &piece);
                at += piece.len() as u64;
                whole.extend_from_slice(&piece);
            };
            fetch(shared, &pin.key, Want::Range(range), Some(pin), &mut take).await?;
            let mut kept = Vec::new();
            while missing < end {
                kept.push(identity(missing));
                missing += 1;
            }
            let cache = Arc::clone(cache);
            let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
            let write = move || kept.iter().zip(whole.chunks(size)).for_each(|(one, bytes)| cache.put(one, bytes));
            tokio::task::spawn_blocking(write).await.map_err(|_| gone())?;
        }
        if let Some(bytes) = hit {
            push(block, end * BLOCK, &bytes);
        }
    }
    Ok(())
}

async fn get(cache: &Arc<Cache>, identity: String, len: u64) -> Result<Option<Bytes>, Failure> {
    let cache = Arc::clone(cache);
    let found = tokio::task::spawn_blocking(move || cache.get(&identity)).await.map_err(|_| gone())?;
    Ok(found.filter(|bytes| bytes.len() as u64 == len).map(Bytes::from))
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

//! The keys of all samples of a dataset, by their hashes.

use std::hash::RandomState;

/// Hashes of all keys, sorted: 16 bytes a sample. The keys themselves stay in the shards' indexes.
#[derive(Debug)]
pub(crate) struct KeyTable {
    // Keyed at random, so that an attacker cannot prepare keys that collide.
    pub(crate) hasher: RandomState,
    pub(crate) entries: Vec<(u64, u64)>,
}

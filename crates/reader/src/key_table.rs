use std::hash::RandomState;

/// Sorted hashes of all keys, 16 bytes per sample. The keys themselves stay in the shard indexes.
#[derive(Debug)]
pub(crate) struct KeyTable {
    // The hasher is keyed at random, so that an attacker cannot prepare keys that collide.
    pub(crate) hasher: RandomState,
    pub(crate) entries: Vec<(u64, u64)>,
}

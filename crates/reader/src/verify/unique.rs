//! Finds keys and sample ids that occur twice. This takes 56 bytes per sample, because the keys themselves are
//! not kept.

use crate::shard::Shard;
use std::hash::{BuildHasher, RandomState};

/// Location of a record: its target, and its index in the shard.
pub(super) type Spot = (usize, u64);

/// Key hashes and ids of all samples seen so far.
///
/// A key is represented by two 64-bit hashes with random seeds. Among 10⁹ samples, two different keys collide
/// with a probability of 10⁻²⁰.
#[derive(Debug, Default)]
pub(super) struct Unique {
    first: RandomState,
    second: RandomState,
    keys: Vec<(u64, u64, Spot)>,
    ids: Vec<(u64, Spot)>,
}

impl Unique {
    pub(super) fn add(&mut self, target: usize, shard: &Shard) {
        for record in 0..shard.len() {
            if let (Some(key), Some(row)) = (shard.index().key(record), shard.index().row(record)) {
                self.add_one(key, row.sample_id, (target, record));
            }
        }
    }

    pub(super) fn add_one(&mut self, key: &str, sample_id: u64, spot: Spot) {
        self.keys.push((self.first.hash_one(key), self.second.hash_one(key), spot));
        self.ids.push((sample_id, spot));
    }

    /// Returns every repeated key or id, as `sample key` or `sample id`, with the locations of this occurrence and the
    /// previous one.
    pub(super) fn duplicates(mut self) -> Vec<(&'static str, Spot, Spot)> {
        let mut out = Vec::new();
        self.keys.sort_unstable();
        for pair in self.keys.windows(2) {
            if let [(a, b, first), (c, d, second)] = pair
                && (a, b) == (c, d)
            {
                out.push(("sample key", *second, *first));
            }
        }
        self.ids.sort_unstable();
        for pair in self.ids.windows(2) {
            if let [(a, first), (b, second)] = pair
                && a == b
            {
                out.push(("sample id", *second, *first));
            }
        }
        out
    }
}

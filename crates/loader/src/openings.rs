//! The shards of the next batch that are not open yet. All idle threads open them in parallel before the batch is
//! planned, because opening a shard takes several reads, each of which depends on the previous one. In random order,
//! every row may need a different shard.

use shardpack_reader::{Dataset, Error, Result, Shard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) type Failed = HashMap<usize, Error>;

pub(crate) struct Openings {
    dataset: Dataset,
    numbers: Vec<usize>,
    next: AtomicUsize,
    ended: Mutex<Ended>,
    all: Condvar,
}

#[derive(Default)]
struct Ended {
    count: usize,
    failed: Failed,
}

impl Openings {
    pub(crate) fn new(dataset: Dataset, numbers: Vec<usize>) -> Self {
        Self { dataset, numbers, next: AtomicUsize::new(0), ended: Mutex::default(), all: Condvar::new() }
    }

    pub(crate) fn is_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.numbers.len()
    }

    /// Opens one shard. Returns false if there are none left to open.
    pub(crate) fn open_one(&self) -> bool {
        let Some(&number) = self.numbers.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return false };
        // `Ending` wakes the waiting threads when it is dropped, even if the storage panics.
        let _ending = Ending(self);
        if let Err(error) = self.dataset.shard(number) {
            self.ended().failed.insert(number, error);
        }
        true
    }

    /// Waits for the shards that other threads are still opening. Returns the failed shards with their
    /// errors. Call this when there are no shards left to open.
    pub(crate) fn wait(&self) -> Failed {
        let mut ended = self.ended();
        while ended.count < self.numbers.len() {
            ended = self.all.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut ended.failed)
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ending<'o>(&'o Openings);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended().count += 1;
        self.0.all.notify_all();
    }
}

/// A dataset whose shards are opened in advance.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) dataset: Dataset,
    pub(crate) failed: Failed,
}

impl Shards {
    pub(crate) fn new(dataset: Dataset) -> Self {
        Self { dataset, failed: Failed::new() }
    }

    /// Same as [`Dataset::shard`], but fails at once for a shard that has just failed.
    pub(crate) fn get(&self, number: usize) -> Result<Arc<Shard>> {
        self.failed.get(&number).map_or_else(|| self.dataset.shard(number), |error| Err(error.clone()))
    }
}

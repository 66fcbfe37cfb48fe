//! The shards of the next batch that nobody has opened. To open one takes reads that wait for each
//! other, and a random order may need a shard for every row: so all threads that have nothing better
//! to do open them side by side, before the batch is planned.

use shardpack_reader::{Dataset, Error, Result, Shard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Shards that could not be opened.
pub(crate) type Failed = HashMap<usize, Error>;

/// Shards to be opened, by number.
pub(crate) struct Openings {
    dataset: Dataset,
    numbers: Vec<usize>,
    /// The next one that nobody has taken.
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

    /// Whether there are some that nobody has taken.
    pub(crate) fn is_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.numbers.len()
    }

    /// Opens one; false if none is left.
    pub(crate) fn open_one(&self) -> bool {
        let Some(&number) = self.numbers.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return false };
        // A storage may panic: whoever waits is woken all the same.
        let _ending = Ending(self);
        if let Err(error) = self.dataset.shard(number) {
            self.ended().failed.insert(number, error);
        }
        true
    }

    /// Waits for those that were taken, once none is left; those that failed.
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

/// Counts a shard that was taken when it goes.
struct Ending<'o>(&'o Openings);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended().count += 1;
        self.0.all.notify_all();
    }
}

/// A dataset whose shards were opened before they are asked for.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) dataset: Dataset,
    pub(crate) failed: Failed,
}

impl Shards {
    pub(crate) fn new(dataset: Dataset) -> Self {
        Self { dataset, failed: Failed::new() }
    }

    /// As [`Dataset::shard`], but for what has just failed, which is not tried again.
    pub(crate) fn get(&self, number: usize) -> Result<Arc<Shard>> {
        self.failed.get(&number).map_or_else(|| self.dataset.shard(number), |error| Err(error.clone()))
    }
}

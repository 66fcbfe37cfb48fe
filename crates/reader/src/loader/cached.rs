//! Records that are read one by one, by the thread that decodes them, while the page cache holds the window of the order.
//!
//! A window of many runs is as large as hundreds of megabytes. Where the system's cache holds the files anyway, a copy of it in the process takes that memory a second time,
//! and costs a pass: a record that is read just before it is decoded, into memory that its core has in its cache, is read half as fast again.

use super::fault;
use super::options::Window;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::shard::{Shard, room};

/// A record of up to so many bytes fits the second-level cache of one core beside its picture.
const LARGEST_BYTES: u64 = 1 << 20;
/// Below, a call of the system for each record costs more than copying them run by run: both took as long at some 10 KiB.
const MEAN_BYTES: u64 = 16 << 10;
/// Places of the dataset that are asked for: a dataset of which a tenth is not cached is found out all but once in a thousand times.
const PLACES: u64 = 64;

/// Where the window of an epoch is: what became of [`Window`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Held {
    /// In buffers of the loader, run by run.
    #[default]
    Memory,
    /// In the page cache. With `announce`, the system is told which runs to fetch.
    PageCache { announce: bool },
}

impl Held {
    /// Where the window of the next epoch shall be. `largest` is the size of the largest record, in bytes.
    pub(super) fn decide(window: Window, dataset: &Dataset, largest: u64) -> Self {
        match window {
            Window::PageCache => Self::PageCache { announce: true },
            Window::Auto if fits(dataset, largest) && is_cached(dataset) => Self::PageCache { announce: false },
            Window::Auto | Window::Memory => Self::Memory,
        }
    }
}

fn fits(dataset: &Dataset, largest: u64) -> bool {
    let bytes = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    largest <= LARGEST_BYTES && bytes / dataset.len().max(1) >= MEAN_BYTES
}

/// Whether all of some places, evenly spread over the dataset, are in the page cache.
fn is_cached(dataset: &Dataset) -> bool {
    let places = PLACES.min(dataset.len());
    let is_there = |place: u64| -> Result<bool> {
        let sample = u128::from(place) * u128::from(dataset.len()) / u128::from(places);
        let (number, record) = dataset.locate(u64::try_from(sample).unwrap_or(u64::MAX))?;
        let shard = dataset.shard(number)?;
        let row = shard.row(record)?;
        Ok(shard.file().handle()?.is_cached(row.offset.saturating_add(row.length / 2)))
    };
    // What cannot be opened is said when its batch comes.
    places > 0 && (0..places).all(|place| is_there(place).unwrap_or(false))
}

/// Reads a record into the front of `buffer`, which grows when it must. Its bytes, padding included, are not compared with anything yet.
///
/// # Errors
/// `Io`, naming the sample, if it cannot be read; `Limit` if it is too large.
pub(super) fn read<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.check_length(record)?;
    let span = shard.span(&(record..record.saturating_add(1)))?;
    let bytes = room(buffer, span.end - span.start)?;
    match shard.file().read_exact_at(bytes, span.start) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(fault::of_record(error, shard, record)),
    }
}

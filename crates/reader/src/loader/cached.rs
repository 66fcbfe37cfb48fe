//! Records that are read one by one, by the thread that decodes them, while the page cache holds the window of the order.
//!
//! A window of many runs is as large as hundreds of megabytes. What is read from a file goes through the system's cache anyway: a copy in the process takes that memory a second time,
//! and costs a pass. A record that is read just before it is decoded, into memory that its core has in its cache, is read half as fast again.

use super::fault;
use super::options::Window;
use super::predict::Predicted;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::shard::{Shard, room};
use std::path::Path;

/// A record of up to so many bytes fits the second-level cache of one core beside its picture.
const LARGEST_BYTES: u64 = 1 << 20;
/// Below, a call of the system for each record costs more than copying them run by run: both took as long at some 10 KiB.
const MEAN_BYTES: u64 = 16 << 10;
/// Places of the dataset that are asked for: a dataset of which a tenth is not cached is found out all but once in a thousand times.
const PLACES: u64 = 64;
/// How many windows the page cache must have room for, before one is left to it: other programs use it, too, and it drops what was read first.
const WINDOWS: u64 = 4;

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
    /// Where the window of the next epoch shall be.
    pub(super) fn decide(window: Window, dataset: &Dataset, predicted: &Predicted) -> Self {
        match window {
            Window::PageCache => Self::PageCache { announce: true },
            Window::Auto if fits(dataset, predicted.record_bytes) => match is_cached(dataset) {
                Some(true) => Self::PageCache { announce: false },
                Some(false) if has_room(predicted.run_bytes, room_bytes()) => Self::PageCache { announce: true },
                Some(false) | None => Self::Memory,
            },
            Window::Auto | Window::Memory => Self::Memory,
        }
    }
}

fn fits(dataset: &Dataset, largest: u64) -> bool {
    let bytes = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    largest <= LARGEST_BYTES && bytes / dataset.len().max(1) >= MEAN_BYTES
}

fn has_room(window: u64, room: Option<u64>) -> bool {
    room.is_some_and(|room| room / WINDOWS >= window)
}

/// Whether all of some places, evenly spread over the dataset, are in the page cache; `None` if it cannot be known of one of them.
fn is_cached(dataset: &Dataset) -> Option<bool> {
    let places = PLACES.min(dataset.len());
    let mut all = true;
    for place in 0..places {
        let sample = u128::from(place) * u128::from(dataset.len()) / u128::from(places);
        // What cannot be opened is said when its batch comes.
        let (number, record) = dataset.locate(u64::try_from(sample).ok()?).ok()?;
        let shard = dataset.shard(number).ok()?;
        let row = shard.row(record).ok()?;
        all &= shard.file().handle().ok()?.is_cached(row.offset.saturating_add(row.length / 2))?;
    }
    (places > 0).then_some(all)
}

/// Bytes that the page cache may come to hold: what the machine can spare and what the control groups of this process allow, whichever is less. `None` where the system
/// does not say.
fn room_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let spare = field(&text, "MemAvailable:")?.saturating_mul(1024);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Version 2 has one line, of group 0. Of version 1 it is not known what its limits are worth.
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut group = Path::new("/sys/fs/cgroup").join(own);
    let mut room = spare;
    while group.starts_with("/sys/fs/cgroup") {
        let limit = std::fs::read_to_string(group.join("memory.max")).ok().and_then(|text| text.trim().parse().ok());
        if let Some(limit) = limit {
            let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            // Everything else in the group can be dropped.
            room = room.min(u64::saturating_sub(limit, field(&stat, "anon").unwrap_or(0)));
        }
        group.pop();
    }
    Some(room)
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    lines.next()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_left_to_the_page_cache_where_it_fits_four_times() {
        assert!(has_room(1 << 30, Some(4 << 30)));
        assert!(!has_room(1 << 30, Some((4 << 30) - 1)));
        assert!(!has_room(1, None));
    }

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "anon_thp 5\nanon 4096\nfile 8192\n";
        assert_eq!((field(text, "anon"), field(text, "file"), field(text, "kernel")), (Some(4096), Some(8192), None));
        assert_eq!(field("MemAvailable:   23 kB\n", "MemAvailable:"), Some(23));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_says_what_room_there_is() {
        assert!(room_bytes() > Some(1 << 20), "{:?}", room_bytes());
    }
}

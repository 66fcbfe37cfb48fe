//! A part of a dataset, written by one of several machines.

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, saturating_u32};
use std::fmt;
use std::ops::Range;

/// One of several contiguous slices of a plan's shards. With parts, several machines can write one dataset to one
/// folder.
///
/// Parts are counted from 0 here, but from 1 in messages, in file names and on the command line.
///
/// ```
/// use shardpack_writer::Part;
/// let part = Part::new(1, 4)?;
/// assert_eq!(part.to_string(), "2/4");
/// assert_eq!(part.shards(10), 2..5);
/// assert!(Part::new(4, 4).is_err());
/// assert!(serde_json::from_str::<Part>(r#"{"index":0,"count":0}"#).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "StoredPart")]
pub struct Part {
    index: u32,
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPart {
    index: u32,
    count: u32,
}

impl TryFrom<StoredPart> for Part {
    type Error = Error;

    fn try_from(stored: StoredPart) -> Result<Self> {
        Self::new(stored.index, stored.count)
    }
}

impl Part {
    /// Creates part `index` of `count`, counted from 0.
    ///
    /// # Errors
    /// `Usage` unless `index < count`.
    pub fn new(index: u32, count: u32) -> Result<Self> {
        if index < count {
            return Ok(Self { index, count });
        }
        let number = u64::from(index) + 1;
        Err(Error::usage(format!("there is no part {number}/{count}: the number must be from 1 to {count}"))
            .with_hint("count parts from 1: the last of 4 parts is 4/4"))
    }

    /// Returns the index of this part, counted from 0.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of parts.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    pub(crate) fn suffix(self) -> String {
        format!("-{:05}-of-{:05}", u64::from(self.index) + 1, self.count)
    }

    /// Returns the range of shards in this part, given the total number of shards: from `⌊shards · index / count⌋` up
    /// to, but not including, `⌊shards · (index + 1) / count⌋`.
    #[must_use]
    pub fn shards(self, shards: u32) -> Range<u32> {
        let edge = |i: u64| u32::try_from(u64::from(shards) * i / u64::from(self.count)).unwrap_or(shards);
        edge(u64::from(self.index))..edge(u64::from(self.index) + 1)
    }

    /// Returns the part (of `count`) that contains shard `number` (of `shards`).
    pub(crate) fn of_shard(number: u32, shards: u32, count: u32) -> Self {
        let above = (u64::from(number) + 1) * u64::from(count);
        let index = above.div_ceil(u64::from(shards).max(1)).saturating_sub(1);
        Self { index: saturating_u32(index).min(count.saturating_sub(1)), count }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", u64::from(self.index) + 1, self.count)
    }
}

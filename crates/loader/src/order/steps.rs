//! The steps of a rank: its samples in order, the read that each one needs, and the time when that read can be freed.

use super::positions::{Own, Pick, Positions, SampleRef};
use super::ranks::Share;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A read of consecutive samples.
///
/// ```
/// use shardpack_loader::order::Read;
/// let read = Read { source: 0, samples: 38..76, needed: 38, pass: 0, patches: None };
/// assert_eq!(read.samples.end - read.samples.start, read.needed);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Read {
    /// Index of the dataset in a mixture, or 0 if the order is not a mixture.
    pub source: u32,
    /// Samples of the read, consecutive in stored order.
    pub samples: Range<u64>,
    /// Number of samples that the rank needs from this read.
    pub needed: u64,
    /// In a mixture, the number of earlier passes through the dataset. In an epoch of patches, the index of
    /// the scene. Otherwise 0.
    pub pass: u64,
    /// In an epoch of patches, the patches of this scene that the rank needs.
    pub patches: Option<Vec<u32>>,
}

/// One sample that a rank takes, with its position in the batch and its read.
///
/// ```
/// use shardpack_loader::order::{End, Order, Runs, Sampling, Share, OrderState, Steps, World};
/// let order = Order::new(Runs::new(100_000, 38), 42);
/// let state = OrderState::start(&order);
/// let epoch = order.epoch_of(&state)?;
/// let share = Share::new(World::new(0, 8, 32)?, End::Drop, &*epoch, &state);
/// let first = Steps::new(epoch, share).next().unwrap();
/// assert_eq!((first.batch, first.row, first.position), (0, 0, 0));
/// let read = first.read.unwrap();
/// assert!(read.samples.contains(&first.at.sample) && read.needed <= 38);
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Index of the batch, from the start of the share.
    pub batch: u64,
    /// Row in the batch.
    pub row: u64,
    /// Position in the epoch.
    pub position: u64,
    /// The sample.
    pub at: SampleRef,
    /// Read to start now, or `None` if an earlier sample has already started it.
    pub read: Option<Read>,
    /// First sample of the read that contains this sample. Identifies the read, together with `at.source` and `pass`.
    pub read_start: u64,
    /// Same as in [`Read`].
    pub pass: u64,
    /// Same as in [`Pick`].
    pub repetition: u64,
    /// Same as in [`Pick`].
    pub patch: u64,
    /// True for the last sample of a read. Afterwards, the bytes of the read can be freed.
    pub done: bool,
}

/// Iterates over the samples of a rank, batch by batch and row by row.
///
/// To read ahead, advance the iterator ahead of the consumer. Reads come in the order in which they are
/// needed, and a rank keeps at most [`Positions::held_samples_max`] samples. The iterator itself uses 24
/// bytes per open read, plus the overhead of hash tables. When it ends, the reads that are still open can be
/// freed, because the epoch drops their remaining samples.
#[derive(Debug)]
pub struct Steps {
    epoch: Box<dyn Positions>,
    share: Share,
    batch: u64,
    row: u64,
    open: HashSet<(u32, u64, u64)>,
    /// Number of remaining samples of each read whose end the order does not report.
    counted: HashMap<(u32, u64, u64), u64>,
}

impl Steps {
    /// Creates the steps of `share` in `epoch`.
    #[must_use]
    pub fn new(epoch: Box<dyn Positions>, share: Share) -> Self {
        Self { epoch, share, batch: 0, row: 0, open: HashSet::new(), counted: HashMap::new() }
    }

    /// Returns the number of reads that have started but not finished.
    #[must_use]
    pub fn open_reads(&self) -> usize {
        self.open.len() + self.counted.len()
    }

    /// Returns the share that the steps follow.
    #[must_use]
    pub const fn share(&self) -> &Share {
        &self.share
    }
}

impl Steps {
    /// Returns whether the read is already open, and the number of its samples that the rank still needs, including
    /// this one.
    fn count(&mut self, name: (u32, u64, u64), position: u64, own: &Own) -> (bool, u64) {
        let left = self.counted.get(&name).copied();
        let rest = left.unwrap_or_else(|| self.epoch.rest(position, own)).max(1);
        match rest {
            1 => drop(self.counted.remove(&name)),
            _ => drop(self.counted.insert(name, rest - 1)),
        }
        (left.is_some(), rest)
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.row >= self.share.filled(self.batch) {
            self.row = 0;
            self.batch += 1;
        }
        let (batch, row) = (self.batch, self.row);
        let position = self.share.position(batch, row)?;
        let own = self.share.own(batch);
        let Pick { at, span, rest, pass, repetition, patch } = self.epoch.pick(position, &own)?;
        self.row += 1;
        let name = (at.source, span.start, pass);
        let read_start = span.start;
        let (known, rest) = match rest {
            0 => self.count(name, position, &own),
            1 => (self.open.remove(&name), rest),
            _ => (!self.open.insert(name), rest),
        };
        let read = (!known).then(|| {
            let patches = self.epoch.patches(position, &own);
            Read { source: at.source, samples: span, needed: rest, pass, patches }
        });
        Some(Step { batch, row, position, at, read, read_start, pass, repetition, patch, done: rest == 1 })
    }
}

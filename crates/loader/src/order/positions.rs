//! An epoch as a function from positions to samples and their reads.

use std::fmt::Debug;
use std::ops::Range;

/// The sample at a position and, in a mixture, the dataset that it belongs to.
///
/// ```
/// use shardpack_loader::order::SampleRef;
/// assert_eq!(SampleRef::new(7), SampleRef { source: 0, sample: 7 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleRef {
    /// Index of the dataset in a mixture, or 0 if the order is not a mixture.
    pub source: u32,
    /// Index of the sample in its dataset, in stored order.
    pub sample: u64,
}

impl SampleRef {
    /// Returns a reference to sample `sample`, for orders of a single dataset.
    #[must_use]
    pub const fn new(sample: u64) -> Self {
        Self { source: 0, sample }
    }
}

/// The positions near a given one that belong to the same rank. They determine how much the rank can read at once.
///
/// ```
/// use shardpack_loader::order::Own;
/// assert_ne!(Own::Every { world_size: 8 }, Own::Range(64..96));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// Every `world_size`-th position.
    Every {
        /// Number of ranks, at least 1.
        world_size: u64,
    },
    /// All positions of a range that contains the given one.
    Range(Range<u64>),
}

/// A sample and the read that contains it.
///
/// ```
/// use shardpack_loader::order::{Pick, SampleRef};
/// let alone = Pick::alone(SampleRef::new(7));
/// assert_eq!((alone.span, alone.rest), (7..8, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// The sample.
    pub at: SampleRef,
    /// Samples to read together, including `at`. They are consecutive in stored order.
    pub span: Range<u64>,
    /// Number of samples of the span that the rank still needs, including this one. At 1, the bytes can be
    /// freed after this sample. At 0, the samples must be counted: [`Positions::rest`] does so once for each
    /// read, and [`Steps`](super::Steps) counts down from there.
    pub rest: u64,
    /// Number of earlier passes through the dataset. Distinguishes reads of the same span, because a mixture
    /// that repeats a small dataset may have the span open twice.
    pub pass: u64,
    /// Distinguishes this draw of the sample from its other draws in the same epoch. 0 if each sample is drawn once.
    /// Random views and patches depend on this number.
    pub repetition: u64,
    /// Index of the sample's patch in an epoch of patches ([`Patched`](super::Patched)), or 0 in an epoch of samples.
    pub patch: u64,
}

impl Pick {
    /// Returns a sample that is read alone.
    #[must_use]
    pub const fn alone(at: SampleRef) -> Self {
        Self { at, span: at.sample..at.sample.saturating_add(1), rest: 1, pass: 0, repetition: 0, patch: 0 }
    }
}

/// How a batch's positions are distributed to ranks.
///
/// ```
/// use shardpack_loader::order::{Dealing, Mode, Order, Runs};
/// let order = Order::new(Runs::new(1000, 38), 42);
/// assert_eq!(order.epoch(0).dealing(), Dealing::Interleaved);
/// assert_eq!(order.mode(Mode::Stored).epoch(0).dealing(), Dealing::Sliced);
/// # use shardpack_loader::order::Positions;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dealing {
    /// Position `p` goes to rank `p` modulo the world size.
    Interleaved,
    /// Each rank takes a slice of the global batch. Neighbours in stored order then stay together.
    Sliced,
}

/// Reads that are open at the same time. Each has up to `samples` consecutive samples.
///
/// ```
/// use shardpack_loader::order::{Order, OpenReads, Positions, Runs};
/// let epoch = Order::new(Runs::new(1_000_000, 38), 42).epoch(0);
/// assert_eq!(epoch.open_reads_max(8), [OpenReads { source: 0, reads: 30, samples: 38 }]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReads {
    /// Index of the dataset in a mixture, or 0 if the order is not a mixture.
    pub source: u32,
    /// Maximum number of reads open at the same time.
    pub reads: u64,
    /// Maximum number of samples per read.
    pub samples: u64,
}

impl OpenReads {
    pub(super) const ALONE: Self = Self { source: 0, reads: 1, samples: 1 };
}

/// One epoch of an order: a pure function from positions to samples.
pub trait Positions: Debug + Send + Sync {
    /// Returns the number of positions.
    fn len(&self) -> u64;

    /// Returns true if there are no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sample at `position`, or `None` past the end.
    fn sample(&self, position: u64) -> Option<SampleRef>;

    /// Returns the sample at `position` and its read, for a rank that takes the positions `own`, or `None` past the
    /// end.
    fn pick(&self, position: u64, own: &Own) -> Option<Pick>;

    /// Returns the number of samples that a rank still needs, starting at `position`, in the span read for
    /// `position`, or 0 past the end. The rank takes the positions `own`. The result is exact even where
    /// [`Pick::rest`] is 0.
    fn rest(&self, position: u64, own: &Own) -> u64 {
        self.pick(position, own).map_or(0, |pick| pick.rest)
    }

    /// Returns the patches that a rank still needs, starting at `position`, of the scene at `position`, or `None` in
    /// an epoch of samples. The rank takes the positions `own`.
    fn patches(&self, _position: u64, _own: &Own) -> Option<Vec<u32>> {
        None
    }

    /// Returns how the positions of a batch are distributed to ranks.
    fn dealing(&self) -> Dealing {
        Dealing::Interleaved
    }

    /// Returns, for each dataset of a mixture, the maximum number of reads that one of `world_size` ranks has
    /// open at once if it does not read ahead. Their size in bytes depends on the sizes of samples, which are
    /// not part of the order.
    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads>;

    /// Returns the maximum number of samples that one of `world_size` ranks has read but not yet delivered,
    /// if it does not read ahead.
    fn open_samples_max(&self, world_size: u64) -> u64 {
        let samples = |open: OpenReads| open.reads.saturating_mul(open.samples);
        self.open_reads_max(world_size).into_iter().map(samples).fold(0, u64::saturating_add)
    }

    /// Returns the maximum number of samples that a rank keeps if it reads `ahead` steps ahead of delivery. Usually,
    /// a rank keeps `open_samples_max + ahead` samples. A sample counts until the last sample of its part of the run
    /// is delivered. For bytes, multiply by the mean size of a record. If records differ in size, so do runs.
    fn held_samples_max(&self, world_size: u64, ahead: u64) -> u64 {
        let open = self.open_samples_max(world_size);
        // At the read position, `open` samples are open. Reads that ended between there and the delivery position are
        // still needed, because they contain the `ahead` samples and the parts of runs that began earlier.
        if ahead == 0 { open } else { open.saturating_mul(2).saturating_add(ahead) }
    }
}

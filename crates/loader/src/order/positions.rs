//! An order for its users: positions, and the sample at each.

use std::fmt::Debug;
use std::ops::Range;

/// The sample at a position, and its dataset in a mixture.
///
/// ```
/// use shardpack_loader::order::SampleRef;
/// assert_eq!(SampleRef::new(7), SampleRef { source: 0, sample: 7 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleRef {
    /// Number of the dataset in a mixture; 0 otherwise.
    pub source: u32,
    /// Index of the sample in its dataset, in stored order.
    pub sample: u64,
}

impl SampleRef {
    /// Sample `sample` of the only dataset.
    #[must_use]
    pub const fn new(sample: u64) -> Self {
        Self { source: 0, sample }
    }
}

/// Positions that a rank takes around a given one; they determine how much the rank can read at once.
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

/// A sample, and the read that contains it.
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
    /// The samples to read at once, including `at`: consecutive in stored order.
    pub span: Range<u64>,
    /// Number of samples of the span that the rank takes from here on, including this one. At 1, the
    /// bytes can be freed afterwards. 0 if it must be counted: [`Positions::rest`] does so, once for
    /// each read, and [`Steps`](super::Steps) counts down from there.
    pub rest: u64,
    /// Number of earlier passes through the dataset: the same span may be open twice if a mixture
    /// repeats a small dataset.
    pub pass: u64,
    /// Distinguishes this draw of the sample from others in the same epoch: 0 if each sample comes
    /// once. Random views and patches draw from it.
    pub repetition: u64,
    /// Number of the patch of the sample, in an epoch of patches ([`Patched`](super::Patched)); else 0.
    pub patch: u64,
}

impl Pick {
    /// A sample that is read alone.
    #[must_use]
    pub const fn alone(at: SampleRef) -> Self {
        Self { at, span: at.sample..at.sample.saturating_add(1), rest: 1, pass: 0, repetition: 0, patch: 0 }
    }
}

/// Distribution of the positions of a batch to ranks.
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
    /// Each rank takes a slice of the global batch, so that samples in stored order stay together.
    Sliced,
}

/// Number of reads that are open at the same time, with up to `samples` consecutive samples each.
///
/// ```
/// use shardpack_loader::order::{Order, OpenReads, Positions, Runs};
/// let epoch = Order::new(Runs::new(1_000_000, 38), 42).epoch(0);
/// assert_eq!(epoch.open_reads_max(8), [OpenReads { source: 0, reads: 30, samples: 38 }]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReads {
    /// Number of the dataset in a mixture; 0 otherwise.
    pub source: u32,
    /// Largest number of reads that are open at the same time.
    pub reads: u64,
    /// Largest number of samples of each read.
    pub samples: u64,
}

impl OpenReads {
    /// Samples that are read alone: one at a time.
    pub(super) const ALONE: Self = Self { source: 0, reads: 1, samples: 1 };
}

/// One epoch of an order: a pure function from positions to samples.
pub trait Positions: Debug + Send + Sync {
    /// Number of positions.
    fn len(&self) -> u64;

    /// Returns true if there are no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample at `position`; `None` past the end.
    fn sample(&self, position: u64) -> Option<SampleRef>;

    /// The sample at `position`, and the read for a rank with `own` positions; `None` past the end.
    fn pick(&self, position: u64, own: &Own) -> Option<Pick>;

    /// Number of samples that a rank with `own` positions takes, from `position` on, from the span that
    /// is read for it; also computed where [`Pick::rest`] is 0; 0 past the end.
    fn rest(&self, position: u64, own: &Own) -> u64 {
        self.pick(position, own).map_or(0, |pick| pick.rest)
    }

    /// In an epoch of patches, the numbers of the patches that a rank with `own` positions takes of the
    /// scene at `position`, from there on; `None` in an epoch of samples.
    fn patches(&self, _position: u64, _own: &Own) -> Option<Vec<u32>> {
        None
    }

    /// Distribution of a batch to ranks.
    fn dealing(&self) -> Dealing {
        Dealing::Interleaved
    }

    /// Largest number of reads that a rank of `world_size` has open at a time, without reading ahead:
    /// for each dataset of a mixture. Their bytes depend on the sizes of samples, which the order does
    /// not know.
    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads>;

    /// Largest number of samples that a rank of `world_size` has read and not yet handed out, without
    /// reading ahead.
    fn open_samples_max(&self, world_size: u64) -> u64 {
        let samples = |open: OpenReads| open.reads.saturating_mul(open.samples);
        self.open_reads_max(world_size).into_iter().map(samples).fold(0, u64::saturating_add)
    }

    /// Largest number of samples that a rank holds if its reads are `ahead` steps before its hand-out;
    /// `open_samples_max + ahead` is usual. A part of a run counts as a whole until its last sample is
    /// handed out. Multiplied by the mean size of a record, this gives bytes; if records differ in
    /// size, so do runs.
    fn held_samples_max(&self, world_size: u64, ahead: u64) -> u64 {
        let open = self.open_samples_max(world_size);
        // The open samples at the read position, and those that ended between there and the hand-out:
        // `ahead` samples, and the parts of runs that began before.
        if ahead == 0 { open } else { open.saturating_mul(2).saturating_add(ahead) }
    }
}

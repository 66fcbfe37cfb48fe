//! An order as its users see it: positions, and the sample at each.

use std::fmt::Debug;
use std::ops::Range;

/// The sample at a position, and of which dataset, where several are mixed.
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

/// Which positions around its own a rank takes: this decides how much it can read at once.
///
/// ```
/// use shardpack_loader::order::Own;
/// assert_ne!(Own::Every { world_size: 8 }, Own::Range(64..96));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// Every `world_size`-th one.
    Every {
        /// Number of ranks, at least 1.
        world_size: u64,
    },
    /// All of a range that holds its own.
    Range(Range<u64>),
}

/// A sample and the read that brings it.
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
    /// The samples to read at once, `at` among them: stored one after the other.
    pub span: Range<u64>,
    /// How many samples of the span the rank takes from here on, this one included. At 1 its bytes
    /// can go. 0 if that has to be counted: [`Positions::rest`] does, once for each read, and
    /// [`Steps`](super::Steps) counts down from there.
    pub rest: u64,
    /// How often the order has gone through the dataset before: the same span may be open twice
    /// where a mixture repeats a small dataset.
    pub pass: u64,
    /// What tells this draw of the sample from others in the same epoch: 0 where each sample comes
    /// once. Random views and patches draw from it.
    pub repetition: u64,
    /// Which patch of the sample it is, in an epoch of patches ([`Patched`](super::Patched)); else 0.
    pub patch: u64,
}

impl Pick {
    /// A sample that is read alone.
    #[must_use]
    pub const fn alone(at: SampleRef) -> Self {
        Self { at, span: at.sample..at.sample.saturating_add(1), rest: 1, pass: 0, repetition: 0, patch: 0 }
    }
}

/// How the positions of a batch are dealt to ranks.
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

/// Reads that are open at the same time: as many as `reads`, of `samples` consecutive samples each.
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
    /// Most reads that are open at the same time.
    pub reads: u64,
    /// Samples of each, at most.
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

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample at `position`; `None` past the end.
    fn sample(&self, position: u64) -> Option<SampleRef>;

    /// The sample at `position`, and what a rank with `own` positions reads for it; `None` past the
    /// end.
    fn pick(&self, position: u64, own: &Own) -> Option<Pick>;

    /// How many samples of the span that is read for `position` a rank with `own` positions takes
    /// from there on, also where [`Pick::rest`] does not say; 0 past the end.
    fn rest(&self, position: u64, own: &Own) -> u64 {
        self.pick(position, own).map_or(0, |pick| pick.rest)
    }

    /// In an epoch of patches the numbers of those that a rank with `own` positions takes of the
    /// scene at `position`, from there on; `None` in an epoch of samples.
    fn patches(&self, _position: u64, _own: &Own) -> Option<Vec<u32>> {
        None
    }

    /// How a batch is dealt to ranks.
    fn dealing(&self) -> Dealing {
        Dealing::Interleaved
    }

    /// Most reads that a rank of `world_size` has open at a time, without reading ahead: for each
    /// dataset of a mixture. What they take depends on the sizes of samples, which the order does
    /// not know.
    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads>;

    /// Most samples that a rank of `world_size` holds at a time because it has read them and not
    /// yet handed them out, without reading ahead.
    fn open_samples_max(&self, world_size: u64) -> u64 {
        let samples = |open: OpenReads| open.reads.saturating_mul(open.samples);
        self.open_reads_max(world_size).into_iter().map(samples).fold(0, u64::saturating_add)
    }

    /// Most samples that a rank holds if its reads are `ahead` steps before what it hands out;
    /// `open_samples_max + ahead` is usual. A part of a run counts whole until its last sample is
    /// handed out. Times the mean size of a record, these are bytes; where records differ in size,
    /// runs do.
    fn held_samples_max(&self, world_size: u64, ahead: u64) -> u64 {
        let open = self.open_samples_max(world_size);
        // What is open where the reads are, and what ended between there and the hand-out: `ahead`
        // samples, and the parts of runs that began before.
        if ahead == 0 { open } else { open.saturating_mul(2).saturating_add(ahead) }
    }
}

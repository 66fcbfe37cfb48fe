//! Defines the order of a dataset, and each epoch of it.

use super::keyed::Keyed;
use super::lanes::{Lanes, sharing};
use super::members::Members;
use super::permutation::Permutation;
use super::positions::{Dealing, OpenReads, Own, Pick, Positions, SampleRef};
use super::runs::Runs;
use super::state::{Digest, Fingerprint, Sampling};
use super::streams;
use shardpack_format::{DatasetId, Hint, Setting};
use shardpack_reader::Dataset;

/// Order in which an epoch visits the samples.
///
/// ```
/// assert_eq!(shardpack_loader::order::Mode::default(), shardpack_loader::order::Mode::Windowed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Samples in stored order.
    Stored,
    /// Runs in permuted order, with the samples of `lanes` runs mixed. A dataset that fits into the window is
    /// permuted as in [`Mode::Full`], but if its samples are smaller than 64 KiB, a single rank still reads
    /// whole runs.
    #[default]
    Windowed,
    /// All samples in permuted order. Each sample is a separate read.
    Full,
}

/// The order of a dataset. It maps an epoch and a position to a sample, and depends on nothing else. Its size
/// is 120 bytes, plus 8 for each member of a subset.
///
/// ```
/// use shardpack_loader::order::{Order, Positions, Runs};
/// let order = Order::new(Runs::new(100_000_000, 38), 42);
/// let epoch = order.epoch(3);
/// assert_eq!(epoch.len(), 100_000_000);
/// assert_eq!(epoch.sample(99_999_999), order.epoch(3).sample(99_999_999));
/// assert_ne!(epoch.sample(0), order.epoch(4).sample(0));
/// ```
#[derive(Debug, Clone)]
pub struct Order {
    runs: Runs,
    dataset: DatasetId,
    seed: u64,
    mode: Mode,
    lanes: u64,
    members: Option<Members>,
}

impl Order {
    /// Default number of lanes: 240 = 2⁴·3·5. With runs of 4 MiB, the window is 960 MiB over all ranks.
    pub const LANES: u64 = 240;

    /// Largest number of lanes to try for a state that was saved with a different number: 15 for each of 1,092 ranks.
    const LANES_TRIED: u64 = 1 << 14;

    /// Returns the windowed order of `runs` with the seed `seed`.
    #[must_use]
    pub const fn new(runs: Runs, seed: u64) -> Self {
        Self { runs, dataset: DatasetId([0; 16]), seed, mode: Mode::Windowed, lanes: Self::LANES, members: None }
    }

    /// Returns the windowed order of `dataset` with the seed `seed`, in runs of 4 MiB. Reads nothing.
    #[must_use]
    pub fn of(dataset: &Dataset, seed: u64) -> Self {
        Self::new(Runs::of(dataset, Runs::BYTES), seed).dataset(dataset.version_id())
    }

    /// Sets the dataset's ID, which makes restoring fail for the state of a different dataset of the same size.
    #[must_use]
    pub const fn dataset(mut self, id: DatasetId) -> Self {
        self.dataset = id;
        self
    }

    /// Sets the order of the samples. Default [`Mode::Windowed`].
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the number of runs to mix at a time, at least 1. Default [`Order::LANES`]. More runs mix better and use
    /// more memory: about `lanes` runs over all ranks. If the world size divides 64 × `lanes`, no byte is read twice.
    #[must_use]
    pub const fn lanes(mut self, lanes: u64) -> Self {
        self.lanes = if lanes == 0 { 1 } else { lanes };
        self
    }

    /// Restricts the order to these samples.
    #[must_use]
    pub fn subset(mut self, members: Members) -> Self {
        self.members = Some(members);
        self
    }

    /// Returns the number of samples in an epoch.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ordered().samples()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn ordered(&self) -> Runs {
        self.members.as_ref().map_or(self.runs, Members::runs)
    }

    /// Returns epoch `epoch`. Takes a few hundred nanoseconds and allocates nothing.
    #[must_use]
    pub fn epoch(&self, epoch: u32) -> Epoch {
        let runs = self.ordered();
        let key = |stream| Keyed::new(self.seed, epoch, stream);
        let way = match self.mode {
            Mode::Stored => Way::Stored,
            Mode::Windowed if runs.count() > self.lanes => Way::Windowed(Lanes::new(
                runs,
                self.lanes,
                key(streams::RUNS).draw(0),
                key(streams::STARTS),
                key(streams::PIECES).draw(0),
            )),
            Mode::Windowed => Way::Small(Permutation::new(runs.samples(), key(streams::SAMPLES).draw(0))),
            Mode::Full => Way::Full(Permutation::new(runs.samples(), key(streams::SAMPLES).draw(0))),
        };
        Epoch { runs, way, lanes: self.lanes, members: self.members.clone() }
    }
}

impl Sampling for Order {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        let mode = match self.mode {
            Mode::Stored => 0,
            Mode::Windowed => 1,
            Mode::Full => 2,
        };
        let mut digest = Digest::new("order");
        digest.bytes(&self.dataset.0);
        digest.numbers(&[self.runs.samples(), self.runs.run_samples(), mode, self.lanes]);
        if let Some(members) = &self.members {
            digest.bytes(members.fingerprint().to_string().as_bytes());
        }
        digest.finish()
    }

    fn difference(&self, other: Fingerprint) -> Option<Hint> {
        let lanes = (1..=Self::LANES_TRIED).find(|&lanes| self.clone().lanes(lanes).fingerprint() == other)?;
        let hint = Hint::new("the state was saved with ").and([Setting::number("lanes", lanes)]);
        Some(hint.then(format!(", so pass that instead of {}", self.lanes)))
    }

    fn epoch(&self, epoch: u32) -> Box<dyn Positions> {
        Box::new(Self::epoch(self, epoch))
    }

    fn sources(&self) -> Vec<u64> {
        let all = self.runs.samples();
        vec![self.members.as_ref().map_or(all, |members| members.samples().last().map_or(0, |last| last + 1))]
    }

    fn aligned(&self) -> u64 {
        // Only lanes let ranks share runs.
        match Self::epoch(self, 0).way {
            Way::Windowed(_) => self.lanes,
            Way::Stored | Way::Small(_) | Way::Full(_) => 1,
        }
    }
}

/// One epoch of an [`Order`]: finds the sample at any position.
///
/// ```
/// use shardpack_loader::order::{Mode, Order, Positions, Runs};
/// let epoch = Order::new(Runs::new(1000, 38), 42).mode(Mode::Full).epoch(0);
/// let mut samples: Vec<u64> = (0..1000).filter_map(|p| epoch.sample(p)).map(|s| s.sample).collect();
/// samples.sort_unstable();
/// assert_eq!(samples, (0..1000).collect::<Vec<_>>());
/// ```
#[derive(Debug, Clone)]
pub struct Epoch {
    runs: Runs,
    way: Way,
    lanes: u64,
    members: Option<Members>,
}

#[derive(Debug, Clone)]
enum Way {
    Stored,
    Windowed(Lanes),
    /// Same as `Full`, but for a dataset that fits into the window.
    Small(Permutation),
    Full(Permutation),
}

/// Maximum number of samples per run at which reading samples one by one is faster than reading unwanted
/// neighbours with them. A run of 4 MiB holds 64 samples of 64 KiB, and reads of 64 KiB keep a disk busy.
const READ_ALONE_UP_TO: u64 = 64;

/// Maximum plausible number of samples per run. A run of 4 MiB always holds fewer.
const COUNTED_UP_TO: u64 = 1 << 20;

/// Returns true if a permuted dataset is read in whole runs. With samples of 110 KB, whole runs were no
/// faster from a disk with several reads in flight, and they kept the whole dataset in memory. From the page
/// cache they took twice the time, because a run does not stay in the processor's cache.
fn by_runs(runs: &Runs, world_size: u64) -> bool {
    // A single rank needs all samples of every run. If there were several ranks, each of them would have to read the
    // whole dataset.
    world_size == 1 && (READ_ALONE_UP_TO + 1..=COUNTED_UP_TO).contains(&runs.run_samples())
}

impl Epoch {
    fn member(&self, index: u64) -> SampleRef {
        SampleRef::new(self.members.as_ref().map_or(index, |members| members.sample(index)))
    }

    /// Reads member `index` together with the members `span`. The rank still needs `rest` of them.
    fn read(&self, index: u64, span: std::ops::Range<u64>, rest: u64, scattered: bool) -> Pick {
        let at = self.member(index);
        if scattered && self.runs.run_samples() <= READ_ALONE_UP_TO {
            return Pick::alone(at);
        }
        let span = match &self.members {
            None => Some(span),
            Some(members) => members.span(&span),
        };
        span.map_or_else(|| Pick::alone(at), |span| Pick { span, rest, ..Pick::alone(at) })
    }
}

impl Positions for Epoch {
    fn len(&self) -> u64 {
        self.runs.samples()
    }

    fn sample(&self, position: u64) -> Option<SampleRef> {
        let index = match &self.way {
            _ if position >= self.len() => return None,
            Way::Stored => position,
            Way::Windowed(lanes) => lanes.sample(position),
            Way::Small(permutation) | Way::Full(permutation) => permutation.apply(position),
        };
        Some(self.member(index))
    }

    fn pick(&self, position: u64, own: &Own) -> Option<Pick> {
        if position >= self.len() {
            return None;
        }
        Some(match (&self.way, own) {
            (Way::Small(permutation), Own::Every { world_size }) if by_runs(&self.runs, *world_size) => {
                let index = permutation.apply(position);
                self.read(index, self.runs.samples_of(self.runs.run_of(index)), 0, false)
            }
            (Way::Small(permutation) | Way::Full(permutation), _) => {
                Pick::alone(self.member(permutation.apply(position)))
            }
            (Way::Stored, own) => {
                let own = match own {
                    Own::Range(own) => own.clone(),
                    Own::Every { world_size: 1 } => 0..self.len(),
                    Own::Every { .. } => position..position + 1,
                };
                let run = self.runs.samples_of(self.runs.run_of(position));
                let span = run.start.max(own.start)..run.end.min(own.end);
                let rest = span.end.saturating_sub(position);
                self.read(position, span, rest, false)
            }
            (Way::Windowed(lanes), Own::Range(_)) => Pick::alone(self.member(lanes.sample(position))),
            (Way::Windowed(lanes), Own::Every { world_size }) => {
                let portion = lanes.portion(position, *world_size);
                let scattered = self.scattered(*world_size);
                self.read(portion.sample, portion.span, portion.rest, scattered)
            }
        })
    }

    fn rest(&self, position: u64, own: &Own) -> u64 {
        let Some(pick) = self.pick(position, own) else { return 0 };
        match &self.way {
            Way::Small(permutation) if pick.rest == 0 => {
                let run = self.runs.samples_of(self.runs.run_of(permutation.apply(position)));
                run.filter(|&index| permutation.invert(index) >= position).count() as u64
            }
            _ => pick.rest,
        }
    }

    fn dealing(&self) -> Dealing {
        match self.way {
            Way::Stored => Dealing::Sliced,
            Way::Windowed(_) | Way::Small(_) | Way::Full(_) => Dealing::Interleaved,
        }
    }

    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads> {
        let run = self.runs.run_samples();
        // A read for a subset may contain as many non-members as members.
        let run = if self.members.is_some() { run.saturating_mul(2) } else { run };
        vec![match self.way {
            Way::Small(_) if by_runs(&self.runs, world_size) => {
                OpenReads { source: 0, reads: self.runs.count().max(1), samples: run }
            }
            Way::Small(_) | Way::Full(_) => OpenReads::ALONE,
            Way::Stored => OpenReads { samples: run, ..OpenReads::ALONE },
            Way::Windowed(_) => {
                let sharing = sharing(self.lanes, world_size);
                let samples = match self.scattered(world_size) {
                    // If each rank needs only one sample of a run, the read ends with that sample, so no lane keeps a
                    // read open.
                    false if self.runs.run_samples() <= sharing => return vec![OpenReads::ALONE],
                    true if self.runs.run_samples() <= READ_ALONE_UP_TO => return vec![OpenReads::ALONE],
                    true => run,
                    false => run.div_ceil(sharing),
                };
                // A rank takes part in `lanes × sharing / world_size` lanes, and has one read open in each.
                let reads = self.lanes.saturating_mul(sharing) / world_size.max(1);
                OpenReads { source: 0, reads: reads.max(1), samples }
            }
        }]
    }
}

impl Epoch {
    fn scattered(&self, world_size: u64) -> bool {
        let sharing = sharing(self.lanes, world_size);
        !(sharing.is_power_of_two() && sharing <= super::deal::SPANS)
    }
}

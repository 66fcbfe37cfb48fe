//! Several datasets mixed by weight. Each dataset has its own order.
//!
//! Positions cycle through the slots of a fixed, even round, and each slot belongs to a source. When a source
//! ends, it starts its next epoch while the other sources continue.
//!
//! Positions within a source are counted in one of two ways. A small source is *counted through*: its first
//! slot takes its first position, its next slot the second, and so on. So one pass ends before the next
//! begins. A large source that has lanes is counted *by columns*: positions form rows with one column per
//! lane, and a position in the source keeps its column. So positions that are congruent in the mixture are
//! also congruent in the source. A rank that takes every 8th position of the mixture then takes every 8th
//! position of each source, and reads each run only once. Some columns meet a source a few turns more often
//! than others, so consecutive passes overlap by that number of rows. This is a small part of a large source,
//! but would be several passes of a source with only a few rows.

use super::keyed::Keyed;
use super::pattern::{Pattern, SLOTS};
use super::positions::{Dealing, OpenReads, Own, Pick, Positions, SampleRef};
use super::state::{Digest, Fingerprint, Sampling};
use super::streams;
use shardpack_reader::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Datasets mixed by weight. Each follows the rules of its own [`Order`](super::Order). All sources should
/// have the same number of lanes. If the number of ranks divides it, ranks read whole parts of runs.
/// Otherwise they read sample by sample, as they do for sources of fewer than 64 samples per lane. In these
/// sources, and in all sources without lanes, every pass ends before the next begins. The passes of larger
/// sources overlap, but no sample is two passes ahead of another.
///
/// ```
/// use shardpack_loader::order::{Mixture, Order, Runs, Sampling};
/// use std::sync::{Arc, OnceLock};
/// let photos = Arc::new(Order::new(Runs::new(100_000, 38), 42));
/// let sketches = Arc::new(Order::new(Runs::new(20_000, 200), 42));
/// let mixture = Mixture::new(vec![(photos, 0.9), (sketches, 0.1)], 42)?.draws(50_000);
/// let epoch = mixture.epoch(0);
/// let sketches = (0..1000).filter(|&p| epoch.sample(p).is_some_and(|s| s.source == 1)).count();
/// assert!((98..=102).contains(&sketches));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mixture {
    seed: u64,
    draws: u64,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    sources: Vec<MixedSource>,
    pattern: Pattern,
    columns: u64,
}

#[derive(Debug)]
struct MixedSource {
    sampling: Arc<dyn Sampling>,
    len: u64,
    /// True if the source is counted by columns, and false if it is counted through.
    by_column: bool,
    /// Largest number of positions by which the source may be ahead of its share.
    early: u64,
}

impl MixedSource {
    fn new(sampling: Arc<dyn Sampling>, columns: u64, apart: u64) -> Self {
        /// Smallest number of turns per column of a source that is counted by columns. If a smaller source
        /// has lanes, its runs have fewer than 64 samples of at least 64 KiB each, which may as well be read
        /// one by one.
        const TURNS: u64 = 64;
        let epoch = sampling.epoch(0);
        let aligned = sampling.aligned() == columns && epoch.dealing() == Dealing::Interleaved;
        let len = epoch.len();
        // Passes overlap by less than the whole source, so no sample is more than one pass ahead of another.
        let by_column = aligned && len >= columns.saturating_mul(TURNS.max(apart + 2));
        Self { sampling, len, by_column, early: if by_column { columns.saturating_mul(apart + 1) } else { 3 } }
    }

    /// Returns true if the positions of a rank, which are evenly spaced in the mixture, are also evenly spaced in this
    /// source.
    const fn keeps(&self, world_size: u64, columns: u64) -> bool {
        world_size == 1 || self.by_column && columns.is_multiple_of(world_size)
    }
}

impl Mixture {
    /// Mixes `sources` by their weights. `seed` determines the slot at which the first epoch starts. The sources have
    /// their own seeds. Weights are rounded to about a thousandth of their sum, but not to zero. By default, an epoch
    /// draws as many samples as all sources have together.
    ///
    /// # Errors
    /// `Usage` if a weight is negative or not finite, if no weight or more than 1,009 weights are above zero,
    /// or if a source is empty or itself a mixture.
    pub fn new(sources: Vec<(Arc<dyn Sampling>, f64)>, seed: u64) -> Result<Self> {
        let weights: Vec<f64> = sources.iter().map(|(_, weight)| *weight).collect();
        if let Some(number) = sources.iter().position(|(source, _)| source.sources().len() != 1) {
            return Err(Error::usage(format!(
                "source {number} is itself a mixture, but each source must be a single dataset"
            ))
            .with_hint(
                "list the sources of that mixture directly, and multiply their weights by the weight of the mixture",
            ));
        }
        let columns = sources.iter().map(|(source, _)| source.aligned()).max().unwrap_or(1).max(1);
        let pattern = Pattern::new(&weights, columns)?;
        let source = |(number, (sampling, _))| MixedSource::new(sampling, columns, pattern.apart(number));
        let sources: Vec<_> = (0..).zip(sources).map(source).collect();
        if let Some(number) = sources.iter().position(|source| source.len == 0) {
            return Err(Error::usage(format!("source {number} has no samples")));
        }
        let draws = sources.iter().fold(0_u64, |sum, source| sum.saturating_add(source.len));
        Ok(Self { seed, draws, inner: Arc::new(Inner { sources, pattern, columns }) })
    }

    /// Sets the number of samples to draw in an epoch.
    #[must_use]
    pub const fn draws(mut self, draws: u64) -> Self {
        self.draws = draws;
        self
    }
}

impl Sampling for Mixture {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut digest = Digest::new("mixture");
        digest.numbers(&[self.draws]);
        for (number, source) in (0..).zip(&self.inner.sources) {
            digest.bytes(source.sampling.fingerprint().to_string().as_bytes());
            let count = self.inner.pattern.count(number);
            digest.numbers(&[source.sampling.seed(), count, source.by_column.into()]);
        }
        digest.finish()
    }

    fn epoch(&self, epoch: u32) -> Box<dyn Positions> {
        // Each source continues where it stopped in the last epoch. So even if epochs are short, every sample gets its
        // turn.
        let start = self.draws.saturating_mul(epoch.into());
        let first_slot = Keyed::new(self.seed, 0, streams::ROUND).below(SLOTS, 0);
        let passes = (0..).zip(&self.inner.sources).map(|(number, source)| {
            let before = |draws: u64| draws.saturating_mul(self.inner.pattern.count(number)) / SLOTS;
            Passes::new(before(start).saturating_sub(source.early) / source.len, before(self.draws) / source.len)
        });
        let passes = passes.collect();
        Box::new(Mixed { start, first_slot, draws: self.draws, inner: Arc::clone(&self.inner), passes })
    }

    fn sources(&self) -> Vec<u64> {
        let own = |source: &MixedSource| source.sampling.sources().into_iter().next().unwrap_or(0);
        self.inner.sources.iter().map(own).collect()
    }

    fn aligned(&self) -> u64 {
        self.inner.columns
    }
}

#[derive(Debug)]
struct Mixed {
    start: u64,
    first_slot: u64,
    draws: u64,
    inner: Arc<Inner>,
    passes: Vec<Passes>,
}

/// Consecutive epochs of a source, as far as one epoch of the mixture reaches. Each is created on first use and kept,
/// because creating it again for every sample would be slow.
#[derive(Debug)]
struct Passes {
    first: u64,
    epochs: Vec<OnceLock<Box<dyn Positions>>>,
}

impl Passes {
    /// Makes room for about `count` epochs of the source, starting at number `first`. Later epochs are created
    /// whenever they are needed.
    fn new(first: u64, count: u64) -> Self {
        /// Maximum number of passes to keep. They take a few kilobytes per source.
        const MOST: u64 = 64;
        Self { first, epochs: (0..count.saturating_add(3).min(MOST)).map(|_| OnceLock::new()).collect() }
    }
}

struct SourceTurn<'a> {
    number: u32,
    source: &'a MixedSource,
    pass: u64,
    position: u64,
}

impl Mixed {
    fn turn(&self, position: u64) -> Option<SourceTurn<'_>> {
        if position >= self.draws {
            return None;
        }
        let Inner { sources, pattern, columns } = &*self.inner;
        let at = self.start.checked_add(position)?;
        let (row, column) = (at / columns, at % columns);
        let (number, turn) = pattern.at(self.first_slot + column % SLOTS, row % SLOTS)?;
        let source = sources.get(usize::try_from(number).ok()?)?;
        let own = if source.by_column {
            let turns = (row / SLOTS).checked_mul(pattern.count(number))?.checked_add(turn)?;
            turns.checked_mul(*columns)?.checked_add(column)?
        } else {
            // If a row is a whole number of rounds, each row starts one slot after the previous one.
            let first = if columns.is_multiple_of(SLOTS) { self.first_slot + row % SLOTS } else { self.first_slot };
            pattern.before(number, first, at)
        };
        Some(SourceTurn { number, source, pass: own / source.len, position: own % source.len })
    }

    /// Converts the rank's positions `own` of the mixture to positions of the source.
    fn own(&self, turn: &SourceTurn<'_>, own: &Own) -> Own {
        match own {
            Own::Every { world_size } if turn.source.keeps(*world_size, self.inner.columns) => own.clone(),
            _ => Own::Range(turn.position..turn.position + 1),
        }
    }

    /// Calls `f` with the epoch of a turn. Epoch numbers have 32 bits and start over after 2³² epochs.
    fn with_epoch<T>(&self, turn: &SourceTurn<'_>, f: impl FnOnce(&dyn Positions) -> T) -> T {
        let make = || turn.source.sampling.epoch(u32::try_from(turn.pass & u64::from(u32::MAX)).unwrap_or_default());
        let passes = usize::try_from(turn.number).ok().and_then(|source| self.passes.get(source));
        let place =
            passes.and_then(|passes| passes.epochs.get(usize::try_from(turn.pass.checked_sub(passes.first)?).ok()?));
        match place {
            Some(place) => f(&**place.get_or_init(make)),
            None => f(&*make()),
        }
    }
}

impl Positions for Mixed {
    fn len(&self) -> u64 {
        self.draws
    }

    fn sample(&self, position: u64) -> Option<SampleRef> {
        let turn = self.turn(position)?;
        let sample = self.with_epoch(&turn, |epoch| epoch.sample(turn.position))?.sample;
        Some(SampleRef { source: turn.number, sample })
    }

    fn pick(&self, position: u64, own: &Own) -> Option<Pick> {
        let turn = self.turn(position)?;
        self.with_epoch(&turn, |epoch| {
            let pick = epoch.pick(turn.position, &self.own(&turn, own))?;
            let at = SampleRef { source: turn.number, sample: pick.at.sample };
            // Each pass numbers its draws after all draws of earlier passes.
            let repetition = turn.pass.wrapping_mul(epoch.len()).wrapping_add(pick.repetition);
            Some(Pick { at, pass: turn.pass, repetition, ..pick })
        })
    }

    fn rest(&self, position: u64, own: &Own) -> u64 {
        let Some(turn) = self.turn(position) else { return 0 };
        self.with_epoch(&turn, |epoch| epoch.rest(turn.position, &self.own(&turn, own)))
    }

    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads> {
        let own = |number: u32, source: &MixedSource| {
            let mut open = match source.keeps(world_size, self.inner.columns) {
                true => source.sampling.epoch(0).open_reads_max(world_size),
                false => vec![OpenReads::ALONE],
            };
            for open in &mut open {
                open.source = number;
                // Near the end of a pass, the next one may already have begun, which doubles the number of open reads.
                open.reads = open.reads.saturating_mul(1 + u64::from(source.by_column));
            }
            open
        };
        (0..).zip(&self.inner.sources).flat_map(|(number, source)| own(number, source)).collect()
    }
}

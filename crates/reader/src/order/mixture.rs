//! Several datasets mixed by weight, each in an order of its own.
//!
//! Positions take the slots of a fixed, even round, one after the other, and each slot is a source's. They are laid out
//! in rows of as many columns as there are lanes, and a source's own positions keep the column: what is congruent in the
//! mixture is congruent in the source. So a rank that takes every 8th position of the mixture takes every 8th of each
//! source, and reads each run once; and each column goes through its source from first to last. A source that ends starts
//! again, with its next epoch, while the others go on.

use super::keyed::Keyed;
use super::pattern::{Pattern, SLOTS};
use super::positions::{Dealing, OpenReads, Own, Pick, Positions, SampleRef};
use super::state::{Digest, Fingerprint, Sampling};
use super::streams;
use crate::error::{Error, Result};
use std::sync::{Arc, OnceLock};

/// Datasets mixed by weight: under the rules of an [`Order`](super::Order). Ranks read whole parts of runs if their
/// number divides the lanes, which all sources should share; else sample by sample.
///
/// ```
/// use shardpack_reader::order::{Mixture, Order, Runs, Sampling};
/// use std::sync::{Arc, OnceLock};
/// let photos = Arc::new(Order::new(Runs::new(100_000, 38), 42));
/// let sketches = Arc::new(Order::new(Runs::new(20_000, 200), 42));
/// let mixture = Mixture::new(vec![(photos, 0.9), (sketches, 0.1)], 42)?.draws(50_000);
/// let epoch = mixture.epoch(0);
/// let sketches = (0..1000).filter(|&p| epoch.sample(p).is_some_and(|s| s.source == 1)).count();
/// assert!((98..=102).contains(&sketches));
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mixture {
    seed: u64,
    draws: u64,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The sources, and how many samples an epoch of each has.
    sources: Vec<(Arc<dyn Sampling>, u64)>,
    pattern: Pattern,
    columns: u64,
}

impl Mixture {
    /// Mixes `sources` by their weights; `seed` chooses where in the round the first epoch starts, the sources have
    /// seeds of their own. The weights are kept to about a thousandth of their sum; a weight above zero is at least that. An
    /// epoch has as many draws as the sources have samples.
    ///
    /// # Errors
    /// `Usage` if a weight is negative or not finite, if none or more than 1,009 are above zero, or if a source is empty or itself a mixture.
    pub fn new(sources: Vec<(Arc<dyn Sampling>, f64)>, seed: u64) -> Result<Self> {
        let weights: Vec<f64> = sources.iter().map(|(_, weight)| *weight).collect();
        if let Some(number) = sources.iter().position(|(source, _)| source.sources().len() != 1) {
            let found = "a mixture\nhint: give its sources here, their weights multiplied by its own";
            return Err(Error::usage(format!("source {number}"), "samples of one dataset", found));
        }
        let sources: Vec<_> =
            sources.into_iter().map(|(source, _)| (Arc::clone(&source), source.epoch(0).len())).collect();
        if let Some(number) = sources.iter().position(|(_, len)| *len == 0) {
            return Err(Error::usage(format!("source {number}"), "at least one sample", "none"));
        }
        let draws = sources.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(*len));
        let columns = sources.iter().map(|(source, _)| source.aligned()).max().unwrap_or(1).max(1);
        let pattern = Pattern::new(&weights, columns)?;
        Ok(Self { seed, draws, inner: Arc::new(Inner { sources, pattern, columns }) })
    }

    /// Samples drawn in an epoch.
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
        for (number, (source, _)) in (0..).zip(&self.inner.sources) {
            digest.bytes(source.fingerprint().to_string().as_bytes());
            digest.numbers(&[source.seed(), self.inner.pattern.count(number)]);
        }
        digest.finish()
    }

    fn epoch(&self, epoch: u32) -> Box<dyn Positions> {
        // The sources go on where the last epoch left them: no sample waits longer for its turn because epochs are
        // short.
        let start = self.draws.saturating_mul(epoch.into());
        let first_slot = Keyed::new(self.seed, 0, streams::ROUND).below(SLOTS, 0);
        let passes = (0..).zip(&self.inner.sources).map(|(number, (_, len))| {
            let before = |draws: u64| draws.saturating_mul(self.inner.pattern.count(number)) / SLOTS;
            Passes::new(before(start).saturating_sub(3 * self.inner.columns) / len, before(self.draws) / len)
        });
        let passes = passes.collect();
        Box::new(Mixed { start, first_slot, draws: self.draws, inner: Arc::clone(&self.inner), passes })
    }

    fn sources(&self) -> Vec<u64> {
        let own = |(source, _): &(Arc<dyn Sampling>, u64)| source.sources().into_iter().next().unwrap_or(0);
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

/// The epochs of a source that an epoch of the mixture goes through, made when they are first met: making one for each sample would be an
/// allocation each.
#[derive(Debug)]
struct Passes {
    first: u64,
    epochs: Vec<OnceLock<Box<dyn Positions>>>,
}

impl Passes {
    /// About `count` passes, from `first` on: those beyond are made anew each time.
    fn new(first: u64, count: u64) -> Self {
        /// A few kilobytes for each source.
        const MOST: u64 = 64;
        Self { first, epochs: (0..count.saturating_add(3).min(MOST)).map(|_| OnceLock::new()).collect() }
    }
}

/// Where a position of the mixture lies in its source.
struct Turn<'a> {
    source: u32,
    sampling: &'a dyn Sampling,
    pass: u64,
    position: u64,
}

impl Mixed {
    fn turn(&self, position: u64) -> Option<Turn<'_>> {
        if position >= self.draws {
            return None;
        }
        let Inner { sources, pattern, columns } = &*self.inner;
        let at = self.start.checked_add(position)?;
        let (row, column) = (at / columns, at % columns);
        let (source, turn) = pattern.at(self.first_slot + column % SLOTS, row % SLOTS)?;
        let turns = (row / SLOTS).checked_mul(pattern.count(source))?.checked_add(turn)?;
        let own = turns.checked_mul(*columns)?.checked_add(column)?;
        let (sampling, len) = sources.get(usize::try_from(source).ok()?)?;
        Some(Turn { source, sampling: &**sampling, pass: own / len, position: own % len })
    }

    /// Which positions of the source around its own a rank with `own` positions of the mixture takes.
    fn own(&self, turn: &Turn<'_>, epoch: &dyn Positions, own: &Own) -> Own {
        let columns = self.inner.columns;
        let aligned = turn.sampling.aligned() == columns && epoch.dealing() == Dealing::Interleaved;
        match own {
            Own::Every { world_size } if aligned && columns.is_multiple_of(*world_size) => own.clone(),
            _ => Own::Range(turn.position..turn.position + 1),
        }
    }

    /// Calls `f` with the source's epoch of this turn. Epochs are numbered by 32 bits: what would take 2³² of them starts over.
    fn with_epoch<T>(&self, turn: &Turn<'_>, f: impl FnOnce(&dyn Positions) -> T) -> T {
        let make = || turn.sampling.epoch(u32::try_from(turn.pass & u64::from(u32::MAX)).unwrap_or_default());
        let passes = usize::try_from(turn.source).ok().and_then(|source| self.passes.get(source));
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
        Some(SampleRef { source: turn.source, sample })
    }

    fn pick(&self, position: u64, own: &Own) -> Option<Pick> {
        let turn = self.turn(position)?;
        self.with_epoch(&turn, |epoch| {
            let pick = epoch.pick(turn.position, &self.own(&turn, epoch, own))?;
            let at = SampleRef { source: turn.source, sample: pick.at.sample };
            // The source's draws of this pass come after those of the passes before.
            let repetition = turn.pass.wrapping_mul(epoch.len()).wrapping_add(pick.repetition);
            Some(Pick { at, pass: turn.pass, repetition, ..pick })
        })
    }

    fn rest(&self, position: u64, own: &Own) -> u64 {
        let Some(turn) = self.turn(position) else { return 0 };
        self.with_epoch(&turn, |epoch| epoch.rest(turn.position, &self.own(&turn, epoch, own)))
    }

    fn open_reads_max(&self, world_size: u64) -> Vec<OpenReads> {
        // Where a source begins again, the ends of one pass and the beginnings of the next are open together.
        let twice = |source, open: OpenReads| OpenReads { source, reads: open.reads.saturating_mul(2), ..open };
        let own = |(source, (sampling, _)): (u32, &(Arc<dyn Sampling>, u64))| {
            let open = sampling.epoch(0).open_reads_max(world_size);
            open.into_iter().map(move |open| twice(source, open))
        };
        (0..).zip(&self.inner.sources).flat_map(own).collect()
    }
}

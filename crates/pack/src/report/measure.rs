//! Measures samples with all candidates, on all threads.

use super::budget::Budget;
use super::cpu_time::CpuTime;
use super::cubes::CubeScorer;
use super::maker::Maker;
use super::options::{CandidateRecipe, Hooks, ReportOptions};
use super::pictures::PictureScorer;
use super::sampled::{CandidateResult, MeasuredRecord, RecordScores, Sampled, first_line};
use crate::lock::lock;
use crate::pack::{FidelityTotals, default_memory};
use shardpack_sources::{Listing, SourceKind};
use shardpack_writer::EncodedSample;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub(super) struct Measurement<'a> {
    pub(super) listing: &'a Listing,
    pub(super) recipes: &'a [CandidateRecipe],
    pub(super) prepared: &'a [Result<Maker<'a>, String>],
    pub(super) options: &'a ReportOptions,
    pub(super) hooks: &'a Hooks<'a>,
    budget: Budget,
}

/// Decodes records and compares them with their sources.
pub(super) enum Scorer<'a> {
    Pictures(Box<PictureScorer<'a>>),
    Cubes(Box<CubeScorer<'a>>),
}

impl<'a> Measurement<'a> {
    pub(super) fn new(
        listing: &'a Listing,
        recipes: &'a [CandidateRecipe],
        prepared: &'a [Result<Maker<'a>, String>],
        options: &'a ReportOptions,
        hooks: &'a Hooks<'a>,
    ) -> Self {
        let measurement = Self { listing, recipes, prepared, options, hooks, budget: Budget::new(0) };
        let largest = (0..listing.samples.len()).map(|position| measurement.memory_bytes(position)).max().unwrap_or(0);
        let most = options.memory_bytes.unwrap_or_else(|| default_memory(options.threads, largest));
        Self { budget: Budget::new(most), ..measurement }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.hooks.cancel.load(Ordering::Relaxed)
    }

    /// Returns all makers that could be prepared, each with its recipe and the position of that recipe.
    pub(super) fn makers(&self) -> impl Iterator<Item = (usize, &'a CandidateRecipe, &'a Maker<'a>)> {
        let pairs = self.recipes.iter().zip(self.prepared).enumerate();
        pairs.filter_map(|(number, (recipe, prepared))| Some((number, recipe, prepared.as_ref().ok()?)))
    }

    fn memory_bytes(&self, position: usize) -> u64 {
        let encoding = self.makers().map(|(_, _, maker)| maker.memory_bytes(position as u64)).max().unwrap_or(0);
        let scoring = self.listing.samples.get(position).map_or(0, |entry| match self.listing.kind {
            SourceKind::Images => super::pictures::memory_bytes(entry),
            SourceKind::Cubes => super::cubes::memory_bytes(entry),
        });
        encoding.saturating_add(scoring)
    }

    pub(super) fn scorer(&self) -> Scorer<'a> {
        match self.listing.kind {
            SourceKind::Images => Scorer::Pictures(Box::new(PictureScorer::new(self.listing))),
            SourceKind::Cubes => {
                let cubes = self.recipes.first().map(|recipe| recipe.options.source.cubes.clone()).unwrap_or_default();
                Scorer::Cubes(Box::new(CubeScorer::new(self.listing, cubes)))
            }
        }
    }

    /// Measures samples of the listing. `before` is the number of samples already done. After a cancellation,
    /// samples in progress are finished and the others are omitted.
    pub(super) fn run(&self, positions: &[usize], before: usize) -> Vec<Sampled> {
        let next = AtomicUsize::new(0);
        let (done, of) = (AtomicU64::new(0), ((before + positions.len()) * self.recipes.len()) as u64);
        let before = (before * self.recipes.len()) as u64;
        let results: Mutex<Vec<(usize, Sampled)>> = Mutex::default();
        let threads = self.options.threads.clamp(1, positions.len().max(1));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut scorer = self.scorer();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&position) = positions.get(at).filter(|_| !self.is_cancelled()) else { return };
                        let _memory = self.budget.take(self.memory_bytes(position));
                        let sampled = self.one(&mut scorer, position, &|| {
                            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                            (self.hooks.on_progress)(before + done, of, "measuring");
                        });
                        if let Some(sampled) = sampled {
                            lock(&results).push((at, sampled));
                        }
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, sampled)| sampled).collect()
    }

    /// Measures one sample with all candidates. Returns `None` if the run is cancelled before it is finished.
    fn one(&self, scorer: &mut Scorer<'a>, position: usize, step: &dyn Fn()) -> Option<Sampled> {
        let mut scoring_s = 0.0;
        let mut results: Vec<CandidateResult> = self
            .prepared
            .iter()
            .map(|prepared| CandidateResult::Failed(prepared.as_ref().err().cloned().unwrap_or_default()))
            .collect();
        let mut buffer = Vec::new();
        scorer.begin(position);
        for (number, recipe, maker) in in_order(self.makers().collect()) {
            if self.is_cancelled() {
                return None;
            }
            let time = CpuTime::start();
            let made = maker.make(position as u64, std::mem::take(&mut buffer));
            let encode_s = time.seconds();
            let result = match made {
                Ok(sample) => {
                    let time = CpuTime::start();
                    let scores = scorer.score(position, recipe, maker, &sample, self.kept_values());
                    scoring_s += time.seconds();
                    let bytes = sample.record.len() as u64;
                    buffer = sample.record;
                    match scores {
                        Ok(scores) => CandidateResult::Stored(Box::new(MeasuredRecord { bytes, encode_s, scores })),
                        Err(reason) => return Some(Sampled::unreadable(position, &reason)),
                    }
                }
                Err(none) if none.of_source => return Some(Sampled::unreadable(position, &none.reason)),
                Err(none) => CandidateResult::Failed(first_line(&none.reason)),
            };
            if let Some(slot) = results.get_mut(number) {
                *slot = result;
            }
            step();
        }
        Some(Sampled { position, results, unreadable: None, scoring_s })
    }

    /// Returns the number of errors, and of angles, to keep per cube. This bounds the total per candidate.
    fn kept_values(&self) -> usize {
        let samples =
            self.options.samples.unwrap_or(super::draw::MOST).clamp(1, self.listing.samples.len().max(1) as u64);
        usize::try_from(KEPT_VALUES / samples).unwrap_or(0).max(16)
    }

    pub(super) fn again(&self, recipe: usize, position: usize) -> Option<EncodedSample<FidelityTotals>> {
        self.prepared.get(recipe)?.as_ref().ok()?.make(position as u64, Vec::new()).ok()
    }
}

/// Maximum number of errors, and of angles, to keep per candidate.
const KEPT_VALUES: u64 = 1 << 16;

/// Sorts makers by picture size, so that a source is prepared only once per size.
fn in_order<'a>(
    mut makers: Vec<(usize, &'a CandidateRecipe, &'a Maker<'a>)>,
) -> Vec<(usize, &'a CandidateRecipe, &'a Maker<'a>)> {
    makers.sort_by_key(|(number, recipe, _)| (super::pictures::size_key(&recipe.options), *number));
    makers
}

impl Scorer<'_> {
    fn begin(&mut self, position: usize) {
        match self {
            Self::Pictures(scorer) => scorer.begin(position),
            Self::Cubes(scorer) => scorer.begin(position),
        }
    }

    /// Compares a record with its source. Returns an error only if the source is unusable. Problems of the record are
    /// part of the result.
    fn score(
        &mut self,
        position: usize,
        recipe: &CandidateRecipe,
        maker: &Maker<'_>,
        sample: &EncodedSample<FidelityTotals>,
        keep: usize,
    ) -> Result<RecordScores, String> {
        match self {
            Self::Pictures(scorer) => Ok(scorer.score(position, recipe, maker, sample)),
            Self::Cubes(scorer) => scorer.score(position, sample, keep),
        }
    }
}

//! Runs ahead of the planner, for storages behind a network: a plan of a few batches names too few
//! reads to keep many requests on their way.

use super::pieces;
use super::sources::Sources;
use crate::order::Steps;
use shardpack_reader::Dataset;
use std::collections::VecDeque;
use std::ops::Range;

/// Reads whose shards are announced before the reads themselves: opening a shard takes a wait of
/// its own.
const SHARDS_AHEAD: usize = 64;

/// Goes through the same steps as the planner, and announces what they will read.
#[derive(Debug)]
pub(super) struct Scout {
    dataset: Dataset,
    sources: Sources,
    /// From how many bytes on a record is read alone, in parts.
    large: Option<u64>,
    window: u64,
    pub(super) generation: u64,
    /// `None` where nobody needs to be told.
    steps: Option<Steps>,
    /// Samples of reads whose shards were announced.
    coming: VecDeque<Range<u64>>,
    /// Bytes of each announced read that the planner has not come to.
    ahead: VecDeque<u64>,
    ahead_bytes: u64,
    /// Reads that the planner has come to, and was told of.
    planned: u64,
}

impl Scout {
    pub(super) fn new(dataset: &Dataset, sources: Sources, large: Option<u64>) -> Self {
        Self {
            dataset: dataset.clone(),
            sources,
            large,
            window: dataset.read_ahead_bytes(),
            generation: 0,
            steps: None,
            coming: VecDeque::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            planned: 0,
        }
    }

    /// Whether the storage wants to hear of reads at all.
    pub(super) const fn is_wanted(&self) -> bool {
        self.window > 0
    }

    /// Begins an epoch.
    pub(super) fn restart(&mut self, generation: u64, steps: Steps) {
        self.generation = generation;
        self.steps = Some(steps);
        self.coming.clear();
        self.ahead.clear();
        (self.ahead_bytes, self.planned) = (0, 0);
    }

    /// The planner has come to `planned` reads: announces what follows. May wait for shards to
    /// open.
    pub(super) fn advance(&mut self, planned: u64) {
        while self.planned < planned {
            self.planned += 1;
            if self.ahead.is_empty() {
                // It went past the scout: what it has taken is announced by the plan itself.
                self.come();
                self.coming.pop_front();
            }
            self.ahead_bytes -= self.ahead.pop_front().unwrap_or_default();
        }
        while self.ahead_bytes < self.window {
            self.come();
            let Some(samples) = self.coming.pop_front() else { return };
            let bytes = self.announce(samples);
            self.ahead.push_back(bytes);
            self.ahead_bytes += bytes;
        }
    }

    /// Takes up the next reads, and announces their shards.
    fn come(&mut self) {
        while self.coming.len() < SHARDS_AHEAD {
            let Some(step) = self.steps.as_mut().and_then(Iterator::next) else { return };
            let (Some(read), Some(source)) = (step.read, self.sources.samples(step.at.source)) else { continue };
            let all = |sample: u64| source.start.saturating_add(sample);
            let samples = all(read.samples.start)..all(read.samples.end);
            for (number, _) in self.dataset.records_of(samples.clone()) {
                self.dataset.advise_shards(number..number.saturating_add(1));
            }
            self.coming.push_back(samples);
        }
    }

    /// Announces the reads that bring `samples`, as the planner cuts them: their bytes.
    fn announce(&self, samples: Range<u64>) -> u64 {
        let mut sum = 0_u64;
        for (number, records) in self.dataset.records_of(samples) {
            // What cannot be opened is said when its batch comes.
            let Ok(shard) = self.dataset.shard(number) else { continue };
            let Ok(handle) = shard.file().handle() else { continue };
            let mut record = records.start;
            while record < records.end {
                let Ok(piece) = pieces::piece(&shard, &records, record, self.large) else { break };
                record = piece.end.max(record + 1);
                let Ok(span) = shard.span(&piece) else { continue };
                handle.advise_soon(span.start, span.end - span.start);
                sum = sum.saturating_add(span.end - span.start);
            }
        }
        sum
    }
}

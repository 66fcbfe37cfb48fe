//! Runs ahead of the planner, for storages behind a network: a plan of a few batches names too few
//! reads to keep many requests on their way. It goes on into the next epoch, so that its first
//! batches wait for nothing.

use super::pieces;
use super::sources::Sources;
use crate::order::{End, Sampling, Share, State as Progress, Steps, World};
use shardpack_reader::Dataset;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Reads that are announced and not planned, at most: small ones would fill the storage's queue,
/// which forgets what is too much.
const MOST_READS: usize = 1 << 13;
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
    order: (Arc<dyn Sampling>, World, End),
    pub(super) generation: u64,
    /// Where the planner's epoch begins; `None` where nobody needs to be told.
    epoch: Option<Progress>,
    steps: Option<Steps>,
    /// Whether one epoch has followed another: then the next one will, too. Who reads a dataset
    /// once is not made to pay for its beginning again.
    goes_on: bool,
    /// Whether `steps` are those of the next epoch.
    is_next: bool,
    /// Samples of reads whose shards were announced, and whether they are of the next epoch.
    coming: VecDeque<(Range<u64>, bool)>,
    /// The same of each announced read that the planner has not come to, with its bytes.
    ahead: VecDeque<(u64, bool)>,
    ahead_bytes: u64,
    /// Reads that the planner has come to, and was told of.
    planned: u64,
}

impl Scout {
    pub(super) fn new(
        dataset: &Dataset,
        sources: Sources,
        large: Option<u64>,
        order: (Arc<dyn Sampling>, World, End),
    ) -> Self {
        Self {
            dataset: dataset.clone(),
            sources,
            large,
            window: dataset.read_ahead_bytes(),
            order,
            generation: 0,
            epoch: None,
            steps: None,
            goes_on: false,
            is_next: false,
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

    /// The planner begins an epoch at `start`.
    pub(super) fn restart(&mut self, generation: u64, start: Progress) {
        let follows = self.epoch.is_some_and(|epoch| epoch.next_epoch() == start);
        self.goes_on |= follows;
        (self.generation, self.epoch, self.planned) = (generation, Some(start), 0);
        if follows && self.is_next {
            // What is left of the epoch before, nobody will read.
            self.coming.retain(|(_, is_next)| *is_next);
            self.ahead.retain(|(_, is_next)| *is_next);
            self.coming.iter_mut().for_each(|(_, is_next)| *is_next = false);
            self.ahead.iter_mut().for_each(|(_, is_next)| *is_next = false);
            self.ahead_bytes = self.ahead.iter().map(|(bytes, _)| bytes).sum();
        } else {
            self.coming.clear();
            self.ahead.clear();
            self.ahead_bytes = 0;
            self.steps = self.steps_from(&start);
        }
        self.is_next = false;
    }

    fn steps_from(&self, start: &Progress) -> Option<Steps> {
        let (sampling, world, end) = &self.order;
        // What is wrong with it, the planner says.
        let epoch = sampling.epoch_of(start).ok()?;
        let share = Share::new(*world, *end, &*epoch, start);
        Some(Steps::new(epoch, share))
    }

    /// The planner has come to `planned` reads, whose shards are open: announces those that are not
    /// yet.
    pub(super) fn reach(&mut self, planned: u64) {
        while self.planned < planned {
            self.planned += 1;
            match self.ahead.pop_front() {
                Some((bytes, _)) => self.ahead_bytes -= bytes,
                None => drop(self.announce_next()),
            }
        }
    }

    /// Announces the next read; false if that is far enough for now. May wait for its shard to open.
    pub(super) fn advance(&mut self) -> bool {
        if self.ahead_bytes >= self.window || self.ahead.len() >= MOST_READS {
            return false;
        }
        let Some((bytes, is_next)) = self.announce_next() else { return false };
        self.ahead.push_back((bytes, is_next));
        self.ahead_bytes += bytes;
        true
    }

    fn announce_next(&mut self) -> Option<(u64, bool)> {
        self.come();
        let (samples, is_next) = self.coming.pop_front()?;
        Some((self.announce(samples), is_next))
    }

    /// Takes up the next reads, and announces their shards.
    fn come(&mut self) {
        while self.coming.len() < SHARDS_AHEAD {
            let Some(step) = self.steps.as_mut().and_then(Iterator::next) else {
                let next = self.epoch.filter(|_| self.goes_on && !self.is_next).map(|epoch| epoch.next_epoch());
                let Some(next) = next else { return };
                self.steps = self.steps_from(&next);
                self.is_next = true;
                continue;
            };
            let (Some(read), Some(source)) = (step.read, self.sources.samples(step.at.source)) else { continue };
            let all = |sample: u64| source.start.saturating_add(sample);
            let samples = all(read.samples.start)..all(read.samples.end);
            for (number, _) in self.dataset.records_of(samples.clone()) {
                self.dataset.advise_shards(number..number.saturating_add(1));
            }
            self.coming.push_back((samples, self.is_next));
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

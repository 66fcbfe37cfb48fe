//! Announces reads to network storage before the planner reaches them, because the reads of the few planned batches
//! are not enough requests to use the full bandwidth. Announcements continue into the next epoch, so its first
//! batches do not wait.
//!
//! If the dataset is in a cache on the local disk, and that cache is in the page cache, reads are not announced, because
//! each announcement opens a file. After the first miss, they are announced again.

use super::epochs::Epochs;
use super::held::Held;
use super::pieces;
use crate::order::{OrderState, Sources, Steps};
use shardpack_reader::Dataset;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of announced reads. Many small reads would otherwise overflow the storage's queue.
const MOST_READS: usize = 1 << 13;
/// Number of reads by which shards are announced earlier than their reads, because opening a shard takes an
/// extra round trip.
const SHARDS_AHEAD: usize = 64;

/// The epoch that the read-ahead must switch to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadAheadStart {
    pub(crate) generation: u64,
    pub(crate) start: OrderState,
    /// True if the caller will probably want the next epoch too.
    pub(crate) goes_on: bool,
    pub(crate) held: Held,
}

#[derive(Debug)]
pub(crate) struct ReadAhead {
    dataset: Dataset,
    sources: Sources,
    /// Smallest size in bytes of a record that is read alone, in parts.
    large: Option<u64>,
    window: u64,
    epochs: Arc<Epochs>,
    pub(crate) generation: u64,
    /// Start of the current epoch, or `None` if the storage needs no announcements.
    epoch: Option<OrderState>,
    goes_on: bool,
    /// Number of misses in the cache when the epoch started, if all samples seemed to be in the page cache and nothing
    /// has been missed since.
    misses: Option<u64>,
    at: Option<OrderState>,
    steps: Option<Steps>,
    /// Samples and epoch of each read that has not been announced yet, although its shard has.
    coming: VecDeque<(Range<u64>, u32)>,
    /// Size in bytes and epoch of each announced read that the planner has not reached yet.
    ahead: VecDeque<(u64, u32)>,
    ahead_bytes: u64,
    /// Number of reads that the planner has reported so far.
    planned: u64,
}

impl ReadAhead {
    pub(crate) fn new(epochs: Arc<Epochs>, sources: Sources) -> Self {
        let dataset = epochs.dataset.clone();
        Self {
            sources,
            large: epochs.fields.large_bytes,
            window: dataset.read_ahead_bytes(),
            dataset,
            epochs,
            generation: 0,
            epoch: None,
            goes_on: false,
            misses: None,
            at: None,
            steps: None,
            coming: VecDeque::new(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            planned: 0,
        }
    }

    pub(crate) const fn is_wanted(&self) -> bool {
        self.window > 0
    }

    /// Switches to another epoch. If the planner has already started this epoch, the generation is unchanged
    /// and announcements simply continue.
    pub(crate) fn restart(&mut self, to: ReadAheadStart) {
        let ReadAheadStart { generation, start, goes_on, held } = to;
        let before = self.epoch.replace(start);
        self.goes_on = goes_on;
        self.misses = (held == Held::ALONE).then(|| self.dataset.traffic().cache.misses);
        if generation == self.generation && before.is_some() {
            return;
        }
        (self.generation, self.planned) = (generation, 0);
        if self.at == Some(start) && before != Some(start) {
            // Drop the rest of the previous epoch, which will not be read.
            self.coming.retain(|(_, epoch)| *epoch == start.epoch);
            self.ahead.retain(|(_, epoch)| *epoch == start.epoch);
            self.ahead_bytes = self.ahead.iter().map(|(bytes, _)| bytes).sum();
        } else {
            self.coming.clear();
            self.ahead.clear();
            self.ahead_bytes = 0;
            self.go_to(start);
        }
    }

    fn go_to(&mut self, start: OrderState) {
        // Ignore errors. The planner reports them.
        self.steps = self.epochs.steps(&start).ok();
        self.at = Some(start);
    }

    fn next(&self) -> Option<OrderState> {
        let (at, epoch) = (self.at?, self.epoch?);
        let last = u64::from(epoch.epoch) + u64::from(self.goes_on);
        (u64::from(at.epoch) < last).then(|| at.next_epoch())
    }

    /// Records that the planner has reached `planned` reads, whose shards are open. Announces the reads that were not
    /// announced before.
    pub(crate) fn reach(&mut self, planned: u64) {
        self.misses = self.misses.filter(|misses| self.dataset.traffic().cache.misses == *misses);
        while self.planned < planned {
            self.planned += 1;
            match self.ahead.pop_front() {
                Some((bytes, _)) => self.ahead_bytes -= bytes,
                None => drop(self.announce_next()),
            }
        }
    }

    /// Announces the next read. Returns false if announcements are already far enough ahead. May wait for a shard to
    /// open.
    pub(crate) fn advance(&mut self) -> bool {
        if self.misses.is_some() || self.ahead_bytes >= self.window || self.ahead.len() >= MOST_READS {
            return false;
        }
        let Some((bytes, epoch)) = self.announce_next() else { return false };
        self.ahead.push_back((bytes, epoch));
        self.ahead_bytes += bytes;
        true
    }

    fn announce_next(&mut self) -> Option<(u64, u32)> {
        self.come();
        let (samples, epoch) = self.coming.pop_front()?;
        Some((self.announce(samples), epoch))
    }

    fn come(&mut self) {
        while self.coming.len() < SHARDS_AHEAD {
            let Some(step) = self.steps.as_mut().and_then(Iterator::next) else {
                let Some(next) = self.next() else { return };
                self.go_to(next);
                continue;
            };
            let (Some(read), Some(source)) = (step.read, self.sources.samples(step.at.source)) else { continue };
            let all = |sample: u64| source.start.saturating_add(sample);
            let samples = all(read.samples.start)..all(read.samples.end);
            for (number, _) in self.dataset.records_of(samples.clone()) {
                self.dataset.advise_shards(number..number.saturating_add(1));
            }
            self.coming.push_back((samples, self.at.map_or(0, |at| at.epoch)));
        }
    }

    /// Announces the reads of these samples, which are the same reads as the planner's. Returns the total size of the
    /// announced reads in bytes.
    fn announce(&self, samples: Range<u64>) -> u64 {
        let mut sum = 0_u64;
        if self.misses.is_some() {
            return sum;
        }
        for (number, records) in self.dataset.records_of(samples) {
            // Ignore errors. The batch of these samples reports them.
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
            for (_, file) in self.epochs.fields.columns_files(&shard) {
                let (Ok(span), Ok(handle)) = (file.span(&records), file.file().handle()) else { continue };
                handle.advise_soon(span.start, span.end - span.start);
                sum = sum.saturating_add(span.end - span.start);
            }
        }
        sum
    }
}

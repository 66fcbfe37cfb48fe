//! The schedule of requests. It keeps track of requests in flight, queued requests, and bytes that have arrived and
//! wait for a reader. It does no I/O and uses no other modules of this crate, so a simulation can run it
//! (`tests/store/simulation`).

mod error;
mod opening;
mod pin;
mod readers;
mod request;
mod transfer;
mod tuner;

pub(crate) use error::{PATIENCE, RequestError};
pub(crate) use opening::Opening;
pub(crate) use pin::Pin;
pub(crate) use readers::Readers;
pub(crate) use request::{ObjectStatus, Request};
pub(crate) use transfer::Transfer;
pub(crate) use tuner::Tuner;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Maximum gap between two wanted ranges in one request, if most of the request's bytes are wanted. Fetching another
/// MiB is faster than sending a second request.
const GAP_BYTES: u64 = 1 << 20;
/// Maximum gap between two wanted ranges in any request. Fetching such a gap takes less than a millisecond.
const SMALL_GAP_BYTES: u64 = 64 << 10;
/// A range that is too long for one request is split into parts of at most this size, which are fetched in parallel.
/// A part is also limited to an eighth of the memory budget.
const PART_BYTES: u64 = 8 << 20;
const LEAST_PART_BYTES: u64 = 64 << 10;
/// Maximum number of parts in a request.
const PARTS: u64 = 2;
/// Maximum length of the queue. Announcements beyond this number are dropped. Their bytes are requested only when a
/// reader needs them.
const MOST_QUEUED: usize = 1 << 15;
/// Initial number of bytes to fetch from the end of a shard. They contain the footer and, if it is small, the index.
const TAIL_BYTES: u64 = 64 << 10;
/// Maximum number of bytes fetched from the end of a shard, to get the index together with the footer.
const MOST_TAIL_BYTES: u64 = 4 << 20;

type At = (u64, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Fetching,
    Done,
}

#[derive(Debug)]
struct Scheduled {
    transfer: Arc<Transfer>,
    pin: Arc<Pin>,
    phase: Phase,
    /// Number of announced bytes, without gaps. Bytes announced several times count several times.
    wanted: u64,
    read: u64,
    number: u64,
}

impl Scheduled {
    fn len(&self) -> u64 {
        self.transfer.range.end - self.transfer.range.start
    }
}

#[derive(Debug)]
enum QueueItem {
    Transfer(At),
    Open(String),
}

#[derive(Debug)]
pub(crate) struct Schedule {
    transfers: BTreeMap<At, Scheduled>,
    queue: VecDeque<QueueItem>,
    pub(crate) names: HashMap<String, ObjectStatus>,
    pub(crate) tuner: Tuner,
    in_flight: usize,
    held: u64,
    budget: u64,
    part_bytes: u64,
    /// Size of a cache page in bytes, or 1 if there is no cache.
    page: u64,
    count: u64,
    tail_bytes: u64,
    pub(crate) opened_bytes: u64,
    pub(crate) peak_in_flight: usize,
    pub(crate) peak_held: u64,
}

impl Schedule {
    pub(crate) fn new(budget: u64, page: u64, tuner: Tuner) -> Self {
        Self {
            page,
            transfers: BTreeMap::new(),
            queue: VecDeque::new(),
            names: HashMap::new(),
            tuner,
            in_flight: 0,
            held: 0,
            // Keep a quarter of the budget free for readers that need a range before its turn.
            budget: budget - budget / 4,
            part_bytes: (budget / 8).clamp(LEAST_PART_BYTES, PART_BYTES),
            count: 0,
            tail_bytes: TAIL_BYTES,
            opened_bytes: 0,
            peak_in_flight: 0,
            peak_held: 0,
        }
    }

    /// Returns the number of bytes to request from the end of the next shard.
    pub(crate) const fn tail_bytes(&self) -> u64 {
        self.tail_bytes
    }

    /// Records that a range will be read once. Further announcements add one read each.
    pub(crate) fn announce(&mut self, pin: &Arc<Pin>, range: Range<u64>) {
        self.note(pin, range, true);
    }

    /// Records that a range in the cache will be read. Bytes of the range that are already in memory are kept for
    /// this read.
    pub(crate) fn announce_cached(&mut self, pin: &Pin, range: &Range<u64>) {
        let first = self.covering(pin.id, range.start).map_or(range.start, |(_, start)| start);
        for (_, entry) in self.transfers.range_mut((pin.id, first)..(pin.id, range.end)) {
            let found = &entry.transfer.range;
            entry.wanted += found.end.min(range.end) - found.start.max(range.start);
        }
    }

    /// Queues the parts of a range that are not yet in memory, in flight or queued. If `again` is true, records one
    /// more read of the other parts.
    fn note(&mut self, pin: &Arc<Pin>, range: Range<u64>, again: bool) {
        let end = range.end.min(pin.size);
        let mut at = range.start;
        while at < end && self.queue.len() < MOST_QUEUED {
            if let Some(entry) = self.covering(pin.id, at).and_then(|key| self.transfers.get_mut(&key)) {
                let next = entry.transfer.range.end.min(end);
                // Without this, the bytes would be dropped after the reads that were announced earlier, and would
                // have to be requested again.
                entry.wanted += if again { next - at } else { 0 };
                if entry.phase != Phase::Queued {
                    self.count += 1;
                    entry.number = self.count;
                }
                at = next;
                continue;
            }
            let next = self.transfers.range((pin.id, at)..(pin.id, end)).next().map_or(end, |((_, start), _)| *start);
            self.add(pin, at..next);
            at = next;
        }
    }

    /// Queues a range that no transfer contains. Long ranges are split into parts.
    fn add(&mut self, pin: &Arc<Pin>, wanted: Range<u64>) {
        let range = self.pages_around(pin, &wanted);
        let whole = range.end - range.start <= self.most();
        let step = if whole { self.most() } else { self.part_bytes };
        let mut at = range.start;
        while at < range.end {
            let part = at..range.end.min(at.saturating_add(step));
            at = part.end;
            let read = part.end.min(wanted.end).saturating_sub(part.start.max(wanted.start));
            let key = self.put(pin, part, read, Phase::Queued);
            self.queue.push_back(QueueItem::Transfer(key));
        }
    }

    /// Extends a range to whole pages, except for bytes in other transfers.
    fn pages_around(&self, pin: &Pin, range: &Range<u64>) -> Range<u64> {
        if self.page == 1 || pin.strong_tag().is_none() {
            return range.clone();
        }
        let before = self.transfers.range((pin.id, 0)..(pin.id, range.start)).next_back();
        let after = self.transfers.range((pin.id, range.end)..=(pin.id, u64::MAX)).next();
        let start = range.start / self.page * self.page;
        let end = range.end.next_multiple_of(self.page).min(pin.size);
        start.max(before.map_or(0, |(_, entry)| entry.transfer.range.end))
            ..end.min(after.map_or(end, |((_, start), _)| *start))
    }

    const fn most(&self) -> u64 {
        PARTS * self.part_bytes
    }

    /// Joins a range with its queued neighbours. Many queued ranges then need only a few large requests.
    fn join(&mut self, key: At) -> Option<At> {
        let first = self.transfers.get(&key)?;
        let (mut range, mut wanted, mut number) = (first.transfer.range.clone(), first.wanted, first.number);
        let pin = Arc::clone(&first.pin);
        // A request that is sent before its turn may use half of the memory. The other half is reserved for the reads
        // that come next.
        let room = (self.budget / 2).saturating_sub(self.held).min(self.most());
        for is_after in [true, false] {
            loop {
                let next = if is_after {
                    self.transfers.range((pin.id, range.end)..=(pin.id, u64::MAX)).next()
                } else {
                    self.transfers.range((pin.id, 0)..(pin.id, range.start)).next_back()
                };
                let Some((&other, entry)) = next.filter(|(_, entry)| entry.phase == Phase::Queued) else { break };
                let found = &entry.transfer.range;
                let joined = range.start.min(found.start)..range.end.max(found.end);
                let len = joined.end - joined.start;
                let gap = len - (range.end - range.start) - entry.len();
                let read = wanted + entry.wanted;
                let is_near = gap <= SMALL_GAP_BYTES || gap <= GAP_BYTES && len <= 2 * read;
                if !is_near || len > room {
                    break;
                }
                (range, wanted, number) = (joined, read, number.max(entry.number));
                // The other transfer's item stays in the queue, and is skipped later.
                self.transfers.remove(&other);
            }
        }
        // A queued transfer can be replaced, because no reader waits for it.
        let entry = self.transfers.remove(&key)?;
        let key = (pin.id, range.start);
        self.transfers.insert(key, Scheduled { transfer: Arc::new(Transfer::new(range)), wanted, number, ..entry });
        Some(key)
    }

    fn put(&mut self, pin: &Arc<Pin>, range: Range<u64>, wanted: u64, phase: Phase) -> At {
        let key = (pin.id, range.start);
        let entry = Scheduled {
            wanted,
            transfer: Arc::new(Transfer::new(range)),
            pin: Arc::clone(pin),
            phase,
            read: 0,
            number: self.next_id(),
        };
        self.transfers.insert(key, entry);
        key
    }

    fn covering(&self, id: u64, offset: u64) -> Option<At> {
        let (key, entry) = self.transfers.range((id, 0)..=(id, offset)).next_back()?;
        (entry.transfer.range.end > offset).then_some(*key)
    }

    /// Returns the number of bytes at the start of the range that are not in memory, in flight or queued.
    pub(crate) fn unknown(&mut self, pin: &Pin, range: &Range<u64>) -> u64 {
        if self.covering(pin.id, range.start).is_some() {
            return 0;
        }
        self.learn(pin, range);
        let next = self.transfers.range((pin.id, range.start)..(pin.id, range.end)).next();
        next.map_or(range.end, |((_, start), _)| *start) - range.start
    }

    /// Returns the transfer that contains the first byte of `range`. If it is not in flight yet, also returns
    /// the request, which must be sent at once. The rest of the range is announced.
    pub(crate) fn want(&mut self, pin: &Arc<Pin>, range: Range<u64>) -> (Option<Arc<Transfer>>, Option<Request>) {
        let mut late = false;
        let key = match self.covering(pin.id, range.start) {
            Some(key) => {
                late = self.transfers.get(&key).is_some_and(|entry| entry.phase == Phase::Queued);
                key
            }
            None => {
                self.learn(pin, &range);
                let next = self.transfers.range((pin.id, range.start)..(pin.id, range.end)).next();
                let next = next.map_or(range.end, |((_, start), _)| *start);
                let long = next - range.start > self.most();
                let end = if long { range.start + self.part_bytes } else { next };
                self.put(pin, range.start..end, end - range.start, Phase::Queued)
            }
        };
        let Some(entry) = self.transfers.get(&key) else { return (None, None) };
        let (transfer, phase, number) = (Arc::clone(&entry.transfer), entry.phase, entry.number);
        let mut start = None;
        if phase == Phase::Queued {
            if late && self.held.saturating_add(transfer.range.end - transfer.range.start) > self.budget {
                self.forget_before(number);
            }
            start = self.start(key);
        }
        if transfer.range.end < range.end {
            self.note(pin, transfer.range.end..range.end, false);
        }
        (Some(transfer), start)
    }

    /// Learns the length of an index from a read that starts before the bytes already fetched from the shard's end.
    /// The next shard's index probably has about the same length.
    fn learn(&mut self, pin: &Pin, range: &Range<u64>) {
        const FOOTER_AND_MORE: u64 = 4096;
        let from_end = pin.size - range.start.min(pin.size);
        if range.end.saturating_add(FOOTER_AND_MORE) >= pin.size
            && from_end > self.tail_bytes
            && from_end <= MOST_TAIL_BYTES
        {
            self.tail_bytes = (from_end + from_end / 8).next_multiple_of(4096).min(MOST_TAIL_BYTES);
        }
    }

    /// Drops arrived bytes that readers have probably abandoned, because they were last announced or read before
    /// transfer `number`, which a reader needs now. Drops only the older half, because reads are not strictly in
    /// order.
    fn forget_before(&mut self, number: u64) {
        let stale = |entry: &&Scheduled| entry.phase == Phase::Done && entry.number < number;
        let mut ages: Vec<u64> = self.transfers.values().filter(stale).map(|entry| entry.number).collect();
        ages.sort_unstable();
        let Some(&last) = ages.get(ages.len() / 2) else { return };
        let keys = self.transfers.iter().filter(|(_, entry)| stale(entry) && entry.number <= last);
        for key in keys.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key);
        }
    }

    fn start(&mut self, key: At) -> Option<Request> {
        let entry = self.transfers.get_mut(&key)?;
        entry.phase = Phase::Fetching;
        let (pin, transfer, len) = (Arc::clone(&entry.pin), Arc::clone(&entry.transfer), entry.len());
        self.hold(len);
        Some(self.count_in(Request::Transfer(pin, transfer)))
    }

    fn hold(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
        self.peak_held = self.peak_held.max(self.held);
    }

    fn count_in(&mut self, start: Request) -> Request {
        self.in_flight += start.requests();
        self.peak_in_flight = self.peak_in_flight.max(self.in_flight);
        start
    }

    pub(crate) fn next(&mut self) -> Option<Request> {
        if self.in_flight >= self.tuner.limit() || !self.is_full() {
            return None;
        }
        match self.queue.pop_front()? {
            QueueItem::Open(name) => {
                let known = self.names.get_mut(&name)?;
                let ObjectStatus::Queued(opening) = known else { return None };
                let opening = Arc::clone(opening);
                *known = ObjectStatus::Opening(Arc::clone(&opening));
                Some(self.count_in(Request::Open(name, opening)))
            }
            QueueItem::Transfer(key) => {
                let key = self.join(key)?;
                self.start(key)
            }
        }
    }

    /// Returns true if a request is queued and there is enough memory for it.
    pub(crate) fn is_full(&mut self) -> bool {
        while let Some(job) = self.queue.front() {
            match job {
                QueueItem::Open(name) if matches!(self.names.get(name), Some(ObjectStatus::Queued(_))) => return true,
                QueueItem::Transfer(key) => {
                    if let Some(entry) = self.transfers.get(key).filter(|entry| entry.phase == Phase::Queued) {
                        return self.held == 0 || self.held.saturating_add(entry.len()) <= self.budget;
                    }
                }
                QueueItem::Open(_) => {}
            }
            // The item is out of date: a reader has already requested it, or another transfer includes it.
            self.queue.pop_front();
        }
        false
    }

    /// Clears the queue. A request in flight continues only if a reader waits for it.
    pub(crate) fn give_up(&mut self) {
        self.queue.clear();
        self.transfers.retain(|_, entry| entry.phase != Phase::Queued);
        self.transfers.values().for_each(|entry| entry.transfer.readers.give_up());
        self.names.retain(|_, known| !matches!(known, ObjectStatus::Queued(_)));
        for known in self.names.values() {
            if let ObjectStatus::Opening(opening) = known {
                opening.readers.give_up();
            }
        }
    }

    pub(crate) fn count_out(&mut self, requests: usize) {
        self.in_flight = self.in_flight.saturating_sub(requests);
    }

    pub(crate) fn finished(&mut self, pin: &Pin, transfer: &Arc<Transfer>, ok: bool) {
        let key = (pin.id, transfer.range.start);
        let Some(entry) = self.transfers.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.transfer, transfer)) else {
            return;
        };
        entry.phase = Phase::Done;
        // If the bytes are needed again later, a reader sends a new request.
        if !ok || entry.read >= entry.wanted {
            self.remove(key);
        }
    }

    /// Records that bytes of a transfer were read, and drops the transfer after its last read.
    pub(crate) fn was_read(&mut self, pin: &Pin, transfer: &Arc<Transfer>, bytes: u64) {
        let key = (pin.id, transfer.range.start);
        let Some(entry) = self.transfers.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.transfer, transfer)) else {
            return;
        };
        entry.read = entry.read.saturating_add(bytes);
        self.count += 1;
        entry.number = self.count;
        if entry.phase == Phase::Done && entry.read >= entry.wanted {
            self.remove(key);
        }
    }

    /// Drops an object's bytes from memory. Bytes in flight are dropped when they arrive.
    pub(crate) fn forget(&mut self, pin: &Pin) {
        let own = self.transfers.range_mut((pin.id, 0)..=(pin.id, u64::MAX));
        let mut gone = Vec::new();
        for (key, entry) in own {
            match entry.phase {
                Phase::Fetching => entry.wanted = 0,
                Phase::Queued | Phase::Done => gone.push(*key),
            }
        }
        gone.into_iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: At) {
        if let Some(entry) = self.transfers.remove(&key)
            && entry.phase != Phase::Queued
        {
            self.held = self.held.saturating_sub(entry.len());
        }
    }

    /// Adds bytes that arrived while the object was opened.
    pub(crate) fn put_arrived(&mut self, pin: &Arc<Pin>, start: u64, pieces: Vec<bytes::Bytes>) {
        let len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if len == 0 || self.covering(pin.id, start).is_some() {
            return;
        }
        let key = self.put(pin, start..start.saturating_add(len), len, Phase::Done);
        self.hold(len);
        if let Some(entry) = self.transfers.get(&key) {
            pieces.into_iter().for_each(|piece| entry.transfer.push(piece));
        }
    }

    pub(crate) fn announce_open(&mut self, name: &str) {
        if self.names.contains_key(name) || self.queue.len() >= MOST_QUEUED {
            return;
        }
        self.names.insert(name.to_owned(), ObjectStatus::Queued(Arc::default()));
        self.queue.push_back(QueueItem::Open(name.to_owned()));
    }

    /// Returns the pin of an object if the object is open, and otherwise the opening that readers can wait for. If
    /// the object is not being opened yet, also returns a request, which must be sent at once.
    pub(crate) fn want_open(&mut self, name: &str) -> (Result<Arc<Pin>, Arc<Opening>>, Option<Request>) {
        let opening = match self.names.get(name) {
            Some(ObjectStatus::Open(pin)) => return (Ok(Arc::clone(pin)), None),
            Some(ObjectStatus::Opening(opening)) => return (Err(Arc::clone(opening)), None),
            Some(ObjectStatus::Queued(opening)) => Arc::clone(opening),
            None => Arc::default(),
        };
        self.names.insert(name.to_owned(), ObjectStatus::Opening(Arc::clone(&opening)));
        let start = self.count_in(Request::Open(name.to_owned(), Arc::clone(&opening)));
        (Err(opening), Some(start))
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

#[cfg(test)]
mod tests;

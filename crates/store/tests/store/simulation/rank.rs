//! One rank of the simulation. It uses the real schedule of requests, but a list of arrival times instead of a store.

use super::schedule::{ObjectStatus, Pin, Request, Schedule, Transfer, Tuner};
use super::{Case, Figures};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// An event. Simultaneous events are ordered by number, which makes runs reproducible.
enum Done {
    Transfer(Arc<Pin>, Arc<Transfer>),
    Open(u64),
}

pub(super) struct Reading {
    pub(super) shard: u64,
    pub(super) rest: Range<u64>,
    pub(super) batch: u64,
}

pub(super) struct Rank {
    pub(super) case: Case,
    pub(super) schedule: Schedule,
    pub(super) now: f64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, Done>,
    count: u64,
    pins: BTreeMap<u64, Arc<Pin>>,
    arrived: BTreeSet<(u64, u64)>,
    pub(super) figures: Figures,
}

impl Rank {
    pub(super) fn new(case: Case) -> Self {
        let mut new = Self {
            case,
            schedule: Schedule::new(case.window, 1, Tuner::new((8, case.most_in_flight))),
            now: 0.0,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            count: 0,
            pins: BTreeMap::new(),
            arrived: BTreeSet::new(),
            figures: Figures::default(),
        };
        if case.opened {
            (0..case.shards).for_each(|shard| new.open(shard));
        }
        new
    }

    fn per_shard(&self) -> u64 {
        self.case.samples / self.case.shards
    }

    pub(super) fn pin(&self, shard: u64) -> Option<Arc<Pin>> {
        self.pins.get(&shard).cloned()
    }

    fn open(&mut self, shard: u64) {
        let size = self.per_shard() * (self.case.sample_bytes + self.case.index_bytes);
        let pin = Pin { id: shard + 1, key: shard.to_string().as_str().into(), size, e_tag: None, modified: 0 };
        self.pins.insert(shard, Arc::new(pin));
    }

    fn begin(&mut self, start: Request) {
        self.figures.requests += start.requests() as u64;
        let (bytes, done) = match start {
            Request::Transfer(pin, transfer) => {
                let bytes = transfer.range.end - transfer.range.start;
                self.figures.data_bytes += bytes;
                (bytes, Done::Transfer(pin, transfer))
            }
            Request::Open(name, _) => {
                let index = self.per_shard() * self.case.index_bytes;
                // The bytes that are fetched first from the end of a shard may contain only a part of the
                // index. The rest takes one more request.
                let tail = self.schedule.tail_bytes();
                let more = if tail < index { self.case.first_byte_s * self.case.bytes_per_s } else { 0.0 };
                self.figures.index_bytes += tail.max(index);
                self.figures.requests += u64::from(tail < index);
                self.figures.shards += 1;
                (tail.max(index) + whole(more), Done::Open(name.parse().unwrap()))
            }
        };
        let end = self.now + self.case.first_byte_s + bytes as f64 / self.case.bytes_per_s;
        self.count += 1;
        self.events.push(Reverse((whole(end * 1e9), self.count)));
        self.what.insert(self.count, done);
    }

    pub(super) fn begin_all(&mut self) {
        while let Some(start) = self.schedule.next() {
            self.begin(start);
        }
    }

    /// Advances the simulated time while data arrives.
    pub(super) fn pass(&mut self, seconds: f64) {
        let due = self.now + seconds;
        while self.events.peek().is_some_and(|Reverse((at, _))| *at as f64 / 1e9 <= due) {
            self.step();
            self.begin_all();
        }
        self.now = due;
    }

    pub(super) fn step(&mut self) {
        let Reverse((at, number)) = self.events.pop().expect("a reader waits, and no request is in flight");
        self.now = at as f64 / 1e9;
        let now = Duration::from_nanos(at);
        let full = self.schedule.is_full();
        match self.what.remove(&number).unwrap() {
            Done::Transfer(pin, transfer) => {
                self.schedule.count_out(1);
                self.schedule.tuner.done(now, transfer.range.end - transfer.range.start, full);
                self.arrived.insert((pin.id, transfer.range.start));
                self.schedule.finished(&pin, &transfer, true);
            }
            Done::Open(shard) => {
                self.schedule.count_out(2);
                self.open(shard);
                let pin = self.pin(shard).unwrap();
                let index = self.per_shard() * self.case.index_bytes;
                // If too few bytes were fetched from the end of the shard, reading the index corrects the
                // estimate.
                let start = pin.size - index;
                if self.schedule.tail_bytes() < index {
                    let (_, begun) = self.schedule.want(&pin, start..pin.size);
                    let Some(Request::Transfer(_, transfer)) = begun else { panic!("an index that was not requested") };
                    self.schedule.count_out(1);
                    self.schedule.was_read(&pin, &transfer, index);
                    self.schedule.finished(&pin, &transfer, true);
                } else {
                    self.schedule.put_arrived(&pin, start, vec![Bytes::from_static(&[0])]);
                    let (transfer, _) = self.schedule.want(&pin, start..start + 1);
                    self.schedule.was_read(&pin, &transfer.unwrap(), 1);
                }
                self.schedule.names.insert(shard.to_string(), ObjectStatus::Open(pin));
            }
        }
    }

    pub(super) fn read(&mut self, reading: &mut Reading) -> bool {
        let Some(pin) = self.pin(reading.shard) else {
            if let (Err(_), Some(start)) = self.schedule.want_open(&reading.shard.to_string()) {
                self.begin(start);
            }
            return false;
        };
        while !reading.rest.is_empty() {
            let (transfer, start) = self.schedule.want(&pin, reading.rest.clone());
            let transfer = transfer.unwrap();
            if let Some(start) = start {
                self.arrived.remove(&(pin.id, transfer.range.start));
                self.begin(start);
            }
            if !self.arrived.contains(&(pin.id, transfer.range.start)) {
                return false;
            }
            let end = transfer.range.end.min(reading.rest.end);
            self.schedule.was_read(&pin, &transfer, end - reading.rest.start);
            reading.rest.start = end;
        }
        true
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
const fn whole(number: f64) -> u64 {
    number as u64
}

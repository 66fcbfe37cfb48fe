//! The rank of the simulation: the planner of requests, and in place of the store a list of what
//! arrives when.

use super::{Case, Found};
use crate::block::Block;
use crate::object::Pin;
use crate::state::{Known, Start, State};
use crate::tuner::Tuner;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What is done at some time. The number breaks ties, so that a run is always the same.
enum Done {
    Block(Arc<Pin>, Arc<Block>),
    Open(u64),
}

/// A read of the loader: what is still to be had of it.
pub(super) struct Reading {
    pub(super) shard: u64,
    pub(super) rest: Range<u64>,
    pub(super) batch: u64,
}

/// The rank, its planner of requests, and the store behind it.
pub(super) struct Rank {
    pub(super) case: Case,
    pub(super) state: State,
    pub(super) now: f64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, Done>,
    count: u64,
    pins: BTreeMap<u64, Arc<Pin>>,
    arrived: BTreeSet<(u64, u64)>,
    pub(super) found: Found,
}

impl Rank {
    pub(super) fn new(case: Case) -> Self {
        let mut new = Self {
            case,
            state: State::new(case.window, 1, Tuner::new((8, case.most_in_flight))),
            now: 0.0,
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            count: 0,
            pins: BTreeMap::new(),
            arrived: BTreeSet::new(),
            found: Found::default(),
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

    /// Puts requests on their way.
    fn begin(&mut self, start: Start) {
        self.found.requests += start.requests() as u64;
        let (bytes, done) = match start {
            Start::Block(pin, block) => {
                let bytes = block.range.end - block.range.start;
                self.found.data_bytes += bytes;
                (bytes, Done::Block(pin, block))
            }
            Start::Open(name, _) => {
                let index = self.per_shard() * self.case.index_bytes;
                // Before the first index is known, the tail is too short, and the rest is one more.
                let tail = self.state.tail_bytes();
                let more = if tail < index { self.case.first_byte_s * self.case.bytes_per_s } else { 0.0 };
                self.found.index_bytes += tail.max(index);
                self.found.requests += u64::from(tail < index);
                self.found.shards += 1;
                (tail.max(index) + whole(more), Done::Open(name.parse().unwrap()))
            }
        };
        let end = self.now + self.case.first_byte_s + bytes as f64 / self.case.bytes_per_s;
        self.count += 1;
        self.events.push(Reverse((whole(end * 1e9), self.count)));
        self.what.insert(self.count, done);
    }

    pub(super) fn begin_all(&mut self) {
        while let Some(start) = self.state.next() {
            self.begin(start);
        }
    }

    /// Lets time pass, while what is on its way arrives.
    pub(super) fn pass(&mut self, seconds: f64) {
        let due = self.now + seconds;
        while self.events.peek().is_some_and(|Reverse((at, _))| *at as f64 / 1e9 <= due) {
            self.step();
            self.begin_all();
        }
        self.now = due;
    }

    /// Goes on to what is done next.
    pub(super) fn step(&mut self) {
        let Reverse((at, number)) = self.events.pop().expect("somebody waits, and nothing is on its way");
        self.now = at as f64 / 1e9;
        let now = Duration::from_nanos(at);
        let full = self.state.is_full();
        match self.what.remove(&number).unwrap() {
            Done::Block(pin, block) => {
                self.state.count_out(1);
                self.state.tuner.done(now, block.range.end - block.range.start, full);
                self.arrived.insert((pin.id, block.range.start));
                self.state.finished(&pin, &block, true);
            }
            Done::Open(shard) => {
                self.state.count_out(2);
                self.open(shard);
                let pin = self.pin(shard).unwrap();
                let index = self.per_shard() * self.case.index_bytes;
                // The reader of the index takes it at once; a tail that was too short teaches.
                let start = pin.size - index;
                if self.state.tail_bytes() < index {
                    let (_, begun) = self.state.want(&pin, start..pin.size);
                    let Some(Start::Block(_, block)) = begun else { panic!("an index that nobody asked for") };
                    self.state.count_out(1);
                    self.state.was_read(&pin, &block, index);
                    self.state.finished(&pin, &block, true);
                } else {
                    self.state.put_arrived(&pin, start, vec![Bytes::from_static(&[0])]);
                    let (block, _) = self.state.want(&pin, start..start + 1);
                    self.state.was_read(&pin, &block.unwrap(), 1);
                }
                self.state.names.insert(shard.to_string(), Known::Open(pin));
            }
        }
    }

    /// Takes what has arrived of a read; whether that was all.
    pub(super) fn read(&mut self, reading: &mut Reading) -> bool {
        let Some(pin) = self.pin(reading.shard) else {
            if let (Err(_), Some(start)) = self.state.want_open(&reading.shard.to_string()) {
                self.begin(start);
            }
            return false;
        };
        while !reading.rest.is_empty() {
            let (block, start) = self.state.want(&pin, reading.rest.clone());
            let block = block.unwrap();
            if let Some(start) = start {
                // It is asked for anew if it was there before.
                self.arrived.remove(&(pin.id, block.range.start));
                self.begin(start);
            }
            if !self.arrived.contains(&(pin.id, block.range.start)) {
                return false;
            }
            let end = block.range.end.min(reading.rest.end);
            self.state.was_read(&pin, &block, end - reading.rest.start);
            reading.rest.start = end;
        }
        true
    }
}

/// A positive number without its fraction.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
const fn whole(number: f64) -> u64 {
    number as u64
}

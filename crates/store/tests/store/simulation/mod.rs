//! Simulates one rank of a large run that reads from a store, without any data. The order of the samples and the
//! schedule of requests are computed by the real code, but the clock is simulated. The results are in
//! `docs/simulation.md`.

mod rank;
#[allow(dead_code, unused_imports, reason = "the schedule of the crate, which the crate uses as a whole")]
#[path = "../../../src/schedule/mod.rs"]
mod schedule;

use rank::{Rank, Reading};
use shardpack_loader::order::{End, Order, OrderState, Runs, Share, Step, Steps, World};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
struct Case {
    samples: u64,
    shards: u64,
    sample_bytes: u64,
    /// Bytes per sample in a shard's index.
    index_bytes: u64,
    ranks: u32,
    batch: u32,
    lanes: u64,
    /// Value of the option `read_ahead_bytes`. The next field is the value of `max_in_flight`.
    window: u64,
    most_in_flight: usize,
    first_byte_s: f64,
    bytes_per_s: f64,
    taken_per_s: f64,
    /// True if all shards are already open at the start, as in a second epoch.
    opened: bool,
}

const CASE: Case = Case {
    samples: 100_000_000,
    shards: 10_000,
    sample_bytes: 110_000,
    index_bytes: 80,
    ranks: 1024,
    batch: 256,
    lanes: Order::LANES,
    window: 256 << 20,
    most_in_flight: 256,
    first_byte_s: 0.1,
    bytes_per_s: 90e6,
    taken_per_s: f64::INFINITY,
    opened: false,
};

/// Maximum number of waiting reads, one per loader thread.
const READERS: usize = 16;
/// Number of shards announced ahead, as in the loader's scout.
const SHARDS_AHEAD: usize = 64;
const SLOTS: u64 = 4;

#[derive(Debug, Default, PartialEq)]
struct Figures {
    samples: u64,
    seconds: f64,
    first_batch_s: f64,
    /// Number of samples in the last three quarters of the rank's share, and the time for loading them, in seconds.
    steady: (u64, f64),
    requests: u64,
    data_bytes: u64,
    index_bytes: u64,
    reads: u64,
    shards: u64,
    peak_in_flight: usize,
    peak_held: u64,
    /// Peak total size of the open reads, in bytes.
    peak_open: u64,
}

impl Figures {
    fn samples_per_s(&self) -> f64 {
        self.steady.0 as f64 / self.steady.1
    }

    fn in_flight(&self, case: &Case) -> f64 {
        (self.requests as f64 * case.first_byte_s + self.data_bytes as f64 / case.bytes_per_s) / self.seconds
    }

    fn amplification(&self, case: &Case) -> f64 {
        (self.data_bytes + self.index_bytes) as f64 / (self.samples * case.sample_bytes) as f64
    }
}

fn bytes_of(case: &Case, samples: Range<u64>) -> Vec<(u64, Range<u64>)> {
    let per_shard = case.samples / case.shards;
    let mut out = Vec::new();
    let mut at = samples.start;
    while at < samples.end {
        let (shard, first) = (at / per_shard, at % per_shard);
        let end = samples.end.min((shard + 1) * per_shard);
        out.push((shard, first * case.sample_bytes..(first + end - at) * case.sample_bytes));
        at = end;
    }
    out
}

fn steps(case: &Case) -> Steps {
    let bytes = case.samples * case.sample_bytes;
    let order = Order::new(Runs::of_bytes(case.samples, bytes, Runs::BYTES), 42).lanes(case.lanes);
    let epoch = order.epoch(0);
    let world = World::new(case.ranks / 3, case.ranks, case.batch).unwrap();
    let share = Share::new(world, End::Drop, &epoch, &OrderState::start(&order));
    Steps::new(Box::new(epoch), share)
}

/// A copy of the loader's scout, which announces reads.
struct Scout {
    steps: Steps,
    coming: VecDeque<Range<u64>>,
    ahead: VecDeque<u64>,
    ahead_bytes: u64,
}

impl Scout {
    fn come(&mut self, rank: &mut Rank) {
        while self.coming.len() < SHARDS_AHEAD {
            let Some(step) = self.steps.next() else { return };
            let Some(read) = step.read else { continue };
            for (shard, _) in bytes_of(&rank.case, read.samples.clone()) {
                if rank.pin(shard).is_none() {
                    rank.schedule.announce_open(&shard.to_string());
                }
            }
            self.coming.push_back(read.samples);
        }
    }

    /// Announces the next read and returns its size in bytes, or `None` if one of its shards is not open.
    fn announce_next(&mut self, rank: &mut Rank) -> Option<u64> {
        self.come(rank);
        let ranges = bytes_of(&rank.case, self.coming.front()?.clone());
        if ranges.iter().any(|(shard, _)| rank.pin(*shard).is_none()) {
            return None;
        }
        self.coming.pop_front();
        let mut sum = 0;
        for (shard, range) in ranges {
            sum += range.end - range.start;
            rank.schedule.announce(&rank.pin(shard).unwrap(), range);
        }
        Some(sum)
    }

    /// Records that the plan has reached the next read. If the read has not been announced, announces it, or skips it
    /// if one of its shards is not open.
    fn reach(&mut self, rank: &mut Rank) {
        match self.ahead.pop_front() {
            Some(bytes) => self.ahead_bytes -= bytes,
            None if self.announce_next(rank).is_none() => drop(self.coming.pop_front()),
            None => {}
        }
    }

    fn advance(&mut self, rank: &mut Rank) {
        while self.ahead_bytes < rank.case.window
            && let Some(bytes) = self.announce_next(rank)
        {
            self.ahead.push_back(bytes);
            self.ahead_bytes += bytes;
        }
    }
}

fn run(case: Case) -> Figures {
    let mut rank = Rank::new(case);
    let mut scout = Scout { steps: steps(&case), coming: VecDeque::new(), ahead: VecDeque::new(), ahead_bytes: 0 };
    let mut plan = steps(&case).peekable();
    let batches = plan.peek().map_or(0, |_| steps(&case).share().batches());
    let (mut waiting, mut taken, mut open) = (VecDeque::<Reading>::new(), 0_u64, 0_u64);
    let mut open_of = BTreeMap::new();
    let mut closing: BTreeMap<u64, u64> = BTreeMap::new();
    let mut quarter = (0, 0.0);
    while taken < batches {
        while let Some(step) = plan.next_if(|step: &Step| step.batch < taken + SLOTS) {
            if let Some(read) = &step.read {
                let bytes = (read.samples.end - read.samples.start) * case.sample_bytes;
                open_of.insert(step.read_start, bytes);
                open += bytes;
                rank.figures.peak_open = rank.figures.peak_open.max(open);
                rank.figures.reads += 1;
                scout.reach(&mut rank);
                let all = bytes_of(&case, read.samples.clone());
                waiting.extend(all.into_iter().map(|(shard, rest)| Reading { shard, rest, batch: step.batch }));
            }
            if step.done {
                *closing.entry(step.batch).or_default() += open_of.remove(&step.read_start).unwrap_or_default();
            }
        }
        scout.advance(&mut rank);
        let mut side = waiting.len().min(READERS);
        let mut at = 0;
        while at < side {
            if rank.read(&mut waiting[at]) {
                waiting.remove(at);
                side = waiting.len().min(READERS);
            } else {
                at += 1;
            }
        }
        rank.begin_all();
        if waiting.front().is_none_or(|reading| reading.batch > taken) {
            rank.pass(f64::from(case.batch) / case.taken_per_s);
            taken += 1;
            open -= closing.remove(&(taken - 1)).unwrap_or_default();
            rank.figures.samples += u64::from(case.batch);
            if taken == 1 {
                rank.figures.first_batch_s = rank.now;
            }
            if taken == batches.div_ceil(4) {
                quarter = (rank.figures.samples, rank.now);
            }
            continue;
        }
        rank.step();
    }
    let mut found = rank.figures;
    found.seconds = rank.now;
    found.steady = (found.samples - quarter.0, rank.now - quarter.1);
    (found.peak_in_flight, found.peak_held) = (rank.schedule.peak_in_flight, rank.schedule.peak_held);
    found
}

/// A single machine that consumes 3,000 samples/s. The first dataset is shuffled in runs of 4 MiB. The second dataset
/// fits into the shuffle window, and its samples are read one by one.
const ALONE: [(&str, Case); 2] = [
    (
        "110 GB, runs of 4 MiB",
        Case { samples: 1_000_000, shards: 100, ranks: 1, taken_per_s: 3e3, opened: true, ..CASE },
    ),
    ("0.9 GB, sample by sample", Case { samples: 8_192, shards: 8, ranks: 1, taken_per_s: 3e3, opened: true, ..CASE }),
];

#[test]
fn a_latency_of_100_ms_costs_nothing_if_the_device_is_the_limit() {
    for (name, case) in ALONE {
        let case = Case { samples: case.samples.min(100_000), ..case };
        let (near, far) = (run(Case { first_byte_s: 0.0, ..case }), run(case));
        assert!(near.samples_per_s() > 0.99 * case.taken_per_s, "{name}: {near:?}");
        assert!(far.samples_per_s() > 0.9 * near.samples_per_s(), "{name}: {far:?}");
        assert!(far.peak_held <= case.window && far.amplification(&case) < 1.3, "{name}: {far:?}");
    }
}

#[test]
#[ignore = "seconds with optimisation: cargo test --release -p shardpack-store --test store simulation -- --ignored \
            --nocapture"]
#[allow(clippy::print_stdout, reason = "the table is the purpose of this run")]
fn the_table() {
    let open = Case { opened: true, ..CASE };
    let lanes = Case { lanes: 15_360, ..CASE };
    let nodes = Case { ranks: 128, batch: 2048, opened: true, ..CASE };
    let wide = |case| Case { window: 768 << 20, ..case };
    let cases = [
        ("as it is, first epoch", CASE),
        ("as it is, later epochs", open),
        ("1,024 requests in flight, later epochs", Case { most_in_flight: 1024, ..open }),
        ("15,360 lanes, first epoch", lanes),
        ("15,360 lanes, later epochs", Case { opened: true, ..lanes }),
        ("15,360 lanes, 768 MiB ahead, first epoch", wide(lanes)),
        ("15,360 lanes, 768 MiB ahead, later epochs", wide(Case { opened: true, ..lanes })),
        ("1,000 shards of 11 GB, first epoch", Case { shards: 1_000, ..CASE }),
        ("128 ranks, later epochs", nodes),
        ("128 ranks, 1,920 lanes, later epochs", Case { lanes: 1_920, ..nodes }),
        ("128 ranks, 1,920 lanes, 768 MiB ahead, later epochs", wide(Case { lanes: 1_920, ..nodes })),
    ];
    println!(
        "| | samples/s | first batch, s | in flight | MB a request | ahead, MB | open reads, MB | indexes, MB | \
         amplification |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, case) in cases {
        let found = run(case);
        let mb = |bytes: u64| bytes / 1_000_000;
        let opened = if case.opened { case.shards } else { found.shards };
        println!(
            "| {name} | {:.0} | {:.1} | {} | {:.2} | {} | {} | {} | {:.2} |",
            found.samples_per_s(),
            found.first_batch_s,
            found.peak_in_flight,
            (found.data_bytes + found.index_bytes) as f64 / found.requests as f64 / 1e6,
            mb(found.peak_held),
            mb(found.peak_open),
            mb(opened * case.samples / case.shards * case.index_bytes),
            found.amplification(&case),
        );
    }
    println!("\n| | first byte, ms | samples/s | under way, mean | MB a request | ahead, MB | amplification |");
    println!("|---|---|---|---|---|---|---|");
    for (name, case) in ALONE {
        for first_byte_s in [0.0, 0.1, 0.3] {
            let case = Case { first_byte_s, ..case };
            let found = run(case);
            println!(
                "| {name} | {:.0} | {:.0} | {:.0} | {:.2} | {} | {:.2} |",
                first_byte_s * 1e3,
                found.samples_per_s(),
                found.in_flight(&case),
                found.data_bytes as f64 / found.requests as f64 / 1e6,
                found.peak_held / 1_000_000,
                found.amplification(&case),
            );
        }
    }
}

/// Simulates a run at a hundredth of the usual size. Each byte of the rank's share must be read exactly once, in
/// bounded memory, and as fast as the store and the number of requests allow.
#[test]
fn a_small_run_reads_each_byte_once_in_bounded_memory() {
    let case = Case { samples: 1_000_000, shards: 100, ranks: 16, opened: true, ..CASE };
    let found = run(case);
    assert_eq!(found, run(case), "the simulation is a pure function");
    assert_eq!(found.samples, 1_000_000 / (16 * 256) * 256);
    assert!(found.amplification(&case) < 1.1, "{found:?}");
    assert!(found.peak_held <= case.window, "{found:?}");
    assert!(found.peak_in_flight <= case.most_in_flight + READERS, "{found:?}");
    let each = found.data_bytes as f64 / found.requests as f64;
    let most = case.most_in_flight as f64 / (case.first_byte_s + each / case.bytes_per_s) * each;
    let rate = found.samples_per_s() * case.sample_bytes as f64;
    assert!(rate < 1.05 * most, "{rate} of {most}: {found:?}");
    // Without latency, the rate depends only on the bandwidth of the requests.
    let near = run(Case { first_byte_s: 0.0, ..case });
    assert!(near.samples_per_s() > found.samples_per_s(), "{near:?} {found:?}");
    let first = run(Case { opened: false, ..case });
    assert!(first.shards <= case.shards && first.shards > case.shards / 2, "{first:?}");
    assert!(first.index_bytes >= first.shards * 10_000 * case.index_bytes && first.first_batch_s > found.first_batch_s);
    assert_eq!(first.samples, found.samples);
}

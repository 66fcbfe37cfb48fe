//! Finds the stage that limits the speed from the figures of one epoch, and gives advice.

use super::epoch::Epoch;
use crate::cli::units;
use shardpack_array::Coder;
use shardpack_loader::LoaderOptions;

/// A stage keeps the cores busy if it uses at least this share of the core time.
const BUSY: f64 = 0.75;
/// Cores are scarce if threads wait for a core for at least this share of the time.
const QUEUED: f64 = 0.25;
/// The speed of a disk or a store matters only if it delivers at least this share of the bytes.
const FROM_DISK: f64 = 0.05;
/// Minimum duration of an epoch in seconds. A shorter epoch mostly measures the start of the
/// threads.
const SHORTEST_S: f64 = 0.02;
/// Share of the machine's memory that the page cache can probably use for a dataset.
const CACHED: f64 = 0.7;
/// Pictures count as oversized if their shorter side is at least this many times the side of the view.
const OVERSIZED: f64 = 2.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Disk,
    Network,
    /// The cores are busy copying from the page cache.
    Memory,
    Crc,
    Decode,
    Cores,
    /// The consumer takes batches too slowly, so loading is not the limit.
    Consumer,
    /// Too few samples are in flight to keep the threads busy.
    Slots,
    Device,
    /// The epoch was too short for a conclusion.
    Unclear,
}

impl Limit {
    /// Returns the name that `--json` uses.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Memory => "memory",
            Self::Crc => "crc",
            Self::Decode => "decode",
            Self::Cores => "cores",
            Self::Consumer => "consumer",
            Self::Slots => "slots",
            Self::Device => "device",
            Self::Unclear => "unclear",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Workload {
    pub(super) threads: usize,
    pub(super) cores: usize,
    pub(super) batch_size: u32,
    pub(super) slots: usize,
    /// True if samples are read individually.
    pub(super) single_reads: bool,
    pub(super) dataset_bytes: u64,
    pub(super) memory_bytes: Option<u64>,
    pub(super) content: WorkloadContent,
    pub(super) on_device: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum WorkloadContent {
    /// Fields are returned as stored, so nothing is decoded.
    Stored,
    Pictures {
        /// Side of the view in pixels, or `None` for whole pictures.
        side: Option<u32>,
        /// True if tiles or segment indexes let decoding skip parts outside the view.
        in_parts: bool,
        /// Mean length of the pictures' shorter sides in pixels, if the index contains the sizes.
        short_side: Option<f64>,
    },
    Arrays {
        /// The coder of the arrays, or `None` if unknown.
        coder: Option<Coder>,
    },
}

pub(super) fn limit(epoch: &Epoch, workload: &Workload) -> Limit {
    if epoch.samples == 0 || epoch.seconds < SHORTEST_S {
        return Limit::Unclear;
    }
    let idle = epoch.other_s(workload.threads);
    let reading = epoch.read_s + epoch.waited_for_data_s;
    let stages = [epoch.waited_for_slot_s, reading, epoch.crc_s, epoch.decode_s, idle];
    let largest = stages.iter().copied().fold(0.0, f64::max);
    let is = |seconds: f64| seconds >= largest;
    let matters = |bytes: u64| bytes as f64 > FROM_DISK * epoch.read_bytes as f64;
    let disk = match epoch.disk_bytes {
        Some(bytes) => matters(bytes),
        None => busy(epoch, workload) < BUSY,
    };
    let queued = epoch.queued_s.is_some_and(|seconds| seconds >= QUEUED * epoch.seconds * workload.threads as f64);
    // A CPU quota also leaves threads without cores, but does not show up as time waiting for a
    // core.
    let starved = queued || epoch.cpu_s < BUSY * (epoch.crc_s + epoch.decode_s);
    if is(reading) && matters(epoch.fetched_bytes) {
        Limit::Network
    } else if is(reading) && disk {
        Limit::Disk
    } else if starved {
        Limit::Cores
    } else if is(epoch.waited_for_slot_s) {
        Limit::Consumer
    } else if is(reading) {
        Limit::Memory
    } else if is(idle) && workload.on_device {
        Limit::Device
    } else if is(idle) {
        Limit::Slots
    } else if is(epoch.crc_s) {
        Limit::Crc
    } else if workload.content == WorkloadContent::Stored {
        Limit::Memory
    } else {
        Limit::Decode
    }
}

fn busy(epoch: &Epoch, workload: &Workload) -> f64 {
    let usable = workload.threads.min(workload.cores).max(1);
    (epoch.cpu_s / (epoch.seconds.max(1e-9) * usable as f64)).min(1.0)
}

pub(super) fn advice(limit: Limit, epoch: &Epoch, workload: &Workload) -> String {
    let &Workload { threads, cores, batch_size, slots, .. } = workload;
    let share = |seconds: f64| percent(seconds / (epoch.seconds * threads as f64));
    let all = match threads {
        1 => "the only thread is".to_owned(),
        2 => "both threads are".to_owned(),
        n => format!("all {n} threads are"),
    };
    match limit {
        Limit::Disk => disk(epoch, workload),
        Limit::Network => network(epoch, workload),
        Limit::Memory => {
            let what = match workload.content {
                WorkloadContent::Stored => "nothing is decoded, so any real use of the records will take longer",
                _ => "decoding takes less time than copying",
            };
            let more = match threads < cores {
                true => format!("pass `--threads {cores}` to copy on more cores"),
                false => "no option can improve this".into(),
            };
            let rate = units::rate(epoch.read_bytes, epoch.seconds);
            format!("copying is the limit: records are copied from memory at {rate}, and {what}; {more}")
        }
        Limit::Crc => {
            let rate = units::rate(epoch.read_bytes, epoch.seconds);
            let more = if threads < cores { format!("`--threads {cores}`") } else { "more cores".into() };
            format!("checksums are the limit: {all} busy computing checksums at {rate}; {more} would help")
        }
        Limit::Decode => {
            let change = match (threads < cores, &workload.content) {
                (true, _) => {
                    format!("the machine has {}: pass `--threads {cores}`", units::plural(cores as u64, "core"))
                }
                (false, content) => lighter(content),
            };
            format!("decoding is the limit: {all} busy decoding ({} of their time); {change}", share(epoch.decode_s))
        }
        Limit::Cores if threads > cores => format!(
            "the limit is the CPU: {threads} threads share {}; `--threads {cores}` is as fast and needs less memory",
            units::plural(cores as u64, "core"),
        ),
        Limit::Cores => format!(
            "the limit is the CPU: other programs took {} of it ({} got {} of {}); stop them, or raise the \
             container's quota",
            if busy(epoch, workload) < 0.5 { "most" } else { "a part" },
            if threads == 1 { "this thread" } else { "these threads" },
            percent(busy(epoch, workload)),
            if threads.min(cores) == 1 { "a core".to_owned() } else { format!("{} cores", threads.min(cores)) },
        ),
        Limit::Consumer => format!(
            "batches are consumed too slowly: threads waited {} of their time for a free slot (batches of {}); {}",
            share(epoch.waited_for_slot_s),
            units::bytes(epoch.output_bytes / epoch.batches.max(1)),
            match LoaderOptions::default_slots(false) {
                more if slots < more =>
                    format!("pass `--slots {more}` to let the threads work while a batch is in use"),
                _ => "raise `--batch-size` to make fewer, larger batches".to_owned(),
            },
        ),
        Limit::Slots => format!(
            "the threads have too little work: they were idle {} of their time with {} of {} each; {}",
            share(epoch.other_s(threads)),
            units::plural(slots as u64, "slot"),
            units::plural(u64::from(batch_size), "sample"),
            if epoch.batches <= slots as u64 {
                "the slots already hold the whole dataset, so use fewer threads"
            } else {
                "raise `--slots` or `--batch-size`"
            },
        ),
        Limit::Device => format!(
            "the device is the limit: threads were idle {} of their time while it copied and decoded; \
             raise `--batch-size` or `--slots` to keep it busier",
            share(epoch.other_s(threads)),
        ),
        Limit::Unclear => format!(
            "an epoch ({} in {}) is too short to tell what limits the speed; measure a larger dataset",
            units::plural(epoch.samples, "sample"),
            units::seconds(epoch.seconds),
        ),
    }
}

fn disk(epoch: &Epoch, workload: &Workload) -> String {
    let from = epoch.disk_bytes.map_or(epoch.read_bytes, |bytes| bytes.min(epoch.read_bytes));
    let busy = busy(epoch, workload).max(0.01);
    let (rate, needed) = (units::rate(from, epoch.seconds), units::rate(epoch.read_bytes, epoch.seconds * busy));
    let cores = workload.threads.min(workload.cores);
    let cores = if cores == 1 { "the core, which was".to_owned() } else { format!("the {cores} cores, which were") };
    let fits = workload.memory_bytes.is_some_and(|bytes| workload.dataset_bytes as f64 <= CACHED * bytes as f64);
    let size = units::bytes(workload.dataset_bytes);
    let change = match (&workload.content, workload.single_reads, fits) {
        (_, true, _) => "pass `--order windowed` to read runs of 4 MiB instead of single samples".to_owned(),
        (_, _, true) => format!(
            "the dataset, {size}, fits into memory, so only the first epoch waits for the disk (a faster \
             disk helps there)"
        ),
        (WorkloadContent::Arrays { .. }, ..) => "use a faster disk, more memory, or `pack --prefer size`".into(),
        _ => "use a faster disk, more memory, or smaller pictures (`pack --jpeg reencode`)".into(),
    };
    format!(
        "the disk is the limit: it delivered {rate}, but {cores} {} busy, could process {needed}; {change}",
        percent(busy)
    )
}

fn network(epoch: &Epoch, workload: &Workload) -> String {
    let change = match workload.single_reads {
        true => "pass `--order windowed` to request runs of 4 MiB instead of single samples",
        false => "use a machine closer to the store, or copy the dataset to a disk",
    };
    let rate = units::rate(epoch.read_bytes, epoch.seconds);
    format!("the network is the limit: it delivered {rate}; {change}")
}

fn lighter(content: &WorkloadContent) -> String {
    match content {
        WorkloadContent::Pictures { side: Some(side), in_parts: false, .. } => {
            format!(
                "`compact --segment-index` or `pack --jpeg tile` lets views of {side} × {side} decode only the \
                 visible parts; otherwise use more cores"
            )
        }
        WorkloadContent::Pictures { side: Some(side), short_side: Some(mean), .. }
            if *mean >= OVERSIZED * f64::from(*side) =>
        {
            format!(
                "the pictures' shorter side is {mean:.0} pixels on average: `pack --jpeg reencode --short-side {}` \
                 stores fewer pixels, with loss; otherwise use more cores",
                2 * side
            )
        }
        WorkloadContent::Pictures { side: None, .. } => {
            "if the model takes crops, load only those (`--image rrc224`); otherwise use more cores".into()
        }
        WorkloadContent::Arrays { coder: Some(coder @ (Coder::Zstd | Coder::Blosc2Zstd)) } => {
            let faster = Coder::Blosc2Lz4;
            format!(
                "`pack --codec {faster}` decodes faster than {coder}, and takes more space; otherwise use more cores"
            )
        }
        WorkloadContent::Pictures { .. } | WorkloadContent::Arrays { .. } | WorkloadContent::Stored => {
            "only more cores would help".into()
        }
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;

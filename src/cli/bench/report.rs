//! Prints the result of `bench`: a table for people, or a JSON object for programs.

use super::args::{BenchArgs, OrderArg};
use super::device;
use super::epoch::Epoch;
use super::limit::{Limit, advice, limit, percent};
use super::setup::Setup;
use crate::cli::{show, units};
use serde_json::{Value, json};
use shardpack_io::{CacheStats, Traffic};

pub(super) struct Report<'a> {
    pub(super) args: &'a BenchArgs,
    pub(super) setup: &'a Setup,
    pub(super) warm_up: Option<Epoch>,
    pub(super) epochs: Vec<Epoch>,
    pub(super) median: Epoch,
}

impl Report<'_> {
    fn limit(&self) -> Limit {
        limit(&self.median, &self.setup.workload)
    }

    fn advice(&self) -> String {
        advice(self.limit(), &self.median, &self.setup.workload)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.warm_up.iter().chain(&self.epochs).map(|epoch| epoch.skipped).sum()
    }

    pub(super) fn to_json(&self) -> Value {
        let (median, workload, stats) = (&self.median, &self.setup.workload, self.setup.loader.stats());
        let options = self.setup.loader.options();
        let mut report = json!({
            "samples_per_s": median.per_s(median.samples),
            "output_mb_per_s": median.per_s(median.output_bytes) / 1e6,
            "read_mb_per_s": median.per_s(median.read_bytes) / 1e6,
            "disk_mb_per_s": median.disk_bytes.map(|bytes| median.per_s(bytes) / 1e6),
            "cpu_s_per_sample": median.cpu_s_per_sample(),
            "peak_rss_bytes": stats.peak_rss_bytes,
            "predicted_bytes": self.setup.predicted_bytes(),
            "loader_bytes": stats.predicted_bytes,
            "limit": self.limit().name(),
            "advice": self.advice(),
            "samples": median.samples,
            "batches": median.batches,
            "seconds": median.seconds,
            "epochs": self.epochs.iter().map(epoch_json).collect::<Vec<_>>(),
            "warm_up": self.warm_up.as_ref().map(epoch_json),
            "thread_s": {
                "read": median.read_s,
                "crc": median.crc_s,
                "decode": median.decode_s,
                "waiting_for_data": median.waited_for_data_s,
                "waiting_for_slot": median.waited_for_slot_s,
                "other": median.other_s(workload.threads),
            },
            "consumer_wait_s": median.consumer_wait_s,
            "queue_fill": median.queue_fill,
            "waiting_for_core_s": median.queued_s,
            "device": device::to_json(&self.setup.loader),
            "skipped": self.skipped(),
            "grown_slots": stats.grown_slots,
            "window_in_page_cache": stats.window_in_page_cache,
            "options": {
                "image": self.setup.image,
                "cube": self.setup.cube,
                "bands": self.setup.bands,
                "dtype": self.setup.dtype,
                "device": self.args.device.to_string(),
                "mean": self.args.mean,
                "std": self.args.std,
                "fields": self.setup.loader.names().collect::<Vec<_>>(),
                "batch_size": workload.batch_size,
                "order": order(self.args.order),
                "seed": self.args.seed,
                "threads": workload.threads,
                "cores": workload.cores,
                "slots": workload.slots,
                "read_ahead_bytes": options.resources.read_ahead_bytes,
                "window": self.args.window.text,
                "cold": self.args.cold,
            },
        });
        report["options"]["lanes"] = (self.args.order == OrderArg::Windowed).then_some(options.order.lanes).into();
        report["options"]["max_batch_bytes"] = options.resources.max_batch_bytes.into();
        report["options"]["resident"] = self.args.resident.into();
        report["options"]["augment"] = self.args.augment.clone().into();
        report["options"]["augment_batch"] = self.args.augment_batch.clone().into();
        report["network"] = network_json(&stats.traffic);
        report
    }

    pub(super) fn to_text(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n",
            self.what() + &self.epochs_text(),
            self.time_text(),
            self.memory_text(),
            self.advice()
        )
    }

    fn order(&self) -> String {
        match self.args.lanes {
            None => order(self.args.order).to_owned(),
            Some(lanes) => format!("{} with {}", order(self.args.order), units::plural(lanes.into(), "lane")),
        }
    }

    fn what(&self) -> String {
        let (setup, workload) = (self.setup, &self.setup.workload);
        let dataset = setup.loader.dataset();
        let image = setup.image.as_ref().map(|view| format!("images {view}"));
        let bands = setup.bands.as_ref().map(|bands| format!(" with bands {bands}")).unwrap_or_default();
        let dtype = setup.dtype.as_ref().map(|dtype| format!(" as {dtype}")).unwrap_or_default();
        let parts = image.into_iter().chain(setup.cube.as_ref().map(|part| format!("arrays {part}{bands}{dtype}")));
        let changed = [&self.args.augment, &self.args.augment_batch].into_iter().flatten();
        let changed = changed.map(|list| format!("augmented by {list}"));
        let loaded = parts.chain(changed).map(|part| part + ", ").collect::<String>();
        format!(
            "{} in {}, {}: {loaded}batches of {}, order {}, {} on {}, {}, {}\n",
            units::plural(dataset.len(), "sample"),
            units::plural(dataset.shards().len() as u64, "shard"),
            units::bytes(workload.dataset_bytes),
            units::count(workload.batch_size.into()),
            self.order(),
            units::plural(workload.threads as u64, "thread"),
            units::plural(workload.cores as u64, "core"),
            units::plural(workload.slots as u64, "slot"),
            if self.args.cold { "cold" } else { "warm" },
        ) + &self.device_text()
    }

    /// Formats the figures of the device, followed by an empty line.
    fn device_text(&self) -> String {
        let loader = &self.setup.loader;
        let mut text = match loader.options().resources.stage {
            Some(_) => {
                let bytes = units::bytes(loader.predicted_device_bytes());
                let values = match loader.stats().resident_values {
                    0 => String::new(),
                    values => format!(", and for {} that stay on the device", units::plural(values, "value")),
                };
                format!("on {}: {bytes} for batches{values}\n", self.args.device)
            }
            None => String::new(),
        };
        for refusal in loader.refusals() {
            let rows = units::plural(refusal.rows, "row");
            text += &format!(
                "decoded on the host: {rows} ({}); first samples: {}\n",
                refusal.reason,
                refusal.first.join(", ")
            );
        }
        text + "\n"
    }

    fn epochs_text(&self) -> String {
        let row = |name: String, epoch: &Epoch| {
            vec![
                name,
                units::seconds(epoch.seconds),
                units::count(whole(epoch.per_s(epoch.samples))),
                units::rate(epoch.output_bytes, epoch.seconds),
                units::rate(epoch.read_bytes, epoch.seconds),
                epoch.disk_bytes.map_or("unknown".into(), |bytes| units::rate(bytes, epoch.seconds)),
                short_time(epoch.cpu_s_per_sample()),
            ]
        };
        let mut rows: Vec<Vec<String>> = self.warm_up.iter().map(|epoch| row("warm-up".into(), epoch)).collect();
        rows.extend((1..).zip(&self.epochs).map(|(i, epoch): (u32, _)| row(i.to_string(), epoch)));
        if self.epochs.len() > 1 {
            rows.push(row("median".into(), &self.median));
        }
        show::table(&["epoch", "time", "samples/s", "output", "read", "from disk", "CPU/sample"], &rows)
    }

    fn time_text(&self) -> String {
        let (median, threads) = (&self.median, self.setup.workload.threads);
        let all = median.seconds * threads as f64;
        let rows = [
            ("reading", median.read_s),
            ("CRC32", median.crc_s),
            ("decoding", median.decode_s),
            ("waiting for data", median.waited_for_data_s),
            ("waiting for a slot", median.waited_for_slot_s),
            ("anything else", median.other_s(threads)),
        ];
        let rows =
            rows.map(|(name, seconds)| vec![name.to_owned(), percent(seconds / all.max(1e-9)), short_time(seconds)]);
        let whose = if threads == 1 { "the thread".to_owned() } else { format!("the {threads} threads") };
        let queued = median
            .queued_s
            .map(|seconds| format!("; the threads waited for a core {} of the time", percent(seconds / all.max(1e-9))));
        format!(
            "time of {whose}, {} in total{}\n{}\n\
             the consumer waited {} of the time, and found {:.1} batches ready on average; {} skipped\n",
            units::seconds(all),
            queued.unwrap_or_default(),
            show::table(&["stage", "share", "time"], &rows),
            percent(median.consumer_wait_s / median.seconds),
            median.queue_fill,
            units::plural(self.skipped(), "damaged sample"),
        )
    }

    fn memory_text(&self) -> String {
        let stats = self.setup.loader.stats();
        let grown = match stats.grown_slots {
            0 => String::new(),
            n => format!("; {} reallocated because a batch was larger", units::plural(n, "slot")),
        };
        let held = if stats.window_in_page_cache {
            "slots; the page cache holds the window"
        } else {
            "slots, window and read-ahead"
        };
        network_text(&stats.traffic)
            + &format!(
                "memory: {} at most, {} predicted ({} before the loader, {} for {held}){grown}\n",
                units::bytes(stats.peak_rss_bytes),
                units::bytes(self.setup.predicted_bytes()),
                units::bytes(self.setup.resident_bytes),
                units::bytes(stats.predicted_bytes),
            )
    }
}

/// Formats the requests to a store in all epochs. Returns an empty string for a local disk.
pub(super) fn network_text(traffic: &Traffic) -> String {
    if traffic.requests == 0 {
        return cache_text(&traffic.cache);
    }
    let hedges = match traffic.hedges {
        0 => String::new(),
        n => format!(", {} sent twice because the first response was slow", units::count(n)),
    };
    format!(
        "network: {} for {}; {} retried{hedges}; at most {} in flight, {} held\n",
        units::plural(traffic.requests, "request"),
        units::bytes(traffic.fetched_bytes),
        units::count(traffic.retries),
        units::count(traffic.peak_in_flight),
        units::bytes(traffic.peak_held_bytes),
    ) + &cache_text(&traffic.cache)
}

fn cache_text(cache: &CacheStats) -> String {
    if *cache == CacheStats::default() {
        return String::new();
    }
    let more = [
        (cache.evicted, "evicted"),
        (cache.dropped, "damaged"),
        (cache.failed_writes, "could not be written (the cache then stopped growing)"),
    ];
    let more: String =
        more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {} {what}", units::count(*n))).collect();
    format!(
        "cache: {} of {} found, {}{more}\n",
        units::count(cache.hits),
        units::plural(cache.hits + cache.misses, "block"),
        units::bytes(cache.hit_bytes),
    )
}

/// Returns the requests to a store as JSON, or `null` for a local disk.
pub(super) fn network_json(traffic: &Traffic) -> Value {
    match traffic.requests {
        0 => Value::Null,
        requests => json!({
            "requests": requests,
            "retried_requests": traffic.retries,
            "hedged_requests": traffic.hedges,
            "fetched_bytes": traffic.fetched_bytes,
            "peak_requests_in_flight": traffic.peak_in_flight,
            "peak_held_bytes": traffic.peak_held_bytes,
            "cache": {
                "hits": traffic.cache.hits,
                "misses": traffic.cache.misses,
                "hit_bytes": traffic.cache.hit_bytes,
                "evicted": traffic.cache.evicted,
                "dropped": traffic.cache.dropped,
                "failed_writes": traffic.cache.failed_writes,
            },
        }),
    }
}

fn epoch_json(epoch: &Epoch) -> Value {
    json!({
        "seconds": epoch.seconds,
        "samples_per_s": epoch.per_s(epoch.samples),
        "read_mb_per_s": epoch.per_s(epoch.read_bytes) / 1e6,
        "disk_mb_per_s": epoch.disk_bytes.map(|bytes| epoch.per_s(bytes) / 1e6),
        "cpu_s": epoch.cpu_s,
        "skipped": epoch.skipped,
    })
}

const fn order(order: OrderArg) -> &'static str {
    match order {
        OrderArg::Stored => "stored",
        OrderArg::Windowed => "windowed",
        OrderArg::Full => "full",
    }
}

/// Formats a duration like [`units::seconds`], but in microseconds below a tenth of a millisecond.
fn short_time(seconds: f64) -> String {
    if seconds == 0.0 {
        "0 s".into()
    } else if seconds < 1e-4 {
        format!("{:.1} µs", seconds * 1e6)
    } else {
        units::seconds(seconds)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only displayed, and never negative")]
const fn whole(value: f64) -> u64 {
    value.round() as u64
}

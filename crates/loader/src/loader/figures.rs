//! Collects the statistics of a loader.

use super::Loader;
use super::open::device_bytes;
use crate::planner::Held;
use crate::planner::Predicted;
use crate::stage::Refusal;
use crate::stats::{LoaderStats, seconds};
use shardpack_base::peak_rss_bytes;
use std::sync::atomic::Ordering;

impl Loader {
    /// Returns the statistics collected since the loader was opened.
    #[must_use]
    pub fn stats(&self) -> LoaderStats {
        let counters = &self.shared.counters;
        let mut stats = LoaderStats {
            batches: self.batches,
            output_bytes: self.handed_bytes,
            read_bytes: counters.read_bytes.load(Ordering::Relaxed),
            narrowed_pictures: self.narrowed_pictures(),
            wrong_indexes: counters.wrong_indexes.load(Ordering::Relaxed),
            read_s: seconds(&counters.read),
            crc_s: seconds(&counters.crc),
            decode_s: seconds(&counters.decode),
            idle_for_consumer_s: seconds(&counters.idle_for_consumer),
            idle_for_data_s: seconds(&counters.idle_for_data),
            consumer_wait_s: self.waited.as_secs_f64(),
            queue_fill: if self.asked > 0 { self.found_ready as f64 / self.asked as f64 } else { 0.0 },
            peak_rss_bytes: peak_rss_bytes(),
            predicted_bytes: self.predicted_bytes(),
            traffic: self.dataset.traffic(),
            window_in_page_cache: self.held != Held::Memory,
            resident_values: self.resident.as_ref().map_or(0, |resident| resident.values),
            ..Default::default()
        };
        if !self.shared.is_forked() {
            let state = self.shared.state();
            stats.samples = state.samples;
            stats.skipped = state.skipped;
            stats.extra_slots = state.extra_slots;
            stats.grown_slots =
                state.grown_slots + self.options.resources.stage.as_ref().map_or(0, |stage| stage.growths());
            stats.device_rows = state.device_rows;
            stats.peak_run_bytes = state.peak_run_bytes();
        }
        stats
    }

    /// Returns the number of pictures so far that had more than 8 bits per sample and were reduced to 8. Faster than
    /// [`Loader::stats`], which returns the same number.
    #[must_use]
    pub fn narrowed_pictures(&self) -> u64 {
        self.shared.counters.narrowed.load(Ordering::Relaxed)
    }

    /// Returns, for each reason, the number of rows that the host decoded because the stage refused them or could not
    /// decode them.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        self.shared.refusals.list()
    }

    /// Returns the number of bytes used on the stage's device: slots, resident values and, approximately, the
    /// scenes kept while several of their patches are loaded. Returns 0 without a stage.
    #[must_use]
    pub fn predicted_device_bytes(&self) -> u64 {
        let kept = self.resident.as_ref().map_or(0, |resident| resident.device_bytes());
        let slots = device_bytes(&self.options, &self.epochs.predicted);
        let is_staged = self.fields.patches.as_ref().is_some_and(|patches| patches.is_staged);
        let stage = self.options.resources.stage.as_ref().filter(|_| is_staged && self.resident.is_none());
        let Predicted { run_bytes, scenes_ahead, .. } = self.epochs.predicted;
        let fields = self.fields.plans.iter().filter(|plan| plan.staged).count() as u64;
        let scenes = stage.map_or(0, |stage| stage.scene_bytes(run_bytes, scenes_ahead.saturating_mul(fields)));
        slots.saturating_add(kept).saturating_add(scenes)
    }

    /// Returns the loader's memory in bytes, without the indexes of the dataset. It consists of the slots, the
    /// threads' scratch memory, and the memory of the storage
    /// ([`Dataset::read_ahead_bytes`](crate::Dataset::read_ahead_bytes)). It also includes the order's window and the
    /// bytes read ahead, unless the page cache holds them ([`Window`](crate::Window)). The result is the maximum over
    /// all epochs.
    #[must_use]
    pub const fn predicted_bytes(&self) -> u64 {
        self.predicted_bytes
    }
}

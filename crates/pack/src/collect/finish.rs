//! The end of a collector: a dataset, or the next generation of one.

use super::commit::Records;
use super::error::{CollectError, Result};
use super::layout::Layout;
use super::report::{self, Appended, CollectReport};
use super::{Collector, Place, State, complete, lock};
use shardpack_format::{DatasetId, Metadata, Schema};
use shardpack_writer::{Claim, Plan, PlanOptions, PlanSample, Progress, Report, WriteOptions};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

impl Collector {
    /// Writes the dataset: plans it, copies the records into shards, and ends with the manifest.
    /// First waits for samples that other threads are adding.
    ///
    /// `on_progress` is called on this thread, about ten times a second. Set `cancel` to stop.
    /// After an error, or after `cancel`, the samples are still there. Call it again to continue
    /// after the last finished shard.
    ///
    /// # Errors
    /// `Usage` without samples, and once the dataset is complete; `Writer` as
    /// [`write_dataset`](shardpack_writer::write_dataset) says.
    pub fn commit(
        &self,
        on_progress: Option<&dyn Fn(&Progress)>,
        cancel: Option<&AtomicBool>,
    ) -> Result<CollectReport> {
        let mut committed = self.committed.write().unwrap_or_else(PoisonError::into_inner);
        if *committed {
            return Err(complete());
        }
        let Some(layout) = lock(&self.layout).clone() else {
            return Err(CollectError::usage("samples", "at least one", "none", ""));
        };
        let mut state = lock(&self.state);
        if let Some(behind) = self.behind()
            && behind.is_complete(state.entries.len() as u64)?
        {
            let (report, appended) = behind.unchanged()?;
            *committed = true;
            return Ok(self.report(report, Some(appended), &layout, &state, 0));
        }
        match self.options.shuffle {
            // Sort as in a folder listing, whichever thread came first.
            Some(_) => state.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key)),
            None => state.entries.sort_unstable_by_key(|entry| entry.sequence),
        }
        let (metadata, dropped) = match self.behind() {
            Some(behind) => (behind.metadata(), None),
            None => {
                let (schema, dropped) = self.final_schema(&layout, state.has_icc)?;
                let (classes, recipe) = (self.options.classes.clone(), report::recipe(&layout, &self.options));
                (Metadata { schema, classes, recipe, shards: None }, dropped)
            }
        };
        let schema = metadata.schema.clone();
        let samples = state.entries.iter().map(|entry| PlanSample {
            key: &entry.key,
            source_bytes: entry.source_bytes,
            stored_bytes: entry.span.bytes,
            mtime_ns: 0,
            extra_digest: entry.digest,
        });
        let plan = PlanOptions { shard_bytes: self.options.shard_bytes, shuffle: self.options.shuffle };
        let plan = Plan::new(samples, metadata, plan)?;
        let records =
            Records { spool: &self.spool, entries: &state.entries, layout: &layout, schema: &schema, dropped };
        let largest = state.entries.iter().map(|entry| entry.span.bytes.saturating_mul(2)).max().unwrap_or(0);
        let threads = self.options.threads;
        let memory_bytes = self.options.memory_bytes.unwrap_or_else(|| crate::pack::default_memory(threads, largest));
        let write = WriteOptions { threads, memory_bytes, part: None, force: false, on_progress, cancel };
        let (report, appended) = match &self.place {
            Place::Behind(behind) => {
                let (report, appended) = behind.write(plan, &records, &write)?;
                (report, Some(appended))
            }
            Place::New { claim, begun } => (self.write_new(claim, begun, &plan, &records, write)?, None),
        };
        *committed = true;
        Ok(self.report(report, appended, &layout, &state, memory_bytes))
    }

    fn write_new(
        &self,
        claim: &Claim,
        begun: &Mutex<Option<DatasetId>>,
        plan: &Plan,
        records: &Records<'_>,
        write: WriteOptions<'_>,
    ) -> Result<Report> {
        // An earlier try belongs to this collector: continue it if the samples are the same, else
        // replace it.
        let earlier = lock(begun).replace(plan.dataset_id());
        if let Some(earlier) = earlier.filter(|earlier| *earlier != plan.dataset_id()) {
            claim.discard(earlier)?;
        }
        let force = self.options.force && !claim.has_begun(plan.dataset_id())?;
        let report = claim.write_dataset(plan, records, &WriteOptions { force, ..write })?;
        *lock(begun) = None;
        Ok(report)
    }

    fn report(
        &self,
        report: Report,
        appended: Option<Appended>,
        layout: &Layout,
        state: &State,
        memory_bytes: u64,
    ) -> CollectReport {
        let classes = self.options.classes.as_ref().map_or(0, |classes| classes.len() as u64);
        let (trials, deep_pictures) = (report::trials(layout), state.deep_pictures);
        let banded_pictures = state.banded_pictures;
        let mut odd_pictures = state.odd_pictures.clone();
        // Threads may have added the samples in any order.
        odd_pictures.sort_by(|a, b| (&a.key, &a.what).cmp(&(&b.key, &b.what)));
        CollectReport { report, classes, memory_bytes, deep_pictures, banded_pictures, odd_pictures, trials, appended }
    }

    /// The schema of the dataset, and the stored field of the spool that it leaves out: profiles,
    /// if no picture had one.
    fn final_schema(&self, layout: &Layout, has_icc: bool) -> Result<(Schema, Option<usize>)> {
        let icc = crate::export::ICC_FIELD;
        if !layout.has_icc || has_icc {
            return Ok((layout.schema.clone(), None));
        }
        let fields = layout.schema.fields().iter().filter(|field| field.name != icc).cloned().collect();
        Ok((Schema::new(fields)?, layout.schema.stored_position(icc)))
    }
}

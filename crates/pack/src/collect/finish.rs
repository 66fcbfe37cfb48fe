//! Writes the collected samples as a new dataset, or as the next generation of an existing one.

use super::commit::SpooledSamples;
use super::error::{CollectError, Result};
use super::layout::ProgramLayout;
use super::report::{self, Appended, CollectReport};
use super::{AddedSamples, CollectTarget, Collector, complete};
use crate::encode::PictureRecorder;
use crate::lock::lock;
use shardpack_format::{DatasetId, Metadata, Schema};
use shardpack_writer::{Plan, PlanOptions, PlanSample, Progress, Report, Reservation, WriteOptions};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

impl Collector {
    /// Writes the dataset. Waits for samples that other threads are still adding, plans the dataset, copies the
    /// records into shards, and writes the manifest.
    ///
    /// `on_progress` is called on this thread about ten times a second. Setting `cancel` stops the commit.
    /// After an error or a cancellation, the next `commit` continues after the last finished shard.
    ///
    /// # Errors
    /// `Usage` if there are no samples or the dataset is already complete; `Writer` as in
    /// [`write_dataset`](shardpack_writer::write_dataset).
    pub fn commit(
        &self,
        on_progress: Option<&dyn Fn(&Progress)>,
        cancel: Option<&AtomicBool>,
    ) -> Result<CollectReport> {
        let mut committed = self.committed.write().unwrap_or_else(PoisonError::into_inner);
        if *committed {
            return Err(complete());
        }
        let none = || CollectError::usage("no samples were added", "");
        let layout = lock(&self.layout).clone().ok_or_else(none)?;
        let mut added = lock(&self.added);
        if let Some(addition) = self.addition()
            && addition.held.is_complete(added.samples.len() as u64)?
        {
            let (report, appended) = addition.unchanged()?;
            *committed = true;
            return Ok(self.report(report, Some(appended), &layout, &added, 0));
        }
        if added.samples.is_empty() {
            return Err(none());
        }
        match self.options.shuffle {
            // Sort by key, as in a folder listing, because the result must not depend on which thread adds a
            // sample first.
            Some(_) => added.samples.sort_unstable_by(|a, b| a.key.cmp(&b.key)),
            None => added.samples.sort_unstable_by_key(|sample| sample.sequence),
        }
        let (metadata, dropped) = match self.addition() {
            Some(addition) => (addition.metadata(), None),
            None => {
                let (schema, dropped) = self.final_schema(&layout, added.pictures.has_profile)?;
                let (classes, recipe) = (self.options.classes.clone(), report::recipe(&layout, &self.options));
                (Metadata { schema, classes, recipe, shards: None }, dropped)
            }
        };
        let schema = metadata.schema.clone();
        let samples = added.samples.iter().map(|sample| PlanSample {
            key: &sample.key,
            source_bytes: sample.source_bytes,
            stored_bytes: sample.span.bytes,
            mtime_ns: 0,
            extra_digest: sample.digest,
        });
        let plan = PlanOptions { shard_bytes: self.options.shard_bytes, shuffle: self.options.shuffle };
        let plan = Plan::new(samples, metadata, plan)?;
        let records =
            SpooledSamples { spool: &self.spool, samples: &added.samples, layout: &layout, schema: &schema, dropped };
        let largest = added.samples.iter().map(|sample| sample.span.bytes.saturating_mul(2)).max().unwrap_or(0);
        let threads = self.options.threads;
        let memory_bytes = self.options.memory_bytes.unwrap_or_else(|| crate::pack::default_memory(threads, largest));
        let write = WriteOptions { threads, memory_bytes, part: None, force: false, on_progress, cancel };
        let (report, appended) = match &self.target {
            CollectTarget::Behind(addition) => {
                let (report, appended) = addition.write(plan, &records, &write)?;
                (report, Some(appended))
            }
            CollectTarget::New { reservation, begun } => {
                (self.write_new(reservation, begun, &plan, &records, write)?, None)
            }
        };
        *committed = true;
        Ok(self.report(report, appended, &layout, &added, memory_bytes))
    }

    fn write_new(
        &self,
        reservation: &Reservation,
        begun: &Mutex<Option<DatasetId>>,
        plan: &Plan,
        records: &SpooledSamples<'_>,
        write: WriteOptions<'_>,
    ) -> Result<Report> {
        // Continue an earlier attempt of this collector if it had the same samples. Otherwise discard that attempt.
        let earlier = lock(begun).replace(plan.dataset_id());
        if let Some(earlier) = earlier.filter(|earlier| *earlier != plan.dataset_id()) {
            reservation.discard(earlier)?;
        }
        let force = self.options.force && !reservation.has_begun(plan.dataset_id())?;
        let report = reservation.write_dataset(plan, records, &WriteOptions { force, ..write })?;
        *lock(begun) = None;
        Ok(report)
    }

    fn report(
        &self,
        report: Report,
        appended: Option<Appended>,
        layout: &ProgramLayout,
        added: &AddedSamples,
        memory_bytes: u64,
    ) -> CollectReport {
        let classes = self.options.classes.as_ref().map_or(0, |classes| classes.len() as u64);
        let (trials, pictures) = (report::trials(layout), &added.pictures);
        let (deep_pictures, banded_pictures) = (pictures.deep, pictures.banded);
        let mut odd_pictures = pictures.odd.clone();
        odd_pictures.sort_by(|a, b| (&a.key, &a.what).cmp(&(&b.key, &b.what)));
        CollectReport { report, classes, memory_bytes, deep_pictures, banded_pictures, odd_pictures, trials, appended }
    }

    /// Returns the dataset's schema, and the position of the profile field if the schema omits it because no
    /// picture has a profile.
    fn final_schema(&self, layout: &ProgramLayout, has_profile: bool) -> Result<(Schema, Option<usize>)> {
        let Some(position) = layout.profile_position().filter(|_| !has_profile) else {
            return Ok((layout.schema.clone(), None));
        };
        let fields = layout.schema.fields().iter().filter(|field| field.name != PictureRecorder::PROFILE).cloned();
        Ok((Schema::new(fields.collect())?, Some(position)))
    }
}

//! Commits an addition as the next generation.

use super::{Addition, BegunCommit};
use crate::collect::commit::SpooledSamples;
use crate::collect::error::{CollectError, Result};
use crate::collect::report::Appended;
use crate::lock::lock;
use crate::pack::NextGeneration;
use shardpack_format::Metadata;
use shardpack_writer::{Growth, Plan, Report, WriteOptions};

impl Addition {
    pub(crate) fn metadata(&self) -> Metadata {
        let base = self.growth.manifest();
        let (schema, recipe) = (base.schema.clone(), base.shard_recipe());
        Metadata { schema, classes: self.classes.clone(), recipe, shards: None }
    }

    pub(crate) fn write(
        &self,
        plan: Plan,
        records: &SpooledSamples<'_>,
        options: &WriteOptions<'_>,
    ) -> Result<(Report, Appended)> {
        let base = self.growth.manifest();
        let count = plan.sample_count();
        let plan = plan.behind(base, self.first_id)?.of_program();
        let begun = *lock(&self.begun);
        if begun.is_some_and(|begun| begun.samples != count) {
            self.growth.clear(false)?;
        }
        // An earlier attempt may already have written its manifest. `next_generation` would then
        // return a different number, so reuse the number of that attempt.
        let generation = begun.map_or_else(|| self.growth.next_generation(), |begun| Ok(begun.generation))?;
        *lock(&self.begun) = Some(BegunCommit { samples: count, generation });
        let next = NextGeneration { growth: &self.growth, opened: &self.held.opened };
        let mut report = next.write::<CollectError>(&plan, records, options)?;
        *lock(&self.begun) = None;
        let all = self.classes.as_deref().unwrap_or_default();
        let new_classes = all.iter().skip(all.len().saturating_sub(self.new_classes)).cloned().collect();
        let samples = self.held.opened.len().saturating_add(count);
        let notes = std::mem::take(&mut report.notes);
        Ok((report, self.appended(generation, samples, new_classes, notes)))
    }

    /// Returns the report for an addition that contains no new samples.
    pub(crate) fn unchanged(&self) -> Result<(Report, Appended)> {
        let mut report = self.growth.unchanged()?;
        report.samples = 0;
        let generation = self.growth.manifest().generation();
        Ok((report, self.appended(generation, self.held.opened.len(), Vec::new(), Vec::new())))
    }

    fn appended(&self, generation: u32, samples: u64, new_classes: Vec<String>, more: Vec<String>) -> Appended {
        let notes = more.into_iter().chain(self.held.notes()).collect();
        Appended { generation, samples, new_classes, known: self.held.count(), notes }
    }

    /// Discards an unfinished commit, because the spool and its samples are lost. If the new
    /// generation is already complete, this writer or the next one renames it into place.
    pub(crate) fn discard(&self) {
        if lock(&self.begun).take().is_some() {
            let _ = Growth::clear(&self.growth, false);
        }
    }
}

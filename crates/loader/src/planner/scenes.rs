//! Tracks the next scenes and their requested patches ahead of the batches, so that threads decode the next scene
//! while the patches of the current one are copied to batches.

use crate::openings::Shards;
use crate::order::{Sources, Step, Steps};
use crate::patches::PatchPlan;
use crate::plan::PlannedRun;
use crate::sample::RunKey;
use crate::supply::SceneRead;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Scenes {
    epoch: u32,
    /// Maximum number of scenes that may be tracked before batches reach them.
    most: u64,
    ahead: Steps,
    drawn: VecDeque<Step>,
    /// Number of batches in earlier epochs.
    first: u64,
    /// Number of scenes tracked so far, including scenes of earlier epochs.
    met: u64,
    open: HashMap<RunKey, Arc<SceneRead>>,
}

/// Returns the index of a step's draw among the draws of its sample, modulo 2³². Two draws with the same
/// index are too far apart to matter.
pub(crate) fn draw_of(step: &Step) -> u32 {
    u32::try_from(step.repetition & u64::from(u32::MAX)).unwrap_or_default()
}

impl Scenes {
    pub(crate) fn new(epoch: u32, most: u64, ahead: Steps) -> Self {
        Self { epoch, most, ahead, drawn: VecDeque::new(), first: 0, met: 0, open: HashMap::new() }
    }

    /// Continues the counts of earlier epochs, which had `batches` batches and `scenes` scenes.
    pub(crate) fn after(self, batches: u64, scenes: u64) -> Self {
        Self { first: batches, met: scenes, ..self }
    }

    pub(crate) fn of(&self, key: RunKey) -> Option<Arc<SceneRead>> {
        self.open.get(&key).cloned()
    }

    pub(crate) fn forget(&mut self, key: RunKey) {
        self.open.remove(&key);
    }

    pub(crate) fn forget_all(&mut self, closed: &mut Vec<RunKey>) {
        closed.extend(self.open.drain().map(|(key, _)| key));
    }

    pub(crate) fn know(&mut self, key: RunKey, sample: u64, step: &Step, plan: &PatchPlan) {
        let Some(patches) = step.read.as_ref().and_then(|read| read.patches.as_ref()) else { return };
        self.open.entry(key).or_insert_with(|| {
            let (repetition, row_bytes, is_stored) = (draw_of(step), plan.row_bytes as u64, plan.is_staged);
            Arc::new(SceneRead {
                sample,
                epoch: self.epoch,
                repetition,
                patches: patches.clone(),
                row_bytes,
                is_stored,
            })
        });
    }

    fn next(&mut self) -> Option<Step> {
        self.drawn.pop_front().or_else(|| self.ahead.find(|step| step.read.is_some()))
    }

    /// Returns the steps that the next call of [`Scenes::advance`] will process. `begun` is the number of scenes that
    /// batches have reached.
    pub(crate) fn draw(&mut self, begun: u64) -> impl Iterator<Item = &Step> {
        while self.met + (self.drawn.len() as u64) < begun.saturating_add(self.most) {
            let Some(step) = self.ahead.find(|step| step.read.is_some()) else { break };
            self.drawn.push_back(step);
        }
        self.drawn.iter()
    }

    /// Tracks scenes up to the maximum distance ahead of the batches, which have reached `begun` scenes. Scenes that no
    /// batch has reached yet are added to `coming`.
    pub(crate) fn advance(
        &mut self,
        shards: &Shards,
        sources: &Sources,
        plan: &PatchPlan,
        begun: u64,
        coming: &mut Vec<(u64, PlannedRun)>,
    ) {
        while self.met < begun.saturating_add(self.most) {
            let Some(step) = self.next() else { return };
            self.met += 1;
            // Batches have reached this scene, so it is already tracked and may even be finished.
            if self.met <= begun {
                continue;
            }
            let Some(source) = sources.samples(step.at.source) else { continue };
            let sample = source.start.saturating_add(step.at.sample);
            // Ignore errors. The batch of this sample reports them.
            let Ok((number, record)) = shards.dataset.locate(sample) else { continue };
            let Ok(shard) = shards.get(number) else { continue };
            let key = RunKey { epoch: self.epoch, sample, pass: step.pass };
            self.know(key, sample, &step, plan);
            let records = record..record + 1;
            let scene = self.of(key);
            coming.push((self.first + step.batch, PlannedRun { key, shard, records, scene }));
        }
    }
}

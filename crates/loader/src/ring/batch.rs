//! A batch on its way from the plan to the caller: its state, its slot, and its rows that are ready for
//! decoding or have failed.

use crate::fault;
use crate::plan::BatchPlan;
use crate::rows::{RowMut, Rows};
use crate::sample::{RowId, SampleAt};
use crate::stage::RowFault;
use crate::supply::Supply;
use crate::task::RowTask;
use shardpack_format::{bug, to_usize};
use shardpack_reader::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) struct OpenBatch {
    pub(crate) plan: BatchPlan,
    pub(crate) state: BatchState,
    pub(crate) work: BatchWork,
}

/// State of a batch. The batch has a slot in every state except the first and the last.
///
/// ```text
/// Waiting ──▶ Filling ──▶ Done                                      made by the host
///    │           └──────▶ Prepared ──▶ Submitted ──▶ Done           made on a device
///    │                                    └──▶ Odd ──▶ Mending ──▶ Done
///    └──▶ Failed                                                    no memory for it
/// ```
pub(crate) enum BatchState {
    Waiting,
    /// Rows are being decoded, or prepared for a stage. The number is the count of remaining rows.
    Filling(Arc<Rows>, usize),
    Prepared(Arc<Rows>),
    Submitted(Arc<Rows>),
    /// The device could not decode some values ([`BatchWork::odd`]).
    Odd(Arc<Rows>),
    Mending(Arc<Rows>),
    /// The batch is ready for the caller, unless it has an error.
    Done(Arc<Rows>),
    /// Memory could not be allocated. The batch is an error, and its rows are not decoded.
    Failed,
}

impl BatchState {
    pub(crate) const fn slot(&self) -> Option<&Arc<Rows>> {
        match self {
            Self::Waiting | Self::Failed => None,
            Self::Filling(slot, _)
            | Self::Prepared(slot)
            | Self::Submitted(slot)
            | Self::Odd(slot)
            | Self::Mending(slot)
            | Self::Done(slot) => Some(slot),
        }
    }

    pub(crate) fn into_slot(self) -> Option<Arc<Rows>> {
        self.slot().map(Arc::clone)
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting)
    }

    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed)
    }

    fn go_on(&mut self, next: impl FnOnce(Arc<Rows>) -> Self) {
        if let Some(slot) = self.slot() {
            *self = next(Arc::clone(slot));
        }
    }
}

/// Work lists of a batch. The loader keeps their memory for later batches.
#[derive(Default)]
pub(crate) struct BatchWork {
    pub(crate) handles: Vec<Option<RowMut>>,
    /// Rows that can be decoded, and their supplies.
    pub(crate) ready: VecDeque<(u32, Option<Arc<Supply>>)>,
    pub(crate) faults: Vec<(u32, Error)>,
    /// Values that the device could not decode. The host decodes them.
    pub(crate) odd: Vec<RowFault>,
    pub(crate) staged: u64,
}

impl OpenBatch {
    pub(crate) fn new(plan: BatchPlan, work: BatchWork) -> Self {
        Self { plan, state: BatchState::Waiting, work }
    }

    pub(crate) const fn has_slot(&self) -> bool {
        self.state.slot().is_some()
    }

    /// Starts filling the slot, whose handles are already in [`BatchWork::handles`].
    pub(crate) fn begin(&mut self, slot: Arc<Rows>) {
        self.state = BatchState::Filling(slot, self.plan.rows.len());
        self.check_filled();
    }

    pub(crate) fn row_done(&mut self) -> bool {
        if let BatchState::Filling(_, left) = &mut self.state {
            *left = left.saturating_sub(1);
        }
        self.check_filled();
        self.state.is_over()
    }

    fn check_filled(&mut self) {
        if let BatchState::Filling(slot, 0) = &self.state {
            let is_staged = slot.stage().is_some();
            self.state.go_on(if is_staged { BatchState::Prepared } else { BatchState::Done });
        }
    }

    pub(crate) fn submit(&mut self) -> Option<Arc<Rows>> {
        let BatchState::Prepared(slot) = &self.state else { return None };
        let slot = Arc::clone(slot);
        self.state.go_on(BatchState::Submitted);
        Some(slot)
    }

    pub(crate) fn decoded(&mut self, odd: Vec<RowFault>) {
        self.state.go_on(if odd.is_empty() { BatchState::Done } else { BatchState::Odd });
        self.work.odd = odd;
    }

    pub(crate) fn mending(&mut self) {
        self.state.go_on(BatchState::Mending);
    }

    pub(crate) fn complete(&mut self) {
        self.state.go_on(BatchState::Done);
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.plan.error = Some(error);
        self.state = BatchState::Failed;
        self.work.clear();
    }

    /// Claims `count` ready rows. Each row has `stride` axes in its ragged fields.
    pub(crate) fn claim(&mut self, count: usize, stride: usize, tasks: &mut Vec<RowTask>, dims: &mut Vec<u64>) {
        for (row, supply) in self.work.ready.drain(..count) {
            let handle = self.work.handles.get_mut(to_usize(row)).and_then(Option::take);
            let (Some(handle), Some(at)) = (handle, sample_at(&self.plan, row)) else {
                bug("a row of a batch was made ready twice")
            };
            let read = self.plan.rows.get(to_usize(row)).and_then(|row| self.plan.read_of(row));
            let run = read.filter(|_| supply.is_some()).and_then(|read| read.run());
            let of = RowId {
                generation: self.plan.generation,
                batch: self.plan.number,
                row,
                at,
                run: run.map(|run| run.key),
            };
            dims.extend_from_slice(self.plan.dims_of(row, stride));
            tasks.push(RowTask { of, handle, supply });
        }
    }
}

pub(super) fn sample_at(plan: &BatchPlan, row: u32) -> Option<SampleAt> {
    let planned = plan.rows.get(to_usize(row))?;
    let sample = *plan.indices.get(to_usize(row))?;
    Some(SampleAt {
        sample,
        record: planned.record,
        epoch: plan.epoch,
        repetition: planned.repetition,
        patch: planned.patch,
        origin: None,
    })
}

/// Skips failed rows: masks them and returns their number. If there are more than `allowed`, the batch is an error.
/// Each row has `stride` axes.
pub(crate) fn judge(plan: &mut BatchPlan, work: &mut BatchWork, allowed: u64, stride: usize) -> Result<u64> {
    if let Some(error) = plan.error.take() {
        return Err(error);
    }
    work.faults.append(&mut plan.faults);
    // Sort by row, so the reported error does not depend on thread timing.
    work.faults.sort_by_key(|(row, _)| *row);
    let mut skipped = 0;
    for (row, error) in work.faults.drain(..) {
        if !fault::is_local(&error) || skipped >= allowed {
            return Err(error);
        }
        skipped += 1;
        if let Some(mask) = plan.mask.get_mut(to_usize(row)) {
            *mask = false;
        }
        plan.dims_of_mut(row, stride).fill(0);
    }
    Ok(skipped)
}

impl BatchWork {
    pub(crate) fn clear(&mut self) {
        self.handles.clear();
        self.ready.clear();
        self.faults.clear();
        self.odd.clear();
        self.staged = 0;
    }
}

//! A batch between its plan and the caller: its slot, its rows that can be decoded, and those that
//! have failed.

use crate::fault;
use crate::job::Claim;
use crate::plan::Plan;
use crate::read::Loaded;
use crate::rows::{RowMut, Rows};
use crate::sample::RowOf;
use crate::stage::RowFault;
use shardpack_format::to_usize;
use shardpack_reader::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch that was planned and is not handed out.
pub(crate) struct Open {
    pub(crate) plan: Plan,
    pub(crate) slot: Option<Arc<Rows>>,
    pub(crate) work: Work,
    /// Rows that are not done.
    pub(crate) left: usize,
    pub(crate) phase: Phase,
}

/// How far a batch is on its way to a device. Without a stage it stays the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Rows are decoded, or prepared.
    Filling,
    /// The device decodes it.
    Submitted,
    /// The device has found some values odd ([`Work::odd`]).
    Odd,
    /// The host decodes these.
    Mending,
    /// It is on the device.
    Done,
}

/// The lists of a batch that do not leave the loader, used again.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) handles: Vec<Option<RowMut>>,
    /// Rows whose run is in memory, with that run.
    pub(crate) ready: VecDeque<(u32, Option<Arc<Loaded>>)>,
    pub(crate) faults: Vec<(u32, Error)>,
    /// What the device could not decode.
    pub(crate) odd: Vec<RowFault>,
    /// Values that were given to the device.
    pub(crate) staged: u64,
}

impl Open {
    /// Whether it is an error already, and nothing of it will be decoded: there was no memory for
    /// it.
    pub(crate) fn has_failed(&self) -> bool {
        self.slot.is_none() && self.left == 0 && self.plan.error.is_some()
    }

    /// Whether all its rows are prepared, and nobody has submitted them.
    pub(crate) fn is_to_submit(&self) -> bool {
        let staged = self.slot.as_ref().is_some_and(|slot| slot.stage().is_some());
        staged && self.left == 0 && self.phase == Phase::Filling
    }

    /// Whether it can be handed out, unless something is wrong with it.
    pub(crate) fn is_done(&self) -> bool {
        let on_device = |slot: &Arc<Rows>| slot.stage().is_none() || self.phase == Phase::Done;
        self.left == 0 && self.slot.as_ref().map_or_else(|| self.has_failed(), on_device)
    }

    /// Hands out the first `count` rows that can be decoded, with their axes. `stride` axes belong
    /// to a row.
    pub(crate) fn claim(&mut self, count: usize, stride: usize, claims: &mut Vec<Claim>, dims: &mut Vec<u64>) {
        for (row, run) in self.work.ready.drain(..count) {
            let place = to_usize(row);
            let handle = self.work.handles.get_mut(place).and_then(Option::take);
            let (Some(handle), Some(planned)) = (handle, self.plan.rows.get(place)) else {
                // Said: a row that nobody decodes would be waited for.
                let error = Error::internal("row of a batch", "one that is decoded once", row);
                self.work.faults.push((row, error));
                self.left = self.left.saturating_sub(1);
                continue;
            };
            let read = usize::try_from(planned.read).ok().and_then(|read| self.plan.reads.get(read));
            let start = place.saturating_mul(stride);
            let axes = self.plan.dims.get(start..start.saturating_add(stride)).unwrap_or_default();
            dims.extend_from_slice(axes);
            let of = RowOf {
                generation: self.plan.generation,
                epoch: self.plan.epoch,
                batch: self.plan.number,
                row,
                sample: self.plan.indices.get(place).copied().unwrap_or(u64::MAX),
                record: planned.record,
                repetition: planned.repetition,
                patch: planned.patch,
                // Nobody waits for what the page cache holds to be let go of.
                key: read.filter(|read| run.is_some() && read.cached.is_none()).map(|read| read.key),
            };
            claims.push(Claim { of, handle, run });
        }
    }
}

/// Whether a batch can be handed out in spite of the rows that failed, of which up to `allowed` may
/// be skipped: how many were, and are masked now. `stride` axes belong to a row.
pub(crate) fn judge(plan: &mut Plan, work: &mut Work, allowed: u64, stride: usize) -> Result<u64> {
    if let Some(error) = plan.error.take() {
        return Err(error);
    }
    work.faults.append(&mut plan.faults);
    // By row, so that which error it is does not depend on the threads.
    work.faults.sort_by_key(|(row, _)| *row);
    let mut skipped = 0;
    for (row, error) in work.faults.drain(..) {
        if !fault::is_local(&error) || skipped >= allowed {
            return Err(error);
        }
        skipped += 1;
        let row = to_usize(row);
        if let Some(mask) = plan.mask.get_mut(row) {
            *mask = false;
        }
        let start = row.saturating_mul(stride);
        if let Some(dims) = plan.dims.get_mut(start..start.saturating_add(stride)) {
            dims.fill(0);
        }
    }
    Ok(skipped)
}

impl Work {
    pub(crate) fn clear(&mut self) {
        self.handles.clear();
        self.ready.clear();
        self.faults.clear();
        self.odd.clear();
        self.staged = 0;
    }
}

//! Assigns slots to batches and requests new slots.

use super::Ring;
use crate::plan::BatchPlan;
use crate::rows::Rows;
use crate::stage::SlotRoom;
use shardpack_format::bug;
use shardpack_reader::Error;
use std::sync::Arc;

impl Ring {
    /// Assigns free slots to waiting batches. If another slot must be allocated, returns its room and the
    /// slot that it replaces, if any.
    pub(super) fn attach(&mut self) -> Option<(SlotRoom, Option<Arc<Rows>>)> {
        let allowed = self.limits.slots + self.extra;
        for open in self.batches.iter_mut().filter(|open| open.state.is_waiting()) {
            let room = open.plan.room();
            let fits = |slot: &Arc<Rows>| slot.holds(&room) && Arc::strong_count(slot) == 1;
            if let Some(place) = self.free.iter().position(fits) {
                let mut slot = self.free.swap_remove(place);
                let handles = &mut open.work.handles;
                if !Rows::lend(&mut slot, room.rows, room.host_bytes, &open.plan.parts, handles) {
                    bug("a free slot is in use");
                }
                if let Some(stage) = slot.stage() {
                    stage.begin(room.output_bytes);
                }
                open.begin(slot);
                continue;
            }
            if self.slots < allowed {
                self.slots += 1;
                return Some((room.max(self.limits.room), None));
            }
            // Replace only one slot at a time. Otherwise, a failure would be reported for the wrong batch.
            if self.growing {
                return None;
            }
            let place = self.free.iter().position(|slot| !slot.holds(&room) && Arc::strong_count(slot) == 1)?;
            let replaced = self.free.swap_remove(place);
            self.grown_slots += 1;
            self.growing = true;
            return Some((room.grown().max(self.limits.room), Some(replaced)));
        }
        None
    }

    /// Passes the error to the first batch that waits for a slot. Later batches try again.
    pub(crate) fn no_memory(&mut self, bytes: usize, source: std::io::Error) {
        self.slots = self.slots.saturating_sub(1);
        let Self { batches, runs, .. } = self;
        let Some(open) = batches.iter_mut().find(|open| open.state.is_waiting()) else { return };
        let path = format!("batch {} ({bytes} bytes)", open.plan.in_epoch);
        open.fail(Error::io(path, "allocate memory", source));
        for read in open.plan.reads.drain(..) {
            if let Some(run) = read.run() {
                runs.release(run.key, read.rows);
            }
        }
    }

    pub(crate) fn add_slot(&mut self, slot: Rows) {
        self.free.push(Arc::new(slot));
    }

    pub(crate) const fn grown(&mut self) {
        self.growing = false;
    }

    pub(crate) fn new_slot(&mut self, slot: Rows) {
        self.slots += 1;
        self.add_slot(slot);
    }

    /// Allows one more slot if the caller waits for a batch while it holds all slots. Otherwise the caller would wait
    /// forever.
    pub(crate) fn unblock(&mut self) -> bool {
        let wants_slot = self.batches.front().is_some_and(|open| !open.has_slot());
        let blocked = wants_slot && self.lent >= self.slots && self.slots >= self.limits.slots + self.extra;
        if blocked {
            self.extra += 1;
            self.extra_slots += 1;
        }
        blocked
    }

    pub(crate) fn give_back(&mut self, slot: Arc<Rows>, plan: BatchPlan) {
        self.lent = self.lent.saturating_sub(1);
        if self.extra > 0 && self.slots > self.limits.slots {
            self.extra -= 1;
            self.slots -= 1;
            self.discarded.push(slot);
        } else {
            self.free.push(slot);
        }
        if self.spare_plans.len() <= self.limits.slots {
            self.spare_plans.push(plan);
        }
    }
}

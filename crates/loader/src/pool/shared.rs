//! The state that a loader's threads share with its caller, and the jobs that need only this state.

use crate::batch::Home;
use crate::decode::{Context, Recipe};
use crate::memory::Allocate;
use crate::openings::{Failed, Openings};
use crate::plan::{Announcement, BatchPlan};
use crate::planner::{Planner, ReadAhead, ReadAheadStart};
use crate::ring::Ring;
use crate::rows::{RowMut, Rows};
use crate::stage::{Completed, Ending, Refusals, SlotRoom, Stage, Ticket, fewer_slots};
use crate::stats::{Counters, add, add_since};
use crate::supply::{LargeRecord, LoadedRun};
use crate::task::{ReadTask, SubmitTask};
use shardpack_io::Cause;
use shardpack_reader::{Error, Result};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(crate) struct PoolShared {
    ring: Mutex<Ring>,
    /// Signalled when there may be new work.
    pub(crate) work: Condvar,
    /// Signalled when a batch is done or a thread has ended.
    pub(crate) done: Condvar,
    pub(crate) planner: Mutex<Planner>,
    read_ahead: Mutex<ReadAhead>,
    /// Number of threads that are reporting to the read-ahead.
    has_news: AtomicU32,
    /// Epoch that the read-ahead must switch to, or `None` after it has switched.
    orders: Mutex<Option<ReadAheadStart>>,
    /// True if reads are announced far ahead. In that case, only the read-ahead announces reads, and each read only
    /// once.
    is_far: bool,
    pub(crate) counters: Counters,
    pub(crate) recipe: Recipe,
    memory: Arc<dyn Allocate>,
    pub(crate) stage: Option<Arc<dyn Stage>>,
    pub(crate) refusals: Refusals,
    /// Process that started the threads. Unset before then. A forked process has no threads.
    pub(crate) pid: OnceLock<u32>,
}

impl std::fmt::Debug for PoolShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolShared").field("pid", &self.pid.get()).finish_non_exhaustive()
    }
}

impl PoolShared {
    pub(crate) fn new(
        ring: Ring,
        planner: Planner,
        read_ahead: ReadAhead,
        recipe: Recipe,
        memory: Arc<dyn Allocate>,
    ) -> Self {
        Self {
            ring: Mutex::new(ring),
            work: Condvar::new(),
            done: Condvar::new(),
            planner: Mutex::new(planner),
            is_far: read_ahead.is_wanted(),
            read_ahead: Mutex::new(read_ahead),
            has_news: AtomicU32::new(0),
            orders: Mutex::new(None),
            counters: Counters::default(),
            memory,
            stage: recipe.stage.clone(),
            recipe,
            refusals: Refusals::default(),
            pid: OnceLock::new(),
        }
    }

    /// Locks the ring. Poisoning is ignored: a thread that panicked has reported this in `broken`, and the
    /// ring is intact.
    pub(crate) fn state(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches the read-ahead to another epoch. Does not block even if the read-ahead is waiting for a shard.
    pub(crate) fn redirect_read_ahead(&self, to: ReadAheadStart) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
    }

    /// Reports the number of planned reads to the read-ahead, which announces any that are missing before
    /// they are executed.
    fn tell_read_ahead(&self, generation: u64, begun: u64) {
        if !self.is_far {
            return;
        }
        self.has_news.fetch_add(1, Ordering::Relaxed);
        let mut read_ahead = self.read_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_news.fetch_sub(1, Ordering::Relaxed);
        self.take_orders(&mut read_ahead);
        if read_ahead.generation == generation {
            read_ahead.reach(begun);
        }
    }

    /// Announces reads beyond the plan until another thread has something to report. Only one thread does this at a
    /// time, because it may have to wait for shards to open.
    fn announce(&self, generation: u64) {
        let Some(mut read_ahead) = self.is_far.then(|| self.read_ahead.try_lock().ok()).flatten() else { return };
        self.take_orders(&mut read_ahead);
        while read_ahead.generation == generation && self.has_news.load(Ordering::Relaxed) == 0 && read_ahead.advance()
        {
        }
    }

    fn take_orders(&self, read_ahead: &mut ReadAhead) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(to) = orders {
            read_ahead.restart(to);
        }
    }

    pub(crate) fn wait_done<'s>(&self, state: MutexGuard<'s, Ring>, most: Duration) -> MutexGuard<'s, Ring> {
        self.done.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn wake_threads(&self) {
        self.work.notify_all();
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.pid.get().is_some_and(|&pid| pid != std::process::id())
    }

    pub(crate) fn read(&self, task: &mut ReadTask) -> Result<LoadedRun> {
        let start = Instant::now();
        let result = LoadedRun::read(&task.shard, &task.records, std::mem::take(&mut task.buffer));
        add_since(&self.counters.read, start);
        let (run, bytes) = result?;
        add(&self.counters.read_bytes, bytes);
        Ok(run)
    }

    /// Allocates a slot. The inner result is an error if there is not enough memory.
    fn slot(&self, room: &SlotRoom) -> Result<io::Result<Rows>> {
        let bytes = room.host_bytes;
        let made = self.memory.allocate(bytes).map(Rows::new).and_then(|rows| match &self.stage {
            Some(stage) => Ok(rows.beside(stage.slot(room)?)),
            None => Ok(rows),
        });
        match made {
            // A slot that is too small must be an error. Otherwise, the loader would request it again and again.
            Ok(slot) if !slot.holds(room) => {
                let found = format!("{} bytes", slot.len());
                Err(Error::usage(format!("a batch needs {bytes} bytes of memory, but only {found} were allocated")))
            }
            made => Ok(made),
        }
    }

    pub(crate) fn share(&self, large: LargeRecord) {
        add(&self.counters.read_bytes, large.kept_bytes());
        self.state().share(large);
        self.work.notify_all();
    }

    pub(crate) fn clear(&self, row: &mut RowMut) {
        (0..self.recipe.fields.plans.len()).for_each(|field| row.clear(field));
    }

    /// Allocates all slots. A lack of device memory is then reported before the first batch.
    pub(crate) fn fill_ring(&self, slots: usize, room: &SlotRoom) -> Result<()> {
        for number in 1..=slots {
            let made = self.slot(room)?.map_err(|error| {
                let path = format!("slot {number} of {slots} ({} bytes)", room.output_bytes);
                Error::io(path, "allocate memory for a batch", Cause::from(error).with_hint(fewer_slots()))
            })?;
            self.state().new_slot(made);
        }
        Ok(())
    }

    pub(crate) fn allocate(&self, room: &SlotRoom, replaced: Option<Arc<Rows>>) {
        // Drop the old slot first, because there may not be enough memory for both.
        let before = replaced.map(|slot| slot.room());
        let made = self.slot(room);
        // If the larger slot cannot be allocated, the old one is allocated again, so that the ring keeps its
        // number of slots.
        let again = match (&made, before) {
            (Ok(Err(_)), Some(room)) => self.slot(&room).ok().and_then(io::Result::ok),
            _ => None,
        };
        let mut state = self.state();
        if before.is_some() {
            state.grown();
        }
        match made {
            Ok(Ok(slot)) => state.add_slot(slot),
            Ok(Err(error)) => state.no_memory(room.output_bytes, error),
            Err(error) => state.break_down(error),
        }
        again.into_iter().for_each(|slot| state.new_slot(slot));
        drop(state);
        self.work.notify_all();
        self.done.notify_all();
    }

    pub(crate) fn submit(self: &Arc<Self>, task: SubmitTask) {
        let SubmitTask { generation, batch, in_epoch, slot } = task;
        let home: Weak<dyn Completed> = Arc::downgrade(self) as Weak<_>;
        let kept = Arc::clone(&slot) as Arc<_>;
        let ticket = Ticket { home, generation, batch, in_epoch, slot: Some(kept) };
        // Return early if the slot has no device part, or if one of its rows is still being written. Dropping the
        // ticket reports the error.
        let (Some(stage), Some(host)) = (slot.stage(), Rows::bytes(&slot)) else { return };
        let host = host.get(..slot.host()).unwrap_or_default();
        Arc::clone(stage).submit(host, ticket);
    }

    pub(crate) const fn context(&self) -> Context<'_> {
        Context { recipe: &self.recipe, counters: &self.counters, refusals: &self.refusals }
    }

    /// Opens the shards of a batch, without locking the planner meanwhile. Returns the shards that failed, or
    /// `None` if the batch is no longer wanted.
    fn open_shards(&self, plan: &BatchPlan) -> Option<Failed> {
        let (dataset, numbers) = {
            let mut planner = self.planner();
            if planner.generation != plan.generation {
                return None;
            }
            (planner.dataset().clone(), planner.unopened(plan.epoch))
        };
        if numbers.is_empty() {
            return Some(Failed::new());
        }
        numbers.iter().for_each(|&number| dataset.advise_shards(number..number.saturating_add(1)));
        let is_one = numbers.len() == 1;
        let openings = Arc::new(Openings::new(dataset, numbers));
        if !is_one {
            self.state().open(plan.generation, &openings);
            self.work.notify_all();
        }
        while openings.open_one() {
            if !self.state().is_at(plan.generation) {
                return None;
            }
        }
        Some(openings.wait())
    }

    pub(crate) fn plan(&self, mut plan: BatchPlan) {
        let Some(failed) = self.open_shards(&plan) else { return };
        let (generation, more, begun) = {
            let mut planner = self.planner();
            // The loader has switched to another epoch in the meantime, which other threads plan.
            if planner.generation != plan.generation {
                return;
            }
            let more = planner.fill(&mut plan, failed);
            (planner.generation, more, planner.begun)
        };
        plan.generation = generation;
        // Announce the reads before any thread can execute them, so their requests run in parallel.
        self.tell_read_ahead(generation, begun);
        let mut fresh: Vec<Announcement> = Vec::new();
        let mut state = self.state();
        if generation == state.generation {
            state.planned(plan, more, &mut fresh);
        }
        drop(state);
        // The system fetches these bytes while threads decode rows in memory.
        if !self.is_far {
            fresh.iter().for_each(Announcement::send);
        }
        self.work.notify_all();
        self.done.notify_all();
        self.announce(generation);
    }
}

impl Home for PoolShared {
    /// Takes a slot back. Does nothing in a forked process, where the lock may belong to a thread that does not
    /// exist, and no thread waits for the slot.
    fn give_back(&self, slot: Arc<Rows>, plan: BatchPlan) {
        if self.is_forked() {
            return;
        }
        self.state().give_back(slot, plan);
        self.work.notify_all();
    }
}

impl Completed for PoolShared {
    fn completed(&self, generation: u64, batch: u64, ending: Ending) {
        self.state().completed(generation, batch, ending);
        self.work.notify_all();
        self.done.notify_all();
    }
}

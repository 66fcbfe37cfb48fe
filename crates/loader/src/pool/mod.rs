//! The threads of a loader. Each takes the most useful job: rows of the earliest batch, or else the next run.
//! Idle threads sleep.

mod shared;
mod worker;

pub(crate) use shared::PoolShared;

use crate::stats::add_since;
use crate::task::{Idle, Task};
use shardpack_reader::Error;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use worker::Worker;

/// Maximum time to wait for the threads when the loader is dropped. Longer than decoding a row takes, but shorter than
/// a hanging disk may block.
const PATIENCE: Duration = Duration::from_millis(900);

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) shared: Arc<PoolShared>,
    threads: Vec<JoinHandle<()>>,
}

impl PoolShared {
    fn run(self: &Arc<Self>) {
        let _leaving = Leaving(self);
        let mut worker = Worker::new(self);
        loop {
            match self.next(&mut worker) {
                Task::Decode => worker.decode(self),
                Task::Parts(large) => worker.parts(self, &large),
                Task::Read(mut task) => {
                    let supply = worker.read(self, &mut task);
                    self.state().read(&task, supply);
                    self.work.notify_all();
                }
                Task::Plan(plan) => self.plan(plan),
                Task::Open(openings) => drop(openings.open_one()),
                Task::Allocate(room, replaced) => self.allocate(&room, replaced),
                Task::Free(slots) => drop(slots),
                Task::Submit(task) => self.submit(task),
                Task::Mend(mend) => worker.mend(self, mend),
                Task::Wait(_) => {}
                Task::Exit => return,
            }
        }
    }

    /// Returns the next job, and waits until there is one. Holds the lock only briefly.
    fn next(&self, worker: &mut Worker) -> Task {
        let mut state = self.state();
        // Other threads may be waiting for the released memory.
        let wake = !worker.done.is_empty() && state.asleep > 0;
        if state.post(&mut worker.done, &worker.dims) {
            self.done.notify_all();
        }
        worker.dims.clear();
        loop {
            match state.next(&mut worker.rows, &mut worker.promised) {
                Task::Wait(idle) => {
                    let start = Instant::now();
                    state.asleep += 1;
                    state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.asleep -= 1;
                    match idle {
                        Idle::ForData => add_since(&self.counters.idle_for_data, start),
                        Idle::ForSlot => add_since(&self.counters.idle_for_consumer, start),
                        Idle::Done => {}
                    }
                }
                task => {
                    drop(state);
                    if wake {
                        self.work.notify_one();
                    }
                    return task;
                }
            }
        }
    }
}

struct Leaving<'s>(&'s PoolShared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.alive = state.alive.saturating_sub(1);
        if std::thread::panicking() {
            state.break_down(Error::internal("loader thread", "no panic", "a panic"));
        }
        drop(state);
        self.0.done.notify_all();
        self.0.work.notify_all();
    }
}

impl Pool {
    pub(crate) fn start(shared: Arc<PoolShared>, threads: usize) -> std::io::Result<Self> {
        shared.pid.get_or_init(std::process::id);
        let mut pool = Self { shared, threads: Vec::new() };
        for _ in 0..threads {
            let shared = Arc::clone(&pool.shared);
            pool.shared.state().alive += 1;
            let thread = std::thread::Builder::new().name("shardpack-load".into()).spawn(move || shared.run());
            match thread {
                Ok(thread) => pool.threads.push(thread),
                Err(error) => {
                    pool.shared.state().alive -= 1;
                    // Fewer threads only make the loader slower, but it needs at least one.
                    if pool.threads.is_empty() {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // In a fork, the threads belong to the parent.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.state();
        state.close();
        self.shared.work.notify_all();
        while state.alive > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
            state = self.shared.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let all = state.alive == 0;
        drop(state);
        // A read may hang, so dropping the loader does not wait for it. Its thread ends when the read returns.
        if all {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

//! The loader's interface: batches, epochs, states and statistics.

mod batches;
mod figures;
mod open;

pub use batches::Batches;

use crate::batch::{Batch, Lent};
use crate::fields::Fields;
use crate::mixing;
use crate::options::LoaderOptions;
use crate::order::{OrderState, Share};
use crate::planner::{Epochs, Held, ReadAheadStart};
use crate::pool::{Pool, PoolShared};
use crate::supply::Resident;
use shardpack_reader::{Dataset, Error, Result};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Loads a dataset batch by batch, epoch by epoch.
///
/// Threads start with the first [`Loader::next_batch`] and end when the loader is dropped. If the process forks
/// before that call, the child can use the loader. After that call, the child gets an error.
///
/// ```no_run
/// use shardpack_loader::{Dataset, LoaderOptions, View};
/// let dataset = Dataset::open("train")?;
/// let image = View::random_resized_crop(224).with_flip(0.5);
/// let mut loader = LoaderOptions::default().batch_size(256).image(image).of(&dataset).open()?;
/// for epoch in 0..90 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?;
///         let image = batch.field("image").unwrap();
///         assert_eq!(image.shape().unwrap(), [256, 224, 224, 3]);
///     }
/// }
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader {
    dataset: Dataset,
    options: LoaderOptions,
    epochs: Arc<Epochs>,
    fields: Arc<Fields>,
    start: OrderState,
    share: Share,
    threads: usize,
    held: Held,
    /// Predicted memory in bytes: the maximum over all epochs so far.
    predicted_bytes: u64,
    resident: Option<Arc<Resident>>,
    shared: Arc<PoolShared>,
    pool: Option<Pool>,
    waited: Duration,
    asked: u64,
    found_ready: u64,
    handed_bytes: u64,
    batches: u64,
    /// Number of batches up to and including the last one that the caller got.
    delivered: u64,
    /// True once the caller has continued from one epoch to the next, and will therefore probably do so again. Until
    /// then no epoch is started early, because a program that reads the dataset only once would not use it.
    goes_on: bool,
    phase: EpochPhase,
    /// True if the last call returned `Pending`. The next call then continues the same wait.
    is_waiting: bool,
}

/// The caller's progress in the current epoch.
///
/// ```no_run
/// # use shardpack_loader::{Dataset, EpochPhase, Loader, LoaderOptions};
/// let mut loader = Loader::open(&Dataset::open("train")?, LoaderOptions::default())?;
/// assert_eq!(loader.phase(), EpochPhase::Fresh);
/// while loader.next_batch().is_some() {}
/// assert_eq!(loader.phase(), EpochPhase::Ended);
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EpochPhase {
    /// No batch has been requested.
    Fresh,
    /// A batch has been requested.
    Running,
    /// The caller has been told that the epoch ended.
    Ended,
    /// A fatal error has been reported: the pool failed, or the loader was used in a forked process.
    Broken,
}

impl Loader {
    /// Returns the next batch of the epoch, and waits if it is not ready. After the end of the epoch, returns
    /// `None` until [`Loader::set_epoch`] is called.
    ///
    /// # Errors
    /// `Format` or `Limit` if a sample of this batch is damaged (see [`OnCorrupt`](crate::OnCorrupt)); `Io`
    /// if the batch cannot be read or memory for it cannot be allocated. After these errors, the next call
    /// continues with the following batch. `Usage` if called in a fork of the process that began loading;
    /// `Internal` if the pool has failed. These two are returned only once, and further calls return `None`.
    pub fn next_batch(&mut self) -> Option<Result<Batch>> {
        loop {
            // An hour is long enough to count as forever, so both kinds of wait share one function.
            if let Poll::Ready(batch) = self.next_batch_timeout(Duration::from_secs(3600)) {
                return batch;
            }
        }
    }

    /// Same as [`Loader::next_batch`], but returns `Pending` if the batch is not ready within `timeout`. The
    /// next call continues the wait. Use it to check for signals, for example, from time to time.
    ///
    /// # Errors
    /// Same as [`Loader::next_batch`].
    pub fn next_batch_timeout(&mut self, timeout: Duration) -> Poll<Option<Result<Batch>>> {
        // Check this before taking the lock. In a fork, the thread that holds the lock may not exist.
        if self.shared.is_forked() {
            return Poll::Ready(self.broken().then(|| Err(forked())));
        }
        if self.pool.is_none() {
            match Pool::start(Arc::clone(&self.shared), self.threads) {
                Ok(pool) => self.pool = Some(pool),
                Err(error) => {
                    return Poll::Ready(Some(Err(Error::io(
                        self.dataset.path(),
                        "start the threads of the loader",
                        error,
                    ))));
                }
            }
        }
        if self.phase == EpochPhase::Fresh {
            self.phase = EpochPhase::Running;
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        // Count each batch once, even if several calls wait for it.
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.asked += 1;
            self.found_ready += state.finished() as u64;
        }
        let mut waiting: Option<Instant> = None;
        let mut broken = false;
        let taken = loop {
            if let Some(error) = state.broken() {
                broken = true;
                break self.broken().then(|| Err(error.clone()));
            }
            if let Some(taken) = state.take() {
                break Some(taken);
            }
            if state.is_over() {
                self.phase = EpochPhase::Ended;
                break None;
            }
            if state.unblock() {
                self.shared.wake_threads();
            }
            let start = *waiting.get_or_insert_with(Instant::now);
            let Some(left) = timeout.checked_sub(start.elapsed()) else {
                self.waited += start.elapsed();
                return Poll::Pending;
            };
            state = self.shared.wait_done(state, left);
        };
        drop(state);
        self.is_waiting = false;
        self.shared.wake_threads();
        if let Some(start) = waiting {
            self.waited += start.elapsed();
        }
        let Some(taken) = taken else { return Poll::Ready(None) };
        if !broken {
            self.batches += 1;
        }
        Poll::Ready(Some(taken.and_then(|(slot, plan)| {
            let (number, bytes) = (plan.in_epoch, plan.bytes as u64);
            let mut lent = Lent {
                slot: Some(slot),
                plan,
                fields: Arc::clone(&self.fields),
                dataset: self.dataset.clone(),
                seed: self.epochs.sampling.seed(),
                home: Arc::downgrade(&self.shared) as Weak<_>,
            };
            mixing::mix(&self.options, self.threads, &mut lent)?;
            self.delivered = number + 1;
            self.handed_bytes += bytes;
            Ok(Batch::new(lent))
        })))
    }

    /// Returns true on the first call and false afterwards. The failure is therefore reported only once, and a loop
    /// that ignores errors still ends.
    fn broken(&mut self) -> bool {
        std::mem::replace(&mut self.phase, EpochPhase::Broken) != EpochPhase::Broken
    }

    /// Returns this rank's number of batches in the epoch, from its start or from the state passed to
    /// [`Loader::restore`]. The number is exact even before the first batch.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.share.batches()
    }

    /// Returns this rank's number of batches in the whole current epoch, even after [`Loader::restore`].
    #[must_use]
    pub fn epoch_len(&self) -> u64 {
        self.share.whole().batches()
    }

    /// Returns the number of samples in a whole epoch over all ranks, or of patches if patches are cut.
    #[must_use]
    pub const fn positions(&self) -> u64 {
        self.share.positions()
    }

    /// Returns true if there are no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the dataset.
    #[must_use]
    pub const fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the options in effect.
    #[must_use]
    pub const fn options(&self) -> &LoaderOptions {
        &self.options
    }

    /// Returns the names of a batch's fields.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.plans.iter().map(|field| field.name.as_str())
    }

    /// Returns the current epoch.
    #[must_use]
    pub const fn current_epoch(&self) -> u32 {
        self.start.epoch
    }

    /// Returns the caller's progress in the current epoch.
    #[must_use]
    pub const fn phase(&self) -> EpochPhase {
        self.phase
    }

    /// Returns the progress of this loader up to the last batch that the caller got. Batches that are only
    /// prepared do not count. A batch that failed counts only after a later batch has succeeded, so a run
    /// that ends with the failure resumes with the missing samples.
    ///
    /// All ranks that got the same number of batches have the same state, and so do all ranks that reached the end of
    /// the epoch. If a rank has failed and the states differ, resume from the state with the fewest samples, so that no
    /// sample is lost.
    #[must_use]
    pub fn state(&self) -> OrderState {
        // With `End::Uneven`, other ranks may have got one batch more than this one.
        let all = self.phase == EpochPhase::Ended && self.delivered == self.share.batches();
        let batches = if all { self.share.steps() } else { self.delivered };
        OrderState { samples_consumed: self.share.consumed_after(batches), ..self.start }
    }

    /// Resumes from a state, which may have been saved with any world size, batch size or number of threads.
    /// Batches that the caller holds stay valid.
    ///
    /// A training loop needs no special case to resume: [`Loader::set_epoch`] with the state's epoch keeps
    /// the restored position.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, Loader, LoaderOptions};
    /// let mut loader = Loader::open(&Dataset::open("train")?, LoaderOptions::default())?;
    /// if let Ok(text) = std::fs::read_to_string("state.json") {
    ///     loader.restore(&serde_json::from_str(&text).unwrap())?;
    /// }
    /// for epoch in loader.current_epoch()..90 {
    ///     loader.set_epoch(epoch)?;
    ///     while let Some(batch) = loader.next_batch() {
    ///         let batch = batch?;
    ///         // … a step, and now and then, with the weights:
    ///         std::fs::write("state.json", serde_json::to_string(&loader.state()).unwrap()).unwrap();
    ///     }
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if the state belongs to a different dataset, seed or order.
    pub fn restore(&mut self, state: &OrderState) -> Result<()> {
        if self.shared.is_forked() {
            return Err(forked());
        }
        let mut planner = self.shared.planner();
        let is_under_way = planner.start == *state && state.epoch != self.start.epoch;
        if !is_under_way {
            planner.restart(self.epochs.begin(state, Some(self.held))?);
        }
        self.start = *state;
        self.share = planner.share().clone();
        self.held = planner.held;
        self.predicted_bytes = self.predicted_bytes.max(self.epochs.predicted.total(self.held == Held::Memory));
        self.delivered = 0;
        self.phase = EpochPhase::Fresh;
        if self.resident.is_none() {
            let (generation, goes_on, held) = (planner.generation, self.goes_on, self.held);
            self.shared.redirect_read_ahead(ReadAheadStart { generation, start: *state, goes_on, held });
        }
        // Hold the lock until the state is updated, so no thread plans the new epoch before that.
        let mut shared = self.shared.state();
        // A program may change its transform between epochs, so rows of the next epoch must not be transformed early.
        shared.goes_on = self.goes_on && self.options.output.transform.is_none();
        match is_under_way {
            true => shared.go_on(state.epoch),
            false => shared.restart(planner.generation, state.epoch, self.held != Held::Memory),
        }
        drop((shared, planner));
        self.shared.wake_threads();
        Ok(())
    }

    /// Starts epoch `epoch`. A loop can call this at the top of every epoch: if it is the current epoch and
    /// no batch has been requested, the position set by [`Loader::restore`] is kept.
    ///
    /// After the caller has continued from one epoch to the next, the loader starts the following epoch
    /// early, while the current one ends, in the same slots and memory. This call then only switches to that
    /// epoch. Epochs do not start early if there is a [`LoaderOptions::transform`], or if
    /// [`LoaderOptions::begins_ahead`] is turned off.
    ///
    /// # Errors
    /// Same as [`Loader::restore`].
    pub fn set_epoch(&mut self, epoch: u32) -> Result<()> {
        if epoch == self.start.epoch && self.phase == EpochPhase::Fresh {
            return Ok(());
        }
        let is_over = self.phase == EpochPhase::Ended || self.delivered == self.share.batches();
        self.goes_on |=
            self.options.resources.begins_ahead && is_over && u64::from(epoch) == u64::from(self.start.epoch) + 1;
        self.restore(&OrderState { epoch, samples_consumed: 0, ..self.start })
    }
}

fn forked() -> Error {
    Error::usage("this loader was started in the parent process and cannot be used after a fork")
        .with_hint("open the loader after the fork, or use the `spawn` start method for workers")
}

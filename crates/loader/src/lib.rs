//! Batches for a training loop: read, check and decode on all cores, straight into the slots of a
//! ring.
//!
//! ```text
//! order ── Planner ──▶ State: batches in order ◀── one lock ──▶ threads: read a run, or decode rows into a slot
//!                        │            ▲
//!              Batch ◀───┘            └── the slot comes back when the batch is dropped
//! ```
//!
//! - A batch is *planned* before anything of it is read: its samples, the reads that bring them,
//!   and, from the index alone, where every row goes. So rows are decoded in place, dense or
//!   ragged, and nothing is copied together afterwards.
//! - All threads are alike. Each takes the next useful thing: rows of the earliest batch whose run
//!   is in memory; a run that an earlier batch needs; else it sleeps. Runs that come later are
//!   announced to the operating system, which fetches them meanwhile. One turn with one lock posts
//!   what was done and takes the next; it takes up to 16 rows at the start of a batch and one at
//!   its end.
//! - The CRC32 of a record is compared by the thread that decodes it, just before: its bytes are in
//!   that core's cache then.
//! - Batches come in the order of the plan, whatever the threads do. A slow consumer stops the
//!   pool: there are `slots` slots and `read_ahead_bytes` of runs besides the window of the order,
//!   or, of samples that are read alone, one for each thread if those are more. A caller who keeps
//!   batches gets more slots ([`Batch`]).
//! - Where the page cache can hold the window, a thread reads each record itself, just before it
//!   decodes it ([`Window`]): no run is in memory, and none is waited for.
//! - A large record ([`LoaderOptions::part_bytes`]) is made by all threads together, part by part.
//! - With a [`stage`], rows are decoded on a device: threads hand it what it needs of a record, and a
//!   batch is handed out when it is done there.
//! - Memory ([`Loader::predicted_bytes`]): `slots × batch bytes + window + read ahead + scratch`.
//!
//! [`order`] says which sample comes when, and on which rank.
//!
//! Why so: `docs/adr/0008-loader.md`; large records: `docs/adr/0017-large-records.md`.
// Unsafe stands in two files: the fence around the rows of a batch, and writes past the cache.
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod align;
mod array_patches;
mod array_row;
mod arrays;
mod augment;
mod batch;
mod cached;
mod classes;
mod clips;
mod desk;
mod examples;
mod fault;
mod fields;
mod filling;
mod grid;
mod job;
mod keeping;
mod large;
mod memory;
mod mend;
mod mixing;
mod noise;
mod objects;
mod open;
mod opening;
mod options;
pub mod order;
mod parse;
mod patch;
mod patches;
mod picture_row;
mod picture_view;
mod pictures;
mod pieces;
mod plan;
mod pool;
mod predict;
mod read;
mod record;
mod resident;
mod rows;
mod runs;
mod scene;
mod scenes;
mod scout;
mod shown;
mod sources;
pub mod stage;
mod state;
mod stats;
mod stream;
mod transform;
mod views;
mod volumes;
mod work;

pub use align::{Align, BoxFormat};
pub use arrays::varying_arrays;
pub use augment::Augment;
pub use batch::{Batch, OnDevice, Tensor};
pub use classes::PatchClasses;
pub use clips::FrameMode;
pub use filling::Watch;
pub use grid::Grid;
pub use memory::{Allocate, Heap, SlotMemory};
pub use mixing::BatchMix;
pub use objects::Object;
pub use options::{ArrayDtype, CubeMode, ImageMode, LoaderOptions, OnCorrupt, Window};
pub use parse::{Augments, parse_augment, parse_bands, parse_mixes};
pub use patch::{PatchAt, Place};
pub use patches::Patches;
pub use shown::Shown;
pub use stats::LoaderStats;
pub use transform::{Transform, TransformField, TransformRow};

// What a training loop names beside the loader, so that it needs this crate alone.
pub use shardpack_array::{Array, Bands, Factors};
pub use shardpack_augment::{Augmentation, BandAugmentation, Mix};
pub use shardpack_format::{Dtype, ElementType};
pub use shardpack_format::{Hint, Note};
pub use shardpack_jpeg::{Crop, PixelLayout, Scaling, View};
pub use shardpack_reader::{Dataset, DatasetOptions, Error, Limits, Result};

use batch::Lent;
use cached::Held;
use fields::Fields;
use order::{Order, Sampling, Share, State as Progress, Steps, World};
use plan::Planner;
use pool::{Pool, Shared};
use resident::Resident;
use scout::Scout;
use sources::Sources;
use stage::Keeper;
use state::{Bounds, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use work::Recipe;

/// Loads a dataset batch by batch, epoch by epoch.
///
/// Threads start with the first [`Loader::next_batch`], and end when the loader is dropped. A
/// process that forks before that can use the loader in the child; one that forks later cannot: it
/// is told so.
///
/// ```no_run
/// use shardpack_loader::View;
/// use shardpack_loader::{Dataset, ImageMode, Loader, LoaderOptions};
/// let dataset = Dataset::open("train")?;
/// let options = LoaderOptions {
///     batch_size: 256,
///     image: ImageMode::View(View::random_resized_crop(224, 224).with_flip(0.5)),
///     ..Default::default()
/// };
/// let mut loader = Loader::open(&dataset, options)?;
/// for epoch in 0..90 {
///     loader.set_epoch(epoch)?;
///     while let Some(batch) = loader.next_batch() {
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
    sampling: Arc<dyn Sampling>,
    fields: Arc<Fields>,
    world: World,
    start: Progress,
    share: Share,
    threads: usize,
    predicted: predict::Predicted,
    /// Where the window of this epoch is.
    held: Held,
    /// Most that any epoch so far may have taken.
    predicted_bytes: u64,
    resident: Option<Arc<Resident>>,
    shared: Arc<Shared>,
    pool: Option<Pool>,
    waited: Duration,
    asked: u64,
    found_ready: u64,
    handed_bytes: u64,
    batches: u64,
    /// Batches up to the last one that was handed out.
    delivered: u64,
    /// Whether a batch of this epoch was asked for.
    begun: bool,
    /// Whether the caller was told that the epoch is over.
    ended: bool,
    /// Whether the caller knows that the pool has broken down.
    told: bool,
    /// Whether the caller was told `Pending` and will come back.
    is_waiting: bool,
}

impl Loader {
    /// Prepares to load `dataset`: plans fields and sizes, starts no thread, reads no record but
    /// the first.
    ///
    /// # Errors
    /// `Usage` if the options contradict each other or the dataset, such as a sampling of samples
    /// that it does not have; `Io` if the device of a stage has no memory for the slots; else as
    /// [`Dataset::get`].
    pub fn open(dataset: &Dataset, options: LoaderOptions) -> Result<Self> {
        Self::open_watched(dataset, options, Watch { cancel: &AtomicBool::new(false), progress: &|_, _| {} })
    }

    /// As [`Loader::open`], for loaders whose values stay on a device: reading a dataset takes a
    /// while.
    ///
    /// # Errors
    /// As [`Loader::open`]; `Usage` too if it was cancelled.
    pub fn open_watched(dataset: &Dataset, options: LoaderOptions, watch: Watch<'_>) -> Result<Self> {
        let mut options = options;
        options.decode.limits = dataset.limits().clone();
        options.slots = options.slots.max(1);
        if options.stage.is_some() && options.decode.scaled {
            let found = "decoding at a smaller scale (`DecodeOptions::scaled`), which only the host does";
            return Err(Error::usage("decoding of pictures", "every pixel, with a stage", found));
        }
        if options.stage.is_some() && options.transform.is_some() {
            let error = Error::usage("transform of rows", "rows in memory of the host", "a device that decodes");
            return Err(error.with_hint("have the host decode, or change whole batches"));
        }
        let world = World::new(options.rank, options.world_size, options.batch_size)?;
        let sampling: Arc<dyn Sampling> = match &options.sampling {
            Some(sampling) => Arc::clone(sampling),
            None => Arc::new(Order::of(dataset, options.seed).mode(options.mode)),
        };
        let sources = Sources::fit(dataset, &*sampling)?;
        let fields = Fields::plan(dataset, &options)?;
        let sampling = match &fields.patches {
            Some(patches) => patches.order(sampling, &sources, options.open_scenes)?,
            None => sampling,
        };
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            threads => threads,
        };
        let start = Progress { epoch: options.epoch, ..Progress::start(&*sampling) };
        let epoch = sampling.epoch_of(&start)?;
        let keeper = options.keeper()?;
        let mut predicted = predict::predict(dataset, &options, &fields, (&*epoch, &sources), threads)?;
        let fill = |keeper: &Arc<dyn Keeper>| {
            let slot_bytes = device_bytes(&options, &predicted);
            filling::fill(dataset, (&fields, &options), keeper, (threads, slot_bytes), watch)
        };
        let resident = keeper.as_ref().map(fill).transpose()?.map(Arc::new);
        predicted.kept_bytes = resident.as_ref().map_or(0, |resident| resident.host_bytes());
        let fields = Arc::new(fields.with_records_of(predicted.record_bytes));
        let held = match &resident {
            Some(_) => Held::ALONE,
            None => Held::of(options.window, dataset, (&fields, &predicted)),
        };
        let share = Share::new(world, options.end, &*epoch, &start);
        let steps = Steps::new(epoch, share.clone());
        let order = (Arc::clone(&sampling), world, options.end);
        let mut scout = Scout::new(dataset, sources.clone(), fields.large_bytes, order);
        if scout.is_wanted() && resident.is_none() {
            scout.restart(0, start);
        }
        let mut planner = Planner::new(
            dataset.clone(),
            sources,
            Arc::clone(&fields),
            (options.max_batch_bytes, options.stage.clone()),
            steps,
        );
        if fields.patches.is_some() {
            planner.with_scenes(predicted.scenes_ahead, Steps::new(sampling.epoch_of(&start)?, share.clone()));
        }
        planner.held = held;
        planner.in_parts = resident.as_ref().is_none_or(|resident| !resident.is_enough());
        let state = State::new(Bounds {
            slots: options.slots,
            room: predicted.room,
            threads,
            run_bytes: predicted.run_bytes,
            on_corrupt: options.on_corrupt,
            dims: fields.dims,
            is_resident: resident.is_some(),
            are_scenes: fields.patches.is_some(),
        });
        let recipe = Recipe::new(Arc::clone(&fields), sampling.seed(), &options, resident.clone());
        let shared = Arc::new(Shared::new(
            state,
            (planner, scout),
            recipe,
            options.epoch,
            (Arc::clone(&options.memory), options.stage.clone()),
        ));
        shared.counters.read_bytes.fetch_add(resident.as_ref().map_or(0, |all| all.read_bytes), Ordering::Relaxed);
        if options.stage.is_some() {
            shared.fill_ring(options.slots, &predicted.room)?;
        }
        Ok(Self {
            dataset: dataset.clone(),
            options,
            sampling,
            fields,
            world,
            start,
            share,
            threads,
            predicted,
            held,
            predicted_bytes: predicted.total(held),
            resident,
            shared,
            pool: None,
            waited: Duration::ZERO,
            asked: 0,
            found_ready: 0,
            handed_bytes: 0,
            batches: 0,
            delivered: 0,
            begun: false,
            ended: false,
            told: false,
            is_waiting: false,
        })
    }

    /// The next batch of the epoch; `None` at its end, until [`Loader::set_epoch`]. Waits only if
    /// the batch is not ready.
    ///
    /// # Errors
    /// `Format` or `Limit` if a sample of this batch is damaged (see [`OnCorrupt`]), `Io` if it
    /// cannot be read or there is no memory for it: the next call goes on with the batch after it.
    /// `Usage` in a fork of the process that began to load, `Internal` if the pool has broken down:
    /// once, then nothing more comes.
    pub fn next_batch(&mut self) -> Option<Result<Batch>> {
        loop {
            // As good as for ever: a wait that has an end needs no second way through.
            if let Poll::Ready(batch) = self.next_batch_timeout(Duration::from_secs(3600)) {
                return batch;
            }
        }
    }

    /// As [`Loader::next_batch`], but waits no longer than `timeout`: then it is `Pending`, and the
    /// next call goes on waiting. For callers who must look after something else now and then, such
    /// as signals.
    ///
    /// # Errors
    /// As [`Loader::next_batch`].
    pub fn next_batch_timeout(&mut self, timeout: Duration) -> Poll<Option<Result<Batch>>> {
        // Before the lock: in a fork, a thread that is not there may hold it.
        if self.shared.is_forked() {
            let expected = "used in the process that began to load";
            let hint = "open the loader after the fork, or start workers with spawn";
            let told = std::mem::replace(&mut self.told, true);
            let error = || Error::usage("loader", expected, "a fork of that process").with_hint(hint);
            return Poll::Ready((!told).then(|| Err(error())));
        }
        if self.pool.is_none() {
            match Pool::start(Arc::clone(&self.shared), self.threads) {
                Ok(pool) => self.pool = Some(pool),
                Err(error) => {
                    return Poll::Ready(Some(Err(Error::io(self.dataset.path(), "start threads to load", error))));
                }
            }
        }
        self.begun = true;
        let mut state = self.shared.state();
        // Once for each batch, however often the caller comes back for it.
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.asked += 1;
            self.found_ready += state.finished() as u64;
        }
        let mut waiting: Option<Instant> = None;
        let mut broken = false;
        let taken = loop {
            if let Some(error) = &state.broken {
                // Said once: a loop that goes past errors must come to an end.
                if std::mem::replace(&mut self.told, true) {
                    break None;
                }
                broken = true;
                break Some(Err(fault::copy(error)));
            }
            if let Some(taken) = state.take() {
                break Some(taken);
            }
            if state.is_over() {
                self.ended = true;
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
        // There is room for one more batch in the making.
        self.shared.wake_threads();
        if let Some(start) = waiting {
            self.waited += start.elapsed();
        }
        let Some(taken) = taken else { return Poll::Ready(None) };
        if !broken {
            self.batches += 1;
        }
        Poll::Ready(Some(taken.and_then(|(slot, plan)| {
            self.delivered = plan.number + 1;
            self.handed_bytes += plan.bytes as u64;
            let mut lent = Lent {
                slot: Some(slot),
                plan,
                fields: Arc::clone(&self.fields),
                dataset: self.dataset.clone(),
                seed: self.sampling.seed(),
                epoch: self.start.epoch,
                home: Arc::downgrade(&self.shared),
            };
            if let Some(mix) = &self.options.mix {
                mixing::mix(&mix.choices, self.options.layout, &mut lent)?;
            }
            Ok(Batch::new(lent))
        })))
    }

    /// Batches that this rank gets from the start of the epoch, or from where [`Loader::restore`]
    /// went on: exact before the first.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.share.batches()
    }

    /// Samples of a whole epoch, or patches, over all ranks.
    #[must_use]
    pub const fn positions(&self) -> u64 {
        self.share.positions()
    }

    /// Whether there is no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The dataset.
    #[must_use]
    pub const fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The options, as they are in force.
    #[must_use]
    pub const fn options(&self) -> &LoaderOptions {
        &self.options
    }

    /// Names of the fields of a batch.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.plans.iter().map(|field| field.name.as_str())
    }

    /// The epoch that batches come from.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.start.epoch
    }

    /// How far this loader has come: up to the last batch that was handed out. What was prepared
    /// does not count, nor does a batch that was an error, until one after it is handed out: a run
    /// that ends with the error goes on with the samples that it did not get.
    ///
    /// The same on all ranks that were handed as many batches, and on all that were told that the
    /// epoch is over; if they differ, because a rank failed, the least of them loses nothing.
    #[must_use]
    pub fn state(&self) -> Progress {
        // With `End::Uneven`, other ranks may have had one batch more.
        let all = self.ended && self.delivered == self.share.batches();
        let batches = if all { self.share.steps() } else { self.delivered };
        Progress { samples_consumed: self.share.consumed_after(batches), ..self.start }
    }

    /// Goes on from a state that was saved with any world size, batch size or number of threads.
    /// Batches that the caller holds stay valid.
    ///
    /// The loop that begins also goes on, because [`Loader::set_epoch`] with the epoch of the state
    /// leaves it where it is:
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, Loader, LoaderOptions};
    /// let mut loader = Loader::open(&Dataset::open("train")?, LoaderOptions::default())?;
    /// if let Ok(text) = std::fs::read_to_string("state.json") {
    ///     loader.restore(&serde_json::from_str(&text).unwrap())?;
    /// }
    /// for epoch in loader.epoch()..90 {
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
    /// `Usage` if the state is of another dataset, seed or order.
    pub fn restore(&mut self, state: &Progress) -> Result<()> {
        if self.shared.is_forked() {
            return Err(Error::usage("loader", "used in the process that began to load", "a fork of that process"));
        }
        let epoch = self.sampling.epoch_of(state)?;
        let scenes = self.fields.patches.is_some().then(|| self.sampling.epoch_of(state)).transpose()?;
        self.share = Share::new(self.world, self.options.end, &*epoch, state);
        let scenes = scenes.map(|epoch| Steps::new(epoch, self.share.clone()));
        self.start = *state;
        self.delivered = 0;
        self.begun = false;
        self.ended = false;
        self.told = false;
        // The last epoch may have brought it into the page cache, or another program out of it.
        if self.resident.is_none() {
            let decided = Held::of(self.options.window, &self.dataset, (&self.fields, &self.predicted));
            self.held = self.held.then(decided);
        }
        self.predicted_bytes = self.predicted_bytes.max(self.predicted.total(self.held));
        let mut planner = self.shared.planner();
        planner.restart(Steps::new(epoch, self.share.clone()), scenes);
        planner.held = self.held;
        let generation = planner.generation;
        if self.resident.is_none() {
            self.shared.send_scout(generation, *state);
        }
        // While the planner is held: no thread can plan for the new epoch before the state knows of
        // it.
        self.shared.restart(generation, state.epoch, self.held != Held::Memory);
        Ok(())
    }

    /// Begins epoch `epoch`, from its start; or, if that is the epoch at hand and no batch of it
    /// was asked for, leaves it where [`Loader::restore`] put it. So it can stand at the top of
    /// every epoch.
    ///
    /// # Errors
    /// As [`Loader::restore`].
    pub fn set_epoch(&mut self, epoch: u32) -> Result<()> {
        if epoch == self.start.epoch && !self.begun {
            return Ok(());
        }
        self.restore(&Progress { epoch, samples_consumed: 0, ..self.start })
    }

    /// Pictures so far that have more than 8 bits a sample, of which 8 are left in the batches: as
    /// in [`LoaderStats`], at next to no cost.
    #[must_use]
    pub fn narrowed_pictures(&self) -> u64 {
        self.shared.counters.narrowed.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Rows so far that the stage refused or found odd, and that the host decoded, by reason.
    #[must_use]
    pub fn refusals(&self) -> Vec<stage::Refusal> {
        self.shared.refusals.list()
    }

    /// Memory that the slots take on the device of the stage, and the values that stay there, in
    /// bytes; 0 without one.
    #[must_use]
    pub fn predicted_device_bytes(&self) -> u64 {
        let kept = self.resident.as_ref().map_or(0, |resident| resident.device_bytes());
        device_bytes(&self.options, &self.predicted).saturating_add(kept)
    }

    /// Memory that the loader takes, in bytes, besides the indexes of the dataset: slots, the
    /// threads' scratch, what the storage holds ([`Dataset::read_ahead_bytes`]), and, where the page
    /// cache does not hold it ([`Window`]), the window of the order with what is read ahead. Of
    /// several epochs, the one that takes most.
    #[must_use]
    pub const fn predicted_bytes(&self) -> u64 {
        self.predicted_bytes
    }
}

/// Bytes that all slots take on the device.
fn device_bytes(options: &LoaderOptions, predicted: &predict::Predicted) -> u64 {
    let slots = options.slots as u64;
    options.stage.as_ref().map_or(0, |stage| stage.device_bytes(&predicted.room).saturating_mul(slots))
}

//! Opens a loader: plans the fields and sizes, and sets up the slots and the state that threads share.

use super::{EpochPhase, Loader};
use crate::decode::Recipe;
use crate::fields::Fields;
use crate::options::LoaderOptions;
use crate::order::{End, Members, Order, OrderState, Runs, Sampling, Share, Sources, World};
use crate::planner::{self, Epochs, Held, Planner, Predicted, ReadAhead, ReadAheadStart};
use crate::pool::PoolShared;
use crate::ring::{Ring, RingLimits};
use crate::stage::Keeper;
use crate::supply::{self, Watch};
use shardpack_format::{Hint, Voice};
use shardpack_reader::{Dataset, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

impl LoaderOptions<Dataset> {
    /// Loads only the samples with these dataset indices.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, LoaderOptions};
    /// let dataset = Dataset::open("train")?;
    /// let tenth = (0..dataset.len()).step_by(10);
    /// let loader = LoaderOptions::default().of(&dataset).subset(tenth).open()?;
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    #[must_use]
    pub fn subset(self, samples: impl IntoIterator<Item = u64>) -> Self {
        Self { subset: Some(samples.into_iter().collect()), ..self }
    }

    /// Opens a loader with these options.
    ///
    /// # Errors
    /// Same as [`Loader::open`].
    pub fn open(self) -> Result<Loader> {
        let Self { mut order, view, output, resources, dataset, subset } = self;
        if let Some(samples) = subset {
            if order.sampling.is_some() {
                return Err(Error::usage("`subset` and `sampling` cannot be combined"));
            }
            let members = Members::new(&Runs::of(&dataset, Runs::BYTES), samples);
            let whole = Order::of(&dataset, order.seed).mode(order.mode).lanes(order.lanes);
            order.sampling = Some(Arc::new(whole.subset(members)));
        }
        Loader::open(&dataset, LoaderOptions { order, view, output, resources, dataset: (), subset: None })
    }
}

impl Loader {
    /// Prepares to load `dataset` by planning its fields and sizes. Starts no threads and reads only a few
    /// records. With [`LoaderOptions::resident`], however, it reads the whole dataset.
    ///
    /// # Errors
    /// `Usage` if the options contradict each other or the dataset. Examples are a sampling with samples that
    /// the dataset lacks, and a batch larger than any epoch together with [`End::Drop`]. `Io` if the slots do
    /// not fit in the memory of the stage's device. Otherwise the same errors as [`Dataset::get`].
    pub fn open(dataset: &Dataset, options: LoaderOptions) -> Result<Self> {
        Self::open_watched(dataset, options, Watch { cancel: &AtomicBool::new(false), progress: &|_, _| {} })
    }

    /// Same as [`Loader::open`], but reports progress and can be cancelled. Meant for loaders whose values
    /// stay on a device, because opening them reads the whole dataset.
    ///
    /// # Errors
    /// Same as [`Loader::open`], and `Usage` if cancelled.
    pub fn open_watched(dataset: &Dataset, options: LoaderOptions, watch: Watch<'_>) -> Result<Self> {
        let mut options = options;
        options.resources.slots = options.resources.slots.max(1);
        if options.resources.stage.as_ref().is_some_and(|stage| stage.decodes()) && options.output.transform.is_some() {
            let error = Error::usage("a transform needs rows in host memory, but the rows are decoded on a device");
            return Err(error.with_hint("decode on the host, or transform each batch on the device after it is loaded"));
        }
        let world = World::new(options.order.rank, options.order.world_size, options.order.batch_size)?;
        let sampling: Arc<dyn Sampling> = match &options.order.sampling {
            Some(sampling) => Arc::clone(sampling),
            None => {
                Arc::new(Order::of(dataset, options.order.seed).mode(options.order.mode).lanes(options.order.lanes))
            }
        };
        let sources = Sources::fit(dataset, &*sampling)?;
        let fields = Fields::plan(dataset, &options)?;
        let sampling = match &fields.patches {
            Some(patches) => patches.order(sampling, &sources, options.order.open_scenes)?,
            None => sampling,
        };
        let threads = match options.resources.threads {
            0 => shardpack_io::cores(),
            threads => threads,
        };
        let start = OrderState { epoch: options.order.epoch, ..OrderState::start(&*sampling) };
        let epoch = sampling.epoch_of(&start)?;
        let keeper = options.keeper()?;
        let mut predicted = planner::predict(dataset, &options, &fields, &*epoch, &sources, threads)?;
        let fill = |keeper: &Arc<dyn Keeper>| {
            let slot_bytes = device_bytes(&options, &predicted);
            supply::fill(dataset, &fields, keeper, threads, slot_bytes, watch)
        };
        let resident = keeper.as_ref().map(fill).transpose()?.map(Arc::new);
        predicted.kept_bytes = resident.as_ref().map_or(0, |resident| resident.host_bytes());
        let fields = Arc::new(fields.with_records_of(predicted.record_bytes));
        let epochs = Arc::new(Epochs {
            sampling,
            world,
            end: options.order.end,
            dataset: dataset.clone(),
            fields: Arc::clone(&fields),
            window: options.resources.window,
            predicted,
            is_resident: resident.is_some(),
        });
        let first = epochs.begin(&start, None)?;
        let (held, share) = (first.held, first.steps.share().clone());
        refuse_no_batch(&share, &epochs, &options)?;
        let mut read_ahead = ReadAhead::new(Arc::clone(&epochs), sources.clone());
        if read_ahead.is_wanted() && resident.is_none() {
            read_ahead.restart(ReadAheadStart { generation: 0, start, goes_on: false, held });
        }
        let on_device = resident.as_ref().is_some_and(|resident| resident.is_enough());
        let (most, stage) = (options.resources.max_batch_bytes, options.resources.stage.clone());
        let planner = Planner::new(Arc::clone(&epochs), sources, most, stage, on_device, first);
        let limits = RingLimits {
            slots: options.resources.slots,
            room: predicted.room,
            threads,
            run_bytes: predicted.run_bytes,
            held_bytes: predicted.held,
            on_corrupt: options.output.on_corrupt,
            dims: fields.dims,
            is_resident: resident.is_some(),
            are_scenes: fields.patches.is_some() && resident.is_none(),
        };
        let ring = Ring::new(limits, start.epoch);
        let (seed, limits) = (epochs.sampling.seed(), dataset.limits().clone());
        let recipe = Recipe::new(Arc::clone(&fields), seed, limits, &options, resident.clone());
        let memory = Arc::clone(&options.resources.memory);
        let shared = Arc::new(PoolShared::new(ring, planner, read_ahead, recipe, memory));
        shared.counters.read_bytes.fetch_add(resident.as_ref().map_or(0, |all| all.read_bytes), Ordering::Relaxed);
        if options.resources.stage.is_some() {
            shared.fill_ring(options.resources.slots, &predicted.room)?;
        }
        Ok(Self {
            dataset: dataset.clone(),
            options,
            epochs,
            fields,
            start,
            share,
            threads,
            held,
            predicted_bytes: predicted.total(held == Held::Memory),
            resident,
            shared,
            pool: None,
            waited: Duration::ZERO,
            asked: 0,
            found_ready: 0,
            handed_bytes: 0,
            batches: 0,
            delivered: 0,
            goes_on: false,
            phase: EpochPhase::Fresh,
            is_waiting: false,
        })
    }
}

/// Fails if incomplete batches are dropped and no epoch fills a batch, because the loader would never return
/// one. An empty dataset is fine.
fn refuse_no_batch(share: &Share, epochs: &Epochs, options: &LoaderOptions) -> Result<()> {
    let positions = share.positions();
    if positions == 0 || options.order.end != End::Drop || share.whole().batches() > 0 {
        return Ok(());
    }
    let what = if epochs.fields.patches.is_some() { "patches" } else { "samples" };
    let every = match options.order.world_size {
        1 => format!("{} {what}", options.order.batch_size),
        ranks => format!("{} {what} on each of {ranks} ranks", options.order.batch_size),
    };
    let hint = Hint::new("")
        .only(Voice::Rust, "keep incomplete batches with `End::Pad` or `End::Uneven`")
        .only(Voice::Python, "keep incomplete batches with end=\"pad\" or end=\"uneven\"");
    let text = format!("every batch would be dropped: a batch needs {every}, but an epoch has only {positions}");
    Err(Error::usage(text).with_hint(hint))
}

pub(super) fn device_bytes(options: &LoaderOptions, predicted: &Predicted) -> u64 {
    let slots = options.resources.slots as u64;
    options.resources.stage.as_ref().map_or(0, |stage| stage.device_bytes(&predicted.room).saturating_mul(slots))
}

//! The loader: waits without the interpreter, and checks for signals meanwhile.

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::device::Stage;
use crate::errors::raise;
use crate::transform::Function;
use crate::values::indices;
use crate::watch::watch;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardpack_format::Error;
use shardpack_jpeg::{PixelLayout, Scaling};
use shardpack_loader::order::{End, Members, Mixture, Mode, Order, Runs, Sampling, State, Weighted};
use shardpack_loader::stage;
use shardpack_loader::{
    Align, ArrayDtype, Augments, BatchMix, EpochPhase, Factors, LoaderOptions, Mix, NoData, OnCorrupt, PatchClasses,
    Patches, Watch, parse_augment, parse_bands,
};
use shardpack_reader::Bands;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Fails unless `text` names augmentations, of rows or of batches, with options in their ranges.
#[pyfunction]
pub(crate) fn check_augmentation(text: &str) -> PyResult<()> {
    if ["mixup", "cutmix"].contains(&text.split('(').next().unwrap_or_default()) {
        return text.parse::<Mix>().map(|_| ()).map_err(|error| raise(error.into()));
    }
    parse_augment(text).map(|_| ()).map_err(raise)
}

/// How long to wait before checking for signals: Ctrl-C ends a wait within a second.
const PATIENCE: Duration = Duration::from_millis(100);

/// A loader of the library, or `None` once it is closed.
#[pyclass(module = "shardpack._shardpack", frozen)]
pub(crate) struct Loader {
    inner: Mutex<Option<shardpack_loader::Loader>>,
    /// The number of the latest iteration. It changes while `inner` is locked.
    turn: AtomicU64,
    /// The process that made it.
    pid: u32,
    /// Whether it has threads, which a fork has not: known without the lock.
    has_threads: AtomicBool,
}

/// A state as Python has it: fingerprint, seed, epoch, samples consumed, and what these are.
type Resume = (String, u64, u32, u64, String);

/// A range of bands such as `10..50`, or their numbers.
#[derive(FromPyObject)]
enum BandsOption {
    Text(String),
    List(Vec<u64>),
}

/// What comes in the place of no-data: in all cubes, or by field.
#[derive(FromPyObject)]
enum NoDataOption {
    Cubes(f32),
    Fields(Vec<(String, f32)>),
}

/// What Python passes: plain values, checked where they are used.
#[derive(FromPyObject)]
pub(crate) struct Options<'py> {
    batch_size: u32,
    seed: u64,
    epoch: u32,
    rank: u32,
    world_size: u32,
    order: String,
    lanes: u64,
    end: String,
    image: String,
    frames: String,
    cube: String,
    /// Patches of each sample; 0 for all of a grid.
    patches: u32,
    overlap: [u32; 3],
    /// Scenes whose patches are mixed; 0 for as many as are usual.
    open_scenes: u32,
    /// Whether patches show all classes of their mask equally often, or classes by weights.
    patches_balanced: bool,
    patch_weights: Option<BTreeMap<i64, f64>>,
    layout: String,
    bands: Option<BandsOption>,
    dtype: Option<String>,
    /// Means and standard deviations of pictures, and of fields of arrays.
    scaling: Option<(Vec<f64>, Vec<f64>)>,
    normalise: Vec<(String, Vec<f64>, Vec<f64>)>,
    no_data: Option<NoDataOption>,
    augment: Option<String>,
    /// How batches are mixed, and the number of classes.
    mix_batch: Option<(Vec<String>, u32)>,
    /// Called for every row.
    transform: Option<Py<PyAny>>,
    fields: Option<Vec<String>>,
    /// Fields that are no tensors.
    objects: Vec<String>,
    /// Fields that follow their picture, and how.
    align: Vec<(String, String)>,
    members: Option<Bound<'py, PyArray1<u64>>>,
    /// One for each sample of the dataset.
    weights: Option<Bound<'py, PyArray1<f64>>>,
    /// One for each class.
    class_weights: Option<BTreeMap<i64, f64>>,
    balanced: bool,
    /// The datasets that were joined, and how often each is used.
    mix: Option<Vec<(Bound<'py, Dataset>, f64)>>,
    threads: usize,
    /// `None` for as many as are right where it decodes.
    slots: Option<usize>,
    window: String,
    max_batch: u64,
    skip_corrupt: u64,
    /// The device that decodes.
    stage: Option<Bound<'py, Stage>>,
    /// Whether values stay on it.
    resident: bool,
}

impl Options<'_> {
    fn mode(&self) -> PyResult<Mode> {
        match &*self.order {
            "stored" => Ok(Mode::Stored),
            "windowed" => Ok(Mode::Windowed),
            "full" => Ok(Mode::Full),
            other => Err(PyValueError::new_err(format!("order: expected stored, windowed or full, found `{other}`"))),
        }
    }

    /// The order of `dataset`, or of a part of a mixture.
    fn order_of(&self, dataset: &shardpack_reader::Dataset) -> PyResult<Order> {
        Ok(Order::of(dataset, self.seed).mode(self.mode()?).lanes(self.lanes))
    }

    /// The order of a subset, of weighted draws, or of a mixture; `None` for the order of the whole
    /// dataset.
    fn sampling(&self, dataset: &shardpack_reader::Dataset) -> PyResult<Option<Arc<dyn Sampling>>> {
        if let Some(mix) = &self.mix {
            let source = |(part, weight): &(Bound<'_, Dataset>, f64)| {
                Ok((Arc::new(self.order_of(&part.get().inner)?) as Arc<dyn Sampling>, *weight))
            };
            let sources = mix.iter().map(source).collect::<PyResult<_>>()?;
            return Ok(Some(Arc::new(Mixture::new(sources, self.seed).map_err(raise)?)));
        }
        let id = dataset.version_id();
        let draws = match &self.members {
            Some(members) => members.readonly().as_array().len() as u64,
            None => dataset.len(),
        };
        let weighted = match (&self.weights, &self.class_weights) {
            (Some(weights), _) => Weighted::by_sample(&weights.readonly().as_array().to_vec(), self.seed),
            (None, Some(weights)) => {
                dataset.labels().and_then(|labels| Weighted::by_class(&labels, weights, self.seed))
            }
            (None, None) if self.balanced => dataset.labels().and_then(|labels| Weighted::balanced(&labels, self.seed)),
            (None, None) => {
                let Some(members) = &self.members else { return Ok(None) };
                let members = Members::new(&Runs::of(dataset, Runs::BYTES), indices(members)?);
                return Ok(Some(Arc::new(self.order_of(dataset)?.subset(members))));
            }
        };
        Ok(Some(Arc::new(weighted.map_err(raise)?.draws(draws).dataset(id))))
    }

    fn factors(&self) -> PyResult<Vec<(String, Factors)>> {
        let of = |(field, mean, std): &(String, Vec<f64>, Vec<f64>)| match Factors::new(mean, std) {
            Ok(factors) => Ok((field.clone(), factors)),
            Err(Error::Usage { what, expected, found, hint }) => {
                let what = format!("{what} of field `{field}`");
                Err(raise(Error::Usage { what, expected, found, hint }.into()))
            }
            Err(error) => Err(raise(error.into())),
        };
        self.normalise.iter().map(of).collect()
    }

    fn loader_options(&self, py: Python<'_>, dataset: &shardpack_reader::Dataset) -> PyResult<LoaderOptions> {
        let augments = match &self.augment {
            None => Augments::default(),
            Some(text) => parse_augment(text).map_err(raise)?,
        };
        Ok(LoaderOptions {
            batch_size: self.batch_size,
            seed: self.seed,
            epoch: self.epoch,
            rank: self.rank,
            world_size: self.world_size,
            mode: self.mode()?,
            lanes: self.lanes,
            sampling: self.sampling(dataset)?,
            end: match &*self.end {
                "drop" => End::Drop,
                "pad" => End::Pad,
                "uneven" => End::Uneven,
                other => {
                    let text = format!("end: expected drop, pad or uneven, found `{other}`");
                    return Err(PyValueError::new_err(text));
                }
            },
            image: self.image.parse().map_err(raise)?,
            frames: self.frames.parse().map_err(raise)?,
            cube: self.cube.parse().map_err(raise)?,
            patches: match self.patches {
                0 => Patches::Grid { overlap: self.overlap },
                1 => Patches::One,
                count => Patches::PerSample(count),
            },
            open_scenes: self.open_scenes,
            patch_classes: match &self.patch_weights {
                Some(weights) => {
                    PatchClasses::Weighted(weights.iter().map(|(&class, &weight)| (class, weight)).collect())
                }
                None if self.patches_balanced => PatchClasses::Balanced,
                None => PatchClasses::Any,
            },
            bands: match &self.bands {
                None => Bands::All,
                Some(BandsOption::Text(text)) => parse_bands(text).map_err(raise)?,
                Some(BandsOption::List(bands)) => bands_of(bands),
            },
            dtype: match &self.dtype {
                None => ArrayDtype::Source,
                Some(text) => text.parse().map_err(raise)?,
            },
            scaling: match &self.scaling {
                None => None,
                Some((mean, std)) => Some(Scaling::of(mean, std).map_err(|error| raise(error.into()))?),
            },
            normalise: self.factors()?,
            no_data: match &self.no_data {
                None => NoData::AsStored,
                Some(NoDataOption::Cubes(with)) => NoData::Cubes(*with),
                Some(NoDataOption::Fields(fields)) => NoData::Fields(fields.clone()),
            },
            augment: augments.arrays,
            augment_bands: augments.bands,
            augment_pictures: augments.pictures,
            mix: match &self.mix_batch {
                None => None,
                Some((texts, classes)) => {
                    let choices = texts.iter().map(|text| text.parse().map_err(|error: Error| raise(error.into())));
                    Some(BatchMix { choices: choices.collect::<PyResult<_>>()?, classes: *classes })
                }
            },
            transform: self.transform.as_ref().map(|function| Arc::new(Function(function.clone_ref(py))) as _),
            stage: self.stage.as_ref().map(|stage| stage.get().inner.clone() as Arc<dyn stage::Stage>),
            resident: self.resident,
            layout: match &*self.layout {
                "hwc" => PixelLayout::HeightWidthChannels,
                "chw" => PixelLayout::ChannelsHeightWidth,
                other => {
                    let text = format!("layout: expected hwc or chw, found `{other}`");
                    return Err(PyValueError::new_err(text));
                }
            },
            fields: self.fields.clone(),
            objects: self.objects.clone(),
            align: self.align.iter().map(aligned).collect::<PyResult<_>>()?,
            threads: self.threads,
            slots: self.slots.unwrap_or_else(|| LoaderOptions::default_slots(self.stage.is_some())),
            window: self.window.parse().map_err(raise)?,
            max_batch_bytes: self.max_batch,
            on_corrupt: match self.skip_corrupt {
                0 => OnCorrupt::Error,
                max => OnCorrupt::Skip { max },
            },
            ..LoaderOptions::default()
        })
    }
}

fn aligned((field, text): &(String, String)) -> PyResult<(String, Align)> {
    Ok((field.clone(), text.parse().map_err(raise)?))
}

/// Ascending neighbours become a range, which costs less than a list.
fn bands_of(bands: &[u64]) -> Bands {
    let in_a_row = bands.windows(2).all(|pair| matches!(pair, [a, b] if a.checked_add(1) == Some(*b)));
    match (bands.first(), bands.last().and_then(|last| last.checked_add(1))) {
        (Some(first), Some(end)) if in_a_row => Bands::Range(*first..end),
        _ => Bands::List(bands.to_vec()),
    }
}

#[pymethods]
impl Loader {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "how arguments come")]
    fn new(py: Python<'_>, dataset: &Bound<'_, Dataset>, options: Options<'_>) -> PyResult<Self> {
        let dataset = dataset.get().inner.clone();
        let options = options.loader_options(py, &dataset)?;
        let inner = if options.resident {
            let open = |cancel: &Arc<AtomicBool>, _: &(dyn Fn(()) + Sync)| {
                let watch = Watch { cancel, progress: &|_, _| {} };
                shardpack_loader::Loader::open_watched(&dataset, options, watch)
            };
            watch(py, None, |(), _| Ok(()), open)?
        } else {
            py.detach(|| shardpack_loader::Loader::open(&dataset, options))
        };
        let inner = inner.map_err(raise)?;
        let (pid, has_threads) = (std::process::id(), AtomicBool::new(false));
        Ok(Self { inner: Mutex::new(Some(inner)), turn: AtomicU64::new(0), pid, has_threads })
    }

    /// Begins an iteration: of the epoch at hand if nothing of it was handed out, else of the next
    /// one. It asks for batches with the number that it gets here; those before it get no more.
    fn begin(&self, py: Python<'_>) -> PyResult<u64> {
        let begun = self.with(py, |loader| {
            if loader.phase() != EpochPhase::Fresh {
                let epoch = loader.state().epoch;
                let most = format!("0 to {}", u32::MAX);
                let next = epoch.checked_add(1);
                let next = next.ok_or_else(|| Error::usage("epoch", most, u64::from(epoch) + 1))?;
                loader.set_epoch(next)?;
            }
            Ok(self.replace_iterations())
        });
        begun?.map_err(raise)
    }

    /// The next batch of the epoch, or `None` at its end, for the iteration of this number. Several
    /// threads may ask at the same time: each batch comes once.
    fn next(&self, py: Python<'_>, turn: u64) -> PyResult<Option<Batch>> {
        let next = |loader: &mut shardpack_loader::Loader| {
            let is_latest = self.turn.load(Ordering::Relaxed) == turn;
            is_latest.then(|| {
                self.has_threads.store(true, Ordering::Relaxed);
                loader.next_batch_timeout(PATIENCE)
            })
        };
        loop {
            match self.with(py, next)? {
                None => {
                    return Err(PyRuntimeError::new_err(
                        "iteration over a loader: expected the latest one, found one that another has replaced",
                    ));
                }
                Some(Poll::Ready(None)) => return Ok(None),
                Some(Poll::Ready(Some(batch))) => return Ok(Some(Batch { inner: batch.map_err(raise)? })),
                Some(Poll::Pending) => py.check_signals()?,
            }
        }
    }

    /// Takes the place of another loader: an iteration that has begun there goes on here.
    fn follow(&self, other: &Bound<'_, Self>) {
        self.turn.store(other.get().turn.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Batches of the whole epoch, wherever a state went on.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |loader| usize::try_from(loader.epoch_len()).unwrap_or(usize::MAX))
    }

    /// Makes the next iteration this epoch, from its beginning; what is left of it, if a state of it
    /// was restored and nothing was handed out since. No other iteration goes on.
    fn set_epoch(&self, py: Python<'_>, epoch: u32) -> PyResult<()> {
        let set = self.with(py, |loader| {
            self.replace_iterations();
            match loader.phase() {
                EpochPhase::Fresh if loader.state().epoch == epoch => Ok(()),
                _ => loader.set_epoch(epoch),
            }
        });
        set?.map_err(raise)
    }

    /// How far the loader is: fingerprint, seed, epoch, samples consumed, and what these are; and how
    /// far that epoch is: fresh, running, ended or broken.
    fn state(&self, py: Python<'_>) -> PyResult<(Resume, &'static str)> {
        let (state, phase) = self.with(py, |loader| (loader.state(), loader.phase()))?;
        let unit = state.unit.to_string();
        let phase = match phase {
            EpochPhase::Fresh => "fresh",
            EpochPhase::Ended => "ended",
            EpochPhase::Broken => "broken",
            _ => "running",
        };
        Ok(((state.fingerprint.to_string(), state.seed, state.epoch, state.samples_consumed, unit), phase))
    }

    /// Whether it has threads; in a fork, whether it had.
    #[getter]
    fn has_threads(&self) -> bool {
        self.has_threads.load(Ordering::Relaxed)
    }

    /// Samples of an epoch, or patches, over all ranks.
    fn positions(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.positions())
    }

    /// Continues from a state.
    fn restore(
        &self,
        py: Python<'_>,
        fingerprint: String,
        seed: u64,
        epoch: u32,
        samples_consumed: u64,
        unit: String,
    ) -> PyResult<()> {
        let fingerprint = fingerprint.try_into().map_err(PyValueError::new_err)?;
        let unit = unit.try_into().map_err(PyValueError::new_err)?;
        let state = State { fingerprint, seed, epoch, samples_consumed, unit };
        let restored = self.with(py, |loader| loader.restore(&state).inspect(|()| _ = self.replace_iterations()));
        restored?.map_err(raise)
    }

    /// Names of the fields of a batch.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |loader| loader.names().map(str::to_owned).collect())
    }

    /// Memory that the loader takes.
    fn predicted_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.predicted_bytes())
    }

    /// Memory that the loader takes on its device.
    fn predicted_device_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.predicted_device_bytes())
    }

    /// Rows that were decoded on the host in place of the device: why, how many, and the keys of
    /// the first.
    fn refusals(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, Vec<String>)>> {
        let all = self.with(py, |loader| loader.refusals())?;
        Ok(all.into_iter().map(|refusal| (refusal.reason, refusal.rows, refusal.first)).collect())
    }

    /// Pictures so far that have more than 8 bits per sample and were decoded to 8.
    fn narrowed_pictures(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |loader| loader.narrowed_pictures())
    }

    /// Figures since the loader was opened.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, |loader| loader.stats())?;
        let dict = PyDict::new(py);
        let counts = [
            ("batches", stats.batches),
            ("samples", stats.samples),
            ("read_bytes", stats.read_bytes),
            ("output_bytes", stats.output_bytes),
            ("skipped", stats.skipped),
            ("narrowed_pictures", stats.narrowed_pictures),
            ("extra_slots", stats.extra_slots),
            ("grown_slots", stats.grown_slots),
            ("device_rows", stats.device_rows),
            ("resident_values", stats.resident_values),
            ("peak_run_bytes", stats.peak_run_bytes),
            ("peak_rss_bytes", stats.peak_rss_bytes),
            ("predicted_bytes", stats.predicted_bytes),
            ("window_in_page_cache", u64::from(stats.window_in_page_cache)),
            ("requests", stats.traffic.requests),
            ("retried_requests", stats.traffic.retries),
            ("hedged_requests", stats.traffic.hedges),
            ("fetched_bytes", stats.traffic.fetched_bytes),
            ("peak_requests_in_flight", stats.traffic.peak_in_flight),
            ("peak_fetched_bytes_held", stats.traffic.peak_held_bytes),
            ("cache_hits", stats.traffic.cache.hits),
            ("cache_misses", stats.traffic.cache.misses),
            ("cache_hit_bytes", stats.traffic.cache.hit_bytes),
            ("cache_evicted", stats.traffic.cache.evicted),
            ("cache_dropped", stats.traffic.cache.dropped),
            ("cache_failed_writes", stats.traffic.cache.failed_writes),
        ];
        let figures = [
            ("read_s", stats.read_s),
            ("crc_s", stats.crc_s),
            ("decode_s", stats.decode_s),
            ("idle_for_consumer_s", stats.idle_for_consumer_s),
            ("idle_for_data_s", stats.idle_for_data_s),
            ("consumer_wait_s", stats.consumer_wait_s),
            ("queue_fill", stats.queue_fill),
        ];
        for (name, value) in counts {
            dict.set_item(name, value)?;
        }
        for (name, value) in figures {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Ends the threads. Batches that the caller holds stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}

/// Threads may wait for the interpreter, to call a transform: it is let go while they end.
impl Drop for Loader {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        Python::try_attach(|py| py.detach(|| drop(inner)));
    }
}

impl Loader {
    /// Ends all iterations, with the loader in hand; the number of the one that may begin.
    fn replace_iterations(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// After a fork, a thread that does not exist here may hold the lock.
    fn check_process(&self) -> PyResult<()> {
        match std::process::id() == self.pid {
            true => Ok(()),
            false => Err(PyRuntimeError::new_err(
                "loader: expected the process that made it, found a fork of that process\n\
                 hint: make the loader in the child, or start workers with spawn",
            )),
        }
    }

    /// Works with the loader, without the interpreter: another thread may hold the lock while this
    /// one waits.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut shardpack_loader::Loader) -> T + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_mut().map(work)
        })
        .ok_or_else(|| PyRuntimeError::new_err("loader: expected an open one, found one that was closed"))
    }
}

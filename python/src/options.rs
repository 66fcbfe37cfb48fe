//! The options of a loader, as Python passes them, and their conversion to the library's options.

use crate::dataset::PyDataset;
use crate::device::Stage;
use crate::errors::{UsageError, raise};
use crate::transform::Function;
use crate::values::indices;
use crate::workers::Workers;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shardpack_jpeg::{PixelLayout, Scaling};
use shardpack_loader::order::{End, Members, Mixture, Mode, Order, Runs, Sampling, Weighted};
use shardpack_loader::stage;
use shardpack_loader::{
    Align, ArrayDtype, Augments, BatchMix, ClipLayout, Factors, ImageMode, LoaderOptions, Mix, NoData, OnCorrupt,
    OrderOptions, OutputOptions, PatchClasses, Patches, PictureCrop, ResourceOptions, ViewOptions, parse_augment,
    parse_bands,
};
use shardpack_reader::Bands;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns an error unless `text` lists known augmentations whose options are in range.
#[pyfunction]
pub(crate) fn check_augmentation(text: &str) -> PyResult<()> {
    if ["mixup", "cutmix", "mosaic"].contains(&text.split('(').next().unwrap_or_default()) {
        return text.parse::<Mix>().map(|_| ()).map_err(raise);
    }
    parse_augment(text).map(|_| ()).map_err(raise)
}

/// Bands as a string, such as the range `10..50`, or as a list of band numbers.
#[derive(FromPyObject)]
enum BandsOption {
    Text(String),
    List(Vec<u64>),
}

/// The replacement for no-data values: one number for all cubes, or one per field.
#[derive(FromPyObject)]
enum NoDataOption {
    Cubes(f32),
    Fields(Vec<(String, f32)>),
}

#[derive(FromPyObject)]
struct CropOption {
    view: String,
    augment: Option<String>,
    name: Option<String>,
}

impl CropOption {
    fn crop(&self) -> PyResult<PictureCrop> {
        let ImageMode::View(view) = self.view.parse().map_err(raise)? else {
            return Err(UsageError::new_err("crops: `raw` returns stored bytes, which cannot be cropped"));
        };
        let augment = match &self.augment {
            None => Augments::default(),
            Some(text) => parse_augment(text).map_err(raise)?,
        };
        if !augment.arrays.is_none() || !augment.bands.is_empty() {
            return Err(UsageError::new_err(format!(
                "crops: a crop can have only augmentations for pictures, but `{}` has one for arrays\n\
                 hint: pass augmentations for arrays as augment=… to the Loader",
                self.augment.as_deref().unwrap_or_default()
            )));
        }
        Ok(PictureCrop { view, augment: augment.pictures, name: self.name.clone() })
    }
}

/// The options as Python passes them. Each option is checked where it is used.
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
    crops: Vec<CropOption>,
    frames: String,
    cube: String,
    /// Number of patches per sample. 0 means all patches of a grid.
    patches: u32,
    overlap: [u32; 3],
    /// Number of scenes whose patches are mixed. 0 means the default.
    open_scenes: u32,
    /// True if patches are drawn by the classes of their mask, either equally often or by `patch_weights`.
    patches_balanced: bool,
    patch_weights: Option<BTreeMap<i64, f64>>,
    layout: String,
    bands: Option<BandsOption>,
    dtype: Option<String>,
    /// Means and standard deviations for pictures. `normalise` has them for array fields.
    scaling: Option<(Vec<f64>, Vec<f64>)>,
    normalise: Vec<(String, Vec<f64>, Vec<f64>)>,
    no_data: Option<NoDataOption>,
    augment: Option<String>,
    /// The batch augmentations as strings, and the number of classes.
    mix_batch: Option<(Vec<String>, u32)>,
    /// Function to call for every row, or the object that starts the processes that call it.
    transform: Option<Py<PyAny>>,
    /// Number of processes that call the transform. 0 means this process.
    transform_workers: usize,
    fields: Option<Vec<String>>,
    /// Fields that are not tensors.
    objects: Vec<String>,
    /// Names of aligned fields, and their kinds of alignment.
    align: Vec<(String, String)>,
    members: Option<Bound<'py, PyArray1<u64>>>,
    /// One weight per sample of the dataset.
    weights: Option<Bound<'py, PyArray1<f64>>>,
    /// One weight per class.
    class_weights: Option<BTreeMap<i64, f64>>,
    balanced: bool,
    mix: Option<Vec<(Bound<'py, PyDataset>, f64)>>,
    threads: usize,
    /// Number of batches in memory (slots). `None` means the default. It depends on where pictures are decoded.
    slots: Option<usize>,
    window: String,
    max_batch: u64,
    skip_corrupt: u64,
    stage: Option<Bound<'py, Stage>>,
    /// True to keep all encoded pictures and cubes in device memory.
    pub(crate) resident: bool,
}

impl Options<'_> {
    fn mode(&self) -> PyResult<Mode> {
        let modes = [("stored", Mode::Stored), ("windowed", Mode::Windowed), ("full", Mode::Full)];
        choice("order", &self.order, &modes)
    }

    /// Returns the order in which samples of `dataset` are loaded. The dataset may be part of a mixture.
    fn order_of(&self, dataset: &shardpack_reader::Dataset) -> PyResult<Order> {
        Ok(Order::of(dataset, self.seed).mode(self.mode()?).lanes(self.lanes))
    }

    /// Returns the order of a subset, of weighted draws or of a mixture. Returns `None` if the whole dataset
    /// is loaded in its own order.
    fn sampling(&self, dataset: &shardpack_reader::Dataset) -> PyResult<Option<Arc<dyn Sampling>>> {
        if let Some(mix) = &self.mix {
            let source = |(part, weight): &(Bound<'_, PyDataset>, f64)| {
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
        let of = |(field, mean, std): &(String, Vec<f64>, Vec<f64>)| {
            let factors = Factors::new(mean, std).map_err(|error| error.within(format_args!("field `{field}`")));
            Ok((field.clone(), factors.map_err(raise)?))
        };
        self.normalise.iter().map(of).collect()
    }

    pub(crate) fn loader_options(
        &self,
        py: Python<'_>,
        dataset: &shardpack_reader::Dataset,
    ) -> PyResult<LoaderOptions> {
        let order = OrderOptions {
            batch_size: self.batch_size,
            seed: self.seed,
            epoch: self.epoch,
            mode: self.mode()?,
            lanes: self.lanes,
            sampling: self.sampling(dataset)?,
            rank: self.rank,
            world_size: self.world_size,
            end: choice("end", &self.end, &[("drop", End::Drop), ("pad", End::Pad), ("uneven", End::Uneven)])?,
            open_scenes: self.open_scenes,
        };
        let mut options = LoaderOptions::default();
        options.order = order;
        options.view = self.view()?;
        options.output = self.output(py)?;
        options.resources = self.resources()?;
        Ok(options)
    }

    fn view(&self) -> PyResult<ViewOptions> {
        let augments = match &self.augment {
            None => Augments::default(),
            Some(text) => parse_augment(text).map_err(raise)?,
        };
        Ok(ViewOptions {
            image: self.image.parse().map_err(raise)?,
            crops: self.crops.iter().map(CropOption::crop).collect::<PyResult<_>>()?,
            frames: self.frames.parse().map_err(raise)?,
            cube: self.cube.parse().map_err(raise)?,
            patches: match self.patches {
                0 => Patches::Grid { overlap: self.overlap },
                1 => Patches::One,
                count => Patches::PerSample(count),
            },
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
            align: self.align.iter().map(aligned).collect::<PyResult<_>>()?,
            augment: augments.arrays,
            augment_bands: augments.bands,
            augment_pictures: augments.pictures,
        })
    }

    fn output(&self, py: Python<'_>) -> PyResult<OutputOptions> {
        let (last, first) = (PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth);
        let layouts = [
            ("hwc", (last, ClipLayout::TimeFirst)),
            ("chw", (first, ClipLayout::TimeFirst)),
            ("cthw", (first, ClipLayout::ChannelsFirst)),
        ];
        let (layout, clip_layout) = choice("layout", &self.layout, &layouts)?;
        Ok(OutputOptions {
            fields: self.fields.clone(),
            objects: self.objects.clone(),
            layout,
            clip_layout,
            dtype: match &self.dtype {
                None => ArrayDtype::Source,
                Some(text) => text.parse().map_err(raise)?,
            },
            scaling: match &self.scaling {
                None => None,
                Some((mean, std)) => Some(Scaling::of(mean, std).map_err(raise)?),
            },
            normalise: self.factors()?,
            no_data: match &self.no_data {
                None => NoData::AsStored,
                Some(NoDataOption::Cubes(with)) => NoData::Cubes(*with),
                Some(NoDataOption::Fields(fields)) => NoData::Fields(fields.clone()),
            },
            mix: match &self.mix_batch {
                None => None,
                Some((texts, classes)) => {
                    let choices = texts.iter().map(|text| text.parse().map_err(raise));
                    Some(BatchMix { choices: choices.collect::<PyResult<_>>()?, classes: *classes })
                }
            },
            transform: self.transform.as_ref().map(|function| match self.transform_workers {
                0 => Arc::new(Function(function.clone_ref(py))) as _,
                count => Arc::new(Workers::new(function.clone_ref(py), count)) as _,
            }),
            on_corrupt: match self.skip_corrupt {
                0 => OnCorrupt::Error,
                max => OnCorrupt::Skip { max },
            },
        })
    }

    fn resources(&self) -> PyResult<ResourceOptions> {
        Ok(ResourceOptions {
            threads: self.threads,
            slots: self.slots.unwrap_or_else(|| LoaderOptions::default_slots(self.stage.is_some())),
            window: self.window.parse().map_err(raise)?,
            max_batch_bytes: self.max_batch,
            stage: self.stage.as_ref().map(|stage| stage.get().inner.clone() as Arc<dyn stage::Stage>),
            resident: self.resident,
            ..ResourceOptions::default()
        })
    }
}

/// Returns the value in `choices` that belongs to the name `given`.
fn choice<T: Copy>(keyword: &str, given: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let found = choices.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        PyValueError::new_err(format!("{keyword}: expected {} or {last}, found `{given}`", others.join(", ")))
    })
}

fn aligned((field, text): &(String, String)) -> PyResult<(String, Align)> {
    Ok((field.clone(), text.parse().map_err(raise)?))
}

/// Converts bands to a range if they are consecutive and ascending, because a range is cheaper than a list.
fn bands_of(bands: &[u64]) -> Bands {
    let in_a_row = bands.windows(2).all(|pair| matches!(pair, [a, b] if a.checked_add(1) == Some(*b)));
    match (bands.first(), bands.last().and_then(|last| last.checked_add(1))) {
        (Some(first), Some(end)) if in_a_row => Bands::Range(*first..end),
        _ => Bands::List(bands.to_vec()),
    }
}

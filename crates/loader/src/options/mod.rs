//! The options of a loader, in four groups. `groups.rs` declares each option once: name, documentation, type
//! and default.

mod align;
mod augment;
mod crops;
mod frames;
mod groups;
mod mix;
mod modes;
mod no_data;
mod parse;
mod picture_view;
mod transform;

pub use align::{Align, BoxFormat};
pub use augment::Augment;
pub use crops::PictureCrop;
pub use frames::{Clip, ClipLayout, FrameMode};
pub use groups::{OrderOptions, OutputOptions, ResourceOptions, ViewOptions};
pub use mix::BatchMix;
pub use modes::{ArrayDtype, CubeMode, ImageMode, OnCorrupt, Window};
pub use no_data::NoData;
pub use parse::{Augments, parse_augment, parse_bands, parse_mixes};
pub use transform::{Transform, TransformField, TransformRow};

use crate::stage::Keeper;
use shardpack_reader::{Dataset, Error, Result};
use std::sync::Arc;

/// The options of a loader. They all have defaults: `LoaderOptions::default()` loads whole pictures and cubes
/// in windowed order, 32 at a time. To set an option, call the method of the same name or assign the field in
/// its group.
///
/// ```
/// use shardpack_loader::{LoaderOptions, View};
/// let train = LoaderOptions::default().batch_size(256).seed(42).image(View::random_resized_crop(224).with_flip(0.5));
/// assert_eq!((train.order.batch_size, train.resources.slots), (256, 3));
/// ```
///
/// [`LoaderOptions::of`] adds the dataset, of type `D`. The options can then open a loader.
#[derive(Debug, Clone)]
pub struct LoaderOptions<D = ()> {
    /// Which samples to load, in which order, and which of them this rank gets.
    pub order: OrderOptions,
    /// The part of each sample to load, and its random changes.
    pub view: ViewOptions,
    /// The fields of a batch, with their types and layout.
    pub output: OutputOptions,
    /// Threads, memory and device.
    pub resources: ResourceOptions,
    pub(crate) dataset: D,
    pub(crate) subset: Option<Vec<u64>>,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self {
            order: OrderOptions::default(),
            view: ViewOptions::default(),
            output: OutputOptions::default(),
            resources: ResourceOptions::default(),
            dataset: (),
            subset: None,
        }
    }
}

impl LoaderOptions {
    /// Names of the options, by group.
    pub const NAMES: [(&str, &[&str]); 4] = [
        ("order", OrderOptions::NAMES),
        ("view", ViewOptions::NAMES),
        ("output", OutputOptions::NAMES),
        ("resources", ResourceOptions::NAMES),
    ];

    /// Adds the dataset to load.
    #[must_use]
    pub fn of(self, dataset: &Dataset) -> LoaderOptions<Dataset> {
        let Self { order, view, output, resources, dataset: (), subset } = self;
        LoaderOptions { order, view, output, resources, dataset: dataset.clone(), subset }
    }

    /// If [`resident`](Self::resident) is set, returns the stage's keeper, which holds values on the device between
    /// epochs.
    ///
    /// # Errors
    /// `Usage` if no device can keep values.
    pub(crate) fn keeper(&mut self) -> Result<Option<Arc<dyn Keeper>>> {
        let resources = &mut self.resources;
        if !resources.resident {
            return Ok(None);
        }
        let keeping = resources.stage.as_ref().and_then(|stage| stage.keeping()).ok_or_else(|| {
            Error::usage(match resources.stage {
                Some(_) => "`resident` cannot be used: this device cannot keep the dataset in its memory",
                None => "`resident` needs a device that decodes, but decoding runs on the host",
            })
        })?;
        resources.stage = Some(keeping.stage);
        Ok(Some(keeping.keeper))
    }

    /// Returns the default number of slots. A device needs one more, because it works on one batch while
    /// others are filled.
    #[must_use]
    pub const fn default_slots(on_device: bool) -> usize {
        if on_device { 4 } else { 3 }
    }

    pub(crate) fn aligned(&self, field: &str) -> Option<&Align> {
        self.view.align.iter().find(|(name, _)| name == field).map(|(_, align)| align)
    }

    pub(crate) fn is_aligned_object(&self, field: &str) -> bool {
        self.aligned(field).is_some_and(|align| !matches!(align, Align::Mask { .. }))
    }
}

//! The fields and options that are needed to decode rows. All threads share them.

use crate::fields::Fields;
use crate::options::{Augment, LoaderOptions, Transform};
use crate::sample::{SampleAt, draw_key};
use crate::stage::{Refusals, Stage};
use crate::stats::Counters;
use crate::supply::Resident;
use shardpack_augment::BandAugmentation;
use shardpack_format::Limits;
use shardpack_jpeg::{DrawKey, PixelLayout};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) fields: Arc<Fields>,
    pub(crate) seed: u64,
    pub(crate) layout: PixelLayout,
    pub(crate) limits: Limits,
    pub(crate) part_bytes: usize,
    pub(crate) resident: Option<Arc<Resident>>,
    pub(crate) augment: Augment,
    pub(crate) augment_bands: Arc<[BandAugmentation]>,
    pub(crate) transform: Option<Arc<dyn Transform>>,
    pub(crate) stage: Option<Arc<dyn Stage>>,
}

impl Recipe {
    pub(crate) fn new(
        fields: Arc<Fields>,
        seed: u64,
        limits: Limits,
        options: &LoaderOptions,
        resident: Option<Arc<Resident>>,
    ) -> Self {
        let LoaderOptions { view, output, resources, .. } = options.clone();
        Self {
            fields,
            seed,
            layout: output.layout,
            limits,
            part_bytes: resources.part_bytes,
            resident,
            augment: view.augment,
            augment_bands: view.augment_bands.into(),
            transform: output.transform,
            stage: resources.stage,
        }
    }

    pub(crate) fn device_decodes(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.decodes())
    }

    /// Returns true if arrays are flipped, rotated or moved. All arrays of a sample get the same moves.
    pub(crate) fn moves_arrays(&self) -> bool {
        !self.augment.is_none() || self.fields.moves.is_some()
    }

    pub(crate) fn key(&self, at: SampleAt) -> DrawKey {
        draw_key(self.seed, at)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) counters: &'a Counters,
    pub(crate) refusals: &'a Refusals,
}

//! How rows are made: the same for all threads.

use super::augment::Augment;
use super::fields::Fields;
use super::options::LoaderOptions;
use super::resident::Resident;
use super::sample::{SampleAt, draw_key};
use super::stage::Refusals;
use super::stats::Counters;
use super::transform::Transform;
use shardpack_augment::BandAugmentation;
use shardpack_jpeg::{DecodeOptions, DrawKey, PixelLayout};
use std::sync::Arc;

/// What a device decodes.
pub(super) const JPEG: &str = "image/jpeg";

/// What is the same for all rows of an epoch.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) fields: Arc<Fields>,
    pub(super) seed: u64,
    pub(super) layout: PixelLayout,
    pub(super) decode: DecodeOptions,
    pub(super) part_bytes: usize,
    /// Values that stay on the device.
    pub(super) resident: Option<Arc<Resident>>,
    pub(super) augment: Augment,
    pub(super) augment_bands: Arc<[BandAugmentation]>,
    pub(super) transform: Option<Arc<dyn Transform>>,
    /// Whether batches are on a device.
    pub(super) on_device: bool,
}

impl Recipe {
    pub(super) fn new(
        fields: Arc<Fields>,
        seed: u64,
        options: &LoaderOptions,
        resident: Option<Arc<Resident>>,
    ) -> Self {
        let options = options.clone();
        let on_device = options.stage.is_some();
        let LoaderOptions { layout, decode, part_bytes, augment, transform, .. } = options;
        let augment_bands = options.augment_bands.into();
        Self { fields, seed, layout, decode, part_bytes, resident, augment, augment_bands, transform, on_device }
    }

    /// What random views, patches and turns of a sample draw from.
    pub(super) fn key(&self, at: SampleAt) -> DrawKey {
        draw_key(self.seed, at)
    }
}

/// What all threads work by, and count in.
#[derive(Clone, Copy)]
pub(super) struct Common<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) counters: &'a Counters,
    pub(super) refusals: &'a Refusals,
}

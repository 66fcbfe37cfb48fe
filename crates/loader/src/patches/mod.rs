//! Several patches per sample: the options, the number per sample, and the layout of a patch in memory.

mod classes;
mod grid;
mod place;

pub use classes::PatchClasses;
pub(crate) use classes::{ClassMap, ClassPlan};
pub use grid::Grid;
pub use place::{PatchAt, PatchPlace};

use crate::memory::suits;
use crate::order::{Patched, Sampling, Sources, Unit};
use shardpack_format::Error as FormatError;
use shardpack_format::to_usize;
use shardpack_reader::Result;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of patches to cut from each sample in an epoch.
///
/// ```
/// use shardpack_loader::{CubeMode, LoaderOptions, Patches, PatchPlace};
/// let train = LoaderOptions::default().cube(CubeMode::Patch { height: 64, width: 64, place: PatchPlace::Random }).patches(Patches::PerSample(16));
/// assert_ne!(train.view.patches, Patches::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Patches {
    /// One patch, placed by [`CubeMode::Patch`](crate::CubeMode::Patch).
    #[default]
    One,
    /// This number of patches, at least 1. Each has its own random draws.
    PerSample(u32),
    /// All patches of a [`Grid`].
    Grid {
        /// Overlap of neighbours in planes (0 unless the scene is a volume), rows and columns.
        overlap: [u32; 3],
    },
}

#[derive(Debug)]
pub(crate) struct PatchPlan {
    /// Grid of the patches, or `None` if they are drawn at random.
    pub(crate) grid: Option<Grid>,
    pub(crate) unit: Unit,
    pub(crate) most: u32,
    /// Number of patches of each sample in the dataset, or `None` if all samples have the same number.
    pub(crate) counts: Option<Vec<u32>>,
    /// Byte range of each field in a patch. Empty if the field is not cut.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) row_bytes: usize,
    /// Total size in bytes of the fields that all patches of a scene share.
    pub(crate) shared_bytes: usize,
    pub(crate) classes: Option<ClassPlan>,
    /// True if a stage decodes the patches. Scenes are then kept as records.
    pub(crate) is_staged: bool,
    pub(crate) free: Mutex<Vec<Vec<u8>>>,
    pub(crate) free_scenes: Mutex<Vec<Vec<u8>>>,
}

impl PartialEq for PatchPlan {
    fn eq(&self, other: &Self) -> bool {
        let planned =
            |plan: &Self| (plan.grid, plan.unit, plan.most, plan.row_bytes, plan.shared_bytes, plan.is_staged);
        planned(self) == planned(other)
            && (&self.counts, &self.parts, &self.classes) == (&other.counts, &other.parts, &other.classes)
    }
}

impl PatchPlan {
    pub(crate) fn order(
        &self,
        samples: Arc<dyn Sampling>,
        sources: &Sources,
        open_scenes: u32,
    ) -> Result<Arc<dyn Sampling>> {
        let patched = match (&self.counts, self.unit) {
            (Some(counts), unit) => {
                let of = |source: Range<u64>| {
                    let size = |n| to_usize(n);
                    counts.get(size(source.start)..size(source.end)).unwrap_or_default().to_vec()
                };
                let counts = (0..).map_while(|source| sources.samples(source)).map(of).collect();
                Patched::grid_of_sizes(samples, unit, counts)?
            }
            (None, Unit::Grid { .. }) => Patched::grid(samples, self.unit, self.most)?,
            (None, _) => Patched::each(samples, self.most)?,
        };
        Ok(Arc::new(if open_scenes == 0 { patched } else { patched.open_scenes(open_scenes.into()) }))
    }

    /// Returns the position of a grid patch in its scene, or `None` if the scene is smaller than a patch.
    ///
    /// # Errors
    /// `Usage` if the scene's number of patches differs from the planned number, because pixels would then be
    /// repeated or missing.
    pub(crate) fn in_grid(&self, sample: u64, patch: u32, scene: [u64; 3]) -> Result<Option<[u64; 3]>, FormatError> {
        let Some(found) = self.grid.and_then(|grid| grid.count(scene)) else { return Ok(None) };
        let own = || usize::try_from(sample).ok().and_then(|sample| self.counts.as_ref()?.get(sample).copied());
        let expected = u64::from(own().unwrap_or(self.most));
        if found != expected {
            let text = format!(
                "the loader planned {expected} grid patches for this sample, but its size {scene:?} needs {found}"
            );
            return Err(FormatError::usage(text).with_hint(
                "the index has a wrong size for this sample, or it has no sizes and the samples differ in size: pack \
                 the dataset again, with scalar fields `height` and `width`",
            ));
        }
        Ok(self.grid.and_then(|grid| grid.origin(patch.into(), scene)))
    }

    /// Returns the index of a patch's draw. Patch 0 uses the same draw as the only patch of a sample.
    pub(crate) fn repetition(&self, repetition: u32, patch: u32) -> u32 {
        repetition.wrapping_mul(self.most).wrapping_add(patch)
    }

    pub(crate) fn room(&self) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.row_bytes])
    }

    pub(crate) fn give_back(&self, room: Vec<u8>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }

    /// Returns a buffer of `bytes` bytes or slightly more.
    pub(crate) fn scene_room(&self, bytes: u64) -> Vec<u8> {
        let mut free = self.free_scenes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = free.iter().rposition(|room| suits(room.len() as u64, bytes)) {
            return free.swap_remove(place);
        }
        let other = free.pop();
        drop(free);
        drop(other);
        vec![0; to_usize(bytes)]
    }

    pub(crate) fn give_back_scene(&self, room: Vec<u8>) {
        self.free_scenes.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }
}

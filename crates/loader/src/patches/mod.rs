//! Several patches of each sample: what is asked for, how many each sample has, and where the fields
//! of a patch are in the memory that it waits in.

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

/// How many patches of each sample an epoch has.
///
/// ```
/// use shardpack_loader::{CubeMode, LoaderOptions, Patches, PatchPlace};
/// let train = LoaderOptions::default().cube(CubeMode::Patch { height: 64, width: 64, place: PatchPlace::Random }).patches(Patches::PerSample(16));
/// assert_ne!(train.view.patches, Patches::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Patches {
    /// One of each sample, which [`CubeMode::Patch`](crate::CubeMode::Patch) places.
    #[default]
    One,
    /// So many of each sample, at least 1, each drawn anew.
    PerSample(u32),
    /// All that lie in a [`Grid`].
    Grid {
        /// Pixels that neighbours share: of planes, which is 0 but for volumes, rows and columns.
        overlap: [u32; 3],
    },
}

/// Several patches of each sample, of a loader.
#[derive(Debug)]
pub(crate) struct PatchPlan {
    /// Where patches lie, if they are all of a grid.
    pub(crate) grid: Option<Grid>,
    pub(crate) unit: Unit,
    /// Patches of a sample, or of the one that has most.
    pub(crate) most: u32,
    /// Those of each sample of the dataset, where they differ.
    pub(crate) counts: Option<Vec<u32>>,
    /// Field by field its bytes of a patch; nothing of those that are no patches.
    pub(crate) parts: Vec<Range<usize>>,
    pub(crate) row_bytes: usize,
    /// Bytes of the fields that all patches of a scene share.
    pub(crate) shared_bytes: usize,
    /// Which classes of a mask they show.
    pub(crate) classes: Option<ClassPlan>,
    /// Whether a stage decodes them: scenes wait as their records.
    pub(crate) is_staged: bool,
    /// Memory of patches that were handed on.
    pub(crate) free: Mutex<Vec<Vec<u8>>>,
    /// Memory of scenes of which all patches were.
    pub(crate) free_scenes: Mutex<Vec<Vec<u8>>>,
}

impl PartialEq for PatchPlan {
    fn eq(&self, other: &Self) -> bool {
        (self.unit, self.most, &self.counts, &self.parts, &self.classes, self.is_staged)
            == (other.unit, other.most, &other.counts, &other.parts, &other.classes, other.is_staged)
    }
}

impl PatchPlan {
    /// The order of patches, of the samples in the order of `samples`.
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

    /// Where a patch of a grid lies in its scene; `None` if that is smaller than a patch.
    ///
    /// # Errors
    /// `Usage` if the scene has another number of patches than it was to have: some of its pixels
    /// would come twice, or never.
    pub(crate) fn in_grid(&self, sample: u64, patch: u32, scene: [u64; 3]) -> Result<Option<[u64; 3]>, FormatError> {
        let Some(found) = self.grid.and_then(|grid| grid.count(scene)) else { return Ok(None) };
        let own = || usize::try_from(sample).ok().and_then(|sample| self.counts.as_ref()?.get(sample).copied());
        let expected = u64::from(own().unwrap_or(self.most));
        if found != expected {
            let expected = format!("one of {expected} patches, by the index or the samples that were looked at");
            return Err(FormatError::usage("size of a scene", expected, format!("{found} patches, {scene:?}")));
        }
        Ok(self.grid.and_then(|grid| grid.origin(patch.into(), scene)))
    }

    /// Which draw of its sample a patch is. Patch 0 of a sample draws what its only patch would.
    pub(crate) fn repetition(&self, repetition: u32, patch: u32) -> u32 {
        repetition.wrapping_mul(self.most).wrapping_add(patch)
    }

    /// Memory for a patch.
    pub(crate) fn room(&self) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.row_bytes])
    }

    /// Takes memory back.
    pub(crate) fn give_back(&self, room: Vec<u8>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }

    /// Memory for a scene of so many bytes, or a little more.
    pub(crate) fn scene_room(&self, bytes: u64) -> Vec<u8> {
        let mut free = self.free_scenes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = free.iter().rposition(|room| suits(room.len() as u64, bytes)) {
            return free.swap_remove(place);
        }
        // One of another size goes for it.
        let other = free.pop();
        drop(free);
        drop(other);
        vec![0; to_usize(bytes)]
    }

    /// Takes memory of a scene back.
    pub(crate) fn give_back_scene(&self, room: Vec<u8>) {
        self.free_scenes.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }
}

//! Several patches of each sample: what is asked for, how many each sample has, and where the fields
//! of a patch are in the memory that it waits in.

use super::arrays::{Cut, sides_of};
use super::classes::ClassPlan;
use super::fields::{FieldPlan, From, Size};
use super::grid::Grid;
use super::options::{CubeMode, LoaderOptions};
use super::patch::Place;
use super::sources::Sources;
use crate::order::{Patched, Sampling, Unit};
use shardpack_format::{Error as FormatError, Hint, Setting};
use shardpack_reader::Dataset;
use shardpack_reader::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// How many patches of each sample an epoch has.
///
/// ```
/// use shardpack_loader::{CubeMode, LoaderOptions, Patches, Place};
/// let train = LoaderOptions {
///     cube: CubeMode::Patch { height: 64, width: 64, place: Place::Random },
///     patches: Patches::PerSample(16),
///     ..Default::default()
/// };
/// assert_ne!(train.patches, Patches::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Patches {
    /// One of each sample, which [`CubeMode::Patch`] places.
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
pub(super) struct PatchPlan {
    /// Where patches lie, if they are all of a grid.
    pub(super) grid: Option<Grid>,
    pub(super) unit: Unit,
    /// Patches of a sample, or of the one that has most.
    pub(super) most: u64,
    /// Those of each sample of the dataset, where they differ.
    counts: Option<Vec<u32>>,
    /// Field by field its bytes of a patch; nothing of those that are no patches.
    pub(super) parts: Vec<Range<usize>>,
    pub(super) row_bytes: usize,
    /// Bytes of the fields that all patches of a scene share.
    pub(super) shared_bytes: usize,
    /// Which classes of a mask they show.
    pub(super) classes: Option<ClassPlan>,
    /// Memory of patches that were handed on.
    pub(super) free: Mutex<Vec<Vec<u8>>>,
}

impl PartialEq for PatchPlan {
    fn eq(&self, other: &Self) -> bool {
        (self.unit, self.most, &self.counts, &self.parts, &self.classes)
            == (other.unit, other.most, &other.counts, &other.parts, &other.classes)
    }
}

impl PatchPlan {
    /// What the options ask of these fields; `None` if samples come as they are.
    ///
    /// # Errors
    /// `Usage` if the fields are no patches, or if the numbers of patches cannot be known.
    pub(super) fn new(dataset: &Dataset, plans: &[FieldPlan], options: &LoaderOptions) -> Result<Option<Self>> {
        let classes = ClassPlan::new(plans, options)?;
        if options.patches == Patches::One {
            return Ok(None);
        }
        let (sides, place) = match options.cube {
            CubeMode::Patch { height, width, place } => ([0, height, width], place),
            CubeMode::Volume { size, place } => (size, place),
            CubeMode::Whole | CubeMode::Raw => {
                return Err(Error::usage("several patches of a sample", "a size of patches (`patch64x64`)", "none"));
            }
        };
        if place != Place::Random {
            let hint = "`patch64x64` says the size; where they lie, the number or the grid of the patches says";
            let found = format!("places of their own ({place:?})");
            let error = Error::usage("several patches of a sample", "patches that are placed by it", found);
            return Err(error.with_hint(hint));
        }
        if options.resident {
            let found = "values that stay on a device (`resident`)";
            return Err(Error::usage("several patches of a sample", "samples that are read", found));
        }
        let (grid, unit) = match options.patches {
            Patches::PerSample(0) => return Err(Error::usage("patches of a sample", "at least 1", 0)),
            Patches::PerSample(count) => (None, Unit::Patches(count)),
            Patches::One | Patches::Grid { .. } => {
                let overlap = if let Patches::Grid { overlap } = options.patches { overlap } else { [0; 3] };
                // Patches of two axes have one plane.
                let size = sides.map(|side| u64::from(side).max(1));
                if overlap.iter().zip(size).any(|(&overlap, side)| u64::from(overlap) >= side) {
                    let words = |sides: [u32; 3]| {
                        let sides = sides.iter().zip(patch_sides(options)).filter(|(_, size)| *size > 0);
                        sides.map(|(side, _)| side.to_string()).collect::<Vec<_>>().join(" × ")
                    };
                    let expected = format!("less than a patch, {}", words(sides));
                    return Err(Error::usage("overlap of patches", expected, words(overlap)));
                }
                let grid = Grid { size, overlap: overlap.map(u64::from) };
                (Some(grid), Unit::Grid { size: sides, overlap })
            }
        };
        let (mut parts, mut row_bytes, mut shared_bytes) = (Vec::new(), 0_usize, 0_usize);
        for plan in plans {
            let bytes = match (&plan.from, &plan.size) {
                (From::Scalar(_) | From::OneHot { .. }, _) => 0,
                (From::Array { cut: Some(Cut { place: Some(_), .. }), .. }, Size::Dense { bytes }) => *bytes,
                (From::Volume(_), Size::Dense { bytes }) => *bytes,
                (From::Array { .. }, Size::Dense { bytes }) => {
                    shared_bytes = shared_bytes.saturating_add(*bytes);
                    0
                }
                _ => return Err(no_patch(plan, options)),
            };
            // Each begins where any element may.
            let start = row_bytes.next_multiple_of(64);
            row_bytes = start.saturating_add(bytes);
            parts.push(start..row_bytes);
        }
        let (most, counts, free) = (1, None, Mutex::new(Vec::new()));
        let plan = Self { grid, unit, most, counts, parts, row_bytes, shared_bytes, classes, free };
        plan.counted(dataset, plans, options).map(Some)
    }

    /// With the numbers of patches of the samples.
    fn counted(mut self, dataset: &Dataset, plans: &[FieldPlan], options: &LoaderOptions) -> Result<Self> {
        if let Patches::PerSample(count) = options.patches {
            self.most = count.into();
            return Ok(self);
        }
        let Some(grid) = self.grid else { return Ok(self) };
        let volume = plans.iter().find_map(|plan| match &plan.from {
            From::Volume(volume) => Some((&plan.name, volume.scene)),
            _ => None,
        });
        if let Some((name, scene)) = volume {
            let Some(scene) = scene else {
                return Err(Error::usage(format!("sizes of the volumes `{name}`, for a grid"), "one", "several"));
            };
            self.most = self.count(grid, scene)?.into();
            return Ok(self);
        }
        let cut = plans.iter().find_map(|plan| match &plan.from {
            From::Array { cut: Some(cut), indexed, .. } if cut.place.is_some() => Some((plan, cut, *indexed)),
            _ => None,
        });
        let Some((plan, cut, indexed)) = cut else { return Ok(self) };
        if let Some([height, width]) = cut.scene.filter(|_| !indexed) {
            self.most = self.count(grid, [1, height, width])?.into();
            return Ok(self);
        }
        let sides = if indexed { sides_of(dataset.schema()) } else { Vec::new() };
        let [height, width] = &*sides else {
            let what = format!("sizes of the arrays `{}`, for a grid", plan.name);
            return Err(Error::usage(what, "one", "several, which the index does not tell")
                .with_hint("pack the dataset with scalar fields `height` and `width`"));
        };
        let mut counts = vec![1; usize::try_from(dataset.len()).unwrap_or(usize::MAX)];
        let mut start = 0_usize;
        for (number, info) in dataset.shard_numbers().zip(dataset.shards()) {
            let end = start.saturating_add(usize::try_from(info.samples).unwrap_or(usize::MAX));
            let of_shard = counts.get_mut(start..end).unwrap_or_default();
            start = end;
            let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
            for (record, count) in (0..).zip(of_shard) {
                let sides = height.length(&shard, record).zip(width.length(&shard, record));
                // One that is too small, or has no size, is an error of its batch.
                let scene = sides.map(|(height, width)| [1, height, width]).filter(|&s| grid.count(s).is_some());
                *count = scene.map_or(Ok(1), |scene| self.count(grid, scene))?;
            }
        }
        self.most = counts.iter().copied().max().unwrap_or(1).into();
        if counts.iter().any(|&count| u64::from(count) != self.most) {
            self.counts = Some(counts);
        }
        Ok(self)
    }

    fn count(&self, grid: Grid, scene: [u64; 3]) -> Result<u32> {
        // One that is smaller than a patch is an error of its batch.
        let count = grid.count(scene).unwrap_or(1);
        u32::try_from(count).map_err(|_| Error::usage("patches of a scene", "fewer than 2³²", count))
    }

    /// The order of patches, of the samples in the order of `samples`.
    pub(super) fn order(
        &self,
        samples: Arc<dyn Sampling>,
        sources: &Sources,
        open_scenes: u32,
    ) -> Result<Arc<dyn Sampling>> {
        let most = u32::try_from(self.most).unwrap_or(u32::MAX);
        let patched = match (&self.counts, self.unit) {
            (Some(counts), unit) => {
                let of = |source: Range<u64>| {
                    let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
                    counts.get(size(source.start)..size(source.end)).unwrap_or_default().to_vec()
                };
                let counts = (0..).map_while(|source| sources.samples(source)).map(of).collect();
                Patched::grid_of_sizes(samples, unit, counts)?
            }
            (None, Unit::Grid { .. }) => Patched::grid(samples, self.unit, most)?,
            (None, _) => Patched::each(samples, most)?,
        };
        Ok(Arc::new(if open_scenes == 0 { patched } else { patched.open_scenes(open_scenes.into()) }))
    }

    /// Where a patch of a grid lies in its scene; `None` if that is smaller than a patch.
    ///
    /// # Errors
    /// `Usage` if the scene has another number of patches than it was to have: some of its pixels
    /// would come twice, or never.
    pub(super) fn in_grid(
        &self,
        (sample, patch): (u64, u32),
        scene: [u64; 3],
    ) -> Result<Option<[u64; 3]>, FormatError> {
        let Some(found) = self.grid.and_then(|grid| grid.count(scene)) else { return Ok(None) };
        let own = || usize::try_from(sample).ok().and_then(|sample| self.counts.as_ref()?.get(sample).copied());
        let expected = own().map_or(self.most, u64::from);
        if found != expected {
            let expected = format!("one of {expected} patches, by the index or the samples that were looked at");
            return Err(FormatError::usage("size of a scene", expected, format!("{found} patches, {scene:?}")));
        }
        Ok(self.grid.and_then(|grid| grid.origin(patch.into(), scene)))
    }

    /// Which draw of its sample a patch is. Patch 0 of a sample draws what its only patch would.
    pub(super) fn repetition(&self, repetition: u32, patch: u32) -> u32 {
        let most = u32::try_from(self.most).unwrap_or(u32::MAX);
        repetition.wrapping_mul(most).wrapping_add(patch)
    }

    /// Memory for a patch.
    pub(super) fn room(&self) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.row_bytes])
    }

    /// Takes memory back.
    pub(super) fn give_back(&self, room: Vec<u8>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }
}

/// Sides of a patch; the first one is 0 if it has two.
fn patch_sides(options: &LoaderOptions) -> [u32; 3] {
    match options.cube {
        CubeMode::Patch { height, width, .. } => [0, height, width],
        CubeMode::Volume { size, .. } => size,
        CubeMode::Whole | CubeMode::Raw => [0; 3],
    }
}

fn no_patch(plan: &FieldPlan, options: &LoaderOptions) -> Error {
    let (field, mode) = (plan.name.escape_debug(), options.cube);
    if let (CubeMode::Volume { size: [depth, height, width], .. }, From::Array { .. }) = (mode, &plan.from) {
        return Error::usage(
            "fields of several patches of a sample",
            format!(
                "volumes, which `patch{depth}x{height}x{width}` cuts: [depth, height, width], with or without channels"
            ),
            format!("`{field}`, which is none"),
        )
        .with_hint(format!(
            "`patch{height}x{width}` cuts [height, width] and [height, width, channels]; or leave it out of the fields"
        ));
    }
    if let From::Array { cut: Some(_), .. } = plan.from {
        let found = format!("several numbers of bands, of `{field}`");
        let hint = Hint::new("")
            .and([Setting::named("bands")])
            .then(" takes those that all have; or pack scenes of each sensor apart");
        return Error::usage("bands of patches", "as many in each scene", found).with_hint(hint);
    }
    let expected = "scalars, arrays that are cut, and arrays of one shape";
    let hint = Hint::new("choose the fields (").and([Setting::named("fields")]).then("), without pictures; and ");
    let hint = hint.and([Setting::named("bands")]).then(", if cubes differ in theirs");
    let found = format!("`{field}`, which is no such field");
    Error::usage("fields of several patches of a sample", expected, found).with_hint(hint)
}

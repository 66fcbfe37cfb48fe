//! Plans batches with several patches per sample: their fields and the number of patches.

use crate::fields::{ArrayField, Cut, FieldPlan, FieldType, RowSize, sides_of};
use crate::options::{CubeMode, LoaderOptions};
use crate::order::Unit;
use crate::patches::{ClassPlan, Grid, PatchPlace, PatchPlan, Patches};
use shardpack_format::{Hint, Setting, to_usize};
use shardpack_reader::{Dataset, Error, Result};
use std::sync::Mutex;

impl PatchPlan {
    pub(crate) fn new(dataset: &Dataset, plans: &[FieldPlan], options: &LoaderOptions) -> Result<Option<Self>> {
        let classes = ClassPlan::new(plans, options)?;
        if options.view.patches == Patches::One {
            return Ok(None);
        }
        let (sides, place) = match options.view.cube {
            CubeMode::Patch { height, width, place } => ([0, height, width], place),
            CubeMode::Volume { size, place } => (size, place),
            CubeMode::Whole | CubeMode::Raw => {
                return Err(Error::usage("several patches per sample need a patch size, such as `patch64x64`"));
            }
        };
        if place != PatchPlace::Random {
            let name = format!("{place:?}").to_lowercase();
            let text = format!(
                "`{name}` cuts one patch from each sample, so it cannot be used with several patches per sample"
            );
            return Err(
                Error::usage(text).with_hint("choose a patch such as `patch64x64`, or load one patch per sample")
            );
        }
        let (grid, unit) = match options.view.patches {
            Patches::PerSample(0) => {
                return Err(Error::usage("the number of patches per sample must be at least 1, not 0"));
            }
            Patches::PerSample(count) => (None, Unit::Patches(count)),
            Patches::One | Patches::Grid { .. } => {
                let overlap = if let Patches::Grid { overlap } = options.view.patches { overlap } else { [0; 3] };
                let size = sides.map(|side| u64::from(side).max(1));
                if overlap.iter().zip(size).any(|(&overlap, side)| u64::from(overlap) >= side) {
                    let words = |sides: [u32; 3]| {
                        let sides = sides.iter().zip(patch_sides(options)).filter(|(_, size)| *size > 0);
                        sides.map(|(side, _)| side.to_string()).collect::<Vec<_>>().join(" × ")
                    };
                    let (overlap, patch) = (words(overlap), words(sides));
                    return Err(Error::usage(format!(
                        "the overlap of patches ({overlap}) must be smaller than a patch ({patch})"
                    )));
                }
                let grid = Grid { size, overlap: overlap.map(u64::from) };
                (Some(grid), Unit::Grid { size: sides, overlap })
            }
        };
        let (mut parts, mut row_bytes, mut shared_bytes) = (Vec::new(), 0_usize, 0_usize);
        for plan in plans {
            let bytes = match (&plan.kind, &plan.size) {
                (FieldType::Scalar(_) | FieldType::OneHot(_), _) => 0,
                (
                    FieldType::Array(ArrayField { cut: Some(Cut { place: Some(_), .. }), .. }),
                    RowSize::Dense { bytes },
                ) => *bytes,
                (FieldType::Volume(_), RowSize::Dense { bytes }) => *bytes,
                (FieldType::Array(_), RowSize::Dense { bytes }) => {
                    shared_bytes = shared_bytes.saturating_add(*bytes);
                    0
                }
                _ => return Err(no_patch(plan, options)),
            };
            // Each field starts at a multiple of 64 bytes, which is aligned for any element type.
            let start = row_bytes.next_multiple_of(64);
            row_bytes = start.saturating_add(bytes);
            parts.push(start..row_bytes);
        }
        let (most, counts, free, free_scenes) = (1, None, Mutex::default(), Mutex::default());
        let is_staged = false;
        let plan =
            Self { grid, unit, most, counts, parts, row_bytes, shared_bytes, classes, is_staged, free, free_scenes };
        plan.counted(dataset, plans, options).map(Some)
    }

    /// Changes the plan so that a stage decodes the patches, if it accepts all fields that are cut. Otherwise
    /// the host decodes each scene once for all of its patches.
    pub(crate) fn staged(self, plans: &mut [FieldPlan], options: &LoaderOptions) -> Result<Self> {
        let is_left = |plan: &FieldPlan| match &plan.kind {
            FieldType::Array(ArrayField { cut: Some(Cut { place: Some(_), .. }), .. }) | FieldType::Volume(_) => {
                !plan.staged
            }
            _ => false,
        };
        let left = plans.iter().find(|plan| is_left(plan)).map(|plan| plan.name.escape_debug().to_string());
        if let (Some(name), true) = (&left, options.resources.resident) {
            return Err(Error::usage(format!(
                "several patches per sample cannot be combined with `resident` for field `{name}`, because the host \
                 decodes it"
            )));
        }
        if left.is_some() {
            plans.iter_mut().for_each(|plan| plan.staged = false);
        }
        Ok(Self { is_staged: left.is_none(), ..self })
    }

    fn counted(mut self, dataset: &Dataset, plans: &[FieldPlan], options: &LoaderOptions) -> Result<Self> {
        if let Patches::PerSample(count) = options.view.patches {
            self.most = count;
            return Ok(self);
        }
        let Some(grid) = self.grid else { return Ok(self) };
        let volume = plans.iter().find_map(|plan| match &plan.kind {
            FieldType::Volume(volume) => Some((&plan.name, volume.scene)),
            _ => None,
        });
        if let Some((name, scene)) = volume {
            let Some(scene) = scene else {
                return Err(Error::usage(format!(
                    "patches cannot form a grid: the volumes of field `{name}` differ in size"
                )));
            };
            self.most = self.count(grid, scene)?;
            return Ok(self);
        }
        let cut = plans.iter().find_map(|plan| match &plan.kind {
            FieldType::Array(ArrayField { cut: Some(cut), indexed, .. }) if cut.place.is_some() => {
                Some((plan, cut, *indexed))
            }
            _ => None,
        });
        let Some((plan, cut, indexed)) = cut else { return Ok(self) };
        if let Some([height, width]) = cut.scene.filter(|_| !indexed) {
            self.most = self.count(grid, [1, height, width])?;
            return Ok(self);
        }
        let sides = if indexed { sides_of(dataset.schema()) } else { Vec::new() };
        let [height, width] = &*sides else {
            let text = "differ in size, and their sizes are not in the index";
            return Err(Error::usage(format!(
                "patches cannot form a grid: the arrays of field `{}` {text}",
                plan.name
            ))
            .with_hint("pack the dataset with scalar fields `height` and `width`"));
        };
        let mut counts = vec![1; to_usize(dataset.len())];
        let mut start = 0_usize;
        for (number, info) in dataset.shard_numbers().zip(dataset.shards()) {
            let end = start.saturating_add(to_usize(info.samples));
            let of_shard = counts.get_mut(start..end).unwrap_or_default();
            start = end;
            let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
            for (record, count) in (0..).zip(of_shard) {
                let sides = height.length(&shard, record, None).zip(width.length(&shard, record, None));
                // A scene without a size, or smaller than a patch, counts as one patch. Its batch reports the error.
                let scene = sides.map(|(height, width)| [1, height, width]).filter(|&s| grid.count(s).is_some());
                *count = scene.map_or(Ok(1), |scene| self.count(grid, scene))?;
            }
        }
        self.most = counts.iter().copied().max().unwrap_or(1);
        if counts.iter().any(|&count| count != self.most) {
            self.counts = Some(counts);
        }
        Ok(self)
    }

    fn count(&self, grid: Grid, scene: [u64; 3]) -> Result<u32> {
        let count = grid.count(scene).unwrap_or(1);
        u32::try_from(count).map_err(|_| {
            Error::usage(format!("one sample would have {count} patches, but the limit is {}", u32::MAX))
                .with_hint("choose larger patches or less overlap")
        })
    }
}

fn patch_sides(options: &LoaderOptions) -> [u32; 3] {
    match options.view.cube {
        CubeMode::Patch { height, width, .. } => [0, height, width],
        CubeMode::Volume { size, .. } => size,
        CubeMode::Whole | CubeMode::Raw => [0; 3],
    }
}

fn no_patch(plan: &FieldPlan, options: &LoaderOptions) -> Error {
    let (field, mode) = (plan.name.escape_debug(), options.view.cube);
    if let (CubeMode::Volume { size: [depth, height, width], .. }, FieldType::Array(_)) = (mode, &plan.kind) {
        return Error::usage(format!(
            "`patch{depth}x{height}x{width}` cannot cut field `{field}`: its arrays are neither [depth, height, width] \
             nor [depth, height, width, channels]"
        ))
        .with_hint(format!(
            "use `patch{height}x{width}` for arrays with the shape [height, width] or [height, width, channels], or \
             leave the field out"
        ));
    }
    if let FieldType::Array(ArrayField { cut: Some(_), .. }) = plan.kind {
        let hint = Hint::new("use ")
            .and([Setting::named("bands")])
            .then(" to select bands that all samples have, or pack each sensor as a separate dataset");
        return Error::usage(format!(
            "cannot cut several patches per sample from field `{field}`: its samples have different numbers of bands"
        ))
        .with_hint(hint);
    }
    let hint = Hint::new("leave the field out of ").and([Setting::named("fields")]);
    Error::usage(format!(
        "field `{field}` cannot be loaded with several patches per sample: it is not a scalar, an array cut into \
         patches, or an array with the same shape in all samples"
    ))
    .with_hint(hint)
}

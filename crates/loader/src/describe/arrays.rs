//! Plans the arrays of a batch: whole, or cut to a patch or to some bands. The size of their rows comes from the index
//! and the first sample.

use super::examples::{DECLARED, Examples, is_banded, of_field};
use super::moves;
use super::parts::Description;
use crate::fields::{ArrayField, Axis, Col, Cut, FieldPlan, FieldType, limits_of_a_part, sides_of, too_large};
use crate::options::{ArrayDtype, CubeMode, LoaderOptions, NoData};
use crate::patches::PatchPlace;
use crate::sample::name;
use shardpack_array::{As, Bands, Factors, Finish, Region};
use shardpack_augment::BandAugmentation;
use shardpack_format::{Dtype, Error as FormatError, FieldKind, Hint, Layout, Setting, to_usize};
use shardpack_jpeg::PixelLayout;
use shardpack_reader::Dataset;
use shardpack_reader::Shard;
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::raw::name_field;
use shardpack_reader::{Error, Result};
use std::sync::Arc;

impl Cut {
    /// Returns the requested part of an array with this many axes, or `None` if the array is loaded whole. Only
    /// arrays of three axes have bands, and only arrays of two or three axes are cut.
    pub(crate) fn of(axes: usize, options: &LoaderOptions) -> Option<Self> {
        let (height, width, place) = match options.view.cube {
            CubeMode::Patch { height, width, place } => (height, width, Some(place)),
            _ => (0, 0, None),
        };
        let mut region = Region::new(0, 0, height.into(), width.into());
        match axes {
            2 => {}
            3 => {
                region.bands = options.view.bands.clone();
                region.layout = match options.output.layout {
                    PixelLayout::HeightWidthChannels => Layout::AsShape,
                    PixelLayout::ChannelsHeightWidth => Layout::BandMajor,
                };
            }
            _ => return None,
        }
        (place.is_some() || region.bands != Bands::All).then_some(Self { region, place, scene: None })
    }
}

pub(crate) fn check(options: &LoaderOptions) -> Result<()> {
    if let CubeMode::Patch { height, width, .. } = options.view.cube
        && (height == 0 || width == 0)
    {
        return Err(Error::usage(format!("a patch must be at least 1 × 1, not {height} × {width}")));
    }
    if let CubeMode::Volume { size: [depth, height, width], place } = options.view.cube {
        if depth == 0 || height == 0 || width == 0 {
            return Err(Error::usage(format!("a patch must be at least 1 × 1 × 1, not {depth} × {height} × {width}")));
        }
        if place == PatchPlace::Cycle {
            return Err(Error::usage(
                "`cycle` supports only two-dimensional patches: cut volumes at a random place (`patch`) or in the \
                 centre (`center`)",
            ));
        }
    }
    let problem = match &options.view.bands {
        Bands::All => return Ok(()),
        Bands::Range(range) => (range.start >= range.end).then(|| format!("{range:?} contains none")),
        Bands::List(list) => list.is_empty().then(|| "the list is empty".to_owned()),
    };
    if let Some(problem) = problem {
        return Err(Error::usage(format!("`bands` must select at least one band, but {problem}")));
    }
    if options.view.cube == CubeMode::Raw {
        return Err(Error::usage("`bands` needs decoded arrays, but arrays are loaded as stored bytes (`raw`)"));
    }
    Ok(())
}

/// Fails if an option applies to no field: a patch, bands, an element type, mean and std, a no-data replacement, or
/// rotations.
pub(crate) fn check_used(plans: &[FieldPlan], options: &LoaderOptions) -> Result<()> {
    // Do not count `dtype` here, because it also applies to pictures, which have three axes as well.
    let is_decoded = |from: &FieldType| {
        matches!(from, FieldType::Array(_) | FieldType::Volume(_) | FieldType::Mask(_) | FieldType::Picture(_))
    };
    let arrays = plans.iter().filter(|plan| is_decoded(&plan.kind));
    let takes = |plan: &FieldPlan| match plan.kind {
        FieldType::Picture(_) => options.output.scaling.is_some(),
        FieldType::Volume(_) => !is_mask(&plan.name),
        _ => plan.shape.len() == 3,
    };
    match &options.output.dtype {
        ArrayDtype::Source => {}
        ArrayDtype::Cubes(dtype) => {
            if !arrays.clone().any(takes) {
                let error = Error::usage(format!(
                    "the dtype {dtype} applies only to decoded arrays with three axes, but none is loaded"
                ));
                let hint = Hint::new("to load pictures with this dtype, name their field in ")
                    .and([Setting::named("dtype")])
                    .then(", or pass mean and std");
                return Err(error.with_hint(hint));
            }
        }
        ArrayDtype::Fields(fields) => {
            if let Some((name, _)) = fields.iter().find(|(name, _)| !arrays.clone().any(|plan| plan.source() == name)) {
                let mut names: Vec<&str> = arrays.map(FieldPlan::source).collect();
                names.dedup();
                let names = if names.is_empty() { "none is loaded".to_owned() } else { names.join(", ") };
                let name = name.escape_debug();
                let text =
                    format!("`dtype` cannot be set for `{name}`, only for decoded pictures and arrays ({names})");
                return Err(Error::usage(text));
            }
        }
    }
    for (name, _) in &options.output.normalise {
        let is_it =
            |plan: &FieldPlan| plan.name == *name && matches!(plan.kind, FieldType::Array(_) | FieldType::Volume(_));
        if !plans.iter().any(is_it) {
            return Err(not_loaded("mean and std", name));
        }
    }
    check_no_data(plans, options)?;
    let is_turned = |plan: &&FieldPlan| match plan.kind {
        FieldType::Volume(_) => true,
        FieldType::Array(_) => (2..=3).contains(&plan.shape.len()),
        FieldType::Scalar(_)
        | FieldType::OneHot(_)
        | FieldType::Picture(_)
        | FieldType::Mask(_)
        | FieldType::Raw(_) => false,
    };
    if options.view.augment.flip_planes && !matches!(options.view.cube, CubeMode::Volume { .. }) {
        let hint = Hint::new("cut volumes with ").and([Setting::word("cube", "patch64x128x128")]);
        return Err(Error::usage("`dflip` mirrors the depth of volumes, but no volumes are loaded").with_hint(hint));
    }
    if !options.view.augment.is_none() && !plans.iter().any(|plan| is_turned(&plan)) {
        if !plans.iter().any(|plan| matches!(plan.kind, FieldType::Picture(_))) {
            return Err(Error::usage(
                "flips and rotations need a decoded array with two or three axes, but none is loaded",
            ));
        }
        let hint = match options.view.augment.flip_columns {
            true => Hint::new(
                "mirror pictures with a view: `rrcN` mirrors half of them, and other views have the option `flip`, \
                 such as ",
            )
            .and([Setting::word("image", "full,flip=0.5")]),
            false => Hint::new("use `random_rotation` or `random_affine` to rotate pictures"),
        };
        return Err(Error::usage("flips and rotations apply to arrays, but only pictures are loaded").with_hint(hint));
    }
    // If volumes are cut, only their planes are moved. Other arrays have different sides, so their moves would
    // differ.
    let is_moved = |plan: &FieldPlan| plan.kind.sampling().is_some();
    let is_other = |plan: &&FieldPlan| is_turned(plan) && !matches!(plan.kind, FieldType::Volume(_));
    if let (CubeMode::Volume { .. }, false, Some(other)) =
        (options.view.cube, options.view.augment.is_none() && !plans.iter().any(is_moved), plans.iter().find(is_other))
    {
        let name = other.name.escape_debug();
        let error = Error::usage(format!(
            "field `{name}` is not a volume, so it cannot be flipped or rotated with the volumes"
        ));
        return Err(error.with_hint("leave the field out, or flip and rotate the volumes in a `transform`"));
    }
    let is_banded = |plan: &FieldPlan| plan.kind.is_banded();
    if !options.view.augment_bands.is_empty() && !plans.iter().any(is_banded) {
        let missing = match options.view.cube {
            CubeMode::Volume { .. } => "volume",
            _ => "decoded array with three axes",
        };
        return Err(Error::usage(format!("band augmentation needs a {missing} (not a mask), but none is loaded")));
    }
    let lowers = |change: &BandAugmentation| matches!(change, BandAugmentation::RandomLowResolution { .. });
    let is_flat = |plan: &&FieldPlan| is_banded(plan) && !matches!(plan.kind, FieldType::Volume(_));
    if let (true, Some(flat)) = (options.view.augment_bands.iter().any(lowers), plans.iter().find(is_flat)) {
        let name = flat.name.escape_debug();
        let error =
            Error::usage(format!("`random_low_resolution` applies only to volumes, but field `{name}` is not one"));
        return Err(error.with_hint("load volumes with `patchDxHxW`, or leave the field out"));
    }
    let cuts = plans.iter().map(|plan| &plan.kind);
    let (mut patch, mut bands) = (!options.view.cube.is_cut(), options.view.bands == Bands::All);
    for kind in cuts {
        if let FieldType::Array(ArrayField { cut: Some(cut), .. }) = kind {
            patch |= cut.place.is_some();
            bands |= cut.region.bands != Bands::All;
        }
        patch |= matches!(kind, FieldType::Volume(_));
    }
    // When patches are cut, an array of four axes is treated as a volume, whose first two axes are not rows and
    // columns.
    let uncut = |plan: &&FieldPlan| matches!(plan.kind, FieldType::Array(_)) && plan.shape.len() > 3;
    if let (CubeMode::Patch { .. }, Some(plan)) = (options.view.cube, plans.iter().find(uncut)) {
        let (name, axes) = (plan.name.escape_debug(), plan.shape.len());
        return Err(Error::usage(format!("patches need two or three axes, but field `{name}` has {axes}"))
            .with_hint("cut volumes with `patchDxHxW`, or leave the field out"));
    }
    match (patch, bands) {
        (false, _) if matches!(options.view.cube, CubeMode::Volume { .. }) => {
            Err(Error::usage("patches need an array with three or four axes, but none is loaded"))
        }
        (false, _) => Err(Error::usage("patches need an array with two or three axes, but none is loaded")),
        (_, false) => Err(Error::usage("`bands` needs an array with three axes, but none is loaded")),
        _ => Ok(()),
    }
}

fn check_no_data(plans: &[FieldPlan], options: &LoaderOptions) -> Result<()> {
    let is_filled = |plan: &FieldPlan| plan.kind.fill().is_some();
    let error = match &options.output.no_data {
        NoData::AsStored => return Ok(()),
        NoData::Cubes(_) if plans.iter().any(is_filled) => return Ok(()),
        NoData::Cubes(_) => {
            Error::usage("cannot replace no-data values: no decoded array with three axes declares a no-data value")
        }
        // A field that exists but declares no no-data value fails later, when it is planned.
        NoData::Fields(fields) => {
            let is_known = |name: &str| {
                let is_array = |from: &FieldType| matches!(from, FieldType::Array(_) | FieldType::Volume(_));
                plans.iter().any(|plan| plan.name == name && is_array(&plan.kind))
            };
            match fields.iter().find(|(name, _)| !is_known(name)) {
                None => return Ok(()),
                Some((name, _)) => return Err(not_loaded("no-data replacement", name)),
            }
        }
    };
    Err(error.with_hint(DECLARED))
}

fn not_loaded(option: &str, field: &str) -> Error {
    Error::usage(format!(
        "{option} cannot be applied to field `{}`: it is not loaded as a decoded array",
        field.escape_debug()
    ))
}

/// Returns the axes from the packer's columns `height`, `width` and, for cubes, `channels`. Also returns true
/// if they equal `shape`, which means that the columns describe this array.
fn axes_of(dataset: &Dataset, shard: &Shard, record: u64, shape: &[u64]) -> (Vec<Axis>, bool) {
    let mut axes = sides_of(dataset.schema());
    axes.extend(Col::find(dataset.schema(), "channels").map(Axis::Column));
    axes.truncate(shape.len());
    let values = axes.iter().map(|axis| axis.length(shard, record, None));
    let known = (2..=3).contains(&shape.len()) && values.eq(shape.iter().map(|axis| Some(*axis)));
    (axes, known)
}

/// Returns the names of array fields that cannot be loaded, because their arrays differ in shape and the
/// index does not contain the shapes (for example boxes or token ids). To find these fields, the heads of up
/// to 64 samples spread over the dataset are read. A [`Loader`](crate::Loader) leaves them out, and fails if
/// they are named.
///
/// # Errors
/// Same as [`Dataset::get`], if no sample can be read.
pub fn varying_arrays(dataset: &Dataset) -> Result<Vec<&str>> {
    let mut names = Vec::new();
    // No array is decoded, because the caller may want only a part of it.
    for field in dataset.schema().fields().iter().filter(|field| field.kind == FieldKind::Array) {
        let position = dataset.schema().stored_position(&field.name).unwrap_or(0);
        if dataset.is_empty() {
            continue;
        }
        let examples = Examples::find(dataset, &field.name, position, &limits_of_a_part(dataset.limits()), None)?;
        let (at, shard, descriptor) = examples.first(dataset, 0)?;
        if examples.varies.contains(&true) && !axes_of(dataset, &shard, at.record, &descriptor.shape).1 {
            names.push(field.name.as_str());
        }
    }
    Ok(names)
}

/// Plans the arrays of `field`, which is the stored field `position`. Returns `None` if they have several shapes that
/// the index does not contain.
pub(crate) fn plan(
    dataset: &Dataset,
    field: &str,
    position: usize,
    options: &LoaderOptions,
) -> Result<Option<Description>> {
    if dataset.is_empty() {
        let kind = FieldType::Array(ArrayField {
            position,
            channels_first: false,
            cut: None,
            indexed: false,
            sampling: None,
            finish: None,
            is_banded: false,
            fill: None,
            stored: Vec::new(),
            is_shared: false,
        });
        return Ok(Some(Description::dense(kind, Dtype::U8.into(), vec![0], 0)));
    }
    let in_part = matches!(options.view.cube, CubeMode::Patch { .. }) || options.view.bands != Bands::All;
    let limits = if in_part { limits_of_a_part(dataset.limits()) } else { dataset.limits().clone() };
    let examples = Examples::find(dataset, field, position, &limits, Some(options))?;
    let (at, shard, descriptor) = examples.first(dataset, options.order.epoch)?;
    let record = at.record;
    let rank = descriptor.shape.len();
    let is_banded = is_banded(field, rank, options);
    let factors = factors(field, &descriptor.shape, options).map_err(|e| name(&shard, at, of_field(field, e)))?;
    let factors = match factors {
        None if is_banded => Some(Factors::of_pairs(vec![(1.0, 0.0)])?),
        factors => factors,
    };
    let fill = examples.fill(field, options)?;
    let (dtype, to) = examples.element(dataset, field, options)?;
    let sampling =
        moves::sampling(dataset.schema(), field, dtype, &examples, options)?.filter(|_| (2..=3).contains(&rank));
    examples.check_no_data(field, fill, sampling)?;
    let turns = sampling.is_some() || !options.view.augment.is_none() && (2..=3).contains(&rank);
    let finish = (to != As::Decoded || turns).then(|| Box::new(Finish { to, factors, ..Finish::NOTHING }));
    let channels_first = rank == 3 && options.output.layout == PixelLayout::ChannelsHeightWidth;
    let mut cut = Cut::of(rank, options);
    if let (Some(cut), [height, width, ..], [false, false, ..]) = (&mut cut, &*descriptor.shape, &*examples.varies) {
        cut.scene = Some([*height, *width]);
    }
    let mut fixed: Vec<Option<u64>> = vec![None; rank];
    if let Some(cut) = &cut {
        if cut.place.is_some() {
            let patch = [cut.region.height, cut.region.width];
            fixed.iter_mut().zip(patch).for_each(|(axis, length)| *axis = Some(length));
        }
        if cut.region.bands != Bands::All {
            let bands = Region { bands: cut.region.bands.clone(), ..Region::new(0, 0, 0, 0) };
            let shape = bands.shape_of(descriptor).map_err(|e| name(&shard, at, name_field(field, e)))?;
            fixed.iter_mut().skip(2).for_each(|axis| *axis = Some(shape.shape[2]));
        }
    }
    let (columns, known) = axes_of(dataset, &shard, record, &descriptor.shape);
    if !known && examples.varies.iter().zip(&fixed).any(|(varies, fixed)| *varies && fixed.is_none()) {
        return Ok(None);
    }
    if let (Some(Cut { region, place: Some(_), .. }), [height, width, ..]) = (&cut, &*descriptor.shape) {
        let small = region.height > *height || region.width > *width;
        // If sizes differ between samples, this array may be exceptionally small, and others may be large enough for
        // the patch.
        if small && known && alike(dataset, columns.get(..2).unwrap_or_default())? {
            let error = too_large([region.height, region.width], [*height, *width]);
            return Err(name(&shard, at, name_field(field, error)));
        }
    }
    let free: Vec<Axis> = columns.iter().zip(&fixed).filter(|(_, fixed)| fixed.is_none()).map(|(c, _)| *c).collect();
    let (stored, is_shared) = (examples.stored(dtype, to), examples.are_shared());
    let kind = FieldType::Array(ArrayField {
        position,
        channels_first,
        cut,
        indexed: known,
        sampling,
        finish,
        is_banded,
        fill,
        stored,
        is_shared,
    });
    if known && !alike(dataset, &free)? {
        let both = columns.iter().zip(&fixed);
        let mut axes: Vec<Axis> = both.map(|(column, fixed)| fixed.map_or(*column, Axis::Fixed)).collect();
        if channels_first {
            axes.rotate_right(1);
        }
        return Ok(Some(Description::ragged(kind, dtype, axes)));
    }
    let mut shape: Vec<u64> = descriptor.shape.iter().zip(&fixed).map(|(axis, fixed)| fixed.unwrap_or(*axis)).collect();
    if channels_first {
        shape.rotate_right(1);
    }
    let bytes = to_usize(dtype.array_bytes(&shape)?);
    Ok(Some(Description::dense(kind, dtype, shape, bytes)))
}

fn factors(field: &str, shape: &[u64], options: &LoaderOptions) -> Result<Option<Factors>, FormatError> {
    let Some((_, factors)) = options.output.normalise.iter().find(|(name, _)| name == field) else { return Ok(None) };
    let &[_, _, channels] = shape else {
        factors.check(1)?;
        return Ok(Some(factors.clone()));
    };
    factors.check(channels)?;
    Ok(Some(match &options.view.bands {
        Bands::All => factors.clone(),
        Bands::Range(range) => factors.of_bands(range.clone())?,
        Bands::List(list) => factors.of_bands(list.iter().copied())?,
    }))
}

/// Returns true if each axis has the same length in all samples. Opens every shard but reads no records.
fn alike(dataset: &Dataset, axes: &[Axis]) -> Result<bool> {
    let mut first: Option<Arc<Shard>> = None;
    for (number, info) in dataset.shard_numbers().zip(dataset.shards()) {
        if info.samples == 0 {
            continue;
        }
        let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
        let is_in = |axis: &Axis| axis.columns().all(|column| column.is_in(&shard));
        if !axes.iter().all(is_in) {
            continue;
        }
        let first = first.get_or_insert_with(|| Arc::clone(&shard));
        for axis in axes {
            // Columns with a single value are common and quick to compare.
            if axis.columns().all(|column| has_one_value(column, first, &shard)) {
                continue;
            }
            let length = axis.length(first, 0, None);
            if matches!(axis, Axis::Column(_))
                || (0..info.samples).any(|record| axis.length(&shard, record, None) != length)
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn has_one_value(column: &Col, first: &Shard, shard: &Shard) -> bool {
    let value = column.bytes(first, 0);
    !value.is_empty() && column.all(shard).chunks(value.len()).all(|other| other == value)
}

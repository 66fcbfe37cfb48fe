//! Plans the volumes of a batch.

use super::array_augmentation::array_augmentation;
use super::arrays;
use super::examples::{Examples, is_banded, of_field};
use super::moves;
use super::parts::Description;
use crate::fields::{FieldType, VolumeField};
use crate::options::LoaderOptions;
use crate::patches::PatchPlace;
use shardpack_array::{Bands, Factors, Finish, Resampling, Voxels};
use shardpack_augment::BandAugmentation;
use shardpack_format::to_usize;
use shardpack_jpeg::PixelLayout;
use shardpack_reader::{Dataset, Error, Result};

/// Plans a field. Arrays of three or four axes are cut to boxes, and all others are loaded whole. Returns `None` if
/// the arrays have several shapes.
pub(crate) fn plan(
    dataset: &Dataset,
    field: &str,
    position: usize,
    size: [u64; 3],
    place: PatchPlace,
    options: &LoaderOptions,
) -> Result<Option<Description>> {
    if dataset.is_empty() {
        return arrays::plan(dataset, field, position, options);
    }
    let examples = Examples::find(dataset, field, position, dataset.limits(), None)?;
    let (_, _, descriptor) = examples.first(dataset, options.order.epoch)?;
    let (sides, channels) = match *descriptor.shape {
        [depth, height, width] => ([depth, height, width], None),
        [depth, height, width, channels] => ([depth, height, width], Some(channels)),
        _ => return arrays::plan(dataset, field, position, options),
    };
    let refused = |what: &str| Err(Error::usage(format!("field `{}`: {what}", field.escape_debug())));
    if options.view.bands != Bands::All {
        return refused("selecting bands is not supported for volumes");
    }
    if channels.is_some() && options.output.layout == PixelLayout::ChannelsHeightWidth {
        return refused("the layout `chw` is not supported for volumes with channels");
    }
    if examples.varies.get(3).is_some_and(|&varies| varies) {
        return Ok(None);
    }
    let (dtype, to) = examples.element(dataset, field, options)?;
    let factors = options.output.normalise.iter().find(|(name, _)| name == field).map(|(_, factors)| factors.clone());
    if let Some(factors) = &factors {
        factors.check(channels.unwrap_or(1)).map_err(|error| Error::from(of_field(field, error)))?;
    }
    let varies = examples.varies.iter().take(3).any(|&varies| varies);
    let scene = (!varies).then_some(sides);
    let fill = examples.fill(field, options)?;
    let is_banded = is_banded(field, descriptor.shape.len(), options);
    let factors = match factors {
        None if is_banded => Some(Factors::of_pairs(vec![(1.0, 0.0)])?),
        factors => factors,
    };
    let finish = Finish { to, factors, ..Finish::NOTHING };
    let part = Voxels { origin: [0; 3], size };
    let shape: Vec<u64> = size.into_iter().chain(channels).collect();
    let bytes = to_usize(dtype.array_bytes(&shape)?);
    let stored = examples.stored(dtype, to);
    let lowers = |change: &BandAugmentation| matches!(change, BandAugmentation::RandomLowResolution { .. });
    let is_lowered = is_banded && options.view.augment_bands.iter().any(lowers);
    // A box that is not moved reads no voxels outside itself, so `outside` is never used.
    let mean = is_lowered.then_some(Resampling::Bilinear { outside: 0.0 });
    let sampling = moves::sampling(dataset.schema(), field, dtype, &examples, options)?.or(mean);
    let augmentation = array_augmentation(dataset.schema(), options).filter(|_| sampling.is_some());
    let most = augmentation.as_ref().and_then(|moves| moves.of_volumes()).map(|ranges| ranges.most_reach(size));
    let reach = Voxels { origin: [0; 3], size: most.unwrap_or(size) };
    examples.check_no_data(field, fill, sampling)?;
    let volume = VolumeField { position, part, reach, place, finish, sampling, is_banded, fill, stored, scene };
    Ok(Some(Description::dense(FieldType::Volume(Box::new(volume)), dtype, shape, bytes)))
}

//! Finds out how a field stores its arrays. It inspects a few samples spread over the dataset, in case the
//! first one is not typical.

use super::array_augmentation::array_augmentation;
use crate::fields::{Cut, check_no_data, loses};
use crate::options::{CubeMode, LoaderOptions, NoData};
use crate::sample::{SampleAt, name};
use crate::stage::{ArrayPart, ArrayValue, RecordValue};
use crate::supply::check;
use shardpack_array::{ArrayDecoder, As, Finish, Resampling, common_dtype, decoded_as};
use shardpack_format::{
    ArrayDescriptor, Codec, Dtype, ElementType, Error as FormatError, Hint, Limits, Record, Schema, Setting,
};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::raw::{HEAD_BYTES, read_head};
use shardpack_reader::{Dataset, Error, Result, Shard};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of samples to inspect. A smaller dataset is inspected completely.
const MOST: u64 = 64;
/// Maximum number of samples of one kind that are read whole in search of an undamaged one.
const TRIES: usize = 16;

/// Part of a hint that tells the user where no-data values come from.
pub(crate) const DECLARED: &str =
    "declare the no-data value in the source (`data ignore value` in ENVI, GDAL_NODATA in GeoTIFF) and pack again";

/// Samples of a field: one for each element type and form of storage, in ascending order, and at least one in total.
/// Each is read whole, because the head alone has no checksum.
pub(crate) struct Examples {
    samples: Vec<Example>,
    /// For each axis of the first example: true if its length differs in another inspected sample.
    pub(crate) varies: Vec<bool>,
    looked_at: usize,
    has_no_data: bool,
}

struct Example {
    sample: u64,
    codec: Codec,
    descriptor: ArrayDescriptor,
    /// True if a stage wants the field's values in staging memory.
    is_shared: bool,
}

impl Examples {
    /// Inspects a field. `limits` apply to whole arrays. `wanted` are the options, including the stage that may want
    /// values in staging memory. They are `None` if no stage has to be asked.
    pub(crate) fn find(
        dataset: &Dataset,
        field: &str,
        position: usize,
        limits: &Limits,
        wanted: Option<&LoaderOptions>,
    ) -> Result<Self> {
        let having = Having::of(dataset, field);
        let count = having.samples.min(MOST);
        let mut kinds: Vec<(ArrayDescriptor, Vec<u64>)> = Vec::new();
        let mut shapes: Vec<Vec<u64>> = Vec::new();
        let (mut looked_at, mut has_no_data) = (0, false);
        let spread = |i: u64| i.saturating_mul(having.samples.saturating_sub(1)) / (count.saturating_sub(1)).max(1);
        let samples = (0..count).filter_map(|i| having.nth(spread(i)));
        announce(dataset, samples.clone());
        for sample in samples {
            let Ok(Some(descriptor)) = head(dataset, sample, position, limits) else { continue };
            looked_at += 1;
            has_no_data |= descriptor.no_data.is_some();
            if !shapes.contains(&descriptor.shape) {
                shapes.push(descriptor.shape.clone());
            }
            match kinds.iter_mut().find(|(kind, _)| same_kind(kind, &descriptor)) {
                Some((_, samples)) => samples.push(sample),
                None => kinds.push((descriptor, vec![sample])),
            }
        }
        let mut whole: Vec<Example> = Vec::new();
        let mut buffer = Vec::new();
        for (kind, samples) in &kinds {
            let checked = samples.iter().take(TRIES).find_map(|&sample| {
                let example = whole_record(dataset, sample, position, limits, wanted, &mut buffer).ok()??;
                same_kind(kind, &example.descriptor).then_some(example)
            });
            whole.extend(checked);
        }
        whole.sort_by_key(|example| example.sample);
        if whole.is_empty() {
            // If the samples are damaged, reading the first one reports the error.
            let first = having.nth(0).map(|first| dataset.get(first)?.descriptor(field));
            first.transpose()?;
            return Err(Error::usage(format!("no sample has a value for field `{field}`")));
        }
        let first = whole.first().map_or(&[][..], |example| &example.descriptor.shape);
        let differs = |shape: &Vec<u64>, axis: usize| shape.len() != first.len() || shape.get(axis) != first.get(axis);
        let varies = (0..first.len()).map(|axis| shapes.iter().any(|shape| differs(shape, axis))).collect();
        Ok(Self { samples: whole, varies, looked_at, has_no_data })
    }

    pub(crate) fn first(&self, dataset: &Dataset, epoch: u32) -> Result<(SampleAt, Arc<Shard>, &ArrayDescriptor)> {
        let Example { sample, descriptor, .. } =
            self.samples.first().ok_or_else(|| Error::usage("no sample has a value for this array field"))?;
        let (number, record) = dataset.locate(*sample)?;
        Ok((
            SampleAt { sample: *sample, record, epoch, repetition: 0, patch: 0, origin: None },
            dataset.shard(number)?,
            descriptor,
        ))
    }

    /// Returns the codecs and descriptors of the examples. The descriptors decode to `element`, or stay
    /// unchanged if `to` converts the elements after decoding.
    pub(crate) fn stored(&self, element: ElementType, to: As) -> Vec<(Codec, ArrayDescriptor)> {
        let decoded = |descriptor: &ArrayDescriptor| match (element, to) {
            (ElementType::Dtype(dtype), As::Decoded) => decoded_as(descriptor, dtype),
            _ => Some(descriptor.clone()),
        };
        self.samples.iter().filter_map(|example| Some((example.codec, decoded(&example.descriptor)?))).collect()
    }

    pub(crate) fn are_shared(&self) -> bool {
        self.samples.iter().all(|example| example.is_shared)
    }

    /// Returns the value that replaces no-data, or `None` if no inspected sample declares a no-data value.
    pub(crate) fn fill(&self, field: &str, options: &LoaderOptions) -> Result<Option<f32>> {
        let axes = self.axes(field, options);
        let with = options.output.no_data.of(field, axes).filter(|_| options.aligned(field).is_none());
        if with.is_some() && !self.has_no_data && matches!(options.output.no_data, NoData::Fields(_)) {
            let (field, count) = (field.escape_debug(), self.looked_at);
            let text = format!(
                "cannot replace no-data values: field `{field}` declares none in the {count} inspected samples"
            );
            return Err(Error::usage(text).with_hint(DECLARED));
        }
        Ok(with.filter(|_| self.has_no_data))
    }

    /// Returns the number of axes with which to look up the field in the cube options. When volumes are cut, this is
    /// three for volumes, with or without channels, and two for their masks.
    pub(crate) fn axes(&self, field: &str, options: &LoaderOptions) -> usize {
        let axes = self.samples.first().map_or(0, |example| example.descriptor.shape.len());
        match (options.view.cube, axes) {
            (CubeMode::Volume { .. }, 3 | 4) => {
                if is_mask(field) {
                    2
                } else {
                    3
                }
            }
            _ => axes,
        }
    }

    /// Returns the field's element type in a batch, and how decoded elements are converted to that type.
    pub(crate) fn element(&self, dataset: &Dataset, field: &str, options: &LoaderOptions) -> Result<(ElementType, As)> {
        let axes = self.axes(field, options);
        let asked = options.output.dtype.of(field, axes);
        let has_factors = options.output.normalise.iter().any(|(name, _)| name == field);
        let fills = self.fill(field, options)?.is_some();
        let rank = self.samples.first().map_or(0, |example| example.descriptor.shape.len());
        let is_mixed = self.are_mixed(dataset.schema(), field, options);
        let rounds = has_factors || is_mixed || is_banded(field, rank, options);
        let normalised = rounds || fills;
        let element = match asked {
            Some(element) if normalised || element == ElementType::Bf16 => element,
            None if normalised => {
                let element = self.dtype(dataset, field, None, options.order.epoch)?.into();
                // The output must be floats, except for masks, because classes are not normalised.
                let becomes_float = rounds && As::float(element).is_none() && !is_mask(field);
                if becomes_float { Dtype::F32.into() } else { element }
            }
            Some(ElementType::Dtype(dtype)) => {
                return Ok((self.dtype(dataset, field, Some(dtype), options.order.epoch)?.into(), As::Decoded));
            }
            _ => return Ok((self.dtype(dataset, field, None, options.order.epoch)?.into(), As::Decoded)),
        };
        let Some(to) = As::float(element) else {
            let why = match (has_factors, fills) {
                (true, _) => "to be normalised with mean and std",
                (false, true) => "for no-data replacement",
                (false, false) if is_mixed => "for interpolation",
                (false, false) => "for band augmentation",
            };
            let hint = Hint::new("choose float16, bfloat16 or float32 with ").and([Setting::named("dtype")]);
            let text = format!("field `{field}` is {element}, but must be float16, bfloat16 or float32 {why}");
            return Err(Error::usage(text).with_hint(hint));
        };
        for Example { sample, descriptor, .. } in &self.samples {
            if let Err(error) = to.of(descriptor.decoded) {
                return Err(named(dataset, *sample, options.order.epoch, of_field(field, error))?);
            }
        }
        Ok((element, to))
    }

    /// Returns true if affine maps interpolate between pixels of a field. They do so for all cubes and all
    /// other floats, except masks.
    pub(crate) fn are_mixed(&self, schema: &Schema, field: &str, options: &LoaderOptions) -> bool {
        let axes = self.axes(field, options);
        let asked = options.output.dtype.of(field, axes);
        let is_float = |example: &Example| example.descriptor.decoded.is_float();
        let has_floats = match asked {
            Some(ElementType::Dtype(dtype)) => dtype.is_float(),
            Some(ElementType::Bf16) => true,
            None => self.samples.iter().any(is_float),
        };
        let is_cube = axes == 3 || axes == 2 && has_floats;
        array_augmentation(schema, options).is_some() && !is_mask(field) && is_cube
    }

    /// Fails if affine maps would mix an example's no-data with other values.
    pub(crate) fn check_no_data(&self, field: &str, fill: Option<f32>, sampling: Option<Resampling>) -> Result<()> {
        let descriptors = self.samples.iter().map(|example| &example.descriptor);
        descriptors.into_iter().try_for_each(|one| check_no_data(field, one, fill, sampling)).map_err(Error::from)
    }

    /// Returns the type `asked`, or else the common type of all examples. Fails if the conversion would
    /// change a value.
    fn dtype(&self, dataset: &Dataset, field: &str, asked: Option<Dtype>, epoch: u32) -> Result<Dtype> {
        let descriptors: Vec<ArrayDescriptor> = self.samples.iter().map(|example| example.descriptor.clone()).collect();
        let Some(dtype) = asked.or_else(|| common_dtype(&descriptors)) else {
            let mut types: Vec<Dtype> = descriptors.iter().map(|descriptor| descriptor.decoded).collect();
            types.sort_unstable();
            types.dedup();
            let types: Vec<&str> = types.iter().map(|dtype| dtype.name()).collect();
            let types = types.join(", ");
            let error = Error::usage(format!(
                "field `{field}`: no element type can hold the values of all samples, which have the types {types}"
            ));
            return Err(error.with_hint(format!("load the samples of each type separately, or leave `{field}` out")));
        };
        for Example { sample, descriptor, .. } in &self.samples {
            if decoded_as(descriptor, dtype).is_none() {
                return Err(named(dataset, *sample, epoch, loses(field, descriptor, dtype))?);
            }
        }
        Ok(dtype)
    }
}

/// The samples of the datasets that have a field. A combined dataset may contain datasets without the field.
struct Having {
    ranges: Vec<Range<u64>>,
    samples: u64,
}

impl Having {
    fn of(dataset: &Dataset, field: &str) -> Self {
        let (mut ranges, mut start) = (Vec::new(), 0);
        for without in dataset.without(field) {
            ranges.push(start..without.start);
            start = without.end;
        }
        ranges.push(start..dataset.len());
        Self { samples: ranges.iter().map(|range| range.end - range.start).sum(), ranges }
    }

    fn nth(&self, mut n: u64) -> Option<u64> {
        for range in &self.ranges {
            let samples = range.end - range.start;
            if n < samples {
                return Some(range.start + n);
            }
            n -= samples;
        }
        None
    }
}

fn named(dataset: &Dataset, sample: u64, epoch: u32, error: FormatError) -> Result<Error> {
    let (number, record) = dataset.locate(sample)?;
    let at = SampleAt { sample, record, epoch, repetition: 0, patch: 0, origin: None };
    Ok(name(&*dataset.shard(number)?, at, error))
}

/// Returns true if the options augment the bands of a field with this many axes. When volumes are cut, an
/// array of three axes has one band.
pub(crate) fn is_banded(field: &str, axes: usize, options: &LoaderOptions) -> bool {
    let is_volume = matches!(options.view.cube, CubeMode::Volume { .. });
    (axes == 3 || axes == 4 && is_volume) && !options.view.augment_bands.is_empty() && !is_mask(field)
}

pub(crate) fn of_field(field: &str, error: FormatError) -> FormatError {
    error.within(format_args!("field `{field}`"))
}

/// Announces to remote storage that the heads of these samples will be read. The loader then waits only once
/// for all shards and once for all heads.
fn announce(dataset: &Dataset, samples: impl Iterator<Item = u64> + Clone) {
    if dataset.read_ahead_bytes() == 0 {
        return;
    }
    let places = samples.filter_map(|sample| dataset.locate(sample).ok());
    places.clone().for_each(|(number, _)| dataset.advise_shards(number..number.saturating_add(1)));
    for (number, record) in places {
        // Ignore errors. Reading the sample reports them.
        let Ok(shard) = dataset.shard(number) else { continue };
        if let (Ok(span), Ok(handle)) = (shard.span(&(record..record.saturating_add(1))), shard.file().handle()) {
            handle.advise_soon(span.start, (span.end - span.start).min(HEAD_BYTES as u64));
        }
    }
}

fn same_kind(a: &ArrayDescriptor, b: &ArrayDescriptor) -> bool {
    let no_data = |d: &ArrayDescriptor| d.codes.no_data.and(d.no_data).map(f64::to_bits);
    (a.decoded, a.stored, a.transform.code()) == (b.decoded, b.stored, b.transform.code())
        && a.codes == b.codes
        && (a.layout, a.band_difference) == (b.layout, b.band_difference)
        && no_data(a) == no_data(b)
}

fn whole_record(
    dataset: &Dataset,
    sample: u64,
    position: usize,
    limits: &Limits,
    wanted: Option<&LoaderOptions>,
    buffer: &mut Vec<u8>,
) -> Result<Option<Example>> {
    let (number, record) = dataset.locate(sample)?;
    let shard = dataset.shard(number)?;
    let Some((file, position)) = shard.file_of(position) else { return Ok(None) };
    let bytes = file.read_record(record, buffer)?;
    let frame = check(file, record, bytes)?;
    let Some(value) = Record::field_at(&frame, bytes, position, limits)? else { return Ok(None) };
    let (codec, descriptor) = (value.codec, ArrayDescriptor::parse(value.descriptor, limits)?);
    let cut = wanted.and_then(|options| Cut::of(descriptor.shape.len(), options));
    if cut.is_some() && codec == Codec::Zstd {
        // The whole array is read into staging memory even if only a part is decoded, so its shape must fit the
        // payload. The limits of a part do not check this.
        ArrayDecoder::check_length(codec, &descriptor, value.bytes, limits)?;
    }
    let part = cut.as_ref().map(|cut| ArrayPart::Region(&cut.region));
    let array = ArrayValue { codec, descriptor: &descriptor, bytes: value.bytes, part, limits };
    let value = RecordValue::Array { array, finish: &Finish::NOTHING, noise: None, memo: None };
    let is_shared =
        wanted.and_then(|options| options.resources.stage.as_ref()).is_some_and(|stage| stage.shares(&value));
    Ok(Some(Example { sample, codec, descriptor, is_shared }))
}

/// Reads only the head of a record, because cubes are large.
fn head(dataset: &Dataset, sample: u64, position: usize, limits: &Limits) -> Result<Option<ArrayDescriptor>> {
    let (number, record) = dataset.locate(sample)?;
    let shard = dataset.shard(number)?;
    let Some((file, position)) = shard.file_of(position) else { return Ok(None) };
    let (frame, bytes) = read_head(file, record)?;
    let descriptor = Record::descriptor_at(&frame, &bytes, position)?;
    Ok(descriptor.map(|descriptor| ArrayDescriptor::parse(descriptor, limits)).transpose()?)
}

//! The part of an array that a row requests, its position, and the processing after decoding. The request is kept for
//! the next row, because most datasets store all arrays of a field in the same form.

use crate::decode::record::RowField;
use crate::fields::{ArrayField, Cut, CutOf, FieldType, check_no_data, limits_of_a_part, loses, too_large};
use crate::stage::{ArrayPart, ArrayValue};
use shardpack_array::{As, Factors, Fill, Finish, Region, Resampling, Wanted, Warp, decoded_as};
use shardpack_augment::BandAugmentation;
use shardpack_format::{
    ArrayDescriptor, Dtype, ElementType, Error, FieldValue, Hint, Layout, Limits, Result, Setting, bug, to_usize,
};

pub(super) struct ArrayRequest {
    /// Descriptor of the last array: its stored bytes, and the parsed form.
    descriptor: Option<(Vec<u8>, ArrayDescriptor)>,
    /// Part requested by the last row. For a stage, this may also be a region that covers the whole array and
    /// only reorders the axes.
    region: Option<Region>,
    /// Processing after decoding, with the last row's no-data value, rotation and factors.
    finish: Finish,
    factors: Option<Factors>,
}

pub(super) struct AskedArray<'a> {
    pub(super) descriptor: &'a ArrayDescriptor,
    pub(super) region: Option<&'a Region>,
    pub(super) finish: &'a Finish,
}

impl<'a> AskedArray<'a> {
    pub(super) fn wanted(&self, channels_first: bool) -> Wanted<'a> {
        Wanted { region: self.region, layout: layout(channels_first), finish: self.finish }
    }

    pub(super) fn array(&self, value: &FieldValue<'a>, limits: &'a Limits) -> ArrayValue<'a> {
        let FieldValue { codec, bytes, .. } = *value;
        ArrayValue { codec, descriptor: self.descriptor, bytes, part: self.region.map(ArrayPart::Region), limits }
    }
}

pub(crate) const fn layout(channels_first: bool) -> Layout {
    if channels_first { Layout::BandMajor } else { Layout::AsShape }
}

impl ArrayRequest {
    pub(super) fn new(field: &ArrayField) -> Self {
        let ArrayField { cut, finish, is_banded, .. } = field;
        Self {
            descriptor: None,
            region: cut.as_ref().map(|cut| cut.region.clone()),
            finish: finish.as_deref().cloned().unwrap_or_default(),
            factors: finish.as_ref().filter(|_| *is_banded).and_then(|finish| finish.factors.clone()),
        }
    }

    pub(super) fn descriptor(&self) -> &ArrayDescriptor {
        self.descriptor
            .as_ref()
            .map_or_else(|| bug("an array is requested before its descriptor is parsed"), |(_, last)| last)
    }

    /// Parses the descriptor of this value, and sets the position and rotation of the requested part. Fails unless
    /// the value has the shape `expected`. All arrays of a row share `window`, so they are cut at the same position.
    pub(super) fn ask(
        &mut self,
        field: &ArrayField,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        expected: &[u64],
        window: &mut Option<CutOf>,
    ) -> Result<AskedArray<'_>> {
        self.describe(field, of, value)?;
        let Self { descriptor: Some((_, descriptor)), region, finish, factors } = self else {
            bug("an array is requested before its descriptor is parsed")
        };
        let recipe = of.recipe();
        if let (Some(cut), Some(region)) = (&field.cut, &mut *region) {
            if descriptor.shape.len() != expected.len() {
                return Err(other_shape(field, of, expected, &descriptor.shape));
            }
            place(cut, region, of, descriptor, window)?;
            let shape = region.shape_of(descriptor)?;
            // An array with two axes is accepted as a cube with a single band.
            if shape.shape.get(..expected.len()) != Some(expected) {
                return Err(other_shape(field, of, expected, &descriptor.shape));
            }
            set_moves(finish, field.sampling, of, [region.height, region.width]);
            vary(finish, factors.as_ref(), of, expected, field.channels_first)?;
            return Ok(AskedArray { descriptor, region: Some(region), finish });
        }
        let same = match (field.channels_first, expected, &*descriptor.shape) {
            (true, &[a, b, c], &[height, width, channels]) => [a, b, c] == [channels, height, width],
            (true, ..) => false,
            (false, expected, shape) => expected == shape,
        };
        if !same {
            return Err(other_shape(field, of, expected, &descriptor.shape));
        }
        if let ([height, width] | [height, width, _], false) = (&*descriptor.shape, !recipe.moves_arrays()) {
            let size = [*height, *width];
            check_alike("cannot flip or rotate the arrays together", [1, *height, *width], of, window)?;
            set_moves(finish, field.sampling, of, size);
        }
        vary(finish, factors.as_ref(), of, expected, field.channels_first)?;
        Ok(AskedArray { descriptor, region: None, finish })
    }

    /// Same as `ask`, but for a stage. If the output needs a different order of axes, the request becomes a
    /// region that reorders them.
    pub(super) fn ask_stage(
        &mut self,
        field: &ArrayField,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        expected: &[u64],
        window: &mut Option<CutOf>,
    ) -> Result<AskedArray<'_>> {
        self.ask(field, of, value, expected, window)?;
        if let (true, None, &[height, width, _]) = (field.channels_first, &field.cut, &*self.descriptor().shape) {
            let mut whole = Region::new(0, 0, height, width);
            whole.layout = Layout::BandMajor;
            self.region = Some(whole);
        }
        Ok(AskedArray { descriptor: self.descriptor(), region: self.region.as_ref(), finish: &self.finish })
    }

    fn describe(&mut self, field: &ArrayField, of: &RowField<'_>, value: &FieldValue<'_>) -> Result<()> {
        if self.descriptor.as_ref().is_some_and(|(bytes, _)| bytes == value.descriptor) {
            return Ok(());
        }
        let source = match field.cut {
            Some(_) => ArrayDescriptor::parse(value.descriptor, &limits_of_a_part(of.limits()))?,
            None => ArrayDescriptor::parse(value.descriptor, of.limits())?,
        };
        // The element type usually stays the same. In that case, move the descriptor instead of copying it.
        let descriptor = match (self.finish.to, of.field.dtype) {
            (As::Decoded, ElementType::Dtype(dtype)) if source.decoded != dtype => {
                decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
            }
            _ => source,
        };
        check_no_data(&of.field.name, &descriptor, field.fill, field.sampling)?;
        self.finish.fill = fill(field.fill, &descriptor);
        self.descriptor = Some((value.descriptor.to_vec(), descriptor));
        Ok(())
    }
}

/// Returns the size of an array in bytes, before its `Finish` is applied.
pub(crate) fn plain_bytes(dtype: Dtype, shape: &[u64], limits: &Limits) -> Result<usize> {
    let bytes = dtype.array_bytes(shape)?;
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    Ok(to_usize(bytes))
}

/// Returns the number of rows, columns and bands of the output, and its layout. An array that does not have two or
/// three axes counts as one row.
pub(crate) fn image_axes(shape: &[u64], channels_first: bool) -> Result<([u64; 3], Layout)> {
    Ok(match (shape, channels_first) {
        (&[bands, rows, columns], true) => ([rows, columns, bands], Layout::BandMajor),
        (&[rows, columns, bands], false) => ([rows, columns, bands], Layout::AsShape),
        (&[rows, columns], _) => ([rows, columns, 1], Layout::AsShape),
        (other, _) => ([1, Dtype::U8.array_bytes(other)?, 1], Layout::AsShape),
    })
}

pub(crate) fn fill(with: Option<f32>, descriptor: &ArrayDescriptor) -> Option<Fill> {
    Some(Fill { no_data: descriptor.no_data?, with: with? })
}

/// Sets the flips, rotation and map for a sample's array of this height and width.
pub(crate) fn set_moves(finish: &mut Finish, sampling: Option<Resampling>, of: &RowField<'_>, size: [u64; 2]) {
    let recipe = of.recipe();
    let key = recipe.key(of.at());
    finish.turn = recipe.augment.turn(&key, size);
    let [height, width] = size.map(to_usize);
    let map = recipe.fields.moves.and_then(|moves| moves.map(&key.draws(), 0, height, width));
    finish.warp = sampling.zip(map).map(|(sampling, map)| Warp { map, sampling });
}

pub(crate) fn vary(
    finish: &mut Finish,
    factors: Option<&Factors>,
    of: &RowField<'_>,
    shape: &[u64],
    channels_first: bool,
) -> Result<()> {
    let Some(factors) = factors else { return Ok(()) };
    let (recipe, most) = (of.recipe(), BandAugmentation::MOST_BANDS);
    let bands = if channels_first { shape.first() } else { shape.last() };
    let Some(count) = bands.map(|&bands| to_usize(bands)).filter(|bands| *bands <= most) else {
        return Err(Error::usage(format!(
            "band augmentations support at most {most} bands, but an array has the shape {shape:?}"
        )));
    };
    let base: Vec<(f32, f32)> = factors.pairs().collect();
    let pairs = base.into_iter().cycle().take(count);
    let pairs = BandAugmentation::fold(&recipe.augment_bands, &recipe.key(of.at()).draws(), pairs);
    finish.factors = Some(Factors::of_pairs(pairs)?);
    Ok(())
}

/// Fails unless this array has the same size as the earlier arrays of the row.
pub(crate) fn check_alike(
    what: &'static str,
    array: [u64; 3],
    of: &RowField<'_>,
    window: &mut Option<CutOf>,
) -> Result<()> {
    let is_volume = matches!(of.field.kind, FieldType::Volume(_));
    let window = window.get_or_insert(CutOf { size: array, origin: None, is_volume });
    let others = window.size;
    if others == array {
        return Ok(());
    }
    let words = |size: [u64; 3]| {
        let sides = size.iter().skip(usize::from(!window.is_volume)).map(u64::to_string).collect::<Vec<_>>();
        sides.join(" × ")
    };
    let (name, size, other) = (&of.field.name, words(array), words(others));
    Err(Error::usage(format!("{what}: field `{name}` is {size}, but another field is {other}")))
}

fn place(
    cut: &Cut,
    region: &mut Region,
    of: &RowField<'_>,
    descriptor: &ArrayDescriptor,
    window: &mut Option<CutOf>,
) -> Result<()> {
    let recipe = of.recipe();
    let &[height, width, ..] = &*descriptor.shape else { bug("an array with one axis cannot be cut") };
    let Some(place) = cut.place else {
        (region.height, region.width) = (height, width);
        if recipe.moves_arrays() {
            check_alike("cannot flip or rotate the arrays together", [1, height, width], of, window)?;
        }
        return Ok(());
    };
    let (array, patch) = ([height, width], [region.height, region.width]);
    check_alike("cannot cut the same patch from all arrays", [1, height, width], of, window)?;
    let origin = match &recipe.fields.patches {
        Some(patches) if patches.grid.is_some() => {
            patches.in_grid(of.at().sample, of.at().patch, [1, height, width])?.map(|[_, y, x]| [y, x])
        }
        _ => match of.at().origin {
            Some([_, y, x]) => Some([y, x]),
            None => place.origin(&recipe.key(of.at()), array, patch),
        },
    };
    let origin = origin.ok_or_else(|| too_large(patch, array))?;
    [region.y, region.x] = origin;
    if let Some(window) = window {
        window.origin = Some([0, region.y, region.x]);
    }
    Ok(())
}

fn other_shape(field: &ArrayField, of: &RowField<'_>, expected: &[u64], found: &[u64]) -> Error {
    let is_patch = field.cut.as_ref().is_some_and(|cut| cut.place.is_some());
    let part = match field.cut {
        Some(_) if is_patch => "so its patches cannot have the shape",
        Some(_) => "so its selected bands cannot have the shape",
        None => "not",
    };
    if field.indexed {
        return Error::malformed(format!("the array has the shape {found:?}, {part} {expected:?} as the index says"));
    }
    // A usage error, not damage, because the arrays of a field may legitimately differ in shape.
    let hint = match is_patch {
        true => Hint::new("choose ").and([Setting::named("bands")]).then(" that all arrays have"),
        false => Hint::new("load patches of one size, such as ").and([Setting::word("cube", "patch64x64")]),
    };
    let name = &of.field.name;
    let text = format!("field `{name}`: the array has the shape {found:?}, {part} {expected:?} as in the first sample");
    Error::usage(text).with_hint(hint.then(", or pack the arrays with scalar fields `height`, `width` and `channels`"))
}

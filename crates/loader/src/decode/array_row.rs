//! What a thread does with one array of a row: decode it, or the part of it that is asked for, to
//! where it stays.

use super::recipe::Recipe;
use super::record::FieldOf;
use crate::fields::{Cut, CutOf, From, limits_of_a_part, loses, too_large};
use crate::patches::PatchAt;
use shardpack_array::{ArrayDecoder, ArraySplit, As, Factors, Fill, Finish, Region, Wanted, decoded_as};
use shardpack_augment::BandAugmentation;
use shardpack_format::{ArrayDescriptor, Dtype, ElementType, Error, FieldValue, Layout, Limits, Result};

/// One thread's decoder of arrays, and its memory: used again for every row.
pub(crate) struct ArrayRows {
    pub(crate) decoder: ArrayDecoder,
    /// Decoded elements that are not finished.
    pub(crate) decoded: Vec<u8>,
    pub(crate) fields: Vec<Known>,
    /// Of the row being decoded.
    pub(crate) cut: Option<CutOf>,
    /// A whole volume.
    pub(crate) volume: Vec<u8>,
}

/// What is known of a field from the rows before.
pub(crate) struct Known {
    /// The last descriptor: in most datasets all are alike.
    pub(crate) descriptor: Option<(Vec<u8>, ArrayDescriptor)>,
    /// What is cut out, at the place of the last row; for a stage, also what only has its axes in
    /// another order.
    region: Option<Region>,
    /// What becomes of decoded elements, with the no-data value, the turn, and the bands, of the
    /// last row.
    finish: Finish,
    /// Factors of all rows, if bands are changed at random.
    factors: Option<Factors>,
    /// What comes in the place of no-data.
    fill: Option<f32>,
}

/// An array, what is asked of it, and what becomes of that.
pub(crate) type Asked<'a> = (&'a ArrayDescriptor, Option<&'a Region>, &'a Finish);

impl ArrayRows {
    pub(crate) fn new(recipe: &Recipe) -> Self {
        let known = |from: &From| match from {
            From::Array { cut, finish, is_banded, fill, .. } => Known {
                fill: *fill,
                descriptor: None,
                region: cut.as_ref().map(|cut| cut.region.clone()),
                finish: finish.as_deref().cloned().unwrap_or_default(),
                factors: finish.as_ref().filter(|_| *is_banded).and_then(|finish| finish.factors.clone()),
            },
            _ => Known { descriptor: None, region: None, finish: Finish::NOTHING, factors: None, fill: None },
        };
        let fields = recipe.fields.plans.iter().map(|field| known(&field.from)).collect();
        Self { decoder: ArrayDecoder::new(), decoded: Vec::new(), fields, cut: None, volume: Vec::new() }
    }

    /// An array of this row was made in parts: what was known of its window when it was cut.
    pub(crate) fn was_cut(&mut self, cut: Option<CutOf>) -> Result<()> {
        if let (Some(others), Some(cut)) = (self.cut, cut)
            && others.size != cut.size
        {
            // The whole record says it as ever.
            return Err(Error::internal("arrays of one row", format!("{:?}", others.size), format!("{:?}", cut.size)));
        }
        self.cut = cut.or(self.cut);
        Ok(())
    }

    /// Begins a row.
    pub(crate) const fn begin(&mut self) {
        self.cut = None;
    }

    /// Where the patch of this row lies; `None` if nothing of it is cut.
    pub(crate) fn placed(&self, number: u32) -> Option<PatchAt> {
        self.cut.filter(|cut| cut.origin.is_some()).map(|cut| cut.at(number))
    }

    /// What a stage is asked to make of an array: its descriptor, the part, in the order that is
    /// wanted, and what becomes of its elements.
    pub(crate) fn asked(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, Option<&Cut>),
        dims: &[u64],
    ) -> Result<Asked<'_>> {
        let Self { fields, cut: cut_of, .. } = self;
        let known = known(fields, of)?;
        let expected = if of.field.is_ragged() { dims } else { &of.field.shape };
        let turned = channels_first && cut.is_none();
        known.ask(recipe, of, value, (channels_first, cut), expected, cut_of)?;
        let Known { descriptor, region, finish, .. } = known;
        let Some((_, descriptor)) = descriptor else { return Err(Error::internal("descriptor", "one", "none")) };
        if turned {
            let &[height, width, _] = &*descriptor.shape else {
                return Err(Error::internal("axes of an array with bands first", 3, descriptor.shape.len()));
            };
            let mut whole = Region::new(0, 0, height, width);
            whole.layout = Layout::BandMajor;
            *region = Some(whole);
        }
        Ok((descriptor, region.as_ref(), finish))
    }

    /// How a payload of so many bytes, as long as the value says nothing but how it is stored, is
    /// cut into parts for several threads, and what is known of its window; `None` if it has to be
    /// decoded as a whole, or would be refused. `read` fills a buffer with the bytes at a place in the
    /// payload.
    pub(crate) fn split(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (how, dims): ((bool, Option<&Cut>), &[u64]),
        bytes: (usize, usize),
        read: impl FnMut(usize, &mut [u8]) -> Option<()>,
    ) -> Option<(ArraySplit, Option<CutOf>)> {
        let known = known(&mut self.fields, of).ok()?;
        let expected = if of.field.is_ragged() { dims } else { &of.field.shape };
        let asked = known.ask(recipe, of, value, how, expected, &mut self.cut).ok()?;
        let limits = &of.shard.options().limits;
        let split = ArraySplit::new(value.codec, asked.0, &wanted(&asked, how.0), bytes, limits, read)?;
        Some((split, self.cut))
    }

    /// Decodes an array, or what `cut` leaves of it, into the whole of `out`. `dims` are the axes
    /// that the index promised for a ragged row.
    pub(crate) fn decode(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        how: (bool, Option<&Cut>),
        out: &mut [u8],
        dims: &[u64],
    ) -> Result<()> {
        let limits = &of.shard.options().limits;
        let Self { decoder, fields, cut: cut_of, .. } = self;
        let known = known(fields, of)?;
        let expected = if of.field.is_ragged() { dims } else { &of.field.shape };
        let asked = known.ask(recipe, of, value, how, expected, cut_of)?;
        decoder.decode_wanted(value.codec, asked.0, value.bytes, &wanted(&asked, how.0), out, limits)
    }
}

/// What is asked of an array, as its decoder takes it.
fn wanted<'a>((_, region, finish): &Asked<'a>, channels_first: bool) -> Wanted<'a> {
    Wanted { region: *region, layout: layout(channels_first), finish }
}

pub(crate) const fn layout(channels_first: bool) -> Layout {
    if channels_first { Layout::BandMajor } else { Layout::AsShape }
}

/// Bytes of an array of this shape, before anything becomes of its elements.
pub(crate) fn plain_bytes(dtype: Dtype, shape: &[u64], limits: &Limits) -> Result<usize> {
    let bytes = dtype.array_bytes(shape)?;
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    usize::try_from(bytes).map_err(|_| Error::limit("decoded array", "memory", usize::MAX as u64, bytes))
}

/// Rows, columns and bands of what comes out, and which of them come first. Arrays of other numbers
/// of axes are one row.
pub(crate) fn axes(shape: &[u64], channels_first: bool) -> Result<([u64; 3], Layout)> {
    Ok(match (shape, channels_first) {
        (&[bands, rows, columns], true) => ([rows, columns, bands], Layout::BandMajor),
        (&[rows, columns, bands], false) => ([rows, columns, bands], Layout::AsShape),
        (&[rows, columns], _) => ([rows, columns, 1], Layout::AsShape),
        (other, _) => ([1, Dtype::U8.array_bytes(other)?, 1], Layout::AsShape),
    })
}

pub(crate) fn known<'k>(fields: &'k mut [Known], of: &FieldOf<'_>) -> Result<&'k mut Known> {
    fields.get_mut(of.number).ok_or_else(|| Error::usage("field", "one of the batch", of.number))
}

impl Known {
    /// Puts in what this value is, where its part lies, and how that is turned; fails unless it has
    /// the shape `expected`.
    pub(crate) fn ask(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        (channels_first, cut): (bool, Option<&Cut>),
        expected: &[u64],
        cut_of: &mut Option<CutOf>,
    ) -> Result<Asked<'_>> {
        let limits = &of.shard.options().limits;
        if self.descriptor.as_ref().is_none_or(|(bytes, _)| bytes != value.descriptor) {
            let source = match cut {
                Some(_) => ArrayDescriptor::parse(value.descriptor, &limits_of_a_part(limits))?,
                None => ArrayDescriptor::parse(value.descriptor, limits)?,
            };
            // Mostly it is the type already, and a copy would allocate.
            let descriptor = match (self.finish.to, of.field.dtype) {
                (As::Decoded, ElementType::Dtype(dtype)) if source.decoded != dtype => {
                    decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
                }
                _ => source,
            };
            self.finish.fill = fill(self.fill, &descriptor);
            self.descriptor = Some((value.descriptor.to_vec(), descriptor));
        }
        let Some((_, descriptor)) = &self.descriptor else {
            return Err(Error::internal("descriptor of an array", "one that was parsed", "none"));
        };
        if let (Some(cut), Some(region)) = (cut, &mut self.region) {
            if descriptor.shape.len() != expected.len() {
                return Err(other_shape(of, expected, &descriptor.shape));
            }
            place(cut, region, recipe, of, descriptor, cut_of)?;
            let shape = region.shape_of(descriptor)?;
            // An array of two axes has one band, which is no axis.
            if shape.shape.get(..expected.len()) != Some(expected) {
                return Err(other_shape(of, expected, &descriptor.shape));
            }
            set_turn(&mut self.finish, recipe, of, [region.height, region.width]);
            vary(&mut self.finish, self.factors.as_ref(), recipe, of, (channels_first, expected))?;
            return Ok((descriptor, Some(region), &self.finish));
        }
        let same = match (channels_first, expected, &*descriptor.shape) {
            (true, &[a, b, c], &[height, width, channels]) => [a, b, c] == [channels, height, width],
            (true, ..) => false,
            (false, expected, shape) => expected == shape,
        };
        if !same {
            return Err(other_shape(of, expected, &descriptor.shape));
        }
        if let ([height, width] | [height, width, _], false) = (&*descriptor.shape, recipe.augment.is_none()) {
            let size = [*height, *width];
            check_alike("arrays to turn alike", [1, *height, *width], of, cut_of)?;
            set_turn(&mut self.finish, recipe, of, size);
        }
        vary(&mut self.finish, self.factors.as_ref(), recipe, of, (channels_first, expected))?;
        Ok((descriptor, None, &self.finish))
    }
}

/// What comes in the place of the no-data of an array, if it declares any.
pub(crate) fn fill(with: Option<f32>, descriptor: &ArrayDescriptor) -> Option<Fill> {
    Some(Fill { no_data: descriptor.no_data?, with: with? })
}

/// Draws the turn of this row.
pub(crate) fn set_turn(finish: &mut Finish, recipe: &Recipe, of: &FieldOf<'_>, size: [u64; 2]) {
    finish.turn = recipe.augment.turn(&recipe.key(of.at), size);
}

/// Draws what becomes of the bands of this row.
pub(crate) fn vary(
    finish: &mut Finish,
    factors: Option<&Factors>,
    recipe: &Recipe,
    of: &FieldOf<'_>,
    (channels_first, shape): (bool, &[u64]),
) -> Result<()> {
    let Some(factors) = factors else { return Ok(()) };
    let bands = if channels_first { shape.first() } else { shape.last() };
    let most = BandAugmentation::MOST_BANDS;
    let bands = bands.and_then(|bands| usize::try_from(*bands).ok()).filter(|bands| *bands <= most);
    let bands =
        bands.ok_or_else(|| Error::usage("bands to augment", format!("at most {most}"), format!("{shape:?}")))?;
    let base: Vec<(f32, f32)> = factors.pairs().collect();
    let pairs = base.into_iter().cycle().take(bands);
    let pairs = BandAugmentation::fold(&recipe.augment_bands, &recipe.key(of.at).draws(), pairs);
    finish.factors = Some(Factors::of_pairs(pairs)?);
    Ok(())
}

/// Fails unless the arrays of this row before this one are as high and wide.
pub(crate) fn check_alike(
    what: &'static str,
    array: [u64; 3],
    of: &FieldOf<'_>,
    cut: &mut Option<CutOf>,
) -> Result<()> {
    let is_volume = matches!(of.field.from, From::Volume(_));
    let cut = cut.get_or_insert(CutOf { size: array, origin: None, is_volume });
    let others = cut.size;
    if others == array {
        return Ok(());
    }
    let words = |size: [u64; 3]| {
        let sides = size.iter().skip(usize::from(!cut.is_volume)).map(u64::to_string).collect::<Vec<_>>();
        sides.join(" × ")
    };
    let found = format!("{} in field `{}`", words(array), of.field.name);
    Err(Error::usage(what, format!("{}, as the field before it", words(others)), found))
}

/// Puts `region` where `cut` lies in this array.
fn place(
    cut: &Cut,
    region: &mut Region,
    recipe: &Recipe,
    of: &FieldOf<'_>,
    descriptor: &ArrayDescriptor,
    cut_of: &mut Option<CutOf>,
) -> Result<()> {
    let &[height, width, ..] = &*descriptor.shape else {
        return Err(Error::internal("axes of an array to cut", "2 or 3", descriptor.shape.len()));
    };
    let Some(place) = cut.place else {
        (region.height, region.width) = (height, width);
        if !recipe.augment.is_none() {
            check_alike("arrays to turn alike", [1, height, width], of, cut_of)?;
        }
        return Ok(());
    };
    let (array, patch) = ([height, width], [region.height, region.width]);
    check_alike("arrays to cut alike", [1, height, width], of, cut_of)?;
    let origin = match &recipe.fields.patches {
        Some(patches) if patches.grid.is_some() => {
            patches.in_grid((of.at.sample, of.at.patch), [1, height, width])?.map(|[_, y, x]| [y, x])
        }
        _ => match of.at.origin {
            Some([_, y, x]) => Some([y, x]),
            None => place.origin(&recipe.key(of.at), array, patch),
        },
    };
    let origin = origin.ok_or_else(|| too_large(patch, array))?;
    [region.y, region.x] = origin;
    if let Some(cut_of) = cut_of {
        cut_of.origin = Some([0, region.y, region.x]);
    }
    Ok(())
}

fn other_shape(of: &FieldOf<'_>, expected: &[u64], found: &[u64]) -> Error {
    let cut = match &of.field.from {
        From::Array { cut: Some(_), .. } => " cut out of it",
        _ => "",
    };
    match &of.field.from {
        From::Array { indexed: true, .. } => {
            let expected = format!("{expected:?}{cut}, by the columns of the index");
            Error::format("shape of the array", expected, format!("{found:?}"))
        }
        // Nothing is broken: nobody has promised that arrays are of one shape.
        _ => {
            let what = format!("shape of field `{}`", of.field.name);
            let hint = "arrays of several shapes come ragged if `height`, `width` and `channels` are columns of the \
                        index; or load a patch";
            let expected = format!("{expected:?}{cut}, as in the first sample");
            Error::usage(what, expected, format!("{found:?}")).with_hint(hint)
        }
    }
}

//! Decodes masks that follow their picture. Each pixel of the view gets the mask value at its centre.

use super::{FieldDecoder, StageTarget};
use crate::decode::record::{RowField, ViewedRecord};
use crate::decode::shape::{RemainingRows, Shape, VisiblePart, check_rows};
use crate::decode::tools::Tools;
use crate::fields::{MaskField, loses, mask_size};
use crate::stage::{ArrayPart, ArrayValue, MaskMove, MaskView, Prepared, RecordValue, ViewElement};
use shardpack_array::{Array, Region, decoded_as};
use shardpack_format::{ArrayDescriptor, ElementType, Error, FieldValue, Layout, Limits, Result, bug, to_usize};
use shardpack_jpeg::{Crop, PixelLayout};

/// Scratch memory that a thread may keep between masks, in bytes.
const MOST_KEPT: usize = 8 << 20;

pub(super) struct MaskDecoder {
    field: MaskField,
    pixels: Vec<u8>,
    view: MaskView,
}

/// The part of a mask that is visible in the view.
struct AskedMask<'a> {
    value: FieldValue<'a>,
    descriptor: ArrayDescriptor,
    channels: usize,
    region: Region,
    /// Height and width of the view.
    size: [usize; 2],
}

impl AskedMask<'_> {
    fn element_bytes(&self) -> usize {
        self.descriptor.decoded.size()
    }

    fn pixel_bytes(&self) -> usize {
        self.channels.saturating_mul(self.element_bytes())
    }
}

impl FieldDecoder for MaskDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some((value, shape)) = self.value(tools, of)? else { return Ok(false) };
        if of.field.is_ragged() {
            set_sides(dims, [shape.crop.height, shape.crop.width].map(u64::from), of.recipe().layout);
        }
        let asked = self.ask(of, value, &shape)?;
        self.resample(tools, of, &asked, out)?;
        Ok(true)
    }

    fn prepare(
        &mut self,
        tools: &mut Tools,
        of: &RowField<'_>,
        _: &[u64],
        to: &mut StageTarget<'_>,
    ) -> Result<Option<Prepared>> {
        let found = match to.resident_form(of) {
            Some(value) => {
                // The device keeps only masks of the same size as their picture.
                let descriptor = ArrayDescriptor::parse(value.descriptor, of.limits())?;
                let size = mask_size(&descriptor).unwrap_or_else(|| bug("a mask on the device has no size"));
                Some((value, of.record.shape(size, &self.field.picture, &mut tools.objects)?))
            }
            None => self.value(tools, of)?,
        };
        let Some((value, shape)) = found else { return Ok(None) };
        let asked = self.ask(of, value, &shape)?;
        let AskedMask { value, descriptor, region, .. } = &asked;
        let (part, limits) = (Some(ArrayPart::Region(region)), of.limits());
        let array = ArrayValue { codec: value.codec, descriptor, bytes: value.bytes, part, limits };
        Ok(Some(to.prepare(of, &RecordValue::Mask { array, view: &self.view })))
    }
}

impl MaskDecoder {
    pub(super) fn new(field: &MaskField) -> Self {
        Self { field: field.clone(), pixels: Vec::new(), view: MaskView::default() }
    }

    /// Returns a sample's mask and the visible part of its picture, or `None` if either is missing.
    fn value<'a>(&self, tools: &mut Tools, of: &RowField<'a>) -> Result<Option<(FieldValue<'a>, Shape)>> {
        let Some(value) = of.value(self.field.position)? else { return Ok(None) };
        let mut viewed = ViewedRecord { record: of.record, pictures: &mut tools.pictures, arrays: &mut tools.objects };
        Ok(viewed.shape(&self.field.picture)?.map(|shape| (value, shape)))
    }

    /// Finds the mask pixel for each pixel of the view.
    ///
    /// # Errors
    /// `Usage` if the mask contradicts its declaration: its size differs from the picture's, its number of
    /// channels differs from other masks, or its values do not fit the batch's element type.
    fn ask<'a>(&mut self, of: &RowField<'_>, value: FieldValue<'a>, shape: &Shape) -> Result<AskedMask<'a>> {
        let Shape { picture, crop, moves, .. } = shape;
        let source = ArrayDescriptor::parse(value.descriptor, of.limits())?;
        let descriptor = match of.field.dtype {
            ElementType::Dtype(dtype) if source.decoded != dtype => {
                decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
            }
            _ => source,
        };
        if mask_size(&descriptor) != Some(*picture) {
            let [height, width] = picture;
            let shape = &descriptor.shape;
            let text = format!("has the shape {shape:?}, but the picture (after Exif rotation) is {height} × {width}");
            return Err(refused(of, &text));
        }
        let (channels, layout) = match (descriptor.shape.len(), of.recipe().layout) {
            (3, PixelLayout::ChannelsHeightWidth) => (descriptor.bands(), Layout::BandMajor),
            (3, PixelLayout::HeightWidthChannels) => (descriptor.bands(), Layout::AsShape),
            _ => (1, Layout::AsShape),
        };
        let [y, x] = self.view.set(*picture, crop);
        let side = |numbers: &[Option<u32>]| numbers.iter().flatten().max().map_or(0, |last| u64::from(*last) + 1);
        let mut region = Region::new(y.into(), x.into(), side(&self.view.rows), side(&self.view.columns));
        region.layout = layout;
        let outside = |number: usize| self.field.moved.get(number).map_or(0, |bytes| bits(bytes));
        self.view.moves = moves.iter().map(|m| MaskMove { map: m.map, outside: outside(m.augmentation) }).collect();
        self.view.border = bits(&self.field.fill);
        let size = [crop.height as usize, crop.width as usize];
        Ok(AskedMask { value, descriptor, channels: to_usize(channels), region, size })
    }

    /// Decodes the part of a mask that the view shows, and resamples it.
    fn resample(&mut self, tools: &mut Tools, of: &RowField<'_>, asked: &AskedMask<'_>, out: &mut [u8]) -> Result<()> {
        let AskedMask { value, descriptor, channels, region, size: [rows, columns] } = asked;
        let (pixel, element) = (asked.pixel_bytes(), asked.element_bytes());
        let expected = rows.saturating_mul(*columns).saturating_mul(pixel);
        if out.len() != expected {
            let of_batch = out.len().checked_div(expected / (*channels).max(1)).unwrap_or(0);
            let text = format!("does not match the other samples: it has {channels} channels instead of {of_batch}");
            return Err(refused(of, &text));
        }
        let bytes = to_usize(region.height.saturating_mul(region.width)).saturating_mul(pixel);
        if self.pixels.len() < bytes {
            self.pixels.resize(bytes, 0);
        }
        let pixels = self.pixels.get_mut(..bytes).unwrap_or_default();
        let limits = of.limits();
        tools.arrays.decode_region(value.codec, descriptor, value.bytes, region, pixels, limits)?;
        // If the bands come first, each band is a separate plane.
        let planes = if region.layout == Layout::BandMajor { *channels } else { 1 };
        let taken = pixel / planes.max(1);
        let line = to_usize(region.width).saturating_mul(taken);
        let plane = to_usize(region.height).saturating_mul(line);
        for (number, out) in out.chunks_exact_mut((expected / planes.max(1)).max(1)).enumerate() {
            let from = pixels.get(number * plane..(number + 1) * plane).unwrap_or_default();
            take(&self.view, from, line, out, columns * taken, [taken, element]);
        }
        if self.pixels.len() > MOST_KEPT {
            self.pixels = Vec::new();
        }
        Ok(())
    }
}

fn refused(of: &RowField<'_>, reason: &str) -> Error {
    let name = &of.field.name;
    Error::usage(format!("the mask in field `{name}` {reason}"))
}

/// Sets height and width, because the index may hold the size of the stored picture instead of the upright one.
fn set_sides(dims: &mut [u64], [height, width]: [u64; 2], layout: PixelLayout) {
    match (dims, layout) {
        ([_, h, w], PixelLayout::ChannelsHeightWidth) | ([h, w] | [h, w, _], _) => (*h, *w) = (height, width),
        _ => bug("a ragged mask has other than two or three axes"),
    }
}

fn bits(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

impl MaskView {
    /// Finds the mask rows and columns that a crop shows, for a mask of this height and width. Stores them relative
    /// to the first visible row and column, and returns that row and column.
    fn set(&mut self, [height, width]: [u32; 2], crop: &Crop) -> [u32; 2] {
        let Crop { area, inner, .. } = *crop;
        let rows =
            ViewSide { first: inner.y, all: crop.height, count: inner.height, start: area.y, extent: area.height };
        let columns =
            ViewSide { first: inner.x, all: crop.width, count: inner.width, start: area.x, extent: area.width };
        let y = positions(&mut self.rows, rows, height, false);
        let x = positions(&mut self.columns, columns, width, crop.flip);
        [y, x]
    }
}

/// Fills a view from mask lines of `from_line` bytes. A pixel has `taken` bytes, an element `element` bytes, and a
/// line of the view `to_line` bytes.
fn take(view: &MaskView, from: &[u8], from_line: usize, out: &mut [u8], to_line: usize, [taken, element]: [usize; 2]) {
    let fixed = |to: &mut [u8], value: u64| {
        let bytes = value.to_le_bytes();
        to.chunks_exact_mut(element.max(1)).for_each(|to| copy(to, bytes.get(..element).unwrap_or_default()));
    };
    let pixel = |to: &mut [u8], row: u32, column: u32| {
        let at = row as usize * from_line + column as usize * taken;
        let Some(from) = from.get(at..at + taken) else { bug("a view exceeds its mask") };
        copy(to, from);
    };
    let lines = (0..).zip(out.chunks_exact_mut(to_line.max(1)));
    for (y, line) in lines {
        let pixels = line.chunks_exact_mut(taken.max(1));
        if !view.moves.is_empty() {
            for (x, to) in (0..).zip(pixels) {
                match view.shown([y, x]) {
                    ViewElement::Pixel([row, column]) => pixel(to, row, column),
                    ViewElement::Fixed(value) => fixed(to, value),
                }
            }
            continue;
        }
        let Some(row) = view.rows.get(y as usize).copied().flatten() else {
            fixed(line, view.border);
            continue;
        };
        for (column, to) in view.columns.iter().zip(pixels) {
            match column {
                Some(column) => pixel(to, row, *column),
                None => fixed(to, view.border),
            }
        }
    }
}

/// Resamples the masks of a picture's objects, `[masks, height, width]`, to the view. Padding is filled with
/// zeros. `kept` lists the objects that remain.
///
/// # Errors
/// `Usage` if the size of the masks differs from the picture's, or the number of masks differs from the
/// number of boxes; `Limit` if the result exceeds the limit for a decoded field.
pub(crate) fn instances(array: &Array, shape: &Shape, kept: Option<&RemainingRows>, limits: &Limits) -> Result<Array> {
    let Shape { picture: [height, width], crop, moves, .. } = shape;
    let [height, width] = [*height, *width];
    let count = match *array.shape() {
        [count, h, w] if [h, w] == [height, width].map(u64::from) => count,
        // An empty list of masks need not have a height and width.
        ref other if other.first().is_none_or(|&count| count == 0) && array.bytes().is_empty() => 0,
        ref other => {
            let text = format!(
                "the shape must be [number of masks, {height}, {width}] like the picture (after Exif rotation), but is \
                 {other:?}"
            );
            let error = Error::usage(text);
            let is_one = matches!(*other, [h, w] if [h, w] == [height, width].map(u64::from));
            return Err(if is_one {
                error.with_hint("align it as `mask` if it is a single mask of the whole picture")
            } else {
                error
            });
        }
    };
    let count = to_usize(count);
    let rows: Vec<usize> = match kept {
        Some(kept) => {
            check_rows(count, kept)?;
            kept.rows.clone()
        }
        None => (0..count).collect(),
    };
    let sides = [rows.len() as u64, crop.height.into(), crop.width.into()];
    let bytes = ElementType::from(array.dtype()).array_bytes(&sides)?;
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit(
            "size of the masks in the view",
            "max_decoded_bytes",
            limits.max_decoded_bytes,
            bytes,
        ));
    }
    let mut out = vec![0; to_usize(bytes)];
    let mut view = MaskView::default();
    let [first_y, first_x] = view.set([height, width], crop).map(|side| side as usize);
    // Pixels from outside the picture belong to no object.
    view.moves = moves.iter().map(|step| MaskMove { map: step.map, outside: 0 }).collect();
    let element = array.dtype().size();
    let (line, from_line) = (crop.width as usize * element, width as usize * element);
    let (plane, from_plane) = (crop.height as usize * line, height as usize * from_line);
    for (row, out) in rows.into_iter().zip(out.chunks_exact_mut(plane.max(1))) {
        let start = row * from_plane + first_y * from_line + first_x * element;
        let from = array.bytes().get(start..(row + 1) * from_plane).unwrap_or_default();
        take(&view, from, from_line, out, line, [element; 2]);
        hide(shape.visible, out, line, element);
    }
    Array::new(array.dtype(), sides.to_vec(), out)
}

/// Sets the pixels of an object's mask to 0 where the picture is not visible.
fn hide(visible: VisiblePart, out: &mut [u8], line: usize, element: usize) {
    if visible == VisiblePart::All {
        return;
    }
    for (y, line) in out.chunks_exact_mut(line.max(1)).enumerate() {
        for (x, pixel) in line.chunks_exact_mut(element.max(1)).enumerate() {
            if !visible.shows([x as f64 + 0.5, y as f64 + 0.5]) {
                pixel.fill(0);
            }
        }
    }
}

/// Copies an element. For the usual one-byte elements the length is constant, which compiles to a single move.
fn copy(to: &mut [u8], from: &[u8]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        (to, from) => to.copy_from_slice(from),
    }
}

/// One side of a view. It has `all` pixels. `count` of them, starting at pixel `first`, cover `extent` mask pixels,
/// starting at `start`. The others are border.
struct ViewSide {
    first: u32,
    all: u32,
    count: u32,
    start: f64,
    extent: f64,
}

/// Finds the mask pixel at the centre of each view pixel. `side` is the mask's side. Returns the lowest mask pixel
/// found. The pixels in `out` are relative to that pixel.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and bounded by the side")]
fn positions(
    out: &mut Vec<Option<u32>>,
    ViewSide { first, all, count, start, extent }: ViewSide,
    side: u32,
    is_reversed: bool,
) -> u32 {
    let step = extent / f64::from(count.max(1));
    let last = side.saturating_sub(1);
    let at = |i: u32| ((start + (f64::from(i) + 0.5) * step).max(0.0) as u32).min(last);
    // Mask positions increase along the view, so the first is the lowest.
    let lowest = if count == 0 { 0 } else { at(0) };
    out.clear();
    out.extend((0..all).map(|i| {
        let i = i.checked_sub(first).filter(|i| *i < count)?;
        Some(at(if is_reversed { count - 1 - i } else { i }) - lowest)
    }));
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_are_shown() {
        let at = |start, extent, count, side, flip| {
            let mut out = Vec::new();
            let lowest = positions(&mut out, ViewSide { first: 0, all: count, count, start, extent }, side, flip);
            out.into_iter().map(|at| at.unwrap() + lowest).collect::<Vec<u32>>()
        };
        assert_eq!(at(0.0, 4.0, 4, 4, false), [0, 1, 2, 3]);
        assert_eq!(at(0.0, 4.0, 4, 4, true), [3, 2, 1, 0]);
        assert_eq!(at(0.0, 4.0, 2, 4, false), [1, 3]);
        assert_eq!(at(0.0, 2.0, 4, 4, false), [0, 0, 1, 1]);
        assert_eq!(at(1.5, 2.0, 2, 4, false), [2, 3]);
        // Rounding may push a crop that follows a resize slightly past the picture.
        assert_eq!(at(3.0, 1.2, 2, 4, false), [3, 3]);
        // The view has a border of one pixel, then three pixels of the mask, then a border of two.
        let mut out = Vec::new();
        assert_eq!(positions(&mut out, ViewSide { first: 1, all: 6, count: 3, start: 2.0, extent: 3.0 }, 9, true), 2);
        assert_eq!(out, [None, Some(2), Some(1), Some(0), None, None]);
    }
}

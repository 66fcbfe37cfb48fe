//! Masks that follow their picture. Each pixel of the view takes the mask value at its centre.

use super::FieldDecoder;
use crate::decode::record::{RowField, ViewedRecord};
use crate::decode::shape::{RemainingRows, Shape, check_rows};
use crate::decode::tools::Tools;

use crate::fields::{MaskField, loses};
use shardpack_array::{Array, ArrayDecoder, Region, decoded_as};
use shardpack_format::{ArrayDescriptor, ElementType, Error, FieldValue, Layout, Limits, Result, bug, to_usize};
use shardpack_jpeg::PixelLayout;

/// Maximum scratch bytes that a thread keeps between masks.
const MOST_KEPT: usize = 8 << 20;

pub(super) struct MaskDecoder {
    field: MaskField,
    pixels: Vec<u8>,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl FieldDecoder for MaskDecoder {
    fn decode(&mut self, tools: &mut Tools, of: &RowField<'_>, out: &mut [u8], dims: &mut [u64]) -> Result<bool> {
        let Some(value) = of.value(self.field.position)? else { return Ok(false) };
        let mut viewed = ViewedRecord { record: of.record, pictures: &mut tools.pictures };
        let Some(shape) = viewed.shape(&self.field.picture)? else { return Ok(false) };
        self.resample(&mut tools.arrays, of, &value, &shape, out, dims)?;
        Ok(true)
    }
}

impl MaskDecoder {
    pub(super) fn new(field: &MaskField) -> Self {
        Self { field: field.clone(), pixels: Vec::new(), rows: Vec::new(), columns: Vec::new() }
    }

    /// Decodes the part of a mask that the view shows, and resamples it.
    ///
    /// # Errors
    /// `Usage` if the mask does not match its picture as declared: if its size differs from the picture's,
    /// its number of channels differs from other masks, or its values do not fit the batch's element type.
    fn resample(
        &mut self,
        decoder: &mut ArrayDecoder,
        of: &RowField<'_>,
        value: &FieldValue<'_>,
        shape: &Shape,
        out: &mut [u8],
        dims: &mut [u64],
    ) -> Result<()> {
        let (layout, fill) = (of.recipe().layout, &*self.field.fill);
        let Shape { picture, crop } = *shape;
        let limits = of.limits();
        let source = ArrayDescriptor::parse(value.descriptor, limits)?;
        let descriptor = match of.field.dtype {
            ElementType::Dtype(dtype) if source.decoded != dtype => {
                decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
            }
            _ => source,
        };
        let refuse = |what: &str, expected: String, found: String| {
            Error::usage(format!(
                "field `{}`, aligned as a mask: {what}: expected {expected}, found {found}",
                of.field.name
            ))
        };
        let [height, width] = picture.map(u64::from);
        let channels = match &*descriptor.shape {
            &[h, w] if [h, w] == [height, width] => 1,
            &[h, w, channels] if [h, w] == [height, width] && channels > 0 => channels,
            other => {
                let expected = format!("{height} × {width}, the size of the upright picture");
                return Err(refuse("shape", expected, format!("{other:?}")));
            }
        };
        if of.field.is_ragged() {
            // The index may hold the size before the turn to upright.
            match (dims, layout) {
                ([_, h, w], PixelLayout::ChannelsHeightWidth) | ([h, w] | [h, w, _], _) => (*h, *w) = (height, width),
                _ => bug("a ragged mask has other than two or three axes"),
            }
        }
        let inner = crop.inner;
        positions(&mut self.rows, crop.area.y, crop.area.height, inner.height, picture[0], false);
        positions(&mut self.columns, crop.area.x, crop.area.width, inner.width, picture[1], crop.flip);
        let (Some(top), Some(bottom)) = (self.rows.first().copied(), self.rows.last().copied()) else { return Ok(()) };
        let ends = (self.columns.iter().min().copied(), self.columns.iter().max().copied());
        let (Some(left), Some(right)) = ends else { return Ok(()) };
        let (shown_rows, shown_columns) = (bottom + 1 - top, right + 1 - left);
        let mut region = Region::new(top as u64, left as u64, shown_rows as u64, shown_columns as u64);
        region.layout = Layout::AsShape;
        let element = usize::try_from(descriptor.decoded.bytes()).unwrap_or(1);
        let channels = to_usize(channels);
        let pixel = channels.saturating_mul(element);
        let bytes = shown_rows.saturating_mul(shown_columns).saturating_mul(pixel);
        if self.pixels.len() < bytes {
            self.pixels.resize(bytes, 0);
        }
        let pixels = self.pixels.get_mut(..bytes).unwrap_or_default();
        decoder.decode_region(value.codec, &descriptor, value.bytes, &region, pixels, limits)?;
        let (view_rows, view_columns) = (crop.height as usize, crop.width as usize);
        let expected = view_rows.saturating_mul(view_columns).saturating_mul(pixel);
        if out.len() != expected {
            let of_batch = out.len().checked_div(expected / channels.max(1)).unwrap_or(0);
            return Err(refuse("channels", format!("{of_batch}, as in the other samples"), channels.to_string()));
        }
        let planes = if layout == PixelLayout::ChannelsHeightWidth { channels } else { 1 };
        let taken = pixel / planes.max(1);
        if crop.is_padded() {
            if fill.len() != element {
                bug("the fill value of a mask has a different type");
            }
            out.chunks_exact_mut(element.max(1)).for_each(|to| copy(to, fill));
        }
        let line = view_columns * taken;
        for (plane, out) in out.chunks_exact_mut((view_rows * line).max(1)).enumerate() {
            let lines = out.chunks_exact_mut(line.max(1)).skip(inner.y as usize);
            for (row, line) in self.rows.iter().zip(lines) {
                let start = (row - top) * shown_columns * pixel + plane * taken;
                let to = line.chunks_exact_mut(taken.max(1)).skip(inner.x as usize);
                for (column, to) in self.columns.iter().zip(to) {
                    let at = start + (column - left) * pixel;
                    let Some(from) = pixels.get(at..at + taken) else {
                        bug("a view exceeds its mask");
                    };
                    copy(to, from);
                }
            }
        }
        if self.pixels.len() > MOST_KEPT {
            self.pixels = Vec::new();
        }
        Ok(())
    }
}

/// Resamples the masks of a picture's objects, `[masks, height, width]`, to the view. Padding is filled with
/// zeros. `kept` lists the objects that remain.
///
/// # Errors
/// `Usage` if the size of the masks differs from the picture's, or the number of masks differs from the
/// number of boxes; `Limit` if the result exceeds the limit for a decoded field.
pub(crate) fn instances(array: &Array, shape: &Shape, kept: Option<&RemainingRows>, limits: &Limits) -> Result<Array> {
    let Shape { picture: [height, width], crop } = *shape;
    let count = match *array.shape() {
        [count, h, w] if [h, w] == [height, width].map(u64::from) => count,
        // An empty list has no height and width.
        ref other if other.first().is_none_or(|&count| count == 0) && array.bytes().is_empty() => 0,
        ref other => {
            let expected = format!("[masks, {height}, {width}], the size of the upright picture");
            let error = Error::usage(format!("shape: expected {expected}, found {other:?}"));
            let is_one = matches!(*other, [h, w] if [h, w] == [height, width].map(u64::from));
            return Err(if is_one { error.with_hint("align one mask for all objects as `mask`") } else { error });
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
    let (mut ys, mut xs) = (Vec::new(), Vec::new());
    let inner = crop.inner;
    positions(&mut ys, crop.area.y, crop.area.height, inner.height, height, false);
    positions(&mut xs, crop.area.x, crop.area.width, inner.width, width, crop.flip);
    let element = array.dtype().size();
    let (line, from_line) = (crop.width as usize * element, width as usize * element);
    let (plane, from_plane) = (crop.height as usize * line, height as usize * from_line);
    for (row, out) in rows.into_iter().zip(out.chunks_exact_mut(plane.max(1))) {
        let lines = out.chunks_exact_mut(line.max(1)).skip(inner.y as usize);
        for (y, line) in ys.iter().zip(lines) {
            let start = row * from_plane + y * from_line;
            let from = array.bytes().get(start..start + from_line).unwrap_or_default();
            for (x, to) in xs.iter().zip(line.chunks_exact_mut(element.max(1)).skip(inner.x as usize)) {
                let Some(from) = from.get(x * element..(x + 1) * element) else {
                    bug("a view exceeds its mask");
                };
                copy(to, from);
            }
        }
    }
    Array::new(array.dtype(), sides.to_vec(), out)
}

/// For one-byte elements, the usual case, the length is constant, so that the copy compiles to a single move.
fn copy(to: &mut [u8], from: &[u8]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        (to, from) => to.copy_from_slice(from),
    }
}

/// Finds the mask pixel at the centre of each of `count` view pixels, which cover `extent` pixels of a side
/// from `start` on.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and bounded by the side")]
fn positions(out: &mut Vec<usize>, start: f64, extent: f64, count: u32, side: u32, is_reversed: bool) {
    let step = extent / f64::from(count.max(1));
    let last = side.saturating_sub(1) as usize;
    out.clear();
    out.extend((0..count).map(|i| ((start + (f64::from(i) + 0.5) * step).max(0.0) as usize).min(last)));
    if is_reversed {
        out.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_are_shown() {
        let at = |start, extent, count, side, flip| {
            let mut out = Vec::new();
            positions(&mut out, start, extent, count, side, flip);
            out
        };
        assert_eq!(at(0.0, 4.0, 4, 4, false), [0, 1, 2, 3]);
        assert_eq!(at(0.0, 4.0, 4, 4, true), [3, 2, 1, 0]);
        assert_eq!(at(0.0, 4.0, 2, 4, false), [1, 3]);
        assert_eq!(at(0.0, 2.0, 4, 4, false), [0, 0, 1, 1]);
        assert_eq!(at(1.5, 2.0, 2, 4, false), [2, 3]);
        // If a crop follows a resize, rounding may make it extend slightly past the picture.
        assert_eq!(at(3.0, 1.2, 2, 4, false), [3, 3]);
    }
}

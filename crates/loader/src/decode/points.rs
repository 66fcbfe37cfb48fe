//! Moves boxes and keypoints with the view of their picture.

use super::polygons;
use super::shape::{RemainingRows, Shape, floats, rows_of};
use super::unit::UnitEvidence;
use crate::fields::ViewBoxes;
use crate::options::{Align, BoxFormat};
use shardpack_array::{Array, ArrayDecoder, floats_of};
use shardpack_format::{ArrayDescriptor, Dtype, Error, FieldValue, Hint, Limits, Result, Setting, bug, to_usize};

/// Relative rounding error allowed for a box at the border of its picture.
const ROUNDING: f64 = 1e-6;

/// Number of pixels by which a box with rounded coordinates may exceed its picture.
const BEYOND: f64 = 1.0;

/// Moves boxes, keypoints or polygons to the view. For boxes, also returns which of their rows remain. `kept` lists the
/// boxes that remain, if the values belong to boxes.
///
/// # Errors
/// `Usage` if the values contradict their declaration: they have a different shape, boxes are in the wrong
/// unit, a box has a negative side although a different format fits all boxes of the sample, or the
/// declaration swaps points that do not exist. `Format` if no declaration fits: a box contains a number that
/// is not finite, or has a negative side in every format.
pub(crate) fn moved(
    align: &Align,
    array: &Array,
    shape: &Shape,
    kept: Option<&RemainingRows>,
) -> Result<(Array, Option<RemainingRows>)> {
    let numbers = numbers(array)?;
    match align {
        Align::Boxes { format, relative, visible, .. } => {
            let (boxes, kept) = boxes(array.shape(), &numbers, *format, *relative, *visible, shape)?;
            Ok((boxes, Some(kept)))
        }
        Align::Keypoints { relative, swap, .. } => {
            if let ([_, _], Some(_), false) = (array.shape(), kept, swap.is_empty()) {
                let expected = "[objects, points, 2] or [objects, points, 3]";
                return Err(Error::usage(format!(
                    "keypoints with both `swap` and `rows` must have the shape {expected}, not {:?}",
                    array.shape()
                )));
            }
            let moved = keypoints(array.shape(), &numbers, *relative, swap, shape)?;
            Ok((if let Some(kept) = kept { rows_of(&moved, kept)? } else { moved }, None))
        }
        Align::Polygons { relative, .. } => {
            // An array of two axes is a single polygon, whose rows are points instead of objects.
            if kept.is_some() && !numbers.is_empty() && array.shape().len() < 3 {
                let expected = "[polygons, points, 2] with one polygon for each box";
                return Err(Error::usage(format!("the shape must be {expected}, but is {:?}", array.shape())));
            }
            let moved = polygons::of_array(array.shape(), &numbers, *relative, shape)?;
            Ok((if let Some(kept) = kept { rows_of(&moved, kept)? } else { moved }, None))
        }
        Align::Mask { .. } | Align::Instances { .. } | Align::Rows { .. } => bug("masks and rows have no points"),
    }
}

fn boxes(
    shape_of: &[u64],
    numbers: &[f64],
    format: BoxFormat,
    relative: bool,
    visible: f64,
    shape: &Shape,
) -> Result<(Array, RemainingRows)> {
    check_boxes(shape_of, numbers)?;
    let (_, to) = shape.units(relative);
    let (all, _) = numbers.as_chunks::<4>();
    if shape.is_stored {
        check_unit(all, relative)?;
    }
    let (mut out, mut rows) = (Vec::new(), Vec::new());
    for row in 0..all.len() {
        let at = pixels(all, row, format, relative, shape.picture)?;
        let shown = shape.shown_box(at).filter(|_| shape.has_centre(at));
        if let Some(([x0, y0, x1, y1], share)) = shown
            && share >= visible * (1.0 - ROUNDING)
        {
            let [x0, x1] = [x0, x1].map(|x| x / to[0]);
            let [y0, y1] = [y0, y1].map(|y| y / to[1]);
            rows.push(row);
            out.extend(match format {
                BoxFormat::Xyxy => [x0, y0, x1, y1],
                BoxFormat::Xywh => [x0, y0, x1 - x0, y1 - y0],
                BoxFormat::Cxcywh => [f64::midpoint(x0, x1), f64::midpoint(y0, y1), x1 - x0, y1 - y0],
            });
        }
    }
    let array = floats(&out, vec![rows.len() as u64, 4])?;
    Ok((array, RemainingRows { of: all.len(), rows }))
}

/// Returns the corners of a box: left, top, right and bottom, in pixels of a picture with this height and width.
fn pixels(all: &[[f64; 4]], row: usize, format: BoxFormat, relative: bool, picture: [u32; 2]) -> Result<[f64; 4]> {
    let [height, width] = picture.map(f64::from);
    let from = if relative { [width, height] } else { [1.0; 2] };
    let given = all.get(row).copied().unwrap_or_default();
    if !given.iter().all(|number| number.is_finite()) {
        return Err(Error::format(format!("box {row}"), "finite numbers", format!("{given:?}")));
    }
    let [left, top, right, bottom] = corners(format, &given);
    if right < left || bottom < top {
        return Err(turned_over(all, row, format, from, [width, height]));
    }
    // A box ends at the border of its picture, even if the view shows more than the picture.
    let [left, right] = [left, right].map(|x| (x * from[0]).clamp(0.0, width));
    let [top, bottom] = [top, bottom].map(|y| (y * from[1]).clamp(0.0, height));
    Ok([left, top, right, bottom])
}

/// Decodes the boxes of a sample: left, top, right and bottom, in pixels of a picture with this height and width. A
/// sample without a value has no boxes.
pub(crate) fn stored_boxes(
    value: Option<&FieldValue<'_>>,
    of: ViewBoxes,
    picture: [u32; 2],
    arrays: &mut ArrayDecoder,
    limits: &Limits,
) -> Result<Vec<[f64; 4]>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let ViewBoxes { format, relative, .. } = of;
    let descriptor = ArrayDescriptor::parse(value.descriptor, limits)?;
    let array = arrays.decode(value.codec, &descriptor, value.bytes, limits)?;
    let numbers = numbers(&array)?;
    check_boxes(array.shape(), &numbers)?;
    let (all, _) = numbers.as_chunks::<4>();
    check_unit(all, relative)?;
    (0..all.len()).map(|row| pixels(all, row, format, relative, picture)).collect()
}

fn check_boxes(shape_of: &[u64], numbers: &[f64]) -> Result<()> {
    if !matches!(shape_of, [_, 4]) && !numbers.is_empty() {
        return Err(Error::usage(format!("the shape must be [boxes, 4], but is {shape_of:?}")));
    }
    Ok(())
}

fn corners(format: BoxFormat, &[a, b, c, d]: &[f64; 4]) -> [f64; 4] {
    match format {
        BoxFormat::Xyxy => [a, b, c, d],
        BoxFormat::Xywh => [a, b, a + c, b + d],
        BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
    }
}

/// Returns the error for a box with a negative side: `Usage` if a different format puts all boxes of the
/// sample inside their picture, otherwise `Format`.
fn turned_over(all: &[[f64; 4]], row: usize, format: BoxFormat, from: [f64; 2], side: [f64; 2]) -> Error {
    let within = |low: f64, high: f64, from: f64, side: f64| {
        low <= high && low * from >= -BEYOND && high * from <= side + BEYOND
    };
    let fits = |other: BoxFormat, given: &[f64; 4]| {
        let [left, top, right, bottom] = corners(other, given);
        within(left, right, from[0], side[0]) && within(top, bottom, from[1], side[1])
    };
    let others = [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh].into_iter().filter(|other| *other != format);
    let fitting: Vec<_> = others.filter(|other| all.iter().all(|given| fits(*other, given))).collect();
    let found = format!("{:?}", all.get(row).copied().unwrap_or_default());
    match *fitting {
        [] => Error::malformed(format!("box {row} has a negative width or height: {found}")),
        [first, ref more @ ..] => {
            let named = |format: BoxFormat| [Setting::word("format", format.name())];
            let hint = more
                .iter()
                .fold(Hint::new("try ").and(named(first)), |hint, format| hint.then(" or ").and(named(*format)));
            Error::usage(format!("box {row} has a negative width or height: {found}"))
                .with_hint(hint.then(", so that all boxes in this sample are valid"))
        }
    }
}

/// Fails if boxes are clearly in the wrong unit.
fn check_unit(boxes: &[[f64; 4]], relative: bool) -> Result<()> {
    let mut unit = UnitEvidence::default();
    boxes.iter().for_each(|numbers| unit.see(*numbers));
    unit.check(relative, "boxes", "one")
}

fn keypoints(shape_of: &[u64], numbers: &[f64], relative: bool, swap: &[(u32, u32)], shape: &Shape) -> Result<Array> {
    if numbers.is_empty() {
        return floats(&[], shape_of.to_vec());
    }
    let (points, width) = match *shape_of {
        [points, width @ (2 | 3)] | [_, points, width @ (2 | 3)] => (points, width),
        _ => {
            let expected = "[points, 2], [points, 3], [objects, points, 2] or [objects, points, 3]";
            return Err(Error::usage(format!("the shape must be {expected}, but is {shape_of:?}")));
        }
    };
    let size = |length: u64| to_usize(length);
    let (points, width) = (size(points), size(width));
    let (from, to) = shape.units(relative);
    let mut out = Vec::with_capacity(numbers.len());
    for point in numbers.chunks_exact(width) {
        let &[x, y, ..] = point else { continue };
        let shown = shape.shown([x * from[0], y * from[1]]).map(|[x, y]| [x / to[0], y / to[1]]);
        match (point.get(2), shown) {
            (Some(visible), Some([x, y])) if *visible != 0.0 => out.extend([x, y, *visible]),
            (Some(_), _) => out.extend([0.0; 3]),
            (None, shown) => out.extend(shown.unwrap_or([f64::NAN; 2])),
        }
    }
    let in_object = |&&(a, b): &&(u32, u32)| (a as usize) < points && (b as usize) < points;
    if let Some((a, b)) = swap.iter().find(|pair| !in_object(pair)) {
        return Err(Error::usage(format!(
            "points {a} and {b} cannot be swapped: point numbers must be below {points}"
        )));
    }
    if shape.crop.flip {
        for object in out.chunks_exact_mut(points.saturating_mul(width).max(1)) {
            for &(a, b) in swap {
                for number in 0..width {
                    object.swap(a as usize * width + number, b as usize * width + number);
                }
            }
        }
    }
    floats(&out, shape_of.to_vec())
}

fn numbers(array: &Array) -> Result<Vec<f64>> {
    match array.dtype() {
        Dtype::Bool => {
            Err(Error::usage(format!("the array must contain numbers, but its element type is {}", Dtype::Bool)))
        }
        dtype => Ok(floats_of(dtype, array.bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_of_the_other_unit_are_refused() {
        let said = |boxes: &[[f64; 4]], relative| check_unit(boxes, relative).map_err(|error| error.to_string());
        let (pixels, shares) = ([[12.0, 3.0, 200.0, 150.5]], [[0.1, 0.25, 0.9, 1.0], [0.0, 0.0, 0.5, 0.5]]);
        for (boxes, relative) in [(&pixels[..], false), (&shares[..], true), (&[][..], false), (&[][..], true)] {
            assert_eq!(said(boxes, relative), Ok(()));
        }
        let error = said(&pixels, true).unwrap_err();
        assert!(error.contains("relative boxes must be fractions of the picture's sides"), "{error}");
        let error = said(&shares, false).unwrap_err();
        assert!(
            error.contains(
                "boxes must be in pixels, but all numbers in the sample are from 0 to 1, for example \
                 [0.1, 0.25, 0.9, 1.0]"
            ),
            "{error}"
        );
        // All of these are accepted: a box that extends past the picture (a person half visible), a box that
        // covers the first pixel, and one small box among larger ones.
        assert_eq!(said(&[[-0.5, 0.2, 1.5, 3.0]], true), Ok(()));
        assert_eq!(said(&[[0.0, 0.0, 1.0, 1.0]], false), Ok(()));
        assert_eq!(said(&[shares[0], pixels[0]], false), Ok(()));
        assert_eq!(said(&[[0.0; 4]], false), Ok(()));
        // A number that is not finite is a separate error, and says nothing about the unit.
        assert_eq!(said(&[[f64::NAN; 4]], false), Ok(()));
        assert_eq!(said(&[[f64::INFINITY, 0.0, 0.0, 0.0]], true), Ok(()));
    }
}

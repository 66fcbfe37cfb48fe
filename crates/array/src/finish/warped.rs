//! Computes the pixels of a warped array, row by row.

use super::singles::{self, RUN};
use super::target::Target;
use crate::warp::{Resampling, Tap, Warp, around, nearest};
use shardpack_base::parts::{check_length, grow, part, part_mut};
use shardpack_base::vectorised;
use shardpack_format::{Layout, Result};

/// All converted elements of an array, in the order in which they arrived.
pub(super) struct Held<'a> {
    pub(super) elements: &'a [u8],
    /// For each element, 1 if it is no-data and 0 otherwise, and the value that replaces no-data. `None` if no element
    /// is no-data.
    pub(super) no_data: Option<(&'a [u8], f32)>,
}

#[derive(Default)]
pub(super) struct WarpScratch {
    line: Vec<u8>,
    mean: Vec<f32>,
    taps: Vec<[Tap; 4]>,
}

/// Computes each row of pixels in each plane, and passes it to `put` with the index of its first unit.
pub(super) fn warped(
    target: &Target,
    warp: &Warp,
    held: &Held<'_>,
    scratch: &mut WarpScratch,
    mut put: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let WarpScratch { line, mean, taps } = scratch;
    let ([rows, columns], each) = (target.size, target.each());
    let planes = if target.from == Layout::BandMajor { target.bands } else { 1 };
    let unit = each * target.converted.size();
    check_length("held elements of a warped array", planes * rows * columns * unit, held.elements.len())?;
    let line = grow(line, columns * each * target.element.size());
    mean.resize(mean.len().max(columns * each), 0.0);
    let mean = part_mut(mean, 0..columns * each, "means of a row")?;
    for row in 0..rows {
        taps.clear();
        warp.places(row, target.size, |place| {
            taps.push(match warp.sampling {
                Resampling::Nearest { .. } => {
                    let tap = Tap { weight: 1.0, pixel: nearest(place, target.size) };
                    [tap, Tap::default(), Tap::default(), Tap::default()]
                }
                Resampling::Bilinear { .. } => around(place, target.size),
            });
        });
        for plane in 0..planes {
            let plane = plane * rows * columns;
            let from = plane * each..(plane + rows * columns) * each;
            match warp.sampling {
                Resampling::Nearest { outside } => {
                    let outside = super::element_bytes(target.element, outside)
                        .ok_or_else(|| super::unfit_fill(target.element, outside))?;
                    let from = part(held.elements, plane * unit..(plane + rows * columns) * unit, "plane")?;
                    for ([tap, ..], to) in taps.iter().zip(line.chunks_exact_mut(unit.max(1))) {
                        match tap.pixel {
                            Some(pixel) => to.copy_from_slice(part(from, pixel * unit..(pixel + 1) * unit, "pixel")?),
                            None => to.chunks_exact_mut(outside.len()).for_each(|to| to.copy_from_slice(&outside)),
                        }
                    }
                }
                Resampling::Bilinear { outside } => {
                    let (values, _) = held.elements.as_chunks();
                    let values = part(values, from.clone(), "plane")?;
                    let no_data = match held.no_data {
                        Some((marks, with)) => Some((part(marks, from, "marks of a plane")?, with)),
                        None => None,
                    };
                    for (taps, to) in taps.iter().zip(mean.chunks_exact_mut(each.max(1))) {
                        mean_of(taps, values, outside, to)?;
                        if let Some((marks, with)) = no_data {
                            put_no_data(taps, marks, with, to)?;
                        }
                    }
                    let size = target.element.size();
                    for (from, to) in mean.chunks(RUN).zip(line.chunks_mut(RUN * size)) {
                        singles::store(target.element, from, to);
                    }
                }
            }
            put(plane + row * columns, line)?;
        }
    }
    Ok(())
}

/// Computes the weighted mean of up to four pixels of a plane, separately for each band.
fn mean_of(taps: &[Tap; 4], values: &[[u8; 4]], outside: f32, to: &mut [f32]) -> Result<()> {
    let each = to.len();
    let mut is_first = true;
    for Tap { weight, pixel } in taps.iter().filter(|tap| tap.weight != 0.0) {
        let weight = *weight;
        match pixel {
            Some(pixel) => {
                let from = part(values, pixel * each..(pixel + 1) * each, "values of a pixel")?;
                let terms = from.iter().map(|value| weight * f32::from_le_bytes(*value));
                vectorised(
                    #[inline(always)]
                    || match is_first {
                        true => to.iter_mut().zip(terms).for_each(|(to, term)| *to = term),
                        false => to.iter_mut().zip(terms).for_each(|(to, term)| *to += term),
                    },
                );
            }
            None if is_first => to.fill(weight * outside),
            None => to.iter_mut().for_each(|to| *to += weight * outside),
        }
        is_first = false;
    }
    // Set the bits of NaN explicitly, because processors disagree about the NaN that results from a multiply-add.
    vectorised(
        #[inline(always)]
        || to.iter_mut().for_each(|to| *to = if to.is_nan() { QUIET_NAN } else { *to }),
    );
    Ok(())
}

pub(super) const QUIET_NAN: f32 = f32::from_bits(0x7FC0_0000);

/// Replaces each mean that includes a no-data element.
fn put_no_data(taps: &[Tap; 4], marks: &[u8], with: f32, to: &mut [f32]) -> Result<()> {
    let each = to.len();
    for pixel in taps.iter().filter(|tap| tap.weight != 0.0).filter_map(|tap| tap.pixel) {
        let marks = part(marks, pixel * each..(pixel + 1) * each, "marks of a pixel")?;
        to.iter_mut().zip(marks).filter(|(_, mark)| **mark != 0).for_each(|(to, _)| *to = with);
    }
    Ok(())
}

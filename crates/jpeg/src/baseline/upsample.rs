//! Upsamples chroma rows to luma resolution, bit for bit like libjpeg's "fancy" upsampling (`jdsample.c`): a
//! triangle filter with alternating rounding.
//!
//! At the picture's edges, repeating the outermost sample has the same effect as libjpeg's special cases.
#![deny(clippy::indexing_slicing)]

/// Computes a row between two rows from three quarters of `near` and a quarter of `far`. `BIAS` is 1 if `far`
/// is above and 2 if it is below. Returns `None` if the rows have different lengths.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 255")]
pub(super) fn between<const BIAS: u16>(near: &[u8], far: &[u8], out: &mut [u8]) -> Option<()> {
    if near.len() != far.len() || out.len() < near.len() {
        return None;
    }
    for ((to, &near), &far) in out.iter_mut().zip(near).zip(far) {
        *to = ((3 * u16::from(near) + u16::from(far) + BIAS) >> 2) as u8;
    }
    Some(())
}

/// Doubles the number of columns. `sums` must have room for two more samples than the row. Returns `None` if
/// the lengths do not match.
#[inline(always)]
pub(super) fn widened(row: &[u8], sums: &mut [u16], out: &mut [u8]) -> Option<()> {
    if out.len() < 2 * row.len() {
        return None;
    }
    let sums = sums.get_mut(..row.len() + 2)?;
    for (to, &v) in sums.iter_mut().skip(1).zip(row) {
        *to = v.into();
    }
    spread::<2, 1, 2>(sums, out);
    Some(())
}

/// Computes a row between two rows, with twice as many columns. Returns `None` if the lengths do not match.
#[inline(always)]
pub(super) fn widened_between(near: &[u8], far: &[u8], sums: &mut [u16], out: &mut [u8]) -> Option<()> {
    if near.len() != far.len() || out.len() < 2 * near.len() {
        return None;
    }
    let sums = sums.get_mut(..near.len() + 2)?;
    for ((to, &near), &far) in sums.iter_mut().skip(1).zip(near).zip(far) {
        *to = 3 * u16::from(near) + u16::from(far);
    }
    spread::<4, 8, 7>(sums, out);
    Some(())
}

/// Makes two pixels from each entry of `sums`, except the first and the last entry. These two are overwritten with
/// copies of their neighbours.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 255")]
fn spread<const SHIFT: u32, const LEFT: u16, const RIGHT: u16>(sums: &mut [u16], out: &mut [u8]) {
    if let [first, second, .., last_but_one, last] = sums {
        (*first, *last) = (*second, *last_but_one);
    } else if let [first, only, last] = sums {
        (*first, *last) = (*only, *only);
    }
    let neighbours = sums.iter().zip(sums.iter().skip(1)).zip(sums.iter().skip(2));
    for (to, ((&left, &this), &right)) in out.as_chunks_mut::<2>().0.iter_mut().zip(neighbours) {
        *to = [((3 * this + left + LEFT) >> SHIFT) as u8, ((3 * this + right + RIGHT) >> SHIFT) as u8];
    }
}

//! Gaussian blur in two passes, in float32. The picture is mirrored at its borders.

use super::picture::{ChangeScratch, Picture, level, single};
use shardpack_base::vectorised;

/// Blurs with a `size` × `size` kernel. `size` must be odd.
pub(crate) fn blur(picture: &mut Picture<'_>, size: u32, sigma: f64, scratch: &mut ChangeScratch) {
    let (height, width, stride) = (picture.height(), picture.width(), picture.stride());
    if height == 0 || width == 0 {
        return;
    }
    let weights = blur_weights(size, sigma);
    let reach = weights.len() / 2;
    let ChangeScratch { floats, row: padded, .. } = scratch;
    floats.clear();
    floats.resize(height * stride, 0.0);
    for (row, out) in picture.levels().chunks_exact(stride).zip(floats.chunks_exact_mut(stride)) {
        padded.clear();
        let (pixels, _) = row.as_chunks::<3>();
        let border = |at: usize| pixels.get(mirrored(at, reach, width)).copied().unwrap_or_default().map(f32::from);
        padded.extend((0..reach).flat_map(border));
        padded.extend(row.iter().copied().map(f32::from));
        padded.extend((reach + width..width + 2 * reach).flat_map(border));
        for (shift, &weight) in weights.iter().enumerate() {
            add(out, padded.get(3 * shift..).unwrap_or_default(), weight);
        }
    }
    for (y, out) in picture.levels().chunks_exact_mut(stride).enumerate() {
        padded.clear();
        padded.resize(stride, 0.0);
        for (shift, &weight) in weights.iter().enumerate() {
            let from = mirrored(y + shift, reach, height) * stride;
            add(padded, floats.get(from..from + stride).unwrap_or_default(), weight);
        }
        vectorised(
            #[inline(always)]
            || out.iter_mut().zip(&*padded).for_each(|(out, &sum)| *out = level(sum.round_ties_even())),
        );
    }
}

fn add(out: &mut [f32], values: &[f32], weight: f32) {
    vectorised(
        #[inline(always)]
        || out.iter_mut().zip(values).for_each(|(out, &value)| *out += value * weight),
    );
}

/// Returns the index of the pixel at position `at` of a row of `side` pixels that is extended by `reach` pixels to
/// the left. The extension mirrors the row at its outermost pixels, repeatedly if needed.
fn mirrored(at: usize, reach: usize, side: usize) -> usize {
    let period = 2 * (side - 1);
    if period == 0 {
        return 0;
    }
    // Add enough periods to keep the difference from being negative.
    let at = (at + reach.div_ceil(period) * period - reach) % period;
    at.min(period - at)
}

/// Returns the `size` weights of a Gaussian blur along one axis. The weights sum to 1. As in torchvision, the
/// kernel reaches to `(size − 1) / √8`.
#[must_use]
pub fn blur_weights(size: u32, sigma: f64) -> Vec<f32> {
    let far = f64::from(size.max(1) - 1) / (2.0 * std::f64::consts::SQRT_2);
    let places = (0..size.max(1)).map(|at| match size {
        0 | 1 => 0.0,
        _ => (2.0 * f64::from(at) / f64::from(size - 1) - 1.0) * far / sigma,
    });
    let heights: Vec<f64> = places.map(|x| libm::exp(-x * x)).collect();
    let sum: f64 = heights.iter().sum();
    heights.iter().map(|height| single(height / sum)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_are_mirrors() {
        let places: Vec<usize> = (0..8).map(|at| mirrored(at, 2, 4)).collect();
        assert_eq!(places, [2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!((0..7).map(|at| mirrored(at, 3, 1)).max(), Some(0));
        assert_eq!((0..8).map(|at| mirrored(at, 3, 2)).collect::<Vec<_>>(), [1, 0, 1, 0, 1, 0, 1, 0]);
    }
}

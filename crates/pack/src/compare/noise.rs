//! The noise of a cube, estimated from the cube itself.

use crate::elements::floats_of;
use shardpack_array::Array;

/// Most differences that one estimate is made of.
const MOST: usize = 1 << 16;

/// The standard deviation of the noise in each band of `[height, width, bands]`; 0 for a band that
/// is constant, or has too few values. Empty for an array without three axes.
///
/// Of second differences `x[i−1] − 2·x[i] + x[i+1]`, which smooth signals do not have, the median
/// absolute value over 0.6745 · √6 is the σ of white noise (the idea of Immerkær 1996, with a
/// median, so that edges do not count). They are taken along the rows and, from three bands on,
/// along the bands; the smaller estimate counts, because what is left of the signal only adds.
///
/// ```
/// use shardpack_array::Array;
/// use shardpack_pack::compare::band_noise;
/// use shardpack_format::Dtype;
/// let flat = Array::new(Dtype::U8, vec![8, 8, 2], vec![7; 128])?;
/// assert_eq!(band_noise(&flat, None), [0.0, 0.0]);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[must_use]
pub fn band_noise(cube: &Array, no_data: Option<f64>) -> Vec<f64> {
    let &[_, width, bands] = cube.shape() else { return Vec::new() };
    let (Ok(width), Ok(bands)) = (usize::try_from(width), usize::try_from(bands)) else { return Vec::new() };
    let row_values = width.saturating_mul(bands);
    if row_values == 0 {
        return vec![0.0; bands];
    }
    let row_bytes = row_values.saturating_mul(cube.dtype().size());
    let rows = cube.bytes().len() / row_bytes;
    // Whole rows from all over the cube, as many as fill the sample.
    let step = (rows.saturating_mul(width) / MOST).max(1);
    let (mut along_rows, mut along_bands) = (vec![Vec::new(); bands], vec![Vec::new(); bands]);
    for row in cube.bytes().chunks_exact(row_bytes).step_by(step) {
        let values = floats_of(cube.dtype(), row);
        let known = |value: &f64| value.is_finite() && no_data != Some(*value);
        let second = |a: &f64, b: &f64, c: &f64| [a, b, c].into_iter().all(known).then(|| (a - 2.0 * b + c).abs());
        let pixels: Vec<&[f64]> = values.chunks_exact(bands).collect();
        for three in pixels.windows(3) {
            let &[left, middle, right] = three else { continue };
            for (((a, b), c), out) in left.iter().zip(middle).zip(right).zip(&mut along_rows) {
                out.extend(second(a, b, c));
            }
        }
        for pixel in &pixels {
            for (three, out) in pixel.windows(3).zip(along_bands.iter_mut().skip(1)) {
                if let [a, b, c] = three {
                    out.extend(second(a, b, c));
                }
            }
        }
    }
    let last = bands.saturating_sub(1);
    let spectral: Vec<Option<f64>> = along_bands.iter_mut().map(|values| sigma(values)).collect();
    along_rows
        .iter_mut()
        .enumerate()
        .map(|(band, values)| {
            // The first and last band borrow the estimate of their neighbour.
            let near = spectral.get(band.clamp(1, last.saturating_sub(1).max(1))).copied().flatten();
            match (sigma(values), near) {
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b).unwrap_or(0.0),
            }
        })
        .collect()
}

/// σ from the absolute second differences; `None` if there are fewer than 16.
fn sigma(values: &mut [f64]) -> Option<f64> {
    if values.len() < 16 {
        return None;
    }
    let (_, median, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    Some(*median / (0.674_490 * 6_f64.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

    /// Noise of known size on a signal with edges and slopes.
    #[test]
    fn known_noise_is_found() {
        let (height, width, bands) = (48_usize, 64_usize, 5_usize);
        let mut state = 1_u64;
        let mut gauss = || {
            let sum: f64 = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f64 / f64::from(1 << 24)
                })
                .sum();
            sum - 6.0
        };
        let mut bytes = Vec::new();
        for y in 0..height {
            for x in 0..width {
                for band in 0..bands {
                    let edge = if x > 20 { 30.0 } else { 0.0 };
                    let signal = 100.0 + edge + 0.7 * y as f64 + 0.3 * x as f64 + 2.0 * band as f64;
                    bytes.extend(((signal + 0.5 * gauss()) as f32).to_le_bytes());
                }
            }
        }
        let cube = Array::new(Dtype::F32, vec![height as u64, width as u64, bands as u64], bytes).unwrap();
        for sigma in band_noise(&cube, None) {
            assert!((0.4..0.6).contains(&sigma), "{sigma}");
        }
    }

    #[test]
    fn what_is_missing_is_no_noise() {
        let nan: Vec<u8> = (0..16 * 16 * 3).flat_map(|_| f32::NAN.to_le_bytes()).collect();
        let cube = Array::new(Dtype::F32, vec![16, 16, 3], nan).unwrap();
        assert_eq!(band_noise(&cube, None), [0.0; 3]);
        let one = Array::new(Dtype::U8, vec![1, 1, 1], vec![3]).unwrap();
        assert_eq!(band_noise(&one, None), [0.0]);
    }
}

//! Estimates a cube's noise from the cube itself.

use shardpack_array::Array;
use shardpack_array::floats_of;

/// Maximum number of differences in one estimate.
const MOST: usize = 1 << 16;

/// Returns the standard deviation of the noise in each band of `[height, width, bands]`, or 0 for a band that
/// is constant or has too few values. Returns an empty vector unless the array has three axes.
///
/// The result is the smallest of three estimates, because any signal left in an estimate only increases it.
/// Each estimate is a median absolute value divided by 0.6745, which ignores edges and outliers.
///
/// - Second differences `x[i−1] − 2·x[i] + x[i+1]` along the rows, divided by √6 (the idea of Immerkær, *Fast
///   noise variance estimation*, 1996). They vanish for smooth signals.
/// - The same differences along the bands.
/// - The residual of a linear regression on the two nearest bands and on the pixel to the left (Roger and
///   Arnold, *Reliably estimating the noise in AVIRIS hyperspectral images*, International Journal of Remote
///   Sensing 17(10), 1996).
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
    let step = (rows.saturating_mul(width) / MOST).max(1);
    let mut planes = vec![Vec::new(); bands];
    for row in cube.bytes().chunks_exact(row_bytes).step_by(step) {
        for (i, value) in floats_of(cube.dtype(), row).into_iter().enumerate() {
            let known = value.is_finite() && no_data != Some(value);
            if let Some(plane) = planes.get_mut(i % bands) {
                plane.push(if known { value } else { f64::NAN });
            }
        }
    }
    (0..bands).map(|band| noise_of(&planes, band, width)).collect()
}

/// Returns the memory that [`band_noise`] allocates for a cube of this size, in bytes.
///
/// ```
/// assert_eq!(shardpack_pack::compare::noise_bytes(10, 10, 3), 10 * 10 * (3 + 5) * 8);
/// ```
#[must_use]
pub fn noise_bytes(height: u64, width: u64, bands: u64) -> u64 {
    let most = (MOST as u64).saturating_mul(2).saturating_add(width);
    // A sampled pixel needs one float64 per band, and five for the terms of one regression.
    height.saturating_mul(width).min(most).saturating_mul(bands.saturating_add(5)).saturating_mul(8)
}

/// Returns the noise of one band. Missing values in `planes` are NaN.
fn noise_of(planes: &[Vec<f64>], band: usize, width: usize) -> f64 {
    let plane = |number: usize| planes.get(number).map_or(&[][..], Vec::as_slice);
    let own = plane(band);
    let second = |a: f64, b: f64, c: f64| Some((a - 2.0 * b + c).abs()).filter(|value| !value.is_nan());
    let along_rows = own.chunks_exact(width.max(1)).flat_map(|row| {
        row.windows(3).filter_map(|three| match three {
            &[a, b, c] => second(a, b, c),
            _ => None,
        })
    });
    let mut estimates = vec![sigma(along_rows.collect()).map(|sigma| sigma / 6_f64.sqrt())];
    if planes.len() > 2 {
        let last = planes.len() - 1;
        if (1..last).contains(&band) {
            let sides = plane(band - 1).iter().zip(plane(band + 1));
            let along_bands = own.iter().zip(sides).filter_map(|(&b, (&a, &c))| second(a, b, c));
            estimates.push(sigma(along_bands.collect()).map(|sigma| sigma / 6_f64.sqrt()));
        }
        // For the first and the last band, the two nearest bands are on the same side.
        let near = if band == 0 { [1, 2] } else { [band - 1, if band == last { band - 2 } else { band + 1 }] };
        estimates.push(sigma(residuals(own, near.map(plane), width)));
    }
    let size = own.iter().filter(|value| !value.is_nan()).fold(0.0_f64, |size, value| size.max(value.abs()));
    let smallest = estimates.into_iter().flatten().fold(f64::INFINITY, f64::min);
    // An estimate below the resolution of float32 is only the rounding error of a constant or
    // interpolated band.
    if smallest.is_finite() && smallest > size * f64::from(f32::EPSILON) { smallest } else { 0.0 }
}

/// Returns the residuals of a linear regression of a band on two other bands and on the pixel to the left.
fn residuals(own: &[f64], near: [&[f64]; 2], width: usize) -> Vec<f64> {
    let [first, second] = near;
    let pixels = own.windows(2).zip(first.iter().zip(second).skip(1)).enumerate();
    let terms: Vec<[f64; 4]> = pixels
        .filter(|(i, _)| (i + 1) % width.max(1) != 0)
        .filter_map(|(_, (pair, (&a, &b)))| match pair {
            &[left, value] => Some([a, b, left, value]),
            _ => None,
        })
        .filter(|terms| terms.iter().all(|value| value.is_finite()))
        .collect();
    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    let count = terms.len().max(1) as f64;
    let means: [f64; 4] = std::array::from_fn(|i| terms.iter().filter_map(|terms| terms.get(i)).sum::<f64>() / count);
    let centred = |terms: &[f64; 4]| -> [f64; 4] {
        let mut out = *terms;
        out.iter_mut().zip(means).for_each(|(value, mean)| *value -= mean);
        out
    };
    let mut normal = [[0.0; 4]; 3];
    for terms in &terms {
        let terms = centred(terms);
        for (row, a) in normal.iter_mut().zip(terms) {
            row.iter_mut().zip(terms).for_each(|(sum, b)| *sum += a * b);
        }
    }
    let weights = solved(normal);
    let residual = |terms: &[f64; 4]| {
        let [a, b, left, value] = centred(terms);
        let predicted: f64 = [a, b, left].into_iter().zip(weights).map(|(value, weight)| value * weight).sum();
        (value - predicted).abs()
    };
    terms.iter().map(residual).collect()
}

/// Solves the normal equations by elimination, and returns the weights of the three predictors. A predictor
/// that depends linearly on earlier ones gets weight 0.
fn solved(mut normal: [[f64; 4]; 3]) -> [f64; 3] {
    let sizes: [f64; 3] = [normal[0][0], normal[1][1], normal[2][2]];
    let mut used = [false; 3];
    for pivot in 0..3 {
        let row = normal[pivot];
        if row[pivot] <= sizes[pivot] * 1e-12 {
            continue;
        }
        used[pivot] = true;
        for (_, other) in normal.iter_mut().enumerate().filter(|(number, _)| *number != pivot) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(row).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
        }
    }
    std::array::from_fn(|i| if used[i] { normal[i][3] / normal[i][i] } else { 0.0 })
}

/// Returns the standard deviation of values scattered around zero, estimated from their absolute values. Returns
/// `None` for fewer than 16 values.
fn sigma(mut values: Vec<f64>) -> Option<f64> {
    if values.len() < 16 {
        return None;
    }
    let middle = values.len() / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median / 0.674_490)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

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
            assert!((0.35..0.6).contains(&sigma), "{sigma}");
        }
    }

    /// All bands show the same fine detail. Second differences mistake it for noise, so only the
    /// regression can tell the two apart.
    #[test]
    fn detail_that_neighbouring_bands_share_is_no_noise() {
        let (height, width, bands) = (64_u64, 64_u64, 6_u64);
        let mut state = 7_u64;
        let mut even = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24) - 0.5
        };
        let mut bytes = Vec::new();
        for _ in 0..height * width {
            let detail = 200.0 * even();
            for band in 0..bands {
                // The brightness changes from band to band, so differences along the spectrum contain the detail too.
                let gain = if band % 2 == 0 { 1.0 } else { 3.0 };
                bytes.extend(((500.0 + gain * detail + 2.0 * even()) as f32).to_le_bytes());
            }
        }
        let cube = Array::new(Dtype::F32, vec![height, width, bands], bytes).unwrap();
        // Uniform noise of width 2 has σ = 0.58. The noise of the predicting bands is added to the
        // estimate.
        for (band, sigma) in band_noise(&cube, None).into_iter().enumerate() {
            assert!((0.5..1.8).contains(&sigma), "band {band}: {sigma}");
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

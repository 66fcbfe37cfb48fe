//! Computes the structural similarity of two planes.
//!
//! Follows Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, *Image quality assessment: from error
//! visibility to structural similarity*, IEEE TIP 13(4), 2004, with K₁ = 0.01 and K₂ = 0.03. The windows are
//! uniform, 7 × 7 pixels, with unbiased variances, as by default in scikit-image's `structural_similarity`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

const WINDOW: usize = 7;

/// Sums over one column of a window, or over a whole window.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    a: f64,
    b: f64,
    aa: f64,
    bb: f64,
    ab: f64,
    /// Number of pixels that are NaN or infinite in at least one plane.
    holes: i32,
}

impl Sums {
    fn add(&mut self, a: f64, b: f64, sign: f64) {
        if !(a.is_finite() && b.is_finite()) {
            self.holes += if sign > 0.0 { 1 } else { -1 };
            return;
        }
        self.a += sign * a;
        self.b += sign * b;
        self.aa += sign * a * a;
        self.bb += sign * b * b;
        self.ab += sign * a * b;
    }

    fn plus(&mut self, other: &Self, sign: f64) {
        self.a += sign * other.a;
        self.b += sign * other.b;
        self.aa += sign * other.aa;
        self.bb += sign * other.bb;
        self.ab += sign * other.ab;
        self.holes += if sign > 0.0 { other.holes } else { -other.holes };
    }
}

/// Returns the mean SSIM of two planes with `width` columns, over all windows that contain only finite values.
/// `range` is the difference between the largest and the smallest possible value. Returns `None` if there is no
/// such window, or if `range` is zero.
///
/// ```
/// use shardpack_pack::compare::mean_ssim;
/// let plane: Vec<f32> = (0..400).map(|i| (i * 37 % 251) as f32).collect();
/// assert_eq!(mean_ssim(&plane, &plane, 20, 255.0), Some(1.0));
/// assert_eq!(mean_ssim(&plane[..36], &plane[..36], 6, 255.0), None, "smaller than a window");
/// ```
#[must_use]
pub fn mean_ssim(a: &[f32], b: &[f32], width: usize, range: f64) -> Option<f64> {
    if width < WINDOW || range <= 0.0 || a.len() != b.len() || a.len() / width < WINDOW {
        return None;
    }
    let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
    let rows: Vec<(&[f32], &[f32])> = a.chunks_exact(width).zip(b.chunks_exact(width)).collect();
    // Subtract the first finite value from all values, because a large offset would cost the
    // variances precision.
    let shift = a.iter().copied().find(|value| value.is_finite()).map_or(0.0, f64::from);
    let shifted = |value: f32| f64::from(value) - shift;
    let mut columns = vec![Sums::default(); width];
    let (mut sum, mut count) = (0.0, 0_u64);
    for (y, (row_a, row_b)) in rows.iter().enumerate() {
        let leaving = y.checked_sub(WINDOW).and_then(|above| rows.get(above));
        for (x, (column, (va, vb))) in columns.iter_mut().zip(row_a.iter().zip(*row_b)).enumerate() {
            if let Some((old_a, old_b)) = leaving
                && let (Some(old_a), Some(old_b)) = (old_a.get(x), old_b.get(x))
            {
                column.add(shifted(*old_a), shifted(*old_b), -1.0);
            }
            column.add(shifted(*va), shifted(*vb), 1.0);
        }
        if y + 1 < WINDOW {
            continue;
        }
        for window in columns.windows(WINDOW) {
            let mut total = Sums::default();
            window.iter().for_each(|column| total.plus(column, 1.0));
            if total.holes == 0 {
                sum += total.similarity(shift, c1, c2);
                count += 1;
            }
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    let mean = sum / count as f64;
    (count > 0).then_some(mean)
}

impl Sums {
    /// Returns the similarity within a window. `shift` is added back to the means. It does not
    /// affect the variances.
    fn similarity(&self, shift: f64, c1: f64, c2: f64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "49")]
        let n = (WINDOW * WINDOW) as f64;
        let (ma, mb) = (self.a / n, self.b / n);
        let unbiased = n / (n - 1.0);
        let va = ((self.aa / n - ma * ma) * unbiased).max(0.0);
        let vb = ((self.bb / n - mb * mb) * unbiased).max(0.0);
        let cov = (self.ab / n - ma * mb) * unbiased;
        let (ma, mb) = (ma + shift, mb + shift);
        ((2.0 * ma * mb + c1) * (2.0 * cov + c2)) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes SSIM from its definition, one window at a time.
    fn slowly(a: &[f32], b: &[f32], width: usize, range: f64) -> Option<f64> {
        let height = a.len() / width;
        let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
        let mut all = Vec::new();
        for y in 0..=height.checked_sub(7)? {
            for x in 0..=width.checked_sub(7)? {
                let at = |p: &[f32], i: usize| f64::from(p[(y + i / 7) * width + x + i % 7]);
                let (u, v): (Vec<f64>, Vec<f64>) = (0..49).map(|i| (at(a, i), at(b, i))).unzip();
                if u.iter().chain(&v).any(|value| !value.is_finite()) {
                    continue;
                }
                let mean = |p: &[f64]| p.iter().sum::<f64>() / 49.0;
                let (mu, mv) = (mean(&u), mean(&v));
                let cov = |p: &[f64], mp: f64, q: &[f64], mq: f64| {
                    p.iter().zip(q).map(|(p, q)| (p - mp) * (q - mq)).sum::<f64>() / 48.0
                };
                let (vu, vv, uv) = (cov(&u, mu, &u, mu), cov(&v, mv, &v, mv), cov(&u, mu, &v, mv));
                all.push((2.0 * mu * mv + c1) * (2.0 * uv + c2) / ((mu * mu + mv * mv + c1) * (vu + vv + c2)));
            }
        }
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    proptest! {
        #[test]
        fn fast_and_slow_agree(
            width in 7_usize..20,
            values in prop::collection::vec((0_f32..255.0, -9_f32..9.0), 49..400),
            offset in 0_f32..1000.0,
            hole in 0_usize..400,
        ) {
            let mut a: Vec<f32> = values.iter().map(|(v, _)| v + offset).collect();
            let mut b: Vec<f32> = values.iter().map(|(v, d)| v + d + offset).collect();
            let whole = a.len() / width * width;
            a.truncate(whole);
            b.truncate(whole);
            if let Some(value) = a.get_mut(hole) {
                *value = f32::NAN;
            }
            match (mean_ssim(&a, &b, width, 255.0), slowly(&a, &b, width, 255.0)) {
                (Some(fast), Some(slow)) => prop_assert!((fast - slow).abs() < 1e-6, "{} {}", fast, slow),
                (fast, slow) => prop_assert_eq!(fast, slow),
            }
        }
    }

    #[test]
    fn planes_without_a_range_have_no_similarity() {
        assert_eq!(mean_ssim(&[1.0; 64], &[1.0; 64], 8, 0.0), None);
        assert_eq!(mean_ssim(&[f32::NAN; 64], &[1.0; 64], 8, 1.0), None);
        assert_eq!(mean_ssim(&[1.0; 64], &[1.0; 63], 8, 1.0), None);
    }
}

//! Computes Bjøntegaard's delta rate: the additional bytes that one ladder needs for the same score as another
//! ladder.
//!
//! The method is from G. Bjøntegaard, *Calculation of average PSNR differences between RD-curves*, VCEG-M33 (2001),
//! applied to the logarithm of the bytes as a function of the score. The curve is a monotone piecewise cubic
//! (Fritsch and Carlson 1980), because a single polynomial oscillates between distant points.

/// Returns the additional bytes, in per cent, that `other` needs for the same score as `reference`, averaged
/// over the scores that both ladders reach. The result is negative if `other` needs fewer bytes. Points are
/// (bytes, score). Returns `None` if a ladder has fewer than two different scores, or the scores of the
/// ladders do not overlap.
///
/// ```
/// use shardpack_report::stats::bjontegaard_percent;
/// let reference = [(100.0, 60.0), (200.0, 70.0), (400.0, 80.0), (800.0, 90.0)];
/// let other = reference.map(|(bytes, score)| (bytes * 0.9, score));
/// assert!((bjontegaard_percent(&reference, &other).unwrap() + 10.0).abs() < 1e-9);
/// ```
#[must_use]
pub fn bjontegaard_percent(reference: &[(f64, f64)], other: &[(f64, f64)]) -> Option<f64> {
    let (a, b) = (Curve::new(reference)?, Curve::new(other)?);
    let (low, high) = (a.low()?.max(b.low()?), a.high()?.min(b.high()?));
    if high - low < 1e-6 {
        return None;
    }
    let mean = (b.integral(low, high) - a.integral(low, high)) / (high - low);
    Some((mean.exp() - 1.0) * 100.0)
}

struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
    slopes: Vec<f64>,
}

impl Curve {
    fn new(points: &[(f64, f64)]) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = points
            .iter()
            .filter(|(bytes, score)| *bytes > 0.0 && score.is_finite())
            .map(|&(bytes, score)| (score, bytes.ln()))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points.dedup_by(|next, kept| next.0 - kept.0 < 1e-9);
        if points.len() < 2 {
            return None;
        }
        let (x, y) = points.into_iter().unzip::<f64, f64, Vec<_>, Vec<_>>();
        let slopes = slopes(&x, &y);
        Some(Self { x, y, slopes })
    }

    fn low(&self) -> Option<f64> {
        self.x.first().copied()
    }

    fn high(&self) -> Option<f64> {
        self.x.last().copied()
    }

    fn integral(&self, low: f64, high: f64) -> f64 {
        let pieces = self.x.windows(2).zip(self.y.windows(2)).zip(self.slopes.windows(2));
        pieces
            .map(|((x, y), m)| match (x, y, m) {
                (&[x0, x1], &[y0, y1], &[m0, m1]) => {
                    let (from, to) = (low.max(x0), high.min(x1));
                    if from >= to {
                        0.0
                    } else {
                        Hermite { x: [x0, x1], y: [y0, y1], slopes: [m0, m1] }.integral(from, to)
                    }
                }
                _ => 0.0,
            })
            .sum()
    }
}

struct Hermite {
    x: [f64; 2],
    y: [f64; 2],
    slopes: [f64; 2],
}

impl Hermite {
    /// Integrates with Simpson's rule, which is exact for cubics.
    fn integral(&self, from: f64, to: f64) -> f64 {
        (to - from) / 6.0 * (self.at(from) + 4.0 * self.at(f64::midpoint(from, to)) + self.at(to))
    }

    fn at(&self, x: f64) -> f64 {
        let Self { x: [x0, x1], y: [y0, y1], slopes: [m0, m1] } = self;
        let h = x1 - x0;
        let t = (x - x0) / h;
        let (t2, t3) = (t * t, t * t * t);
        y0 * (2.0 * t3 - 3.0 * t2 + 1.0)
            + m0 * h * (t3 - 2.0 * t2 + t)
            + y1 * (3.0 * t2 - 2.0 * t3)
            + m1 * h * (t3 - t2)
    }
}

/// Returns slopes for which the curve is monotone wherever the points are monotone.
fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let steps: Vec<f64> = x.windows(2).map(|w| w.iter().rev().copied().reduce(|a, b| a - b).unwrap_or(1.0)).collect();
    let rises: Vec<f64> = y.windows(2).map(|w| w.iter().rev().copied().reduce(|a, b| a - b).unwrap_or(0.0)).collect();
    let secants: Vec<f64> = rises.iter().zip(&steps).map(|(rise, step)| rise / step).collect();
    let inner = secants.windows(2).zip(steps.windows(2)).map(|(s, h)| match (s, h) {
        // The slope is the weighted harmonic mean of the neighbouring slopes, or zero at a turning point.
        (&[s0, s1], &[h0, h1]) if s0 * s1 > 0.0 => {
            let (w0, w1) = (2.0 * h1 + h0, h1 + 2.0 * h0);
            (w0 + w1) / (w0 / s0 + w1 / s1)
        }
        _ => 0.0,
    });
    let first = secants.first().copied();
    let last = secants.last().copied();
    first.into_iter().chain(inner).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ladders_that_do_not_meet_have_no_delta() {
        let low = [(1.0, 10.0), (2.0, 20.0)];
        let high = [(1.0, 30.0), (2.0, 40.0)];
        assert_eq!(bjontegaard_percent(&low, &high), None);
        assert_eq!(bjontegaard_percent(&low, &[(1.0, 15.0)]), None);
        assert_eq!(bjontegaard_percent(&low, &[(1.0, 15.0), (3.0, 15.0)]), None);
    }

    proptest! {
        /// If all sizes of two ladders differ by the same factor, the result must be this factor for any curve. If
        /// the ladders are swapped, the result must be its reciprocal.
        #[test]
        fn a_factor_is_found(
            bytes in prop::collection::vec(1.0_f64..100.0, 2..8),
            factor in 0.2_f64..5.0,
        ) {
            let mut total = 0.0;
            let ladder: Vec<(f64, f64)> = bytes.iter().enumerate().map(|(i, b)| { total += b; (total, 10.0 * i as f64) }).collect();
            let other: Vec<(f64, f64)> = ladder.iter().map(|(b, s)| (b * factor, *s)).collect();
            let there = bjontegaard_percent(&ladder, &other).unwrap();
            let back = bjontegaard_percent(&other, &ladder).unwrap();
            prop_assert!((there - (factor - 1.0) * 100.0).abs() < 1e-6);
            prop_assert!(((1.0 + there / 100.0) * (1.0 + back / 100.0) - 1.0).abs() < 1e-9);
        }
    }
}

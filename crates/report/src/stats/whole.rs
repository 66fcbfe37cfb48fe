//! Predicts the size of the whole set from a sample of it.

use crate::data::Estimate;

/// Size of one stratum of the whole set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stratum {
    /// Number of samples in the stratum.
    pub samples: u64,
    /// Sums over these samples of the two known sizes, in the same order as in [`Drawn::known`].
    pub known: [f64; 2],
}

/// Sizes of a sample that was drawn and stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Index of the sample's stratum.
    pub stratum: usize,
    /// Sizes that are also known for samples that were not drawn: source bytes, and pixels or decoded bytes.
    pub known: [f64; 2],
    /// Stored bytes. Known only for drawn samples.
    pub stored_bytes: f64,
}

/// Minimum number of samples for fitting both coefficients. A fit to fewer samples would mostly follow noise.
const FIT_BOTH: usize = 16;

/// Predicts the stored bytes of the whole set, with a 95 % interval.
///
/// This is the generalised regression estimator of a stratified sample (Särndal, Swensson, Wretman, *Model Assisted
/// Survey Sampling*, §6.4). The stored bytes are fitted to the two known sizes by least squares through the origin.
/// The prediction is the sum of the fit over the whole set, corrected by the mean residual of each stratum. If there
/// are few samples, or if one size is proportional to the other, only the first size is used (the ratio estimator).
///
/// The interval is computed from the residuals within the strata, with the finite population correction and Student's
/// t. The degrees of freedom are the number of samples minus the number of strata with samples. A stratum with a
/// single drawn sample uses the spread of all residuals. If everything was drawn, the interval has zero width.
///
/// ```
/// use shardpack_report::stats::{Drawn, Stratum, predict};
/// let strata = [Stratum { samples: 2, known: [30.0, 7.0] }];
/// let one = |known, stored_bytes| Drawn { stratum: 0, known, stored_bytes };
/// let all = predict(&[one([10.0, 3.0], 5.0), one([20.0, 4.0], 9.0)], &strata).unwrap();
/// assert_eq!((all.low, all.value.round(), all.high), (all.value, 14.0, all.value));
/// ```
#[must_use]
pub fn predict(drawn: &[Drawn], strata: &[Stratum]) -> Option<Estimate> {
    let fit = fit(drawn)?;
    let fitted = |known: [f64; 2]| fit.iter().zip(known).map(|(b, x)| b * x).sum::<f64>();
    let residuals: Vec<f64> = drawn.iter().map(|one| one.stored_bytes - fitted(one.known)).collect();
    let (pooled, pooled_mean) = (variance(&residuals), mean(&residuals));
    let all: u64 = strata.iter().map(|stratum| stratum.samples).sum();
    let (mut value, mut variance_of_total, mut met) = (0.0, 0.0, 0_u64);
    for (number, stratum) in strata.iter().enumerate().filter(|(_, stratum)| stratum.samples > 0) {
        let own: Vec<f64> =
            drawn.iter().zip(&residuals).filter(|(one, _)| one.stratum == number).map(|(_, &r)| r).collect();
        let (n, size) = (real(own.len() as u64), real(stratum.samples));
        value += fitted(stratum.known);
        if own.is_empty() {
            // No sample of this stratum was drawn, so assume that its uncertainty is proportional to its size.
            value += size * pooled_mean;
            variance_of_total += size * size * pooled;
            continue;
        }
        met += 1;
        value += size * mean(&own);
        let within = if own.len() > 1 { variance(&own) } else { pooled };
        variance_of_total += size * size * (1.0 - n / size).max(0.0) * within / n;
    }
    let freedom = (drawn.len() as u64).saturating_sub(met).max(1);
    let whole = drawn.len() as u64 >= all;
    let half = if whole { 0.0 } else { student(freedom) * variance_of_total.sqrt() };
    Some(Estimate { value, low: (value - half).max(0.0), high: value + half })
}

fn fit(drawn: &[Drawn]) -> Option<[f64; 2]> {
    let sum = |of: &dyn Fn(&Drawn) -> f64| drawn.iter().map(of).sum::<f64>();
    let (x, y) = (sum(&|one| one.known[0]), sum(&|one| one.stored_bytes));
    if x <= 0.0 {
        return None;
    }
    let (aa, bb) = (sum(&|one| one.known[0] * one.known[0]), sum(&|one| one.known[1] * one.known[1]));
    let ab = sum(&|one| one.known[0] * one.known[1]);
    let (ay, by) = (sum(&|one| one.known[0] * one.stored_bytes), sum(&|one| one.known[1] * one.stored_bytes));
    let determinant = aa * bb - ab * ab;
    if drawn.len() < FIT_BOTH || determinant <= aa * bb * 1e-6 {
        return Some([y / x, 0.0]);
    }
    Some([(ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant])
}

/// Estimates how many samples must be drawn so that half the width of the interval is only the fraction `goal` of the
/// value. `found` is the estimate from `drawn` of `all` samples.
#[must_use]
pub fn needed(found: &Estimate, drawn: u64, all: u64, goal: f64) -> u64 {
    let half = found.half_width();
    if half <= goal || goal <= 0.0 {
        return drawn;
    }
    // First compute the number for an infinite set. Then correct it for a finite set.
    let (n, size) = (real(drawn), real(all));
    let infinite = half / (1.0 - n / size).max(1e-9).sqrt();
    let wanted = n * (infinite / goal).powi(2);
    let corrected = wanted / (1.0 + wanted / size);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of samples")]
    let rounded = corrected.ceil() as u64;
    rounded.clamp(drawn, all)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len().max(1) as u64)
}

fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / real(values.len() as u64 - 1)
}

/// Returns the 97.5th percentile of Student's t distribution.
fn student(freedom: u64) -> f64 {
    const EXACT: [f64; 12] =
        [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788];
    let index = usize::try_from(freedom).map_or(usize::MAX, |n| n.saturating_sub(1));
    EXACT.get(index).copied().unwrap_or_else(|| {
        // Use an expansion around the quantile of the normal distribution. From 13 degrees of
        // freedom on, the error is below 0.002.
        let (z, v) = (1.959_964_f64, real(freedom));
        z + (z.powi(3) + z) / (4.0 * v) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
    })
}

#[allow(clippy::cast_precision_loss, reason = "sizes and counts for an estimate")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next random number (SplitMix64).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn uniform(state: &mut u64) -> f64 {
        (next(state) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The 95 % interval must contain the true value in about 95 % of the cases.
    #[test]
    fn the_interval_covers_the_truth() {
        let mut state = 7;
        let population: Vec<(usize, [f64; 2], f64)> = (0..4000)
            .map(|i| {
                let (source, pixels) = (50e3 + 200e3 * uniform(&mut state), 100e3 * (1.0 + uniform(&mut state)));
                let stratum = i % 10;
                let share = 0.2 + 0.02 * stratum as f64 + 0.2 * uniform(&mut state);
                (stratum, [source, pixels], source * share + 0.1 * pixels)
            })
            .collect();
        let truth: f64 = population.iter().map(|p| p.2).sum();
        let mut strata = [Stratum::default(); 10];
        for &(stratum, known, _) in &population {
            strata[stratum].samples += 1;
            strata[stratum].known = [strata[stratum].known[0] + known[0], strata[stratum].known[1] + known[1]];
        }
        let mut covered = 0;
        for _ in 0..400 {
            let mut drawn = Vec::new();
            for stratum in 0..10 {
                let mut own: Vec<_> = population.iter().filter(|p| p.0 == stratum).collect();
                for _ in 0..8 {
                    let at = next(&mut state) as usize % own.len();
                    let (stratum, known, stored_bytes) = *own.swap_remove(at);
                    drawn.push(Drawn { stratum, known, stored_bytes });
                }
            }
            let found = predict(&drawn, &strata).unwrap();
            covered += usize::from((found.low..=found.high).contains(&truth));
        }
        assert!((360..=396).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn student_is_student() {
        for (freedom, expected) in [(1, 12.706), (13, 2.1604), (30, 2.0423), (100, 1.9840), (1_000_000, 1.95996)] {
            assert!((student(freedom) - expected).abs() < 2e-3, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn nothing_drawn_predicts_nothing_and_one_sample_is_uncertain() {
        let strata = [Stratum { samples: 100, known: [1000.0, 1.0] }];
        assert_eq!(predict(&[], &strata), None);
        let one = Drawn { stratum: 0, known: [10.0, 0.0], stored_bytes: 5.0 };
        assert_eq!(predict(&[one], &strata).unwrap().value, 500.0);
        let two = [strata[0], Stratum { samples: 1, known: [10.0, 0.0] }];
        assert_eq!(predict(&[one], &two).unwrap().value, 505.0);
    }

    #[test]
    fn more_samples_are_needed_for_a_narrower_interval() {
        let found = Estimate { value: 100.0, low: 90.0, high: 110.0 };
        assert_eq!(needed(&found, 50, 1_000_000, 0.2), 50);
        assert!((1150..1260).contains(&needed(&found, 50, 1_000_000, 0.02)));
        assert_eq!(needed(&found, 50, 60, 0.000_001), 60);
    }
}

//! Computes the distribution of a value over the samples.

use crate::data::{Better, Distribution, Histogram};

/// Returns the distribution of `values`. Each is a pair of a sample's index and its value. Ignores values that
/// are not finite. Returns `None` if no value is left.
///
/// Percentiles are nearest ranks, counted from the worse end. Therefore p10 is the value of an actual sample, and at
/// least a tenth of the samples are as bad as this sample or worse.
///
/// ```
/// use shardpack_report::data::Better;
/// use shardpack_report::stats::distribution;
/// let scores: Vec<(usize, f64)> = (0..100).map(|i| (i, 100.0 - i as f64)).collect();
/// let spread = distribution(&scores, Better::Higher).unwrap();
/// assert_eq!((spread.worst, spread.p1, spread.p10, spread.best), (1.0, 1.0, 10.0, 100.0));
/// assert_eq!(spread.worst_sample, 99);
/// ```
#[must_use]
pub fn distribution(values: &[(usize, f64)], better: Better) -> Option<Distribution> {
    let mut sorted: Vec<(usize, f64)> = values.iter().copied().filter(|(_, value)| value.is_finite()).collect();
    // The sort is stable, so samples with equal values stay in sample order.
    sorted.sort_by(|(_, a), (_, b)| match better {
        Better::Higher => a.total_cmp(b),
        Better::Lower => b.total_cmp(a),
    });
    let (&(worst_sample, worst), &(_, best)) = (sorted.first()?, sorted.last()?);
    let count = sorted.len();
    let rank = |percent: usize| {
        let at = (count * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).map_or(best, |&(_, value)| value)
    };
    #[allow(clippy::cast_precision_loss, reason = "a count of samples")]
    let mean = sorted.iter().map(|(_, value)| value).sum::<f64>() / count as f64;
    Some(Distribution {
        count: count as u64,
        mean,
        worst,
        worst_sample,
        p1: rank(1),
        p10: rank(10),
        median: rank(50),
        p90: rank(90),
        best,
    })
}

/// Counts `values` in `bins` bins of equal width. The bins cover the range from the smallest to the largest
/// value. Returns `None` if no value is finite. If all values are equal, there is one bin of zero width.
#[must_use]
pub fn histogram(values: impl Iterator<Item = f64> + Clone, bins: usize) -> Option<Histogram> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.clone().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return None;
    }
    let width = high - low;
    let bins = if width > 0.0 { bins.max(1) } else { 1 };
    let mut counts = vec![0; bins];
    for value in finite {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "from 0 to the number of bins"
        )]
        let bin = if width > 0.0 { ((value - low) / width * bins as f64) as usize } else { 0 };
        if let Some(count) = counts.get_mut(bin.min(bins - 1)) {
            *count += 1;
        }
    }
    Some(Histogram { low, high, counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_sample_is_every_percentile() {
        let spread = distribution(&[(3, 7.5)], Better::Lower).unwrap();
        assert_eq!([spread.worst, spread.p1, spread.p10, spread.median, spread.p90, spread.best], [7.5; 6]);
        assert_eq!((spread.count, spread.worst_sample), (1, 3));
        assert_eq!(distribution(&[(0, f64::NAN)], Better::Lower), None);
    }

    #[test]
    fn equal_values_are_one_bin() {
        assert_eq!(histogram([2.0; 5].into_iter(), 10), Some(Histogram { low: 2.0, high: 2.0, counts: vec![5] }));
        assert_eq!(histogram([f64::NAN].into_iter(), 10), None);
        assert_eq!(histogram([0.0, 0.9, 1.0].into_iter(), 2).unwrap().counts, [1, 2]);
    }

    proptest! {
        /// Tests the definition of a percentile. At least this fraction of the samples is as bad as the
        /// percentile or worse, and a smaller fraction is strictly worse.
        #[test]
        fn a_percentile_is_what_its_name_says(values in prop::collection::vec(-1e3_f64..1e3, 1..300)) {
            let numbered: Vec<_> = values.iter().copied().enumerate().collect();
            for better in [Better::Higher, Better::Lower] {
                let spread = distribution(&numbered, better).unwrap();
                let worse = |a: f64, b: f64| if better == Better::Higher { a < b } else { a > b };
                for (percent, value) in [(1, spread.p1), (10, spread.p10), (50, spread.median), (90, spread.p90)] {
                    let as_bad = values.iter().filter(|v| !worse(value, **v)).count();
                    let strictly = values.iter().filter(|v| worse(**v, value)).count();
                    prop_assert!(as_bad * 100 >= values.len() * percent);
                    prop_assert!(strictly * 100 < values.len() * percent);
                }
            }
        }

        #[test]
        fn a_histogram_counts_everything(values in prop::collection::vec(-1e3_f64..1e3, 1..100), bins in 1_usize..30) {
            let found = histogram(values.iter().copied(), bins).unwrap();
            prop_assert_eq!(found.counts.iter().sum::<u64>(), values.len() as u64);
        }
    }
}

//! Computes the Pareto front: the candidates that no other candidate beats on both axes.

use crate::data::Better;

/// Returns true for each point (bytes, score) that is on the front. A point is on the front if no other point
/// is at least as good on both axes and better on one of them. Points without a score are never on the front.
///
/// ```
/// use shardpack_report::data::Better;
/// use shardpack_report::stats::pareto_front;
/// let points = [(100.0, Some(99.0)), (50.0, Some(80.0)), (60.0, Some(75.0)), (10.0, None)];
/// assert_eq!(pareto_front(&points, Better::Higher), [true, true, false, false]);
/// ```
#[must_use]
pub fn pareto_front(points: &[(f64, Option<f64>)], better: Better) -> Vec<bool> {
    let good = |score: f64| if better == Better::Higher { score } else { -score };
    let beats = |one: (f64, f64), other: (f64, f64)| {
        let (score, other_score) = (good(one.1), good(other.1));
        one.0 <= other.0 && score >= other_score && (one.0 < other.0 || score > other_score)
    };
    let scored = |point: &(f64, Option<f64>)| Some((point.0, point.1?));
    points
        .iter()
        .map(|point| scored(point).is_some_and(|mine| !points.iter().filter_map(scored).any(|p| beats(p, mine))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_points_are_both_on_it_and_small_errors_are_good() {
        assert_eq!(pareto_front(&[(5.0, Some(1.0)), (5.0, Some(1.0))], Better::Higher), [true, true]);
        assert_eq!(
            pareto_front(&[(5.0, Some(0.1)), (9.0, Some(0.0)), (9.0, Some(0.2))], Better::Lower),
            [true, true, false]
        );
    }
}

//! Weighted choice in constant time with the alias method (Walker 1977), built in linear time (Vose 1991).

use super::keyed::scale;
use shardpack_reader::{Error, Result};

/// Chooses columns by weight. Uses 16 bytes per column, and 32 more while the table is built.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alias {
    columns: Vec<(u64, u32)>,
}

impl Alias {
    /// Builds the table. Weights must be finite and not negative, at least one must be above 0, and there
    /// must be fewer than 2³².
    pub(super) fn new(weights: &[f64]) -> Result<Self> {
        let wrong = weights.iter().enumerate().find(|(_, w)| !w.is_finite() || **w < 0.0);
        if let Some((number, weight)) = wrong {
            return Err(Error::usage(format!("weight {number} must be finite and not negative, but is {weight}")));
        }
        let count = u32::try_from(weights.len())
            .map_err(|_| Error::usage(format!("expected fewer than 2³² weights, found {}", weights.len())))?;
        // Dividing by the largest weight first keeps the sum of many large weights finite.
        let largest = weights.iter().fold(0.0_f64, |a, &b| a.max(b));
        let sum: f64 = weights.iter().map(|w| w / largest).sum();
        if largest <= 0.0 {
            return Err(Error::usage(format!("none of the {count} weights is above 0")));
        }
        let mut parts: Vec<f64> = weights.iter().map(|w| w / largest / sum * f64::from(count)).collect();
        let mut columns = vec![(u64::MAX, 0_u32); parts.len()];
        let (mut small, mut large) = (0..count).partition::<Vec<u32>, _>(|&i| at(&parts, i) < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            let share = at(&parts, poor);
            if let Some(column) = slot(&mut columns, poor) {
                *column = (threshold(share), rich);
            }
            let left = at(&parts, rich) - (1.0 - share);
            if let Some(part) = slot(&mut parts, rich) {
                *part = left;
            }
            if left < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // All remaining columns have a share of 1, up to rounding. A column without weight can remain here only if
        // rounding errors have used up all columns above their share. It then points to the heaviest column.
        let heaviest = (0..count).max_by(|&a, &b| at(weights, a).total_cmp(&at(weights, b))).unwrap_or(0);
        for left in small.into_iter().chain(large) {
            if let Some(column) = slot(&mut columns, left) {
                *column = if at(weights, left) > 0.0 { (u64::MAX, left) } else { (0, heaviest) };
            }
        }
        Ok(Self { columns })
    }

    /// Returns the column selected by two uniform draws.
    pub(super) fn choose(&self, column: u64, coin: u64) -> u64 {
        let column = scale(column, self.columns.len() as u64);
        match usize::try_from(column).ok().and_then(|c| self.columns.get(c)) {
            Some((threshold, _)) if coin < *threshold => column,
            Some((_, alias)) => u64::from(*alias),
            None => {
                debug_assert!(false, "column {column} of {}", self.columns.len());
                0
            }
        }
    }
}

fn at(values: &[f64], i: u32) -> f64 {
    let value = usize::try_from(i).ok().and_then(|i| values.get(i));
    debug_assert!(value.is_some(), "column {i} of {}", values.len());
    value.copied().unwrap_or_default()
}

fn slot<T>(values: &mut [T], i: u32) -> Option<&mut T> {
    let (i, columns) = (usize::try_from(i).ok()?, values.len());
    debug_assert!(i < columns, "column {i} of {columns}");
    values.get_mut(i)
}

/// Converts a probability to the bound below which 64 uniform bits count as a hit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 1: the cast saturates at the top"
)]
fn threshold(probability: f64) -> u64 {
    (probability * 2.0_f64.powi(64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Keyed;

    #[test]
    fn the_table_holds_the_weights() {
        let random = Keyed::new(1, 0, 0);
        for count in [1, 2, 3, 10, 1000] {
            let weights: Vec<f64> =
                (0..count).map(|i| (random.below(1000, i) as f64 - 200.0).max(0.0) + f64::from(i == 0)).collect();
            let sum: f64 = weights.iter().sum();
            let alias = Alias::new(&weights).unwrap();
            let mut shares = vec![0.0; weights.len()];
            for (i, (threshold, other)) in alias.columns.iter().enumerate() {
                let own = *threshold as f64 / 2.0_f64.powi(64);
                shares[i] += own / count as f64;
                shares[*other as usize] += (1.0 - own) / count as f64;
            }
            for (share, weight) in shares.iter().zip(&weights) {
                assert!((share - weight / sum).abs() < 1e-12, "{share} for {weight} of {sum}");
            }
        }
    }

    #[test]
    fn columns_without_weight_are_never_chosen() {
        let alias = Alias::new(&[0.0, 1e-300, 0.0, 3e-300, 0.0]).unwrap();
        let random = Keyed::new(2, 0, 0);
        let mut counts = [0_u32; 5];
        for i in 0..40_000 {
            counts[usize::try_from({
                let (column, coin) = random.pair(i);
                alias.choose(column, coin)
            })
            .unwrap()] += 1;
        }
        assert_eq!((counts[0], counts[2], counts[4]), (0, 0, 0));
        assert!((9_500..10_500).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn invalid_weights_are_refused() {
        assert_eq!(
            Alias::new(&[1.0, -1.0]).unwrap_err().to_string(),
            "weight 1 must be finite and not negative, but is -1"
        );
        for weights in [&[f64::NAN][..], &[f64::INFINITY], &[0.0, 0.0], &[]] {
            assert!(Alias::new(weights).is_err(), "{weights:?}");
        }
    }
}

//! Which dataset of a mixture is next: a fixed round of slots, as even as whole numbers allow.

use crate::error::{Error, Result};

/// Slots of a round: weights are kept to a thousandth of the whole.
pub(super) const SLOTS: u64 = 1000;

/// A round of [`SLOTS`] slots, each with a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The source of each slot, and which of the source's slots it is.
    slots: Vec<(u32, u64)>,
    /// The slots of each source, ascending.
    of_source: Vec<Vec<u64>>,
}

impl Pattern {
    /// Gives each weight its slots, at least one if it is above zero, and spreads them: slot `k` of a source with `n` slots wants to be at `(k + ½) / n` of the round.
    pub(super) fn new(weights: &[f64]) -> Result<Self> {
        let counts = counts(weights)?;
        let mut wishes = Vec::new();
        for (source, &count) in (0..).zip(&counts) {
            // As fractions of the same denominator, compared without rounding: (2k + 1) / 2n.
            wishes.extend((0..count).map(|k| (2 * k + 1, 2 * count, source, k)));
        }
        wishes.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then((a.2, a.3).cmp(&(b.2, b.3))));
        let slots: Vec<(u32, u64)> = wishes.into_iter().map(|(_, _, source, k)| (source, k)).collect();
        let of = |source: u32| (0..).zip(&slots).filter(move |(_, slot)| slot.0 == source).map(|(i, _)| i).collect();
        let of_source = (0..).zip(&counts).map(|(source, _)| of(source)).collect();
        Ok(Self { slots, of_source })
    }

    /// Slots of `source` in a round.
    pub(super) fn count(&self, source: u32) -> u64 {
        self.source(source).len() as u64
    }

    /// The source of slot `first + ahead` of the endless round, and how many slots it has from `first` to there.
    pub(super) fn at(&self, first: u64, ahead: u64) -> Option<(u32, u64)> {
        let slot = usize::try_from((first + ahead) % SLOTS).ok()?;
        let &(source, number) = self.slots.get(slot)?;
        let before = self.source(source).partition_point(|&slot| slot < first % SLOTS) as u64;
        let count = self.count(source);
        Some((source, (number + count - before) % count))
    }

    fn source(&self, source: u32) -> &[u64] {
        usize::try_from(source).ok().and_then(|s| self.of_source.get(s)).map_or(&[], Vec::as_slice)
    }
}

/// Whole slots for the weights, by largest remainders.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
fn counts(weights: &[f64]) -> Result<Vec<u64>> {
    let wrong = weights.iter().enumerate().find(|(_, w)| !w.is_finite() || **w < 0.0);
    if let Some((number, weight)) = wrong {
        return Err(Error::usage(format!("weight {number}"), "a finite number, not negative", weight));
    }
    let positive = weights.iter().filter(|&&w| w > 0.0).count() as u64;
    if positive == 0 || positive > SLOTS {
        return Err(Error::usage("weights", format!("from 1 to {SLOTS} above zero"), positive));
    }
    let largest = weights.iter().fold(0.0_f64, |a, &b| a.max(b));
    let sum: f64 = weights.iter().map(|w| w / largest).sum();
    // One slot for each first; the rest by weight.
    let rest = (SLOTS - positive) as f64;
    let wishes = weights.iter().map(|w| w / largest / sum * SLOTS as f64);
    let above: Vec<f64> = wishes.map(|wish| (wish - 1.0).max(0.0)).collect();
    let sum: f64 = above.iter().sum();
    let parts: Vec<f64> = above.iter().map(|part| if sum > 0.0 { part / sum * rest } else { 0.0 }).collect();
    let own = |(weight, part): (&f64, &f64)| if *weight > 0.0 { part.floor() as u64 + 1 } else { 0 };
    let mut counts: Vec<u64> = weights.iter().zip(&parts).map(own).collect();
    let missing = SLOTS.saturating_sub(counts.iter().sum());
    let mut order: Vec<usize> = (0..weights.len()).filter(|&i| weights.get(i).is_some_and(|&w| w > 0.0)).collect();
    let fraction = |i: usize| parts.get(i).map_or(0.0, |part| part.fract());
    order.sort_by(|&a, &b| fraction(b).total_cmp(&fraction(a)).then(a.cmp(&b)));
    for (&i, _) in order.iter().cycle().zip(0..missing) {
        if let Some(count) = counts.get_mut(i) {
            *count += 1;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_weights() {
        assert_eq!(counts(&[1.0, 1.0]).unwrap(), [500, 500]);
        assert_eq!(counts(&[7.0, 2.0, 1.0]).unwrap(), [700, 200, 100]);
        assert_eq!(counts(&[1.0, 0.0, 1e-9]).unwrap(), [999, 0, 1]);
        assert_eq!(counts(&[1.0; 3]).unwrap().iter().sum::<u64>(), SLOTS);
        assert_eq!(counts(&[1.0; 1000]).unwrap(), [1; 1000]);
        assert!(counts(&[]).is_err() && counts(&[0.0]).is_err() && counts(&[f64::NAN]).is_err());
    }

    /// In any stretch, a source is off its share by less than two samples.
    #[test]
    fn the_round_is_even_everywhere() {
        let weights = [0.5, 0.3, 0.15, 0.049, 0.001];
        let pattern = Pattern::new(&weights).unwrap();
        for first in (0..SLOTS).step_by(7) {
            let mut seen = [0_u64; 5];
            for ahead in 0..SLOTS {
                let (source, before) = pattern.at(first, ahead).unwrap();
                let source = source as usize;
                assert_eq!(before, seen[source]);
                seen[source] += 1;
                for (count, weight) in seen.iter().zip(weights) {
                    assert!((*count as f64 - weight * (ahead + 1) as f64).abs() < 2.0, "{seen:?} of {}", ahead + 1);
                }
            }
        }
    }
}

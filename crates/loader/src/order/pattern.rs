//! Assigns each position of a mixture to a dataset, with a fixed round of slots that is as even as whole
//! numbers allow.
//!
//! Positions cycle through the slots. The round is stored in the order in which a *column* meets the slots, one per
//! row. So the number of times that a column has met a source is the difference between two indices of a list.

use shardpack_format::{bug, to_usize};
use shardpack_reader::{Error, Result};

/// Number of slots in a round. Rounds weights to about a thousandth of the whole. It is prime, so a column meets
/// every slot unless the number of columns is a multiple of it.
pub(super) const SLOTS: u64 = 1009;

/// A round of [`SLOTS`] slots, each assigned to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// Source of each slot, and the slot's number within the source, in the order in which a column meets the slots.
    slots: Vec<(u32, u64)>,
    /// For each source, the indices of its slots in `slots`, ascending.
    of_source: Vec<Vec<u64>>,
    /// For each source, the positions of its slots in the round, ascending.
    in_round: Vec<Vec<u64>>,
    /// Row offset between consecutive columns: a column is this number of rows behind the next column.
    next_column: u64,
}

impl Pattern {
    /// Assigns slots to the weights, at least one to each weight above zero, and spreads them over the round.
    /// Slot `k` of a source with `n` slots should lie at `(k + ½) / n` of the round. `columns` is the length
    /// of a row.
    pub(super) fn new(weights: &[f64], columns: u64) -> Result<Self> {
        let counts = counts(weights)?;
        let mut wishes = Vec::new();
        for (source, &count) in (0_u32..).zip(&counts) {
            // Fractions (2k + 1) / 2n as numerator and denominator, to compare them without rounding.
            wishes.extend((0..count).map(|k| (2 * k + 1, 2 * count, source)));
        }
        wishes.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.2.cmp(&b.2)));
        // In the next row, a column meets the slot that is one row length further on. If this is a whole
        // number of rounds, it meets the next slot instead, because every column must meet every slot.
        let stride = match columns % SLOTS {
            0 => 1,
            stride => stride,
        };
        let next_column = (1..SLOTS).find(|rows| rows * stride % SLOTS == 1);
        debug_assert!(next_column.is_some(), "no multiple of {stride} is 1 modulo {SLOTS}, which is a prime");
        let next_column = next_column.unwrap_or(1);
        let mut of_source = vec![Vec::new(); weights.len()];
        let mut in_round = of_source.clone();
        for (slot, wish) in (0..).zip(&wishes) {
            in_round.get_mut(to_usize(wish.2)).unwrap_or_else(|| bug("a slot has no source")).push(slot);
        }
        let mut slots = Vec::new();
        for met in 0..SLOTS {
            let wish = wishes.get(to_usize(met * stride % SLOTS));
            let &(.., source) = wish.unwrap_or_else(|| bug("a round has too few slots"));
            let own = of_source.get_mut(to_usize(source)).unwrap_or_else(|| bug("a slot has no source"));
            slots.push((source, own.len() as u64));
            own.push(met);
        }
        Ok(Self { slots, of_source, in_round, next_column })
    }

    pub(super) fn count(&self, source: u32) -> u64 {
        self.source(source).len() as u64
    }

    /// Returns the source at this column and row, and the number of earlier rows in which the column had the same
    /// source. Both arguments are below [`SLOTS`], where the pattern repeats.
    pub(super) fn at(&self, column: u64, row: u64) -> Option<(u32, u64)> {
        let first = column % SLOTS * self.next_column % SLOTS;
        let &(source, number) = self.slots.get(usize::try_from((first + row) % SLOTS).ok()?)?;
        let before = self.source(source).partition_point(|&slot| slot < first) as u64;
        let count = self.count(source);
        Some((source, (number + count - before) % count))
    }

    /// Returns the maximum difference between two columns in the number of times that they have met `source` by the end
    /// of the same row.
    pub(super) fn apart(&self, source: u32) -> u64 {
        // After each row, compare the number of times that a column has met the source with the source's share of the
        // rows. Between any two rows, the difference changes by at most the distance between its highest and its lowest
        // value. Values are in units of 1/SLOTS. Two columns may deviate in opposite directions, so the distance counts
        // twice.
        let (mut highest, mut lowest, mut seen) = (0, 0, 0);
        for (row, own) in (1..).zip(&self.slots) {
            seen += u64::from(own.0 == source) * SLOTS;
            let share = self.count(source) * row;
            highest = highest.max(seen.saturating_sub(share));
            lowest = lowest.max(share.saturating_sub(seen));
        }
        (2 * (highest + lowest)).div_ceil(SLOTS)
    }

    /// Returns the number of slots that belong to `source`, among the `ahead` slots that start at slot `first`.
    pub(super) fn before(&self, source: u32, first: u64, ahead: u64) -> u64 {
        let own = usize::try_from(source).ok().and_then(|source| self.in_round.get(source));
        let below = |slot| own.map_or(0, |own| own.partition_point(|&own| own < slot)) as u64;
        let (count, first) = (self.count(source), first % SLOTS);
        let end = first + ahead % SLOTS;
        let below_end = if end < SLOTS { below(end) } else { count + below(end - SLOTS) };
        ahead / SLOTS * count + below_end - below(first)
    }

    fn source(&self, source: u32) -> &[u64] {
        let slots = usize::try_from(source).ok().and_then(|s| self.of_source.get(s));
        debug_assert!(slots.is_some(), "source {source} of {}", self.of_source.len());
        slots.map_or(&[], Vec::as_slice)
    }
}

/// Distributes whole slots by weight, using the largest remainder method.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
fn counts(weights: &[f64]) -> Result<Vec<u64>> {
    let wrong = weights.iter().enumerate().find(|(_, w)| !w.is_finite() || **w < 0.0);
    if let Some((number, weight)) = wrong {
        return Err(Error::usage(format!("weight {number} must be finite and not negative, but is {weight}")));
    }
    let positive = weights.iter().filter(|&&w| w > 0.0).count() as u64;
    if positive == 0 {
        return Err(Error::usage("at least one weight must be above 0"));
    }
    if positive > SLOTS {
        return Err(Error::usage(format!("at most {SLOTS} weights can be above 0, but {positive} are")));
    }
    let largest = weights.iter().fold(0.0_f64, |a, &b| a.max(b));
    let sum: f64 = weights.iter().map(|w| w / largest).sum();
    let rest = (SLOTS - positive) as f64;
    let wishes = weights.iter().map(|w| w / largest / sum * SLOTS as f64);
    let above: Vec<f64> = wishes.map(|wish| (wish - 1.0).max(0.0)).collect();
    let sum: f64 = above.iter().sum();
    let parts: Vec<f64> = above.iter().map(|part| if sum > 0.0 { part / sum * rest } else { 0.0 }).collect();
    let own = |weight: f64, part: f64| if weight > 0.0 { part.floor() as u64 + 1 } else { 0 };
    let mut counts: Vec<u64> = weights.iter().zip(&parts).map(|(&weight, &part)| own(weight, part)).collect();
    let given: u64 = counts.iter().sum();
    let Some(missing) = SLOTS.checked_sub(given) else { bug("a round has too many slots") };
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

    /// With 240 columns and two sources whose shares are whole percents, no two columns differ by more than this in the
    /// number of times that they have met a source.
    const APART: u64 = 46;

    #[test]
    fn slots_follow_the_weights() {
        assert_eq!(counts(&[1.0, 1.0]).unwrap(), [505, 504]);
        assert_eq!(counts(&[7.0, 2.0, 1.0]).unwrap(), [706, 202, 101]);
        assert_eq!(counts(&[1.0, 0.0, 1e-9]).unwrap(), [1008, 0, 1]);
        assert_eq!(counts(&[1.0; 1009]).unwrap(), [1; 1009]);
        assert!(counts(&[]).is_err() && counts(&[0.0]).is_err() && counts(&[f64::NAN]).is_err());
        assert!(counts(&[1.0; 1010]).is_err());
    }

    /// In any stretch of positions, the number of samples from a source must differ from its share by less than three.
    /// `at` must also count correctly how often a column has met each source.
    #[test]
    fn the_round_is_even_everywhere() {
        let weights = [0.5, 0.3, 0.15, 0.049, 0.001];
        for columns in [1, 7, 240, 960, 5040] {
            let pattern = Pattern::new(&weights, columns).unwrap();
            let rows = (20_000 / columns).clamp(1, SLOTS);
            for first in (0..SLOTS).step_by(97) {
                let mut seen = [0_u64; 5];
                let mut met = std::collections::HashMap::new();
                for ahead in 0..(rows * columns).saturating_sub(first) {
                    let (row, column) = ((first + ahead) / columns, (first + ahead) % columns);
                    let (source, before) = pattern.at(column, row).unwrap();
                    let count: &mut u64 = met.entry((column, source)).or_insert(before);
                    assert_eq!(*count, before);
                    *count += 1;
                    seen[source as usize] += 1;
                    for (source, count) in (0..).zip(seen) {
                        let share = pattern.count(source) as f64 / SLOTS as f64 * (ahead + 1) as f64;
                        assert!((count as f64 - share).abs() < 3.0, "{columns} columns: {seen:?} of {}", ahead + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn slots_before_a_position_are_counted_exactly() {
        for columns in [1, 7, 240, SLOTS, 2 * SLOTS] {
            let pattern = Pattern::new(&[0.6, 0.35, 0.049, 0.001], columns).unwrap();
            for first in [0, 1, 500, SLOTS - 1, SLOTS + 77] {
                let mut seen = [0_u64; 4];
                for at in 0..5 * SLOTS {
                    let (row, column) = (at / columns, at % columns);
                    let (source, _) = pattern.at(first + column % SLOTS, row % SLOTS).unwrap();
                    let shift = if columns.is_multiple_of(SLOTS) { row } else { 0 };
                    for (source, seen) in (0..).zip(seen) {
                        assert_eq!(pattern.before(source, first + shift, at), seen, "{columns} {first} {at}");
                    }
                    seen[source as usize] += 1;
                }
            }
        }
    }

    #[test]
    fn columns_differ_by_at_most_the_documented_number() {
        let two = |percent| Pattern::new(&[f64::from(percent), f64::from(100 - percent)], 240).unwrap();
        let apart = (1..100).map(|percent| two(percent).apart(0).max(two(percent).apart(1))).max();
        assert_eq!(apart, Some(APART), "as docs/order.md says");
        for (columns, most) in [(7, 300), (48, 50), (168, 15), (240, APART)] {
            for share in [0.02, 0.3, 0.5, 0.75] {
                let pattern = Pattern::new(&[share, 1.0 - share], columns).unwrap();
                for source in 0..2 {
                    let said = pattern.apart(source);
                    assert!(said <= most, "{columns} columns, {share}: {said}");
                    let mut turns = vec![0_u64; usize::try_from(columns).unwrap()];
                    for row in 0..SLOTS {
                        for (column, turns) in (0..).zip(&mut turns) {
                            *turns += u64::from(pattern.at(column, row).unwrap().0 == source);
                        }
                        let apart = turns.iter().max().unwrap() - turns.iter().min().unwrap();
                        assert!(apart <= said, "{columns} columns, {share}: {apart} of {said} in row {row}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_column_meets_each_source_as_often_as_it_has_slots() {
        for columns in [1, 240, SLOTS, 2 * SLOTS] {
            let pattern = Pattern::new(&[3.0, 1.0], columns).unwrap();
            for column in [0, 1, columns / 2, columns - 1] {
                let mut met: Vec<(u32, u64)> = (0..SLOTS).filter_map(|row| pattern.at(column, row)).collect();
                met.sort_unstable();
                let all = (0..2).flat_map(|source| (0..pattern.count(source)).map(move |n| (source, n)));
                assert_eq!(met, all.collect::<Vec<_>>());
            }
        }
    }
}

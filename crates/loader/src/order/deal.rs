//! Determines the order of the samples within one piece of a run, so that *parts* of the piece can be assigned to
//! different ranks.
//!
//! Turns `a..b` of a lane deal out the samples `0..b-a` of a piece. The turns are split into even and odd
//! ones, and the piece into two spans of the same sizes. A key decides which span belongs to which half. Each
//! half is split again in the same way, [`LEVELS`] times in total, and the samples that remain in a part are
//! permuted. So all turns of one residue class modulo 2, 4, … 64 get one contiguous span, and if 2, 4, … 64
//! ranks share a lane, each reads only its own span. The order within a piece is a van der Corput sequence
//! with Owen's random scrambling, which puts neighbours on disk far apart.

use super::keyed::{GOLDEN, mix};
use super::permutation::Permutation;
use std::ops::Range;

/// Number of times that a piece is halved.
pub(super) const LEVELS: u32 = 6;
/// Number of residue classes of turns: 2 to the power of [`LEVELS`]. Each class has its own span.
pub(super) const SPANS: u64 = 1 << LEVELS;

struct DealtPart {
    first: u64,
    /// Turns of this part: every turn of one residue class, numbered within the class.
    turns: Range<u64>,
    node: u64,
}

/// Halves the piece `levels` times, following the low bits of `turn`.
fn part(turns: &Range<u64>, key: u64, turn: u64, levels: u32) -> DealtPart {
    let mut part = DealtPart { first: 0, turns: turns.clone(), node: 1 };
    for level in 0..levels {
        let Range { start, end } = part.turns;
        let even = start.div_ceil(2)..end.div_ceil(2);
        let odd = start / 2..end / 2;
        let odd_first = mix(key ^ part.node.wrapping_mul(GOLDEN)) & 1 == 1;
        let is_odd = turn >> level & 1 == 1;
        let (own, other) = if is_odd { (odd, even) } else { (even, odd) };
        if is_odd != odd_first {
            part.first += other.end - other.start;
        }
        part.turns = own;
        part.node = part.node << 1 | u64::from(is_odd);
    }
    part
}

/// Returns the sample of a turn, relative to the start of the piece.
pub(super) fn sample_of(turns: &Range<u64>, key: u64, turn: u64) -> u64 {
    let part = part(turns, key, turn, LEVELS);
    let rest = Permutation::new(part.turns.end - part.turns.start, mix(key.wrapping_add(part.node)));
    part.first + rest.apply((turn >> LEVELS).saturating_sub(part.turns.start))
}

/// Returns the samples of all turns congruent to `turn` modulo 2^`levels`. `levels` is at most [`LEVELS`].
pub(super) fn span_of(turns: &Range<u64>, key: u64, turn: u64, levels: u32) -> Range<u64> {
    let part = part(turns, key, turn, levels.min(LEVELS));
    part.first..part.first + (part.turns.end - part.turns.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_handed_out_once_and_its_classes_are_contiguous() {
        for (start, len) in [(0, 1), (3, 2), (5, 37), (8, 64), (1, 200), (77, 1366), (1 << 40, 99)] {
            let turns = start..start + len;
            let samples: Vec<u64> = turns.clone().map(|turn| sample_of(&turns, 11, turn)).collect();
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>());
            for levels in 0..=LEVELS {
                for class in 0..1_u64 << levels {
                    let own = turns.clone().zip(&samples).filter(|(turn, _)| turn % (1 << levels) == class);
                    let mut own: Vec<u64> = own.map(|(_, sample)| *sample).collect();
                    own.sort_unstable();
                    assert_eq!(
                        own,
                        span_of(&turns, 11, class, levels).collect::<Vec<_>>(),
                        "{turns:?} {levels} {class}"
                    );
                }
            }
        }
    }
}

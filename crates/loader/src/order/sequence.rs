//! The runs of an epoch in permuted order, as one line of samples. Any position in the line is computed without a
//! table.
//!
//! All runs have the same number of samples, except that the dataset's last run may be shorter. Wherever that run is in
//! the line, all runs after it start earlier by the number of samples that it lacks.

use super::permutation::Permutation;
use super::runs::Runs;
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    runs: Runs,
    permutation: Permutation,
    /// Position of the dataset's last run in the line, counted in runs.
    short_slot: u64,
    /// Number of samples by which the dataset's last run is shorter than the others.
    lacking: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// Range of the run's samples in the line.
    pub(super) places: Range<u64>,
    pub(super) first: u64,
}

impl Sequence {
    pub(super) const fn new(runs: Runs, key: u64) -> Self {
        let count = runs.count();
        let permutation = Permutation::new(count, key);
        let short_slot = permutation.invert(count.saturating_sub(1));
        Self { runs, permutation, short_slot, lacking: count * runs.run_samples() - runs.samples() }
    }

    /// Returns the run at a position in the line. `place` must be less than the number of samples.
    pub(super) fn slot(&self, place: u64) -> Slot {
        let len = self.runs.run_samples();
        let short = self.short_slot * len..(self.short_slot + 1) * len - self.lacking;
        let (slot, start) = if place < short.end {
            (place / len, place / len * len)
        } else {
            let slot = (place + self.lacking) / len;
            (slot, slot * len - self.lacking)
        };
        let end = if slot == self.short_slot { short.end } else { start + len };
        Slot { places: start..end, first: self.permutation.apply(slot) * len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_holds_every_sample_once_for_every_place_of_the_short_run() {
        for (samples, run_samples) in [(1, 1), (1, 5), (10, 5), (11, 5), (100, 7), (1000, 37), (5, 8)] {
            for key in 0..20 {
                let sequence = Sequence::new(Runs::new(samples, run_samples), key);
                let mut all = Vec::new();
                let mut place = 0;
                while place < samples {
                    let slot = sequence.slot(place);
                    assert_eq!(slot.places.start, place);
                    assert_eq!(sequence.slot(slot.places.end - 1), slot);
                    all.extend(slot.places.clone().map(|p| slot.first + (p - slot.places.start)));
                    place = slot.places.end;
                }
                all.sort_unstable();
                assert_eq!(all, (0..samples).collect::<Vec<_>>());
            }
        }
    }
}

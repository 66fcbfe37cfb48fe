//! The windowed order. Permuted runs are arranged in lanes, and the lanes take turns, one sample at a time.
//!
//! The line of permuted runs is cut into `lanes` stretches of equal length. Position `p` is turn `p / lanes` of lane
//! `p % lanes`. So every lane has one run open at a time, and the window consists of `lanes` runs. Each lane starts
//! at a random position in its stretch and wraps around. As a result, runs open and end at an even rate, and the
//! window never changes all at once. Within a run, [`deal`](super::deal) selects the sample of a turn.

use super::deal::{self, LEVELS, SPANS};
use super::keyed::{Keyed, mix};
use super::runs::Runs;
use super::sequence::Sequence;
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    samples: u64,
    lanes: u64,
    sequence: Sequence,
    starts: Keyed,
    pieces: u64,
}

struct Piece {
    /// Turns of the lane that use samples of this piece.
    turns: Range<u64>,
    first: u64,
    key: u64,
}

/// The samples of a piece that one rank takes, from a given turn on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) sample: u64,
    /// Range of the piece's samples that contains the rank's portion.
    pub(super) span: Range<u64>,
    /// Number of samples that the rank still needs from the piece, including the current one.
    pub(super) rest: u64,
}

impl Lanes {
    /// Creates the lanes. `lanes` must be at least 1.
    pub(super) const fn new(runs: Runs, lanes: u64, runs_key: u64, starts: Keyed, pieces: u64) -> Self {
        Self { samples: runs.samples(), lanes, sequence: Sequence::new(runs, runs_key), starts, pieces }
    }

    /// Returns the piece and the turn of `position`, which must be below the number of samples.
    fn piece(&self, position: u64) -> (Piece, u64) {
        let (lane, turn) = (position % self.lanes, position / self.lanes);
        let (whole, more) = (self.samples / self.lanes, self.samples % self.lanes);
        let start = lane * whole + lane.min(more);
        let len = whole + u64::from(lane < more);
        let head = self.starts.below(len, lane);
        let place = if turn < len - head { head + turn } else { head + turn - len };
        let slot = self.sequence.slot(start + place);
        let run = slot.places.start.max(start) - start..slot.places.end.min(start + len) - start;
        let (run, turns) = if place >= head {
            let run = run.start.max(head)..run.end;
            (run.clone(), run.start - head..run.end - head)
        } else {
            let run = run.start..run.end.min(head);
            (run.clone(), run.start + len - head..run.end + len - head)
        };
        let first = slot.first + (start + run.start - slot.places.start);
        (Piece { turns, first, key: mix(self.pieces.wrapping_add(mix(first))) }, turn)
    }

    pub(super) fn sample(&self, position: u64) -> u64 {
        let (piece, turn) = self.piece(position);
        piece.first + deal::sample_of(&piece.turns, piece.key, turn)
    }

    /// Returns the portion of a rank that takes every `world_size`-th position, starting at `position`.
    pub(super) fn portion(&self, position: u64, world_size: u64) -> Portion {
        let (piece, turn) = self.piece(position);
        let sample = piece.first + deal::sample_of(&piece.turns, piece.key, turn);
        let sharing = sharing(self.lanes, world_size);
        let rest = (piece.turns.end - turn).div_ceil(sharing);
        let levels = if sharing.is_power_of_two() && sharing <= SPANS { sharing.trailing_zeros() } else { 0 };
        debug_assert!(levels <= LEVELS, "a span for each of {sharing} ranks");
        let span = deal::span_of(&piece.turns, piece.key, turn, levels);
        Portion { sample, span: piece.first + span.start..piece.first + span.end, rest }
    }
}

/// Returns the number of ranks that share a lane, out of `world_size` ranks. A `world_size` of 0 counts as 1.
pub(super) const fn sharing(lanes: u64, world_size: u64) -> u64 {
    let world_size = if world_size == 0 { 1 } else { world_size };
    let (mut a, mut b) = (lanes, world_size);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    world_size / a
}

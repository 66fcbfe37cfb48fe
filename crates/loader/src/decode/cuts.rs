//! How a large record is cut into parts.

use super::record::RowField;
use crate::rows::Share;
use crate::supply::{MadeField, steps};
use shardpack_format::FieldPlace;
use std::ops::Range;

/// A large value that may be cut.
pub(crate) struct LargeValue<'a> {
    pub(crate) of: &'a RowField<'a>,
    pub(crate) place: &'a FieldPlace<'a>,
    /// Bytes of its row.
    pub(crate) room: usize,
    /// Axes that the index promised, if it is ragged.
    pub(crate) dims: &'a [u64],
    /// Bytes of a part that is not decoded, about.
    pub(crate) part_bytes: usize,
}

impl LargeValue<'_> {
    /// Stored bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.place.bytes.end - self.place.bytes.start
    }
}

/// The parts of a record.
#[derive(Default)]
pub(crate) struct Cuts {
    pub(super) parts: Vec<Cut>,
    /// Where parts go in the row: the field, and the share of it.
    pub(super) rows: Vec<(usize, Share)>,
    /// Values that go to staging memory: the field, and where they are in the record.
    pub(super) staged: Vec<(usize, Range<u64>)>,
    pub(super) fields: Vec<MadeField>,
}

/// Consecutive bytes of a record.
pub(super) struct Cut {
    pub(super) bytes: Range<u64>,
    /// The field, and the number of the part in it.
    pub(super) of: Option<(usize, usize)>,
    pub(super) goal: CutGoal,
}

/// Where they go.
#[derive(Clone, Copy)]
pub(super) enum CutGoal {
    Nowhere,
    /// The number among those that go to the row.
    Row(usize),
    /// The number of the value among those that are staged, and of the part in that value.
    Stage(usize, usize),
}

impl Cuts {
    /// Adds a part of a field, which goes to `share` of its row.
    pub(crate) fn push_row(&mut self, bytes: Range<u64>, field: usize, part: usize, share: Share) {
        self.parts.push(Cut { bytes, of: Some((field, part)), goal: CutGoal::Row(self.rows.len()) });
        self.rows.push((field, share));
    }

    /// Adds a field that is staged, in parts of `step` bytes.
    pub(crate) fn push_staged(&mut self, field: usize, bytes: &Range<u64>, step: u64) {
        let value = self.staged.len();
        let cut = |(part, bytes)| Cut { bytes, of: Some((field, part)), goal: CutGoal::Stage(value, part) };
        self.parts.extend(steps(bytes, step).enumerate().map(cut));
        self.staged.push((field, bytes.clone()));
    }

    /// Adds a part of which only the CRC is wanted.
    pub(crate) fn push_unused(&mut self, bytes: Range<u64>, of: Option<(usize, usize)>) {
        self.parts.push(Cut { bytes, of, goal: CutGoal::Nowhere });
    }

    /// Whether a value is cut already.
    pub(super) fn has(&self, value: &Range<u64>) -> bool {
        self.parts.iter().any(|cut| value.contains(&cut.bytes.start))
    }
}

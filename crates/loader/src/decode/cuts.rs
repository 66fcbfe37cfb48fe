//! Cuts of a large record into parts.

use super::record::RowField;
use crate::rows::Share;
use crate::supply::{MadeField, steps};
use shardpack_format::FieldPlace;
use std::ops::Range;

pub(crate) struct LargeValue<'a> {
    pub(crate) of: &'a RowField<'a>,
    pub(crate) place: &'a FieldPlace<'a>,
    pub(crate) room: usize,
    /// Axes from the index, if it is ragged.
    pub(crate) dims: &'a [u64],
    /// Approximate bytes of a part that is not decoded.
    pub(crate) part_bytes: usize,
}

impl LargeValue<'_> {
    pub(crate) const fn bytes(&self) -> u64 {
        self.place.bytes.end - self.place.bytes.start
    }
}

#[derive(Default)]
pub(crate) struct Cuts {
    pub(super) parts: Vec<Cut>,
    /// Targets of parts in the row: the field, and the part's share of it.
    pub(super) rows: Vec<(usize, Share)>,
    /// Values that go to staging memory: the field, and the range in the record.
    pub(super) staged: Vec<(usize, Range<u64>)>,
    pub(super) fields: Vec<MadeField>,
}

/// Consecutive bytes of a record.
pub(super) struct Cut {
    pub(super) bytes: Range<u64>,
    /// Number of the field, and number of the part in the field.
    pub(super) of: Option<(usize, usize)>,
    pub(super) goal: CutGoal,
}

#[derive(Clone, Copy)]
pub(super) enum CutGoal {
    Nowhere,
    /// Number among the parts that go to the row.
    Row(usize),
    /// Number of the staged value, and number of the part in it.
    Stage(usize, usize),
}

impl Cuts {
    /// Adds a part of a field. It is written to `share` of the row.
    pub(crate) fn push_row(&mut self, bytes: Range<u64>, field: usize, part: usize, share: Share) {
        self.parts.push(Cut { bytes, of: Some((field, part)), goal: CutGoal::Row(self.rows.len()) });
        self.rows.push((field, share));
    }

    /// Adds a staged field, in parts of `step` bytes.
    pub(crate) fn push_staged(&mut self, field: usize, bytes: &Range<u64>, step: u64) {
        let value = self.staged.len();
        let cut = |(part, bytes)| Cut { bytes, of: Some((field, part)), goal: CutGoal::Stage(value, part) };
        self.parts.extend(steps(bytes, step).enumerate().map(cut));
        self.staged.push((field, bytes.clone()));
    }

    /// Adds a part that is read only for the CRC.
    pub(crate) fn push_unused(&mut self, bytes: Range<u64>, of: Option<(usize, usize)>) {
        self.parts.push(Cut { bytes, of, goal: CutGoal::Nowhere });
    }

    pub(super) fn has(&self, value: &Range<u64>) -> bool {
        self.parts.iter().any(|cut| value.contains(&cut.bytes.start))
    }
}

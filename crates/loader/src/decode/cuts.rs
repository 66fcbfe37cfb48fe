//! Divides a large record into parts.

use super::record::RowField;
use crate::rows::Share;
use crate::supply::{MadeField, steps};
use shardpack_format::FieldPlace;
use std::ops::Range;

pub(crate) struct LargeValue<'a> {
    pub(crate) of: &'a RowField<'a>,
    pub(crate) place: &'a FieldPlace<'a>,
    pub(crate) room: usize,
    /// Axis lengths of the value if it is ragged, from the index.
    pub(crate) dims: &'a [u64],
    /// Approximate size in bytes of each part of a value that needs no decoding.
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
    /// For each part that is decoded into the row: its field's index, and its share of the row.
    pub(super) rows: Vec<(usize, Share)>,
    /// For each value that is read into staging memory: its field's index, and its byte range in the record.
    pub(super) staged: Vec<(usize, Range<u64>)>,
    pub(super) fields: Vec<MadeField>,
}

pub(super) struct Cut {
    pub(super) bytes: Range<u64>,
    /// Index of the field, and of the part within that field.
    pub(super) of: Option<(usize, usize)>,
    pub(super) goal: CutGoal,
}

#[derive(Clone, Copy)]
pub(super) enum CutGoal {
    Nowhere,
    /// Index into [`Cuts::rows`].
    Row(usize),
    /// Index into [`Cuts::staged`], and index of the part within that value.
    Stage(usize, usize),
}

impl Cuts {
    pub(crate) fn push_row(&mut self, bytes: Range<u64>, field: usize, part: usize, share: Share) {
        self.parts.push(Cut { bytes, of: Some((field, part)), goal: CutGoal::Row(self.rows.len()) });
        self.rows.push((field, share));
    }

    /// Adds the value of a staged field, divided into parts of `step` bytes.
    pub(crate) fn push_staged(&mut self, field: usize, bytes: &Range<u64>, step: u64) {
        let value = self.staged.len();
        let cut = |(part, bytes)| Cut { bytes, of: Some((field, part)), goal: CutGoal::Stage(value, part) };
        self.parts.extend(steps(bytes, step).enumerate().map(cut));
        self.staged.push((field, bytes.clone()));
    }

    /// Adds a part that is read only to compute the CRC.
    pub(crate) fn push_unused(&mut self, bytes: Range<u64>, of: Option<(usize, usize)>) {
        self.parts.push(Cut { bytes, of, goal: CutGoal::Nowhere });
    }

    pub(super) fn has(&self, value: &Range<u64>) -> bool {
        self.parts.iter().any(|cut| value.contains(&cut.bytes.start))
    }
}

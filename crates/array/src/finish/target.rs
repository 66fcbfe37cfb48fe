//! Describes how decoded elements are converted, and where in a row they are written.

use super::room::Origins;
use super::singles::{self, RUN};
use super::{Factors, Fill, Finish};
use crate::halves::widen;
use crate::turn::Turn;
use crate::warp::Warp;
use shardpack_base::parts::{check_length, part_mut, split_mut};
use shardpack_format::{Dtype, ElementType, Error, Layout, Result, to_usize};
use std::ops::Range;

/// Maps decoded elements, in order, to the bytes of a row.
///
/// Elements arrive in *units*. A unit is a pixel with all its requested bands, or a single element if the bands arrive
/// one by one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(super) decoded: Dtype,
    pub(super) element: ElementType,
    /// Type of the elements after conversion. If pixels are interpolated, this is the type before the interpolation,
    /// otherwise the output type.
    pub(super) converted: ElementType,
    factors: Option<Factors>,
    fill: Option<Fill>,
    pub(super) warp: Option<Warp>,
    pub(super) turn: Turn,
    pub(super) size: [usize; 2],
    pub(super) window: [Range<usize>; 2],
    pub(super) bands: usize,
    pub(super) from: Layout,
    pub(super) to: Layout,
}

impl Target {
    /// Creates the target for an array with the given numbers of rows, columns and bands.
    ///
    /// # Errors
    /// Same as [`Finish::check`].
    pub(crate) fn new(finish: &Finish, decoded: Dtype, shape: [u64; 3], from: Layout, to: Layout) -> Result<Self> {
        let [rows, columns, _] = shape;
        Self::of_window(finish, decoded, shape, from, to, [0..rows, 0..columns])
    }

    /// Creates the target for a window of an array.
    ///
    /// # Errors
    /// Same as [`Finish::check`].
    pub(crate) fn of_window(
        finish: &Finish,
        decoded: Dtype,
        shape: [u64; 3],
        from: Layout,
        to: Layout,
        window: [Range<u64>; 2],
    ) -> Result<Self> {
        let [y, x] = &window;
        let [_, _, bands] = shape;
        if finish.volume.is_some() {
            return Err(Error::usage(
                "three-dimensional operations such as `random_affine_3d` apply only to patches of volumes",
            ));
        }
        let element = finish.check(decoded, [y.end - y.start, x.end - x.start, bands])?;
        // If an axis does not fit in the address space, the array has no elements.
        let [rows, columns, bands] = shape.map(to_usize);
        let is_mixed = finish.warp.is_some_and(|warp| warp.sampling.mixes());
        Ok(Self {
            decoded,
            element,
            converted: if is_mixed { Dtype::F32.into() } else { element },
            factors: finish.factors.clone(),
            fill: finish.fill,
            warp: finish.warp,
            turn: finish.turn,
            size: [rows, columns],
            window: window.map(|range| to_usize(range.start)..to_usize(range.end)),
            bands,
            from,
            to,
        })
    }

    pub(crate) const fn element(&self) -> ElementType {
        self.element
    }

    pub(crate) const fn bands(&self) -> usize {
        self.bands
    }

    /// Sets the order of the incoming elements.
    pub(crate) const fn given(mut self, from: Layout) -> Self {
        self.from = from;
        self
    }

    pub(crate) const fn from(&self) -> Layout {
        self.from
    }

    pub(crate) const fn each(&self) -> usize {
        match self.from {
            Layout::AsShape => self.bands,
            Layout::BandMajor => 1,
        }
    }

    /// True if all elements are output in their incoming order.
    pub(crate) fn is_straight(&self) -> bool {
        let [rows, columns] = self.size;
        let whole = self.window == [0..rows, 0..columns];
        whole && self.warp.is_none() && self.turn.is_none() && (self.from == self.to || self.bands == 1)
    }

    pub(crate) fn converts(&self) -> bool {
        self.changes() || self.converted != self.decoded
    }

    fn changes(&self) -> bool {
        self.factors.is_some() || self.fill.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let [rows, columns] = &self.window;
        rows.is_empty() || columns.is_empty() || self.bands == 0
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.is_straight() && !self.converts()
    }

    pub(crate) fn wants(&self, units: Range<usize>) -> bool {
        let ([rows, columns], [wanted, beside]) = (self.size, &self.window);
        let Some(last) = units.end.checked_sub(1).filter(|last| *last >= units.start) else { return false };
        let overlap = |range: Range<usize>, wanted: &Range<usize>| range.start < wanted.end && wanted.start < range.end;
        let line = |unit: usize| unit.checked_div(columns).unwrap_or(0);
        let (top, bottom) = (line(units.start), line(last));
        if top == bottom {
            let first = units.start - top * columns;
            return overlap(first..first + units.len(), beside)
                && top.checked_rem(rows).is_some_and(|row| wanted.contains(&row));
        }
        let row = top.checked_rem(rows).unwrap_or(0);
        // A range that extends into the next plane always counts as requested, without a detailed check.
        row + (bottom - top) >= rows || overlap(row..row + (bottom - top) + 1, wanted)
    }

    /// Returns the position of `units` in the row, counted in units. Returns `None` unless all units are requested and
    /// in the same line of pixels, and pixels are neither moved nor reordered.
    pub(crate) fn place_of_line(&self, units: Range<usize>) -> Option<usize> {
        let ([rows, columns], [y, x]) = (self.size, &self.window);
        if self.warp.is_some() || !self.turn.is_none() || (self.from, self.to) != (Layout::AsShape, Layout::AsShape) {
            return None;
        }
        let (row, column) = (units.start.checked_div(columns)?, units.start.checked_rem(columns)?);
        let is_asked = row < rows && y.contains(&row) && x.contains(&column) && column + units.len() <= x.end;
        is_asked.then(|| (row - y.start) * x.len() + column - x.start)
    }

    /// Returns a map from the row's bytes to units.
    pub(crate) fn origins(&self) -> Origins {
        let size = self.element.size();
        if self.is_straight() {
            return Origins::in_order(self.each() * size);
        }
        let [y, x] = &self.window;
        let (high, wide) = (y.len(), x.len());
        let turn = &self.turn;
        let number = shardpack_format::saturating_i64::<usize>;
        let [rows, columns] = self.size;
        let (columns, area) = (number(columns), number(rows).saturating_mul(number(columns)));
        let (row, column) = if turn.transpose { (1, columns) } else { (columns, 1) };
        let mut start = number(y.start).saturating_mul(columns).saturating_add(number(x.start));
        let mut along = |step: i64, flips: bool, length: usize| {
            if flips {
                start = start.saturating_add(step.saturating_mul(number(length.saturating_sub(1))));
            }
            if flips { -step } else { step }
        };
        // Rows and columns are exchanged only in square arrays.
        let (row, column) = (along(row, turn.flip_rows, high), along(column, turn.flip_columns, wide));
        let (unit_bytes, plane) = match (self.from, self.to) {
            (Layout::BandMajor, Layout::BandMajor) => (size, area),
            (_, Layout::BandMajor) => (size, 0),
            (_, Layout::AsShape) => (self.each() * size, 0),
        };
        Origins { plane_bytes: high * wide * unit_bytes, unit_bytes, columns: wide, start, plane, row, column }
    }

    /// Converts elements to output elements, starting with unit `first`.
    pub(super) fn convert(&self, first: usize, from: &[u8], to: &mut [u8]) -> Result<()> {
        let (width, size) = (self.decoded.size(), self.converted.size());
        check_length("finished elements", from.len() / width * size, to.len())?;
        if !self.converts() {
            to.copy_from_slice(from);
            return Ok(());
        }
        if (self.decoded, self.converted) == (Dtype::F16, Dtype::F32.into()) && !self.changes() {
            widen(from, to);
            return Ok(());
        }
        if self.from == Layout::AsShape {
            return self.convert_run(0, from, to);
        }
        let [rows, columns] = self.size;
        let plane = (rows * columns).max(1);
        let (mut from, mut to, mut at) = (from, to, first);
        while !from.is_empty() {
            let count = (plane - at % plane).min(from.len() / width);
            let (here, rest) = from.split_at_checked(count * width).unwrap_or((from, &[]));
            let (there, after) = split_mut(to, count * size, "elements in a band")?;
            self.convert_run(at / plane, here, there)?;
            (from, to, at) = (rest, after, at + count);
        }
        Ok(())
    }

    /// Converts elements. The first element belongs to band `band`. If units are pixels, the elements cycle through the
    /// bands. Otherwise all elements belong to the same band.
    fn convert_run(&self, band: usize, from: &[u8], to: &mut [u8]) -> Result<()> {
        let mut singles = [0.0; RUN];
        let (width, size) = (self.decoded.size(), self.converted.size());
        for (number, (from, to)) in from.chunks(RUN * width).zip(to.chunks_mut(RUN * size)).enumerate() {
            let run = part_mut(&mut singles, 0..from.len() / width, "elements in a run")?;
            singles::load(self.decoded, from, run);
            if let Some(factors) = &self.factors {
                match self.each() {
                    1 => factors.normalise_band(band, run),
                    each => factors.normalise(number * RUN % each, run),
                }
            }
            if let Some(fill) = self.fill {
                fill.put(self.decoded, from, run);
            }
            singles::store(self.converted, run, to);
        }
        Ok(())
    }

    /// Returns the value that replaces no-data, if elements must be marked. Elements are marked only if pixels
    /// are interpolated, because a mean that includes no-data becomes no-data.
    pub(super) fn marked_fill(&self) -> Option<f32> {
        let is_mixed = self.warp.is_some_and(|warp| warp.sampling.mixes());
        self.fill.filter(|_| is_mixed).map(|fill| fill.with)
    }

    /// Marks no-data elements with 1 and all others with 0.
    pub(super) fn mark(&self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let Some(fill) = self.fill else { return Ok(()) };
        for (from, to) in from.chunks(RUN * self.decoded.size()).zip(to.chunks_mut(RUN)) {
            let mut marks = [0.0; RUN];
            let marks = part_mut(&mut marks, 0..to.len(), "marks of a run")?;
            Fill { with: 1.0, ..fill }.put(self.decoded, from, marks);
            to.iter_mut().zip(marks).for_each(|(to, mark)| *to = u8::from(*mark != 0.0));
        }
        Ok(())
    }
}

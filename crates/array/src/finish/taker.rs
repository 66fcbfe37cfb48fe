//! Converts decoded elements while they are in the cache, and writes them to a row.

use super::room::{OutputRow, place};
use super::target::Target;
use super::warped::{Held, WarpScratch, warped};
use crate::arrange::PIECE_ELEMENTS;
use crate::warp::Warp;
use shardpack_base::parts::{grow, part, rest};
use shardpack_format::{Layout, Result};
use std::ops::Range;

#[derive(Default)]
pub(crate) struct TakerScratch {
    finished: Vec<u8>,
    /// Elements that are held back until all of them have arrived. This buffer never shrinks.
    held: Vec<u8>,
    /// No-data marks of the held elements, if they are needed.
    marks: Vec<u8>,
    warp: WarpScratch,
}

/// Writes decoded elements to an output row, unit by unit.
pub(crate) struct Taker<'a> {
    target: &'a Target,
    scratch: &'a mut TakerScratch,
    out: &'a mut dyn OutputRow,
    /// Index of the next unit to arrive, and index of the first held unit.
    next: usize,
    held: usize,
}

struct Line {
    start: usize,
    step: usize,
    count: usize,
    reversed: bool,
}

impl<'a> Taker<'a> {
    pub(crate) fn new(
        target: &'a Target,
        scratch: &'a mut TakerScratch,
        out: &'a mut dyn OutputRow,
        first: usize,
    ) -> Self {
        Self { target, scratch, out, next: first, held: first }
    }

    /// Reserves memory for exactly `units` units if units are held back.
    pub(crate) fn expect(&mut self, units: usize) {
        if self.holds() {
            let bytes = units * self.target.each() * self.target.converted.size();
            self.scratch.held.reserve_exact(bytes.saturating_sub(self.scratch.held.len()));
        }
    }

    /// True if units are held until all of them have arrived. Units are held if rows become columns, because the
    /// output can then be written contiguously, or if an output pixel depends on several input pixels.
    fn holds(&self) -> bool {
        self.target.warp.is_some() || self.target.turn.transpose && !self.target.is_straight()
    }

    /// Returns the number of elements in a unit, which is at least 1.
    pub(crate) fn each(&self) -> usize {
        self.target.each().max(1)
    }

    /// Returns true if at least one of the next `units` units is requested. Otherwise skips them.
    pub(crate) fn wants(&mut self, units: usize) -> bool {
        let wants = self.target.wants(self.next..self.next + units);
        if !wants {
            self.next += units;
        }
        wants
    }

    /// Skips to `unit`. None of the skipped units may be requested.
    pub(crate) fn skip_to(&mut self, unit: usize) -> Result<()> {
        self.finish()?;
        (self.next, self.held) = (unit, unit);
        Ok(())
    }

    pub(crate) fn take(&mut self, elements: &[u8]) -> Result<()> {
        let target = self.target;
        let (width, size) = (target.each() * target.decoded.size(), target.each() * target.element.size());
        if target.is_straight() {
            let units = elements.len().checked_div(width).unwrap_or(0);
            let to = place(self.out, self.next * size..(self.next + units) * size)?;
            target.convert(self.next, elements, to)?;
            self.next += units;
            return Ok(());
        }
        let units = elements.len().checked_div(width).unwrap_or(0);
        if let Some(pixel) = target.place_of_line(self.next..self.next + units) {
            target.convert(self.next, elements, place(self.out, pixel * size..(pixel + units) * size)?)?;
            self.next += units;
            return Ok(());
        }
        let step = (PIECE_ELEMENTS / target.each().max(1)).max(1);
        for piece in elements.chunks((step * width).max(1)) {
            let units = piece.len() / width;
            if self.holds() {
                let (start, size) = ((self.next - self.held) * target.each(), target.converted.size());
                let end = start + units * target.each();
                let held = grow(&mut self.scratch.held, end * size);
                target.convert(self.next, piece, held.get_mut(start * size..).unwrap_or_default())?;
                if target.marked_fill().is_some() {
                    target.mark(piece, grow(&mut self.scratch.marks, end).get_mut(start..).unwrap_or_default())?;
                }
            } else if target.converts() {
                let finished = grow(&mut self.scratch.finished, units * size);
                target.convert(self.next, piece, finished)?;
                put(target, self.next, finished, self.out)?;
            } else {
                put(target, self.next, piece, self.out)?;
            }
            self.next += units;
        }
        Ok(())
    }

    /// Writes the held elements to the row.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let target = self.target;
        if let Some(warp) = &target.warp {
            return self.warp(warp);
        }
        if self.holds() {
            // If the last units were skipped, fewer elements are held.
            let bytes = (self.next - self.held) * target.each() * target.element.size();
            put(target, self.held, grow(&mut self.scratch.held, bytes), self.out)?;
            self.held = self.next;
        }
        Ok(())
    }

    /// Computes the warped pixels from the held pixels, and writes them to the row.
    fn warp(&mut self, warp: &Warp) -> Result<()> {
        let TakerScratch { held, marks, warp: scratch, .. } = &mut *self.scratch;
        let elements = (self.next - self.held) * self.target.each();
        let no_data = match self.target.marked_fill() {
            Some(with) => Some((part(marks, 0..elements, "marks of held elements")?, with)),
            None => None,
        };
        let elements = part(held, 0..elements * self.target.converted.size(), "held elements")?;
        let held = Held { elements, no_data };
        warped(self.target, warp, &held, scratch, |first, line| put(self.target, first, line, self.out))
    }
}

/// Writes `elements` to their places in the row. The first element belongs to the unit `first`.
fn put(target: &Target, first: usize, elements: &[u8], out: &mut dyn OutputRow) -> Result<()> {
    let [rows, columns] = target.size;
    let unit = target.each() * target.element.size();
    let count = elements.len().checked_div(unit).unwrap_or(0);
    let mut done = 0;
    while done < count {
        let (plane, pixel) = ((first + done) / (rows * columns), (first + done) % (rows * columns));
        let (y, x, left) = (pixel / columns, pixel % columns, count - done);
        let (high, wide) = match x == 0 && left >= columns {
            true => ((left / columns).min(rows - y), columns),
            false => (1, left.min(columns - x)),
        };
        let from = rest(elements, done * unit, "elements in a rectangle")?;
        put_rectangle(target, plane, [y..y + high, x..x + wide], from, out)?;
        done += high * wide;
    }
    Ok(())
}

fn put_rectangle(
    target: &Target,
    plane: usize,
    [rows, columns]: [Range<usize>; 2],
    from: &[u8],
    out: &mut dyn OutputRow,
) -> Result<()> {
    let (turn, [y, x]) = (&target.turn, &target.window);
    let unit = target.each() * target.element.size();
    let ys = rows.start.max(y.start)..rows.end.min(y.end);
    let xs = columns.start.max(x.start)..columns.end.min(x.end);
    if ys.is_empty() || xs.is_empty() {
        return Ok(());
    }
    let pitch = columns.len() * unit;
    let at = |row: usize, column: usize| (row - rows.start) * pitch + (column - columns.start) * unit;
    let along = |run: &Range<usize>, window: &Range<usize>, flips: bool| match flips {
        true => window.end - run.end,
        false => run.start - window.start,
    };
    let (lines, line, window_lines, window_line) = match turn.transpose {
        true => (xs.clone(), ys.clone(), x, y),
        false => (ys.clone(), xs.clone(), y, x),
    };
    let (step, count) = (if turn.transpose { pitch } else { unit }, line.len());
    for number in lines {
        let row = along(&(number..number + 1), window_lines, turn.flip_rows);
        let pixel = row * window_line.len() + along(&line, window_line, turn.flip_columns);
        let start = if turn.transpose { at(line.start, number) } else { at(number, line.start) };
        put_line(target, plane, pixel, &Line { start, step, count, reversed: turn.flip_columns }, from, out)?;
    }
    Ok(())
}

fn put_line(
    target: &Target,
    plane: usize,
    pixel: usize,
    line: &Line,
    from: &[u8],
    out: &mut dyn OutputRow,
) -> Result<()> {
    let [y, x] = &target.window;
    let (size, area) = (target.element.size(), y.len() * x.len());
    if (target.from, target.to) != (Layout::AsShape, Layout::BandMajor) {
        let unit = target.each() * size;
        let start = (plane * area + pixel) * unit;
        return gather(from, line, unit, place(out, start..start + line.count * unit)?);
    }
    for band in 0..target.bands {
        let start = (band * area + pixel) * size;
        let line = Line { start: line.start + band * size, ..*line };
        gather(from, &line, size, place(out, start..start + line.count * size)?)?;
    }
    Ok(())
}

fn gather(from: &[u8], line: &Line, unit: usize, to: &mut [u8]) -> Result<()> {
    let from = rest(from, line.start, "units in a line")?;
    if line.step == unit && !line.reversed {
        to.copy_from_slice(part(from, 0..to.len(), "units in a line")?);
        return Ok(());
    }
    let needed = (line.count - 1) * line.step + unit;
    let from = part(from, 0..needed, "units in a line")?;
    // If the length is known at compile time, each copy is a single instruction.
    match unit {
        1 => gather_by::<1>(from, line, to),
        2 => gather_by::<2>(from, line, to),
        4 => gather_by::<4>(from, line, to),
        8 => gather_by::<8>(from, line, to),
        _ => each(from.chunks(line.step), to.chunks_exact_mut(unit), line.reversed, |from, to| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
            }
        }),
    }
    Ok(())
}

fn gather_by<const N: usize>(from: &[u8], line: &Line, to: &mut [u8]) {
    each(from.chunks(line.step), to.as_chunks_mut::<N>().0.iter_mut(), line.reversed, |from, to| {
        if let Some(from) = from.first_chunk() {
            *to = *from;
        }
    });
}

#[inline(always)]
fn each<F, T: DoubleEndedIterator>(from: impl Iterator<Item = F>, to: T, reversed: bool, copy: impl Fn(F, T::Item)) {
    match reversed {
        true => from.zip(to.rev()).for_each(|(from, to)| copy(from, to)),
        false => from.zip(to).for_each(|(from, to)| copy(from, to)),
    }
}

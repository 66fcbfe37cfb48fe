//! Coefficients of a few rows of MCUs at a time.
//!
//! Segments begin and end anywhere. Those that are decoded are stored one behind the other. So the
//! shown MCUs of a row, which lie in segments without a gap, stand side by side.
#![deny(clippy::indexing_slicing)]

use super::layout::{BAND_ROWS, Layout};
use super::segments::{Segment, Segments};
use super::streams::{BlockReader, Coefficients, Phase, decode_all, decode_one, integrate};
use super::tables::Tables;
use std::ops::Range;

/// Most blocks of an MCU.
const MOST_BLOCKS: usize = 6;

/// Room for a band's coefficients.
#[derive(Default)]
pub(super) struct Bands {
    blocks: Vec<Coefficients>,
    lasts: Vec<u8>,
}

/// Coefficients of whole segments, among them those of some rows of MCUs.
pub(super) struct Band<'a> {
    /// Rows of the picture, in MCUs.
    pub(super) rows: Range<usize>,
    /// For each of them, where the first block of its shown MCUs stands.
    pub(super) starts: [usize; BAND_ROWS],
    /// The blocks of one MCU after those of the previous one.
    pub(super) blocks: &'a [Coefficients],
    /// For each block, the zigzag position of its last coefficient.
    pub(super) lasts: &'a [u8],
}

/// A picture while the entropy decoder works on it.
pub(super) struct Reading<'a> {
    layout: &'a Layout,
    segments: &'a Segments,
    phases: [Phase<'a>; MOST_BLOCKS],
    bands: &'a mut Bands,
    row: usize,
    /// Blocks of the band before.
    size: usize,
    /// The next one of `segments`.
    index: usize,
    /// If segments are longer than a row: the next MCU, the segment that it is in, if that has
    /// begun, and its predictions.
    mcu: usize,
    current: Option<Segment<'a>>,
    predictions: [i32; 3],
}

impl Bands {
    pub(super) const fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Coefficients>()
    }

    /// Starts before the first of the layout's decoded rows.
    #[inline(always)]
    pub(super) fn begin<'a>(
        &'a mut self,
        layout: &'a Layout,
        tables: &'a Tables,
        segments: &'a Segments,
    ) -> Option<Reading<'a>> {
        let phase = |component| tables.huffman(component).map(|(dc, ac)| Phase { component, dc, ac });
        let mut phases = [phase(0)?; MOST_BLOCKS];
        let luma = layout.h * layout.v;
        for (component, place) in (1..layout.components).zip(phases.iter_mut().skip(luma)) {
            *place = phase(component)?;
        }
        let shown = layout.shown_rows.start;
        let mcu = layout.mcus(layout.segments(shown).start).start;
        let row = if layout.short { shown } else { mcu / layout.columns };
        let predictions = [0; 3];
        Some(Reading { layout, segments, phases, bands: self, row, size: 0, index: 0, mcu, current: None, predictions })
    }

    /// Makes room for so many blocks.
    fn grow(&mut self, size: usize) {
        if self.blocks.len() < size {
            self.blocks.resize(size, [0; 64]);
            self.lasts.resize(size, 0);
        }
    }
}

impl<'a> Reading<'a> {
    /// Decodes the next rows. The inner `None` means that there are none left, the outer `None`
    /// that something is odd.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Option<Band<'_>>> {
        let layout = self.layout;
        let rows = self.row..layout.shown_rows.end.min(self.row + layout.band);
        if rows.is_empty() {
            return self.finish().then_some(None);
        }
        let starts = if layout.short { self.short(&rows)? } else { self.long(rows.start)? };
        self.row = rows.end;
        let blocks = self.bands.blocks.get(..self.size)?;
        let lasts = self.bands.lasts.get(..self.size)?;
        Some(Some(Band { rows, starts, blocks, lasts }))
    }

    /// Decodes all segments of these rows, but for the one that was decoded with the row above.
    #[inline(always)]
    fn short(&mut self, rows: &Range<usize>) -> Option<[usize; BAND_ROWS]> {
        let layout = self.layout;
        let mcu = layout.blocks;
        let segment = layout.interval * mcu;
        // It stands last in the band above, and is never the picture's last one, which may be
        // shorter.
        let held = layout.segments(rows.start).len() - layout.new_segments(rows.start).len();
        let (mut count, mut starts) = (held, [0; BAND_ROWS]);
        let mut last = 0;
        for (row, start) in rows.clone().zip(&mut starts) {
            let of_row = layout.segments(row);
            count += layout.new_segments(row).len();
            let before = row * layout.columns + layout.shown_columns.start - of_row.start * layout.interval;
            *start = (count - of_row.len()) * segment + before * mcu;
            last = of_row.end - 1;
        }
        let size = (count - 1) * segment + layout.mcus(last).len() * mcu;
        let held = held * segment;
        self.bands.grow(size);
        let Bands { blocks, lasts } = &mut *self.bands;
        blocks.copy_within(self.size - held..self.size, 0);
        lasts.copy_within(self.size - held..self.size, 0);
        let (blocks, lasts) = (blocks.get_mut(held..size)?, lasts.get_mut(held..size)?);
        blocks.fill([0; 64]);
        let phases = self.phases.get(..mcu)?;
        let all = (self.index..).zip(blocks.chunks_mut(segment).zip(lasts.chunks_mut(segment)));
        decode_all(all.map(
            #[inline(always)]
            |(n, (blocks, lasts))| BlockReader::new(self.segments.get(n)?, phases, blocks, lasts),
        ))?;
        for segment in blocks.chunks_mut(segment) {
            integrate(segment, phases, &mut [0; 3])?;
            self.index += 1;
        }
        self.size = size;
        Some(starts)
    }

    /// Decodes a row, with what begins the segment before the first one.
    #[inline(always)]
    fn long(&mut self, row: usize) -> Option<[usize; BAND_ROWS]> {
        let layout = self.layout;
        let mcu = layout.blocks;
        let (first, end) = (row * layout.columns, (row + 1) * layout.columns);
        self.size = layout.columns * mcu;
        self.bands.grow(self.size);
        let Bands { blocks, lasts } = &mut *self.bands;
        blocks.get_mut(..self.size)?.fill([0; 64]);
        let phases = self.phases.get(..mcu)?;
        while self.mcu < end {
            let mcus = layout.mcus(self.mcu / layout.interval);
            let segment = match self.current.take() {
                Some(segment) if self.mcu > mcus.start => segment,
                before => {
                    before.is_none_or(|segment| segment.is_read()).then_some(())?;
                    self.predictions = [0; 3];
                    self.index += 1;
                    self.segments.get(self.index - 1)?
                }
            };
            let to = mcus.end.min(end);
            let part = (self.mcu - first) * mcu..(to - first) * mcu;
            let (blocks, lasts) = (blocks.get_mut(part.clone())?, lasts.get_mut(part)?);
            // After its end come zeros or the next segment, which also have a meaning.
            self.current =
                Some(decode_one(BlockReader::new(segment, phases, blocks, lasts)?)?).filter(Segment::is_within);
            self.current?;
            integrate(blocks, phases, &mut self.predictions)?;
            self.mcu = to;
        }
        Some([layout.shown_columns.start * mcu; BAND_ROWS])
    }

    /// Whether the last segment ended where it should, if it was read to its end. A segment that
    /// continues below the rectangle was not.
    fn finish(&self) -> bool {
        let mcus = self.layout.columns * self.layout.rows;
        let through = self.mcu == mcus || self.mcu.is_multiple_of(self.layout.interval);
        !through || self.current.is_none_or(|segment| segment.is_read())
    }
}

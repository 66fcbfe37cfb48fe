//! Decodes the coefficients of a few MCU rows at a time.
//!
//! Segments may begin and end anywhere in a row. Their blocks are stored without gaps, so the MCUs of a row that the
//! window needs are contiguous.
#![deny(clippy::indexing_slicing)]

use super::layout::{BAND_ROWS, Layout};
use super::segments::{Segment, Segments};
use super::streams::{BlockReader, Coefficients, Phase, decode_all, decode_one, integrate};
use super::tables::Tables;
use std::ops::Range;

/// Maximum number of blocks in an MCU.
pub(super) const MOST_BLOCKS: usize = 6;

#[derive(Default)]
pub(super) struct Bands {
    blocks: Vec<Coefficients>,
    lasts: Vec<u8>,
}

/// Coefficients of a few rows of MCUs, from all segments that cover these rows.
pub(super) struct Band<'a> {
    /// MCU rows of the picture that this band covers.
    pub(super) rows: Range<usize>,
    /// For each row, the index in `blocks` of the first block that the window needs.
    pub(super) starts: [usize; BAND_ROWS],
    /// Blocks of all decoded segments, in the order of their MCUs.
    pub(super) blocks: &'a [Coefficients],
    /// For each block, the zigzag position of its last coefficient.
    pub(super) lasts: &'a [u8],
}

/// Progress of the entropy decoder within a picture.
pub(super) struct Reading<'a> {
    layout: &'a Layout,
    segments: &'a Segments,
    phases: [Phase<'a>; MOST_BLOCKS],
    bands: &'a mut Bands,
    row: usize,
    /// Number of blocks in the previous band.
    size: usize,
    index: usize,
    /// Next MCU to decode. Like the two fields below (the partly decoded segment and the DC predictions), it is used
    /// only if segments are longer than a row.
    mcu: usize,
    current: Option<Segment<'a>>,
    predictions: [i32; 3],
}

impl Bands {
    pub(super) const fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Coefficients>()
    }

    /// Starts decoding at the first row that the layout needs.
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

    fn grow(&mut self, size: usize) {
        if self.blocks.len() < size {
            self.blocks.resize(size, [0; 64]);
            self.lasts.resize(size, 0);
        }
    }
}

impl<'a> Reading<'a> {
    /// Decodes the next rows. Returns `None` if the picture is irregular, and `Some(None)` after the last
    /// row.
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

    /// Decodes all segments that these rows need, except a segment that was already decoded with the row above.
    #[inline(always)]
    fn short(&mut self, rows: &Range<usize>) -> Option<[usize; BAND_ROWS]> {
        let layout = self.layout;
        let mcu = layout.blocks;
        let segment = layout.interval * mcu;
        // If this segment was already decoded with the band above, it is that band's last segment. It has the usual
        // size, because only the last segment of the picture may be shorter.
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
            let (mut predictions, expected) = self.segments.predictions(self.index)?;
            integrate(segment, phases, &mut predictions)?;
            expected.is_none_or(|expected| expected == predictions).then_some(())?;
            self.index += 1;
        }
        self.size = size;
        Some(starts)
    }

    /// Decodes one row. The first call also decodes the part of the row's segment above the row.
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
            // The decoder would also accept the zeros or the segment after the end of this segment. Therefore check
            // that it has not read past the end.
            self.current =
                Some(decode_one(BlockReader::new(segment, phases, blocks, lasts)?)?).filter(Segment::is_within);
            self.current?;
            integrate(blocks, phases, &mut self.predictions)?;
            self.mcu = to;
        }
        Some([layout.shown_columns.start * mcu; BAND_ROWS])
    }

    /// Returns true if the last segment ended at the right position. A segment that continues below the
    /// rectangle always passes, because it is not read to its end.
    fn finish(&self) -> bool {
        let mcus = self.layout.columns * self.layout.rows;
        let through = self.mcu == mcus || self.mcu.is_multiple_of(self.layout.interval);
        !through || self.current.is_none_or(|segment| segment.is_read())
    }
}

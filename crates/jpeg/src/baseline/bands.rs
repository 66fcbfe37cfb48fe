//! Coefficients of a few rows of MCUs at a time.
#![deny(clippy::indexing_slicing)]

use super::layout::Layout;
use super::segments::{Segment, Segments};
use super::streams::{Block, Phase, Stream, decode_all, decode_one, integrate};
use super::tables::Tables;
use std::ops::Range;

/// Most blocks of an MCU.
const MOST_BLOCKS: usize = 6;

/// Room for a band's coefficients.
#[derive(Default)]
pub(super) struct Bands {
    blocks: Vec<Block>,
    lasts: Vec<u8>,
}

/// Coefficients of whole rows of MCUs.
pub(super) struct Band<'a> {
    /// Rows of the picture, in MCUs.
    pub(super) rows: Range<usize>,
    /// The layout's decoded columns of each row: the blocks of one MCU after those of the previous
    /// one.
    pub(super) blocks: &'a [Block],
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
    /// The next segment.
    index: usize,
    /// If segments are rows or more: the one being read, and its predictions.
    current: Option<Segment<'a>>,
    predictions: [i32; 3],
}

impl Bands {
    pub(super) const fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
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
        let size = layout.decoded_columns.len() * layout.blocks * layout.band;
        if self.blocks.len() < size {
            self.blocks.resize(size, [0; 64]);
            self.lasts.resize(size, 0);
        }
        let (row, predictions) = (layout.decoded_rows.start, [0; 3]);
        Some(Reading { layout, segments, phases, bands: self, row, index: 0, current: None, predictions })
    }
}

impl<'a> Reading<'a> {
    /// Decodes the next rows. The inner `None` means that there are none left, the outer `None`
    /// that something is odd.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Option<Band<'_>>> {
        let layout = self.layout;
        let rows = self.row..layout.decoded_rows.end.min(self.row + layout.band);
        if rows.is_empty() {
            return self.finish().then_some(None);
        }
        let size = rows.len() * layout.decoded_columns.len() * layout.blocks;
        let phases = self.phases.get(..layout.blocks)?;
        let blocks = self.bands.blocks.get_mut(..size)?;
        let lasts = self.bands.lasts.get_mut(..size)?;
        blocks.fill([0; 64]);
        if layout.tiled {
            let tile = layout.across * layout.blocks;
            let tiles = (self.index..).zip(blocks.chunks_exact_mut(tile).zip(lasts.chunks_exact_mut(tile)));
            decode_all(tiles.map(
                #[inline(always)]
                |(n, (blocks, lasts))| Stream::new(self.segments.get(n)?, phases, blocks, lasts),
            ))?;
            self.index += size / tile;
            for tile in blocks.chunks_exact_mut(tile) {
                integrate(tile, phases, &mut [0; 3])?;
            }
        } else {
            let segment = match self.current.take() {
                Some(segment) if !rows.start.is_multiple_of(layout.down) => segment,
                before => {
                    before.is_none_or(|segment| segment.is_read()).then_some(())?;
                    self.predictions = [0; 3];
                    self.index += 1;
                    self.segments.get(self.index - 1)?
                }
            };
            // After its end come zeros or the next segment, which also have a meaning.
            self.current = Some(decode_one(Stream::new(segment, phases, blocks, lasts)?)?).filter(Segment::is_within);
            self.current?;
            integrate(blocks, phases, &mut self.predictions)?;
        }
        self.row = rows.end;
        Some(Some(Band { rows, blocks, lasts }))
    }

    /// Whether the last segment ended where it should, if it was read to its end. A segment that
    /// continues below the rectangle was not.
    fn finish(&self) -> bool {
        let through = self.row == self.layout.rows || self.row.is_multiple_of(self.layout.down);
        !through || self.current.is_none_or(|segment| segment.is_read())
    }
}

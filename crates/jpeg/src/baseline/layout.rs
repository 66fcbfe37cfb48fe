//! Geometry of a picture, and the segments that must be decoded for a rectangle.
#![deny(clippy::indexing_slicing)]

use crate::interval::LONGEST;
use crate::{JpegHeader, Rect, SegmentIndex};
use std::ops::Range;

/// Minimum number of segments in a band. Segments are decoded in pairs. The more segments a band has, the fewer are
/// decoded alone.
const BAND_SEGMENTS: usize = 6;
/// Maximum number of MCU rows in a band. More rows would not fit into the caches.
pub(super) const BAND_ROWS: usize = 4;

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) window: Rect,
    /// Luma blocks per MCU horizontally: 1 or 2.
    pub(super) h: usize,
    /// Luma blocks per MCU vertically: 1 or 2.
    pub(super) v: usize,
    pub(super) components: usize,
    pub(super) blocks: usize,
    /// Size of the picture in MCUs.
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Size of the picture's chroma, in samples.
    pub(super) chroma_width: usize,
    pub(super) chroma_height: usize,
    /// Number of MCUs per segment. The last segment may have fewer.
    pub(super) interval: usize,
    /// MCUs between restart markers: equal to `interval`, or larger for a picture with an index.
    pub(super) restart_interval: usize,
    /// True if no segment is longer than a row. Short segments are always decoded as a whole. Longer segments are
    /// decoded row by row, up to the last needed row.
    pub(super) short: bool,
    /// MCUs whose samples are computed: the MCUs of the window, and the neighbours that upsampling needs.
    pub(super) shown_columns: Range<usize>,
    pub(super) shown_rows: Range<usize>,
    pub(super) band: usize,
}

impl Layout {
    /// Computes the layout of a picture. If there is an index, it determines the segments. Returns `None` if this
    /// decoder does not support the picture, or the index belongs to a different picture.
    pub(super) fn of(header: &JpegHeader, window: Rect, index: Option<&SegmentIndex<'_>>) -> Option<Self> {
        // libjpeg reports its own error for unknown marker segments.
        if !header.is_plain() || header.unknown_segment {
            return None;
        }
        let grid = header.common_grid()?;
        window.check(header.width.into(), header.height.into()).ok()?;
        let [shown_columns, shown_rows] = grid.shown(window).map(|Range { start, end }| start as usize..end as usize);
        let restart_interval = grid.restart_interval(header.restart_interval);
        let interval = match index {
            None => restart_interval,
            Some(index) => index.fits(&grid, restart_interval).then_some(index.interval())?,
        } as usize;
        let columns = grid.columns as usize;
        let short = interval <= columns;
        let segments = shown_columns.len().div_ceil(interval);
        let band = if short { BAND_SEGMENTS.div_ceil(segments).min(BAND_ROWS) } else { 1 };
        Some(Self {
            window,
            h: grid.h as usize,
            v: grid.v as usize,
            components: grid.components as usize,
            blocks: grid.blocks as usize,
            columns,
            rows: grid.rows as usize,
            chroma_width: grid.chroma_width as usize,
            chroma_height: grid.chroma_height as usize,
            interval,
            restart_interval: restart_interval as usize,
            short,
            shown_columns,
            shown_rows,
            band,
        })
    }

    /// Returns true if restart markers already divide the picture into segments that are short enough to need no index.
    pub(super) const fn has_short_segments(&self) -> bool {
        self.short && self.interval * self.blocks <= LONGEST as usize
    }

    /// Returns the MCUs of a segment, numbered row by row.
    pub(super) fn mcus(&self, segment: usize) -> Range<usize> {
        segment * self.interval..((segment + 1) * self.interval).min(self.columns * self.rows)
    }

    /// Returns the segments to decode for a row. If segments are longer than a row, these are all segments of the
    /// row. Otherwise they are the segments that contain the needed MCUs of the row.
    pub(super) fn segments(&self, row: usize) -> Range<usize> {
        let columns = if self.short { self.shown_columns.clone() } else { 0..self.columns };
        let first = row * self.columns;
        (first + columns.start) / self.interval..(first + columns.end - 1) / self.interval + 1
    }

    /// Returns the segments to decode for a row, without the first one if the row above also needs it.
    pub(super) fn new_segments(&self, row: usize) -> Range<usize> {
        let Range { start, end } = self.segments(row);
        match row.checked_sub(1).filter(|above| self.shown_rows.contains(above)) {
            Some(above) => start.max(self.segments(above).end)..end,
            None => start..end,
        }
    }

    /// Returns the number of blocks of a component per MCU, horizontally and vertically.
    pub(super) const fn factors(&self, component: usize) -> (usize, usize) {
        if component == 0 { (self.h, self.v) } else { (1, 1) }
    }
}

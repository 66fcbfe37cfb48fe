//! A picture's grid of MCUs, and the part of the grid that a view needs.

use super::Reason;
use super::options::StagingOptions;
use shardpack_jpeg::{JpegHeader, Placement, SegmentIndex, StoredPicture};

/// Sizes from a picture's frame header, in MCUs unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct McuGrid {
    pub(super) columns: u32,
    pub(super) rows: u32,
    /// Number of MCUs per segment.
    pub(super) interval: u32,
    /// Number of MCUs between restart markers: `interval`, or more for a picture with a segment index.
    pub(super) restart_interval: u32,
    pub(super) components: u32,
    /// Number of luma blocks of an MCU, horizontally and vertically.
    pub(super) h: u32,
    pub(super) v: u32,
    pub(super) chroma_width: u32,
    pub(super) chroma_height: u32,
}

/// Rectangle of MCUs whose samples are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct McuRect {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

impl McuGrid {
    fn of(header: &JpegHeader) -> Result<Self, Reason> {
        if !header.is_plain() {
            return Err(Reason::Process);
        }
        if header.is_rgb() || !matches!(header.components().len(), 1 | 3) {
            return Err(Reason::Colours);
        }
        let mcu = header.sampling().mcu().ok_or(Reason::Sampling)?;
        let frame = Self::new(header.width.into(), header.height.into(), mcu, header.restart_interval.into());
        // libjpeg does not interpolate chroma rows that are this narrow.
        if frame.h == 2 && frame.chroma_width <= 2 {
            return Err(Reason::Sampling);
        }
        Ok(frame)
    }

    /// Returns the grid of a picture of the given size, with MCUs as in [`Sampling::mcu`].
    ///
    /// [`Sampling::mcu`]: shardpack_jpeg::Sampling::mcu
    pub(super) fn new(width: u32, height: u32, [h, v, components]: [u32; 3], interval: u32) -> Self {
        let (columns, rows) = (width.div_ceil(8 * h), height.div_ceil(8 * v));
        let (chroma_width, chroma_height) = (width.div_ceil(h), height.div_ceil(v));
        let mcus = columns * rows;
        let interval = if interval == 0 { mcus } else { interval.min(mcus) };
        let restart_interval = interval;
        Self { columns, rows, interval, restart_interval, components, h, v, chroma_width, chroma_height }
    }

    /// Returns the grid with the segments of `index`, or `None` if the index belongs to a different picture.
    pub(super) fn with(self, index: &SegmentIndex<'_>) -> Option<Self> {
        let mcus = self.columns * self.rows;
        let fits = index.fits(self.columns, mcus, self.restart_interval, self.components as usize);
        fits.then_some(self.with_interval(index.interval()))
    }

    pub(super) const fn with_interval(self, interval: u32) -> Self {
        Self { interval, ..self }
    }

    pub(super) const fn has_markers(&self) -> bool {
        self.restart_interval < self.columns * self.rows
    }

    pub(super) fn marker_after(&self, segment: u32) -> Option<u8> {
        let (mcus, all) = ((segment + 1) * self.interval, self.columns * self.rows);
        let is_marked = self.has_markers() && mcus < all && mcus.is_multiple_of(self.restart_interval);
        is_marked.then(|| 0xD0 | (mcus / self.restart_interval - 1).to_le_bytes()[0] & 7)
    }

    pub(super) const fn segments(&self) -> u32 {
        (self.columns * self.rows).div_ceil(self.interval)
    }

    pub(super) const fn segment_blocks(&self) -> u32 {
        self.interval.saturating_mul(if self.components == 1 { 1 } else { self.h * self.v + 2 })
    }

    /// Returns the MCUs of the window and of the neighbouring pixels that upsampling needs.
    pub(super) fn shown(&self, place: &Placement) -> McuRect {
        let span = |start: u32, end: u32, factor: u32, most: u32| {
            let margin = u32::from(factor > 1);
            (start.saturating_sub(margin) / (8 * factor), (end + margin).div_ceil(8 * factor).min(most))
        };
        let window = place.window;
        let (left, right) = span(window.x, window.right(), self.h, self.columns);
        let (top, bottom) = span(window.y, window.bottom(), self.v, self.rows);
        McuRect { left, top, right, bottom }
    }

    /// Returns the rectangle of MCUs around several crops. Returns `None` if it has more MCUs than the crops have
    /// separately, or if a crop does not fit the picture.
    pub(super) fn shown_by_all(
        &self,
        mut crops: impl Iterator<Item = shardpack_format::Result<Placement>>,
    ) -> Option<McuRect> {
        let area = |rect: &McuRect| u64::from(rect.right - rect.left) * u64::from(rect.bottom - rect.top);
        let first = self.shown(&crops.next()?.ok()?);
        let (mut all, mut each) = (first, area(&first));
        for place in crops {
            let next = self.shown(&place.ok()?);
            each += area(&next);
            all = McuRect {
                left: all.left.min(next.left),
                top: all.top.min(next.top),
                right: all.right.max(next.right),
                bottom: all.bottom.max(next.bottom),
            };
        }
        (area(&all) <= each).then_some(all)
    }
}

impl McuRect {
    pub(super) const fn contains(&self, other: &Self) -> bool {
        self.left <= other.left && self.top <= other.top && other.right <= self.right && other.bottom <= self.bottom
    }
}

/// Parses a picture's header and its segment index. Returns them with the grid of MCUs.
///
/// # Errors
/// The reason why the kernels do not accept the picture.
pub(super) fn inspect<'a>(
    picture: &StoredPicture<'a>,
    options: &StagingOptions,
) -> Result<(JpegHeader, McuGrid, Option<SegmentIndex<'a>>), Reason> {
    let header = JpegHeader::parse(picture.bytes).map_err(|_| Reason::Header)?;
    // libjpeg warns about bytes between marker segments, and fails on unknown marker segments. Leave both cases to the
    // host, which reports them.
    if header.stray_bytes > 0 || header.unknown_segment {
        return Err(Reason::Header);
    }
    if u64::from(header.width) * u64::from(header.height) * 4 > options.max_bytes {
        return Err(Reason::Limit);
    }
    let mut frame = McuGrid::of(&header)?;
    let index = picture.segments.map(SegmentIndex::parse).transpose().map_err(|_| Reason::Index)?;
    if let Some(index) = &index {
        frame = frame.with(index).ok_or(Reason::Index)?;
    }
    if frame.segment_blocks() > options.max_segment_blocks {
        return Err(Reason::LongSegments);
    }
    Ok((header, frame, index))
}

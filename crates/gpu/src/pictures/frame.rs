//! A picture's grid of MCUs, and the part of the grid that a view needs.

use super::Reason;
use super::options::StagingOptions;
use shardpack_jpeg::{JpegHeader, McuGrid, Placement, SegmentIndex, StoredPicture};

/// A picture's MCUs, divided into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentGrid {
    pub(super) grid: McuGrid,
    /// Number of MCUs per segment.
    pub(super) interval: u32,
    /// Number of MCUs between restart markers: `interval`, or more for a picture with a segment index.
    pub(super) restart_interval: u32,
}

/// Rectangle of MCUs whose samples are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct McuRect {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

impl SegmentGrid {
    fn of(header: &JpegHeader) -> Result<Self, Reason> {
        if !header.is_plain() {
            return Err(Reason::Process);
        }
        if header.is_rgb() || !matches!(header.components().len(), 1 | 3) {
            return Err(Reason::Colours);
        }
        let grid = header.common_grid().ok_or(Reason::Sampling)?;
        Ok(Self::new(grid, header.restart_interval))
    }

    /// Returns the segments between restart markers. `interval` is the number of MCUs in the header of the picture.
    pub(super) fn new(grid: McuGrid, interval: u16) -> Self {
        let interval = grid.restart_interval(interval);
        Self { grid, interval, restart_interval: interval }
    }

    /// Returns the grid with the segments of `index`, or `None` if the index belongs to a different picture.
    pub(super) fn with(self, index: &SegmentIndex<'_>) -> Option<Self> {
        index.fits(&self.grid, self.restart_interval).then_some(self.with_interval(index.interval()))
    }

    pub(super) const fn with_interval(self, interval: u32) -> Self {
        Self { interval, ..self }
    }

    pub(super) const fn has_markers(&self) -> bool {
        self.restart_interval < self.grid.mcus()
    }

    pub(super) fn marker_after(&self, segment: u32) -> Option<u8> {
        let mcus = (segment + 1) * self.interval;
        let is_marked = self.has_markers() && mcus < self.grid.mcus() && mcus.is_multiple_of(self.restart_interval);
        is_marked.then(|| 0xD0 | (mcus / self.restart_interval - 1).to_le_bytes()[0] & 7)
    }

    pub(super) const fn segments(&self) -> u32 {
        self.grid.mcus().div_ceil(self.interval)
    }

    pub(super) const fn segment_blocks(&self) -> u32 {
        self.interval.saturating_mul(self.grid.blocks)
    }

    /// Returns the MCUs of the window and of the neighbouring pixels that upsampling needs.
    pub(super) fn shown(&self, place: &Placement) -> McuRect {
        let [columns, rows] = self.grid.shown(place.window);
        McuRect { left: columns.start, top: rows.start, right: columns.end, bottom: rows.end }
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
) -> Result<(JpegHeader, SegmentGrid, Option<SegmentIndex<'a>>), Reason> {
    let header = JpegHeader::parse(picture.bytes).map_err(|_| Reason::Header)?;
    // libjpeg warns about bytes between marker segments, and fails on unknown marker segments. Leave both cases to the
    // host, which reports them.
    if header.stray_bytes > 0 || header.unknown_segment {
        return Err(Reason::Header);
    }
    if u64::from(header.width) * u64::from(header.height) * 4 > options.max_bytes {
        return Err(Reason::Limit);
    }
    let mut frame = SegmentGrid::of(&header)?;
    let index = picture.segments.map(SegmentIndex::parse).transpose().map_err(|_| Reason::Index)?;
    if let Some(index) = &index {
        frame = frame.with(index).ok_or(Reason::Index)?;
    }
    if frame.segment_blocks() > options.max_segment_blocks {
        return Err(Reason::LongSegments);
    }
    Ok((header, frame, index))
}

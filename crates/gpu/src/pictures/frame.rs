//! A picture's grid of MCUs, and the part of it that a view needs.

use super::Reason;
use super::options::StagingOptions;
use shardpack_jpeg::{JpegHeader, Placement};

/// Sizes from a picture's frame header, in MCUs unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct McuGrid {
    pub(super) columns: u32,
    pub(super) rows: u32,
    pub(super) interval: u32,
    pub(super) components: u32,
    /// Luma blocks of an MCU, horizontally and vertically.
    pub(super) h: u32,
    pub(super) v: u32,
    /// Width of a chroma plane in samples.
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
    pub(super) fn of(header: &JpegHeader, options: &StagingOptions) -> Result<Self, Reason> {
        if !header.is_plain() {
            return Err(Reason::Process);
        }
        if header.is_rgb() || !matches!(header.components().len(), 1 | 3) {
            return Err(Reason::Colours);
        }
        let mcu = header.sampling().mcu().ok_or(Reason::Sampling)?;
        let frame = Self::new(header.width.into(), header.height.into(), mcu, header.restart_interval.into());
        // libjpeg does not interpolate rows this narrow.
        if frame.h == 2 && frame.chroma_width <= 2 {
            return Err(Reason::Sampling);
        }
        if frame.segment_blocks() > options.max_segment_blocks {
            return Err(Reason::LongSegments);
        }
        Ok(frame)
    }

    /// Returns the grid of a picture of this size, with MCUs as in [`Sampling::mcu`].
    ///
    /// [`Sampling::mcu`]: shardpack_jpeg::Sampling::mcu
    pub(super) fn new(width: u32, height: u32, [h, v, components]: [u32; 3], interval: u32) -> Self {
        let (columns, rows) = (width.div_ceil(8 * h), height.div_ceil(8 * v));
        let (chroma_width, chroma_height) = (width.div_ceil(h), height.div_ceil(v));
        let mcus = columns * rows;
        let interval = if interval == 0 { mcus } else { interval.min(mcus) };
        Self { columns, rows, interval, components, h, v, chroma_width, chroma_height }
    }

    pub(super) const fn segments(&self) -> u32 {
        (self.columns * self.rows).div_ceil(self.interval)
    }

    pub(super) const fn segment_blocks(&self) -> u32 {
        self.interval.saturating_mul(if self.components == 1 { 1 } else { self.h * self.v + 2 })
    }

    /// Returns the MCUs of the window and of the neighbours that upsampling needs.
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
}

/// Parses a picture's header. Returns it with the grid of MCUs.
///
/// # Errors
/// Reason why the kernels do not accept the picture.
pub(super) fn inspect(jpeg: &[u8], options: &StagingOptions) -> Result<(JpegHeader, McuGrid), Reason> {
    let header = JpegHeader::parse(jpeg).map_err(|_| Reason::Header)?;
    // libjpeg warns of bytes between segments, and fails on unknown segments. Leave both cases to the host.
    if header.stray_bytes > 0 || header.unknown_segment {
        return Err(Reason::Header);
    }
    if u64::from(header.width) * u64::from(header.height) * 4 > options.max_bytes {
        return Err(Reason::Limit);
    }
    let frame = McuGrid::of(&header, options)?;
    Ok((header, frame))
}

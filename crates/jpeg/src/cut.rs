//! Cuts a rectangle out of a JPEG by copying bytes, following `docs/tiled-jpeg.md` step by step.
//!
//! At a restart marker, the entropy coder starts a new byte and resets its predictions, so the segment after the
//! marker can be decoded on its own. If the markers divide every MCU row evenly, the segments form a grid of tiles.
//! Any rectangle of tiles becomes a JPEG again with the source's tables, a frame header with the new size, the
//! segments of the tiles, and restart markers that are renumbered from 0.
#![deny(clippy::indexing_slicing)]

use super::grid::{Grid, Tiles};
use super::header::JpegHeader;
use super::rect::Rect;
use super::scan::{End, Segments};
use super::shared::damaged;
use super::upsample::Needs;
use super::walk::Walk;
use shardpack_format::{Error, Result, bug};

/// The kind of a cut, which depends on the picture's restart markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// Keeps only the tiles that the rectangle needs.
    Tiles,
    /// Keeps whole MCU rows, or groups of MCU rows, at full width.
    Rows,
    /// Keeps the whole picture, because it has no suitable markers or the rectangle needs every tile.
    Whole,
}

/// Area that a cut shows, and the kind of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Part of the picture that the cut shows, in pixels of the picture: the requested rectangle, extended to
    /// whole tiles. Pixel (x, y) of the picture is pixel (x − `shown.x`, y − `shown.y`) of the cut. If both
    /// are decoded at 1/n of their size, divide the two offsets by n. They are always multiples of n.
    pub shown: Rect,
    /// Kind of cut.
    pub kind: CutKind,
}

/// Cuts `rect` out of `jpeg`, with as few surrounding pixels as the restart markers allow. Replaces the content of
/// `out` with a JPEG.
///
/// The pixels of `rect` are the same as in the whole picture, bit for bit, if libjpeg or libjpeg-turbo decodes both
/// with default upsampling. Metadata (Exif with its orientation, ICC profile, comments) is omitted. The JFIF and
/// Adobe segments are kept, because colours depend on them. A picture without suitable restart markers is copied
/// unchanged. To find this out in advance, use a [`CutPlan`]. The only allocation is the growth of `out`.
///
/// ```
/// use shardpack_jpeg::{CutKind, Rect, cut};
/// // 48 × 32 pixels, 4:2:0, a restart marker after each MCU of 16 × 16: three tiles in each of two rows.
/// let jpeg = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tiles.jpg"));
/// let mut out = Vec::new();
/// // Upsampling needs one more pixel on each side, so the middle column suffices for columns 17 to 30.
/// let cut = cut(jpeg, Rect { x: 17, y: 17, width: 14, height: 5 }, &mut out)?;
/// assert_eq!(cut.kind, CutKind::Tiles);
/// assert_eq!(cut.shown, Rect { x: 16, y: 16, width: 16, height: 16 });
/// assert!(out.len() < jpeg.len() && out.ends_with(b"\xFF\xD9"));
/// # Ok::<(), shardpack_format::Error>(())
/// ```
///
/// # Errors
/// `Usage` if `rect` is empty or not within the picture; `Format` if the header violates T.81, or the restart markers
/// are out of order or their number does not match the frame. After an error the content of `out` is unspecified.
pub fn cut(jpeg: &[u8], rect: Rect, out: &mut Vec<u8>) -> Result<Cut> {
    let header = JpegHeader::parse(jpeg).map_err(damaged)?;
    let plan = CutPlan::new(jpeg, &header, rect)?;
    plan.write(out)?;
    Ok(plan.cut())
}

/// A cut that is planned from the header alone, before the scan is read. Use it if you have already parsed
/// the header, or to avoid a copy if the whole picture is needed anyway.
///
/// ```
/// use shardpack_jpeg::{CutKind, CutPlan, JpegHeader, Rect};
/// let jpeg = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tiles.jpg"));
/// let header = JpegHeader::parse(jpeg).unwrap();
/// let corner = CutPlan::new(jpeg, &header, Rect::whole(16, 16))?;
/// // The last column is interpolated with the tile on its right, the last row with the one below: four tiles.
/// assert_eq!(corner.cut().shown, Rect::whole(32, 32));
/// let all = CutPlan::new(jpeg, &header, Rect::whole(48, 32))?;
/// assert_eq!(all.cut().kind, CutKind::Whole);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CutPlan<'a> {
    jpeg: &'a [u8],
    header: JpegHeader,
    /// The picture's grid and the tiles to keep, or `None` if the whole picture is kept.
    tiles: Option<(Grid, Tiles)>,
    cut: Cut,
}

impl<'a> CutPlan<'a> {
    /// Plans to cut `rect` (in pixels of the whole picture) out of `jpeg`, whose header is `header`. The cut
    /// also includes the neighbours that interpolation needs.
    ///
    /// # Errors
    /// `Usage` if `rect` is empty or not within the picture.
    pub fn new(jpeg: &'a [u8], header: &JpegHeader, rect: Rect) -> Result<Self> {
        let (width, height) = (u32::from(header.width), u32::from(header.height));
        rect.check(width, height)?;
        let needs = Needs::of(header.components(), width);
        let tiles =
            Grid::of(header).map(|grid| (grid, grid.tiles(&rect, &needs))).filter(|(grid, tiles)| *tiles != grid.all());
        let cut = match &tiles {
            Some((grid, tiles)) => {
                let kind = if grid.columns > 1 { CutKind::Tiles } else { CutKind::Rows };
                Cut { shown: grid.shown(tiles), kind }
            }
            None => Cut { shown: Rect::whole(width, height), kind: CutKind::Whole },
        };
        Ok(Self { jpeg, header: *header, tiles, cut })
    }

    /// Returns the area and kind of the cut. For [`CutKind::Whole`], use the source itself, because
    /// [`write`](Self::write) would only copy it.
    #[must_use]
    pub const fn cut(&self) -> Cut {
        self.cut
    }

    /// Replaces the content of `out` with the cut.
    ///
    /// # Errors
    /// `Format` if the restart markers are out of order, or their number does not match the frame. After an
    /// error the content of `out` is unspecified.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        match &self.tiles {
            None => out.extend_from_slice(self.jpeg),
            Some((grid, tiles)) => {
                self.write_header(out)?;
                self.write_tiles(grid, tiles, out)?;
                out.extend([0xFF, 0xD9]);
            }
        }
        Ok(())
    }

    /// Copies everything before the first entropy-coded byte except metadata, and changes the size in the
    /// frame header.
    fn write_header(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend([0xFF, 0xD8]);
        let mut walk = Walk::new(self.jpeg);
        loop {
            let (marker, offset) = walk.marker(&mut 0).map_err(damaged)?;
            // Standalone markers have no effect in a header.
            if matches!(marker, 0x01 | 0xD0..=0xD7) {
                continue;
            }
            let body = walk.segment().map_err(damaged)?;
            let kept = match marker {
                0xE0 => body.starts_with(b"JFIF\0"),
                0xEE => body.starts_with(b"Adobe"),
                0xE1..=0xEF | 0xFE => false,
                _ => true,
            };
            if !kept {
                continue;
            }
            out.extend([0xFF, marker]);
            out.extend(be16(body.len() + 2));
            match body {
                [precision, _, _, _, _, components @ ..] if offset == self.header.sof_offset => {
                    out.push(*precision);
                    out.extend(be16(self.cut.shown.height));
                    out.extend(be16(self.cut.shown.width));
                    out.extend_from_slice(components);
                }
                _ => out.extend_from_slice(body),
            }
            if marker == 0xDA {
                return Ok(());
            }
        }
    }

    /// Copies the segments of `tiles`, with markers numbered from 0 between them. Reads the whole scan, so that a
    /// missing marker is noticed even outside the rectangle.
    fn write_tiles(&self, grid: &Grid, tiles: &Tiles, out: &mut Vec<u8>) -> Result<()> {
        let offset = self.header.scan_offset;
        let scan = usize::try_from(offset).ok().and_then(|at| self.jpeg.get(at..));
        let scan = scan.ok_or_else(|| {
            Error::usage(format!(
                "the header belongs to another JPEG: its scan begins at byte {offset}, but this JPEG has only {} bytes",
                self.jpeg.len()
            ))
        })?;
        let mut segments = Segments::new(scan);
        let last = grid.all().count() - 1;
        let (mut index, mut written) = (0_u32, 0_u32);
        for row in 0..grid.rows {
            for column in 0..grid.columns {
                let Some((segment, end)) = segments.next() else {
                    return Err(self.miscounted(last, index, scan.len()));
                };
                match end {
                    End::Restart(n) if index < last => {
                        if u32::from(n) != index & 7 {
                            let (expected, found) = (format!("RST{}", index & 7), format!("RST{n}"));
                            return Err(Error::format("JPEG restart marker", expected, found).at(self
                                .header
                                .scan_offset
                                + segments.offset() as u64
                                - 2));
                        }
                    }
                    // Some encoders also write a marker after the last segment. Nothing follows it.
                    End::Restart(_) => match segments.next() {
                        Some(([], End::Marker(_))) => {}
                        _ => return Err(self.miscounted(last, index + 1, segments.offset())),
                    },
                    End::Marker(_) if index == last => {}
                    End::Marker(_) | End::Cut if index < last => {
                        return Err(self.miscounted(last, index, segments.offset()));
                    }
                    End::Marker(_) | End::Cut => {
                        let error = Error::malformed("the JPEG is truncated: no marker follows its scan");
                        return Err(error.at(self.jpeg.len() as u64));
                    }
                }
                let kept = (tiles.top..tiles.bottom).contains(&row) && (tiles.left..tiles.right).contains(&column);
                if kept {
                    if let Some(before) = written.checked_sub(1) {
                        out.extend([0xFF, 0xD0 | (before & 7) as u8]);
                    }
                    out.extend_from_slice(segment);
                    written += 1;
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// Returns the error for a frame that needs `expected` markers, if at least `found` markers were found.
    fn miscounted(&self, expected: u32, found: u32, scanned: usize) -> Error {
        let found = if found > expected { format!("at least {found}") } else { found.to_string() };
        Error::format("number of JPEG restart markers", format!("{expected} (from the frame header)"), found)
            .at(self.header.scan_offset + scanned as u64)
    }
}

/// Converts a number to two bytes. The number must fit the two-byte fields of a JPEG header.
fn be16(n: impl TryInto<u16>) -> [u8; 2] {
    n.try_into().map_or_else(|_| bug("a number of a JPEG's header has more than two bytes"), u16::to_be_bytes)
}

#[cfg(test)]
mod tests;

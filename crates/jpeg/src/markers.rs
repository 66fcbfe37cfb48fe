//! Finds damage in a JPEG from its markers, without decoding: a truncated scan, or segments that are missing
//! or out of order.
#![deny(clippy::indexing_slicing)]

use super::header::max_factors;
use super::mcu_grid::BLOCK;
use super::scan::{End, Segments};
use super::shared::parse;
use super::walk::Walk;
use super::{JpegError, JpegHeader};
use shardpack_format::{Error, Result};

/// Checks the markers of a whole file. This takes about as long as searching the file for FF bytes.
///
/// A JPEG that fails this check is damaged. One that passes may still be damaged, because flipped bits rarely
/// affect the markers. Bytes after the end of the image are ignored.
///
/// ```
/// use shardpack_jpeg::check_markers;
/// # let jpeg: &[u8] = include_bytes!("../testdata/tiles.jpg");
/// assert!(check_markers(jpeg).is_ok());
/// // The last six bytes are the last tile's segment (4 bytes) and the end of the image.
/// let cut = [&jpeg[..jpeg.len() - 8], b"\xFF\xD9"].concat();
/// let error = check_markers(&cut).unwrap_err();
/// assert!(error.to_string().contains("restart markers"), "{error}");
/// ```
///
/// # Errors
/// `Format` if there is no header, a restart marker is missing, out of order or left over, there are bytes
/// between two marker segments, or the file ends before the image does.
pub fn check_markers(jpeg: &[u8]) -> Result<()> {
    let header = parse(jpeg)?;
    if header.stray_bytes > 0 {
        let stray = header.stray_bytes;
        return Err(Error::malformed(format!("the JPEG is damaged: {stray} stray bytes between two segments")));
    }
    let mut at = usize::try_from(header.sos_offset).map_err(|_| cut_off(jpeg))?;
    let mut interval = header.restart_interval;
    loop {
        // Start at the first SOS marker.
        let mut walk = Walk::at(jpeg, at);
        walk.marker(&mut 0).map_err(|error| damaged(&error))?;
        let scan = walk.segment().map_err(|error| damaged(&error))?;
        let end = check_scan(jpeg, walk.pos, expected(&header, scan, interval))?;
        walk = Walk::at(jpeg, end);
        loop {
            let mut stray = 0;
            let (marker, offset) = walk.marker(&mut stray).map_err(|error| damaged(&error))?;
            if stray > 0 {
                let text = format!("the JPEG is damaged: {stray} stray bytes between two segments");
                return Err(Error::malformed(text).at(offset));
            }
            match marker {
                0xD9 => return Ok(()),
                0xDA => {
                    at = usize::try_from(offset).map_err(|_| cut_off(jpeg))?;
                    break;
                }
                // Segments with tables, comments or application data, and the number of lines, which the header
                // already contains.
                0xC4 | 0xCC | 0xDB..=0xDD | 0xE0..=0xEF | 0xFE => {
                    let body = walk.segment().map_err(|error| damaged(&error))?;
                    if let (0xDD, Some(bytes)) = (marker, body.first_chunk()) {
                        interval = u16::from_be_bytes(*bytes);
                    }
                }
                // Some encoders also write a restart marker after the last segment.
                0x01 | 0xD0..=0xD7 => {}
                marker => {
                    let expected = "a table, a scan, or the end of the image";
                    return Err(Error::format("JPEG marker", expected, format!("FF {marker:02X}")).at(offset));
                }
            }
        }
    }
}

/// Returns the number of restart markers that the scan with header `scan` must have, or `None` if it is
/// unknown.
fn expected(header: &JpegHeader, scan: &[u8], interval: u16) -> Option<u64> {
    // In the lossless processes, the smallest coded unit is a sample rather than a block.
    if matches!(header.sof, 3 | 7 | 11 | 15) {
        return None;
    }
    let (&count, specs) = scan.split_first()?;
    let mcus = if count == 1 {
        let (h, v) = max_factors(header.components());
        let units = |side: u16, factor: u32, most: u32| (u32::from(side) * factor).div_ceil(most).div_ceil(BLOCK);
        let id = *specs.first()?;
        // In a scan with one component, an MCU is a single block, and blocks outside the picture are not coded.
        let part = header.components().iter().find(|part| part.id == id)?;
        units(header.width, part.h.into(), h) * units(header.height, part.v.into(), v)
    } else {
        header.mcu_grid().mcus()
    };
    Some(if interval == 0 { 0 } else { u64::from((mcus - 1) / u32::from(interval)) })
}

/// Checks the restart markers of the scan whose first entropy-coded byte is at `start`. Returns the position
/// of the marker after the scan.
fn check_scan(jpeg: &[u8], start: usize, expected: Option<u64>) -> Result<usize> {
    let scan = jpeg.get(start..).ok_or_else(|| cut_off(jpeg))?;
    let mut segments = Segments::new(scan);
    let mut count = 0;
    loop {
        let Some((segment, end)) = segments.next() else { return Err(cut_off(jpeg)) };
        let at = |offset: usize| (start + offset) as u64;
        match end {
            End::Restart(_) if expected == Some(count) => {
                // Some encoders write an extra marker after the last segment.
                return Ok(start + segments.offset() - 2);
            }
            End::Restart(n) if u64::from(n) != count & 7 => {
                let (expected, found) = (format!("RST{}", count & 7), format!("RST{n}"));
                return Err(Error::format("JPEG restart marker", expected, found).at(at(segments.offset() - 2)));
            }
            End::Restart(_) => count += 1,
            End::Marker(_) => {
                let here = segments.offset() + segment.len();
                return match expected {
                    Some(expected) if expected != count => {
                        let expected = format!("{expected} (from the headers)");
                        Err(Error::format("number of JPEG restart markers", expected, count).at(at(here)))
                    }
                    _ => Ok(start + here),
                };
            }
            End::Cut => return Err(cut_off(jpeg)),
        }
    }
}

const NO_END: &str = "the JPEG is truncated: it has no end-of-image marker (FF D9)";

fn cut_off(jpeg: &[u8]) -> Error {
    Error::malformed(NO_END).at(jpeg.len() as u64)
}

fn damaged(error: &JpegError) -> Error {
    match error {
        JpegError::Damaged { offset, what } => Error::malformed(format!("the JPEG is invalid: {what}")).at(*offset),
        JpegError::Truncated { .. } => Error::malformed(NO_END),
        JpegError::NotJpeg => Error::malformed(error.to_string()),
    }
}

#[cfg(test)]
#[path = "markers_tests.rs"]
mod tests;

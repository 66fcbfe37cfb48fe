//! Walks through a JPEG from marker to marker (ITU-T T.81, Annex B). The input is untrusted.
#![deny(clippy::indexing_slicing)]

use super::error::JpegError;

/// Returns the offset just after EOI, or `None` if the file ends before EOI. `bytes` must be a whole file, and
/// `scan_offset` the offset of its first entropy-coded byte.
#[must_use]
pub fn end_of_image(bytes: &[u8], scan_offset: u64) -> Option<u64> {
    let mut walk = Walk::at(bytes, usize::try_from(scan_offset).ok()?);
    loop {
        match walk.marker(&mut 0).ok()?.0 {
            0xD9 => return Some(walk.pos as u64),
            0x01 | 0xD0..=0xD8 => {}
            _ => _ = walk.segment().ok()?,
        }
    }
}

/// Returns the number of scans of a picture whose first entropy-coded byte is at `scan_offset`. Stops counting at the
/// picture's end, or at bytes that are not a marker.
pub(super) fn scans(bytes: &[u8], scan_offset: u64) -> u64 {
    let Ok(offset) = usize::try_from(scan_offset) else { return 1 };
    let (mut walk, mut scans) = (Walk::at(bytes, offset), 1);
    loop {
        match walk.marker(&mut 0) {
            Ok((0xD9, _)) | Err(_) => return scans,
            Ok((0x01 | 0xD0..=0xD8, _)) => {}
            Ok((marker, _)) => {
                scans += u64::from(marker == 0xDA);
                if walk.segment().is_err() {
                    return scans;
                }
            }
        }
    }
}

pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    pub(super) pos: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pos: 2 }
    }

    pub(super) const fn at(bytes: &'a [u8], pos: usize) -> Self {
        Self { bytes, pos }
    }

    /// Returns the next marker and its offset, and moves past it. The number of bytes before the marker,
    /// except fill bytes, is added to `stray`.
    pub(super) fn marker(&mut self, stray: &mut u64) -> Result<(u8, u64), JpegError> {
        loop {
            // Treat a position past the end like the end.
            let rest = self.bytes.get(self.pos..).unwrap_or_default();
            let Some(skipped) = rest.iter().position(|&b| b == 0xFF) else {
                return Err(JpegError::Truncated { needed: self.bytes.len().max(self.pos) as u64 + 2 });
            };
            *stray += skipped as u64;
            self.pos += skipped;
            let (_, rest) = rest.split_at(skipped);
            let Some(fill) = rest.iter().position(|&b| b != 0xFF) else {
                return Err(JpegError::Truncated { needed: self.bytes.len() as u64 + 1 });
            };
            let offset = (self.pos + fill - 1) as u64;
            self.pos += fill + 1;
            match rest.get(fill) {
                // FF 00 is entropy-coded data, not a marker.
                Some(0) | None => *stray += 2,
                Some(&marker) => return Ok((marker, offset)),
            }
        }
    }

    /// Returns the content of the segment at the current position, which starts with its length, and moves
    /// past it.
    pub(super) fn segment(&mut self) -> Result<&'a [u8], JpegError> {
        let needed = |n: usize| JpegError::Truncated { needed: n as u64 };
        let start = self.pos + 2;
        let length = usize::from(be16(self.bytes, self.pos).ok_or_else(|| needed(start))?);
        if length < 2 {
            let what = "a segment declares a length below 2 bytes, but the length field alone takes 2";
            return Err(JpegError::Damaged { offset: self.pos as u64, what });
        }
        let end = self.pos + length;
        let body = self.bytes.get(start..end).ok_or_else(|| needed(end))?;
        self.pos = end;
        Ok(body)
    }
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

//! Decodes BMP pictures in memory to 8-bit RGB.
//!
//! Supports Windows and OS/2 headers, 1 to 32 bits per pixel, colour masks, and run-length encoding. Pixels that the
//! run-length encoding skips have the first colour of the palette. Levels of fewer than 8 bits are scaled up to 8 bits,
//! as in Pillow. Alpha is dropped.
#![deny(clippy::indexing_slicing)]

use shardpack_format::{Error, Limits, Result, to_usize};

#[derive(Debug)]
pub(crate) struct Bmp<'a> {
    pub(crate) width: u32,
    pub(crate) height: u32,
    is_top_first: bool,
    bits: usize,
    coding: Coding,
    /// Palette entries: blue, green and red, and with some headers a fourth byte.
    palette: &'a [u8],
    entry_bytes: usize,
    pixels: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// Palette indices, or bytes in the order blue, green, red.
    Plain,
    Masks([Mask; 3]),
    /// Runs of 4-bit or 8-bit indices, or of 24-bit colours.
    Runs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mask {
    bits: u32,
    shift: u32,
    most: u32,
}

impl Mask {
    const fn of(bits: u32) -> Self {
        let shift = if bits == 0 { 0 } else { bits.trailing_zeros() };
        Self { bits, shift, most: bits >> shift }
    }

    fn level(self, pixel: u32) -> u8 {
        let level = u64::from((pixel & self.bits) >> self.shift);
        u8::try_from(level * 255 / u64::from(self.most.max(1))).unwrap_or(u8::MAX)
    }
}

impl<'a> Bmp<'a> {
    /// Reads the header and checks its sizes against the limits.
    ///
    /// # Errors
    /// `Format` if the header is missing or unsupported; `Limit` if the picture exceeds
    /// `limits.max_decoded_bytes`.
    pub(crate) fn open(file: &'a [u8], limits: &Limits) -> Result<Self> {
        let short = || Error::malformed("the BMP header is truncated");
        let long = |at| le32(file, at).ok_or_else(short);
        let word = |at| le16(file, at).map(u32::from).ok_or_else(short);
        let header = long(14)?;
        let (is_core, is_os2) = (header == 12, matches!(header, 16 | 64));
        let (width, height, bits, compression) = match header {
            12 => (word(18)?, word(20)?.cast_signed(), word(24)?, 0),
            16 => (long(18)?, long(22)?.cast_signed(), word(28)?, 0),
            40 | 52 | 56 | 64 | 108 | 124 => (long(18)?, long(22)?.cast_signed(), word(28)?, long(30)?),
            other => {
                return Err(Error::format(
                    "size of the BMP header",
                    "12, 16, 40, 52, 56, 64, 108 or 124 bytes",
                    format!("{other} bytes"),
                ));
            }
        };
        let is_top_first = height < 0;
        let height = height.unsigned_abs();
        if width == 0 || height == 0 || width > i32::MAX.unsigned_abs() {
            return Err(Error::malformed(format!("the BMP has an invalid size: {width} × {height} pixels")));
        }
        limits.check_decoded_picture((u64::from(width) * u64::from(height)).saturating_mul(3))?;
        let after = 14 + header as usize;
        let mask = |at: usize| le32(file, at).map(Mask::of).ok_or_else(short);
        let (coding, masks_bytes) = match (compression, bits) {
            (0, 16) => (Coding::Masks([Mask::of(0x7C00), Mask::of(0x03E0), Mask::of(0x001F)]), 0),
            (0, 1 | 2 | 4 | 8 | 24 | 32) => (Coding::Plain, 0),
            (3 | 6, 16 | 32) if !is_os2 => {
                let masks = [mask(54)?, mask(58)?, mask(62)?];
                let behind = match (header, compression) {
                    (40, 6) => 16,
                    (40, _) => 12,
                    _ => 0,
                };
                (Coding::Masks(masks), behind)
            }
            (1, 8) | (2, 4) => (Coding::Runs, 0),
            (4, 24) if is_os2 => (Coding::Runs, 0),
            _ => {
                let name = match compression {
                    3 if is_os2 => " (Huffman)",
                    4 => " (JPEG)",
                    5 => " (PNG)",
                    _ => "",
                };
                return Err(Error::malformed(format!(
                    "BMP compression {compression}{name} with {bits} bits per pixel is not supported"
                )));
            }
        };
        let start = to_usize(long(10)?);
        let entry_bytes = if is_core { 3 } else { 4 };
        let palette = match bits {
            1..=8 => {
                let most = 1_usize << bits;
                let stated = if is_core || header == 16 { 0 } else { long(46)? as usize };
                let entries = if stated == 0 { most } else { stated.min(most) };
                let palette = file.get(after + masks_bytes..).unwrap_or_default();
                // The palette cannot extend beyond the start of the pixels.
                let room = start.checked_sub(after + masks_bytes).filter(|room| *room > 0).unwrap_or(palette.len());
                palette.get(..palette.len().min(room).min(entries * entry_bytes)).unwrap_or_default()
            }
            _ => &[],
        };
        let pixels = file.get(start..).unwrap_or_default();
        let bmp = Self { width, height, is_top_first, bits: bits as usize, coding, palette, entry_bytes, pixels };
        let stored = bmp.row_bytes().saturating_mul(u64::from(height));
        if coding != Coding::Runs && stored > pixels.len() as u64 {
            return Err(Error::malformed(format!(
                "the BMP is truncated: its pixels take {stored} bytes, but only {} remain",
                pixels.len()
            )));
        }
        Ok(bmp)
    }

    /// Returns the number of bytes per row, padded to a multiple of four.
    const fn row_bytes(&self) -> u64 {
        (self.width as u64 * self.bits as u64).div_ceil(32) * 4
    }

    fn color(&self, index: u8) -> [u8; 3] {
        let entry = self.palette.chunks_exact(self.entry_bytes).nth(index.into());
        match entry {
            Some(&[blue, green, red, ..]) => [red, green, blue],
            _ => [0; 3],
        }
    }

    /// Decodes the picture into `rgb`, 3 bytes per pixel.
    ///
    /// # Errors
    /// `Format` if the picture is damaged.
    pub(crate) fn decode(&self, rgb: &mut [u8]) -> Result<()> {
        let colors: Vec<[u8; 3]> = (0..=255).map(|index| self.color(index)).collect();
        let color = |index: u8| colors.get(usize::from(index)).copied().unwrap_or_default();
        if self.coding == Coding::Runs {
            return self.decode_runs(&color, rgb);
        }
        let stored = to_usize(self.row_bytes());
        let rows = rgb.chunks_exact_mut(self.width as usize * 3);
        let decode = |from: &[u8], to: &mut [u8]| self.decode_row(from, to.as_chunks_mut::<3>().0, &color);
        let pixels = self.pixels.chunks_exact(stored);
        if self.is_top_first {
            pixels.zip(rows).for_each(|(from, to)| decode(from, to))
        } else {
            pixels.zip(rows.rev()).for_each(|(from, to)| decode(from, to))
        }
        Ok(())
    }

    fn decode_row(&self, from: &[u8], to: &mut [[u8; 3]], color: &impl Fn(u8) -> [u8; 3]) {
        match (self.coding, self.bits) {
            (Coding::Masks(masks), 16) => {
                for (to, from) in to.iter_mut().zip(from.as_chunks().0) {
                    *to = masks.map(|mask| mask.level(u16::from_le_bytes(*from).into()));
                }
            }
            (Coding::Masks(masks), _) => {
                for (to, from) in to.iter_mut().zip(from.as_chunks().0) {
                    *to = masks.map(|mask| mask.level(u32::from_le_bytes(*from)));
                }
            }
            (_, 24) => to.iter_mut().zip(from.as_chunks().0).for_each(|(to, &[b, g, r])| *to = [r, g, b]),
            (_, 32) => to.iter_mut().zip(from.as_chunks().0).for_each(|(to, &[b, g, r, _])| *to = [r, g, b]),
            (_, 8) => to.iter_mut().zip(from).for_each(|(to, &index)| *to = color(index)),
            (_, bits) => {
                let parts = (0..8 / bits).map(|part| 8 - bits * (part + 1));
                let most = u8::MAX >> (8 - bits);
                let indices = from.iter().flat_map(|byte| parts.clone().map(move |shift| byte >> shift & most));
                to.iter_mut().zip(indices).for_each(|(to, index)| *to = color(index));
            }
        }
    }

    /// Decodes run-length encoded pixels: pairs of a count and a colour, and commands that start with a zero.
    fn decode_runs(&self, color: &impl Fn(u8) -> [u8; 3], rgb: &mut [u8]) -> Result<()> {
        let (width, height) = (self.width as usize, self.height as usize);
        let pixels = rgb.as_chunks_mut::<3>().0;
        pixels.fill(if self.bits == 24 { [0; 3] } else { color(0) });
        let mut rest = self.pixels;
        let (mut x, mut y) = (0_usize, 0_usize);
        let early =
            || Error::malformed(format!("the BMP is truncated: it has pixels for only some of its {height} rows"));
        let mut put = |x: usize, y: usize, color: [u8; 3]| {
            // Drop pixels past the end of a row.
            let row = if self.is_top_first { Some(y) } else { (height - 1).checked_sub(y) };
            let place = row.filter(|_| x < width).and_then(|row| pixels.get_mut(row * width + x));
            place.into_iter().for_each(|place| *place = color);
        };
        while y < height {
            let Some((&[count, value], tail)) = rest.split_first_chunk::<2>() else {
                // Accept a missing end marker if all pixels have been decoded.
                return if y + 1 == height && x >= width { Ok(()) } else { Err(early()) };
            };
            rest = tail;
            let count = usize::from(count);
            match (count, value) {
                (0, 0) => (x, y) = (0, y + 1),
                (0, 1) => break,
                (0, 2) => {
                    let (&[right, up], tail) = rest.split_first_chunk::<2>().ok_or_else(early)?;
                    rest = tail;
                    (x, y) = (x + usize::from(right), y + usize::from(up));
                }
                (0, literals) => {
                    let literals = usize::from(literals);
                    let bytes = (literals * self.bits).div_ceil(8);
                    let (from, tail) = rest.split_at_checked(bytes).ok_or_else(early)?;
                    // Literals are padded to an even number of bytes.
                    rest = tail.get(bytes % 2..).unwrap_or_default();
                    for place in 0..literals {
                        put(x + place, y, self.at(from, place, color));
                    }
                    x += literals;
                }
                (_, value) => {
                    let bgr = [value, rest.first().copied().unwrap_or(0), rest.get(1).copied().unwrap_or(0)];
                    if self.bits == 24 {
                        rest = rest.get(2..).ok_or_else(early)?;
                    }
                    for place in 0..count {
                        let of =
                            if self.bits == 24 { self.at(&bgr, 0, color) } else { self.at(&[value], place % 2, color) };
                        put(x + place, y, of);
                    }
                    x += count;
                }
            }
        }
        Ok(())
    }

    /// Returns the colour of pixel `place` in `bytes`. A single byte is an 8-bit index that applies to all pixels.
    fn at(&self, bytes: &[u8], place: usize, color: &impl Fn(u8) -> [u8; 3]) -> [u8; 3] {
        let byte = |place: usize| bytes.get(place).copied().unwrap_or(0);
        match self.bits {
            4 if place.is_multiple_of(2) => color(byte(place / 2) >> 4),
            4 => color(byte(place / 2) & 15),
            24 => [byte(place * 3 + 2), byte(place * 3 + 1), byte(place * 3)],
            _ if bytes.len() == 1 => color(byte(0)),
            _ => color(byte(place)),
        }
    }
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
#[path = "bmp_tests.rs"]
mod tests;

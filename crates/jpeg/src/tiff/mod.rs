//! TIFF pictures (TIFF 6.0, BigTIFF): decodes the first page of a file in memory to 8-bit RGB.
//!
//! Supports gray, RGB, palettes, CMYK and YCbCr with 8 or 16 bits, single bands with 1, 2 or 4 bits, strips
//! and tiles, interleaved and separate bands, and the compressions of `unpack`. Besides the picture, only one
//! strip or tile at a time is in memory.
#![deny(clippy::indexing_slicing)]

mod ccitt;
mod coding;
mod color;
mod unpack;

pub use coding::{TiffCoding, Unpacker};

use super::turbo::{Bounds, Decompressor, Scale, Warnings};
use color::{Depth, Ink, YCbCr};
use shardpack_base::tiff::{TiffDirectory, TiffValues};
use shardpack_format::{Error, Limits, Result};
use std::borrow::Cow;
use unpack::{Compression, Predictor, unpack};

/// Maximum decoded size of all strips or tiles together, as a multiple of the picture's size. Tiles are not clipped
/// at the picture's edges, so they may decode to more than the picture. Up to 16 MiB are always allowed.
const UNPACKED_TIMES: u64 = 16;
const MAX_SMALL: u64 = 16 << 20;

/// Maximum compressed size of all strips or tiles together, as a multiple of the file's size. Writers may store equal
/// strips or tiles only once, so the sum may exceed the file's size.
const PACKED_TIMES: u64 = 16;

/// Maximum number of bands: four for CMYK, plus one extra band.
const MAX_BANDS: usize = 5;

/// A TIFF picture whose tags have been read.
#[derive(Debug)]
pub(crate) struct Tiff<'a> {
    file: &'a [u8],
    big_endian: bool,
    pub(crate) width: u32,
    pub(crate) height: u32,
    bands: usize,
    bits: u32,
    ink: Ink,
    /// Index of the alpha band, if the colours are premultiplied by it.
    premultiplied: Option<usize>,
    /// True if each band is stored separately.
    is_planar: bool,
    compression: Compression,
    predictor: Predictor,
    /// True if the lowest bit of a byte is its first pixel.
    is_low_first: bool,
    /// True for tiles, which are not clipped at the picture's edges. Strips are treated as tiles that are as
    /// wide as the picture and clipped at its lower edge.
    is_tiled: bool,
    chunk: [usize; 2],
    offsets: TiffValues<'a>,
    counts: Option<TiffValues<'a>>,
    /// Tables shared by all JPEGs of the picture.
    jpeg_tables: Cow<'a, [u8]>,
    limits: Limits,
}

#[derive(Default)]
struct StripScratch {
    packed: Vec<u8>,
    samples: Vec<u16>,
}

impl<'a> Tiff<'a> {
    /// Reads the tags of the first page and checks its sizes against the limits.
    ///
    /// # Errors
    /// `Format` if there is no page or its kind is not supported; `Limit` if the picture exceeds
    /// `limits.max_decoded_bytes`.
    pub(crate) fn open(file: &'a [u8], limits: &Limits) -> Result<Self> {
        let directory = TiffDirectory::first(file)?;
        let side = |tag, what: &str| {
            let found = directory.integer_or(tag, 0)?;
            let side = u32::try_from(found).ok().filter(|side| *side > 0);
            side.ok_or_else(|| Error::format(what, "1 to 2^32 - 1 pixels", found))
        };
        let (width, height) = (side(256, "TIFF width")?, side(257, "TIFF height")?);
        let found = directory.integer_or(277, 1)?;
        let bands = usize::try_from(found).ok().filter(|bands| (1..=MAX_BANDS).contains(bands));
        let bands = bands.ok_or_else(|| Error::format("number of TIFF bands", format!("1 to {MAX_BANDS}"), found))?;
        let same = |tag, default: u64, what: &str| match directory.values(tag)? {
            None => Ok(default),
            Some(values) => values
                .same(bands)
                .ok_or_else(|| Error::malformed(format!("TIFFs whose bands differ in {what} are not supported"))),
        };
        let (bits, format) = (same(258, 1, "bit depth")?, same(339, 1, "sample format")?);
        let bits = match (bits, format, bands) {
            (8 | 16, 1, _) | (1 | 2 | 4, 1, 1) => u32::try_from(bits).unwrap_or(0),
            _ => {
                let name = match format {
                    1 => "unsigned integers",
                    2 => "signed integers",
                    3 => "floats",
                    _ => "untyped or complex values",
                };
                return Err(Error::malformed(format!(
                    "TIFFs with {bits}-bit {name} are not supported: pictures must have unsigned integers of 8 or 16 \
                     bits, or of 1, 2 or 4 bits if there is only one band"
                )));
            }
        };
        let compression = Compression::of(directory.integer_or(259, 1)?, directory.integer_or(292, 0)?)?;
        let is_planar = bands > 1 && directory.integer_or(284, 1)? == 2;
        let is_fax = matches!(compression, Compression::Fax(_));
        let ink = Ink::of(&directory, bands, bits, is_fax)?;
        let is_tiled = directory.values(322)?.is_some();
        let rows = u32::try_from(directory.integer_or(278, height.into())?).unwrap_or(height).min(height);
        let chunk = match is_tiled {
            true => (side(322, "TIFF tile width")?, side(323, "TIFF tile height")?),
            false if rows == 0 => return Err(Error::format("rows per TIFF strip", "at least 1", 0)),
            false => (width, rows),
        };
        // A few writers use the tags of strips for tiles.
        let is_usual = is_tiled && directory.values(324)?.is_some();
        let (offsets, counts) = if is_usual { (324, 325) } else { (273, 279) };
        let offsets = directory.integers(offsets)?;
        let none = || Error::malformed("the TIFF does not say where its strips or tiles are stored");
        // The picture has alpha only if its first extra band is declared as alpha.
        let extra = directory.values(338)?.and_then(|values| values.integer(0));
        let premultiplied = (extra == Some(1) && matches!(ink, Ink::Rgb | Ink::Gray { .. })).then_some(ink.bands());
        let predictor = match compression.has_predictor() {
            true => Predictor::of(directory.integer_or(317, 1)?, bits)?,
            false => Predictor::None,
        };
        let tiff = Self {
            file,
            big_endian: directory.big_endian(),
            width,
            height,
            bands,
            bits,
            ink,
            premultiplied: premultiplied.filter(|band| *band < bands),
            is_planar,
            compression,
            predictor,
            is_low_first: directory.integer_or(266, 1)? == 2 && compression != Compression::Jpeg,
            is_tiled,
            chunk: [chunk.0 as usize, chunk.1 as usize],
            offsets: offsets.ok_or_else(none)?,
            counts: directory.integers(counts)?,
            jpeg_tables: directory.integers(347)?.map(TiffValues::into_bytes).unwrap_or_default(),
            limits: limits.clone(),
        };
        tiff.check(limits)?;
        Ok(tiff)
    }

    pub(crate) const fn is_deep(&self) -> bool {
        self.bits > 8
    }

    fn check(&self, limits: &Limits) -> Result<()> {
        let pixels = u64::from(self.width) * u64::from(self.height);
        limits.check_decoded_picture(pixels.saturating_mul(3))?;
        // Returns the stored size of an area with all its bands, even if the bands are stored separately. Each row is
        // padded to whole bytes.
        let stored = |width: u64, height: u64| {
            width.saturating_mul(self.bands as u64 * u64::from(self.bits)).div_ceil(8).saturating_mul(height)
        };
        let [width, height] = self.chunk.map(|side| side as u64);
        let chunk = stored(width, height);
        if chunk > limits.max_decoded_bytes {
            return Err(Error::limit("TIFF strip or tile", "max_decoded_bytes", limits.max_decoded_bytes, chunk));
        }
        let places = self.across().saturating_mul(self.down());
        let all = chunk.saturating_mul(places as u64);
        let most = stored(self.width.into(), self.height.into()).saturating_mul(UNPACKED_TIMES).max(MAX_SMALL);
        if all > most {
            return Err(Error::malformed(format!(
                "the strips or tiles of the TIFF would unpack to {all} bytes, more than the {most} bytes allowed for a \
                 picture of this size"
            )));
        }
        let chunks = places.saturating_mul(if self.is_planar { self.bands } else { 1 });
        if self.offsets.len() < chunks {
            return Err(Error::malformed(format!(
                "the TIFF lists {} strips or tiles, but needs {chunks} for its size",
                self.offsets.len()
            )));
        }
        // Count the tables once per JPEG, because they are read again for each JPEG.
        let tables = if self.compression == Compression::Jpeg { self.jpeg_tables.len() } else { 0 };
        let packed = (0..chunks)
            .map(|chunk| self.packed(chunk).len().saturating_add(tables) as u64)
            .fold(0_u64, u64::saturating_add);
        let most = (self.file.len() as u64).saturating_mul(PACKED_TIMES);
        // Uncompressed data never uses more bytes than the picture has (see `read`).
        if packed > most && self.compression != Compression::None {
            return Err(Error::malformed(format!(
                "the compressed strips or tiles of the TIFF add up to {packed} bytes, more than {PACKED_TIMES} times \
                 the size of the file"
            )));
        }
        if let Ink::YCbCr(YCbCr { subsampling, .. }) = self.ink
            && self.compression != Compression::Jpeg
            && (subsampling != [1, 1] && (self.is_planar || self.predictor != Predictor::None || self.bands != 3)
                || self.bits != 8)
        {
            let problem = match (self.bits, self.is_planar, self.bands) {
                (8, true, _) => "subsampled colours in separate bands".to_owned(),
                (8, false, 3) => "subsampled colours and a predictor".to_owned(),
                (8, false, bands) => format!("subsampled colours in {bands} bands"),
                (bits, ..) => format!("{bits}-bit samples"),
            };
            return Err(Error::malformed(format!("YCbCr TIFFs with {problem} are not supported")));
        }
        if self.compression == Compression::Jpeg && self.bits != 8 {
            return Err(Error::format("JPEG in a TIFF", "8-bit samples", format!("{}-bit samples", self.bits)));
        }
        if matches!(self.compression, Compression::Fax(_)) && (self.bits, self.bands) != (1, 1) {
            let found = if self.bits == 1 { format!("{} bands", self.bands) } else { format!("{} bits", self.bits) };
            return Err(Error::malformed(format!(
                "a TIFF with CCITT compression must have one band of 1 bit per pixel, but this one has {found}"
            )));
        }
        Ok(())
    }

    const fn across(&self) -> usize {
        (self.width as usize).div_ceil(self.chunk[0])
    }

    const fn down(&self) -> usize {
        (self.height as usize).div_ceil(self.chunk[1])
    }

    /// Returns the number of interleaved bands: 1 if each band is stored separately.
    const fn together(&self) -> usize {
        if self.is_planar { 1 } else { self.bands }
    }

    /// Decodes the picture into `rgb`, 3 bytes per pixel.
    ///
    /// # Errors
    /// `Format` if the picture is damaged.
    pub(crate) fn decode(&self, rgb: &mut [u8]) -> Result<()> {
        let (width, [columns, rows]) = (self.width as usize, self.chunk);
        let mut scratch = StripScratch::default();
        // Decode only the colour and alpha bands if bands are stored separately.
        let planes = if self.is_planar { self.premultiplied.map_or(self.ink.bands(), |alpha| alpha + 1) } else { 1 };
        let mut chunks: Vec<Chunk> = Vec::new();
        for (y, part) in rgb.chunks_mut(rows.saturating_mul(width * 3)).enumerate() {
            for x in 0..self.across() {
                chunks.resize_with(planes, Chunk::default);
                for (plane, chunk) in chunks.iter_mut().enumerate() {
                    let number = (plane * self.down() + y) * self.across() + x;
                    let stored = if self.is_tiled { rows } else { part.len() / (width * 3) };
                    self.read(number, stored, chunk, &mut scratch)?;
                }
                let left = x * columns * 3;
                for (row, to) in part.chunks_exact_mut(width * 3).enumerate() {
                    let end = to.len().min(left + columns * 3);
                    let to = to.get_mut(left..end).unwrap_or_default();
                    self.row(&chunks, row, to, &mut scratch.samples);
                }
            }
        }
        Ok(())
    }

    /// Converts one row of a strip or tile to RGB. `chunks` has one chunk per band, or a single chunk with
    /// all bands.
    fn row(&self, chunks: &[Chunk], row: usize, rgb: &mut [u8], samples: &mut Vec<u16>) {
        let bytes = |chunk: &Chunk| -> (usize, usize) { (row * chunk.row_bytes, (row + 1) * chunk.row_bytes) };
        let of = |chunk| {
            let (start, end) = bytes(chunk);
            chunk.bytes.get(start..end).unwrap_or_default()
        };
        let is_jpeg = self.compression == Compression::Jpeg;
        // libjpeg-turbo has already converted JPEGs to RGB.
        let ink = if is_jpeg && matches!(self.ink, Ink::YCbCr(_)) { &Ink::Rgb } else { &self.ink };
        let [first, rest @ ..] = chunks else { return };
        if matches!(ink, Ink::Rgb) && self.bits == 8 && rest.is_empty() && first.bands == 3 {
            rgb.iter_mut().zip(of(first)).for_each(|(to, from)| *to = *from);
            return;
        }
        let pixels = rgb.len() / 3;
        let bands = chunks.len().max(first.bands);
        samples.clear();
        samples.resize(pixels * bands, 0);
        for (plane, chunk) in chunks.iter().enumerate() {
            let places = samples.iter_mut().skip(plane).step_by(if rest.is_empty() { 1 } else { bands });
            self.samples(of(chunk), places);
        }
        let depth = Depth(self.bits);
        ink.write(samples, bands, depth, rgb);
        if let Some(alpha) = self.premultiplied {
            for (pixel, to) in samples.chunks_exact(bands).zip(rgb.as_chunks_mut::<3>().0) {
                color::divide(to, pixel.get(alpha).map_or(255, |&level| color::narrow(level, depth)));
            }
        }
    }

    fn samples<'s>(&self, row: &[u8], places: impl Iterator<Item = &'s mut u16>) {
        match self.bits {
            8 => places.zip(row).for_each(|(to, from)| *to = u16::from(*from)),
            16 => {
                let of = if self.big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
                places.zip(row.as_chunks().0).for_each(|(to, from)| *to = of(*from));
            }
            bits => {
                let mut all = row.iter().flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
                for to in places {
                    *to = all.by_ref().take(bits as usize).fold(0, |level, bit| level << 1 | bit);
                }
            }
        }
    }

    /// Returns the stored bytes of strip or tile `number`. Without a byte count, they extend to the end of
    /// the file.
    fn packed(&self, number: usize) -> &'a [u8] {
        let count = match self.compression {
            // Ignore the byte count of uncompressed data, because a few writers store a wrong one.
            Compression::None => None,
            _ => self.counts.as_ref().and_then(|counts| counts.integer(number)),
        };
        let offset = self.offsets.integer(number).and_then(|offset| usize::try_from(offset).ok());
        let rest = offset.and_then(|offset| self.file.get(offset..)).unwrap_or_default();
        count.and_then(|count| rest.get(..usize::try_from(count).ok()?)).unwrap_or(rest)
    }

    /// Decompresses strip or tile `number` with its `rows` rows.
    fn read(&self, number: usize, rows: usize, chunk: &mut Chunk, scratch: &mut StripScratch) -> Result<()> {
        let columns = self.chunk[0];
        let offset = self.offsets.integer(number).unwrap_or(0);
        let count = self.counts.as_ref().and_then(|counts| counts.integer(number));
        if offset == 0 || count == Some(0) {
            return Err(Error::malformed(format!(
                "TIFF strip or tile {number} has no data: sparse files are not supported"
            )));
        }
        let packed = self.packed(number);
        if self.compression == Compression::Jpeg {
            return self.read_jpeg(number, packed, rows, chunk, &mut scratch.packed);
        }
        let subsampling = match self.ink {
            Ink::YCbCr(YCbCr { subsampling, .. }) => subsampling,
            _ => [1, 1],
        };
        chunk.bands = self.together();
        chunk.row_bytes = (columns * self.together() * self.bits as usize).div_ceil(8);
        let units = [columns.div_ceil(subsampling[0]), rows.div_ceil(subsampling[1])];
        let length = match subsampling {
            [1, 1] => chunk.row_bytes * rows,
            [across, down] => units[0] * units[1] * (across * down + 2),
        };
        let packed = match self.compression {
            Compression::None => packed.get(..length).unwrap_or(packed),
            _ => packed,
        };
        let packed = if self.is_low_first {
            scratch.packed.clear();
            scratch.packed.extend(packed.iter().map(|byte| byte.reverse_bits()));
            scratch.packed.as_slice()
        } else {
            packed
        };
        chunk.bytes.clear();
        chunk.bytes.resize(length, 0);
        unpack(self.compression, packed, columns, &mut chunk.bytes)
            .map_err(|error| Error::malformed(format!("TIFF strip or tile {number} is damaged: {error}")).at(offset))?;
        if self.predictor != Predictor::None {
            for row in chunk.bytes.chunks_exact_mut(chunk.row_bytes.max(1)) {
                self.predictor.undo(row, self.together(), self.bits, self.big_endian);
            }
        }
        if subsampling != [1, 1] {
            chunk.spread(subsampling, units, [columns, rows]);
        }
        Ok(())
    }

    fn read_jpeg(
        &self,
        number: usize,
        packed: &[u8],
        rows: usize,
        chunk: &mut Chunk,
        jpeg: &mut Vec<u8>,
    ) -> Result<()> {
        jpeg.clear();
        jpeg.extend(b"\xFF\xD8");
        // The TIFF tags determine the colour space. This Adobe segment passes it on to libjpeg.
        let transform = u8::from(matches!(self.ink, Ink::YCbCr(_)));
        if self.together() >= 3 {
            jpeg.extend(b"\xFF\xEE\x00\x0EAdobe\x00\x64\x00\x00\x00\x00");
            jpeg.push(transform);
        }
        let tables = self.jpeg_tables.strip_prefix(b"\xFF\xD8").unwrap_or(&self.jpeg_tables);
        jpeg.extend(tables.strip_suffix(b"\xFF\xD9").unwrap_or(tables));
        let body = packed.strip_prefix(b"\xFF\xD8");
        jpeg.extend(body.ok_or_else(|| Error::malformed(format!("TIFF strip or tile {number} is not a JPEG")))?);
        let decoder = Decompressor::new(Bounds::of(&self.limits), Warnings::Refuse);
        let picture = decoder.open(jpeg)?;
        let frame = picture.frame();
        let found = [frame.width as usize, frame.height as usize, picture.header().components().len()];
        let expected = [self.chunk[0], rows, self.together()];
        if found[0] != expected[0] || !(rows..=self.chunk[1]).contains(&found[1]) || found[2] != expected[2] {
            return Err(Error::malformed(format!(
                "the JPEG in TIFF strip or tile {number} has the width, height and number of bands {found:?}, but must \
                 have {expected:?}"
            )));
        }
        let format = frame.color.format();
        chunk.bands = format.bytes();
        chunk.row_bytes = found[0] * format.bytes();
        chunk.bytes.clear();
        chunk.bytes.resize(chunk.row_bytes * found[1], 0);
        picture.decode(Scale::Full, format, &mut chunk.bytes, chunk.row_bytes)
    }
}

/// A decompressed strip or tile, with either one band or all bands.
#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    row_bytes: usize,
    bands: usize,
}

impl Chunk {
    /// Expands subsampled chroma to one sample per pixel. `bytes` consists of units. Each unit contains the luma
    /// samples of several pixels, followed by their chroma samples.
    fn spread(&mut self, [across, down]: [usize; 2], units: [usize; 2], [columns, rows]: [usize; 2]) {
        let unit_bytes = across * down + 2;
        let mut out = vec![0; columns * rows * 3];
        for (y, row) in out.chunks_exact_mut((columns * 3).max(1)).enumerate() {
            for (x, to) in row.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let unit = (y / down * units[0] + x / across) * unit_bytes;
                let unit = self.bytes.get(unit..unit + unit_bytes).unwrap_or_default();
                let luma = unit.get(y % down * across + x % across).copied().unwrap_or(0);
                if let Some([_, chroma @ ..]) = unit.last_chunk::<3>() {
                    let [blue, red] = *chroma;
                    *to = [luma, blue, red];
                }
            }
        }
        (self.bytes, self.row_bytes) = (out, columns * 3);
    }
}

#[cfg(test)]
mod tests;

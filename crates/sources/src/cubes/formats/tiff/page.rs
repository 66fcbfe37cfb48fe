//! Parses a page, and converts its strips or tiles to planes.

use super::budget::Chunks;
use super::chunk::{self, ChunkRange, Compression};
use super::ifd::{Ifd, TiffSource, required};
use super::predictor::{self, Predictor};
use crate::cubes::error::Result;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::source::CubeFile;
use shardpack_format::{Dtype, to_usize};

/// Maximum size of a tile: `MAX_TILE_TIMES` × the bytes of the picture, or `MAX_SMALL_TILE` if larger.
const MAX_TILE_TIMES: u64 = 16;
const MAX_SMALL_TILE: u64 = 16 << 20;

pub(super) struct Page {
    width: u64,
    height: u64,
    bands: u64,
    pub(super) dtype: Dtype,
    /// True if the bands are stored separately.
    pub(super) planar: bool,
    /// True for bilevel masks, with one bit per element.
    bilevel: bool,
    file_big_endian: bool,
    compression: Compression,
    predictor: Predictor,
    /// True for tiles. A tile may extend beyond the edges of the picture. Strips are treated as
    /// full-width tiles that are cut off at the bottom.
    tiled: bool,
    tile_width: u64,
    tile_height: u64,
    offsets: Vec<u64>,
    counts: Option<Vec<u64>>,
}

impl Page {
    /// Returns true for pyramid levels and transparency masks, because they do not count as pages.
    pub(super) fn is_overview_or_mask(ifd: &Ifd<'_>) -> Result<bool> {
        Ok(ifd.integer_or(254, 0)? & 0b101 != 0)
    }

    /// Reads one of `pages` pages. The cube of all pages may have at most `max_bytes` bytes.
    pub(super) fn read(
        source: &CubeFile,
        file: &TiffSource<'_>,
        ifd: &Ifd<'_>,
        pages: usize,
        max_bytes: u64,
    ) -> Result<Self> {
        let width = required(source, ifd, 256, "ImageWidth")?;
        let height = required(source, ifd, 257, "ImageLength")?;
        let bands = ifd.integer_or(277, 1)?;
        if width == 0 || height == 0 || bands == 0 {
            let text = format!("the TIFF is empty: {height} x {width} pixels with {bands} bands");
            return Err(source.damaged(text));
        }
        if ifd.integer_or(32997, 1)? > 1 {
            return Err(source.unsupported(format_args!(
                "the TIFF is a volume with an image depth of {}, but only a depth of 1 is supported",
                ifd.integer_or(32997, 1)?
            )));
        }
        let compression = Compression::from_code(source, ifd.integer_or(259, 1)?)?;
        let dtype = dtype(source, file, ifd)?;
        let bilevel = dtype == Dtype::Bool;
        if bilevel && bands > 1 {
            return Err(source
                .unsupported(format_args!("the TIFF has {bands} one-bit bands, but only one such band is supported")));
        }
        if ifd.integer_or(266, 1)? != 1 {
            let order = ifd.integer_or(266, 1)?;
            let error = source.unsupported(format_args!(
                "the TIFF has fill order {order}, but only fill order 1 (highest bit first) is supported"
            ));
            return Err(error.with_hint("convert with `gdal_translate IN OUT`"));
        }
        let predictor = Predictor::from_code(source, ifd.integer_or(317, 1)?, dtype, compression)?;
        let planar = bands > 1 && ifd.integer_or(284, 1)? == 2;
        let tiled = ifd.integer(322)?.is_some();
        let (tile_width, tile_height) = if tiled {
            (required(source, ifd, 322, "TileWidth")?, required(source, ifd, 323, "TileLength")?)
        } else {
            // If the tag is missing or its value is 2³² − 1, the whole picture is one strip.
            (width, ifd.integer_or(278, height)?.min(height))
        };
        if tile_width == 0 || tile_height == 0 {
            return Err(source.damaged(format_args!(
                "the strips or tiles of the TIFF are empty: {tile_height} x {tile_width} pixels"
            )));
        }
        let channels = if pages > 1 && bands == 1 { pages as u64 } else { bands };
        CubeLayout { dtype, big_endian: false, shape: [height, width, channels], order: AxisOrder::Bip }
            .bytes(source, max_bytes)?;
        let of_tiles = if tiled { (file.integers(ifd, 324)?, file.integers(ifd, 325)?) } else { (None, None) };
        // Old writers store tile offsets in the strip tags.
        let (offsets, counts) = match of_tiles {
            (Some(offsets), counts) => (offsets, counts),
            _ => (file.integers(ifd, 273)?.unwrap_or_default(), file.integers(ifd, 279)?),
        };
        let file_big_endian = ifd.big_endian();
        let page = Self {
            width,
            height,
            bands,
            dtype,
            planar,
            bilevel,
            file_big_endian,
            compression,
            predictor,
            tiled,
            tile_width,
            tile_height,
            offsets,
            counts,
        };
        page.check_chunks(source)?;
        Ok(page)
    }

    fn check_chunks(&self, source: &CubeFile) -> Result<()> {
        let planes = if self.planar { self.bands } else { 1 };
        let expected = self.across().checked_mul(self.down()).and_then(|chunks| chunks.checked_mul(planes));
        let found = self.offsets.len() as u64;
        let counts = self.counts.as_ref().map_or(found, |counts| counts.len() as u64);
        if expected.is_none_or(|expected| found < expected || counts < expected) {
            let expected = expected.map_or("more than 2^64".to_owned(), |expected| expected.to_string());
            return Err(source.damaged(format_args!(
                "the TIFF needs {expected} strips or tiles, but lists {found} offsets and {counts} sizes"
            )));
        }
        let axes =
            |w: u64, h: u64| w.checked_mul(h)?.checked_mul(self.bands_per_chunk())?.checked_mul(self.dtype.bytes());
        let plane = axes(self.width, self.height);
        let most = plane.and_then(|plane| plane.checked_mul(MAX_TILE_TIMES)).map(|most| most.max(MAX_SMALL_TILE));
        match (axes(self.tile_width, self.tile_height), most) {
            (Some(tile), Some(most)) if tile <= most => Ok(()),
            _ => Err(source.damaged(format_args!(
                "the TIFF tiles of {} x {} pixels are more than {MAX_TILE_TIMES} times as large as the picture of {} x \
                 {} pixels",
                self.tile_height, self.tile_width, self.height, self.width
            ))),
        }
    }

    /// Adds every strip and tile to the sums of the file. Fails if a chunk cannot decompress to its size,
    /// before allocating memory for it.
    pub(super) fn add_chunks(&self, source: &CubeFile, chunks: &mut Chunks) -> Result<()> {
        let planes = if self.planar { self.bands } else { 1 };
        let (across, down) = (self.across(), self.down());
        let mut number = 0;
        for _ in 0..planes {
            for row in 0..down {
                let rows = if self.tiled {
                    self.tile_height
                } else {
                    self.tile_height.min(self.height - row * self.tile_height)
                };
                // `check_chunks` has bounded these products by the picture size or a limit.
                let needed = self.stored_row() * rows;
                for _ in 0..across {
                    let ChunkRange { offset, count } = self.range(source, number, needed)?;
                    if count.saturating_mul(self.compression.max_ratio()) < needed {
                        let found = match self.compression {
                            Compression::None => format!("{count} bytes instead of {needed}"),
                            Compression::Coded(coding) => {
                                format!("{count} bytes of {coding:?} data, too few for {needed} bytes of pixels")
                            }
                        };
                        return Err(
                            source.damaged(format_args!("TIFF strip or tile {number} at offset {offset} has {found}"))
                        );
                    }
                    let stored = if self.compression == Compression::None { needed } else { count };
                    source.check_range("TIFF strip or tile", offset, stored)?;
                    chunks.add(stored, needed);
                    number += 1;
                }
            }
        }
        Ok(())
    }

    fn stored_row(&self) -> u64 {
        if self.bilevel {
            self.tile_width.div_ceil(8)
        } else {
            self.tile_width * self.bands_per_chunk() * self.dtype.bytes()
        }
    }

    /// Returns the byte range of a chunk in the file. `needed` is its decompressed size.
    fn range(&self, source: &CubeFile, number: usize, needed: u64) -> Result<ChunkRange> {
        let offset = self.offsets.get(number).copied().unwrap_or_default();
        let count = self.counts.as_ref().and_then(|counts| counts.get(number)).copied().unwrap_or(needed);
        if offset == 0 || count == 0 {
            let error =
                source.unsupported(format_args!("TIFF strip or tile {number} is missing, because the file is sparse"));
            return Err(error.with_hint("fill in the missing parts with `gdal_translate -co SPARSE_OK=FALSE IN OUT`"));
        }
        Ok(ChunkRange { offset, count })
    }

    pub(super) const fn shape(&self) -> [u64; 3] {
        [self.height, self.width, self.bands]
    }

    /// Returns true if [`Page::read_into`] produces big-endian elements. With a predictor, they are always
    /// little-endian.
    pub(super) fn big_endian(&self) -> bool {
        self.file_big_endian && self.predictor == Predictor::None
    }

    const fn across(&self) -> u64 {
        self.width.div_ceil(self.tile_width)
    }

    const fn down(&self) -> u64 {
        self.height.div_ceil(self.tile_height)
    }

    const fn bands_per_chunk(&self) -> u64 {
        if self.planar { 1 } else { self.bands }
    }

    /// Decodes all strips or tiles into `out`. The order is bands, rows, columns for planar pages, and
    /// otherwise rows, columns, bands.
    pub(super) fn read_into(&self, source: &CubeFile, out: &mut [u8]) -> Result<()> {
        let pixel = size(self.bands_per_chunk() * self.dtype.bytes());
        let (width, height) = (size(self.width), size(self.height));
        let (tile_width, tile_height) = (size(self.tile_width), size(self.tile_height));
        let (across, down) = (size(self.across()), size(self.down()));
        let mut packed = Vec::new();
        let mut tile = Vec::new();
        for (band, plane) in out.chunks_exact_mut(width * height * pixel).enumerate() {
            for (row, part) in plane.chunks_mut(tile_height * width * pixel).enumerate() {
                for column in 0..across {
                    let number = (band * down + row) * across + column;
                    if !self.tiled && !self.bilevel {
                        self.decode(source, number, part, width * pixel, &mut packed)?;
                        continue;
                    }
                    let stored_row = size(self.stored_row());
                    let rows = if self.tiled { tile_height } else { part.len() / width };
                    source.resize("TIFF tile", &mut tile, (stored_row * rows) as u64)?;
                    self.decode(source, number, &mut tile, stored_row, &mut packed)?;
                    let left = column * tile_width * pixel;
                    for (to, from) in part.chunks_exact_mut(width * pixel).zip(tile.chunks_exact(stored_row)) {
                        // This slice is never empty, because `across` does not count tiles that start beyond
                        // the end of a row.
                        let to = to.get_mut(left..).unwrap_or_default();
                        if self.bilevel {
                            let bits = from.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
                            to.iter_mut().take(tile_width).zip(bits).for_each(|(to, bit)| *to = bit);
                        } else {
                            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes a chunk into `out`. Each row of `out` has `row` bytes.
    fn decode(&self, source: &CubeFile, number: usize, out: &mut [u8], row: usize, packed: &mut Vec<u8>) -> Result<()> {
        source.check_cancel()?;
        let range = self.range(source, number, out.len() as u64)?;
        chunk::decode(source, self.compression, number, range, out, packed)?;
        if self.predictor != Predictor::None {
            let bands = size(self.bands_per_chunk());
            for row in out.chunks_exact_mut(row) {
                predictor::undo(self.predictor, row, self.dtype, bands, self.file_big_endian, packed);
            }
        }
        Ok(())
    }
}

/// Converts a length that is known not to exceed existing memory.
fn size(length: u64) -> usize {
    to_usize(length)
}

fn dtype(source: &CubeFile, file: &TiffSource<'_>, ifd: &Ifd<'_>) -> Result<Dtype> {
    let one = |tag: u16, name: &str, default: u64| {
        let values = file.integers(ifd, tag)?.unwrap_or_default();
        let first = values.first().copied().unwrap_or(default);
        match values.iter().find(|&&value| value != first) {
            Some(other) => {
                let text = format!("TIFF bands with different {name} are not supported: {first} and {other}");
                Err(source.unsupported(text))
            }
            None => Ok(first),
        }
    };
    if matches!(ifd.integer_or(262, 1)?, 6 | 8..=10) {
        let code = ifd.integer_or(262, 1)?;
        let text = format!(
            "the TIFF stores YCbCr or Lab colours (photometric interpretation {code}), which are not supported"
        );
        return Err(source.unsupported(text).with_hint("convert the file to RGB or greyscale"));
    }
    let bits = one(258, "bits per sample", 1)?;
    // Format 4 means undefined. All readers treat these values as integers.
    let format = one(339, "sample formats", 1)?;
    Ok(match (format, bits) {
        (1 | 4, 1) => Dtype::Bool,
        (1 | 4, 8) => Dtype::U8,
        (1 | 4, 16) => Dtype::U16,
        (1 | 4, 32) => Dtype::U32,
        (1 | 4, 64) => Dtype::U64,
        (2, 8) => Dtype::I8,
        (2, 16) => Dtype::I16,
        (2, 32) => Dtype::I32,
        (2, 64) => Dtype::I64,
        (3, 16) => Dtype::F16,
        (3, 32) => Dtype::F32,
        (3, 64) => Dtype::F64,
        _ => {
            let name = match format {
                1 | 4 => "unsigned integer",
                2 => "signed integer",
                3 => "float",
                5 | 6 => "complex",
                _ => "unknown-type",
            };
            return Err(source.unsupported(format_args!(
                "{bits}-bit {name} samples are not supported in TIFF files (supported: 1-bit unsigned integers, 8- to \
                 64-bit integers and 16- to 64-bit floats)"
            )));
        }
    })
}

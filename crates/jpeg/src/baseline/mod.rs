//! Our own decoder, for pictures where it is faster than libjpeg-turbo: baseline, 8 bits, Huffman-coded, gray or
//! YCbCr in one scan.
//!
//! Restart segments are independent bit streams, so the decoder alternates between two of them: while the next symbol
//! of one is looked up, it works on the other. A general JPEG decoder cannot do this (docs/adr/0011-own-decoder.md).
//! Only the pixels of the requested rectangle are computed. The stages are: `segments` finds the bytes, `tables` and
//! `huffman` read the tables, `streams` turns bits into coefficients, `idct` turns coefficients into samples, and
//! `pixels` turns samples into RGB.
//!
//! The pixels equal libjpeg-turbo's, bit for bit. If anything in a picture is unusual, missing or left over,
//! libjpeg-turbo decodes the picture instead. All errors, and the pixels of damaged pictures, are therefore
//! libjpeg-turbo's. The rules are in `docs/entropy-segments.md`, and each has a test in `rules_tests.rs`.

mod bands;
mod bits;
mod color;
mod huffman;
mod idct;
mod layout;
mod pixels;
mod planes;
mod segments;
mod skip;
mod streams;
mod tables;
mod transcode;
mod upsample;
mod walk;

use super::shared::KEPT_BYTES;
use super::{JpegHeader, Rect, SegmentIndex};
use bands::Bands;
use layout::Layout;
use pixels::RowMaker;
use planes::Planes;
use segments::Segments;
use shardpack_base::vectorised;
use tables::Tables;
pub(super) use transcode::BaselineTranscoder;
pub(super) use walk::{ScanWalker, Walked};

/// A decoder for one thread. Its buffers grow to fit the largest picture so far. They store the picture's
/// entropy-coded bytes, and a few MCU rows of coefficients and samples.
pub(super) struct BaselineDecoder {
    tables: Tables,
    segments: Segments,
    bands: Bands,
    planes: Planes,
    pixels: RowMaker,
}

impl BaselineDecoder {
    pub(super) fn new() -> Self {
        Self {
            tables: Tables::new(),
            segments: Segments::default(),
            bands: Bands::default(),
            planes: Planes::default(),
            pixels: RowMaker::default(),
        }
    }

    pub(super) fn trim(&mut self) {
        self.segments.trim();
        if self.planes.bytes() > KEPT_BYTES {
            self.planes = Planes::default();
        }
        if self.bands.bytes() > KEPT_BYTES {
            self.bands = Bands::default();
        }
    }

    /// Decodes the pixels of `window` into `out`, as RGB in rows without gaps. Gray values are repeated three
    /// times. Returns the number of bytes read, including the header.
    ///
    /// With an index, decoding starts at the segments that the window needs, even without restart markers.
    ///
    /// `header` must be the header of `jpeg`, and its colours must be gray or YCbCr. Returns `None` if
    /// libjpeg-turbo has to decode this picture, or if the index does not match it. The content of `out` is
    /// then unspecified.
    pub(super) fn decode(
        &mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        index: Option<&SegmentIndex<'_>>,
        window: Rect,
        out: &mut [u8],
    ) -> Option<usize> {
        // The code that joins four samples into a word puts the first sample into the lowest byte,
        // which is correct only on little-endian machines.
        if cfg!(target_endian = "big") {
            return None;
        }
        let layout = Layout::of(header, window, index)?;
        self.tables.read(jpeg, header)?;
        let head = usize::try_from(header.scan_offset).ok()?;
        let scan = jpeg.get(head..)?;
        match index {
            None => self.segments.read(scan, &layout)?,
            Some(index) => self.segments.read_indexed(scan, &layout, index)?,
        }
        vectorised(
            #[inline(always)]
            || self.rows(&layout, out),
        )?;
        Some(head + self.segments.len())
    }

    /// Decodes a few MCU rows at a time, so that each stage finds the output of the previous stage in the cache.
    #[inline(always)]
    fn rows(&mut self, layout: &Layout, out: &mut [u8]) -> Option<()> {
        self.planes.prepare(layout);
        self.pixels.prepare(layout);
        let mut reading = self.bands.begin(layout, &self.tables, &self.segments)?;
        while let Some(band) = reading.next()? {
            self.planes.fill(layout, &self.tables, &band)?;
            self.pixels.write(layout, &self.planes, band.rows.end, out)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;

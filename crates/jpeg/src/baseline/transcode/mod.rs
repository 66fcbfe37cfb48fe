//! Rewrites a picture without computing its pixels: in one scan, with a different restart interval and
//! optimised Huffman codes.
//!
//! Restart markers change only the differences of DC coefficients, so AC coefficients keep their symbols.
//! `symbols` reads the symbols of the whole picture into a list and counts them, `code` builds the Huffman
//! codes, `head` writes the segments before the scan, and `scan` writes the symbols in their new codes.
//!
//! The output equals libjpeg-turbo's (`Transcoder`), byte for byte. libjpeg-turbo itself transcodes a picture
//! that is irregular (`docs/entropy-segments.md`), must be rotated, or has coefficients outside the range that it
//! writes.
#![deny(clippy::indexing_slicing)]

mod code;
mod head;
mod scan;
mod symbols;

use super::layout::Layout;
use super::segments::Segments;
use super::tables::Tables;
use crate::shared::KEPT_BYTES;
use crate::turbo::{Operation, Transcoding};
use crate::{JpegHeader, Rect};
use code::OptimalCodes;
use scan::ScanWriter;
use shardpack_base::vectorised;
use symbols::SymbolList;

/// A transcoder for one thread. Its buffers grow to fit the largest picture so far. They store the picture's
/// entropy-coded bytes, and four bytes per symbol.
pub(crate) struct BaselineTranscoder {
    tables: Tables,
    segments: Segments,
    symbols: SymbolList,
    codes: OptimalCodes,
    scan: ScanWriter,
}

impl BaselineTranscoder {
    pub(crate) fn new() -> Self {
        Self {
            tables: Tables::new(),
            segments: Segments::default(),
            symbols: SymbolList::new(),
            codes: OptimalCodes::new(),
            scan: ScanWriter::default(),
        }
    }

    /// Appends the rewritten picture to `out`. Returns `None` and appends nothing if libjpeg-turbo has to
    /// transcode this picture. `header` must be the header of `jpeg`.
    pub(crate) fn transcode(
        &mut self,
        jpeg: &[u8],
        header: &JpegHeader,
        how: Transcoding,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let start = out.len();
        let result = self.append(jpeg, header, how, out);
        if result.is_none() {
            out.truncate(start);
        }
        self.segments.trim();
        if self.symbols.bytes() > KEPT_BYTES {
            self.symbols = SymbolList::new();
        }
        self.scan.trim();
        result
    }

    fn append(&mut self, jpeg: &[u8], header: &JpegHeader, how: Transcoding, out: &mut Vec<u8>) -> Option<()> {
        // Rotating the picture would change the symbols, so it is left to libjpeg-turbo.
        if cfg!(target_endian = "big") || how.operation != Operation::None || how.restart_interval == 0 {
            return None;
        }
        let head = head::Head::of(jpeg, header, how)?;
        let whole = Rect::whole(header.width.into(), header.height.into());
        let layout = Layout::of(header, whole, None)?;
        self.tables.read(jpeg, header)?;
        let scan = jpeg.get(usize::try_from(header.scan_offset).ok()?..)?;
        self.segments.read(scan, &layout)?;
        let Self { tables, segments, symbols, codes, scan, .. } = self;
        vectorised(
            #[inline(always)]
            || {
                symbols.read(&layout, tables, segments, how.restart_interval)?;
                codes.set(&symbols.counts)?;
                head.write(codes, out);
                scan.write(symbols, codes, out)
            },
        )
    }
}

#[cfg(test)]
mod tests;

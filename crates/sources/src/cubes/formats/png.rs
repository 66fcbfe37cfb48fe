//! Reads the numbers in PNG files, which may be pictures of any depth or label masks.

use crate::cubes::cube::{CubeHeader, LoadedCube, LoadedMask};
use crate::cubes::error::{CubeError, Result};
use crate::cubes::format::CubeFormat;
use crate::cubes::layout::{AxisOrder, CubeLayout};
use crate::cubes::select::Purpose;
use crate::cubes::source::{CubeFile, CubeStream, MAX_DEFLATE_RATIO};
use png::{BitDepth, ColorType};
use shardpack_array::Array;
use shardpack_format::{Dtype, Hint, Setting, to_usize};
use std::io::BufReader;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

struct PngReader<'a> {
    source: &'a CubeFile,
    reader: png::Reader<BufReader<CubeStream<'a>>>,
}

impl<'a> PngReader<'a> {
    fn open(source: &'a CubeFile) -> Result<Self> {
        source.stream(0, 0)?;
        let mut decoder = png::Decoder::new(BufReader::new(source.whole()));
        // Keep palette indices and samples as stored, without expanding them to colours or applying gamma.
        decoder.set_transformations(png::Transformations::IDENTITY);
        let reader = decoder.read_info().map_err(|error| bad(source, error))?;
        Ok(Self { source, reader })
    }

    fn color(&self) -> ColorType {
        self.reader.info().color_type
    }

    fn layout(&self) -> CubeLayout {
        let info = self.reader.info();
        let dtype = if info.bit_depth == BitDepth::Sixteen { Dtype::U16 } else { Dtype::U8 };
        let shape = [info.height.into(), info.width.into(), info.color_type.samples() as u64];
        CubeLayout { dtype, big_endian: true, shape, order: AxisOrder::Bip }
    }

    /// Reads the samples, expanding 1, 2 or 4 bits to one byte each.
    fn read(mut self, what: &'static str, max_bytes: u64) -> Result<Vec<u8>> {
        let (source, layout) = (self.source, self.layout());
        let [height, width, channels] = layout.shape;
        let bytes = layout.bytes(source, u64::MAX)?;
        if bytes > max_bytes {
            return Err(source.limit(what, max_bytes, bytes));
        }
        let packed_bytes =
            self.reader.output_buffer_size().ok_or_else(|| source.limit(what, max_bytes, u64::MAX))? as u64;
        if packed_bytes / MAX_DEFLATE_RATIO > source.len() {
            let found = source.len();
            let text = format!("a PNG of {found} bytes cannot contain {width} x {height} pixels");
            return Err(source.damaged(text));
        }
        let mut packed = source.zeros(what, packed_bytes)?;
        let line = self.reader.next_frame(&mut packed).map_err(|error| bad(source, error))?.line_size;
        let bits: u32 = match self.reader.info().bit_depth {
            BitDepth::One => 1,
            BitDepth::Two => 2,
            BitDepth::Four => 4,
            BitDepth::Eight | BitDepth::Sixteen => return Ok(packed),
        };
        let per_row = to_usize(width * channels);
        let samples = packed.chunks_exact(line.max(1)).flat_map(|row| {
            let values = row
                .iter()
                .flat_map(|byte| (0..8 / bits).map(move |n| byte >> (8 - bits * (n + 1)) & ((1 << bits) - 1)));
            values.take(per_row)
        });
        Ok(samples.collect())
    }
}

fn bad(source: &CubeFile, error: png::DecodingError) -> CubeError {
    match error {
        png::DecodingError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            source.io("cannot read", error)
        }
        other => source.damaged(format_args!("cannot decode the PNG: {other}")),
    }
}

/// Opens a picture. Fails for palettes, because palette indices are not intensities.
fn picture(source: &CubeFile) -> Result<PngReader<'_>> {
    let picture = PngReader::open(source)?;
    if picture.color() == ColorType::Indexed {
        let error = source.unsupported("a PNG with a palette cannot be packed as a cube");
        return Err(
            error.with_hint(Hint::new("pack the file as a picture, with ").and([Setting::word("kind", "images")]))
        );
    }
    Ok(picture)
}

/// Opens a label mask, which must be a grey or palette PNG.
fn labels(source: &CubeFile) -> Result<PngReader<'_>> {
    let labels = PngReader::open(source)?;
    if !matches!(labels.color(), ColorType::Grayscale | ColorType::Indexed) {
        let error = source.unsupported(format_args!(
            "a label mask must be a grey or palette PNG, but this one has the colour type {:?}",
            labels.color()
        ));
        return Err(error.with_hint("save the class numbers, not their colours"));
    }
    Ok(labels)
}

pub(super) struct Png;

impl CubeFormat for Png {
    fn recognises(&self, _: &CubeFile, head: &[u8]) -> Result<bool> {
        Ok(head.starts_with(SIGNATURE))
    }

    fn may_be_mask(&self, head: &[u8], _: u64) -> bool {
        head.starts_with(SIGNATURE)
    }

    fn labels(&self, source: &CubeFile, max_bytes: u64) -> Result<Option<Array>> {
        let labels = labels(source)?;
        let layout = labels.layout();
        let [height, width, _] = layout.shape;
        let stored = labels.read("the label mask", max_bytes)?;
        let bytes = layout.assemble(source, stored)?;
        LoadedMask::array(source, layout.dtype, [height, width], bytes).map(Some)
    }

    fn label_size(&self, source: &CubeFile) -> Result<Option<[u64; 2]>> {
        let [height, width, _] = labels(source)?.layout().shape;
        Ok(Some([height, width]))
    }

    fn peek(&self, source: &CubeFile, want: &Purpose) -> Result<CubeHeader> {
        CubeHeader::new(&picture(source)?.layout(), source, want.max_bytes())
    }

    fn load(&self, source: &CubeFile, want: &Purpose) -> Result<LoadedCube> {
        let picture = picture(source)?;
        let layout = picture.layout();
        layout.bytes(source, want.max_bytes())?;
        let stored = picture.read("the picture", want.max_bytes())?;
        LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)
    }
}

//! PNG as numbers: the samples of a picture of any depth, and the labels of a mask.

use super::cube::{CubeInfo, CubeKind, LoadedCube};
use super::error::Result;
use super::layout::{Layout, Order};
use super::npz::MAX_DEFLATE_RATIO;
use super::select::Want;
use super::source::Source;
use png::{BitDepth, ColorType};
use shardpack_format::{Dtype, Hint, Setting, to_usize};
use std::io::BufReader;

/// A PNG whose header was read.
pub(super) struct Png<'a> {
    source: &'a Source,
    reader: png::Reader<BufReader<super::source::Stream<'a>>>,
}

impl<'a> Png<'a> {
    pub(super) fn open(source: &'a Source) -> Result<Self> {
        source.stream(0, 0)?;
        let mut decoder = png::Decoder::new(BufReader::new(source.whole()));
        // Palette indices and samples as they are stored: no expansion to colours, no gamma.
        decoder.set_transformations(png::Transformations::IDENTITY);
        let reader = decoder.read_info().map_err(|error| bad(source, error))?;
        Ok(Self { source, reader })
    }

    pub(super) fn color(&self) -> ColorType {
        self.reader.info().color_type
    }

    /// `[height, width, channels]`, uint8 or uint16; the elements of 16 bits are big-endian.
    pub(super) fn layout(&self) -> Layout {
        let info = self.reader.info();
        let dtype = if info.bit_depth == BitDepth::Sixteen { Dtype::U16 } else { Dtype::U8 };
        let shape = [info.height.into(), info.width.into(), info.color_type.samples() as u64];
        Layout { dtype, big_endian: true, shape, order: Order::Bip }
    }

    /// The samples as the layout says. Those of 1, 2 and 4 bits take a byte each.
    pub(super) fn read(mut self, what: &'static str, max_bytes: u64) -> Result<Vec<u8>> {
        let (source, layout) = (self.source, self.layout());
        let [height, width, channels] = layout.shape;
        let bytes = layout.dtype.array_bytes(&layout.shape).unwrap_or(u64::MAX);
        if bytes > max_bytes {
            return Err(source.limit(what, max_bytes, bytes));
        }
        let packed_bytes =
            self.reader.output_buffer_size().ok_or_else(|| source.limit(what, max_bytes, u64::MAX))? as u64;
        if packed_bytes / MAX_DEFLATE_RATIO > source.len() {
            let claim = format!("{} bytes for {width} x {height} pixels", source.len());
            return Err(source.format(what, "as many pixels as deflate can hold", claim));
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

fn bad(source: &Source, error: png::DecodingError) -> super::CubeError {
    match error {
        png::DecodingError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            source.io("cannot read", error)
        }
        other => source.format("PNG", "a whole one", other),
    }
}

/// A picture as numbers; a palette's indices are none.
fn picture(source: &Source) -> Result<Png<'_>> {
    let picture = Png::open(source)?;
    if picture.color() == ColorType::Indexed {
        let error = source.unsupported("PNG as an array", "grey or colours", "a palette");
        return Err(error.with_hint(Hint::new("pack it as a picture, with ").and([Setting::word("kind", "images")])));
    }
    Ok(picture)
}

pub(super) fn peek(source: &Source, want: &Want) -> Result<CubeInfo> {
    CubeInfo::new(CubeKind::Png, &picture(source)?.layout(), source, want.max_bytes())
}

pub(super) fn load(source: &Source, want: &Want) -> Result<LoadedCube> {
    let picture = picture(source)?;
    let layout = picture.layout();
    layout.bytes(source, want.max_bytes())?;
    let stored = picture.read("PNG samples", want.max_bytes())?;
    LoadedCube::new(source, layout.dtype, layout.shape, layout.assemble(source, stored)?)
}

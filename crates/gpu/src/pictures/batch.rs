//! A staged batch: how much memory it takes, and what is launched.

use super::record::{DECODE_THREADS, HUFFMAN_BYTES, PIXEL_THREADS};
use super::{Dtype, Output};
use crate::driver::{Launch, Params};
use shardpack_codec::jpeg::PixelLayout;

/// Where the tables stand among the uploaded bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) pictures: usize,
    pub(super) segments: usize,
    pub(super) groups: usize,
    pub(super) tiles: usize,
    pub(super) codes: usize,
}

/// A row of a batch: one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its first element in the output.
    pub first: u64,
    /// Rows of pixels.
    pub height: u32,
    /// Columns of pixels.
    pub width: u32,
}

/// A batch that is ready to be uploaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub(super) sections: Sections,
    pub(super) output: Output,
    pub(super) rows: Vec<Row>,
    pub(super) entropy_bytes: usize,
    pub(super) upload_bytes: usize,
    pub(super) segments: u32,
    pub(super) groups: u32,
    pub(super) tiles: u32,
    pub(super) codes: u32,
    pub(super) spans: usize,
    pub(super) weights: usize,
    pub(super) blocks: usize,
    pub(super) elements: u64,
}

/// For each region of device memory that a batch takes: its size, or its address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Regions<T> {
    /// What is uploaded.
    pub upload: T,
    /// Entropy-coded words without stuffing.
    pub words: T,
    /// Bytes of each segment without stuffing.
    pub lengths: T,
    /// Huffman tables.
    pub tables: T,
    /// Which pixels of the source each pixel is made of.
    pub spans: T,
    /// And by which weights.
    pub weights: T,
    /// Bits behind the point of each axis' weights.
    pub precisions: T,
    /// Samples, block by block.
    pub planes: T,
    /// A word for each row: 0, or why it is flagged.
    pub status: T,
    /// The output.
    pub out: T,
}

impl<T: Copy> Regions<T> {
    /// The same for something else.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Regions<U> {
        Regions {
            upload: f(self.upload),
            words: f(self.words),
            lengths: f(self.lengths),
            tables: f(self.tables),
            spans: f(self.spans),
            weights: f(self.weights),
            precisions: f(self.precisions),
            planes: f(self.planes),
            status: f(self.status),
            out: f(self.out),
        }
    }
}

impl Batch {
    /// The pictures in it, in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Bytes that are uploaded: the first ones of the memory that it was staged in.
    #[must_use]
    pub const fn upload_bytes(&self) -> usize {
        self.upload_bytes
    }

    /// Elements of the output.
    #[must_use]
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// Bytes of each region. Addresses must be multiples of 16.
    #[must_use]
    pub fn sizes(&self) -> Regions<usize> {
        Regions {
            upload: self.upload_bytes,
            words: (self.entropy_bytes / 4 + self.segments as usize + 1) * 4,
            lengths: self.segments as usize * 4,
            tables: self.codes as usize * HUFFMAN_BYTES as usize,
            spans: self.spans * 8,
            weights: self.weights * 2,
            precisions: self.rows.len() * 8,
            planes: self.blocks * 64,
            status: self.rows.len() * 4,
            out: usize::try_from(self.elements).unwrap_or(usize::MAX).saturating_mul(self.output.dtype.bytes()),
        }
    }

    /// What is launched, in this order, once the bytes are uploaded to `at.upload`.
    #[must_use]
    pub fn launches(&self, at: &Regions<u64>) -> Vec<Launch> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let section = |offset: usize| at.upload + offset as u64;
        let Sections { pictures, segments, groups, tiles, codes } = self.sections;
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let launch =
            |kernel, blocks, threads, params| Launch { kernel, grid: [blocks, 1, 1], block: [threads, 1, 1], params };
        let tables = Params::new().address(at.upload).address(section(codes)).address(at.tables).address(at.status);
        let weights =
            Params::new().address(section(pictures)).address(at.spans).address(at.weights).address(at.precisions);
        let bytes = Params::new().address(at.upload).address(section(segments)).address(at.words).address(at.lengths);
        let blocks = Params::new()
            .address(section(pictures))
            .address(section(segments))
            .address(section(groups))
            .address(at.tables)
            .address(at.words)
            .address(at.lengths)
            .address(at.planes)
            .address(at.status);
        let pixels = Params::new()
            .address(section(pictures))
            .address(section(tiles))
            .address(at.spans)
            .address(at.weights)
            .address(at.precisions)
            .address(at.planes)
            .address(at.out)
            .address(at.status);
        vec![
            launch("picture_tables", self.codes, 128, tables.u32(self.codes).u32(count)),
            launch("picture_weights", count * 2, 128, weights),
            launch("picture_bytes", self.segments.div_ceil(128), 128, bytes.u32(self.segments)),
            launch(
                "picture_blocks",
                self.groups.div_ceil(DECODE_THREADS / 32),
                DECODE_THREADS,
                blocks.u32(self.groups),
            ),
            launch("picture_pixels", self.tiles, PIXEL_THREADS, written(pixels, &self.output)),
        ]
    }
}

/// `struct Output`.
fn written(params: Params, output: &Output) -> Params {
    let dtype = match output.dtype {
        Dtype::Uint8 => 0,
        Dtype::Float16 => 1,
        Dtype::Bfloat16 => 2,
        Dtype::Float32 => 3,
    };
    let channels_first = u32::from(output.layout == PixelLayout::ChannelsHeightWidth);
    let floats = output.scaling.scale.into_iter().chain(output.scaling.bias);
    floats.fold(params.u32(dtype).u32(channels_first), Params::f32)
}

//! A staged batch: the sizes of its memory regions, and its kernel launches.

use super::layout::{
    BORDER_BYTES, BORDER_THREADS, BYTES_THREADS, CHANGE_THREADS, CHANGED_BYTES, DECODE_THREADS, HUFFMAN_BYTES,
    ODD_ENTROPY, ODD_RANGE, PACKED, PIXEL_THREADS, TILE_BYTES,
};
use super::options::Output;
use super::totals::Totals;
use crate::driver::{Launch, Params};
use shardpack_format::to_usize;
use shardpack_jpeg::PixelLayout;

/// Number of thread blocks that fill the border of a picture.
const BORDER_BLOCKS: u32 = 16;

/// Offsets of the tables in the uploaded bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) pictures: usize,
    pub(super) segments: usize,
    pub(super) edges: usize,
    pub(super) groups: usize,
    pub(super) tiles: usize,
    pub(super) borders: usize,
    pub(super) codes: usize,
    pub(super) changed: usize,
    pub(super) changes: usize,
    pub(super) blur_weights: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PictureRow {
    /// Index of the row's first element in the output.
    pub(crate) first: u64,
    pub(crate) height: u32,
    pub(crate) width: u32,
}

/// Consecutive table entries for one launch, with the same kind of output: tiles, borders, or changed pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Writes {
    pub(super) kernel: &'static str,
    /// The output, or `None` for levels that are changed later.
    pub(super) output: Option<Output>,
    pub(super) first: u32,
    pub(super) count: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PictureBatch {
    pub(super) sections: Sections,
    pub(super) writes: Vec<Writes>,
    pub(super) borders: Vec<Writes>,
    pub(super) changes: Vec<Writes>,
    pub(super) level_bytes: u64,
    pub(super) rows: Vec<PictureRow>,
    pub(super) staged_bytes: usize,
    pub(super) upload_bytes: usize,
    pub(super) totals: Totals,
    pub(super) out_bytes: u64,
}

/// The size, offset or address of each device memory region that a batch uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Regions<T> {
    pub(crate) upload: T,
    /// Entropy-coded words without stuffing.
    pub(crate) words: T,
    /// Length of each unstuffed segment in bytes.
    pub(crate) lengths: T,
    pub(crate) tables: T,
    /// Ranges of source pixels, one for each output pixel.
    pub(crate) spans: T,
    pub(crate) weights: T,
    /// Number of fraction bits of the weights of each axis.
    pub(crate) precisions: T,
    /// Decoded samples, stored block by block.
    pub(crate) planes: T,
    pub(crate) levels: T,
    /// Status word of each row: 0, or the row's fault.
    pub(crate) status: T,
    pub(crate) out: T,
}

impl<T: Copy> Regions<T> {
    pub(crate) fn map<U>(self, mut f: impl FnMut(T) -> U) -> Regions<U> {
        Regions {
            upload: f(self.upload),
            words: f(self.words),
            lengths: f(self.lengths),
            tables: f(self.tables),
            spans: f(self.spans),
            weights: f(self.weights),
            precisions: f(self.precisions),
            planes: f(self.planes),
            levels: f(self.levels),
            status: f(self.status),
            out: f(self.out),
        }
    }
}

impl PictureBatch {
    #[must_use]
    pub(crate) fn rows(&self) -> &[PictureRow] {
        &self.rows
    }

    #[must_use]
    pub(crate) const fn fault(status: u32) -> Option<&'static str> {
        match status {
            0 => None,
            _ if status & ODD_ENTROPY != 0 => Some("entropy-coded segment with invalid bits"),
            _ if status & ODD_RANGE != 0 => Some("coefficients out of range"),
            _ => Some("tile too large for the device"),
        }
    }

    /// Returns the size of each region in bytes. Addresses must be multiples of 16.
    #[must_use]
    pub(crate) fn sizes(&self) -> Regions<usize> {
        let Totals { segments, codes, spans, weights, blocks, .. } = self.totals;
        Regions {
            upload: self.upload_bytes,
            words: (self.staged_bytes / 16 + 2 * segments as usize + 1) * 16,
            lengths: segments as usize * 4,
            tables: codes as usize * HUFFMAN_BYTES as usize,
            spans: spans as usize * 8,
            weights: weights as usize * 2,
            precisions: self.rows.len() * 8,
            planes: blocks as usize * 64,
            levels: to_usize(self.level_bytes),
            status: self.rows.len() * 4,
            out: to_usize(self.out_bytes),
        }
    }

    /// Returns the offsets of the intermediate regions, which are placed one after another from `start` on, and the
    /// end of the last region. The upload and the output have separate memory, so their offset is 0.
    pub(crate) fn layout(&self, start: usize) -> (Regions<usize>, usize) {
        let sizes = Regions { upload: 0, out: 0, ..self.sizes() };
        let mut end = start.next_multiple_of(256);
        let places = sizes.map(|bytes| {
            let at = end;
            end = end.saturating_add(bytes).next_multiple_of(256);
            at
        });
        (Regions { upload: 0, out: 0, ..places }, end)
    }

    /// Returns the launches to run, in this order, after the upload to `at.upload`.
    #[must_use]
    pub(crate) fn launches(&self, at: &Regions<u64>) -> Vec<Launch> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let section = |offset: usize| at.upload + offset as u64;
        let Sections { pictures, segments, edges, groups, tiles, borders, codes, changed, changes, blur_weights } =
            self.sections;
        let Totals { pictures: count, segments: segment_count, groups: group_count, codes: code_count, .. } =
            self.totals;
        let launch =
            |kernel, blocks, threads, params| Launch { kernel, grid: [blocks, 1, 1], block: [threads, 1, 1], params };
        let tables = Params::new().address(at.upload).address(section(codes)).address(at.tables).address(at.status);
        let weights =
            Params::new().address(section(pictures)).address(at.spans).address(at.weights).address(at.precisions);
        let bytes = Params::new().address(at.upload).address(section(segments)).address(at.words).address(at.lengths);
        let blocks = Params::new()
            .address(section(pictures))
            .address(section(segments))
            .address(section(edges))
            .address(section(groups))
            .address(at.tables)
            .address(at.words)
            .address(at.lengths)
            .address(at.planes)
            .address(at.status);
        let mut launches = vec![
            launch("picture_tables", code_count, 128, tables.u32(code_count).u32(count)),
            launch("picture_weights", count * 2, 128, weights),
            launch(
                "picture_bytes",
                segment_count.div_ceil(BYTES_THREADS / 32),
                BYTES_THREADS,
                bytes.u32(segment_count),
            ),
            launch(
                "picture_blocks",
                group_count.div_ceil(DECODE_THREADS / 32),
                DECODE_THREADS,
                blocks.u32(group_count),
            ),
        ];
        launches.extend(self.writes.iter().map(|writes| {
            let pixels = Params::new()
                .address(section(pictures))
                .address(section(tiles + writes.first as usize * TILE_BYTES))
                .address(at.spans)
                .address(at.weights)
                .address(at.precisions)
                .address(at.planes)
                .address(if writes.output.is_some() { at.out } else { at.levels })
                .address(at.status);
            launch(writes.kernel, writes.count, PIXEL_THREADS, written(pixels, writes.output.as_ref()))
        }));
        launches.extend(self.borders.iter().map(|writes| {
            let params = Params::new()
                .address(section(borders + (writes.first * BORDER_BYTES) as usize))
                .address(if writes.output.is_some() { at.out } else { at.levels });
            let params = written(params, writes.output.as_ref());
            let grid = [writes.count, BORDER_BLOCKS, 1];
            Launch { kernel: writes.kernel, grid, block: [BORDER_THREADS, 1, 1], params }
        }));
        launches.extend(self.changes.iter().map(|writes| {
            let params = Params::new()
                .address(section(changed + (writes.first * CHANGED_BYTES) as usize))
                .address(section(changes))
                .address(section(blur_weights))
                .address(at.levels)
                .address(at.out);
            launch(writes.kernel, writes.count, CHANGE_THREADS, written(params, writes.output.as_ref()))
        }));
        launches
    }
}

/// Appends `struct Output`. Without an output, the element type is packed levels.
pub(super) fn written(params: Params, output: Option<&Output>) -> Params {
    let Some(output) = output else {
        return [0.0; 6].into_iter().fold(params.u32(PACKED).u32(0), Params::f32);
    };
    let channels_first = match output.layout {
        PixelLayout::HeightWidthChannels => 0,
        PixelLayout::ChannelsHeightWidth => 1 + output.planes_between,
    };
    let floats = output.scaling.scale.into_iter().chain(output.scaling.bias);
    floats.fold(params.u32(output.dtype.code()).u32(channels_first), Params::f32)
}

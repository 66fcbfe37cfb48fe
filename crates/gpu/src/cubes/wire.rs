//! Structs that the host and the device share. `kernels/cube.cuh` also declares them, and a test compares the sizes.

use super::affine::{AFFINE_MEAN, AFFINE_NEAREST, AFFINE_VIEW, AFFINE_VOLUME_MEAN, AFFINE_VOLUME_NEAREST, AffineRow};
use super::put::put_all;
use super::view::{VIEW_THREADS, ViewRow};
use super::volume::{VOLUME_THREADS, VolumeRow};
use shardpack_array::{Fill, NoDataBits};
use shardpack_augment::Noise;
use shardpack_format::Dtype;

pub(super) const BLOCK_ELEMENTS: usize = 65_536;
pub(super) const TILE_PIXELS: u64 = 32;
/// Flag for a place among the kept values instead of in the slot.
pub(super) const PLACE_KEPT: u64 = 1 << 63;
/// Number of pixels in a tile with four pixels per lane.
pub(super) const QUAD_PIXELS: u64 = 128;
/// Number of threads that transpose a piece.
pub(super) const PIECE_THREADS: u32 = 1024;
/// Warps per block of `cube_streams`.
pub(super) const STREAM_WARPS: u32 = 4;
/// Warps per block of `cube_values`.
pub(super) const TILE_WARPS: u32 = 4;
/// Code of bfloat16. It follows the codes of the element types on disk.
pub(super) const BF16: u32 = 13;
/// Fault codes: the upper 4 bits of a status.
pub(super) const FAULT_LZ4: u32 = 1;
pub(super) const FAULT_FIXED: u32 = 2;
pub(super) const FAULT_BOOL: u32 = 3;
pub(super) const FAULT_ZSTD: u32 = 4;
/// Kinds of no-data values: none, a bit pattern, both zeros of a float, or all NaNs.
const FILL_NOTHING: u32 = 0;
const FILL_BITS: u32 = 1;
const FILL_ZEROS: u32 = 2;
const FILL_NANS: u32 = 3;
/// Values that receive noise: none, all, or all but one value.
const NOISE_NOTHING: u32 = 0;
const NOISE_ALL: u32 = 1;
const NOISE_BUT: u32 = 2;
/// Threads per block of `cube_noise`. Each thread handles two values.
pub(super) const NOISE_THREADS: u32 = 256;

/// Threads per block of `cube_extremes` and `cube_gamma`, and number of values per thread.
pub(super) const GAMMA_THREADS: u32 = 256;
const GAMMA_EACH: u32 = 8;

/// Warps per block of `cube_affine`.
pub(super) const AFFINE_WARPS: u32 = 2;
/// Warps per block of `cube_means`, and columns and rows of pixels per warp.
pub(super) const MEANS_WARPS: u32 = 4;
const MEANS_COLUMNS: u64 = 8;
const MEANS_ROWS: u64 = TILE_PIXELS / MEANS_COLUMNS;

/// Expected output of `cube_config`: struct sizes and the constants that both sides use.
#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
pub(super) const CONFIG: [u32; 33] = [
    48,
    StreamTask::BYTES as u32,
    PieceTask::BYTES as u32,
    Plane::BYTES as u32,
    Pick::BYTES as u32,
    CubeRow::BYTES as u32,
    BLOCK_ELEMENTS as u32,
    TILE_PIXELS as u32,
    PIECE_THREADS,
    STREAM_WARPS,
    TILE_WARPS,
    chunk_bands(4) as u32,
    chunk_bands(8) as u32,
    BF16,
    FAULT_LZ4,
    FAULT_FIXED,
    FAULT_BOOL,
    QUAD_PIXELS as u32,
    ValueWalk::Quads as u32,
    FAULT_ZSTD,
    FILL_NANS,
    NOISE_BUT,
    NOISE_THREADS,
    AFFINE_VIEW,
    AFFINE_WARPS,
    MEANS_WARPS,
    MEANS_COLUMNS as u32,
    GAMMA_THREADS,
    GAMMA_EACH,
    VIEW_THREADS,
    AFFINE_VOLUME_MEAN,
    VOLUME_THREADS,
    VolumeRow::BYTES as u32,
];

/// Returns the number of bands per chunk for stored elements of `width` bytes.
pub(super) const fn chunk_bands(width: usize) -> u64 {
    if width == 8 { 16 } else { 32 }
}

/// An entry of a device table.
pub(super) trait Wire {
    const BYTES: usize;
    /// Appends the entry in little-endian order.
    fn put(&self, out: &mut Vec<u8>);
}

/// Source of a stream's bytes, in the form that the device reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamSource {
    /// An LZ4 block at this offset in the slot.
    Lz4(u64),
    Stored(u64),
    Run(u8),
    /// A zstd frame at this offset in the slot.
    Zstd(u64),
}

/// Mirrors `struct CubeStream` of the kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamTask {
    pub(super) source: StreamSource,
    pub(super) to: u64,
    pub(super) bytes: u32,
    pub(super) out_bytes: u32,
    pub(super) row: u32,
    pub(super) number: u32,
}

impl StreamTask {
    /// Estimates the relative decoding time. Sequences take most of the time. A stream that is hardly compressed
    /// consists of long literals, and a stream that is compressed well consists of long matches, so both have few
    /// sequences.
    pub(super) fn toil(&self) -> u64 {
        match self.source {
            StreamSource::Lz4(_) => u64::from(self.bytes) * u64::from(self.out_bytes.saturating_sub(self.bytes)),
            // Every byte of a zstd frame takes time, because literals and sequences are decoded one by one.
            StreamSource::Zstd(_) => self.bytes.into(),
            StreamSource::Stored(_) | StreamSource::Run(_) => 0,
        }
    }
}

impl Wire for StreamTask {
    const BYTES: usize = 40;

    fn put(&self, out: &mut Vec<u8>) {
        let (kind, from) = match self.source {
            StreamSource::Lz4(at) => (0, at),
            StreamSource::Stored(at) => (1, at),
            StreamSource::Run(value) => (2, value.into()),
            StreamSource::Zstd(at) => (3, at),
        };
        put_all([from, self.to], &[self.bytes, self.out_bytes, self.row, self.number, kind, 0], out);
    }
}

/// Mirrors `struct CubePiece` of the kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceTask {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) rest: u64,
    pub(super) step: u32,
    pub(super) count: u32,
    pub(super) delta: bool,
}

impl Wire for PieceTask {
    const BYTES: usize = 40;

    fn put(&self, out: &mut Vec<u8>) {
        put_all([self.from, self.to, self.rest], &[self.step, self.count, self.delta.into(), 0], out);
    }
}

/// Mirrors `struct CubePlane` of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plane {
    pub(super) at: u64,
    pub(super) step: u32,
}

impl Wire for Plane {
    const BYTES: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        put_all([self.at], &[self.step, 0], out);
    }
}

/// Mirrors `struct CubePick` of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) band: u32,
    pub(super) place: u32,
}

impl Wire for Pick {
    const BYTES: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        put_all([], &[self.band, self.place], out);
    }
}

/// Conversion of bytes to values: `Mode` in the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Copy = 0,
    Widen = 1,
    Any = 2,
    Float = 3,
}

/// Order in which elements are stored and read: `Walk` in the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueWalk {
    Pixels = 0,
    Bands = 1,
    Quads = 2,
}

/// The elements that are no-data, and the value that replaces them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NoData {
    fill: u32,
    bits: u64,
    with: f32,
}

impl NoData {
    pub(super) const NONE: Self = Self { fill: FILL_NOTHING, bits: 0, with: 0.0 };

    /// Returns the values to replace in decoded elements of the given type, with their replacement.
    pub(super) fn of(fill: Option<&Fill>, decoded: Dtype) -> Self {
        let Some(with) = fill.map(|fill| fill.with) else { return Self::NONE };
        match fill.and_then(|fill| fill.bits(decoded)) {
            None => Self::NONE,
            Some(NoDataBits::Nans) => Self { fill: FILL_NANS, bits: 0, with },
            Some(NoDataBits::Zeros) => Self { fill: FILL_ZEROS, bits: 0, with },
            Some(NoDataBits::Of(bits)) => Self { fill: FILL_BITS, bits, with },
        }
    }
}

/// The noise to add to the values of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NoiseRow {
    kind: u32,
    scale: f32,
    keep: Option<f32>,
    /// Keys of the draws for the epoch and for the sample.
    draws: [[u32; 2]; 2],
}

impl NoiseRow {
    pub(super) const NONE: Self = Self { kind: NOISE_NOTHING, scale: 0.0, keep: None, draws: [[0; 2]; 2] };

    /// Creates the noise for all values except `keep`, if there is noise.
    pub(super) fn of(noise: Option<&Noise>, keep: Option<f32>) -> Self {
        let Some((draws, scale)) = noise.map(Noise::parts) else { return Self { keep, ..Self::NONE } };
        let kind = if keep.is_some() { NOISE_BUT } else { NOISE_ALL };
        Self { kind, scale, keep, draws: draws.words() }
    }
}

/// Mirrors `struct Cube` of the kernels.
#[derive(Debug, Clone)]
pub(super) struct CubeRow {
    pub(super) planes: u64,
    pub(super) picks: u64,
    pub(super) chunk_picks: u64,
    pub(super) tables: u64,
    pub(super) factors: u64,
    pub(super) out: u64,
    pub(super) reserved: [Option<(u32, u64)>; 4],
    pub(super) width: u32,
    pub(super) stored: u32,
    pub(super) decoded: u32,
    pub(super) output: u32,
    pub(super) transform: u32,
    pub(super) mode: Mode,
    pub(super) walk: ValueWalk,
    pub(super) difference: bool,
    pub(super) out_by_band: bool,
    pub(super) columns: u32,
    pub(super) pixels: u32,
    pub(super) bands: u32,
    pub(super) table_bands: u32,
    pub(super) first_pixel: u32,
    pub(super) region_rows: u32,
    pub(super) region_columns: u32,
    pub(super) picks_count: u32,
    /// Number of rows in each plane, and number of pixels to skip between planes.
    pub(super) plane_rows: u32,
    pub(super) plane_gap: u32,
    /// Output index of the first element; the steps to the next row, column and band; and the extra step to the next
    /// plane.
    pub(super) steps: [u32; 5],
    pub(super) factor_bands: u32,
    pub(super) picked: bool,
    pub(super) first_band: u32,
    pub(super) first_chunk: u32,
    pub(super) chunks: u32,
    pub(super) chunks_each: u32,
    pub(super) top: u32,
    pub(super) row: u32,
    pub(super) no_data: NoData,
    pub(super) noise: NoiseRow,
    pub(super) gamma: f64,
    pub(super) affine: AffineRow,
    pub(super) view: ViewRow,
    /// True if the array has two axes and its pixels are moved. Its columns then count as bands.
    pub(super) flat: bool,
    /// True if `cube_means` processes the cube instead of `cube_affine`.
    pub(super) means: bool,
    /// True if all planes of a box are moved in the same way.
    pub(super) boxed: bool,
}

impl CubeRow {
    /// Returns the number of warps of `cube_values` that this cube needs.
    pub(super) fn units(&self) -> u64 {
        if self.walk == ValueWalk::Quads || self.affine != AffineRow::NONE {
            return 0;
        }
        self.units_of_tiles()
    }

    /// Returns the number of warps of `cube_affine`.
    pub(super) fn moved_units(&self) -> u64 {
        if !matches!(self.affine.kind, AFFINE_NEAREST | AFFINE_MEAN) || self.means {
            return 0;
        }
        match self.flat || self.boxed {
            true => (self.region_pixels() * u64::from(self.picks_count)).div_ceil(TILE_PIXELS),
            false => self.units_of_tiles(),
        }
    }

    /// Returns the number of blocks of `cube_view`.
    pub(super) fn viewed(&self) -> u64 {
        if self.affine.kind != AFFINE_VIEW {
            return 0;
        }
        let bands = if self.flat { 1 } else { u64::from(self.picks_count) };
        let columns = u64::from(if self.flat { self.picks_count } else { self.region_columns });
        let region = u64::from(self.region_rows) * columns;
        let pixels = u64::from(self.view.rows) * u64::from(self.view.columns);
        (region.max(pixels) * bands).div_ceil(VIEW_THREADS.into())
    }

    /// Returns the number of blocks of `cube_volume`.
    pub(super) fn volumes(&self) -> u64 {
        let elements = self.region_pixels() * u64::from(self.picks_count);
        match self.affine.kind {
            AFFINE_VOLUME_NEAREST | AFFINE_VOLUME_MEAN => elements.div_ceil(VOLUME_THREADS.into()),
            _ => 0,
        }
    }

    /// Returns the number of warps of `cube_means`.
    pub(super) fn means_units(&self) -> u64 {
        let tiles = |pixels: u32, each| u64::from(pixels).div_ceil(each);
        match self.means {
            true => tiles(self.region_columns, MEANS_COLUMNS) * tiles(self.region_rows, MEANS_ROWS) * self.parts(),
            false => 0,
        }
    }

    fn units_of_tiles(&self) -> u64 {
        self.region_pixels().div_ceil(TILE_PIXELS) * self.parts()
    }

    /// Returns the number of warps that share the bands of a tile of pixels.
    fn parts(&self) -> u64 {
        self.chunks.div_ceil(self.chunks_each.max(1)).into()
    }

    /// Returns the number of blocks of `cube_quads` that this cube needs.
    pub(super) fn quads(&self) -> u64 {
        if self.walk == ValueWalk::Quads { self.region_pixels().div_ceil(QUAD_PIXELS) } else { 0 }
    }

    pub(super) fn noise(&self) -> u64 {
        let values = self.region_pixels() * u64::from(self.picks_count);
        if self.noise.kind == NOISE_NOTHING { 0 } else { values.div_ceil(2 * u64::from(NOISE_THREADS)) }
    }

    /// Returns the number of blocks of `cube_extremes` and of `cube_gamma`.
    pub(super) fn powers(&self) -> u64 {
        let values = self.region_pixels() * u64::from(self.picks_count);
        if self.gamma == 0.0 { 0 } else { values.div_ceil(u64::from(GAMMA_THREADS * GAMMA_EACH)) }
    }

    fn region_pixels(&self) -> u64 {
        u64::from(self.region_rows) * u64::from(self.region_columns)
    }
}

impl Wire for CubeRow {
    const BYTES: usize = 376;

    fn put(&self, out: &mut Vec<u8>) {
        let special = self.reserved.map(|code| code.map_or(0, |(_, bits)| bits));
        let codes = self.reserved.map(|code| code.map_or(0, |(pattern, _)| pattern));
        let has = self.reserved.iter().enumerate().map(|(n, code)| u32::from(code.is_some()) << n).sum();
        put_all([self.planes, self.picks, self.chunk_picks, self.tables, self.factors, self.out], &[], out);
        put_all(special, &[], out);
        put_all([self.no_data.bits], &[], out);
        put_all(self.affine.map.map(f64::to_bits), &[], out);
        put_all([self.affine.outside, self.gamma.to_bits(), self.view.at], &codes, out);
        let [origin, row, column, band, plane] = self.steps;
        let [[key_low, key_high], [sample_low, sample_high]] = self.noise.draws;
        let words = [
            has,
            self.width,
            self.stored,
            self.decoded,
            self.output,
            self.transform,
            self.mode as u32,
            self.walk as u32,
            self.difference.into(),
            self.out_by_band.into(),
            self.columns,
            self.pixels,
            self.bands,
            self.table_bands,
            self.first_pixel,
            self.region_rows,
            self.region_columns,
            self.picks_count,
            origin,
            row,
            column,
            band,
            self.factor_bands,
            self.picked.into(),
            self.first_band,
            self.first_chunk,
            self.chunks,
            self.chunks_each,
            self.top,
            self.row,
            self.no_data.fill,
            self.no_data.with.to_bits(),
            self.noise.kind,
            self.noise.scale.to_bits(),
            self.noise.keep.unwrap_or_default().to_bits(),
            key_low,
            key_high,
            sample_low,
            sample_high,
            self.affine.kind,
            self.flat.into(),
            self.view.rows,
            self.view.columns,
            self.view.moves,
            self.means.into(),
            self.plane_rows,
            self.plane_gap,
            plane,
            self.boxed.into(),
            self.noise.keep.is_some().into(),
        ];
        put_all([], &words, out);
    }
}

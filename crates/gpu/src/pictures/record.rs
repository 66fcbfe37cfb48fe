//! The structs of `kernels/pictures.cuh`, byte by byte, and the numbers that both sides share.

use super::assembly::Totals;
use super::changes::{CHANGE_BYTES, CHANGE_THREADS, CHANGED_BYTES};
use super::needs::Entry;
use shardpack_jpeg::ResizedAxis;

/// What the kernel `pictures_config` says if host and kernels agree: sizes of the structs, then the
/// constants.
pub const CONFIG: [u32; 16] = [
    PICTURE_BYTES,
    8,
    8,
    8,
    8,
    HUFFMAN_BYTES,
    8,
    TILE_PIXELS,
    TILE_BETWEEN,
    BYTES_THREADS,
    DECODE_THREADS,
    PIXEL_THREADS,
    9,
    CHANGE_BYTES,
    CHANGED_BYTES,
    CHANGE_THREADS,
];

/// The kernels of the module.
pub const KERNELS: [&str; 7] = [
    "pictures_config",
    "picture_tables",
    "picture_weights",
    "picture_bytes",
    "picture_blocks",
    "picture_pixels",
    "picture_changes",
];

pub(super) const PICTURE_BYTES: u32 = 400;
/// Of a segment, and of a group of segments.
pub(super) const SEGMENT_BYTES: usize = 8;
pub(super) const TILE_BYTES: usize = 8;
pub(super) const CODE_BYTES: usize = 8;
pub(super) const HUFFMAN_BYTES: u32 = 1024 + 17 * 8 + 256;
pub(super) const TILE_PIXELS: u32 = 6144;
pub(super) const TILE_BETWEEN: u32 = 4096;
pub(super) const BYTES_THREADS: u32 = 128;
pub(super) const DECODE_THREADS: u32 = 128;
pub(super) const PIXEL_THREADS: u32 = 256;

/// Why a row is flagged: bits of its status word.
pub(super) const ODD_ENTROPY: u32 = 1;
pub(super) const ODD_RANGE: u32 = 2;

const TRANSPOSED: u32 = 1;
const MIRRORED_X: u32 = 2;
const MIRRORED_Y: u32 = 4;

/// Bytes in the device's order.
pub(super) struct Writer<'a>(pub(super) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(super) fn u32s<const N: usize>(&mut self, values: [u32; N]) {
        self.0.extend_from_slice(values.map(u32::to_le_bytes).as_flattened());
    }

    fn axis(&mut self, axis: &ResizedAxis, taps: u32, spans: u32, weights: u32) {
        self.0.extend(axis.start.to_le_bytes());
        self.0.extend(axis.end.to_le_bytes());
        self.u32s([axis.resized, axis.pixels, taps, spans, weights, u32::from(axis.copies)]);
    }

    /// `struct Picture`, behind what comes before it in the tables. It is written to the output, or
    /// to `levels` where it is changed first.
    pub(super) fn picture(&mut self, entry: &Entry, before: &Totals, levels: u64) {
        let Entry { place, frame, shown, blocks: (luma, chroma), .. } = entry;
        let to = if entry.is_changed() { levels } else { entry.out };
        self.0.extend(to.to_le_bytes());
        self.axis(&place.x, entry.taps.0, before.spans, before.weights);
        self.axis(&place.y, entry.taps.1, before.spans + entry.spans, before.weights + entry.weights);
        let turn = [(place.transposed, TRANSPOSED), (place.mirrored_x, MIRRORED_X), (place.mirrored_y, MIRRORED_Y)];
        let turn = turn.iter().map(|&(is, bit)| if is { bit } else { 0 }).sum();
        self.u32s([place.window.x, place.window.y, place.width, place.height, turn]);
        self.u32s([entry.tile.0, entry.tile.1, before.segments, entry.totals().segments - 1]);
        self.u32s([frame.interval, frame.columns * frame.rows, frame.columns]);
        self.u32s([shown.left, shown.top, shown.right, shown.bottom]);
        self.u32s([frame.components, frame.h, frame.v, frame.chroma_width, frame.chroma_height]);
        self.u32s([0, *luma, luma + chroma].map(|plane| before.blocks + plane));
        self.u32s(entry.dc.map(|code| before.codes + code));
        self.u32s(entry.ac.map(|code| before.codes + code));
        self.0.extend(entry.quantisers.as_flattened());
    }
}

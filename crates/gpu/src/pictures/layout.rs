//! Struct sizes of `kernels/pictures.cuh`, and the numbers that the host and the kernels share.

/// Expected output of the kernel `pictures_config`: struct sizes, then constants.
pub(crate) const CONFIG: [u32; 22] = [
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
    LEVELS_BYTES,
    LEVELS_THREADS,
    16,
    BORDER_BYTES,
    BORDER_THREADS,
    WARP_BLOCKS_BYTES,
];

pub(crate) const KERNELS: [&str; 10] = [
    "pictures_config",
    "picture_tables",
    "picture_weights",
    "picture_bytes",
    "picture_blocks",
    "picture_pixels",
    "picture_cubic",
    "picture_borders",
    "picture_changes",
    "picture_levels",
];

pub(super) const PICTURE_BYTES: u32 = 408;
/// Sizes of table entries, followed by constants of the kernels.
pub(super) const SEGMENT_BYTES: usize = 8;
pub(super) const EDGES_BYTES: usize = 16;
pub(super) const TILE_BYTES: usize = 8;
pub(super) const CODE_BYTES: usize = 8;
pub(super) const HUFFMAN_BYTES: u32 = 1024 + 17 * 8 + 256;
pub(super) const TILE_PIXELS: u32 = 6144;
pub(super) const TILE_BETWEEN: u32 = 4096;
pub(super) const BYTES_THREADS: u32 = 128;
pub(super) const DECODE_THREADS: u32 = 128;
/// Shared memory of a warp that decodes segments.
pub(super) const WARP_BLOCKS_BYTES: u32 = 7376;
pub(super) const PIXEL_THREADS: u32 = 256;

/// Stored instead of the index of the first edges if the picture has no segment index.
pub(super) const NONE: u32 = u32::MAX;
/// Stored instead of the number of unused bits where any number is valid, as before a marker.
pub(super) const ANY: u16 = 8;

/// Faults of a row, as bits of the row's status word.
pub(super) const ODD_ENTROPY: u32 = 1;
pub(super) const ODD_RANGE: u32 = 2;

pub(super) const CHANGE_BYTES: u32 = 80;
pub(super) const CHANGED_BYTES: u32 = 32;
pub(super) const CHANGE_THREADS: u32 = 512;
pub(super) const BORDER_BYTES: u32 = 48;
pub(super) const BORDER_THREADS: u32 = 256;
pub(super) const LEVELS_BYTES: u32 = 24;
pub(super) const LEVELS_THREADS: u32 = 256;
/// Element type of levels that are changed before output.
pub(super) const PACKED: u32 = 4;

/// Writes tables in the device's byte order.
pub(super) struct TableWriter<'a>(pub(super) &'a mut Vec<u8>);

impl TableWriter<'_> {
    pub(super) fn u32s<const N: usize>(&mut self, values: [u32; N]) {
        self.0.extend_from_slice(values.map(u32::to_le_bytes).as_flattened());
    }
}

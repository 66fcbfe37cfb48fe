//! Little-endian and big-endian numbers, and limits on the searched bytes of a picture.

/// Bytes at the end of a file that are searched for the end of the picture before the whole file is
/// read.
pub(super) const TAIL_BYTES: u64 = 4 << 10;

/// Largest file that is searched completely for the end of its picture.
pub(super) const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Most chunks of a file that are skipped in search of its Exif data, and the largest Exif data.
pub(super) const MAX_CHUNKS: usize = 1_000;
pub(super) const MAX_EXIF_BYTES: u64 = 64 << 10;

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

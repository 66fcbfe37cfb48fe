//! Little-endian and big-endian numbers, and limits on searches in a picture's bytes.

/// Number of bytes at the end of a file that are searched for the end of the picture, before the whole file is read.
pub(super) const TAIL_BYTES: u64 = 4 << 10;

/// Largest file, in bytes, that is searched completely for the end of its picture.
pub(super) const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Maximum number of chunks that are skipped in the search for Exif data, followed by the maximum number of
/// bytes of Exif data that are read.
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

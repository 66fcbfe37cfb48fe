//! Reads little-endian and big-endian numbers, and defines limits on searching a picture's bytes.

/// Number of bytes at the end of a file to search for the end of the picture, before searching the whole file.
pub(super) const TAIL_BYTES: u64 = 4 << 10;

/// Maximum size, in bytes, of a file to search completely for the end of its picture.
pub(super) const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Maximum number of chunks to skip when looking for Exif data, and maximum size of Exif data to read, in bytes.
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

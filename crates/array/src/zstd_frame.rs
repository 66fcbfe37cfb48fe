//! Parses one zstd frame (RFC 8878 §3.1.1) to find its end and its content size without decoding it.
//!
//! This must run before a frame is passed to a decoder on the CPU or a GPU, whose behaviour may be undefined for
//! damaged input.

use shardpack_format::{Error, Result, to_usize};
use std::ops::Range;

/// Maximum size of a frame's window in bytes. RFC 8878 recommends that every decoder support this size.
pub(crate) const MAX_WINDOW_BYTES: u64 = 8 << 20;
/// Maximum size of a frame's block in bytes (RFC 8878 §3.1.1.2.4).
const MAX_BLOCK_BYTES: usize = 128 << 10;
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Length of the frame in bytes, including the header.
    pub(crate) len: usize,
    pub(crate) content_bytes: u64,
}

/// Parses the frame at the start of `bytes`, which may contain more bytes.
///
/// # Errors
/// `Format` if the bytes are not a zstd frame, or if the frame is truncated, has no content size, has a checksum or a
/// dictionary id, sets a reserved bit, or needs a window over 8 MiB.
pub(crate) fn walk(bytes: &[u8]) -> Result<Frame> {
    walk_by(bytes.len(), |range| bytes.get(range).map(little_endian))
}

/// Parses a frame in `length` bytes. `read` returns the requested bytes (at most 8) as a number.
pub(crate) fn walk_by(length: usize, mut read: impl FnMut(Range<usize>) -> Option<u64>) -> Result<Frame> {
    let mut pos = 0;
    let mut skip = |n: usize, what: &'static str| -> Result<Range<usize>> {
        let here = pos..pos + n;
        if here.end > length {
            return Err(Error::malformed(format!(
                "the {what} is truncated: it needs {n} more bytes, but only {} remain",
                length - pos
            ))
            .at(pos as u64));
        }
        pos = here.end;
        Ok(here)
    };
    let mut take = |here: Range<usize>| -> Result<u64> {
        let at = here.start as u64;
        read(here)
            .ok_or_else(|| Error::malformed("the zstd frame is truncated in its header or in a block header").at(at))
    };
    let magic = take(skip(4, "zstd magic number")?)?;
    if magic != little_endian(&MAGIC) {
        let found = magic.to_le_bytes();
        return Err(Error::format("zstd magic number", "28 b5 2f fd", format!("{:02x?}", found.split_at(4).0)).at(0));
    }
    let descriptor = take(skip(1, "zstd frame header descriptor")?)?;
    if descriptor & 0b0000_1111 != 0 {
        let text = format!(
            "zstd frame header descriptor {descriptor:#04x}: checksums, dictionaries and the reserved bit are not \
             allowed"
        );
        return Err(Error::malformed(text).at(4));
    }
    let single_segment = descriptor & 0b0010_0000 != 0;
    let mut window_bytes = 0;
    if !single_segment {
        let window = take(skip(1, "zstd window descriptor")?)?;
        let base = 1_u64 << (10 + (window >> 3));
        window_bytes = base + base / 8 * (window & 7);
    }
    let content_bytes = match (descriptor >> 6, single_segment) {
        (0, false) => return Err(Error::malformed("the zstd frame has no content size").at(4)),
        (0, true) => take(skip(1, "zstd content size")?)?,
        (1, _) => take(skip(2, "zstd content size")?)? + 256,
        (2, _) => take(skip(4, "zstd content size")?)?,
        _ => take(skip(8, "zstd content size")?)?,
    };
    if single_segment {
        window_bytes = content_bytes;
    }
    if window_bytes > MAX_WINDOW_BYTES {
        return Err(Error::format("zstd window", format!("at most {MAX_WINDOW_BYTES} bytes"), window_bytes).at(4));
    }
    loop {
        let header = take(skip(3, "zstd block header")?)?;
        let size = to_usize(header >> 3);
        if size > MAX_BLOCK_BYTES {
            return Err(Error::format("zstd block", format!("at most {MAX_BLOCK_BYTES} bytes"), size));
        }
        match header >> 1 & 3 {
            0 | 2 => skip(size, "zstd block")?,
            1 => skip(1, "zstd run block")?,
            _ => return Err(Error::format("zstd block type", "0, 1 or 2", 3)),
        };
        if header & 1 == 1 {
            return Ok(Frame { len: pos, content_bytes });
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |acc, &b| acc << 8 | u64::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(level: i32, data: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(data, level).unwrap()
    }

    #[test]
    fn the_end_and_the_size_are_found() {
        for size in [0, 1, 255, 256, 65_536, 65_792, 300_000, 4 << 20] {
            for level in [1, 3, 19] {
                let data: Vec<u8> = (0..size).map(|i: u32| (i.wrapping_mul(i) >> 7) as u8).collect();
                let mut bytes = frame(level, &data);
                let len = bytes.len();
                bytes.extend(b"more");
                assert_eq!(walk(&bytes).unwrap(), Frame { len, content_bytes: u64::from(size) });
                assert!(walk(&bytes[..len - 1]).is_err());
            }
        }
    }

    #[test]
    fn c01_content_size_missing_is_refused() {
        let mut encoder = zstd::bulk::Compressor::new(3).unwrap();
        encoder.include_contentsize(false).unwrap();
        let bytes = encoder.compress(&[7; 1000]).unwrap();
        assert!(walk(&bytes).unwrap_err().to_string().contains("content size"));
    }

    #[test]
    fn c02_a_huge_window_is_refused() {
        // A window descriptor of 0xFF (3.75 TiB), and a content size field of 8 bytes.
        let bytes = [0x28, 0xB5, 0x2F, 0xFD, 0b1100_0000, 0xFF, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        assert!(walk(&bytes).unwrap_err().to_string().contains("zstd window"));
    }

    #[test]
    fn c03_skippable_frames_checksums_and_dictionaries_are_refused() {
        let skippable = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
        assert!(walk(&skippable).unwrap_err().to_string().contains("magic"));
        let mut encoder = zstd::bulk::Compressor::new(3).unwrap();
        encoder.include_checksum(true).unwrap();
        assert!(walk(&encoder.compress(&[7; 1000]).unwrap()).is_err());
        let mut dictionary = frame(3, &[7; 1000]);
        dictionary[4] |= 1;
        assert!(walk(&dictionary).is_err());
    }
}

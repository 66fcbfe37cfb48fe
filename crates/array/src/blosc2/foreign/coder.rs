//! Decodes the streams of a chunk with any coder of c-blosc2.

use super::blosclz;
use super::unsupported::unsupported;
use crate::blosc2::ffi;
use crate::bytes::ZstdDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use shardpack_base::parts::rest;
use shardpack_format::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignCoder {
    BloscLz,
    Lz4,
    Zlib,
    Zstd,
}

impl ForeignCoder {
    /// Returns the coder for `format`, which is bits 5 to 7 of the flags. `user` is the number of a plugin.
    pub(super) fn of(format: u8, user: u8) -> Result<Self> {
        let plugin = match (format, user) {
            (0, _) => return Ok(Self::BloscLz),
            (1, _) => return Ok(Self::Lz4),
            (3, _) => return Ok(Self::Zlib),
            (4, _) => return Ok(Self::Zstd),
            (6, 32) => "NDLZ",
            (6, 33..=35) => "ZFP",
            (6, 36) => "OpenHTJ2K",
            (6, 37) => "Grok",
            (6, 38) => "OpenZL",
            (6, 39) => "JPEG 2000",
            (6, 40) => "HTJ2K",
            _ => "an unknown coder",
        };
        Err(unsupported(&format!("blosc2 codec {plugin} (format {format}, number {user})")))
    }
}

/// Contexts and memory that are reused from stream to stream.
#[derive(Default)]
pub(super) struct ForeignCoders {
    zstd: ZstdDecoder,
}

impl ForeignCoders {
    /// Decodes the streams that begin at `start`. Each stream fills an equal part of `out`.
    pub(super) fn decode(
        &mut self,
        coder: ForeignCoder,
        chunk: &[u8],
        start: usize,
        streams: usize,
        out: &mut [u8],
    ) -> Result<()> {
        if out.is_empty() || streams == 0 || !out.len().is_multiple_of(streams) {
            let expected = format!("a positive multiple of {streams}");
            return Err(Error::format("size of a blosc2 block", expected, out.len()));
        }
        let mut bytes = rest(chunk, start, "streams of a blosc2 block")?;
        for out in out.chunks_exact_mut(out.len() / streams) {
            let (size, after) = bytes.split_first_chunk().ok_or_else(|| truncated(4, bytes.len()))?;
            bytes = self.stream(coder, i32::from_le_bytes(*size), after, out)?;
        }
        Ok(())
    }

    /// Decodes one stream and returns the bytes after it.
    fn stream<'a>(&mut self, coder: ForeignCoder, size: i32, bytes: &'a [u8], out: &mut [u8]) -> Result<&'a [u8]> {
        let Ok(length) = usize::try_from(size) else {
            // The length field of a run contains the negated byte value. A token with bit 0 set follows.
            return match (u8::try_from(-i64::from(size)), bytes) {
                (Ok(value), [token, after @ ..]) if token & 1 == 1 => {
                    out.fill(value);
                    Ok(after)
                }
                _ => {
                    let text = format!(
                        "the blosc2 stream is damaged: its length field is {size}, which is neither a byte count nor a \
                         valid run"
                    );
                    Err(Error::malformed(text))
                }
            };
        };
        let (stream, after) = bytes.split_at_checked(length).ok_or_else(|| truncated(length, bytes.len()))?;
        match (length, coder) {
            (0, _) => out.fill(0),
            _ if length == out.len() => out.copy_from_slice(stream),
            _ if length > out.len() => {
                return Err(Error::format("blosc2 stream size", format!("at most {}", out.len()), length));
            }
            (_, ForeignCoder::BloscLz) => blosclz::decode(stream, out)?,
            (_, ForeignCoder::Lz4) => ffi::lz4(stream, out)?,
            (_, ForeignCoder::Zlib) => zlib(stream, out)?,
            (_, ForeignCoder::Zstd) => self.zstd.decode_any(stream, out)?,
        }
        Ok(after)
    }
}

fn zlib(stream: &[u8], out: &mut [u8]) -> Result<()> {
    let mut decoder = Decompress::new(true);
    let found = match decoder.decompress(stream, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) if decoder.total_out() == out.len() as u64 => return Ok(()),
        Ok(Status::StreamEnd) => {
            format!("it decodes to {} bytes, but should decode to {}", decoder.total_out(), out.len())
        }
        Ok(_) => format!("it does not decode to {} bytes", out.len()),
        Err(error) => error.to_string(),
    };
    Err(Error::malformed(format!("the zlib stream is damaged: {found}")))
}

fn truncated(expected: usize, found: usize) -> Error {
    Error::malformed(format!("the blosc2 stream is truncated: it needs {expected} bytes, but only {found} remain"))
}

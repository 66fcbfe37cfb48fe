//! Byte strings: plain zstd frames (spec §5.2) with one frame per 4 MiB unit, and the values of text and JSON fields.

use crate::zstd_frame;
use shardpack_base::parts::{part, rest};
use shardpack_format::{Codec, Error, Limits, Result};

/// Decoded size of a unit in bytes. A unit is the part of a payload that one zstd frame or Blosc2 chunk contains. The
/// last unit may be shorter.
pub const UNIT_BYTES: usize = 4 << 20;
/// Fields with at most this many decoded bytes are exempt from the limit on expansion.
pub(crate) const EXPANSION_FREE_BYTES: u64 = 1 << 20;
/// Maximum expansion of the writer's payloads. It is lower than the default of [`Limits::max_expansion`], so readers
/// with default limits accept the output.
const WRITER_MAX_EXPANSION: u64 = 1000;

/// Level of zstd for text and JSON fields. Higher levels gain little, because these fields are small.
const TEXT_LEVEL: i32 = 9;

/// Encodes zstd frames. Reuses its context from call to call.
pub(crate) struct ZstdEncoder {
    context: zstd::bulk::Compressor<'static>,
}

impl ZstdEncoder {
    pub(crate) fn new(level: i32) -> Result<Self> {
        let failed = |e: std::io::Error| Error::usage(format!("cannot create a zstd encoder: {e}"));
        let mut context = zstd::bulk::Compressor::new(level).map_err(failed)?;
        context.include_contentsize(true).map_err(failed)?;
        context.include_checksum(false).map_err(failed)?;
        context.include_dictid(false).map_err(failed)?;
        Ok(Self { context })
    }

    pub(crate) fn frame(&mut self, unit: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(unit.len()), 0);
        let (_, place) = out.split_at_mut(start);
        let written = self
            .context
            .compress_to_buffer(unit, place)
            .map_err(|e| Error::usage(format!("cannot compress {} bytes with zstd: {e}", unit.len())));
        out.truncate(start + written.as_ref().map_or(0, |n| *n));
        written.map(|_| ())
    }
}

/// Decodes zstd frames. Reuses its context from call to call.
#[derive(Default)]
pub struct ZstdDecoder {
    context: Option<zstd::bulk::Decompressor<'static>>,
}

impl ZstdDecoder {
    /// Decodes the frames of `payload`, one per unit, into `out`.
    pub(crate) fn frames(&mut self, payload: &[u8], out: &mut [u8], limits: &Limits) -> Result<()> {
        check_expansion(out.len() as u64, out.len() as u64, payload.len() as u64, limits)?;
        let mut pos = 0;
        for unit in out.chunks_mut(UNIT_BYTES) {
            pos += {
                let bytes = rest(payload, pos, "bytes before the next zstd frame")?;
                self.decode_unit(bytes, unit).map_err(|e| e.at(pos as u64))?
            };
        }
        end_of(payload, pos)
    }

    /// Decodes the frame at the start of `bytes`, which must decode to exactly the length of `unit`. More
    /// bytes may follow. Returns the length of the frame.
    ///
    /// # Errors
    /// `Format` if the frame violates the specification, is damaged, or has a different decoded length.
    pub fn decode_unit(&mut self, bytes: &[u8], unit: &mut [u8]) -> Result<usize> {
        let frame = zstd_frame::walk(bytes)?;
        if frame.content_bytes != unit.len() as u64 {
            return Err(Error::format("zstd content size", unit.len(), frame.content_bytes));
        }
        self.decode_any(part(bytes, 0..frame.len, "bytes in a zstd frame")?, unit)?;
        Ok(frame.len)
    }

    /// Decodes `bytes` into `unit`, whose length must be the decoded length. Accepts frames from any writer.
    pub(crate) fn decode_any(&mut self, bytes: &[u8], unit: &mut [u8]) -> Result<()> {
        let context = match &mut self.context {
            Some(context) => context,
            slot @ None => slot.insert(
                zstd::bulk::Decompressor::new()
                    .map_err(|e| Error::usage(format!("cannot create a zstd decoder: {e}")))?,
            ),
        };
        let length = unit.len();
        let damaged = |text: String| Error::malformed(format!("the zstd frame is damaged: {text}"));
        match context.decompress_to_buffer(bytes, unit) {
            Ok(n) if n == length => Ok(()),
            Ok(n) => Err(damaged(format!("it decodes to {n} bytes, but should decode to {length}"))),
            Err(e) => Err(damaged(e.to_string())),
        }
    }
}

pub(crate) fn end_of(payload: &[u8], pos: usize) -> Result<()> {
    if pos == payload.len() {
        return Ok(());
    }
    let extra = payload.len() - pos;
    Err(Error::malformed(format!("the payload is damaged: {extra} extra bytes at its end")).at(pos as u64))
}

pub(crate) fn check_size(bytes: u64, limits: &Limits) -> Result<()> {
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    Ok(())
}

/// Returns the size of an array's stored elements as a `usize`.
pub(crate) fn in_memory(stored_bytes: u64) -> Result<usize> {
    usize::try_from(stored_bytes)
        .map_err(|_| Error::limit("stored array", "max_decoded_bytes", usize::MAX as u64, stored_bytes))
}

/// Fails if `is_wrong` is true, which means that a payload of `payload` bytes cannot contain `stored` bytes. Also
/// fails if more of these bytes would have to be runs than the limits allow.
pub(crate) fn check_payload(is_wrong: bool, stored: u64, payload: u64, limits: &Limits) -> Result<()> {
    if is_wrong {
        return Err(Error::malformed(format!(
            "the payload is damaged: its size of {payload} bytes does not fit an array of {stored} bytes"
        )));
    }
    // The coder may expand the payload by at most `max_expansion`, so all bytes beyond that must be runs.
    limits.check_runs(stored.saturating_sub(limits.max_expansion.saturating_mul(payload)), payload)
}

/// Fails if a field of `decoded` bytes is too large for the size of its `payload`. The coder outputs `coded` of these
/// bytes. The others are runs, or are stored unchanged.
pub(crate) fn check_expansion(decoded: u64, coded: u64, payload: u64, limits: &Limits) -> Result<()> {
    if decoded > limits.max_decoded_bytes {
        return Err(Error::limit("decoded field", "max_decoded_bytes", limits.max_decoded_bytes, decoded));
    }
    check_coded(decoded, coded, payload, limits)?;
    limits.check_runs(decoded.saturating_sub(coded), payload)
}

/// Same as [`check_expansion`], but checks only the coded bytes. For callers that decode only part of a field.
pub(crate) fn check_coded(decoded: u64, coded: u64, payload: u64, limits: &Limits) -> Result<()> {
    if decoded > EXPANSION_FREE_BYTES && coded > limits.max_expansion.saturating_mul(payload) {
        return Err(Error::limit(
            "ratio of decoded to compressed bytes",
            "max_expansion",
            limits.max_expansion,
            coded.div_ceil(payload.max(1)),
        ));
    }
    Ok(())
}

/// True if a reader with default limits would reject this payload because it expands too much.
pub(crate) fn expands_too_far(decoded: u64, coded: u64, payload: u64) -> bool {
    decoded > EXPANSION_FREE_BYTES && coded > WRITER_MAX_EXPANSION.saturating_mul(payload)
}

/// True if a reader with default limits would reject this payload because of its runs.
pub(crate) fn has_too_many_runs(decoded: u64, coded: u64, payload: u64) -> bool {
    Limits::default().check_runs(decoded.saturating_sub(coded), payload).is_err()
}

/// Compresses a byte string (text or JSON) with zstd, or leaves it unchanged if that would not make it smaller. The
/// result is the same on every machine.
///
/// ```
/// use shardpack_array::{decode_bytes, encode_bytes};
/// use shardpack_format::{Codec, Limits};
/// let text = "wavelength 500 nm, ".repeat(20);
/// let (codec, payload) = encode_bytes(text.as_bytes())?;
/// assert_eq!(codec, Codec::Zstd);
/// assert_eq!(decode_bytes(codec, &payload, text.len() as u64, &Limits::default())?, text.as_bytes());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
///
/// # Errors
/// `Usage` if zstd runs out of memory.
pub fn encode_bytes(bytes: &[u8]) -> Result<(Codec, Vec<u8>)> {
    let mut encoder = ZstdEncoder::new(TEXT_LEVEL)?;
    let mut out = Vec::new();
    for unit in bytes.chunks(UNIT_BYTES) {
        encoder.frame(unit, &mut out)?;
    }
    let length = bytes.len() as u64;
    if out.len() >= bytes.len() || expands_too_far(length, length, out.len() as u64) {
        return Ok((Codec::Raw, bytes.to_vec()));
    }
    out.shrink_to_fit();
    Ok((Codec::Zstd, out))
}

/// Decodes a byte string, coded as `Raw` or `Zstd`, to exactly `decoded_len` bytes.
///
/// # Errors
/// `Format` if the payload is damaged or decodes to a different length, or if the codec does not support byte strings;
/// `Limit` if `decoded_len` exceeds `limits.max_decoded_bytes` or is too large for the size of the payload.
pub fn decode_bytes(codec: Codec, payload: &[u8], decoded_len: u64, limits: &Limits) -> Result<Vec<u8>> {
    let length = usize::try_from(decoded_len)
        .map_err(|_| Error::limit("decoded field", "max_decoded_bytes", usize::MAX as u64, decoded_len))?;
    match codec {
        Codec::Raw => {
            check_expansion(decoded_len, 0, payload.len() as u64, limits)?;
            if payload.len() != length {
                return Err(Error::format("raw payload", format!("{decoded_len} bytes"), payload.len()));
            }
            Ok(payload.to_vec())
        }
        Codec::Zstd => {
            check_expansion(decoded_len, decoded_len, payload.len() as u64, limits)?;
            let mut out = vec![0; length];
            ZstdDecoder::default().frames(payload, &mut out, limits)?;
            Ok(out)
        }
        _ => Err(Error::format("byte string codec", "raw or zstd", codec)),
    }
}

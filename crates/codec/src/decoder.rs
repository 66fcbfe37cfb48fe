//! Payloads to arrays. Takes bytes from strangers: whatever they are, the result is an array or an error.

use crate::arrange::Arrangement;
use crate::array::Array;
use crate::blosc2::{self, Chunk};
use crate::bytes::{UNIT_BYTES, ZstdDecoder, check_expansion, end_of};
use crate::region::RegionScratch;
use crate::values::{Tables, check_tables, decode_piece};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, Limits, Result, Transform};

/// Decodes arrays. One for each thread: it keeps the coders' contexts and its scratch memory, about the size of the largest array's stored
/// elements. It stays usable after an error.
#[derive(Default)]
pub struct ArrayDecoder {
    pub(crate) blosc2: blosc2::Decoder,
    pub(crate) zstd: ZstdDecoder,
    stored: Vec<u8>,
    piece: Vec<u8>,
    pub(crate) region: RegionScratch,
}

impl ArrayDecoder {
    /// A decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `payload` into an array.
    ///
    /// # Errors
    /// As [`ArrayDecoder::decode_into`].
    pub fn decode(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<Array> {
        let decoded_bytes = descriptor.decoded_bytes()?;
        check_size(decoded_bytes, limits)?;
        let length = usize::try_from(decoded_bytes)
            .map_err(|_| Error::limit("decoded array", "max_decoded_bytes", usize::MAX as u64, decoded_bytes))?;
        // Before the allocation: a payload far too small for the array is refused without touching memory.
        self.plausible(codec, descriptor, payload, limits)?;
        let mut out = vec![0; length];
        self.decode_into(codec, descriptor, payload, &mut out, limits)?;
        Array::new(descriptor.decoded, descriptor.shape.clone(), out)
    }

    /// Decodes `payload` into `out`, C-contiguous in the order of the shape, little-endian, exactly `descriptor.decoded_bytes()` bytes.
    ///
    /// After an error the content of `out` is unspecified.
    ///
    /// # Errors
    /// `Usage` if `out` has another length; `Format` if the payload is damaged, decodes to another length, or its codec is not for arrays;
    /// `Limit` if the array is over `limits.max_decoded_bytes`, or over 1 MiB and more than `limits.max_expansion` times its payload (runs
    /// of one byte or value do not count: they are memory, not work).
    pub fn decode_into(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<()> {
        let (decoded_bytes, stored_bytes) = (descriptor.decoded_bytes()?, descriptor.stored_bytes()?);
        if out.len() as u64 != decoded_bytes {
            return Err(Error::usage("output buffer", format!("{decoded_bytes} bytes"), out.len()));
        }
        check_size(decoded_bytes.max(stored_bytes), limits)?;
        self.plausible(codec, descriptor, payload, limits)?;
        if stored_bytes == 0 {
            // Nothing to decode, however long the other axes are said to be.
            return end_of(payload, 0);
        }
        let Self { blosc2, zstd, stored, piece, .. } = self;
        let width = usize::try_from(descriptor.stored.bytes()).unwrap_or(8);
        let stored_bytes = usize::try_from(stored_bytes)
            .map_err(|_| Error::limit("stored array", "max_decoded_bytes", usize::MAX as u64, stored_bytes))?;
        let elements = stored_bytes / width;
        let bands = usize::try_from(descriptor.bands()).unwrap_or(1).max(1);
        check_tables(descriptor, bands)?;
        if descriptor.band_difference && width > 2 {
            return Err(Error::format("band difference", "stored elements of 1 or 2 bytes", descriptor.stored));
        }
        let mut bulk = |to: &mut [u8]| match codec {
            Codec::Blosc2 => decode_chunks(blosc2, payload, width, to, limits),
            Codec::Zstd => zstd.decode(payload, to, limits),
            _ => Err(Error::format("codec of an array", "raw, zstd or blosc2", codec)),
        };
        let arrangement = Arrangement {
            layout: descriptor.layout,
            difference: descriptor.band_difference,
            width,
            bands,
            pixels: elements / bands,
        };
        let as_it_is = matches!(descriptor.transform, Transform::None) && descriptor.stored == descriptor.decoded;
        if codec != Codec::Raw && as_it_is && arrangement.is_identity() && descriptor.decoded != Dtype::Bool {
            return bulk(out);
        }
        let stored = if codec == Codec::Raw {
            if payload.len() != stored_bytes {
                return Err(Error::format("raw payload", format!("{stored_bytes} bytes"), payload.len()));
            }
            payload
        } else {
            if stored.len() < stored_bytes {
                stored.resize(stored_bytes, 0);
            }
            let stored = stored.get_mut(..stored_bytes).unwrap_or_default();
            bulk(stored)?;
            &*stored
        };
        let pixels = arrangement.piece_pixels().min(arrangement.pixels.max(1));
        let tables = Tables::new(descriptor, pixels);
        let (piece_bytes, out_bytes) = (pixels * bands * width, elements_bytes(pixels * bands, descriptor.decoded));
        if arrangement.is_identity() {
            for (piece, out) in stored.chunks(piece_bytes).zip(out.chunks_mut(out_bytes)) {
                decode_piece(descriptor, &tables, piece, out)?;
            }
            return Ok(());
        }
        if piece.len() < piece_bytes {
            piece.resize(piece_bytes, 0);
        }
        for (i, out) in out.chunks_mut(out_bytes).enumerate() {
            let length = out.len() / elements_bytes(1, descriptor.decoded) * width;
            let Some(piece) = piece.get_mut(..length) else { continue };
            arrangement.fetch(stored, i * pixels, piece);
            decode_piece(descriptor, &tables, piece, out)?;
        }
        Ok(())
    }

    /// Refuses what no payload of this length can hold under the limits, before memory is taken for it.
    fn plausible(&self, codec: Codec, descriptor: &ArrayDescriptor, payload: &[u8], limits: &Limits) -> Result<()> {
        let stored = descriptor.stored_bytes()?;
        let short = match codec {
            Codec::Zstd => return check_expansion(stored, stored, payload.len() as u64, limits),
            Codec::Raw => payload.len() as u64 != stored,
            // A chunk for each unit, a header each.
            _ => (payload.len() as u64) < stored.div_ceil(UNIT_BYTES as u64) * blosc2::HEADER_BYTES as u64,
        };
        if short {
            return Err(Error::format(
                "payload",
                format!("that of {stored} stored bytes"),
                format!("{} bytes", payload.len()),
            ));
        }
        Ok(())
    }
}

fn elements_bytes(elements: usize, dtype: Dtype) -> usize {
    elements * usize::try_from(dtype.bytes()).unwrap_or(8)
}

pub(crate) fn check_size(bytes: u64, limits: &Limits) -> Result<()> {
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    Ok(())
}

/// Decodes the chunks of `payload`, one for each unit. All are walked before the first is decoded.
fn decode_chunks(
    decoder: &mut blosc2::Decoder,
    payload: &[u8],
    width: usize,
    out: &mut [u8],
    limits: &Limits,
) -> Result<()> {
    let item_bytes = u8::try_from(width).unwrap_or(8);
    let mut chunks = Vec::with_capacity(out.len().div_ceil(UNIT_BYTES));
    let (mut pos, mut coded) = (0, 0);
    for unit in out.chunks(UNIT_BYTES) {
        let chunk = Chunk::parse(payload.get(pos..).unwrap_or_default(), item_bytes, unit.len())
            .map_err(|e| e.at(pos as u64))?;
        coded += chunk.coded_out_bytes();
        pos += chunk.bytes().len();
        chunks.push(chunk);
    }
    end_of(payload, pos)?;
    check_expansion(out.len() as u64, coded, payload.len() as u64, limits)?;
    for (chunk, unit) in chunks.iter().zip(out.chunks_mut(UNIT_BYTES)) {
        let at = chunk.bytes().as_ptr().addr() - payload.as_ptr().addr();
        decoder.decode(chunk, item_bytes, unit).map_err(|e| e.at(at as u64))?;
    }
    Ok(())
}

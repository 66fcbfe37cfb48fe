//! Payloads to arrays. The bytes may come from strangers: the result is always an array or an
//! error.

use crate::arrange::{Arrangement, PIECE_ELEMENTS, TILE_BYTES};
use crate::array::Array;
use crate::blosc2::{self, STREAM_BYTES};
use crate::bytes::{UNIT_BYTES, ZstdDecoder, check_expansion, end_of};
use crate::region::RegionScratch;
use crate::values::{Values, check_tables, is_as_stored};
use crate::window::Blocks;
use shardpack_format::{ArrayDescriptor, Codec, Error, Layout, Limits, Result};

/// Decodes arrays. Each thread has its own: it keeps the coders' contexts and its scratch memory.
/// That is small for payloads in the order of the shape, and about the size of the largest array's
/// stored elements for band-major ones. It stays usable after an error.
#[derive(Default)]
pub struct ArrayDecoder {
    pub(crate) blosc2: blosc2::Decoder,
    pub(crate) zstd: ZstdDecoder,
    /// For band-major payloads: everything that the coder makes.
    stored: Vec<u8>,
    /// A tile of stored elements. For other payloads, a block of them that does not come as byte
    /// planes.
    window: Vec<u8>,
    /// Stored elements of some pixels, and of a part of the next one.
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
        // Check before the allocation: a payload far too small for the array is refused without
        // touching memory.
        self.plausible(codec, descriptor, payload, limits)?;
        let mut out = vec![0; length];
        self.decode_into(codec, descriptor, payload, &mut out, limits)?;
        Array::new(descriptor.decoded, descriptor.shape.clone(), out)
    }

    /// Decodes `payload` into `out`, C-contiguous in the order of the shape, little-endian, exactly
    /// `descriptor.decoded_bytes()` bytes.
    ///
    /// After an error the content of `out` is unspecified.
    ///
    /// # Errors
    /// `Usage` if `out` has another length; `Format` if the payload is damaged, decodes to another
    /// length, or its codec is not for arrays; `Limit` if the array is over
    /// `limits.max_decoded_bytes`, or is over 1 MiB and more than `limits.max_expansion` times its
    /// payload (runs of one byte or value do not count: they take memory, not work).
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
            // Nothing to decode, however long the other axes claim to be.
            return end_of(payload, 0);
        }
        let Self { blosc2, zstd, stored, piece, window, .. } = self;
        let width = descriptor.stored.size();
        let stored_bytes = usize::try_from(stored_bytes)
            .map_err(|_| Error::limit("stored array", "max_decoded_bytes", usize::MAX as u64, stored_bytes))?;
        let elements = stored_bytes / width;
        let bands = usize::try_from(descriptor.bands())
            .map_err(|_| Error::internal("bands", format!("at most {elements}"), descriptor.bands()))?
            .max(1);
        check_tables(descriptor, bands)?;
        if descriptor.band_difference && width > 2 {
            return Err(Error::format("band difference", "stored elements of 1 or 2 bytes", descriptor.stored));
        }
        let arrangement = Arrangement {
            layout: descriptor.layout,
            difference: descriptor.band_difference,
            width,
            bands,
            pixels: elements / bands,
        };
        let blocks = match codec {
            Codec::Raw if payload.len() == stored_bytes => Blocks::Raw { payload },
            Codec::Raw => return Err(Error::format("raw payload", format!("{stored_bytes} bytes"), payload.len())),
            Codec::Zstd => Blocks::of_frames(zstd, payload, stored_bytes, limits)?,
            Codec::Blosc2 => Blocks::of_chunks(blosc2, payload, width, stored_bytes, limits)?,
            _ => return Err(Error::format("codec of an array", "raw, zstd or blosc2", codec)),
        };
        if arrangement.is_identity() && is_as_stored(descriptor) {
            return blocks.into_whole(out, limits);
        }
        let mut values = Values::new(descriptor, arrangement, piece, out);
        match arrangement.layout {
            Layout::AsShape => {
                blocks.for_each(stored_bytes, window, |block, bytes| values.take(block, 0..bytes / width))
            }
            Layout::BandMajor => {
                let (blocks, block) = blocks.into_all(stored_bytes, width, stored, limits)?;
                values.take_planes((&blocks, block), window)
            }
        }
    }

    /// How many bytes [`ArrayDecoder::decode_into`] takes and keeps for an array of this
    /// descriptor, besides the payload and `out`. For a band-major payload these are at most all
    /// stored elements (without those that the payload holds unchanged), otherwise one block; and
    /// some pixels. The coders' own contexts, about 100 KiB, do not count.
    ///
    /// ```
    /// use shardpack_array::ArrayDecoder;
    /// use shardpack_format::{ArrayDescriptor, Codec, Dtype, Layout};
    /// let cube = ArrayDescriptor::plain(Dtype::U16, vec![480, 640, 100]);
    /// let by_band = ArrayDescriptor { layout: Layout::BandMajor, ..cube.clone() };
    /// assert!(ArrayDecoder::scratch_bytes(Codec::Blosc2, &cube)? < 1 << 20);
    /// assert!(ArrayDecoder::scratch_bytes(Codec::Blosc2, &by_band)? > 480 * 640 * 100 * 2);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn scratch_bytes(codec: Codec, descriptor: &ArrayDescriptor) -> Result<u64> {
        let stored = descriptor.stored_bytes()?;
        let width = descriptor.stored.bytes();
        let pixel = descriptor.bands().max(1).saturating_mul(width);
        let tile = (TILE_BYTES as u64).max(pixel.saturating_mul(32)).min(stored);
        Ok(match (codec, descriptor.layout) {
            (Codec::Raw, Layout::AsShape) => 0,
            (Codec::Raw, Layout::BandMajor) => tile,
            (_, Layout::AsShape) => {
                let pixels = pixel.max(PIECE_ELEMENTS as u64 * width);
                let block = block_bytes(codec, width);
                // Planes have room for whole streams, even if a chunk is short.
                let block = if codec == Codec::Blosc2 { block } else { block.min(stored) };
                block.saturating_add(pixels.min(stored))
            }
            // At most: streams that are stored unchanged need none.
            (_, Layout::BandMajor) => stored.saturating_add(tile),
        })
    }

    /// What decoding a part takes.
    pub(crate) const fn of_parts(&mut self) -> (&mut blosc2::Decoder, &mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.blosc2, &mut self.piece, &mut self.window)
    }

    /// Refuses what a payload of this length cannot hold under the limits, before memory is
    /// allocated for it.
    fn plausible(&self, codec: Codec, descriptor: &ArrayDescriptor, payload: &[u8], limits: &Limits) -> Result<()> {
        let stored = descriptor.stored_bytes()?;
        let short = match codec {
            Codec::Zstd => return check_expansion(stored, stored, payload.len() as u64, limits),
            Codec::Raw => payload.len() as u64 != stored,
            // One chunk for each unit, each with a header.
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

/// What a coder decodes at a time.
pub(crate) const fn block_bytes(codec: Codec, width: u64) -> u64 {
    match codec {
        Codec::Zstd => UNIT_BYTES as u64,
        _ => STREAM_BYTES as u64 * width,
    }
}

pub(crate) fn check_size(bytes: u64, limits: &Limits) -> Result<()> {
    if bytes > limits.max_decoded_bytes {
        return Err(Error::limit("decoded array", "max_decoded_bytes", limits.max_decoded_bytes, bytes));
    }
    Ok(())
}

/// The first `length` bytes of a buffer that only ever grows. Their content is unspecified.
pub(crate) fn grow(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    // Never beyond the end: it has just grown.
    buffer.split_at_mut(length).0
}

//! Patches of cubes: a rectangle of pixels and some of the bands, without decoding the rest (spec
//! §4.2 to §5.3).
//!
//! A [`Region`] becomes a [`Plan`](plan::Plan): runs of stored elements in payload order. A
//! [`Source`](source::Source) returns them and decodes each block at most once. The result is a
//! small array in the payload's own arrangement, and values are made from it piece by piece, as
//! from a whole array.
//!
//! What a region costs, for an array `[height, width, channels]`:
//!
//! - Stored in shape order: every block in which a pixel of the region has a requested band. With
//!   cubes of 100 bands of two bytes and rows of 640 pixels, that is about one block per row,
//!   however narrow the region.
//! - Stored band-major: only the rows of the requested bands.
//! - Band difference: a band is the sum of all before it, so all bands up to the last requested one
//!   are needed for the touched pixels. In shape order they are next to each other and cost nothing
//!   more. In band-major order, a region of band 90 costs as much as one of the bands 0 to 90.
//! - LZ4 under a byte shuffle: if less than half of a block is needed, it is decoded only up to the
//!   last element needed.
//! - Plain zstd: every unit of 4 MiB that is touched. Raw payloads cost nothing.

mod plan;
mod request;
mod scatter;
mod source;

pub use request::{Bands, Output, Region, RegionDecoded, RegionShape};

use crate::arrange::Arrangement;
use crate::decoder::{ArrayDecoder, block_bytes, check_size, grow};
use crate::values::{Tables, check_tables, copy_checked, decode_piece};
use plan::{Lists, Plan};
use scatter::Several;
use shardpack_base::parts::{part, part_mut};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, Layout, Limits, Result, Transform};
use source::{Source, SourceScratch};

/// Memory that one region leaves for the next.
#[derive(Default)]
pub(crate) struct RegionScratch {
    source: SourceScratch,
    plan: Lists,
    several: Several,
    /// Stored elements of the region, arranged as in the payload.
    stored: Vec<u8>,
    arrange: Arrange,
}

/// Memory for making values of stored elements.
#[derive(Default)]
struct Arrange {
    tables: Tables,
    piece: Vec<u8>,
    picked: Vec<u8>,
    values: Vec<u8>,
}

impl ArrayDecoder {
    /// Decodes a region of an array of two or three axes into `out`, C-contiguous, little-endian,
    /// exactly [`region.shape_of(descriptor)`](Region::shape_of)`.bytes` bytes. The values are
    /// those of the whole array, to the bit.
    ///
    /// Of Blosc2 chunks only the blocks that the region touches are decoded, each once. With a band
    /// difference, all bands up to the last requested one are decoded, only for the touched pixels;
    /// that costs extra blocks if the payload is band-major.
    ///
    /// After the decoder has seen the largest region, it allocates nothing. After an error the
    /// content of `out` is unspecified and the decoder stays usable. Damage in places that the
    /// region does not need may go unnoticed: the record's checksum covers it.
    ///
    /// ```
    /// use shardpack_array::{Array, ArrayDecoder, ArrayEncoder, ArrayOptions, Bands, Region};
    /// use shardpack_format::{Dtype, Limits};
    ///
    /// // [4, 5, 3]: the element at y, x, band is 15 y + 3 x + band.
    /// let cube = Array::new(Dtype::U8, vec![4, 5, 3], (0..60).collect())?;
    /// let settings = shardpack_array::trial(&[(&cube, None)], &ArrayOptions::default())?.settings;
    /// let encoded = ArrayEncoder::new(settings)?.encode(&cube, None)?;
    ///
    /// let region = Region { bands: Bands::Range(1..3), ..Region::new(2, 1, 1, 2) };
    /// let mut out = vec![0; 4];
    /// let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
    /// let done = ArrayDecoder::new().decode_region(codec, descriptor, payload, &region, &mut out, &Limits::default())?;
    /// assert_eq!(out, [34, 35, 37, 38]);
    /// assert_eq!(done.shape.shape, [1, 2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if the region is not within the array, the array has neither two nor three axes, or
    /// `out` has another length; `Format` if the payload is damaged, has another length than the
    /// array's, or its codec is not for arrays; `Limit` if the region (with the bands that a
    /// difference needs) is over `limits.max_decoded_bytes`, or if the array is over 1 MiB and the
    /// touched blocks are more than `limits.max_expansion` times the payload.
    pub fn decode_region(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &[u8],
        region: &Region,
        out: &mut [u8],
        limits: &Limits,
    ) -> Result<RegionDecoded> {
        let shape = region.shape_of(descriptor)?;
        if out.len() as u64 != shape.bytes {
            return Err(Error::usage("output buffer", format!("{} bytes", shape.bytes), out.len()));
        }
        check_size(shape.bytes, limits)?;
        let Self { blosc2, zstd, region: scratch, .. } = self;
        let RegionScratch { source: source_scratch, plan: lists, stored, arrange, .. } = scratch;
        let mut source = Source::new(codec, descriptor, payload, limits, (blosc2, zstd, source_scratch))?;
        if out.is_empty() {
            return Ok(RegionDecoded { shape, blocks_decoded: 0, blocks: source.blocks() });
        }
        let plan = Plan::new(descriptor, region, lists)?;
        check_tables(descriptor, plan.bands())?;
        let width = descriptor.stored.size();
        if descriptor.band_difference && width > 2 {
            return Err(Error::format("band difference", "stored elements of 1 or 2 bytes", descriptor.stored));
        }
        let same_order = plan.same_order();
        if same_order && is_as_stored(descriptor, region) {
            source.read(plan.runs(width), out)?;
            return Ok(RegionDecoded { shape, blocks_decoded: source.finish()?, blocks: source.blocks() });
        }
        let stored_bytes = plan.fetched_elements() * width;
        check_size(stored_bytes as u64, limits)?;
        let stored = grow(stored, stored_bytes);
        source.read(plan.runs(width), stored)?;
        let done = RegionDecoded { shape, blocks_decoded: source.finish()?, blocks: source.blocks() };

        arrange.region((descriptor, region), &plan, stored, out)?;
        Ok(done)
    }

    /// How many bytes [`ArrayDecoder::decode_region`] takes and keeps, besides the payload and
    /// `out`: the stored elements that the region needs, unless they are the output themselves, and
    /// one block, or two for Blosc2. The coders' own contexts, about 100 KiB, do not count.
    ///
    /// # Errors
    /// `Usage` if the region is not within the array, or the array has neither two nor three axes.
    pub fn region_scratch_bytes(codec: Codec, descriptor: &ArrayDescriptor, region: &Region) -> Result<u64> {
        if region.shape_of(descriptor)?.bytes == 0 {
            return Ok(0);
        }
        let mut lists = Lists::default();
        let plan = Plan::new(descriptor, region, &mut lists)?;
        let width = descriptor.stored.bytes();
        let fetched = match plan.same_order() && is_as_stored(descriptor, region) {
            true => 0,
            false => (plan.fetched_elements() as u64).saturating_mul(width),
        };
        let block = block_bytes(codec, width).min(descriptor.stored_bytes()?);
        let blocks = match codec {
            Codec::Raw => 0,
            // Its byte planes, and the block that they make.
            Codec::Blosc2 => 2 * block,
            _ => block,
        };
        Ok(fetched.saturating_add(blocks))
    }
}

impl Arrange {
    /// Makes the values of a region of its stored elements.
    fn region(
        &mut self,
        (descriptor, region): (&ArrayDescriptor, &Region),
        plan: &Plan<'_>,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let Self { tables, piece, picked, values } = self;
        let (same_order, width) = (plan.same_order(), descriptor.stored.size());
        let size = region.shape_of(descriptor)?.dtype.size();
        let (fetched, asked) = (plan.fetched().len(), plan.asked().len());
        let from = Arrangement {
            layout: descriptor.layout,
            difference: descriptor.band_difference,
            width,
            bands: fetched,
            pixels: plan.pixels(),
        };
        let to = Arrangement { layout: plan.layout(), difference: false, width: size, bands: asked, ..from };
        let pixels = from.piece_pixels().min(to.piece_pixels()).min(from.pixels);
        tables.refill(descriptor, plan.asked().iter(), pixels)?;
        let decode = |stored: &[u8], out: &mut [u8]| match region.output {
            Output::Source => decode_piece(descriptor, tables, stored, out),
            Output::Stored => copy_checked(descriptor.stored, stored, out),
        };
        let by_band = matches!(descriptor.transform, Transform::Fixed { .. }) && from.layout == Layout::BandMajor;
        if same_order && !by_band {
            let elements = pixels * fetched;
            for (stored, out) in stored.chunks(elements * width).zip(out.chunks_mut(elements * size)) {
                decode(stored, out)?;
            }
            return Ok(());
        }
        for first in (0..from.pixels).step_by(pixels) {
            let count = pixels.min(from.pixels - first);
            let piece = grow(piece, count * fetched * width);
            from.fetch(stored, first, piece)?;
            let piece = match plan.picks() {
                None => &*piece,
                Some(picks) => {
                    let picked = grow(picked, count * asked * width);
                    for (from, to) in piece.chunks_exact(fetched * width).zip(picked.chunks_exact_mut(asked * width)) {
                        for (pick, to) in picks.iter().zip(to.chunks_exact_mut(width)) {
                            to.copy_from_slice(part(from, pick * width..(pick + 1) * width, "requested band")?);
                        }
                    }
                    &*picked
                }
            };
            if to.layout == Layout::AsShape {
                let start = first * asked * size;
                decode(piece, part_mut(out, start..start + count * asked * size, "place of a piece")?)?;
            } else {
                let values = grow(values, count * asked * size);
                decode(piece, values)?;
                to.place(values, &mut [], first, out)?;
            }
        }
        Ok(())
    }
}

/// Whether the bytes of the stored elements are the output, with nothing to check.
fn is_as_stored(descriptor: &ArrayDescriptor, region: &Region) -> bool {
    let as_stored = region.output == Output::Stored
        || (matches!(descriptor.transform, Transform::None) && descriptor.stored == descriptor.decoded);
    as_stored && descriptor.stored != Dtype::Bool
}

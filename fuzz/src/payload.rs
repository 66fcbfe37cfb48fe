//! Makes array payloads with the encoder, and decodes payloads with the C libraries.

use crate::shard::limits;
use shardpack_array::{Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Coder, Filter, ValueRule};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error};

/// Returns one payload for each coder and filter. The encoded array has a short last block and a part that does not
/// compress.
pub fn payloads() -> Vec<(Codec, ArrayDescriptor, Vec<u8>)> {
    let mut noise = 1_u32;
    let bytes: Vec<u8> = (0..70_000_u32)
        .flat_map(|i| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = if i % 7_000 < 900 { noise >> 16 } else { i / 50 };
            value.to_le_bytes().into_iter().take(2)
        })
        .collect();
    let array = Array::new(Dtype::U16, vec![100, 70, 10], bytes).expect("an array");
    let cases = [
        (Coder::Blosc2Lz4, None, Filter::None),
        (Coder::Blosc2Lz4, None, Filter::Shuffle),
        (Coder::Blosc2Lz4hc, Some(5), Filter::Bitshuffle),
        (Coder::Blosc2Zstd, Some(1), Filter::Shuffle),
        (Coder::Blosc2Zstd, Some(3), Filter::Bytedelta),
        (Coder::Zstd, Some(3), Filter::None),
    ];
    let encode = |(coder, level, filter)| {
        let values = ValueRule::Keep;
        let settings =
            ArraySettings { values, coder, level, filter, band_difference: false, layout: ArrayLayout::AsShape };
        let encoded = ArrayEncoder::new(settings).expect("settings").encode(&array, None).expect("an encoded array");
        (encoded.codec, encoded.descriptor, encoded.payload)
    };
    cases.into_iter().map(encode).collect()
}

/// Decodes a payload as a reader does.
///
/// # Errors
/// The fault in the payload.
pub fn decode(codec: Codec, descriptor: &ArrayDescriptor, payload: &[u8]) -> Result<Array, Error> {
    ArrayDecoder::new().decode(codec, descriptor, payload, &limits())
}

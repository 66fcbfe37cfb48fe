//! Arrays in parts are the arrays that come whole.

use super::*;
use crate::{Array, ArrayEncoder, ArrayLayout, ArraySettings, Coder, EncodedArray, Filter, ValueRule, decoded_as};
use proptest::prelude::*;
use shardpack_format::{ArrayDescriptor, Dtype, Transform};

fn header(payload: &[u8]) -> impl FnMut(usize) -> Option<[u8; HEADER_BYTES]> {
    |at| payload.get(at..)?.first_chunk().copied()
}

fn split(descriptor: &ArrayDescriptor, encoded: &EncodedArray, part_bytes: usize) -> Option<ArraySplit> {
    let (codec, payload) = (encoded.codec, &encoded.payload);
    ArraySplit::new(codec, descriptor, payload.len(), part_bytes, &Limits::default(), header(payload))
}

/// Decodes all parts, the last one first.
fn in_parts(split: &ArraySplit, payload: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let (mut decoder, mut out) = (ArrayDecoder::new(), vec![0xEE; bytes]);
    let mut ends = vec![Ends::default(); split.parts().len()];
    for (number, part) in split.parts().iter().enumerate().rev() {
        ends[number] =
            decoder.decode_part(split, number, &payload[part.payload.clone()], &mut out[part.out.clone()])?;
    }
    split.join(&ends, &mut out)?;
    Ok(out)
}

/// `[rows, 64, bands]`, half of whose bits are noise.
fn floats(rows: u64, bands: u64) -> Array {
    let mut state = 1_u64;
    let bytes = (0..rows * 64 * bands).flat_map(|i| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((i % bands) as f32 / 8.0 + (state >> 56) as f32 / 64.0).to_le_bytes()
    });
    Array::new(Dtype::F32, vec![rows, 64, bands], bytes.collect()).unwrap()
}

fn settings(values: ValueRule, coder: Coder, filter: Filter, band_difference: bool) -> ArraySettings {
    ArraySettings { values, coder, level: coder.default_level(), filter, band_difference, layout: ArrayLayout::AsShape }
}

#[test]
fn arrays_in_parts_are_the_whole_ones() {
    // Some 9 MB of two bytes: three units, with borders within pixels.
    let array = floats(700, 103);
    let rules = [ValueRule::F16, ValueRule::Fixed { max_error: 0.01 }, ValueRule::Keep];
    for (rule, coder, filter, difference) in [
        (rules[0], Coder::Blosc2Lz4, Filter::Shuffle, true),
        (rules[0], Coder::Blosc2Lz4, Filter::Bitshuffle, true),
        (rules[0], Coder::Blosc2Lz4, Filter::None, false),
        (rules[0], Coder::Raw, Filter::None, true),
        (rules[0], Coder::Raw, Filter::None, false),
        (rules[1], Coder::Blosc2Zstd, Filter::Shuffle, true),
        (rules[1], Coder::Blosc2Lz4, Filter::Bytedelta, false),
        (rules[2], Coder::Blosc2Lz4, Filter::Shuffle, false),
    ] {
        let encoded =
            ArrayEncoder::new(settings(rule, coder, filter, difference)).unwrap().encode(&array, None).unwrap();
        for dtype in [Dtype::F16, Dtype::F32, Dtype::F64] {
            let Some(descriptor) = decoded_as(&encoded.descriptor, dtype) else { continue };
            let whole = ArrayDecoder::new().decode(encoded.codec, &descriptor, &encoded.payload, &Limits::default());
            let split = split(&descriptor, &encoded, 1 << 20).unwrap();
            assert!(split.parts().len() >= 3, "{rule:?} {coder:?} {filter:?} {difference}");
            let out = in_parts(&split, &encoded.payload, whole.as_ref().unwrap().bytes().len()).unwrap();
            assert!(out == whole.unwrap().bytes(), "{rule:?} {coder:?} {filter:?} {difference} {dtype}");
        }
    }
    // As they are stored: one part is read to its place, and others need no join.
    let plain = ArrayDescriptor::plain(Dtype::F32, array.shape().to_vec());
    let encoded = EncodedArray {
        codec: Codec::Raw,
        payload: array.bytes().to_vec(),
        ..ArrayEncoder::new(settings(rules[2], Coder::Raw, Filter::None, false)).unwrap().encode(&array, None).unwrap()
    };
    let split = split(&plain, &encoded, 1_000_003).unwrap();
    assert!(split.is_copy() && split.parts().iter().all(|part| part.payload == part.out));
    assert_eq!(in_parts(&split, array.bytes(), array.bytes().len()).unwrap(), array.bytes());
}

proptest! {
    #[test]
    fn raw_parts_of_any_size_are_the_whole_array(
        pixels in 1..40_usize, bands in 1..30_usize, wide: bool, difference: bool, convert: bool, part_bytes in 0..400_usize,
        seed: u8,
    ) {
        let stored = if wide { Dtype::U16 } else { Dtype::U8 };
        let payload: Vec<u8> = (0..pixels * bands * stored.size()).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
        let mut descriptor = ArrayDescriptor::plain(stored, vec![pixels as u64, bands as u64]);
        descriptor.band_difference = difference;
        if convert {
            descriptor.transform = Transform::Integer;
            descriptor.decoded = Dtype::F32;
        }
        let limits = Limits::default();
        let whole = ArrayDecoder::new().decode(Codec::Raw, &descriptor, &payload, &limits).unwrap();
        let split = ArraySplit::new(Codec::Raw, &descriptor, payload.len(), part_bytes, &limits, |_| None).unwrap();
        prop_assert_eq!(split.is_copy(), !difference && !convert);
        prop_assert_eq!(in_parts(&split, &payload, whole.bytes().len()).unwrap(), whole.bytes());
    }
}

#[test]
fn what_is_not_cut_is_left_to_the_whole() {
    let array = floats(20, 9);
    let with = |coder, layout| {
        let settings = ArraySettings { layout, ..settings(ValueRule::F16, coder, Filter::None, false) };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        (split(&encoded.descriptor, &encoded, 100).is_some(), ArraySplit::takes(encoded.codec, &encoded.descriptor))
    };
    assert_eq!(with(Coder::Blosc2Lz4, ArrayLayout::AsShape), (true, true));
    assert_eq!(with(Coder::Blosc2Lz4, ArrayLayout::BandMajor), (false, false));
    assert_eq!(with(Coder::Zstd, ArrayLayout::AsShape), (false, false));

    let made = |limits: &Limits, bytes: usize, header: Option<[u8; HEADER_BYTES]>| {
        let cube = ArrayDescriptor::plain(Dtype::U16, vec![700, 64, 103]);
        ArraySplit::new(Codec::Blosc2, &cube, bytes, 100, limits, |_| header).map(|split| split.parts().len())
    };
    let of = |length: u32| {
        let mut header = [0; HEADER_BYTES];
        header[12..16].copy_from_slice(&length.to_le_bytes());
        Some(header)
    };
    let limits = Limits::default();
    assert_eq!(made(&limits, 3 << 20, of(1 << 20)), Some(3));
    for (bytes, header) in [
        (3 << 20, None),
        ((3 << 20) + 1, of(1 << 20)),
        (3 << 20, of(31)),
        (3 << 20, of(u32::MAX)),
        (2 << 20, of(1 << 20)),
    ] {
        assert_eq!(made(&limits, bytes, header), None, "{bytes} {header:?}");
    }
    assert_eq!(made(&Limits { max_decoded_bytes: 1000, ..Limits::default() }, 3 << 20, of(1 << 20)), None);
    assert_eq!(made(&Limits { max_expansion: 2, ..Limits::default() }, 3 << 20, of(1 << 20)), None);
}

#[test]
fn damage_is_an_error_of_its_part_or_another_value() {
    let array = floats(700, 103);
    let settings = settings(ValueRule::F16, Coder::Blosc2Lz4, Filter::Shuffle, true);
    let good = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
    let split = split(&good.descriptor, &good, 1 << 20).unwrap();
    let part = split.parts()[1].clone();
    let (mut decoder, mut refused) = (ArrayDecoder::new(), 0);
    let mut out = vec![0; part.out.len()];
    for at in (0..60).chain((60..part.payload.len()).step_by(40_009)) {
        let mut payload = good.payload[part.payload.clone()].to_vec();
        payload[at] ^= 0x5A;
        refused += usize::from(decoder.decode_part(&split, 1, &payload, &mut out).is_err());
    }
    assert!(refused > 20, "{refused}");
    // Of another length, or another part.
    let payload = &good.payload[part.payload.clone()];
    assert!(decoder.decode_part(&split, 1, &payload[1..], &mut out).is_err());
    assert!(decoder.decode_part(&split, 1, payload, &mut out[1..]).is_err());
    assert!(decoder.decode_part(&split, 9, payload, &mut out).is_err());
    assert!(split.join(&[], &mut out).is_err());
}

//! Hand-written test cases for regions.

use super::twin::{cut, slow};
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Bands, Coder, EncodedArray, Filter, Region,
    ValueRule,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, Limits};

/// Returns a cube of `[40, 64, 32]` uint16, which is 1.25 blocks.
fn example(layout: ArrayLayout, coder: Coder) -> EncodedArray {
    let bytes = (0..40 * 64 * 32_u32).flat_map(|i| ((i / 7 % 5000) as u16).to_le_bytes()).collect();
    let array = Array::new(Dtype::U16, vec![40, 64, 32], bytes).unwrap();
    let (level, filter) = (coder.default_level(), if coder.has_filters() { Filter::Shuffle } else { Filter::None });
    let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference: false, layout };
    ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap()
}

#[test]
fn only_touched_blocks_are_decoded() {
    let encoded = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let mut decoder = ArrayDecoder::new();
    // A row has 2,048 elements and a block has 65,536, so rows 0 to 31 form the first block.
    for (y, height, blocks) in [(0, 32, 1), (31, 1, 1), (31, 2, 2), (32, 8, 1), (0, 40, 2)] {
        let (_, done) = cut(&mut decoder, &encoded, &Region::new(y, 3, height, 5));
        assert_eq!((done.blocks_decoded, done.blocks), (blocks, 2), "{y} {height}");
    }
    // In band-major order, a band has 2,560 elements. A block therefore has 25.6 bands.
    let encoded = example(ArrayLayout::BandMajor, Coder::Blosc2Lz4);
    for (bands, blocks) in [
        (Bands::Range(0..25), 1),
        (Bands::Range(25..26), 2),
        (Bands::List(vec![31, 26]), 1),
        (Bands::List(vec![31, 0]), 2),
        (Bands::Range(9..9), 0),
    ] {
        let (_, done) = cut(&mut decoder, &encoded, &Region { bands, ..Region::new(0, 0, 40, 64) });
        assert_eq!((done.blocks_decoded, done.blocks), (blocks, 2));
    }
    // Damage outside the decoded region is not detected.
    let mut encoded = example(ArrayLayout::AsShape, Coder::Blosc2Zstd);
    let last = encoded.payload.len() - 20;
    encoded.payload[last..].fill(0xFF);
    let whole = decoder.decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default());
    assert!(whole.is_err());
    cut(&mut decoder, &encoded, &Region::new(0, 0, 32, 64));
}

/// If LZ4 stops early, it may not reach the damage. The result is either an error or wrong bytes, but never a panic.
#[test]
fn damaged_streams_that_are_decoded_in_part_do_no_harm() {
    let good = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let (mut decoder, mut refused) = (ArrayDecoder::new(), 0);
    let region = Region::new(3, 5, 9, 20);
    let (expected, _) = cut(&mut decoder, &good, &region);
    for (i, at) in (0..good.payload.len()).step_by(7).enumerate() {
        let mut payload = good.payload.clone();
        payload[at] ^= [0x5A, 0xFF, 0x01, 0x80][i % 4];
        let mut out = vec![0; expected.len()];
        let (codec, descriptor) = (good.codec, &good.descriptor);
        let part = decoder.decode_region(codec, descriptor, &payload, &region, &mut out, &Limits::default());
        refused += u32::from(part.is_err());
        if let Ok(whole) = decoder.decode(codec, descriptor, &payload, &Limits::default()) {
            assert!(part.is_ok());
            assert_eq!(out, slow(&whole, &region, descriptor));
        }
    }
    assert!(refused > 10, "{refused}");
    assert_eq!(cut(&mut decoder, &good, &region).0, expected);
}

#[test]
fn regions_outside_the_array_are_refused_by_name() {
    let encoded = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let of = |region: Region| region.shape_of(&encoded.descriptor).unwrap_err().to_string();
    let bands = |bands: Bands| of(Region { bands, ..Region::new(0, 0, 1, 1) });
    assert_eq!(of(Region::new(30, 0, 11, 1)), "the region has 11 rows starting at 30, but the array has only 40 rows");
    assert!(of(Region::new(u64::MAX, 0, 2, 1)).contains("rows"));
    assert!(of(Region::new(0, 64, 1, 1)).contains("columns"));
    assert_eq!(
        bands(Bands::List(vec![3, 32])),
        "band 32 was requested, but the array has only 32 bands, numbered from 0"
    );
    assert!(bands(Bands::Range(30..33)).contains("bands"));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = Bands::Range(5..3);
    assert!(bands(reversed).contains("ends before it starts"));
    let flat = ArrayDescriptor::plain(Dtype::U8, vec![5, 6]);
    let two = Region { bands: Bands::List(vec![0, 0]), ..Region::new(0, 0, 1, 1) };
    assert!(two.shape_of(&flat).unwrap_err().to_string().contains("the array has two axes, so it has one band"));
    let line = ArrayDescriptor::plain(Dtype::U8, vec![5]);
    assert!(Region::new(0, 0, 1, 1).shape_of(&line).unwrap_err().to_string().contains("[height, width]"));
    assert!(Region::whole(&line).is_err());

    let mut decoder = ArrayDecoder::new();
    let mut decode = |out: &mut [u8], limits: &Limits| {
        let region = Region::new(0, 0, 2, 2);
        decoder.decode_region(encoded.codec, &encoded.descriptor, &encoded.payload, &region, out, limits).unwrap_err()
    };
    assert!(decode(&mut [0; 255], &Limits::default()).to_string().contains("256 bytes"));
    let small = Limits { max_decoded_bytes: 255, ..Limits::default() };
    assert!(matches!(decode(&mut [0; 256], &small), Error::Limit { name: "max_decoded_bytes", .. }));
}

#[test]
fn a_small_region_of_an_array_over_the_limit_is_allowed() {
    let encoded = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let limits = Limits { max_decoded_bytes: 4096, ..Limits::default() };
    let (region, mut decoder) = (Region::new(7, 0, 1, 64), ArrayDecoder::new());
    let (descriptor, payload) = (&encoded.descriptor, &encoded.payload);
    assert!(decoder.decode(encoded.codec, descriptor, payload, &limits).is_err());
    assert!(decoder.decode_region(encoded.codec, descriptor, payload, &region, &mut [0; 4096], &limits).is_ok());
}

#[test]
fn arrays_and_regions_without_elements() {
    let mut decoder = ArrayDecoder::new();
    let descriptor = ArrayDescriptor::plain(Dtype::U64, vec![0, 1 << 30, 1 << 30]);
    let all = Region::whole(&descriptor).unwrap();
    for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2] {
        let mut decode =
            |payload: &[u8]| decoder.decode_region(codec, &descriptor, payload, &all, &mut [], &Limits::default());
        assert_eq!(decode(&[]).unwrap().blocks, 0);
        assert!(decode(&[0]).is_err());
    }
    let encoded = example(ArrayLayout::AsShape, Coder::Zstd);
    let (out, done) = cut(&mut decoder, &encoded, &Region::new(40, 64, 0, 0));
    assert_eq!((out.len(), done.blocks_decoded, done.blocks), (0, 0, 1));
}

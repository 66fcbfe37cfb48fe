//! Tests that an array that is read in pieces is stored exactly like the same array in memory, byte for byte.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use shardpack_array::{
    Array, ArrayEncoder, ArrayLayout, ArraySettings, ArraySource, Coder, EncodeError, EncodeResult, Filter, ValueRule,
    crop_for_trial,
};
use shardpack_format::{Codec, Dtype};
use std::cell::Cell;

/// An array that is read in pieces, like a file. Reads beyond `readable` fail.
struct Pieces<'a> {
    array: &'a Array,
    readable: u64,
    largest: Cell<usize>,
}

impl ArraySource for Pieces<'_> {
    fn dtype(&self) -> Dtype {
        self.array.dtype()
    }

    fn shape(&self) -> &[u64] {
        self.array.shape()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> EncodeResult<()> {
        self.largest.set(self.largest.get().max(out.len()));
        if offset + out.len() as u64 > self.readable {
            return Err(EncodeError::Source("the file has ended".into()));
        }
        self.array.read_at(offset, out)
    }
}

fn pieces(array: &Array) -> Pieces<'_> {
    Pieces { array, readable: u64::MAX, largest: Cell::new(0) }
}

/// Returns an array of more than one 4 MiB unit, with a partial last piece.
fn array(dtype: Dtype, value: impl Fn(usize) -> f64) -> Array {
    let shape = vec![301, 37, 101];
    let count = shape.iter().product::<u64>() as usize;
    let bytes = (0..count).flat_map(|i| match dtype {
        Dtype::F32 => (value(i) as f32).to_le_bytes().to_vec(),
        Dtype::F64 => value(i).to_le_bytes().to_vec(),
        Dtype::U32 => (value(i) as u32).to_le_bytes().to_vec(),
        _ => panic!("not made here: {dtype}"),
    });
    Array::new(dtype, shape, bytes.collect()).unwrap()
}

fn noise(i: usize) -> u64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
}

fn settings(values: ValueRule, coder: Coder, layout: ArrayLayout, band_difference: bool) -> ArraySettings {
    let filter = if coder.has_filters() { Filter::Shuffle } else { Filter::None };
    ArraySettings { values, coder, level: coder.default_level(), filter, band_difference, layout }
}

#[track_caller]
fn check(array: &Array, no_data: Option<f64>, settings: ArraySettings) -> Codec {
    let mut encoder = ArrayEncoder::new(settings).unwrap();
    let expected = encoder.encode(array, no_data).unwrap();
    let source = pieces(array);
    let mut out = b"what stood there".to_vec();
    let stored = encoder.encode_into(&source, no_data, &mut out).unwrap();
    assert_eq!((stored.codec, &stored.descriptor), (expected.codec, &expected.descriptor), "{settings}");
    assert_eq!(stored.fidelity, expected.fidelity, "{settings}");
    assert!(out.strip_prefix(b"what stood there").is_some_and(|payload| payload == expected.payload), "{settings}");
    assert!(source.largest.get() <= 256 << 10, "{settings}: {} bytes at once", source.largest.get());
    stored.codec
}

#[test]
fn every_rule_and_order_gives_the_same_bytes() {
    let smooth = array(Dtype::F32, |i| match i % 5003 {
        7 => f64::NAN,
        8 => -9999.0,
        at => (at as f64 * 0.01).sin() + noise(i) as f64 / 1e18,
    });
    let rules = [
        ValueRule::Keep,
        ValueRule::F16,
        ValueRule::IntegerOrF16,
        ValueRule::Fixed { max_error: 1e-3 },
        // float16 cannot meet this bound, so this rule uses fixed point.
        ValueRule::IntegerOrF16OrFixed { max_error: 1e-4 },
    ];
    for values in rules {
        for layout in [ArrayLayout::AsShape, ArrayLayout::BandMajor] {
            for difference in [false, true] {
                let codec = check(&smooth, Some(-9999.0), settings(values, Coder::Blosc2Lz4, layout, difference));
                assert_eq!(codec, Codec::Blosc2);
            }
        }
        check(&smooth, Some(-9999.0), settings(values, Coder::Zstd, ArrayLayout::AsShape, false));
        check(&smooth, Some(-9999.0), settings(values, Coder::Raw, ArrayLayout::AsShape, false));
    }
}

#[test]
fn integers_are_narrowed_in_two_passes() {
    let counts = array(Dtype::F32, |i| (noise(i) % 200) as f64);
    let wide = array(Dtype::U32, |i| (noise(i) % 60_000) as f64);
    for array in [&counts, &wide] {
        check(array, None, settings(ValueRule::IntegerOrF16, Coder::Blosc2Lz4, ArrayLayout::AsShape, true));
    }
}

#[test]
fn payloads_that_shrink_too_little_or_too_much_are_coded_again() {
    let random = array(Dtype::U32, |i| (noise(i) & 0xFFFF_FFFF) as f64);
    let raw = check(&random, None, settings(ValueRule::Keep, Coder::Blosc2Lz4, ArrayLayout::AsShape, false));
    assert_eq!(raw, Codec::Raw);
    // Zstd compresses this array to almost nothing, which exceeds the reader's limit on expansion.
    let period = array(Dtype::F64, |i| f64::from((i % 2) as u8));
    let fallen_back = check(&period, None, settings(ValueRule::Keep, Coder::Zstd, ArrayLayout::AsShape, false));
    assert_eq!(fallen_back, Codec::Blosc2);
}

#[test]
fn an_array_that_cannot_be_read_is_an_error_in_its_own_words() {
    let smooth = array(Dtype::F32, |i| i as f64 * 0.001);
    let short = Pieces { readable: 1 << 20, ..pieces(&smooth) };
    for values in [ValueRule::Keep, ValueRule::IntegerOrF16, ValueRule::Fixed { max_error: 1.0 }] {
        let settings = settings(values, Coder::Blosc2Lz4, ArrayLayout::AsShape, false);
        let error = ArrayEncoder::new(settings).unwrap().encode_into(&short, None, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the file has ended");
    }
}

#[test]
fn a_trial_reads_the_middle_only() {
    let array = Array::new(Dtype::U8, vec![9, 1 << 21], (0..9).flat_map(|row| vec![row; 1 << 21]).collect()).unwrap();
    // Reads beyond the middle rows fail.
    let crop = crop_for_trial(&Pieces { readable: 6 << 21, ..pieces(&array) }).unwrap();
    assert!(crop_for_trial(&Pieces { readable: (6 << 21) - 1, ..pieces(&array) }).is_err());
    assert_eq!(crop.shape(), [4, 1 << 21]);
    assert_eq!([crop.bytes()[0], crop.bytes()[(4 << 21) - 1]], [2, 5]);
    assert_eq!(crop, crop_for_trial(&array).unwrap());
}

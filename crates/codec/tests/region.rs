//! Regions against the whole array, decoded and then cut one element at a time; their cost against a count of blocks by hand.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

use proptest::prelude::*;
use shardpack_codec::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArraySettings, Bands, Coder, EncodedArray, Filter, Output, Region,
    RegionDecoded, UNIT_BYTES, ValueRule,
};
use shardpack_format::{ArrayDescriptor, Codec, Codes, Dtype, Error, Layout, Limits, Transform};
use std::collections::BTreeSet;

/// Numbers that look random.
struct Dice(u32);

impl Dice {
    fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn below(&mut self, end: u64) -> u64 {
        u64::from(self.roll()) % end.max(1)
    }

    /// A part of `0..length`, often at an edge or the whole.
    fn part(&mut self, length: u64) -> (u64, u64) {
        let count = match self.below(6) {
            0 => length,
            1 => length.min(1),
            _ => self.below(length) + 1,
        }
        .min(length);
        match self.below(4) {
            0 => (0, count),
            1 => (length - count, count),
            _ => (self.below(length - count + 1), count),
        }
    }

    fn region(&mut self, descriptor: &ArrayDescriptor) -> Region {
        let (y, height) = self.part(descriptor.shape[0]);
        let (x, width) = self.part(descriptor.shape[1]);
        let flat = descriptor.shape.len() == 2;
        let channels = if flat { 1 } else { descriptor.shape[2] };
        let bands = match self.below(4) {
            0 | 1 => Bands::All,
            2 => {
                let (first, count) = self.part(channels);
                Bands::Range(first..first + count)
            }
            _ if flat => Bands::List(vec![0]),
            _ => Bands::List((0..=self.below(channels + 2)).map(|_| self.below(channels)).collect()),
        };
        let output = if self.below(2) == 0 { Output::Source } else { Output::Stored };
        let layout = if self.below(2) == 0 { Layout::AsShape } else { Layout::BandMajor };
        Region { y, x, height, width, bands, output, layout }
    }
}

fn bands_of(region: &Region, descriptor: &ArrayDescriptor) -> Vec<u64> {
    match &region.bands {
        Bands::All => (0..descriptor.shape.get(2).copied().unwrap_or(1)).collect(),
        Bands::Range(range) => range.clone().collect(),
        Bands::List(list) => list.clone(),
    }
}

/// The array as its payload has it, but for the layout and the difference.
fn stored(descriptor: &ArrayDescriptor) -> ArrayDescriptor {
    let (decoded, transform) = (descriptor.stored, Transform::None);
    ArrayDescriptor { decoded, transform, no_data: None, codes: Codes::default(), ..descriptor.clone() }
}

/// Whole first, then element by element.
fn slow(whole: &Array, region: &Region, descriptor: &ArrayDescriptor) -> Vec<u8> {
    let bands = bands_of(region, descriptor);
    let size = whole.dtype().bytes();
    let (width, channels) = (whole.shape()[1], whole.shape().get(2).copied().unwrap_or(1));
    let mut out = Vec::new();
    let mut push = |y: u64, x: u64, band: u64| {
        let at = (((y * width + x) * channels + band) * size) as usize;
        out.extend_from_slice(&whole.bytes()[at..at + size as usize]);
    };
    let (rows, columns) = (region.y..region.y + region.height, region.x..region.x + region.width);
    if region.layout == Layout::AsShape {
        rows.for_each(|y| columns.clone().for_each(|x| bands.iter().for_each(|&band| push(y, x, band))));
    } else {
        bands.iter().for_each(|&band| rows.clone().for_each(|y| columns.clone().for_each(|x| push(y, x, band))));
    }
    out
}

/// The blocks in which an element stands that the region needs.
fn slow_blocks(region: &Region, descriptor: &ArrayDescriptor) -> BTreeSet<u64> {
    let mut blocks = BTreeSet::new();
    // Bands are the last axis, for an array of two axes its columns.
    let flat = descriptor.shape.len() == 2;
    let (height, width, channels) = if flat {
        (descriptor.shape[0], 1, descriptor.shape[1])
    } else {
        (descriptor.shape[0], descriptor.shape[1], descriptor.shape[2])
    };
    let columns = if flat { 0..1 } else { region.x..region.x + region.width };
    let mut bands = if flat { (region.x..region.x + region.width).collect() } else { bands_of(region, descriptor) };
    if descriptor.band_difference {
        bands = (0..bands.iter().max().map_or(0, |last| last + 1)).collect();
    }
    for y in region.y..region.y + region.height {
        for x in columns.clone() {
            for band in &bands {
                let element = match descriptor.layout {
                    Layout::AsShape => (y * width + x) * channels + band,
                    Layout::BandMajor => (band * height + y) * width + x,
                };
                blocks.insert(element >> 16);
            }
        }
    }
    blocks
}

fn cut(decoder: &mut ArrayDecoder, encoded: &EncodedArray, region: &Region) -> (Vec<u8>, RegionDecoded) {
    let (codec, descriptor, payload) = (encoded.codec, &encoded.descriptor, &encoded.payload);
    // What was there before must not show.
    let mut out = vec![0xEE; region.shape_of(descriptor).unwrap().bytes as usize];
    let done = decoder.decode_region(codec, descriptor, payload, region, &mut out, &Limits::default()).unwrap();
    assert_eq!(done.shape, region.shape_of(descriptor).unwrap());
    (out, done)
}

/// Compares `count` random regions with the slow twin.
fn check(decoder: &mut ArrayDecoder, encoded: &EncodedArray, dice: &mut Dice, count: u32) {
    let descriptor = &encoded.descriptor;
    let whole = |descriptor: &ArrayDescriptor| {
        ArrayDecoder::new().decode(encoded.codec, descriptor, &encoded.payload, &Limits::default()).unwrap()
    };
    let (values, elements) = (whole(descriptor), whole(&stored(descriptor)));
    for _ in 0..count {
        let region = dice.region(descriptor);
        let (out, done) = cut(decoder, encoded, &region);
        let from = if region.output == Output::Source { &values } else { &elements };
        assert_eq!(done.shape.dtype, from.dtype());
        assert!(out == slow(from, &region, descriptor), "{region:?} of {descriptor:?}");
        if encoded.codec == Codec::Blosc2 {
            // A block has 65,536 elements, and no array in here whose units are all blocks is cheaper than this.
            let expected = slow_blocks(&region, descriptor).len() as u64;
            let units = encoded.descriptor.stored_bytes().unwrap().div_ceil(UNIT_BYTES as u64);
            assert!(
                done.blocks_decoded == expected
                    || (done.blocks_decoded < expected && (units > 1 || done.blocks_decoded == 0)),
                "{region:?} of {descriptor:?}: {done:?}, not {expected}"
            );
            assert_eq!(done.blocks, descriptor.elements().unwrap().div_ceil(1 << 16));
        }
    }
}

fn coders() -> impl Strategy<Value = (Coder, Option<i32>)> {
    prop_oneof![
        3 => Just((Coder::Blosc2Lz4, None)),
        1 => Just((Coder::Blosc2Lz4hc, Some(3))),
        3 => Just((Coder::Blosc2Zstd, Some(1))),
        2 => Just((Coder::Zstd, Some(1))),
        1 => Just((Coder::Raw, None)),
    ]
}

fn settings(values: ValueRule) -> impl Strategy<Value = ArraySettings> {
    const FILTERS: [Filter; 4] = [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta];
    const LAYOUTS: [ArrayLayout; 2] = [ArrayLayout::AsShape, ArrayLayout::BandMajor];
    (coders(), prop::sample::select(&FILTERS[..]), prop::sample::select(&LAYOUTS[..]), any::<bool>()).prop_map(
        move |((coder, level), filter, layout, band_difference)| {
            let filter = if coder.is_blosc2() { filter } else { Filter::None };
            ArraySettings { values, coder, level, filter, band_difference, layout }
        },
    )
}

/// Two and three axes; from less than a block to some, and rows that end with a block.
fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        6 => (1..20_u64, 1..20_u64, 1..12_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        2 => (1..40_u64, 1..60_u64).prop_map(|(h, w)| vec![h, w]),
        2 => (20..70_u64, 20..90_u64, 10..50_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        1 => (100..300_u64, 200..700_u64).prop_map(|(h, w)| vec![h, w]),
        1 => (16..80_u64).prop_map(|h| vec![h, 64, 32]),
        1 => (1..4_u64, 1..4_u64, 20_000..50_000_u64).prop_map(|(h, w, c)| vec![h, w, c]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(450))]
    #[test]
    fn regions_of_kept_values_are_those_of_the_whole_array(
        settings in prop_oneof![settings(ValueRule::Keep), settings(ValueRule::IntegerOrKeep)],
        dtype in prop::sample::select(Dtype::ALL), shape in shapes(), seed: u32, bits in 0..9_u32,
    ) {
        let mut dice = Dice(seed);
        let mask = if dtype == Dtype::Bool { 1 } else { u8::MAX.checked_shr(8 - bits).unwrap_or(0) };
        let bytes = (0..dtype.array_bytes(&shape).unwrap()).map(|_| (dice.roll() >> 16) as u8 & mask).collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        check(&mut ArrayDecoder::new(), &encoded, &mut dice, 6);
    }

    #[test]
    fn regions_of_transformed_values_are_those_of_the_whole_array(
        settings in prop_oneof![
            settings(ValueRule::F16), settings(ValueRule::IntegerOrF16), settings(ValueRule::Fixed { max_error: 1e-3 }),
            settings(ValueRule::Fixed { max_error: 1e-5 }),
        ],
        wide: bool, shape in shapes(), seed: u32, holes: bool, whole_numbers: bool,
    ) {
        let mut dice = Dice(seed);
        let fixed = matches!(settings.values, ValueRule::Fixed { .. });
        let value = |dice: &mut Dice, i: u64| match dice.below(64) {
            0 if holes => f32::NAN,
            1 if holes => -9999.0,
            2 if holes && fixed => f32::INFINITY,
            n if whole_numbers && !fixed => n as f32,
            n => (i % 97) as f32 / 300.0 + n as f32 / 1e4,
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|i| value(&mut dice, i)).collect();
        let array = if wide {
            Array::new(Dtype::F64, shape, values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect()).unwrap()
        } else {
            Array::new(Dtype::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap()
        };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, Some(-9999.0)).unwrap();
        check(&mut ArrayDecoder::new(), &encoded, &mut dice, 6);
    }

    #[test]
    fn damaged_payloads_are_a_region_or_an_error(
        settings in settings(ValueRule::Keep), dtype in prop::sample::select(Dtype::ALL), shape in shapes(), seed: u32,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut dice = Dice(seed);
        let mask = if dtype == Dtype::Bool { 1 } else { 15 };
        let bytes = (0..dtype.array_bytes(&shape).unwrap()).map(|_| (dice.roll() >> 16) as u8 & mask).collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        let mut encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let good = encoded.payload.clone();
        for (at, value) in changes {
            // Headers and lengths stand at the start.
            let near = if dice.below(2) == 0 { good.len() } else { good.len().min(64) };
            encoded.payload[at.index(near)] = value;
        }
        if let Some(cut) = cut {
            encoded.payload.truncate(cut.index(good.len()));
        }
        let mut decoder = ArrayDecoder::new();
        for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2, Codec::Jpeg] {
            let region = dice.region(&encoded.descriptor);
            let mut out = vec![0; region.shape_of(&encoded.descriptor).unwrap().bytes as usize];
            let whole = decoder.decode(codec, &encoded.descriptor, &encoded.payload, &Limits::default());
            let part = decoder.decode_region(codec, &encoded.descriptor, &encoded.payload, &region, &mut out, &Limits::default());
            // What is fine as a whole is fine in parts.
            if let Ok(whole) = whole {
                prop_assert!(part.is_ok(), "{part:?}");
                if region.output == Output::Source || stored(&encoded.descriptor) == encoded.descriptor {
                    prop_assert!(out == slow(&whole, &region, &encoded.descriptor));
                }
            }
        }
        // Nothing of it stays behind.
        encoded.payload = good;
        check(&mut decoder, &encoded, &mut dice, 1);
    }
}

/// Three units of 4 MiB, of which one is zeros and one noise: stored as a special chunk and as it is.
#[test]
fn regions_across_units_and_through_special_chunks() {
    let mut dice = Dice(7);
    let mut decoder = ArrayDecoder::new();
    for (dtype, shape) in [
        (Dtype::U8, vec![300_u64, 100, 400]),
        (Dtype::U16, vec![300, 100, 200]),
        (Dtype::F32, vec![1500, 2000]),
        (Dtype::F64, vec![150, 100, 100]),
    ] {
        let bytes: Vec<u8> = (0..dtype.array_bytes(&shape).unwrap() as usize)
            .map(|i| match i / UNIT_BYTES {
                0 => 0,
                1 => (dice.roll() >> 16) as u8,
                _ => (dice.roll() >> 16) as u8 & 3,
            })
            .collect();
        let array = Array::new(dtype, shape, bytes).unwrap();
        for (coder, level) in
            [(Coder::Blosc2Lz4, None), (Coder::Blosc2Zstd, Some(1)), (Coder::Zstd, Some(1)), (Coder::Raw, None)]
        {
            for (layout, band_difference) in
                [(ArrayLayout::AsShape, false), (ArrayLayout::BandMajor, false), (ArrayLayout::AsShape, true)]
            {
                let values = ValueRule::Keep;
                let filter = if coder.is_blosc2() { Filter::Shuffle } else { Filter::None };
                let settings = ArraySettings { values, coder, level, filter, band_difference, layout };
                let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
                check(&mut decoder, &encoded, &mut dice, 5);
            }
        }
    }
}

/// A cube of `[40, 64, 32]` uint16: 1.25 blocks.
fn example(layout: ArrayLayout, coder: Coder) -> EncodedArray {
    let bytes = (0..40 * 64 * 32_u32).flat_map(|i| ((i / 7 % 5000) as u16).to_le_bytes()).collect();
    let array = Array::new(Dtype::U16, vec![40, 64, 32], bytes).unwrap();
    let (level, filter) = (coder.default_level(), if coder.is_blosc2() { Filter::Shuffle } else { Filter::None });
    let settings = ArraySettings { values: ValueRule::Keep, coder, level, filter, band_difference: false, layout };
    ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap()
}

#[test]
fn only_touched_blocks_are_decoded() {
    let encoded = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let mut decoder = ArrayDecoder::new();
    // A row has 2,048 elements: the first block is the rows 0 to 31.
    for (y, height, blocks) in [(0, 32, 1), (31, 1, 1), (31, 2, 2), (32, 8, 1), (0, 40, 2)] {
        let (_, done) = cut(&mut decoder, &encoded, &Region::new(y, 3, height, 5));
        assert_eq!((done.blocks_decoded, done.blocks), (blocks, 2), "{y} {height}");
    }
    // Band-major, a band has 2,560 elements.
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
    // Damage elsewhere is not looked at.
    let mut encoded = example(ArrayLayout::AsShape, Coder::Blosc2Zstd);
    let last = encoded.payload.len() - 20;
    encoded.payload[last..].fill(0xFF);
    let whole = decoder.decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default());
    assert!(whole.is_err());
    cut(&mut decoder, &encoded, &Region::new(0, 0, 32, 64));
}

#[test]
fn what_does_not_fit_the_array_is_refused_by_name() {
    let encoded = example(ArrayLayout::AsShape, Coder::Blosc2Lz4);
    let of = |region: Region| region.shape_of(&encoded.descriptor).unwrap_err().to_string();
    let bands = |bands: Bands| of(Region { bands, ..Region::new(0, 0, 1, 1) });
    assert_eq!(of(Region::new(30, 0, 11, 1)), "rows of a region: expected within 0..40, found 11 from 30 on");
    assert!(of(Region::new(u64::MAX, 0, 2, 1)).contains("rows"));
    assert!(of(Region::new(0, 64, 1, 1)).contains("columns"));
    assert_eq!(bands(Bands::List(vec![3, 32])), "band of a region: expected below 32, found 32");
    assert!(bands(Bands::Range(30..33)).contains("bands"));
    #[allow(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = Bands::Range(5..3);
    assert!(bands(reversed).contains("start..end"));
    let flat = ArrayDescriptor::plain(Dtype::U8, vec![5, 6]);
    let two = Region { bands: Bands::List(vec![0, 0]), ..Region::new(0, 0, 1, 1) };
    assert!(two.shape_of(&flat).unwrap_err().to_string().contains("one, of an array of two axes"));
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

#[test]
fn float16_comes_out_as_it_is_stored() {
    let values = [0.5_f32, -9999.0, f32::NAN, 1.5];
    let array = Array::new(Dtype::F32, vec![2, 2], values.iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap();
    let (coder, level, filter) = (Coder::Raw, None, Filter::None);
    let settings = ArraySettings {
        values: ValueRule::F16,
        coder,
        level,
        filter,
        band_difference: true,
        layout: ArrayLayout::AsShape,
    };
    let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, Some(-9999.0)).unwrap();
    let region = Region { output: Output::Stored, ..Region::whole(&encoded.descriptor).unwrap() };
    let (out, done) = cut(&mut ArrayDecoder::new(), &encoded, &region);
    assert_eq!(done.shape.dtype, Dtype::F16);
    let halves: Vec<half::f16> = out.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b)).collect();
    // The no-data value does not fit float16: its code is a NaN of its own.
    assert_eq!((halves[0].to_f32(), halves[3].to_f32()), (0.5, 1.5));
    assert!(halves[1].is_nan() && halves[2].is_nan() && halves[1].to_bits() != halves[2].to_bits());
    let (out, _) = cut(&mut ArrayDecoder::new(), &encoded, &Region { output: Output::Source, ..region });
    assert_eq!(f32::from_le_bytes(*out[4..].first_chunk().unwrap()), -9999.0);
}

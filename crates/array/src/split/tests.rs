//! Checks that arrays decoded in parts equal arrays decoded as a whole.

use super::*;
use crate::blosc2::HEADER_BYTES;
use crate::{
    Array, ArrayEncoder, ArrayLayout, ArraySettings, As, Bands, Coder, EncodedArray, Factors, Fill, Filter, Finish,
    Region, Turn, ValueRule, decoded_as,
};
use proptest::prelude::*;
use shardpack_format::{ArrayDescriptor, Dtype, Transform};

fn reader(payload: &[u8]) -> impl FnMut(usize, &mut [u8]) -> Option<()> {
    |at, to| {
        to.copy_from_slice(payload.get(at..at + to.len())?);
        Some(())
    }
}

fn split_of(
    descriptor: &ArrayDescriptor,
    encoded: &EncodedArray,
    wanted: &Wanted<'_>,
    part_bytes: usize,
) -> Option<ArraySplit> {
    let (codec, payload) = (encoded.codec, &encoded.payload);
    ArraySplit::new(codec, descriptor, wanted, payload.len(), part_bytes, &Limits::default(), reader(payload))
}

fn split(descriptor: &ArrayDescriptor, encoded: &EncodedArray, part_bytes: usize) -> Option<ArraySplit> {
    split_of(descriptor, encoded, &Wanted::ALL, part_bytes)
}

struct Own<'a> {
    row: &'a mut [u8],
    origins: Origins,
    pixels: Range<usize>,
}

impl OutputRow for Own<'_> {
    fn bytes(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        let own = |pixel: i64| usize::try_from(pixel).is_ok_and(|pixel| self.pixels.contains(&pixel));
        let is_own = range.is_empty() || self.origins.of(range.clone())?.into_iter().all(own);
        self.row.get_mut(range).filter(|_| is_own)
    }
}

fn in_parts(split: &ArraySplit, payload: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let (mut decoder, mut out) = (ArrayDecoder::new(), vec![0xEE; bytes]);
    let mut ends = vec![Ends::default(); split.parts().len()];
    for (number, part) in split.parts().iter().enumerate().rev().filter(|(_, part)| part.is_wanted) {
        let mut own = Own { row: &mut out, origins: split.origins(), pixels: part.pixels.clone() };
        ends[number] = decoder.decode_part(split, number, &payload[part.payload.clone()], &mut own)?;
    }
    split.join(&ends, &mut out)?;
    Ok(out)
}

/// Returns an array of floats with noise in their low bits.
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
    // About 9 MB of two-byte elements: three units whose borders are inside pixels.
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
        (rules[0], Coder::Zstd, Filter::None, true),
        (rules[2], Coder::Zstd, Filter::None, false),
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
    // The elements are stored in the array's own type, so parts are read directly into the output and need no join.
    let plain = ArrayDescriptor::plain(Dtype::F32, array.shape().to_vec());
    let encoded = EncodedArray {
        codec: Codec::Raw,
        payload: array.bytes().to_vec(),
        ..ArrayEncoder::new(settings(rules[2], Coder::Raw, Filter::None, false)).unwrap().encode(&array, None).unwrap()
    };
    let split = split(&plain, &encoded, 1_000_003).unwrap();
    assert!(split.is_copy() && split.parts().iter().all(|part| part.payload == part.pixels));
    assert_eq!(in_parts(&split, array.bytes(), array.bytes().len()).unwrap(), array.bytes());
}

proptest! {
    #[test]
    fn raw_parts_of_any_size_are_the_whole_array(
        pixels in 1..40_usize,
        bands in 1..30_usize,
        wide: bool,
        difference: bool,
        convert: bool,
        part_bytes in 0..400_usize,
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
        let (bytes, of) = (payload.len(), &Wanted::ALL);
        let split = ArraySplit::new(Codec::Raw, &descriptor, of, bytes, part_bytes, &limits, |_, _| None).unwrap();
        prop_assert_eq!(split.is_copy(), !difference && !convert);
        prop_assert_eq!(in_parts(&split, &payload, whole.bytes().len()).unwrap(), whole.bytes());
    }
}

#[test]
fn uncut_payloads_are_decoded_as_a_whole() {
    let array = floats(20, 9);
    let with = |coder, layout| {
        let settings = ArraySettings { layout, ..settings(ValueRule::F16, coder, Filter::None, false) };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let takes = ArraySplit::takes(encoded.codec, &encoded.descriptor, &Wanted::ALL);
        (split(&encoded.descriptor, &encoded, 100).is_some(), takes)
    };
    assert_eq!(with(Coder::Blosc2Lz4, ArrayLayout::AsShape), (true, true));
    assert_eq!(with(Coder::Blosc2Lz4, ArrayLayout::BandMajor), (false, false));
    assert_eq!(with(Coder::Zstd, ArrayLayout::AsShape), (true, true));

    let made = |limits: &Limits, bytes: usize, header: Option<[u8; HEADER_BYTES]>| {
        let cube = ArrayDescriptor::plain(Dtype::U16, vec![700, 64, 103]);
        let read = |_, to: &mut [u8]| {
            to.copy_from_slice(&header?);
            Some(())
        };
        ArraySplit::new(Codec::Blosc2, &cube, &Wanted::ALL, bytes, 100, limits, read).map(|split| split.parts().len())
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
    let mut row = vec![0; 700 * 64 * 103 * 4];
    let mut out = row.as_mut_slice();
    for at in (0..60).chain((60..part.payload.len()).step_by(40_009)) {
        let mut payload = good.payload[part.payload.clone()].to_vec();
        payload[at] ^= 0x5A;
        refused += usize::from(decoder.decode_part(&split, 1, &payload, &mut out).is_err());
    }
    assert!(refused > 20, "{refused}");
    let payload = &good.payload[part.payload.clone()];
    assert!(decoder.decode_part(&split, 1, &payload[1..], &mut out).is_err());
    assert!(decoder.decode_part(&split, 1, payload, &mut &mut out[..1 << 20]).is_err());
    assert!(decoder.decode_part(&split, 9, payload, &mut out).is_err());
    assert!(split.join(&[], out).is_err());
}

fn slowly(values: &[u8], descriptor: &ArrayDescriptor, wanted: &Wanted<'_>) -> Vec<u8> {
    let [height, width, channels] = [0, 1, 2].map(|axis| descriptor.shape.get(axis).copied().unwrap_or(1) as usize);
    let whole = Region { layout: wanted.layout, ..Region::whole(descriptor).unwrap() };
    let Region { y, x, height: rows, width: columns, bands, layout, .. } = wanted.region.unwrap_or(&whole);
    let [y, x, rows, columns] = [y, x, rows, columns].map(|n| *n as usize);
    let bands: Vec<usize> = if *bands == Bands::All { (0..channels).collect() } else { bands.numbers().collect() };
    let size = descriptor.decoded.size();
    let element = |row: usize, column: usize, band: usize| {
        let [row, column] = wanted.finish.turn.source([row, column], [rows, columns]);
        assert!(y + row < height);
        let at = size * (((y + row) * width + x + column) * channels + bands[band]);
        let one = Finish { turn: Turn::NONE, ..wanted.finish.clone() };
        let factors = one.factors.as_ref().map(|factors| {
            if factors.len() == 1 { factors.clone() } else { factors.of_bands(std::iter::once(band as u64)).unwrap() }
        });
        let mut out = vec![0; one.to.of(descriptor.decoded).unwrap().size()];
        Finish { factors, ..one }
            .apply(descriptor.decoded, [1, 1, 1], Layout::AsShape, &values[at..at + size], &mut out)
            .unwrap();
        out
    };
    let pixels = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    match layout {
        Layout::AsShape => pixels
            .flat_map(|(row, column)| {
                (0..bands.len()).flat_map(move |band| element(row, column, band)).collect::<Vec<_>>()
            })
            .collect(),
        Layout::BandMajor => (0..bands.len())
            .flat_map(|band| {
                pixels.clone().flat_map(move |(row, column)| element(row, column, band)).collect::<Vec<_>>()
            })
            .collect(),
    }
}

#[derive(Debug, Clone)]
struct Asked {
    region: Option<Region>,
    layout: Layout,
    finish: Finish,
}

impl Asked {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { region: self.region.as_ref(), layout: self.layout, finish: &self.finish }
    }

    fn bytes(&self, descriptor: &ArrayDescriptor) -> usize {
        let shape = self.region.as_ref().map(|region| region.shape_of(descriptor).unwrap().shape.to_vec());
        let element = self.finish.to.of(descriptor.decoded).unwrap();
        element.array_bytes(&shape.unwrap_or(descriptor.shape.clone())).unwrap() as usize
    }
}

/// Generates requests. If rows and columns are exchanged, the window is square.
fn asked([height, width, bands]: [u64; 3]) -> impl Strategy<Value = Asked> {
    let pick = prop_oneof![
        Just(Bands::All),
        (0..bands, 0..bands).prop_map(|(a, b)| Bands::Range(a.min(b)..a.max(b) + 1)),
        prop::collection::vec(0..bands, 1..5).prop_map(Bands::List),
    ];
    let window = (1..=height, 1..=width, any::<[u16; 2]>(), any::<[bool; 5]>(), 0..4_u8);
    (window, pick, 0..3_usize).prop_map(
        move |((mut rows, mut columns, at, [cut, first, a, b, turns], quarters), pick, to)| {
            let layout = if first { Layout::BandMajor } else { Layout::AsShape };
            if !cut {
                (rows, columns) = (height, width);
            } else if turns {
                (rows, columns) = (rows.min(columns), rows.min(columns));
            }
            let [y, x] =
                [(at[0], height - rows), (at[1], width - columns)].map(|(at, free)| u64::from(at) % (free + 1));
            let count = match &pick {
                Bands::All => bands as usize,
                some => some.numbers().count(),
            };
            let region = Region { bands: pick.clone(), layout, ..Region::new(y, x, rows, columns) };
            let region = (cut || pick != Bands::All).then_some(region);
            let quarters = if turns && rows == columns { quarters } else { quarters & 2 };
            let turn = Turn::new(a, b, quarters);
            let numbers = |step: f64| (0..count).map(|n| n as f64 * step + 0.3).collect::<Vec<_>>();
            let factors = Factors::new(&numbers(-7.7), &numbers(0.9)).unwrap();
            let fill = (u8::from(a) + u8::from(b) > 0).then_some(Fill { no_data: 1.0, with: -5.5 });
            let finish = match to {
                0 => Finish { turn, ..Finish::NOTHING },
                1 => Finish { to: As::Bf16, factors: Some(factors), fill, turn, ..Finish::NOTHING },
                _ => Finish { to: As::F32, factors: None, fill, turn, ..Finish::NOTHING },
            };
            Asked { region, layout, finish }
        },
    )
}

proptest! {
    #[test]
    fn wanted_parts_agree_with_the_slow_twin(
        (shape, asked) in (1..12_u64, 1..12_u64, prop_oneof![1..5_u64, 90..110_u64])
            .prop_flat_map(|(height, width, bands)| (Just([height, width, bands]), asked([height, width, bands]))),
        (values, width) in prop_oneof![Just((ValueRule::Keep, 2)), Just((ValueRule::Keep, 4)), Just((ValueRule::F16, 4)), Just((ValueRule::Fixed { max_error: 0.5 }, 4))],
        (coder, filter) in prop_oneof![
            Just((Coder::Raw, Filter::None)), Just((Coder::Zstd, Filter::None)),
            Just((Coder::Blosc2Lz4, Filter::Shuffle)), Just((Coder::Blosc2Zstd, Filter::Bitshuffle)),
        ],
        (band_major, band_difference) in any::<(bool, bool)>(),
        part_bytes in 0..600_usize,
        seed: u16,
    ) {
        let elements = (0..shape.iter().product::<u64>()).map(|i| (i as u16).wrapping_mul(31) ^ seed);
        let (dtype, bytes) = match width {
            2 => (Dtype::U16, elements.flat_map(u16::to_le_bytes).collect()),
            _ => (Dtype::F32, elements.flat_map(|i| (f32::from(i) / 8.0).to_le_bytes()).collect::<Vec<_>>()),
        };
        let array = Array::new(dtype, shape.to_vec(), bytes).unwrap();
        let layout = if band_major { ArrayLayout::BandMajor } else { ArrayLayout::AsShape };
        let settings = ArraySettings { layout, ..settings(values, coder, filter, band_difference) };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let (descriptor, payload, limits) = (&encoded.descriptor, &encoded.payload, Limits::default());
        let mut decoder = ArrayDecoder::new();
        let plain = decoder.decode(encoded.codec, descriptor, payload, &limits).unwrap();
        let expected = slowly(plain.bytes(), descriptor, &asked.wanted());
        let mut out = vec![0xAA; asked.bytes(descriptor)];
        decoder.decode_wanted(encoded.codec, descriptor, payload, &asked.wanted(), &mut out, &limits).unwrap();
        prop_assert!(out == expected, "{:?}", descriptor);
        let split = split_of(descriptor, &encoded, &asked.wanted(), part_bytes);
        let by_itself = asked.layout == Layout::BandMajor && !descriptor.band_difference
            && asked.region.as_ref().is_none_or(|region| region.bands == Bands::All)
            && !matches!(descriptor.transform, Transform::Fixed { .. });
        prop_assert_eq!(split.is_some(), descriptor.layout == Layout::AsShape || by_itself);
        if let Some(split) = split {
            prop_assert!(in_parts(&split, payload, out.len()).unwrap() == expected, "{:?}", split.parts());
        }
    }
}

#[test]
fn wanted_parts_of_large_arrays_come_from_their_chunks() {
    let array = floats(700, 103);
    let bands: Vec<f64> = (1..=103).map(f64::from).collect();
    let normalised = Finish { to: As::Bf16, factors: Some(Factors::new(&bands, &bands).unwrap()), ..Finish::NOTHING };
    let flipped = Finish { turn: Turn::new(true, true, 0), ..normalised.clone() };
    let turned = Finish { to: As::F16, turn: Turn::new(false, true, 1), ..Finish::NOTHING };
    let window = Region::new(300, 7, 64, 50);
    let square = Region { layout: Layout::BandMajor, ..Region::new(333, 0, 64, 64) };
    let some = Region { bands: Bands::List(vec![90, 3, 4]), layout: Layout::BandMajor, ..Region::new(0, 0, 700, 64) };
    let few = Finish { to: As::F32, factors: Some(Factors::new(&bands[..3], &[2.0]).unwrap()), ..Finish::NOTHING };
    let (first, last) = (Layout::BandMajor, Layout::AsShape);
    for (coder, filter, difference) in [
        (Coder::Blosc2Lz4, Filter::Bitshuffle, true),
        (Coder::Blosc2Lz4, Filter::Shuffle, false),
        (Coder::Zstd, Filter::None, true),
        (Coder::Raw, Filter::None, false),
    ] {
        let settings = settings(ValueRule::F16, coder, filter, difference);
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        for (region, layout, finish, all) in [
            (None, last, &normalised, true),
            (None, first, &normalised, true),
            (None, first, &flipped, true),
            (None, last, &flipped, true),
            (None, first, &Finish::NOTHING, true),
            (Some(&window), last, &normalised, false),
            (Some(&window), last, &Finish::NOTHING, false),
            (Some(&square), first, &turned, false),
            (Some(&some), first, &few, true),
        ] {
            let asked = Asked { region: region.cloned(), layout, finish: finish.clone() };
            let (descriptor, wanted) = (&encoded.descriptor, asked.wanted());
            let mut whole = vec![0; asked.bytes(descriptor)];
            let limits = Limits::default();
            ArrayDecoder::new()
                .decode_wanted(encoded.codec, descriptor, &encoded.payload, &wanted, &mut whole, &limits)
                .unwrap();
            let split = split_of(descriptor, &encoded, &wanted, 1 << 20).unwrap();
            assert_eq!(split.parts().iter().all(|part| part.is_wanted), all, "{asked:?}");
            assert!(in_parts(&split, &encoded.payload, whole.len()).unwrap() == whole, "{coder:?} {asked:?}");
        }
    }
}

//! Encodes and decodes every combination of codec, filter, dtype, layout and difference, and checks
//! that invalid payloads are rejected.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss)]

use proptest::prelude::*;
use shardpack_array::{
    Array, ArrayDecoder, ArrayEncoder, ArrayLayout, ArrayOptions, ArraySettings, Coder, EncodedArray, Filter, Prefer,
    Region, Units, ValueRule, Values, Wanted, decode_bytes, encode_bytes, trial,
};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, Layout, Limits};

fn settings() -> impl Strategy<Value = ArraySettings> {
    let coder = prop_oneof![
        Just((Coder::Blosc2Lz4, None)),
        (1..=9).prop_map(|l| (Coder::Blosc2Lz4hc, Some(l))),
        prop_oneof![Just(1), Just(3), Just(9)].prop_map(|l| (Coder::Blosc2Zstd, Some(l))),
        (1..=9).prop_map(|l| (Coder::Zstd, Some(l))),
        Just((Coder::Raw, None)),
    ];
    let filter =
        prop_oneof![Just(Filter::None), Just(Filter::Shuffle), Just(Filter::Bitshuffle), Just(Filter::Bytedelta)];
    let values = prop_oneof![Just(ValueRule::Keep), Just(ValueRule::IntegerOrKeep)];
    let layout = prop_oneof![Just(ArrayLayout::AsShape), Just(ArrayLayout::BandMajor)];
    (coder, filter, values, layout, any::<bool>()).prop_map(
        |((coder, level), filter, values, layout, band_difference)| {
            let filter = if coder.has_filters() { filter } else { Filter::None };
            ArraySettings { values, coder, level, filter, band_difference, layout }
        },
    )
}

/// Generates arrays. In each array, only some bits of the bytes are used, so that some arrays are
/// noise and others compress well.
fn arrays() -> impl Strategy<Value = Array> {
    let dtype = prop::sample::select(Dtype::ALL);
    let shape = prop_oneof![
        4 => prop::collection::vec(0..9_u64, 0..5),
        2 => (1..60_u64, 1..60_u64, 1..40_u64).prop_map(|(h, w, c)| vec![h, w, c]),
        1 => (100..200_u64, 100..300_u64, 30..60_u64).prop_map(|(h, w, c)| vec![h, w, c]),
    ];
    (dtype, shape, any::<u32>(), 0..9_u32).prop_map(|(dtype, shape, seed, bits)| {
        let mut state = seed;
        let mask = if dtype == Dtype::Bool { 1 } else { u8::MAX.checked_shr(8 - bits).unwrap_or(0) };
        let bytes = (0..dtype.array_bytes(&shape).unwrap())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_le_bytes()[3] & mask
            })
            .collect();
        Array::new(dtype, shape, bytes).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn lossless_settings_bring_back_every_bit(
        settings in settings(),
        array in arrays(),
        no_data in prop::option::of(prop_oneof![Just(0.0), Just(3.0), Just(-1.0)]),
    ) {
        let mut encoder = ArrayEncoder::new(settings).unwrap();
        let encoded = encoder.encode(&array, no_data).unwrap();
        let again = encoder.encode(&array, no_data).unwrap();
        prop_assert_eq!(&encoded.payload, &again.payload);
        let descriptor = ArrayDescriptor::parse(&encoded.descriptor.encode().unwrap(), &Limits::default()).unwrap();
        let back = ArrayDecoder::new().decode(encoded.codec, &descriptor, &encoded.payload, &Limits::default()).unwrap();
        prop_assert_eq!(back, array);
        prop_assert_eq!(encoded.fidelity.changed, 0);
    }

    #[test]
    fn values_do_not_depend_on_how_they_are_stored(
        settings in settings(), fixed: bool, height in 1..200_u64, width in 1..100_u64, bands in 1..120_u64, seed: u32,
    ) {
        let mut state = seed;
        let bytes = (0..height * width * bands).flat_map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((i % bands) as f32 * 0.01 + (state >> 24) as f32 * 1e-4).to_le_bytes()
        });
        let array = Array::new(Dtype::F32, vec![height, width, bands], bytes.collect()).unwrap();
        let values = if fixed { ValueRule::Fixed { max_error: 1e-3 } } else { ValueRule::F16 };
        let plain = ArraySettings {
            values, coder: Coder::Raw, level: None, filter: Filter::None, band_difference: false, layout: ArrayLayout::AsShape,
        };
        let [expected, back] = [plain, ArraySettings { values, ..settings }].map(|settings| {
            let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
            let limits = Limits::default();
            ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &limits).unwrap()
        });
        prop_assert!(expected == back);
    }

    #[test]
    fn damaged_payloads_are_an_array_or_an_error(
        settings in settings(),
        array in arrays(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
        let mut payload = encoded.payload;
        if !payload.is_empty() {
            for (at, value) in changes {
                let at = at.index(payload.len());
                payload[at] = value;
            }
            if let Some(cut) = cut {
                payload.truncate(cut.index(payload.len()));
            }
        }
        let mut decoder = ArrayDecoder::new();
        for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2, Codec::Jpeg] {
            if let Ok(back) = decoder.decode(codec, &encoded.descriptor, &payload, &Limits::default()) {
                prop_assert_eq!(back.shape(), array.shape());
            }
        }
    }

    #[test]
    fn lossy_rules_agree_with_their_slow_twins(
        (height, width, bands) in (1..12_u64, 1..40_u64, 1..300_u64),
        seed: u32,
        scale in -3..4_i32,
        max_error in 1e-4..1e-1_f64,
        band_difference: bool,
        layout in prop_oneof![Just(ArrayLayout::AsShape), Just(ArrayLayout::BandMajor)],
        holes: bool,
        fixed: bool,
    ) {
        let scale = 10_f32.powi(scale);
        let mut state = seed;
        let values: Vec<f32> = (0..height * width * bands)
            .map(|i| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match state >> 24 {
                    0 if holes => f32::NAN,
                    1 if holes => -9999.0,
                    _ => ((state >> 8) as f32 / 1e7 - 0.7 + (i % bands) as f32 * 0.01) * scale,
                }
            })
            .collect();
        let max_error = max_error * f64::from(scale);
        let shape = vec![height, width, bands];
        let array = Array::new(Dtype::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap();
        let rule = if fixed { ValueRule::Fixed { max_error } } else { ValueRule::F16 };
        let settings =
            ArraySettings { values: rule, coder: Coder::Blosc2Lz4, level: None, filter: Filter::Shuffle, band_difference, layout };
        let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, Some(-9999.0)).unwrap();
        let back = ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default()).unwrap();
        let back: Vec<f32> = back.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let (mut worst, mut sum, mut measured) = (0.0_f64, 0.0, 0);
        for (&u, &v) in values.iter().zip(&back) {
            if u.is_nan() || u == -9999.0 {
                prop_assert!(u.to_bits() == v.to_bits());
                continue;
            }
            if !fixed {
                prop_assert_eq!(half::f16::from_f32(u).to_f32().to_bits(), v.to_bits());
            }
            let error = (f64::from(v) - f64::from(u)).abs();
            worst = worst.max(error);
            sum += error;
            measured += 1;
        }
        prop_assert!(!fixed || worst <= max_error);
        let f = encoded.fidelity;
        prop_assert_eq!((f.max_abs_error, f.measured, f.values), (worst, measured, values.len() as u64));
        prop_assert!((f.sum_abs_error - sum).abs() <= 1e-9 * sum);
        // Compare with the textbook formula for the angle. It cannot resolve angles below 1e-8, but is accurate for
        // larger ones.
        let (mut angles, mut spectra) = (0.0_f64, 0);
        let spectrum = usize::try_from(bands).unwrap();
        for (u, v) in values.chunks(spectrum).zip(back.chunks(spectrum)) {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            let whole = u.iter().all(|u| !u.is_nan() && *u != -9999.0) && bands > 1;
            if whole && dot(u, u) > 0.0 && dot(v, v) > 0.0 {
                angles += (dot(u, v) / (dot(u, u) * dot(v, v)).sqrt()).min(1.0).acos();
                spectra += 1;
            }
        }
        prop_assert_eq!(f.spectra, spectra);
        prop_assert!((f.sum_angle - angles).abs() <= 1e-4 * angles + 5e-7 * spectra as f64, "{} {}", f.sum_angle, angles);
    }

    #[test]
    fn byte_strings_come_back(bytes in prop::collection::vec(any::<u8>(), 0..300), repeats in 1..60_usize) {
        let bytes = bytes.repeat(repeats);
        let (codec, payload) = encode_bytes(&bytes).unwrap();
        prop_assert_eq!(decode_bytes(codec, &payload, bytes.len() as u64, &Limits::default()).unwrap(), bytes);
    }
}

#[test]
fn c01_a_zstd_payload_that_contradicts_its_descriptor_is_refused() {
    let array = Array::new(Dtype::U8, vec![1000], vec![7; 1000]).unwrap();
    let mut decoder = ArrayDecoder::new();
    for size in [0, 999, 1001, 2000] {
        let payload = zstd::bulk::compress(&vec![7; size], 3).unwrap();
        let descriptor = ArrayDescriptor::plain(array.dtype(), array.shape().to_vec());
        let error = decoder.decode(Codec::Zstd, &descriptor, &payload, &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error}");
        assert!(error.to_string().contains("content size"), "{error}");
    }
    // Two frames instead of one, and extra bytes after the last frame.
    for tail in [zstd::bulk::compress(&[7; 10], 3).unwrap(), vec![0]] {
        let mut payload = zstd::bulk::compress(array.bytes(), 3).unwrap();
        payload.extend(tail);
        let error = decode_bytes(Codec::Zstd, &payload, 1000, &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("extra bytes"), "{error}");
    }
}

#[test]
fn c04_a_bomb_is_refused_before_memory_is_taken_for_it() {
    let unit = zstd::bulk::compress(&vec![0; 4 << 20], 3).unwrap();
    let payload = unit.repeat(256);
    assert!(payload.len() < 100 << 10);
    let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![1 << 30]);
    let error = ArrayDecoder::new().decode(Codec::Zstd, &descriptor, &payload, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_expansion", .. }), "{error}");
    let error = decode_bytes(Codec::Zstd, &payload, 1 << 30, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_expansion", .. }), "{error}");
    let small = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
    let error = decode_bytes(Codec::Raw, &[], 1 << 21, &small).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_decoded_bytes", .. }), "{error}");
    // The payload is far too small for this shape, so it must be rejected before decoding, although
    // runs of zeros would take almost no space.
    let error = ArrayDecoder::new().decode(Codec::Blosc2, &descriptor, &[0; 100], &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
}

fn lz4() -> ArrayEncoder {
    let settings = ArraySettings {
        values: ValueRule::Keep,
        coder: Coder::Blosc2Lz4,
        level: None,
        filter: Filter::None,
        band_difference: false,
        layout: ArrayLayout::AsShape,
    };
    ArrayEncoder::new(settings).unwrap()
}

/// Returns a special chunk of zeros, which takes only 32 bytes for a unit of any size.
fn zeros(bytes: usize) -> [u8; 32] {
    let mut chunk = [0; 32];
    let array = Array::new(Dtype::U8, vec![bytes as u64], vec![0; bytes]).unwrap();
    let encoded = lz4().encode(&array, None).unwrap();
    chunk.copy_from_slice(&encoded.payload);
    chunk
}

#[test]
fn runs_expand_within_the_limit_on_every_path() {
    let chunk = zeros(4 << 20);
    let read = |units: u64, region: Option<&Region>, limits: &Limits| {
        let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![units, 4 << 20, 1]);
        let payload = chunk.repeat(usize::try_from(units).unwrap());
        let wanted = Wanted { region, ..Wanted::ALL };
        let length =
            region.map_or(descriptor.decoded_bytes().unwrap(), |region| region.shape_of(&descriptor).unwrap().bytes);
        let mut out = vec![0; usize::try_from(length).unwrap()];
        ArrayDecoder::new().decode_wanted(Codec::Blosc2, &descriptor, &payload, &wanted, &mut out, limits)
    };
    let small = Limits { max_run_bytes: 8 << 20, ..Limits::default() };
    assert!(read(2, None, &small).is_ok());
    let error = read(3, None, &small).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_run_bytes", .. }), "{error}");
    // The limit counts only the blocks that a region touches.
    let rows = |height| Region { layout: Layout::AsShape, ..Region::new(0, 0, height, 4 << 20) };
    assert!(read(64, Some(&rows(2)), &small).is_ok());
    let error = read(64, Some(&rows(3)), &small).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_run_bytes", .. }), "{error}");
    // A payload of 19 kB that claims to decode to 2 GiB is rejected before memory is allocated for it.
    let descriptor = ArrayDescriptor::plain(Dtype::U8, vec![2 << 30]);
    let limits = Limits { max_decoded_bytes: 4 << 30, ..Limits::default() };
    let error = ArrayDecoder::new().decode(Codec::Blosc2, &descriptor, &chunk.repeat(512), &limits).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_run_bytes", .. }), "{error}");
    let error = Units::walk(Codec::Blosc2, &descriptor, &chunk.repeat(512), &limits).unwrap_err();
    assert!(matches!(error, Error::Limit { name: "max_run_bytes", .. }), "{error}");
}

#[test]
fn an_array_of_more_zeros_than_a_reader_takes_is_stored_at_length() {
    let bytes = (512 << 20) + (4 << 20);
    let array = Array::new(Dtype::U64, vec![bytes as u64 / 8], vec![0; bytes]).unwrap();
    let mut encoder = lz4();
    let encoded = encoder.encode(&array, None).unwrap();
    assert_eq!((encoded.codec, encoded.payload.len()), (Codec::Raw, bytes));
    let decode = |encoded: &EncodedArray| {
        ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default())
    };
    assert!(decode(&encoded).unwrap() == array);
    let array = Array::new(Dtype::U64, vec![64 << 20], vec![0; 512 << 20]).unwrap();
    let encoded = encoder.encode(&array, None).unwrap();
    assert_eq!((encoded.codec, encoded.payload.len()), (Codec::Blosc2, 128 * 32));
    assert!(decode(&encoded).unwrap() == array);
}

#[test]
fn encoder_output_is_within_the_default_limits() {
    let mut nearly = vec![0_u8; 16 << 20];
    nearly[12_345_678] = 1;
    let mut sparse = vec![255_u8; 16 << 20];
    sparse.iter_mut().step_by(40_000).for_each(|b| *b = 0);
    for bytes in [vec![0; 16 << 20], vec![9; 16 << 20], nearly, sparse] {
        let array = Array::new(Dtype::U8, vec![4096, 4096], bytes).unwrap();
        for (coder, level) in [
            (Coder::Zstd, Some(3)),
            (Coder::Blosc2Zstd, Some(1)),
            (Coder::Blosc2Zstd, Some(22)),
            (Coder::Blosc2Lz4, None),
        ] {
            let settings = ArraySettings {
                values: ValueRule::IntegerOrKeep,
                coder,
                level,
                filter: Filter::None,
                band_difference: false,
                layout: ArrayLayout::AsShape,
            };
            let encoded = ArrayEncoder::new(settings).unwrap().encode(&array, None).unwrap();
            let back =
                ArrayDecoder::new().decode(encoded.codec, &encoded.descriptor, &encoded.payload, &Limits::default());
            assert_eq!(back.unwrap(), array, "{settings}");
            assert!(encoded.payload.len() < 120_000, "{settings}: {}", encoded.payload.len());
        }
    }
    let text = vec![b' '; 8 << 20];
    let (codec, payload) = encode_bytes(&text).unwrap();
    assert_eq!(decode_bytes(codec, &payload, text.len() as u64, &Limits::default()).unwrap(), text);
}

#[test]
fn output_of_the_wrong_length_and_booleans_beyond_one_are_refused() {
    let descriptor = ArrayDescriptor::plain(Dtype::Bool, vec![3]);
    let mut decoder = ArrayDecoder::new();
    let mut out = [0; 4];
    let error = decoder.decode_into(Codec::Raw, &descriptor, &[0, 1, 1], &mut out, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error}");
    assert!(decoder.decode_into(Codec::Raw, &descriptor, &[0, 1, 1], &mut out[..3], &Limits::default()).is_ok());
    assert!(decoder.decode_into(Codec::Raw, &descriptor, &[0, 1, 2], &mut out[..3], &Limits::default()).is_err());
}

#[test]
fn arrays_without_elements_take_no_memory_however_long_their_axes() {
    // Without the first axis, which is 0, the shape has 2^60 elements of eight bytes.
    let mut descriptor = ArrayDescriptor::plain(Dtype::U64, vec![0, 1 << 30, 1 << 30]);
    descriptor.layout = shardpack_format::Layout::BandMajor;
    for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2] {
        assert!(ArrayDecoder::new().decode(codec, &descriptor, &[], &Limits::default()).is_ok());
        assert!(ArrayDecoder::new().decode(codec, &descriptor, &[0], &Limits::default()).is_err());
    }
    // The product of the other axes must still stay below 2^64 bytes (spec §4.2).
    descriptor.shape = vec![0, 1 << 31, 1 << 30];
    for codec in [Codec::Raw, Codec::Zstd, Codec::Blosc2] {
        let error = ArrayDecoder::new().decode(codec, &descriptor, &[], &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error}");
    }
}

#[test]
fn the_trial_is_deterministic_and_respects_the_options() {
    let values: Vec<u8> = (0..64 * 64 * 30_u32)
        .flat_map(|i| ((i % 30) as f32 * 0.01 + (i / 300 % 17) as f32 * 1e-3).to_le_bytes())
        .collect();
    let cube = Array::new(Dtype::F32, vec![64, 64, 30], values).unwrap();
    let samples = [(&cube, None)];
    let first = trial(&samples, &ArrayOptions::default()).unwrap();
    assert_eq!(trial(&samples, &ArrayOptions::default()).unwrap(), first);
    assert_eq!(first.settings, first.table[0].settings);
    assert_eq!(first.settings.values, ValueRule::IntegerOrF16);
    for coder in [Coder::Blosc2Lz4, Coder::Blosc2Lz4hc, Coder::Blosc2Zstd, Coder::Zstd, Coder::Raw] {
        let asked = ArrayOptions { coder: Some(coder), ..Default::default() };
        assert!(trial(&samples, &asked).unwrap().table.iter().all(|c| c.settings.coder == coder));
    }
    for filter in [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Bytedelta] {
        let asked = ArrayOptions { filter: Some(filter), ..Default::default() };
        assert!(trial(&samples, &asked).unwrap().table.iter().all(|c| c.settings.filter == filter));
    }
    let bounded = ArrayOptions { max_error: Some(0.01), ..Default::default() };
    let bounded = trial(&samples, &bounded).unwrap();
    assert!(bounded.table.iter().any(|c| c.settings.values == ValueRule::IntegerOrFixed { max_error: 0.01 }));
    let json = serde_json::to_string(&first.settings).unwrap();
    assert_eq!(serde_json::from_str::<ArraySettings>(&json).unwrap(), first.settings);
    let contradictory = ArrayOptions { values: Values::F16, lossless: true, ..Default::default() };
    assert!(trial(&samples, &contradictory).is_err());
    assert!(trial(&[], &ArrayOptions::default()).is_ok());
}

#[test]
fn a_trial_for_a_device_prefers_coders_of_many_streams() {
    let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0;
    let value = |i: u32| (1.0 + ((i % 50) as f32 * 0.1).sin() + (i / 50 % 97) as f32 * 1e-2) * (1.0 + 0.01 * noise(i));
    let cube = (0..100_000).flat_map(|i| value(i).to_le_bytes()).collect();
    let samples = [Array::new(Dtype::F32, vec![20, 100, 50], cube).unwrap()];
    let samples: Vec<_> = samples.iter().map(|array| (array, None)).collect();
    let found = |prefer| trial(&samples, &ArrayOptions { prefer, ..Default::default() }).unwrap();
    let (device, size) = (found(Prefer::Device), found(Prefer::Size));
    assert_eq!(size.settings.coder, Coder::Blosc2Zstd);
    assert!(device.settings.coder.has_filters(), "{}", device.settings);
    // With noise as in real cubes, the candidate with the fewest bytes wins, because the bus is slower than the
    // kernels.
    let fewest = device.table.iter().map(|row| row.payload_bytes).min().unwrap();
    let first = device.table.first().unwrap();
    assert!(
        first.payload_bytes <= fewest + fewest / 8,
        "{}: {} and {fewest} bytes",
        device.settings,
        first.payload_bytes
    );
    // Plain zstd has too few frames to keep a device busy, so it is tried only if the user requests it by name.
    assert!(device.table.iter().all(|row| row.settings.coder != Coder::Zstd));
    let asked = ArrayOptions { prefer: Prefer::Device, coder: Some(Coder::Zstd), ..Default::default() };
    assert!(trial(&samples, &asked).unwrap().table.iter().all(|row| row.settings.coder == Coder::Zstd));
}

#[test]
fn a_trial_predicts_the_encoder_with_any_number_of_threads() {
    let of = |dtype: Dtype, bytes: Vec<u8>| {
        let bands = 25;
        Array::new(dtype, vec![30, bytes.len() as u64 / dtype.bytes() / bands / 30, bands], bytes).unwrap()
    };
    let wave = |i: u32| (f64::from(i % 25) * 0.3).sin() * 0.4 + f64::from(i / 25 % 97) * 1e-3;
    let floats = of(
        Dtype::F32,
        (0..75_000_u32)
            .flat_map(|i| ((i % 25 * 31 % 17) as f32 * 0.01 + (i / 25 % 97) as f32 * 1e-3).to_le_bytes())
            .collect(),
    );
    let wide = of(Dtype::F64, (0..75_000).flat_map(|i| wave(i).to_le_bytes()).collect());
    let whole =
        of(Dtype::F32, (0..75_000_u32).flat_map(|i| ((i % 25 * 31 + i / 25 % 97) as f32).to_le_bytes()).collect());
    let line = Array::new(Dtype::U16, vec![5000], (0..10_000_u32).map(|i| (i / 7).to_le_bytes()[0]).collect()).unwrap();
    for (samples, asked) in [
        (vec![(&floats, None), (&wide, Some(0.0))], ArrayOptions::default()),
        (vec![(&floats, None)], ArrayOptions { max_error: Some(1e-3), ..Default::default() }),
        (vec![(&floats, None), (&line, None)], ArrayOptions { values: Values::Keep, ..Default::default() }),
        (vec![(&whole, None), (&line, Some(3.0))], ArrayOptions { prefer: Prefer::Size, ..Default::default() }),
        (vec![(&floats, None), (&whole, None)], ArrayOptions { prefer: Prefer::Device, ..Default::default() }),
    ] {
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool(1).install(|| trial(&samples, &asked)).unwrap();
        assert_eq!(pool(5).install(|| trial(&samples, &asked)).unwrap(), found);
        for row in &found.table {
            let mut encoder = ArrayEncoder::new(row.settings).unwrap();
            let payloads = samples.iter().map(|(array, no_data)| encoder.encode(array, *no_data).unwrap().payload);
            assert_eq!(row.payload_bytes, payloads.map(|p| p.len() as u64).sum::<u64>(), "{}", row.settings);
        }
    }
}

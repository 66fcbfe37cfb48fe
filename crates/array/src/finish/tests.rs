//! Compares all conversions with a reference that converts one element at a time.

use super::*;
use half::{bf16, f16};
use proptest::prelude::*;

fn single(dtype: Dtype, bytes: &[u8]) -> f32 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        Dtype::I8 => f32::from(bits as i8),
        Dtype::I16 => f32::from(bits as i16),
        Dtype::I32 => bits as i32 as f32,
        Dtype::I64 => bits as i64 as f32,
        Dtype::F16 => f16::from_bits(bits as u16).to_f32(),
        Dtype::F32 => f32::from_bits(bits as u32),
        Dtype::F64 => f64::from_bits(bits) as f32,
        _ => bits as f32,
    }
}

/// Converts an element to float64. The result is not exact for every 64-bit integer.
fn double(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        Dtype::F16 | Dtype::F32 => single(dtype, bytes).into(),
        _ => integer(dtype, bytes) as f64,
    }
}

fn integer(dtype: Dtype, bytes: &[u8]) -> i128 {
    let is_negative = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64) && bytes.last() > Some(&127);
    let mut all = if is_negative { [0xFF; 16] } else { [0; 16] };
    all[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(all)
}

fn is_no_data(dtype: Dtype, bytes: &[u8], no_data: f64) -> bool {
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 => {
            let value = double(dtype, bytes);
            value == no_data || value.is_nan() && no_data.is_nan()
        }
        // If float64 cannot represent an integer, the integer must not be confused with its neighbour.
        _ => integer(dtype, bytes) == no_data as i128,
    }
}

fn finished(finish: &Finish, decoded: Dtype, band: usize, bytes: &[u8]) -> Vec<u8> {
    let element = finish.to.of(decoded).unwrap();
    if element == decoded && finish.factors.is_none() && finish.fill.is_none() {
        return bytes.to_vec();
    }
    rounded(element, float(finish, decoded, band, bytes))
}

/// Returns the value of an element before it is rounded to the output type.
fn float(finish: &Finish, decoded: Dtype, band: usize, bytes: &[u8]) -> f32 {
    let mut value = single(decoded, bytes);
    if let Some(factors) = &finish.factors {
        let (scale, bias) = factors.pairs().nth(if factors.len() == 1 { 0 } else { band }).unwrap();
        // The product of two floats is exact as a double, and libm rounds the sum once.
        value = match value.is_nan() {
            true => f32::from_bits(value.to_bits() | 1 << 22),
            false => libm::fmaf(value, scale, bias),
        };
    }
    if let Some(fill) = finish.fill
        && is_no_data(decoded, bytes, fill.no_data)
    {
        value = fill.with;
    }
    value
}

fn rounded(element: ElementType, value: f32) -> Vec<u8> {
    match element {
        ElementType::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        ElementType::Dtype(Dtype::F16) => f16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// Computes one value of a warped array the slow way, from the pixels around the position that `[y, x]` maps to. `at`
/// returns an element of the array.
fn warped<'a>(
    finish: &Finish,
    decoded: Dtype,
    [rows, columns]: [usize; 2],
    [y, x]: [usize; 2],
    band: usize,
    at: impl Fn([usize; 2]) -> &'a [u8],
) -> Vec<u8> {
    let Some(Warp { map: [a, b, c, d, e, f], sampling }) = finish.warp else {
        return finished(finish, decoded, band, at([y, x]));
    };
    let (element, wide, high) = (finish.to.of(decoded).unwrap(), columns as f64, rows as f64);
    let (xc, yc) = (x as f64 + 0.5 - wide / 2.0, y as f64 + 0.5 - high / 2.0);
    let (x, y) = (a * xc + (b * yc + c + wide / 2.0), d * xc + (e * yc + f + high / 2.0));
    let inside = |x: f64, y: f64| (0.0 <= x && x < wide && 0.0 <= y && y < high).then(|| at([y as usize, x as usize]));
    let outside = match sampling {
        Resampling::Nearest { outside } => {
            let near = 2.0_f64.powi(-20);
            return match inside(x + near, y + near) {
                Some(bytes) => finished(finish, decoded, band, bytes),
                None => element_bytes(element, outside).unwrap(),
            };
        }
        Resampling::Bilinear { outside } => outside,
    };
    let near = 2.0_f64.powi(-20);
    let split = |at: f64| {
        let low = (at - 0.5 + near).floor();
        let beyond = at - 0.5 - low;
        (low, if beyond < near { 0.0 } else { beyond as f32 })
    };
    let ((left, right_weight), (top, bottom_weight)) = (split(x), split(y));
    let mut sum = None;
    let (mut is_replaced, mut is_inside) = (false, false);
    for (row, high) in [(top, 1.0 - bottom_weight), (top + 1.0, bottom_weight)] {
        for (column, wide) in [(left, 1.0 - right_weight), (left + 1.0, right_weight)] {
            let weight: f32 = wide * high;
            if weight == 0.0 {
                continue;
            }
            let bytes = inside(column, row);
            is_inside |= bytes.is_some();
            is_replaced |= bytes.zip(finish.fill).is_some_and(|(bytes, fill)| is_no_data(decoded, bytes, fill.no_data));
            let term = weight * bytes.map_or(outside, |bytes| float(finish, decoded, band, bytes));
            sum = Some(sum.map_or(term, |sum: f32| sum + term));
        }
    }
    let mean = if is_inside { sum.unwrap() } else { outside };
    let mean = if mean.is_nan() { f32::from_bits(0x7FC0_0000) } else { mean };
    rounded(element, if is_replaced { finish.fill.unwrap().with } else { mean })
}

/// Creates a map from random numbers. Some maps are exact quarter turns. Others move the pixels by a small or a large
/// distance.
fn warp([kind, angle, scale, right, down, far]: [f64; 6], sampling: Resampling) -> Warp {
    let quarters = (angle * 4.0).floor() * std::f64::consts::FRAC_PI_2;
    let (sin, cos) = (if kind < 0.5 { angle * 7.0 } else { quarters }).sin_cos();
    let scale = if kind < 0.75 { 0.5 + scale } else { 1.0 };
    let shift = |by: f64| if kind < 0.25 { 9.0 * by - 4.5 } else { (by * 4.0).floor() / 2.0 };
    let far = match far {
        far if far > 0.95 => f64::INFINITY,
        far if far > 0.9 => 1e9,
        _ => 1.0,
    };
    Warp { map: [cos * scale, -sin * scale, shift(right), sin * scale, cos * scale * far, shift(down)], sampling }
}

fn sampled(moves: Option<(bool, [f64; 6])>, is_float: bool) -> Option<Warp> {
    let (mixes, numbers) = moves?;
    Some(warp(
        numbers,
        if mixes && is_float { Resampling::Bilinear { outside: 2.5 } } else { Resampling::Nearest { outside: 1.0 } },
    ))
}

fn check(finish: &Finish, decoded: Dtype, [rows, columns, bands]: [usize; 3], layout: Layout, elements: &[u8]) {
    let element = finish.to.of(decoded).unwrap();
    let at = |[y, x]: [usize; 2], band: usize| match layout {
        Layout::AsShape => (y * columns + x) * bands + band,
        Layout::BandMajor => (band * rows + y) * columns + x,
    };
    let (width, size) = (decoded.size(), element.size());
    let mut expected = vec![0; rows * columns * bands * size];
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        for band in 0..bands {
            let source = finish.turn.source([row, column], [rows, columns]);
            let element = |pixel: [usize; 2]| &elements[width * at(pixel, band)..][..width];
            let to = size * at([row, column], band);
            expected[to..to + size].copy_from_slice(&warped(finish, decoded, [rows, columns], source, band, element));
        }
    }
    let mut out = vec![0xAA; expected.len()];
    let shape = [rows, columns, bands].map(|axis| axis as u64);
    finish.apply(decoded, shape, layout, elements, &mut out).unwrap();
    let differs = out.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{finish:?} {decoded} {rows} × {columns} × {bands} {layout:?}");
}

proptest! {
    #[test]
    fn each_element_is_finished_as_if_alone(
        decoded in prop::sample::select(Dtype::ALL),
        to in prop::sample::select(&[As::Decoded, As::F16, As::Bf16, As::F32][..]),
        (mut rows, columns, bands) in (0..14_usize, 0..14_usize, prop_oneof![0..5_usize, 100..140_usize]),
        (flip_rows, flip_columns, transpose) in any::<(bool, bool, bool)>(),
        (normalises, fills) in any::<(bool, bool)>(),
        each_band: bool,
        by_band: bool,
        moves in prop::option::of((any::<bool>(), prop::array::uniform6(0.0..1.0))),
        noise in prop::collection::vec(any::<u8>(), 64..400),
    ) {
        if transpose {
            rows = columns;
        }
        let to = if decoded == Dtype::Bool { As::Decoded } else { to };
        let is_float = As::float(to.of(decoded).unwrap()).is_some();
        let count = if each_band { bands.max(1) } else { 1 };
        let numbers = |n: usize, step: f64| (0..n).map(|n| n as f64 * step + 0.3).collect::<Vec<_>>();
        let factors = (normalises && is_float).then(|| Factors::new(&numbers(count, -7.7), &numbers(count, 0.9)).unwrap());
        let turn = Turn { flip_rows, flip_columns, transpose, ..Turn::NONE };
        let warp = sampled(moves, is_float);
        let no_data = noise.get(..decoded.size()).map_or(0.0, |first| double(decoded, first));
        let finish = Finish { to, factors, fill: (fills && is_float).then_some(Fill { no_data, with: -5.5 }), turn, warp, volume: None };
        let layout = if by_band { Layout::BandMajor } else { Layout::AsShape };
        let bytes = rows * columns * bands * decoded.size();
        let elements: Vec<u8> = noise.into_iter().cycle().take(bytes).collect();
        if bands == 0 && each_band {
            return Ok(());
        }
        check(&finish, decoded, [rows, columns, bands], layout, &elements);
    }
}

proptest! {
    #[test]
    fn a_window_equals_a_cut_of_the_finished_array(
        decoded in prop::sample::select(Dtype::ALL),
        to in prop::sample::select(&[As::Decoded, As::F16, As::Bf16, As::F32][..]),
        (rows, columns, bands) in (0..14_usize, 0..14_usize, prop_oneof![1..5_usize, 100..140_usize]),
        (top, left, mut high, wide) in (0.0..1.0, 0.0..1.0, 0..14_usize, 0..14_usize),
        (flip_rows, flip_columns, transpose) in any::<(bool, bool, bool)>(),
        normalises: bool,
        by_band: bool,
        moves in prop::option::of((any::<bool>(), prop::array::uniform6(0.0..1.0))),
        noise in prop::collection::vec(any::<u8>(), 64..400),
    ) {
        let wide = if transpose { wide.min(columns).min(rows) } else { wide.min(columns) };
        high = if transpose { wide } else { high.min(rows) };
        let start = |draw: f64, room: usize| (draw * (room as f64 + 1.0)) as usize;
        let (y, x) = (start(top, rows - high), start(left, columns - wide));
        let to = if decoded == Dtype::Bool { As::Decoded } else { to };
        let is_float = As::float(to.of(decoded).unwrap()).is_some();
        let means: Vec<f64> = (0..bands).map(|band| band as f64 * -7.7).collect();
        let factors = (normalises && is_float).then(|| Factors::new(&means, &vec![1.7; bands]).unwrap());
        let fill = is_float.then_some(Fill { no_data: double(decoded, &noise[..decoded.size()]), with: 3.25 });
        let finish = Finish { to, factors, fill, warp: sampled(moves, is_float), volume: None, turn: Turn { flip_rows, flip_columns, transpose, ..Turn::NONE } };
        let layout = if by_band { Layout::BandMajor } else { Layout::AsShape };
        let width = decoded.size();
        let elements: Vec<u8> = noise.into_iter().cycle().take(rows * columns * bands * width).collect();
        let pixels = (0..high).flat_map(|row| (0..wide).map(move |column| (y + row) * columns + x + column));
        let places: Vec<usize> = match layout {
            Layout::AsShape => pixels.flat_map(|pixel| (0..bands).map(move |band| pixel * bands + band)).collect(),
            Layout::BandMajor => (0..bands).flat_map(|band| pixels.clone().map(move |p| p * bands + band)).collect(),
        };
        let cut: Vec<u8> = places.iter().flat_map(|&at| elements[at * width..(at + 1) * width].to_vec()).collect();
        let mut expected = vec![0xAA; places.len() * finish.to.of(decoded).unwrap().size()];
        let axes = |axes: [usize; 3]| axes.map(|axis| axis as u64);
        finish.apply(decoded, axes([high, wide, bands]), layout, &cut, &mut expected).unwrap();
        let mut out = vec![0x55; expected.len()];
        let window = [y as u64..(y + high) as u64, x as u64..(x + wide) as u64];
        finish.apply_to_window(decoded, axes([rows, columns, bands]), layout, window, &elements, &mut out).unwrap();
        prop_assert!(out == expected, "{finish:?} {decoded} {rows} × {columns} × {bands} {layout:?}, {y} {x} {high} {wide}");
    }
}

#[test]
fn every_float16_and_odd_floats() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let singles: Vec<u8> = (0..=u16::MAX)
        .flat_map(|h| {
            [u32::from(h) << 16, u32::from(h) << 16 | 0x8000, u32::from(h) << 16 | 0x7FFF, u32::from(h) * 0x1_0001]
        })
        .flat_map(u32::to_le_bytes)
        .collect();
    for to in [As::F16, As::Bf16, As::F32] {
        for factors in [None, Some(Factors::new(&[0.25, -3.0], &[0.001, 77.7]).unwrap())] {
            let finish = Finish { to, factors, ..Finish::NOTHING };
            check(&finish, Dtype::F16, [4, 8192, 2], Layout::AsShape, &halves);
            check(&finish, Dtype::F32, [16, 8192, 2], Layout::BandMajor, &singles);
        }
    }
}

#[test]
fn rounding_is_to_nearest_and_ties_go_to_even() {
    let bits = [0x3F80_8000_u32, 0x3F81_8000, 0x3F80_8001, 0x3F80_7FFF, 0x7F80_0001, 0xFFC0_1234, 0x7F7F_FFFF];
    let elements: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let mut out = vec![0; 14];
    Finish::from(As::Bf16).apply(Dtype::F32, [1, 7, 1], Layout::AsShape, &elements, &mut out).unwrap();
    let found: Vec<u16> = out.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    assert_eq!(found, [0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x7FC0, 0xFFC0, 0x7F80]);
}

#[test]
fn no_data_is_compared_in_the_type_of_the_array() {
    let filled = |dtype: Dtype, no_data: f64, elements: &[u8]| {
        let factors = Some(Factors::new(&[10.0], &[0.5]).unwrap());
        let finish = Finish { to: As::F32, factors, fill: Some(Fill { no_data, with: 0.25 }), ..Finish::NOTHING };
        let count = elements.len() / dtype.size();
        let mut out = vec![0; 4 * count];
        finish.apply(dtype, [1, count as u64, 1], Layout::AsShape, elements, &mut out).unwrap();
        out.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes) == 0.25).collect::<Vec<_>>()
    };
    let singles = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    // float32 cannot represent 0.1 exactly, so the nearest float32 is used.
    assert_eq!(filled(Dtype::F32, 0.1, &singles(&[0.1, 0.100_000_01, -0.1])), [true, false, false]);
    assert_eq!(filled(Dtype::F32, 0.0, &singles(&[0.0, -0.0, 1e-45])), [true, true, false]);
    assert_eq!(filled(Dtype::F32, f64::NAN, &singles(&[f32::NAN, -f32::NAN, 0.0])), [true, true, false]);
    assert_eq!(filled(Dtype::F32, 7.0, &singles(&[f32::NAN, 7.0])), [false, true]);
    assert_eq!(filled(Dtype::F32, f64::NEG_INFINITY, &singles(&[f32::NEG_INFINITY, f32::MIN])), [true, false]);
    assert_eq!(filled(Dtype::F64, 0.1, &[0.1_f64, f64::from(0.1_f32)].map(f64::to_le_bytes).concat()), [true, false]);
    // Both integers round to the same float32, but only the first one is no-data.
    let large = [4_294_967_295_u32, 4_294_967_294].map(u32::to_le_bytes).concat();
    assert_eq!(filled(Dtype::U32, 4_294_967_295.0, &large), [true, false]);
    for no_data in [256.0, -1.0, 0.5, f64::NAN] {
        assert_eq!(filled(Dtype::U8, no_data, &[0, 1, 255]), [false; 3], "{no_data}");
    }
}

#[test]
fn impossible_conversions_are_refused() {
    let fill = Finish { fill: Some(Fill { no_data: 0.0, with: 0.0 }), ..Finish::NOTHING };
    let error = fill.check(Dtype::U8, [1, 1, 1]).unwrap_err().to_string();
    assert!(
        error.contains(
            "arrays with replaced no-data values must be loaded as float16, bfloat16 or float32, not as uint8"
        ),
        "{error}"
    );
    let apply = |finish: &Finish, decoded, shape| finish.check(decoded, shape).unwrap_err().to_string();
    let sampled = |sampling| Finish { warp: Some(Warp { map: [0.0; 6], sampling }), ..Finish::NOTHING };
    let mixed = sampled(Resampling::Bilinear { outside: 0.0 });
    assert!(
        apply(&mixed, Dtype::I32, [1, 1, 1])
            .contains("interpolated arrays must be loaded as float16, bfloat16 or float32")
    );
    let outside = sampled(Resampling::Nearest { outside: 255.0 });
    assert!(
        apply(&outside, Dtype::I8, [1, 1, 1])
            .contains("int8 cannot represent the fill value 255 for pixels outside the array")
    );
    let quarter = Finish { turn: Turn::new(false, false, 1), ..Finish::NOTHING };
    assert!(
        apply(&quarter, Dtype::U8, [4, 5, 1]).contains("rotations by 90° need a square array, but this one is 4 × 5")
    );
    assert!(apply(&As::Bf16.into(), Dtype::Bool, [1, 1, 1]).contains("bool"));
    let factors = Factors::new(&[0.0], &[1.0, 2.0, 3.0]).unwrap();
    let normalise = |to| Finish { to, factors: Some(factors.clone()), ..Finish::NOTHING };
    assert!(apply(&normalise(As::Decoded), Dtype::F64, [1, 1, 3]).contains("float16, bfloat16 or float32"));
    assert!(
        apply(&normalise(As::F16), Dtype::F64, [1, 1, 4])
            .contains("expected one mean and std, or one per band (4), found 3")
    );
    assert!(
        factors.of_bands([2, 3].into_iter()).unwrap_err().to_string().contains("only the first 3 bands, not band 3")
    );
    assert_eq!(factors.of_bands([2, 0].into_iter()).unwrap().apply(1, 4.0), 4.0);
    for (mean, std) in [(&[][..], &[1.0][..]), (&[1.0, 2.0], &[1.0, 2.0, 3.0]), (&[1.0], &[])] {
        assert!(
            Factors::new(mean, std)
                .unwrap_err()
                .to_string()
                .contains("standard deviations: pass as many means as standard deviations"),
            "{mean:?} {std:?}"
        );
    }
    let short = Finish::from(As::F16).apply(Dtype::F32, [1, 2, 1], Layout::AsShape, &[0; 8], &mut [0; 2]);
    assert!(short.unwrap_err().to_string().contains("the output buffer must have 4 bytes"));
    let window = |window| {
        let mut out = [0; 2];
        let shape = [2, 3, 1];
        let done = Finish::NOTHING.apply_to_window(Dtype::U8, shape, Layout::AsShape, window, &[0; 6], &mut out);
        done.unwrap_err().to_string()
    };
    assert!(window([1..3, 0..1]).contains("is not within the array of 2 × 3"));
    assert!(window([0..1, 2..4]).contains("is not within the array of 2 × 3"));
    assert!(window([0..1, 0..3]).contains("the output buffer must have 3 bytes"));
}

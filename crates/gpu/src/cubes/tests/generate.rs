//! Generates arrays of every kind, and parts of them. The tests on real devices use this module too.

use half::f16;
use shardpack_array::{Array, As, Bands, Factors, Fill as NoData, Finish, Region, Resampling, Turn, Warp};
use shardpack_augment::Affine;
use shardpack_format::{ArrayDescriptor, Dtype, Error, Layout};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fill {
    /// Random bytes with this many random bits each. With 8 bits, every bit pattern is possible.
    Bits(u32),
    /// Values that are smooth along the bands, with noise. Floats include NaN, infinities and -1.
    Smooth,
    Constant(u8),
    /// Smooth integers that fit in 16 bits.
    Counts,
}

pub(crate) fn array(dtype: Dtype, shape: Vec<u64>, fill: Fill, seed: u32) -> Array {
    let elements = Dtype::U8.array_bytes(&shape).unwrap();
    let bands = shape.last().copied().unwrap_or(1).max(1);
    let mut state = seed | 1;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let mut bytes = Vec::new();
    for n in 0..elements {
        match fill {
            Fill::Bits(bits) => {
                let mask = u8::MAX.checked_shr(8 - bits).unwrap_or(0);
                let element: Vec<u8> = (0..dtype.bytes()).map(|_| noise().to_le_bytes()[1] & mask).collect();
                bytes.extend(element.into_iter().map(|b| if dtype == Dtype::Bool { b & 1 } else { b }));
            }
            Fill::Constant(value) => {
                bytes.extend(vec![if dtype == Dtype::Bool { value & 1 } else { value }; dtype.bytes() as usize]);
            }
            Fill::Smooth | Fill::Counts => {
                let (pixel, band) = (n / bands, n % bands);
                let wave = (pixel as f64 / 50.0).sin() * (band as f64 / 9.0).cos();
                let mut value = 40.0 + 30.0 * wave + f64::from(noise() % 1000) / 1000.0;
                if matches!(fill, Fill::Counts) {
                    value = value.round();
                } else if noise() % 200 == 0 {
                    value = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0][(noise() % 4) as usize];
                }
                push(dtype, value, &mut bytes);
            }
        }
    }
    Array::new(dtype, shape, bytes).unwrap()
}

#[allow(clippy::cast_sign_loss)]
fn push(dtype: Dtype, value: f64, out: &mut Vec<u8>) {
    match dtype {
        Dtype::Bool => out.push(u8::from(value > 40.0)),
        Dtype::U8 | Dtype::I8 => out.push(value as u8),
        Dtype::U16 => out.extend((value as u16).wrapping_mul(100).to_le_bytes()),
        Dtype::I16 => out.extend((value as i16).wrapping_sub(40).to_le_bytes()),
        Dtype::U32 => out.extend((value as u32).wrapping_mul(1000).to_le_bytes()),
        Dtype::I32 => out.extend((value as i32).wrapping_sub(40).to_le_bytes()),
        Dtype::U64 => out.extend((value as u64).wrapping_mul(1_000_000_007).to_le_bytes()),
        Dtype::I64 => out.extend((value as i64).wrapping_sub(40).wrapping_mul(1_000_000_007).to_le_bytes()),
        Dtype::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
        Dtype::F32 => out.extend((value as f32).to_le_bytes()),
        _ => out.extend(value.to_le_bytes()),
    }
}

/// Picks a region for an array of the given shape, depending only on `seed`. Returns `None` unless the array has two or
/// three axes.
pub(crate) fn region(shape: &[u64], seed: u64) -> Option<Region> {
    let (height, width, bands) = match *shape {
        [h, w] => (h, w, 1),
        [h, w, c] => (h, w, c),
        _ => return None,
    };
    let mut state = seed | 1;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n.max(1)
    };
    let (y, x) = (below(height + 1), below(width + 1));
    let (mut rows, mut columns) = (below(height - y + 1), below(width - x + 1));
    if below(2) == 0 {
        // Only squares can be transposed.
        (rows, columns) = (rows.min(columns), rows.min(columns));
    }
    let bands = match below(4) {
        _ if shape.len() == 2 => Bands::All,
        0 | 1 => Bands::All,
        2 => {
            let start = below(bands + 1);
            Bands::Range(start..start + below(bands - start + 1))
        }
        _ if bands == 0 => Bands::List(Vec::new()),
        _ => Bands::List((0..below(50)).map(|_| below(bands)).collect()),
    };
    Some(Region {
        bands,
        layout: if below(2) == 0 { Layout::AsShape } else { Layout::BandMajor },
        ..Region::new(y, x, rows, columns)
    })
}

/// Converts decoded elements of an array or region on the host.
pub(crate) fn finished(
    finish: &Finish,
    descriptor: &ArrayDescriptor,
    region: Option<&Region>,
    (decoded, elements): (Dtype, &[u8]),
) -> Result<Vec<u8>, Error> {
    let (shape, layout) = size(descriptor, region)?;
    let mut out = vec![0; finish.to.of(decoded)?.array_bytes(&shape)? as usize];
    finish.apply(decoded, shape, layout, elements, &mut out)?;
    Ok(out)
}

/// Returns the size and layout of the output. An array with neither two nor three axes counts as a single row.
fn size(descriptor: &ArrayDescriptor, region: Option<&Region>) -> Result<([u64; 3], Layout), Error> {
    let whole = Region::whole(descriptor).ok();
    let Some(region) = region.or(whole.as_ref()) else {
        return Ok(([1, descriptor.elements()?, 1], Layout::AsShape));
    };
    let [a, b, c] = region.shape_of(descriptor)?.shape;
    Ok(match region.layout {
        Layout::AsShape => ([a, b, c], Layout::AsShape),
        Layout::BandMajor => ([b, c, a], Layout::BandMajor),
    })
}

/// Generates a valid conversion for an array or region of `decoded` elements. Arbitrary numbers choose the conversion.
pub(crate) fn finish(
    descriptor: &ArrayDescriptor,
    region: Option<&Region>,
    decoded: Dtype,
    (to, normalises, seed): (As, bool, u64),
) -> Finish {
    let to = if to.of(decoded).is_ok() { to } else { As::Decoded };
    let ([rows, columns, bands], _) = size(descriptor, region).unwrap();
    let is_float = to.of(decoded).is_ok_and(|element| As::float(element).is_some());
    let count = if seed & 8 == 0 { 1 } else { bands.max(1) };
    let numbers = |first: f64, step: f64| (0..count).map(|n| first + n as f64 * step).collect::<Vec<_>>();
    let factors = (normalises && is_float).then(|| {
        let factors = Factors::new(&numbers(30.0, -1.7), &numbers(0.3, 0.9)).unwrap();
        let dropped = |n: usize| seed & 16 == 16 && (n as u64 + seed / 32).is_multiple_of(3);
        let pair = |(n, pair): (usize, _)| if dropped(n) { (0.0, -2.5) } else { pair };
        Factors::of_pairs(factors.pairs().enumerate().map(pair).collect()).unwrap()
    });
    let turns = (2..=3).contains(&descriptor.shape.len());
    let turn = Turn {
        flip_rows: turns && seed & 1 == 1,
        flip_columns: turns && seed & 2 == 2,
        transpose: turns && rows == columns && seed & 4 == 4,
        ..Turn::NONE
    };
    let no_data = [-1.0, f64::NAN, 0.0, 40.0, f64::INFINITY][(seed / 128 % 5) as usize];
    let fill = (seed & 64 == 64 && is_float).then_some(NoData { no_data, with: -5.5 });
    let warp = moves(seed, turns, is_float, [rows, columns]);
    Finish { to, factors, fill, warp, volume: None, turn }
}

/// Generates an affine map in half of the cases: an exact shift, a quarter turn, or a small or large move.
pub(crate) fn moves(seed: u64, moves: bool, is_float: bool, [rows, columns]: [u64; 2]) -> Option<Warp> {
    let draw = |n: u64| {
        (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n).wrapping_mul(0xD134_2543_DE82_EF95) >> 40) as f64
            / (1 << 24) as f64
    };
    if !moves || draw(0) < 0.5 {
        return None;
    }
    let affine = match draw(1) {
        kind if kind < 0.2 => Affine::rotation((draw(2) * 4.0).floor() * 90.0),
        kind if kind < 0.4 => {
            Affine { translate: [(draw(2) * 4.0).floor() - 2.0, (draw(3) * 4.0).floor() - 2.0], ..Affine::default() }
        }
        kind => Affine {
            angle: draw(2) * 360.0,
            translate: [draw(3) * 5.0 - 2.5, draw(4) * 5.0 - 2.5],
            scale: if kind < 0.9 { 0.5 + draw(5) } else { 1e-3 },
            shear: [draw(6) * 40.0, draw(7) * 40.0],
            from_corner: false,
        },
    };
    let sampling = match is_float && draw(8) < 0.7 {
        true => Resampling::Bilinear { outside: if draw(9) < 0.5 { 0.0 } else { 2.75 } },
        false => Resampling::Nearest { outside: 1.0 },
    };
    Some(Warp { map: affine.inverse(columns as f64, rows as f64), sampling })
}

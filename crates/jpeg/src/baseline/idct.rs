//! Dequantisation and inverse DCT, bit for bit like libjpeg's accurate integer version (`jidctint.c`, "islow").

use super::streams::Coefficients;
use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{i16x16, i32x8, u8x32};

const CONST_BITS: u32 = 13;
const PASS1_BITS: u32 = 2;

/// Bound on the inputs of a pass, which must be in −`BIAS`..`BIAS`. The sum of an input and `BIAS` is then not
/// negative in 16 bits.
const BIAS: i16 = 1 << 14;

/// Tracks whether all values so far are in the range where libjpeg-turbo's 16-bit arithmetic is exact: the sum of any
/// two inputs of a pass fits, and nothing saturates in between. Coefficients of 8-bit pixels are always in this
/// range, because the eight values of a row or column add up to at most 12,000.
#[derive(Clone, Copy)]
pub(super) struct Within<S: Simd>(i16x16<S>);

impl<S: Simd> Within<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self(i16x16::splat(simd, 0))
    }

    #[inline(always)]
    fn see(&mut self, values: i16x16<S>) {
        self.0 |= values + BIAS;
    }

    #[inline(always)]
    pub(super) fn holds(self) -> bool {
        let mut lanes = [0_i16; 16];
        self.0.store_slice(&mut lanes);
        lanes.iter().all(|&lane| lane >= 0)
    }
}

/// Returns the samples of a block, row by row. `last` is the zigzag position of its last coefficient.
#[inline(always)]
pub(super) fn samples<S: Simd>(
    simd: S,
    block: &Coefficients,
    last: u8,
    quantiser: &[i16; 64],
    within: &mut Within<S>,
    out: &mut [u8; 64],
) {
    match last {
        0 => {
            let value = i32::from(block[0]) * i32::from(quantiser[0]);
            // In a full transform, the inputs of the second pass are four times as large as this value. If an input
            // does not fit into 16 bits, record the largest 16-bit number instead, which is out of range too.
            within.see(i16x16::splat(simd, i16::try_from(value * 4).unwrap_or(i16::MAX)));
            #[expect(clippy::cast_sign_loss, reason = "0 to 255")]
            let sample = (((value + 4) >> 3) + 128).clamp(0, 255) as u8;
            *out = [sample; 64];
        }
        // Zigzag positions 1 to 9 are all in the first four rows and columns.
        1..=9 => inverse::<S, 4>(simd, block, quantiser, within, out),
        _ => inverse::<S, 8>(simd, block, quantiser, within, out),
    }
}

/// Runs both passes for a block that has coefficients only in the first `N` rows and columns.
#[inline(always)]
fn inverse<S: Simd, const N: usize>(
    simd: S,
    block: &Coefficients,
    quantiser: &[i16; 64],
    within: &mut Within<S>,
    out: &mut [u8; 64],
) {
    const FIRST: u32 = CONST_BITS - PASS1_BITS;
    const SECOND: u32 = CONST_BITS + PASS1_BITS + 3;
    let zero = i32x8::splat(simd, 0);
    let mut rows = [zero; 8];
    let sources = block.as_chunks::<16>().0.iter().zip(quantiser.as_chunks::<16>().0);
    for (rows, (coefficients, factors)) in rows.as_chunks_mut::<2>().0.iter_mut().zip(sources).take(N / 2) {
        // Use only the lower half of the product, like libjpeg-turbo.
        let two = i16x16::from_slice(simd, coefficients) * i16x16::from_slice(simd, factors);
        within.see(two);
        let (above, below) = simd.widen_i16x16(two);
        *rows = [above, below];
    }
    let rows = pass::<S, FIRST>(simd, rows, 1 << (FIRST - 1));
    let mut columns = transposed(simd, rows, within);
    if N < 8 {
        columns[4..].fill(zero);
    }
    // Add 128, the centre of the range of samples.
    let columns = pass::<S, SECOND>(simd, columns, (1 << (SECOND - 1)) + (128 << SECOND));
    // Each lane is a row. Its eight samples are joined by shifts, because shifts use other execution ports than the
    // shuffles.
    let [a, b, c, d, e, f, g, h] = columns;
    let left = together(simd, a, b, c, d);
    let right = together(simd, e, f, g, h);
    let (above, below) = simd.interleave_i32x8(left, right);
    let above: u8x32<S> = above.bitcast();
    let below: u8x32<S> = below.bitcast();
    let (upper, lower) = out.split_at_mut(32);
    above.store_slice(upper);
    below.store_slice(lower);
}

/// Combines four samples per lane into one 32-bit lane, as bytes.
#[inline(always)]
fn together<S: Simd>(simd: S, a: i32x8<S>, b: i32x8<S>, c: i32x8<S>, d: i32x8<S>) -> i32x8<S> {
    sample(simd, a) | sample(simd, b) << 8 | sample(simd, c) << 16 | sample(simd, d) << 24
}

#[inline(always)]
fn sample<S: Simd>(simd: S, value: i32x8<S>) -> i32x8<S> {
    value.max(i32x8::splat(simd, 0)).min(i32x8::splat(simd, 255))
}

/// Transposes rows to columns. Values that do not fit into 16 bits are recorded as out of range.
#[inline(always)]
fn transposed<S: Simd>(simd: S, rows: [i32x8<S>; 8], within: &mut Within<S>) -> [i32x8<S>; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let mut a: i16x16<S> = simd.saturating_narrow_i32x8(a, b);
    let mut b: i16x16<S> = simd.saturating_narrow_i32x8(c, d);
    let mut c: i16x16<S> = simd.saturating_narrow_i32x8(e, f);
    let mut d: i16x16<S> = simd.saturating_narrow_i32x8(g, h);
    within.see(a);
    within.see(b);
    within.see(c);
    within.see(d);
    for _ in 0..3 {
        let ((w, x), (y, z)) = (simd.interleave_i16x16(a, c), simd.interleave_i16x16(b, d));
        (a, b, c, d) = (w, x, y, z);
    }
    let ((a, b), (c, d), (e, f), (g, h)) =
        (simd.widen_i16x16(a), simd.widen_i16x16(b), simd.widen_i16x16(c), simd.widen_i16x16(d));
    [a, b, c, d, e, f, g, h]
}

/// Runs one pass over eight columns at a time, or over rows if the input is transposed. `round` is added
/// before the shift. Variables are named as in libjpeg.
#[inline(always)]
fn pass<S: Simd, const SHIFT: u32>(simd: S, input: [i32x8<S>; 8], round: i32) -> [i32x8<S>; 8] {
    let [i0, i1, i2, i3, i4, i5, i6, i7] = input;
    let round = i32x8::splat(simd, round);

    let z1 = (i2 + i6) * 4_433;
    let tmp2 = z1 - i6 * 15_137;
    let tmp3 = z1 + i2 * 6_270;
    let tmp0 = ((i0 + i4) << CONST_BITS) + round;
    let tmp1 = ((i0 - i4) << CONST_BITS) + round;
    let (tmp10, tmp13, tmp11, tmp12) = (tmp0 + tmp3, tmp0 - tmp3, tmp1 + tmp2, tmp1 - tmp2);

    let (z1, z2, z3, z4) = (i7 + i1, i5 + i3, i7 + i3, i5 + i1);
    let z5 = (z3 + z4) * 9_633;
    let (tmp0, tmp1, tmp2, tmp3) = (i7 * 2_446, i5 * 16_819, i3 * 25_172, i1 * 12_299);
    let (z1, z2) = (z1 * -7_373, z2 * -20_995);
    let (z3, z4) = (z5 - z3 * 16_069, z5 - z4 * 3_196);
    let (tmp0, tmp1, tmp2, tmp3) = (tmp0 + z1 + z3, tmp1 + z2 + z4, tmp2 + z2 + z3, tmp3 + z1 + z4);

    let output = [
        tmp10 + tmp3,
        tmp11 + tmp2,
        tmp12 + tmp1,
        tmp13 + tmp0,
        tmp13 - tmp0,
        tmp12 - tmp1,
        tmp11 - tmp2,
        tmp10 - tmp3,
    ];
    let [a, b, c, d, e, f, g, h] = output;
    [a >> SHIFT, b >> SHIFT, c >> SHIFT, d >> SHIFT, e >> SHIFT, f >> SHIFT, g >> SHIFT, h >> SHIFT]
}

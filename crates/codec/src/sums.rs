//! Differences along the bands undone (spec §4.4): running sums of zigzag-coded elements, pixel by pixel.
//!
//! One element after the other, each addition waits for the one before it: 30 million elements of a cube took as long as LZ4 on the same cube. Sums of
//! eight lanes in three steps leave one addition a vector to wait for.

use fearless_simd::prelude::{Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x16, u16x8};

/// Overwrites the elements of whole pixels, of one byte each, by their running sums.
pub(crate) fn sum8(pixels: &mut [u8], bands: usize) {
    dispatch!(Level::new(), simd => sum8_in(simd, pixels, bands));
}

/// The same with elements of two bytes, little-endian.
pub(crate) fn sum16(pixels: &mut [u8], bands: usize) {
    dispatch!(Level::new(), simd => sum16_in(simd, pixels, bands));
}

#[inline(always)]
fn sum8_in<S: Simd>(simd: S, pixels: &mut [u8], bands: usize) {
    let last = u8x16::splat(simd, 15);
    let zero = u8x16::splat(simd, 0);
    for pixel in pixels.chunks_exact_mut(bands) {
        let (vectors, rest) = pixel.as_chunks_mut::<16>();
        let mut carry = zero;
        for lanes in vectors.iter_mut() {
            let z = u8x16::from_slice(simd, lanes);
            let mut sum = (z >> 1) ^ (zero - (z & u8x16::splat(simd, 1)));
            sum = sum + zero.slide::<15>(sum);
            sum = sum + zero.slide::<14>(sum);
            sum = sum + zero.slide::<12>(sum);
            sum = sum + zero.slide::<8>(sum);
            sum += carry;
            carry = sum.swizzle_dyn_within_blocks(last);
            sum.store_slice(lanes);
        }
        let mut sum = vectors.last().map_or(0, |&[.., last]| last);
        for x in rest {
            sum = sum.wrapping_add((*x >> 1) ^ (*x & 1).wrapping_neg());
            *x = sum;
        }
    }
}

#[inline(always)]
fn sum16_in<S: Simd>(simd: S, pixels: &mut [u8], bands: usize) {
    let last = u8x16::from_slice(simd, &[14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15]);
    let zero = u16x8::splat(simd, 0);
    for pixel in pixels.chunks_exact_mut(2 * bands) {
        let (vectors, rest) = pixel.as_chunks_mut::<2>().0.as_chunks_mut::<8>();
        let mut carry = zero;
        for lanes in vectors.iter_mut() {
            let z = u16x8::from_slice(simd, &lanes.map(u16::from_le_bytes));
            let mut sum = (z >> 1) ^ (zero - (z & u16x8::splat(simd, 1)));
            sum = sum + zero.slide::<7>(sum);
            sum = sum + zero.slide::<6>(sum);
            sum = sum + zero.slide::<4>(sum);
            sum += carry;
            carry = sum.swizzle_dyn_within_blocks(last);
            let mut out = [0; 8];
            sum.store_slice(&mut out);
            *lanes = out.map(u16::to_le_bytes);
        }
        let mut sum = vectors.last().map_or(0, |&[.., last]| u16::from_le_bytes(last));
        for x in rest {
            let z = u16::from_le_bytes(*x);
            sum = sum.wrapping_add((z >> 1) ^ (z & 1).wrapping_neg());
            *x = sum.to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_agree_with_one_element_at_a_time(bands in 1..70_usize, raw in prop::collection::vec(any::<u8>(), 560)) {
            let narrow = &raw[..raw.len() / bands * bands];
            let mut fast = narrow.to_vec();
            sum8(&mut fast, bands);
            for (pixel, fast) in narrow.chunks(bands).zip(fast.chunks(bands)) {
                let mut sum = 0_u8;
                for (z, fast) in pixel.iter().zip(fast) {
                    // 0, 1, 2, 3 … are 0, −1, 1, −2 ….
                    let difference = if z % 2 == 0 { i16::from(z / 2) } else { -i16::from(z / 2) - 1 };
                    sum = sum.wrapping_add(difference as u8);
                    prop_assert_eq!(*fast, sum);
                }
            }
            let wide = &raw[..raw.len() / (2 * bands) * 2 * bands];
            let mut fast = wide.to_vec();
            sum16(&mut fast, bands);
            for (pixel, fast) in wide.chunks(2 * bands).zip(fast.chunks(2 * bands)) {
                let mut sum = 0_u16;
                for (z, fast) in pixel.as_chunks().0.iter().zip(fast.as_chunks().0) {
                    let z = u16::from_le_bytes(*z);
                    let difference = if z % 2 == 0 { i32::from(z / 2) } else { -i32::from(z / 2) - 1 };
                    sum = sum.wrapping_add(difference as u16);
                    prop_assert_eq!(u16::from_le_bytes(*fast), sum);
                }
            }
        }
    }
}

//! Undoes band differences (spec §4.4) by computing running sums of zigzag-coded elements, pixel by pixel.
//!
//! If elements are summed one at a time, each addition has to wait for the previous addition. For a cube of 30
//! million elements, this took as long as decoding LZ4. Summing eight lanes in three steps leaves only one dependent
//! addition per vector.

pub(crate) mod planes;

use fearless_simd::prelude::{Simd, SimdBase, SimdInt};
use fearless_simd::{Level, dispatch, u8x16, u16x8};

/// Replaces one-byte elements with their running sums. The sums restart every `bands` elements. The first sum continues
/// from `before`.
pub(crate) fn sum8(elements: &mut [u8], bands: usize, before: u8) {
    dispatch!(Level::new(), simd => sum8_in(simd, elements, bands, before));
}

/// Same as [`sum8`], for little-endian elements of two bytes.
pub(crate) fn sum16(elements: &mut [u8], bands: usize, before: u16) {
    dispatch!(Level::new(), simd => sum16_in(simd, elements, bands, before));
}

/// Decodes zigzag-coded numbers: 0, 1, 2, 3 … become 0, −1, 1, −2 ….
#[inline(always)]
fn unzigzag<S: Simd, V: SimdInt<S>>(simd: S, z: V) -> V
where
    V::Element: From<u8>,
{
    (z >> 1) ^ (V::splat(simd, 0.into()) - (z & V::splat(simd, 1.into())))
}

#[inline(always)]
fn sum8_in<S: Simd>(simd: S, elements: &mut [u8], bands: usize, mut before: u8) {
    let last = u8x16::splat(simd, 15);
    let zero = u8x16::splat(simd, 0);
    for pixel in elements.chunks_mut(bands) {
        let (vectors, rest) = pixel.as_chunks_mut::<16>();
        let mut carry = u8x16::splat(simd, before);
        for lanes in vectors.iter_mut() {
            let mut sum = unzigzag(simd, u8x16::from_slice(simd, lanes));
            sum = sum + zero.slide::<15>(sum);
            sum = sum + zero.slide::<14>(sum);
            sum = sum + zero.slide::<12>(sum);
            sum = sum + zero.slide::<8>(sum);
            sum += carry;
            carry = sum.swizzle_dyn_within_blocks(last);
            sum.store_slice(lanes);
        }
        let mut sum = vectors.last().map_or(before, |&[.., last]| last);
        for x in rest {
            sum = sum.wrapping_add((*x >> 1) ^ (*x & 1).wrapping_neg());
            *x = sum;
        }
        before = 0;
    }
}

#[inline(always)]
fn sum16_in<S: Simd>(simd: S, elements: &mut [u8], bands: usize, mut before: u16) {
    let last = u8x16::from_slice(simd, &[14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15, 14, 15]);
    let zero = u16x8::splat(simd, 0);
    for pixel in elements.chunks_mut(2 * bands) {
        let (vectors, rest) = pixel.as_chunks_mut::<2>().0.as_chunks_mut::<8>();
        let mut carry = u16x8::splat(simd, before);
        for lanes in vectors.iter_mut() {
            let mut sum = unzigzag(simd, u16x8::from_slice(simd, &lanes.map(u16::from_le_bytes)));
            sum = sum + zero.slide::<7>(sum);
            sum = sum + zero.slide::<6>(sum);
            sum = sum + zero.slide::<4>(sum);
            sum += carry;
            carry = sum.swizzle_dyn_within_blocks(last);
            let mut out = [0; 8];
            sum.store_slice(&mut out);
            *lanes = out.map(u16::to_le_bytes);
        }
        let mut sum = vectors.last().map_or(before, |&[.., last]| u16::from_le_bytes(last));
        for x in rest {
            let z = u16::from_le_bytes(*x);
            sum = sum.wrapping_add((z >> 1) ^ (z & 1).wrapping_neg());
            *x = sum.to_le_bytes();
        }
        before = 0;
    }
}

#[cfg(test)]
mod tests;

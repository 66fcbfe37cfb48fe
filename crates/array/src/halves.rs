//! Converts float16 bytes to float32 bytes. This conversion has its own code, because most cubes are stored as
//! float16 and decoded to float32.

use crate::element::Element;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Number of elements in a run. The input and the output of a run fit in the L1 cache together.
const RUN: usize = 512;

/// Widens little-endian float16 elements to the same number of float32 elements.
pub(crate) fn widen(stored: &[u8], out: &mut [u8]) {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        let (vectors, rest) = stored.as_chunks();
        let (places, rest_out) = out.as_chunks_mut();
        x86::widen(avx2, vectors, places);
        return widen_runs(rest, rest_out);
    }
    widen_runs(stored, out);
}

fn widen_runs(stored: &[u8], out: &mut [u8]) {
    let (mut from, mut to) = ([f16::ZERO; RUN], [0.0_f32; RUN]);
    for (stored, out) in stored.chunks(2 * RUN).zip(out.chunks_mut(4 * RUN)) {
        f16::load(stored, &mut from);
        from.convert_to_f32_slice(&mut to);
        f32::store(&to, out);
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod x86 {
    use fearless_simd::prelude::{Bytes, SimdBase, SimdInto};
    use fearless_simd::{f32x8, u8x16, u8x32};
    #[cfg(target_arch = "x86")]
    use std::arch::x86::_mm256_cvtph_ps;
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::_mm256_cvtph_ps;

    fearless_simd::kernel!(
        /// Widens eight elements at a time. The conversion of slices in the crate `half` uses the same instruction,
        /// but took twice as long because of copies and one call per eight elements.
        pub(super) fn widen(avx2: Avx2, stored: &[[u8; 16]], out: &mut [[u8; 32]]) {
            for (from, to) in stored.iter().zip(out) {
                let halves = u8x16::load_array_ref(avx2, from);
                let singles: f32x8<_> = _mm256_cvtph_ps(halves.into()).simd_into(avx2);
                let bytes: u8x32<_> = singles.bitcast();
                bytes.store_array(to);
            }
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_float16_becomes_its_float32() {
        // Add three more elements, so that the number of elements is not a multiple of eight.
        let halves: Vec<u16> = (0..=u16::MAX).chain([1, 0x3C00, 0x7E01]).collect();
        let stored: Vec<u8> = halves.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let mut out = vec![0; 2 * stored.len()];
        widen(&stored, &mut out);
        for (bits, single) in halves.iter().zip(out.as_chunks().0) {
            let expected = f16::from_bits(*bits).to_f32();
            assert_eq!(u32::from_le_bytes(*single), expected.to_bits(), "{bits:#06x}");
        }
    }
}

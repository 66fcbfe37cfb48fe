//! Loops compiled for the processor's vector instructions.

/// Runs `work` as compiled for AVX2 if the processor has it, otherwise as compiled for every processor of the
/// architecture.
///
/// The results are the same to the bit: the compiler neither reorders sums of floats nor fuses a product into
/// a sum, so it can only process more lanes at a time. To benefit, `work` and everything it calls must be
/// inlined: write `vectorised(#[inline(always)] || …)`.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        return fearless_simd::Simd::vectorize(avx2, work);
    }
    work()
}

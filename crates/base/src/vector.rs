//! Runs loops that are compiled for the processor's vector instructions.

/// Runs `work`, in a version compiled for AVX2 if the processor supports it, and otherwise in a version for the
/// baseline of the architecture.
///
/// Both versions return bit-identical results: the compiler neither reorders sums of floats nor fuses a
/// multiplication and an addition. The AVX2 version only processes more lanes at a time. To benefit from it, `work`
/// and everything that it calls must be inlined: write `vectorised(#[inline(always)] || …)`.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        return fearless_simd::Simd::vectorize(avx2, work);
    }
    work()
}

//! Computes the peak signal-to-noise ratio.

/// Returns 10 · log₁₀(peak² / mean square error), in dB. Returns `None` if the error or the peak is
/// zero.
pub(super) fn psnr(peak: f64, mean_square: f64) -> Option<f64> {
    (mean_square > 0.0 && peak > 0.0).then(|| 10.0 * (peak * peak / mean_square).log10())
}

#[cfg(test)]
mod tests {
    use super::psnr;

    #[test]
    fn one_level_of_255_is_48_decibels() {
        assert!((psnr(255.0, 1.0).unwrap() - 48.130_803_6).abs() < 1e-6);
        assert_eq!((psnr(255.0, 0.0), psnr(0.0, 1.0)), (None, None));
    }
}

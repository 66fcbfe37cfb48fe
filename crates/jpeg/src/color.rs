//! Converts colours to 8-bit RGB.

/// Converts CMYK in Adobe's form (0 = full ink) to RGB, like Pillow.
///
/// Pillow assumes that every JPEG with four components is inverted, even without an Adobe segment (`JpegImagePlugin`:
/// "assume adobe conventions"). After undoing the inversion, its `cmyk2rgb` (`Convert.c`) computes
/// `nk − MULDIV255(c, nk)` with `nk = 255 − k` and `MULDIV255(a, b) = (t + (t >> 8)) >> 8, t = ab + 128`. No ICC
/// profile is applied. libjpeg has already converted YCCK to CMYK.
pub(super) fn cmyk_to_rgb(cmyk: &[u8], rgb: &mut [u8]) {
    for (&[c, m, y, k], to) in cmyk.as_chunks::<4>().0.iter().zip(rgb.as_chunks_mut::<3>().0) {
        *to = [c, m, y].map(|ink| k - product(255 - ink, k));
    }
}

/// Returns a · b / 255, rounded to the nearest integer.
#[expect(clippy::cast_possible_truncation, reason = "at most 255")]
pub(super) const fn product(a: u8, b: u8) -> u8 {
    let t = a as u32 * b as u32 + 128;
    ((t + (t >> 8)) >> 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the output of Pillow 13 for the inverted bytes:
    /// `Image.frombytes("CMYK", …).convert("RGB")`.
    #[test]
    fn four_inks_become_three_colours() {
        let cmyk = [255, 255, 255, 255, 0, 0, 0, 0, 255, 0, 128, 255, 10, 200, 90, 100, 77, 78, 79, 254];
        let mut rgb = [0; 15];
        cmyk_to_rgb(&cmyk, &mut rgb);
        assert_eq!(rgb, [255, 255, 255, 0, 0, 0, 255, 0, 128, 4, 78, 35, 77, 78, 79]);
    }

    #[test]
    fn products_are_rounded() {
        for a in 0..=255_u8 {
            for b in 0..=255_u8 {
                assert_eq!(product(a, b), (f64::from(a) * f64::from(b) / 255.0).round() as u8);
            }
        }
    }
}

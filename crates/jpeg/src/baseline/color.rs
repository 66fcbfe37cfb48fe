//! Converts a row of samples to a row of RGB pixels, bit for bit like libjpeg (`jdcolor.c`).
//!
//! libjpeg's factors have 16 fractional bits, so a product needs 32 bits. For red and blue, the upper half of a
//! 16-bit product is enough, as in libjpeg-turbo: the factor 1.402 is split into 1 + 0.402, and 1.772 into 2 − 0.228.
//! Results are rounded by adding half a unit to twice the upper half of the product.

const LANES: usize = 32;

/// Converts YCbCr to RGB. Returns `None` unless all rows have the same number of pixels.
#[inline(always)]
pub(super) fn ycc(y: &[u8], cb: &[u8], cr: &[u8], rgb: &mut [u8]) -> Option<()> {
    if [cb.len(), cr.len(), rgb.len() / 3] != [y.len(); 3] {
        return None;
    }
    let (ys, y) = y.as_chunks::<LANES>();
    let (cbs, cb) = cb.as_chunks::<LANES>();
    let (crs, cr) = cr.as_chunks::<LANES>();
    let (rgbs, rgb) = rgb.as_chunks_mut::<3>().0.as_chunks_mut::<LANES>();
    for (((rgb, y), cb), cr) in rgbs.iter_mut().zip(ys).zip(cbs).zip(crs) {
        several(y, cb, cr, rgb);
    }
    for (((rgb, &y), &cb), &cr) in rgb.iter_mut().zip(y).zip(cb).zip(cr) {
        *rgb = one(y, cb, cr);
    }
    Some(())
}

#[inline(always)]
fn several<const N: usize>(y: &[u8; N], cb: &[u8; N], cr: &[u8; N], rgb: &mut [[u8; 3]; N]) {
    let (mut red, mut green, mut blue) = ([0; N], [0; N], [0; N]);
    for i in 0..N {
        [red[i], green[i], blue[i]] = one(y[i], cb[i], cr[i]);
    }
    for i in 0..N {
        rgb[i] = [red[i], green[i], blue[i]];
    }
}

#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "0 to 255")]
fn one(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    let (y, cb, cr) = (i16::from(y), i16::from(cb) - 128, i16::from(cr) - 128);
    let red = y + cr + ((upper(2 * cr, 26_345) + 1) >> 1);
    let green = y - cr + ((18_734 * i32::from(cr) - 22_554 * i32::from(cb) + 32_768) >> 16) as i16;
    let blue = y + 2 * cb + ((upper(2 * cb, -14_942) + 1) >> 1);
    [red.clamp(0, 255) as u8, green.clamp(0, 255) as u8, blue.clamp(0, 255) as u8]
}

#[inline(always)]
const fn upper(a: i16, b: i16) -> i16 {
    ((a as i32 * b as i32) >> 16) as i16
}

/// Converts gray to RGB. Returns `None` unless both rows have the same number of pixels.
#[inline(always)]
pub(super) fn gray(y: &[u8], rgb: &mut [u8]) -> Option<()> {
    if rgb.len() / 3 != y.len() {
        return None;
    }
    for (to, &y) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(y) {
        *to = [y; 3];
    }
    Some(())
}

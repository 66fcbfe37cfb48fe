//! Changes the sharpness of a picture: moves its pixels away from the blurred picture (3 × 3 kernel), or towards it.

use super::picture::{ChangeScratch, Picture, level, single};
use shardpack_base::vectorised;

/// Changes the sharpness everywhere except in a border of one pixel. A picture without an interior does not change.
pub(crate) fn sharpness(picture: &mut Picture<'_>, factor: f64, scratch: &mut ChangeScratch) {
    if picture.height() <= 2 || picture.width() <= 2 {
        return;
    }
    let (stride, towards) = (picture.stride(), single(1.0 - factor));
    let ChangeScratch { before, sums, .. } = scratch;
    before.clear();
    before.extend_from_slice(picture.levels());
    sums.resize(stride, 0);
    let rows = |skip: usize| before.chunks_exact(stride).skip(skip);
    let outs = picture.levels().chunks_exact_mut(stride).skip(1);
    for (((above, row), below), out) in rows(0).zip(rows(1)).zip(rows(2)).zip(outs) {
        vectorised(
            #[inline(always)]
            || blend([above, row, below], towards, sums, out),
        );
    }
}

#[inline(always)]
fn blend([above, row, below]: [&[u8]; 3], towards: f32, sums: &mut [u16], out: &mut [u8]) {
    for (((sum, &a), &b), &c) in sums.iter_mut().zip(above).zip(row).zip(below) {
        *sum = u16::from(a) + u16::from(b) + u16::from(c);
    }
    let (middle, right) = (sums.get(3..).unwrap_or_default(), sums.get(6..).unwrap_or_default());
    let outs = out.get_mut(3..).unwrap_or_default().iter_mut();
    for (((out, &left), &middle), &right) in outs.zip(&*sums).zip(middle).zip(right) {
        // The eight neighbours have weight 1, and the pixel itself has weight 5. The weights sum to 13, an
        // odd number, so there is never a half to round.
        let sum = left + middle + right + 4 * u16::from(*out);
        let blurred = f32::from((2 * sum + 13) / 26);
        let own = f32::from(*out);
        *out = level(own + (blurred - own) * towards);
    }
}

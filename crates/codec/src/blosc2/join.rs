//! Byte planes to items: the byte shuffle undone.

use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x64, u16x32, u32x16};

/// Bytes of each plane that are joined at a time.
const LANES: usize = 64;

/// Fills `out` with items of as many bytes as there are `planes`, which must be as long as `out` has items.
pub(super) fn join(planes: &[&[u8]], out: &mut [u8]) {
    match *planes {
        [plane] => copy(plane, out),
        [a, b] => dispatch!(Level::new(), simd => join_by(simd, [a, b], out, join2)),
        [a, b, c, d] => dispatch!(Level::new(), simd => join_by(simd, [a, b, c, d], out, join4)),
        [a, b, c, d, e, f, g, h] => {
            dispatch!(Level::new(), simd => join_by(simd, [a, b, c, d, e, f, g, h], out, join8));
        }
        _ => {}
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    if let Some(from) = from.get(..to.len()) {
        to.copy_from_slice(from);
    }
}

#[inline(always)]
fn join_by<S: Simd, const N: usize>(
    simd: S,
    planes: [&[u8]; N],
    out: &mut [u8],
    join: impl Fn([u8x64<S>; N]) -> [u8x64<S>; N],
) {
    let chunks = planes.map(|plane| plane.as_chunks::<LANES>().0);
    let mut done = 0;
    for (i, out) in out.chunks_exact_mut(LANES * N).enumerate() {
        let vectors = chunks
            .map(|chunks| chunks.get(i).map_or(u8x64::splat(simd, 0), |chunk| u8x64::load_array_ref(simd, chunk)));
        for (joined, out) in join(vectors).into_iter().zip(out.as_chunks_mut().0) {
            joined.store_array(out);
        }
        done += LANES;
    }
    let rest = out.as_chunks_mut::<N>().0.get_mut(done..).unwrap_or_default();
    for (j, plane) in planes.iter().enumerate() {
        for (to, from) in rest.iter_mut().zip(plane.get(done..).unwrap_or_default()) {
            if let Some(to) = to.get_mut(j) {
                *to = *from;
            }
        }
    }
}

#[inline(always)]
fn join2<S: Simd>([a, b]: [u8x64<S>; 2]) -> [u8x64<S>; 2] {
    a.interleave(b).into()
}

#[inline(always)]
fn join4<S: Simd>([a, b, c, d]: [u8x64<S>; 4]) -> [u8x64<S>; 4] {
    let low: [u16x32<S>; 2] = join2([a, b]).map(Bytes::bitcast);
    let high: [u16x32<S>; 2] = join2([c, d]).map(Bytes::bitcast);
    let ([a, b], [c, d]) = (low, high);
    let ((a, b), (c, d)) = (a.interleave(c), b.interleave(d));
    [a, b, c, d].map(Bytes::bitcast)
}

#[inline(always)]
fn join8<S: Simd>([a, b, c, d, e, f, g, h]: [u8x64<S>; 8]) -> [u8x64<S>; 8] {
    let low: [u32x16<S>; 4] = join4([a, b, c, d]).map(Bytes::bitcast);
    let high: [u32x16<S>; 4] = join4([e, f, g, h]).map(Bytes::bitcast);
    let ([a, b, c, d], [e, f, g, h]) = (low, high);
    let ((a, b), (c, d), (e, f), (g, h)) = (a.interleave(e), b.interleave(f), c.interleave(g), d.interleave(h));
    [a, b, c, d, e, f, g, h].map(Bytes::bitcast)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_have_a_byte_of_each_plane(item in prop_oneof![Just(1_usize), Just(2), Just(4), Just(8)], items in 0..400_usize, seed: u8) {
            let planes: Vec<Vec<u8>> = (0..item)
                .map(|j| (0..items).map(|i| (i * 7 + j * 31) as u8 ^ seed).collect())
                .collect();
            let parts: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; items * item];
            join(&parts, &mut out);
            let expected: Vec<u8> = (0..items).flat_map(|i| planes.iter().map(move |plane| plane[i])).collect();
            prop_assert_eq!(out, expected);
        }
    }
}

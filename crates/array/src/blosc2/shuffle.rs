//! Byte shuffle: splits items into byte planes, and joins byte planes to items.

use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x64, u16x32, u32x16};
use shardpack_base::parts::check_length;
use shardpack_format::{Result, bug};

const LANES: usize = 64;

/// Fills `out` with items. There must be one plane for each byte of an item, and each plane must
/// contain one byte of every item.
pub(super) fn join(planes: &[&[u8]], out: &mut [u8]) -> Result<()> {
    // The loops below require these lengths.
    for plane in planes {
        check_length("total size of the byte planes", out.len(), plane.len() * planes.len())?;
    }
    match *planes {
        [] => check_length("size of the items without byte planes", 0, out.len())?,
        [plane] => out.copy_from_slice(plane),
        [a, b] => dispatch!(Level::new(), simd => join_by(simd, [a, b], out, join2)).unwrap_or_else(beyond),
        [a, b, c, d] => dispatch!(Level::new(), simd => join_by(simd, [a, b, c, d], out, join4)).unwrap_or_else(beyond),
        [a, b, c, d, e, f, g, h] => {
            dispatch!(Level::new(), simd => join_by(simd, [a, b, c, d, e, f, g, h], out, join8)).unwrap_or_else(beyond);
        }
        // shardpack never stores items of other sizes, but Blosc2 allows them.
        _ => join_any(planes, out),
    }
    Ok(())
}

/// Fills `out` with the byte planes of `items`, which have `item` bytes each.
pub(super) fn split(items: &[u8], item: usize, out: &mut [u8]) -> Result<()> {
    check_length("size of the items for byte planes", out.len(), items.len())?;
    check_length("size of whole items for byte planes", items.len() / item.max(1) * item, items.len())?;
    match item {
        1 => out.copy_from_slice(items),
        2 => dispatch!(Level::new(), simd => split_by(simd, items, out, split2)).unwrap_or_else(beyond),
        4 => dispatch!(Level::new(), simd => split_by(simd, items, out, split4)).unwrap_or_else(beyond),
        8 => dispatch!(Level::new(), simd => split_by(simd, items, out, split8)).unwrap_or_else(beyond),
        _ => split_any(items, item, out),
    }
    Ok(())
}

#[cold]
fn beyond() {
    bug("byte planes reach beyond their items")
}

// Here and in `bits`, each vector is written out by hand. `array::map` and `zip` may compile to calls that pass all
// vectors through memory. With these calls, bit planes took twelve times as long.

#[inline(always)]
fn join_by<S: Simd, const N: usize>(
    simd: S,
    planes: [&[u8]; N],
    out: &mut [u8],
    join: impl Fn([u8x64<S>; N]) -> [u8x64<S>; N],
) -> Option<()> {
    let chunks = planes.map(|plane| plane.as_chunks::<LANES>().0);
    let mut done = 0;
    for (i, out) in out.as_chunks_mut().0.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let mut vectors = [u8x64::splat(simd, 0); N];
        for j in 0..N {
            *vectors.get_mut(j)? = u8x64::load_array_ref(simd, chunks.get(j)?.get(i)?);
        }
        let joined = join(vectors);
        for j in 0..N {
            joined.get(j)?.store_array(out.get_mut(j)?);
        }
        done += LANES;
    }
    let rest = out.get_mut(done * N..)?;
    for (j, plane) in planes.iter().enumerate() {
        for (to, from) in rest.iter_mut().skip(j).step_by(N).zip(plane.get(done..)?) {
            *to = *from;
        }
    }
    Some(())
}

fn join_any(planes: &[&[u8]], out: &mut [u8]) {
    for (j, plane) in planes.iter().enumerate() {
        for (to, byte) in out.iter_mut().skip(j).step_by(planes.len()).zip(*plane) {
            *to = *byte;
        }
    }
}

#[inline(always)]
fn split_by<S: Simd, const N: usize>(
    simd: S,
    items: &[u8],
    out: &mut [u8],
    split: impl Fn([u8x64<S>; N]) -> [u8x64<S>; N],
) -> Option<()> {
    let mut planes = out.chunks_exact_mut((items.len() / N).max(1));
    let mut planes: [&mut [u8]; N] = std::array::from_fn(|_| planes.next().unwrap_or_default());
    let mut done = 0;
    for part in items.as_chunks().0.as_chunks::<N>().0 {
        let mut vectors = [u8x64::splat(simd, 0); N];
        for j in 0..N {
            *vectors.get_mut(j)? = u8x64::load_array_ref(simd, part.get(j)?);
        }
        let split = split(vectors);
        for j in 0..N {
            split.get(j)?.store_array(planes.get_mut(j)?.get_mut(done..)?.first_chunk_mut()?);
        }
        done += LANES;
    }
    for (i, item) in items.get(done * N..)?.as_chunks::<N>().0.iter().enumerate() {
        for (byte, plane) in item.iter().zip(&mut planes) {
            *plane.get_mut(done + i)? = *byte;
        }
    }
    Some(())
}

fn split_any(items: &[u8], item: usize, out: &mut [u8]) {
    for (j, plane) in out.chunks_exact_mut((items.len() / item).max(1)).enumerate() {
        for (to, from) in plane.iter_mut().zip(items.iter().skip(j).step_by(item)) {
            *to = *from;
        }
    }
}

#[inline(always)]
fn join2<S: Simd>([a, b]: [u8x64<S>; 2]) -> [u8x64<S>; 2] {
    let (a, b) = a.interleave(b);
    [a, b]
}

#[inline(always)]
fn join4<S: Simd>([a, b, c, d]: [u8x64<S>; 4]) -> [u8x64<S>; 4] {
    let ([a, b], [c, d]) = (join2([a, b]), join2([c, d]));
    let (a, c) = wide16(a).interleave(wide16(c));
    let (b, d) = wide16(b).interleave(wide16(d));
    [a.bitcast(), c.bitcast(), b.bitcast(), d.bitcast()]
}

#[inline(always)]
pub(super) fn join8<S: Simd>([a, b, c, d, e, f, g, h]: [u8x64<S>; 8]) -> [u8x64<S>; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (join4([a, b, c, d]), join4([e, f, g, h]));
    let (a, e) = wide32(a).interleave(wide32(e));
    let (b, f) = wide32(b).interleave(wide32(f));
    let (c, g) = wide32(c).interleave(wide32(g));
    let (d, h) = wide32(d).interleave(wide32(h));
    [a.bitcast(), e.bitcast(), b.bitcast(), f.bitcast(), c.bitcast(), g.bitcast(), d.bitcast(), h.bitcast()]
}

#[inline(always)]
fn split2<S: Simd>([a, b]: [u8x64<S>; 2]) -> [u8x64<S>; 2] {
    let (a, b) = a.deinterleave(b);
    [a, b]
}

#[inline(always)]
fn split4<S: Simd>([a, b, c, d]: [u8x64<S>; 4]) -> [u8x64<S>; 4] {
    let ((a, c), (b, d)) = (wide16(a).deinterleave(wide16(b)), wide16(c).deinterleave(wide16(d)));
    let ([a, b], [c, d]) = (split2([a.bitcast(), b.bitcast()]), split2([c.bitcast(), d.bitcast()]));
    [a, b, c, d]
}

#[inline(always)]
pub(super) fn split8<S: Simd>([a, b, c, d, e, f, g, h]: [u8x64<S>; 8]) -> [u8x64<S>; 8] {
    let ((a, e), (b, f), (c, g), (d, h)) = (
        wide32(a).deinterleave(wide32(b)),
        wide32(c).deinterleave(wide32(d)),
        wide32(e).deinterleave(wide32(f)),
        wide32(g).deinterleave(wide32(h)),
    );
    let [a, b, c, d] = split4([a.bitcast(), b.bitcast(), c.bitcast(), d.bitcast()]);
    let [e, f, g, h] = split4([e.bitcast(), f.bitcast(), g.bitcast(), h.bitcast()]);
    [a, b, c, d, e, f, g, h]
}

#[inline(always)]
fn wide16<S: Simd>(bytes: u8x64<S>) -> u16x32<S> {
    bytes.bitcast()
}

#[inline(always)]
fn wide32<S: Simd>(bytes: u8x64<S>) -> u32x16<S> {
    bytes.bitcast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardpack_format::Error;

    proptest! {
        #[test]
        fn items_have_a_byte_of_each_plane(item in 1..=8_usize, items in 0..400_usize, seed: u8) {
            let planes: Vec<Vec<u8>> = (0..item)
                .map(|j| (0..items).map(|i| (i * 7 + j * 31) as u8 ^ seed).collect())
                .collect();
            let parts: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; items * item];
            join(&parts, &mut out).unwrap();
            let expected: Vec<u8> = (0..items).flat_map(|i| planes.iter().map(move |plane| plane[i])).collect();
            prop_assert_eq!(&out, &expected);
            let mut back = vec![0xEE; out.len()];
            split(&out, item, &mut back).unwrap();
            prop_assert_eq!(back, planes.concat());
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        let is_internal = |result: Result<()>| matches!(result, Err(Error::Internal { .. }));
        for planes in [vec![], vec![&[1; 4][..], &[1; 3]], vec![&[1; 4][..]], vec![&[1; 3][..]; 3]] {
            assert!(is_internal(join(&planes, &mut [0; 8])), "{planes:?}");
        }
        for (items, item) in [(8, 0), (8, 3), (16, 2), (0, 2)] {
            assert!(is_internal(split(&vec![1; items], item, &mut [0; 8])), "{items} by {item}");
        }
    }
}

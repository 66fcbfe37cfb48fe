//! Byte deltas: the difference of each byte of a plane from the previous byte.

use fearless_simd::prelude::{Simd, SimdBase, SimdSplit};
use fearless_simd::{Level, dispatch, u8x16, u8x64};
use shardpack_base::parts::check_length;
use shardpack_base::vectorised;
use shardpack_format::Result;

const LANES: usize = 64;

/// Fills `out` with the differences of `plane`, which has the same length. The first byte is copied unchanged.
pub(super) fn of(plane: &[u8], out: &mut [u8]) -> Result<()> {
    check_length("number of differences in a plane", plane.len(), out.len())?;
    let (Some((first, next)), Some((to_first, to))) = (plane.split_first(), out.split_first_mut()) else {
        return Ok(());
    };
    *to_first = *first;
    vectorised(
        #[inline(always)]
        || {
            for ((to, byte), before) in to.iter_mut().zip(next).zip(plane) {
                *to = byte.wrapping_sub(*before);
            }
        },
    );
    Ok(())
}

/// Undoes byte deltas: replaces each byte of a plane with the sum of all bytes up to it.
pub(super) fn undo(plane: &mut [u8]) {
    dispatch!(Level::new(), simd => sums(simd, plane));
}

#[inline(always)]
fn sums<S: Simd>(simd: S, plane: &mut [u8]) {
    let zero = u8x64::splat(simd, 0);
    let last = u8x16::splat(simd, 15);
    let mut sum = u8x16::splat(simd, 0);
    let (chunks, rest) = plane.as_chunks_mut::<LANES>();
    for chunk in chunks {
        let mut bytes = u8x64::load_array_ref(simd, chunk);
        // Sum 2, 4, 8, and then 16 neighbouring bytes, separately in each block of 16 bytes.
        bytes = bytes + zero.slide_within_blocks::<15>(bytes);
        bytes = bytes + zero.slide_within_blocks::<14>(bytes);
        bytes = bytes + zero.slide_within_blocks::<12>(bytes);
        bytes = bytes + zero.slide_within_blocks::<8>(bytes);
        let (low, high) = bytes.split();
        let ((a, b), (c, d)) = (low.split(), high.split());
        for (part, to) in [a, b, c, d].into_iter().zip(chunk.as_chunks_mut().0) {
            // This addition is the only operation that has to wait for the previous iteration.
            let next = sum + part.swizzle_dyn(last);
            (part + sum).store_array(to);
            sum = next;
        }
    }
    let mut sum = sum.to_array()[0];
    for byte in rest {
        sum = sum.wrapping_add(*byte);
        *byte = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_undo_differences(plane in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut deltas = vec![0xEE; plane.len()];
            of(&plane, &mut deltas).unwrap();
            let before = |i: usize| i.checked_sub(1).map_or(0, |i| plane[i]);
            let slow: Vec<u8> = (0..plane.len()).map(|i| plane[i].wrapping_sub(before(i))).collect();
            prop_assert_eq!(&deltas, &slow);
            undo(&mut deltas);
            prop_assert_eq!(deltas, plane);
        }
    }
}

//! Bit planes of a byte plane: row `k` of eight has bit `k` of every byte. A byte of a row has the
//! bits of eight bytes, that of the first one lowest.

use super::shuffle::{join8, split8};
use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x64, u64x8};

/// Bytes of a row that are made at a time: a cache line, from 512 bytes of the plane.
const LANES: usize = 64;

/// Squares of 1, 2 and 4 bits are swapped across the diagonal: how far apart they are, and where
/// the lower ones are.
const SWAPS: [(u32, u64); 3] = [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)];

/// Fills `rows`, as long as `plane`, with the bit planes of `plane`, a multiple of 8 bytes long.
pub(super) fn of(plane: &[u8], rows: &mut [u8]) {
    debug_assert!(plane.len() == rows.len() && plane.len().is_multiple_of(8), "{} {}", plane.len(), rows.len());
    dispatch!(Level::new(), simd => rows_of(simd, plane, rows));
}

/// Fills `plane`, as long as `rows`, with the bytes whose bit planes are `rows`.
pub(super) fn undo(rows: &[u8], plane: &mut [u8]) {
    debug_assert!(plane.len() == rows.len() && plane.len().is_multiple_of(8), "{} {}", plane.len(), rows.len());
    dispatch!(Level::new(), simd => plane_of(simd, rows, plane));
}

/// Fills `out` with the bit planes of a block, which is given both as byte planes, `item` of them,
/// and as items. Items in whole groups of eight become bit planes. The rest stay items, at the end.
pub(super) fn of_block(items: &[u8], planes: &[u8], item: usize, out: &mut [u8]) {
    let count = items.len() / item.max(1);
    let eights = count - count % 8;
    let (rows, rest) = out.split_at_mut(eights * item);
    for (plane, rows) in planes.chunks_exact(count.max(1)).zip(rows.chunks_exact_mut(eights.max(1))) {
        of(plane.get(..eights).unwrap_or_default(), rows);
    }
    rest.copy_from_slice(items.get(eights * item..).unwrap_or_default());
}

/// Fills `planes` with the byte planes of a block, from its bit planes and the items at its end,
/// both in `block`.
pub(super) fn undo_block(block: &[u8], item: usize, planes: &mut [u8]) {
    let count = block.len() / item.max(1);
    let eights = count - count % 8;
    let (rows, rest) = block.split_at(eights * item);
    for (j, plane) in planes.chunks_exact_mut(count.max(1)).enumerate() {
        let (plane, last) = plane.split_at_mut(eights);
        undo(rows.get(j * eights..(j + 1) * eights).unwrap_or_default(), plane);
        for (to, item) in last.iter_mut().zip(rest.chunks_exact(item)) {
            *to = item.get(j).copied().unwrap_or_default();
        }
    }
}

#[inline(always)]
fn rows_of<S: Simd>(simd: S, plane: &[u8], rows: &mut [u8]) {
    let mut rows = rows_mut(rows);
    let mut parts = plane.chunks_exact(8 * LANES);
    let mut done = 0;
    for part in &mut parts {
        let mut vectors = load(simd, part);
        for vector in &mut vectors {
            *vector = transposed(simd, *vector);
        }
        for (vector, row) in split8(vectors).into_iter().zip(&mut rows) {
            if let Some(row) = row.get_mut(done..).and_then(|row| row.first_chunk_mut()) {
                vector.store_array(row);
            }
        }
        done += LANES;
    }
    for (m, bytes) in parts.remainder().as_chunks().0.iter().enumerate() {
        let bits = transposed8(*bytes);
        for (bits, row) in bits.into_iter().zip(&mut rows) {
            if let Some(to) = row.get_mut(done + m) {
                *to = bits;
            }
        }
    }
}

#[inline(always)]
fn plane_of<S: Simd>(simd: S, rows: &[u8], plane: &mut [u8]) {
    let rows = rows_ref(rows);
    let mut parts = plane.chunks_exact_mut(8 * LANES);
    let mut done = 0;
    for part in &mut parts {
        let vectors = rows.map(|row| {
            let row = row.get(done..).and_then(|row| row.first_chunk());
            row.map_or(u8x64::splat(simd, 0), |row| u8x64::load_array_ref(simd, row))
        });
        for (vector, to) in join8(vectors).into_iter().zip(part.as_chunks_mut().0) {
            transposed(simd, vector).store_array(to);
        }
        done += LANES;
    }
    for (m, to) in parts.into_remainder().as_chunks_mut().0.iter_mut().enumerate() {
        *to = transposed8(rows.map(|row| row.get(done + m).copied().unwrap_or_default()));
    }
}

#[inline(always)]
fn load<S: Simd>(simd: S, part: &[u8]) -> [u8x64<S>; 8] {
    let chunks = part.as_chunks().0;
    std::array::from_fn(|i| chunks.get(i).map_or(u8x64::splat(simd, 0), |chunk| u8x64::load_array_ref(simd, chunk)))
}

/// Transposes each group of eight bytes as a square of bits.
#[inline(always)]
fn transposed<S: Simd>(simd: S, bytes: u8x64<S>) -> u8x64<S> {
    let mut x: u64x8<S> = bytes.bitcast();
    for (shift, mask) in SWAPS {
        let differ = (x ^ (x >> shift)) & u64x8::splat(simd, mask);
        x = x ^ differ ^ (differ << shift);
    }
    x.bitcast()
}

fn transposed8(bytes: [u8; 8]) -> [u8; 8] {
    let mut x = u64::from_le_bytes(bytes);
    for (shift, mask) in SWAPS {
        let differ = (x ^ (x >> shift)) & mask;
        x ^= differ ^ (differ << shift);
    }
    x.to_le_bytes()
}

fn rows_ref(rows: &[u8]) -> [&[u8]; 8] {
    let mut parts = rows.chunks_exact((rows.len() / 8).max(1));
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn rows_mut(rows: &mut [u8]) -> [&mut [u8]; 8] {
    let mut parts = rows.chunks_exact_mut((rows.len() / 8).max(1));
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_have_a_bit_of_each_byte(eights in 0..300_usize, seed: u64) {
            let mut state = seed | 1;
            let plane: Vec<u8> = (0..8 * eights)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut rows = vec![0xEE; plane.len()];
            of(&plane, &mut rows);
            let slow: Vec<u8> = (0..8)
                .flat_map(|k| plane.chunks(8).map(move |eight| (0..8).map(|i| (eight[i] >> k & 1) << i).sum()))
                .collect();
            prop_assert_eq!(&rows, &slow);
            let mut back = vec![0xEE; plane.len()];
            undo(&rows, &mut back);
            prop_assert_eq!(back, plane);
        }
    }
}

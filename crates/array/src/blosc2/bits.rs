//! Bit planes of a byte plane. Row `k` of the eight rows contains bit `k` of every byte. Each byte of a row contains
//! the bits of eight bytes, with the bit of the first byte lowest.

use super::shuffle::{join8, split8};
use fearless_simd::prelude::{Bytes, Simd, SimdBase};
use fearless_simd::{Level, dispatch, u8x64, u64x8};
use shardpack_base::parts::{check_length, part};
use shardpack_format::{Result, bug};

/// Number of row bytes produced at a time: one cache line, made from 512 bytes of the plane.
const LANES: usize = 64;

/// Steps of the transposition. They swap squares of 1, 2 and 4 bits across the diagonal. Each entry is the distance
/// between the two squares, in bits, and a mask that selects the lower square.
const SWAPS: [(u32, u64); 3] = [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0x0000_0000_F0F0_F0F0)];

/// Fills `rows` with the bit planes of `plane`. Both have the same length, a multiple of 8.
pub(super) fn of(plane: &[u8], rows: &mut [u8]) -> Result<()> {
    check(plane.len(), rows.len())?;
    dispatch!(Level::new(), simd => rows_of(simd, plane, rows)).map_or_else(beyond, Ok)
}

/// Fills `plane` with the bytes whose bit planes are `rows`. Both have the same length.
pub(super) fn undo(rows: &[u8], plane: &mut [u8]) -> Result<()> {
    check(rows.len(), plane.len())?;
    dispatch!(Level::new(), simd => plane_of(simd, rows, plane)).map_or_else(beyond, Ok)
}

fn check(from: usize, to: usize) -> Result<()> {
    check_length("size of the bit planes", to, from)?;
    check_length("size of the bit planes, a multiple of 8", from / 8 * 8, from)
}

#[cold]
fn beyond<T>() -> T {
    bug("bit planes are not eight rows of the same length")
}

fn items_of(bytes: usize, item: usize, other: usize) -> Result<usize> {
    let items = bytes / item.max(1);
    check_length("size of a block of bit planes", other, bytes)?;
    check_length("size of the items in a block of bit planes", items * item, bytes)?;
    Ok(items)
}

/// Fills `out` with the bit planes of a block. The caller passes the block both as items and as `item` byte planes.
/// Only whole groups of eight items become bit planes. The remaining items are copied unchanged to the end.
pub(super) fn of_block(items: &[u8], planes: &[u8], item: usize, out: &mut [u8]) -> Result<()> {
    items_of(planes.len(), item, items.len())?;
    let count = items_of(items.len(), item, out.len())?;
    let eights = count - count % 8;
    let (rows, rest) = out.split_at_mut(eights * item);
    for (plane, rows) in planes.chunks_exact(count.max(1)).zip(rows.chunks_exact_mut(eights.max(1))) {
        of(part(plane, 0..eights, "byte plane")?, rows)?;
    }
    rest.copy_from_slice(part(items, eights * item..items.len(), "items after the last eight")?);
    Ok(())
}

/// Fills `planes` with the byte planes of `block`, which consists of bit planes followed by the items that did not fill
/// a group of eight.
pub(super) fn undo_block(block: &[u8], item: usize, planes: &mut [u8]) -> Result<()> {
    let count = items_of(block.len(), item, planes.len())?;
    let eights = count - count % 8;
    let (rows, rest) = block.split_at(eights * item);
    for (j, plane) in planes.chunks_exact_mut(count.max(1)).enumerate() {
        let (plane, last) = plane.split_at_mut(eights);
        undo(part(rows, j * eights..(j + 1) * eights, "bit planes in a byte plane")?, plane)?;
        for (to, from) in last.iter_mut().zip(rest.iter().skip(j).step_by(item)) {
            *to = *from;
        }
    }
    Ok(())
}

#[inline(always)]
fn rows_of<S: Simd>(simd: S, plane: &[u8], rows: &mut [u8]) -> Option<()> {
    let mut rows = rows_mut(rows);
    let mut done = 0;
    for part in plane.as_chunks().0.as_chunks::<8>().0 {
        let mut vectors = [u8x64::splat(simd, 0); 8];
        for k in 0..8 {
            *vectors.get_mut(k)? = transposed(simd, u8x64::load_array_ref(simd, part.get(k)?));
        }
        let split = split8(vectors);
        for k in 0..8 {
            split.get(k)?.store_array(rows.get_mut(k)?.get_mut(done..)?.first_chunk_mut()?);
        }
        done += LANES;
    }
    for (m, bytes) in plane.get(8 * done..)?.as_chunks().0.iter().enumerate() {
        let bits = transposed8(*bytes);
        for (bits, row) in bits.into_iter().zip(&mut rows) {
            *row.get_mut(done + m)? = bits;
        }
    }
    Some(())
}

#[inline(always)]
fn plane_of<S: Simd>(simd: S, rows: &[u8], plane: &mut [u8]) -> Option<()> {
    let rows = rows_ref(rows);
    let mut done = 0;
    for part in plane.as_chunks_mut().0.as_chunks_mut::<8>().0 {
        let mut vectors = [u8x64::splat(simd, 0); 8];
        for k in 0..8 {
            *vectors.get_mut(k)? = u8x64::load_array_ref(simd, rows.get(k)?.get(done..)?.first_chunk()?);
        }
        let joined = join8(vectors);
        for k in 0..8 {
            transposed(simd, *joined.get(k)?).store_array(part.get_mut(k)?);
        }
        done += LANES;
    }
    for (m, to) in plane.get_mut(8 * done..)?.as_chunks_mut().0.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        for (byte, row) in bytes.iter_mut().zip(rows) {
            *byte = *row.get(done + m)?;
        }
        *to = transposed8(bytes);
    }
    Some(())
}

/// Transposes each group of eight bytes as an 8 × 8 square of bits.
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

/// Returns the eight rows in `rows`. If `rows` is empty, all eight are empty.
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
    use shardpack_format::Error;

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
            of(&plane, &mut rows).unwrap();
            let slow: Vec<u8> = (0..8)
                .flat_map(|k| plane.chunks(8).map(move |eight| (0..8).map(|i| (eight[i] >> k & 1) << i).sum()))
                .collect();
            prop_assert_eq!(&rows, &slow);
            let mut back = vec![0xEE; plane.len()];
            undo(&rows, &mut back).unwrap();
            prop_assert_eq!(back, plane);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        let is_internal = |result: Result<()>| matches!(result, Err(Error::Internal { .. }));
        for (from, to) in [(8, 16), (16, 8), (12, 12), (0, 8)] {
            assert!(is_internal(of(&vec![1; from], &mut vec![0; to])), "{from} and {to}");
            assert!(is_internal(undo(&vec![1; from], &mut vec![0; to])), "{from} and {to}");
        }
        for (from, item, to) in [(32, 2, 16), (16, 2, 32), (33, 2, 33), (32, 0, 32)] {
            let mut out = vec![0; to];
            assert!(is_internal(undo_block(&vec![1; from], item, &mut out)), "{from} by {item} and {to}");
            assert!(is_internal(of_block(&vec![1; from], &vec![1; from], item, &mut out)), "{from} by {item} and {to}");
        }
        assert!(is_internal(of_block(&[1; 32], &[1; 16], 2, &mut [0; 32])), "planes of another length");
    }
}

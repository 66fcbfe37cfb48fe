//! Tests the decoder with chunks that are assembled byte by byte. The Python tests compare it with c-blosc2 itself.
#![allow(clippy::indexing_slicing)]

use super::*;
use proptest::prelude::*;

/// Builds a chunk with one block that consists of `streams`.
fn chunk_of(item: u8, unit: usize, flags: u8, filters: [u8; 6], metas: [u8; 6], streams: &[u8]) -> Vec<u8> {
    let mut out = vec![5, 1, flags, item];
    for size in [unit, unit, 36 + streams.len()] {
        out.extend((size as u32).to_le_bytes());
    }
    out.extend(filters);
    out.extend([0; 2]);
    out.extend(metas);
    out.extend([0; 2]);
    out.extend(36_u32.to_le_bytes());
    out.extend(streams);
    out
}

fn decoded(chunk: &[u8], unit: usize) -> Result<Vec<u8>> {
    let chunk = ForeignChunk::parse(chunk, unit)?;
    let mut out = vec![0xEE; unit];
    for number in 0..chunk.blocks() {
        ForeignDecoder::default().decode_block(&chunk, number, &mut out)?;
    }
    Ok(out)
}

fn stored(stream: &[u8]) -> Vec<u8> {
    [&(stream.len() as u32).to_le_bytes(), stream].concat()
}

#[test]
fn blosclz_literals_matches_and_far_matches() {
    let lz = |stream: &[u8], unit: usize| {
        let mut out = vec![0xEE; unit];
        blosclz::decode(stream, &mut out).map(|()| out)
    };
    // The stream has three literals, and a match of 8 bytes at a distance of 3.
    assert_eq!(lz(&[2, b'a', b'b', b'c', 6 << 5, 2], 11).unwrap(), b"abcabcabcab");
    // The stream has one literal, a match of 9 + 10 bytes at a distance of 1, and a literal.
    let run = [vec![b'x'; 20], b"y".to_vec()].concat();
    assert_eq!(lz(&[0, b'x', 7 << 5, 10, 0, 0, b'y'], 21).unwrap(), run);
    // The stream has 8,192 literals, and a match of 3 bytes at the smallest distance that counts as far.
    let literals: Vec<u8> = (0..8192_u32).map(|i| (i * i / 7) as u8).collect();
    let mut stream: Vec<u8> = literals.chunks(32).flat_map(|part| [&[31], part].concat()).collect();
    stream.extend([1 << 5 | 31, 255, 0, 0]);
    let expected = [&literals[..], &literals[..3]].concat();
    assert_eq!(lz(&stream, 8195).unwrap(), expected);
    // Four invalid streams: a match before the start, a match past the end, a truncated stream, and an empty stream.
    for (bad, unit) in [(&[0, b'x', 1 << 5, 1][..], 4), (&[0, b'x', 7 << 5, 255, 0, 0], 9), (&[9, 1], 9), (&[], 9)] {
        assert!(lz(bad, unit).is_err(), "{bad:?}");
    }
}

/// Undoes a filter byte by byte, as described in the documentation of c-blosc2.
fn slow(filter: u8, item: usize, block: &[u8]) -> Vec<u8> {
    let mut out = block.to_vec();
    let items = block.len() / item;
    match filter {
        1 => (0..items * item).for_each(|at| out[at] = block[at % item * items + at / item]),
        2 => {
            let eights = items / 8 * 8;
            for (at, to) in out.iter_mut().enumerate().take(eights * item) {
                let (number, byte) = (at / item, at % item);
                let row = |bit: usize| block[(byte * 8 + bit) * (eights / 8) + number / 8] >> (number % 8) & 1;
                *to = (0..8).fold(0, |value, bit| value | row(bit) << bit);
            }
        }
        3 => (item..items * item).for_each(|at| out[at] ^= out[at - item]),
        _ => {
            for plane in out[..items * item].chunks_mut(items.max(1)) {
                (1..plane.len()).for_each(|at| plane[at] = plane[at].wrapping_add(plane[at - 1]));
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn filters_are_undone_as_by_the_slow_twin(
        block in prop::collection::vec(any::<u8>(), 9..400),
        item in prop::sample::select(vec![1_u8, 2, 3, 4, 8, 16, 7]),
        filters in prop::sample::select(vec![
            [0, 0, 0, 0, 0, 1],
            [0, 2, 0, 4, 0, 0],
            [1, 35, 0, 0, 0, 0],
            [3, 0, 0, 0, 0, 1],
        ]),
    ) {
        let metas = filters.map(|filter| if filter == 35 { item } else { 0 });
        let mut undone = block.clone();
        let found = ForeignFilters::of(filters, metas, item).unwrap();
        found.undo(&[], &mut undone, &mut vec![0; block.len()]).unwrap();
        let items = usize::from(item);
        // Delta treats items as single bytes or as 8-byte items if their size is not 1, 2, 4 or 8.
        let step = |filter| match (filter, items) {
            (3, 3 | 7) => 1,
            (3, 16) => 8,
            _ => items,
        };
        let numbers = filters.iter().rev().filter(|filter| ![0, 4].contains(*filter));
        let expected = numbers.fold(block.clone(), |block, filter| slow(*filter, step(*filter), &block));
        prop_assert_eq!(undone, expected);
    }

    #[test]
    fn no_bytes_panic(
        block in prop::collection::vec(any::<u8>(), 1..120),
        flags in any::<u8>(),
        item in any::<u8>(),
        filter in 0_u8..40,
        changes in prop::collection::vec((0_usize..150, any::<u8>()), 0..4),
    ) {
        let mut chunk = chunk_of(item, 64, flags | 5, [filter, 1, 0, 0, 0, 0], [0; 6], &block);
        for (at, byte) in changes {
            if let Some(to) = chunk.get_mut(at) {
                *to = byte;
            }
        }
        let _ = decoded(&chunk, 64);
    }
}

#[test]
fn delta_compares_with_the_first_block() {
    // The chunk has three blocks of one stream each. The last block is short.
    let mut chunk = chunk_of(2, 128, 0x95, [3, 0, 0, 0, 0, 0], [0; 6], &[]);
    chunk.truncate(32);
    chunk[8] = 50;
    let blocks = [vec![1; 50], (0..50).collect(), vec![0; 28]];
    let streams = [stored(&blocks[0]), stored(&blocks[1]), vec![0; 4]];
    let starts = [44, 44 + 54, 44 + 108].map(u32::to_le_bytes);
    chunk.extend(starts.concat());
    chunk.extend(streams.concat());
    chunk[12] = chunk.len() as u8;
    // The items have two bytes, and each decoded item is the XOR of all items up to it.
    let first: Vec<u8> = (0..50).map(|at| if at / 2 % 2 == 0 { 1 } else { 0 }).collect();
    let second: Vec<u8> = first.iter().zip(&blocks[1]).map(|(a, b)| a ^ b).collect();
    assert_eq!(decoded(&chunk, 128).unwrap(), [&first[..], &second, &first[..28]].concat());
}

#[test]
fn special_values() {
    let mut unit = [7; 8];
    fill_special(2, 4, &mut unit).unwrap();
    assert_eq!(unit, [0, 0, 0xC0, 0x7F, 0, 0, 0xC0, 0x7F]);
    fill_special(4, 3, &mut unit).unwrap();
    assert_eq!(unit, [0; 8]);
    assert!(fill_special(2, 2, &mut unit).is_err() && fill_special(5, 4, &mut unit).is_err());
    assert!(fill_special(2, 8, &mut [0; 12]).is_err());
}

//! Tests the LZ4 kernel alone on blocks of arbitrary sequences. Together, they cover every kind of copy at every
//! alignment.

use super::cases;
use crate::cubes::wire::{STREAM_WARPS, StreamSource, StreamTask, Wire};
use crate::driver::Params;
use proptest::prelude::*;
use shardpack_gpu_play::{Device, MANNERS};

/// Literals followed by a match. The distance of the match is in bytes, or in thousandths of the output so far.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    literals: usize,
    offset: Offset,
    length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Offset {
    Bytes(usize),
    Part(usize),
}

fn sequence() -> impl Strategy<Value = Sequence> {
    let literals = prop_oneof![4 => Just(0), 4 => 0..16_usize, 2 => 10..40_usize, 1 => 100..1500_usize];
    let offset = prop_oneof![
        3 => (1..40_usize).prop_map(Offset::Bytes),
        2 => (100..300_usize).prop_map(Offset::Bytes),
        1 => (3700..4200_usize).prop_map(Offset::Bytes),
        2 => (0..=1000_usize).prop_map(Offset::Part),
    ];
    let length = prop_oneof![5 => 4..20_usize, 3 => 15..70_usize, 2 => 60..400_usize, 1 => 250..3000_usize];
    (literals, offset, length).prop_map(|(literals, offset, length)| Sequence { literals, offset, length })
}

fn extended(mut n: usize, block: &mut Vec<u8>) {
    while n >= 255 {
        block.push(255);
        n -= 255;
    }
    block.push(n as u8);
}

fn block(sequences: &[Sequence], last: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut block, mut out, mut noise) = (Vec::new(), Vec::<u8>::new(), 1_u32);
    let mut write = |literals: usize, matched: Option<(usize, usize)>, out: &mut Vec<u8>| {
        let length = matched.map_or(0, |(_, length)| length - 4);
        block.push((literals.min(15) << 4 | length.min(15)) as u8);
        if literals >= 15 {
            extended(literals - 15, &mut block);
        }
        for _ in 0..literals {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            block.push((noise >> 24) as u8);
            out.push((noise >> 24) as u8);
        }
        let Some((offset, _)) = matched else { return };
        block.extend((offset as u16).to_le_bytes());
        if length >= 15 {
            extended(length - 15, &mut block);
        }
        for _ in 0..length + 4 {
            out.push(out[out.len() - offset]);
        }
    };
    for &Sequence { literals, offset, length } in sequences {
        // The first byte must be a literal.
        let literals = if out.is_empty() { literals.max(1) } else { literals };
        let there = out.len() + literals;
        let offset = match offset {
            Offset::Bytes(n) => n.min(there),
            Offset::Part(thousandths) => (there * thousandths / 1000).clamp(1, 65_535),
        };
        write(literals, Some((offset, length)), &mut out);
    }
    write(last, None, &mut out);
    (block, out)
}

/// Decodes the blocks and checks the results. The blocks begin and end at unaligned offsets in a slot.
fn decoded(blocks: &[(Vec<u8>, Vec<u8>)]) {
    for manner in MANNERS {
        let (mut slot, mut tasks, mut places) = (vec![manner.poison; 256], Vec::new(), Vec::new());
        for (number, (block, out)) in (0..).zip(blocks) {
            slot.resize(slot.len() + number as usize * 5 % 16, manner.poison);
            let from = slot.len() as u64;
            slot.extend(block);
            slot.resize((slot.len() + 16).next_multiple_of(16) + number as usize % 2 * 3, manner.poison);
            let to = slot.len();
            slot.resize(to + out.len() + 16, manner.poison);
            let (bytes, out_bytes) = (block.len() as u32, out.len() as u32);
            StreamTask { source: StreamSource::Lz4(from), to: to as u64, bytes, out_bytes, row: number, number }
                .put(&mut tasks);
            places.push(to..to + out.len());
        }
        slot.resize(slot.len().next_multiple_of(16), manner.poison);
        let table = slot.len() as u64;
        slot.extend(tasks);
        let mut device = Device::new(manner);
        let (slot, status) = (device.upload(&slot), device.upload(&vec![0; 4 * blocks.len()]));
        let (slot_at, status_at, count) = (device.address(slot), device.address(status), blocks.len() as u32);
        let params =
            Params::new().address(slot_at).address(0).address(0).address(status_at).address(table).u32(count).u32(0);
        let grid = [count.div_ceil(STREAM_WARPS), 1, 1];
        device.launch("cube_streams", grid, [32 * STREAM_WARPS, 1, 1], &params.bytes()).unwrap();
        assert!(device.bytes(status).iter().all(|byte| *byte == 0), "refused: {:?}", device.bytes(status));
        for (place, (_, out)) in places.into_iter().zip(blocks) {
            let found = &device.bytes(slot)[place.clone()];
            let first = found.iter().zip(out).position(|(a, b)| a != b);
            assert!(first.is_none(), "byte {first:?} of {} differs", out.len());
            assert!(
                device.bytes(slot)[place.end..place.end + 16].iter().all(|b| *b == manner.poison),
                "written behind"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(70)))]
    #[test]
    fn any_sequences_are_decoded(
        blocks in prop::collection::vec((prop::collection::vec(sequence(), 0..60), 12..60_usize), 1..6)
    ) {
        let blocks: Vec<_> = blocks.iter().map(|(sequences, last)| block(sequences, *last)).collect();
        decoded(&blocks);
    }
}

/// Tests matches of many lengths, starting at every byte of a word.
#[test]
fn every_period_is_repeated() {
    let blocks: Vec<_> = (1..=140)
        .map(|period| {
            let sequences: Vec<_> =
                [4, 18, 19, 31, 32, 33, 36, 63, 64, 65, 127, 128, 129, 131, 132, 133, 259, 260, 600]
                    .into_iter()
                    .enumerate()
                    .map(|(n, length)| Sequence {
                        literals: (period + n) % 4 + if n == 0 { 140 } else { 0 },
                        offset: Offset::Bytes(period),
                        length,
                    })
                    .collect();
            block(&sequences, 12)
        })
        .collect();
    decoded(&blocks);
}

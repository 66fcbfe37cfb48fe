//! Damages the format of values: their headers, tables, markers, offsets, shapes and types.

use super::jpegs::Random;
use shardpack_format::{ArrayDescriptor, Codec, Limits};
use std::ops::Range;

const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    63,
    64,
    255,
    0xFFFF,
    1 << 16,
    (4 << 20) - 1,
    (4 << 20) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    u64::MAX,
];

fn wrong(random: &mut Random, right: u64) -> u64 {
    match random.below(3) {
        0 => right.wrapping_add(u64::from(random.below(9))).wrapping_sub(4),
        1 => u64::from(random.next()),
        _ => EDGES[random.below(16) as usize],
    }
}

/// Replaces the number at `at` by a wrong one. Changes nothing if the range exceeds the bytes.
fn put(random: &mut Random, bytes: &mut [u8], at: Range<usize>, is_little: bool) {
    let Some(place) = bytes.get_mut(at) else { return };
    let mut number = [0; 8];
    number.iter_mut().zip(place.iter()).for_each(|(to, from)| *to = *from);
    if !is_little {
        number[..place.len()].reverse();
    }
    let mut number = wrong(random, u64::from_le_bytes(number)).to_le_bytes();
    if !is_little {
        number[..place.len()].reverse();
    }
    let length = place.len();
    place.copy_from_slice(&number[..length]);
}

fn at(random: &mut Random, range: Range<usize>) -> usize {
    range.start + random.below(range.len().max(1) as u32) as usize
}

/// Returns the markers before the entropy-coded bytes with the ranges of their segments, and the start of the
/// entropy-coded bytes.
fn segments(jpeg: &[u8]) -> (Vec<(u8, Range<usize>)>, usize) {
    let (mut found, mut at) = (Vec::new(), 2);
    while let Some(&[0xFF, marker, high, low]) = jpeg.get(at..at + 4) {
        let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
        if end > jpeg.len() || end < at + 4 {
            break;
        }
        found.push((marker, at..end));
        at = end;
        if marker == 0xDA {
            break;
        }
    }
    (found, at.min(jpeg.len()))
}

fn hurt_picture(random: &mut Random, jpeg: &mut Vec<u8>) {
    let (found, scan) = segments(jpeg);
    let of = |random: &mut Random, wanted: u8| {
        let of_kind: Vec<_> = found.iter().filter(|(marker, _)| *marker == wanted).collect();
        (!of_kind.is_empty()).then(|| of_kind[random.below(of_kind.len() as u32) as usize].1.clone())
    };
    let restarts: Vec<usize> =
        (scan..jpeg.len().saturating_sub(1)).filter(|&i| jpeg[i] == 0xFF && jpeg[i + 1] & 0xF8 == 0xD0).collect();
    let restart = |random: &mut Random| restarts.get(random.below(restarts.len().max(1) as u32) as usize).copied();
    match random.below(18) {
        // Change the frame's height, width, number of components, factors or tables.
        0 => {
            if let Some(frame) = of(random, 0xC0) {
                let start = frame.start + [5, 7][random.below(2) as usize];
                put(random, jpeg, start..start + 2, false);
            }
        }
        1 | 2 => {
            if let Some(frame) = of(random, 0xC0) {
                let at = at(random, frame.start + 9..frame.end);
                jpeg[at] = random.next() as u8;
            }
        }
        3 => {
            if let Some(frame) = of(random, 0xC0) {
                jpeg[frame.start + 1] = 0xC0 | random.below(16) as u8;
            }
        }
        4 | 5 => {
            if let Some(table) = of(random, 0xC4) {
                let end = (table.start + 21).min(table.end);
                let at = at(random, table.start + 4..end);
                jpeg[at] = wrong(random, jpeg[at].into()) as u8;
            }
        }
        6 => {
            if let Some(table) = of(random, 0xC4) {
                let at = at(random, (table.start + 21).min(table.end - 1)..table.end);
                jpeg[at] = random.next() as u8;
            }
        }
        7 => {
            if let Some(table) = of(random, 0xDB) {
                let at = at(random, table.start + 4..table.end);
                jpeg[at] = wrong(random, jpeg[at].into()) as u8;
            }
        }
        8 => {
            if let Some(interval) = of(random, 0xDD) {
                put(random, jpeg, interval.start + 4..interval.start + 6, false);
            }
        }
        9 => {
            if let Some(header) = of(random, 0xDA) {
                let at = at(random, header.start + 4..header.end);
                jpeg[at] = wrong(random, jpeg[at].into()) as u8;
            }
        }
        // Change the length or the marker of a segment, or remove or duplicate a segment.
        10 => {
            if let Some((_, range)) = found.get(random.below(found.len().max(1) as u32) as usize) {
                put(random, jpeg, range.start + 2..range.start + 4, false);
            }
        }
        11 => {
            if let Some((_, range)) = found.get(random.below(found.len().max(1) as u32) as usize) {
                match random.below(3) {
                    0 => drop(jpeg.drain(range.clone())),
                    1 => {
                        let again = jpeg[range.clone()].to_vec();
                        jpeg.splice(scan..scan, again);
                    }
                    _ => jpeg[range.start + 1] = random.next() as u8,
                }
            }
        }
        // Change, remove or insert restart markers.
        12 | 13 => {
            if let Some(at) = restart(random) {
                match random.below(3) {
                    0 => jpeg[at + 1] = 0xD0 | random.below(16) as u8,
                    1 => drop(jpeg.drain(at..at + 2)),
                    _ => drop(jpeg.splice(at..at, [0xFF, 0xD0 | random.below(8) as u8])),
                }
            }
        }
        14 => {
            let at = at(random, scan..jpeg.len());
            jpeg.splice(at..at, [0xFF, 0xD0 | random.below(10) as u8]);
        }
        // Make restart intervals longer or shorter.
        15 => {
            if let (Some(a), Some(b)) = (restart(random), restart(random)) {
                let bytes = jpeg[a..b.max(a)].to_vec();
                let at = at(random, scan..jpeg.len());
                jpeg.splice(at..at, bytes);
            }
        }
        16 => {
            let at = at(random, scan..jpeg.len());
            jpeg.truncate(at);
        }
        _ => {
            for _ in 0..1 + random.below(20) {
                let at = at(random, scan..jpeg.len());
                if let Some(byte) = jpeg.get_mut(at) {
                    *byte = if random.below(3) == 0 { 0xFF } else { random.next() as u8 };
                }
            }
        }
    }
}

fn hurt_payload(random: &mut Random, payload: &mut Vec<u8>) {
    let (mut chunks, mut start) = (Vec::new(), 0);
    while let Some(size) = payload.get(start + 12..start + 16) {
        chunks.push(start);
        start += (u32::from_le_bytes(size.try_into().unwrap()) as usize).clamp(32, 1 << 30);
    }
    let chunk = chunks.get(random.below(chunks.len().max(1) as u32) as usize).copied().unwrap_or(0);
    // Change the table of blocks, which begins with the offset of the first block.
    let first = payload.get(chunk + 32..chunk + 36).map_or(36, |b| u32::from_le_bytes(b.try_into().unwrap()) as usize);
    let blocks = (first.saturating_sub(32) / 4).clamp(1, 1 << 10) as u32;
    let block = chunk + 32 + 4 * random.below(blocks) as usize;
    match random.below(12) {
        0 | 1 => {
            let at = chunk + random.below(32) as usize;
            if let Some(byte) = payload.get_mut(at) {
                *byte = if random.below(2) == 0 { *byte ^ 1 << random.below(8) } else { random.next() as u8 };
            }
        }
        2 => {
            let at = chunk + [4, 8, 12][random.below(3) as usize];
            put(random, payload, at..at + 4, true);
        }
        // Change the kind and the filters of the chunk.
        3 => {
            if let Some(byte) = payload.get_mut(chunk + 31) {
                *byte = (random.below(8) << 4) as u8;
            }
        }
        4 => {
            let at = chunk + 16 + random.below(14) as usize;
            if let Some(byte) = payload.get_mut(at) {
                *byte = [0, 1, 2, 3, 35, 255][random.below(6) as usize];
            }
        }
        5 => put(random, payload, block..block + 4, true),
        6 => {
            let other = chunk + 32 + 4 * random.below(blocks) as usize;
            if let (Some(a), Some(b)) = (payload.get(block..block + 4), payload.get(other..other + 4)) {
                let (a, b): ([u8; 4], [u8; 4]) = (a.try_into().unwrap(), b.try_into().unwrap());
                payload[block..block + 4].copy_from_slice(&b);
                payload[other..other + 4].copy_from_slice(&a);
            }
        }
        // Change the length or the first bytes of a stream.
        7 | 8 => {
            let stream = payload.get(block..block + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize);
            let stream = chunk.saturating_add(stream.unwrap_or(0));
            match random.below(2) {
                0 => put(random, payload, stream..stream.saturating_add(4), true),
                _ => {
                    let at = stream.saturating_add(4 + random.below(16) as usize);
                    if let Some(byte) = payload.get_mut(at) {
                        *byte = [0, 0x0F, 0xF0, 0xFF, random.next() as u8][random.below(5) as usize];
                    }
                }
            }
        }
        9 => {
            let at = at(random, 0..payload.len());
            match random.below(3) {
                0 => payload.truncate(at),
                1 => drop(payload.drain(at..(at + 8).min(payload.len()))),
                _ => payload.extend_from_within(at..),
            }
        }
        10 => {
            let (from, to) = (at(random, 0..payload.len()), at(random, 0..payload.len()));
            let count = (random.below(200) as usize).min(payload.len() - from.max(to));
            payload.copy_within(from..from + count, to);
        }
        _ => {
            for _ in 0..1 + random.below(12) {
                let at = at(random, 0..payload.len());
                if let Some(byte) = payload.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
        }
    }
}

fn hurt_descriptor(random: &mut Random, descriptor: &mut [u8]) {
    match random.below(6) {
        0 | 1 => {
            let at = random.below(8) as usize;
            if let Some(byte) = descriptor.get_mut(at) {
                *byte = random.below(18) as u8;
            }
        }
        2 => put(random, descriptor, 8..16, true),
        3 => {
            let at = 16 + 4 * random.below(4) as usize;
            put(random, descriptor, at..at + 4, true);
        }
        4 => {
            let axis = 32 + 8 * random.below(3) as usize;
            put(random, descriptor, axis..axis + 8, true);
        }
        // Swap two axes. The number of elements stays the same.
        _ => {
            if descriptor.len() >= 48 {
                let (a, b) = descriptor.split_at_mut(40);
                a[32..].swap_with_slice(&mut b[..8]);
            }
        }
    }
}

/// A stored value: its codec, bytes, descriptor, and decoded length if that differs from the number of bytes.
type Stored = (Codec, Vec<u8>, Vec<u8>, Option<u64>);

pub(crate) fn hurt(random: &mut Random, values: &mut [Stored]) {
    let value = random.below(values.len() as u32) as usize;
    let (codec, bytes, descriptor, decoded) = &mut values[value];
    for _ in 0..1 + random.below(2) {
        match codec {
            Codec::Jpeg => hurt_picture(random, bytes),
            _ if random.below(4) == 0 => hurt_descriptor(random, descriptor),
            // The lengths of raw values must stay valid.
            Codec::Raw => {
                let at = at(random, 0..bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            _ => hurt_payload(random, bytes),
        }
    }
    // Usually adapt the length in the record to the changed descriptor, but sometimes leave it as it was.
    let stated = ArrayDescriptor::parse(descriptor, &Limits::none());
    if let (Some(decoded), Ok(stated), false) = (decoded.as_mut(), stated, random.below(8) == 0)
        && *codec != Codec::Raw
    {
        *decoded = stated.stored_bytes().unwrap_or(*decoded);
    }
}

//! Tests the zstd kernel alone on frames of every kind, against libzstd.

use super::cases;
use crate::cubes::fault::Fault;
use crate::cubes::wire::{StreamSource, StreamTask, Wire};
use crate::driver::Params;
use proptest::prelude::*;
use shardpack_gpu_play::{Device, MANNERS, Manner};

/// Decodes frames, which are paired with their decoded sizes in bytes. Returns `None` for a rejected frame.
fn play(frames: &[(Vec<u8>, usize)], manner: Manner) -> Vec<Option<Vec<u8>>> {
    let (mut slot, mut tasks, mut places) = (vec![manner.poison; 256], Vec::new(), Vec::new());
    for (number, (frame, out_bytes)) in (0..).zip(frames) {
        slot.resize(slot.len() + number as usize * 5 % 16, manner.poison);
        let from = slot.len() as u64;
        slot.extend(frame);
        slot.resize((slot.len() + 16).next_multiple_of(16), manner.poison);
        slot.resize(slot.len() + number as usize % 4, manner.poison);
        let to = slot.len();
        slot.resize(to + out_bytes + 16, manner.poison);
        let (source, bytes) = (StreamSource::Zstd(from), frame.len() as u32);
        StreamTask { source, to: to as u64, bytes, out_bytes: *out_bytes as u32, row: number, number }.put(&mut tasks);
        places.push(to..to + out_bytes);
    }
    slot.resize(slot.len().next_multiple_of(16), manner.poison);
    let table = slot.len() as u64;
    slot.extend(tasks);
    let mut device = Device::new(manner);
    let (slot, status) = (device.upload(&slot), device.upload(&vec![0; 4 * frames.len()]));
    let (slot_at, status_at, count) = (device.address(slot), device.address(status), frames.len() as u32);
    let params =
        Params::new().address(slot_at).address(0).address(0).address(status_at).address(table).u32(count).u32(0);
    device.launch("cube_frames", [count, 1, 1], [32, 1, 1], &params.bytes()).unwrap();
    let statuses: Vec<u32> = device.bytes(status).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let slot = device.bytes(slot);
    for place in &places {
        assert!(slot[place.end..place.end + 16].iter().all(|byte| *byte == manner.poison), "written behind");
    }
    let out = |(number, (status, place)): (u32, (u32, std::ops::Range<usize>))| match Fault::of(status) {
        None => Some(slot[place].to_vec()),
        fault => {
            assert_eq!(fault, Some(Fault::Zstd { stream: number }));
            None
        }
    };
    (0..).zip(statuses.into_iter().zip(places)).map(out).collect()
}

fn assert_decoded(contents: &[(Vec<u8>, i32)]) {
    let frames: Vec<_> =
        contents.iter().map(|(bytes, level)| (zstd::bulk::compress(bytes, *level).unwrap(), bytes.len())).collect();
    for manner in MANNERS {
        for ((content, level), found) in contents.iter().zip(play(&frames, manner)) {
            let found = found.unwrap_or_else(|| panic!("{} bytes, level {level}: refused", content.len()));
            let differs = found.iter().zip(content).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{} bytes, level {level}", content.len());
        }
    }
}

fn content(kind: u32, bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state >> 8
    };
    let mut out: Vec<u8> = Vec::with_capacity(bytes);
    while out.len() < bytes {
        let n = out.len();
        match kind {
            // Noise with few bits per byte. Its literals are Huffman-coded, and there are hardly any matches.
            0 => out.push((noise() & noise() & 0x3F) as u8),
            1 => out.push((64.0 + 60.0 * (n as f64 / 700.0).sin()) as u8 + (noise() % 3) as u8),
            2 => {
                let word = noise() % 60;
                out.extend((0..3 + word % 9).map(|i| b'a' + ((word * 7 + i * i) % 26) as u8));
            }
            3 if n > 4 => {
                let (back, length) = (1 + noise() as usize % n.min(60_000), 1 + noise() as usize % 300);
                (0..length).for_each(|i| out.push(out[n - back + i]));
                (0..noise() % 20).for_each(|_| out.push(noise() as u8));
            }
            4 => out.push(noise() as u8),
            // A run of one byte.
            5 => {
                let value = noise() as u8;
                out.extend(std::iter::repeat_n(value, noise() as usize % 400));
            }
            _ => out.push((n / 97) as u8),
        }
    }
    out.truncate(bytes);
    out
}

#[test]
fn every_kind_and_level_is_decoded() {
    let mut contents = Vec::new();
    for kind in 0..7 {
        for (bytes, level) in
            [(1, 1), (5, 3), (63, 19), (300, 1), (2_000, 3), (9_000, -5), (65_536, 1), (65_536, 9), (65_536, 19)]
        {
            contents.push((content(kind, bytes, kind * 31 + bytes as u32), level));
        }
    }
    assert_decoded(&contents);
}

#[test]
fn blocks_share_tables() {
    let mixed = |seed| (0..7).flat_map(|kind| content(kind, 30_000 + 5_000 * kind as usize, seed)).collect::<Vec<u8>>();
    assert_decoded(&[
        (mixed(1), 1),
        (mixed(2), 6),
        (content(2, 400_000, 3), 3),
        (content(0, 300_000, 4), 19),
        (mixed(5), 19),
    ]);
}

/// The window of these frames is shorter than their content, as in every unit of plain zstd at low levels.
#[test]
fn frames_longer_than_their_window_are_decoded() {
    let contents = [(content(3, 1_300_000, 6), 1), (content(2, 700_000, 7), -3), (content(6, 2_500_000, 8), 3)];
    for (bytes, level) in &contents {
        let frame = zstd::bulk::compress(bytes, *level).unwrap();
        assert_eq!(frame[4] & 0x20, 0, "not in a single segment");
    }
    assert_decoded(&contents);
}

/// With a window of 1 KiB, no block may be larger than 1 KiB.
#[test]
fn blocks_longer_than_the_window_are_refused() {
    let plain = content(2, 700_000, 7);
    let mut frame = zstd::bulk::compress(&plain, 1).unwrap();
    frame[5] = 0;
    assert!(zstd::bulk::decompress(&frame, plain.len()).is_err());
    // Without the single-segment flag, this descriptor means that there is no content size.
    let mut unsized_frame = zstd::bulk::compress(&plain, 1).unwrap();
    unsized_frame[4] &= 0x3F;
    for manner in MANNERS {
        assert_eq!(play(&[(frame.clone(), plain.len()), (unsized_frame.clone(), plain.len())], manner), [None, None]);
    }
}

#[test]
fn truncated_frames_and_wrong_lengths_are_refused() {
    let plain = content(2, 5_000, 9);
    let frame = zstd::bulk::compress(&plain, 3).unwrap();
    let mut frames: Vec<_> = (0..frame.len()).step_by(61).map(|end| (frame[..end].to_vec(), plain.len())).collect();
    frames.push((frame.clone(), plain.len() + 1));
    frames.push((frame.clone(), plain.len() - 1));
    frames.push(([&frame[..], &[0]].concat(), plain.len()));
    for manner in MANNERS {
        assert!(play(&frames, manner).iter().all(Option::is_none));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(40)))]
    #[test]
    fn any_content_is_decoded(
        contents in prop::collection::vec((0..7_u32, 1..9_000_usize, any::<u32>(), prop::sample::select(vec![-7, 1, 2, 3, 5, 9, 15, 19, 22])), 1..6)
    ) {
        let contents: Vec<_> = contents.into_iter().map(|(kind, bytes, seed, level)| (content(kind, bytes, seed), level)).collect();
        assert_decoded(&contents);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20)))]
    /// Frame and block headers are not damaged, because the host checks them.
    #[test]
    fn damage_is_refused_or_decoded_as_libzstd_does(
        (kind, bytes, seed, level) in (0..6_u32, 20..6_000_usize, any::<u32>(), prop::sample::select(vec![1, 3, 19])),
        hurts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 20),
    ) {
        let plain = content(kind, bytes, seed);
        let frame = zstd::bulk::compress(&plain, level).unwrap();
        // Skip the magic number, the descriptor, the content size, and the header of the only block. Such a short
        // frame is a single segment.
        let body = 5 + (1 << (frame[4] >> 6)) + 3;
        prop_assume!(frame.len() > body);
        let frames: Vec<_> = hurts.iter().map(|(at, byte, how)| {
            let mut frame = frame.clone();
            let at = body + at.index(frame.len() - body);
            match how {
                0 => frame[at] ^= 1 << (byte % 8),
                1 => frame[at] = *byte,
                _ => frame[at..].iter_mut().take(3).for_each(|b| *b = b.wrapping_add(*byte)),
            }
            (frame, plain.len())
        }).collect();
        for manner in MANNERS {
            for ((frame, _), found) in frames.iter().zip(play(&frames, manner)) {
                let expected = zstd::bulk::decompress(frame, plain.len()).ok().filter(|out| out.len() == plain.len());
                if let Some(found) = found {
                    prop_assert!(expected.is_some(), "decoded what libzstd refuses");
                    prop_assert!(expected == Some(found), "other bytes than libzstd's");
                }
            }
        }
    }
}

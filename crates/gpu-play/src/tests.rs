//! Tests that the emulator behaves like a device and detects forbidden accesses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

use super::*;

struct Played {
    out: Result<Vec<u32>, String>,
}

fn play(manner: Manner, kernel: &str, blocks: u32, input: &[u32], choice: u32) -> Played {
    let mut device = Device::new(manner);
    let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let from = device.upload(&bytes);
    let to = device.alloc(bytes.len());
    let mut params = Vec::new();
    params.extend(device.address(from).to_ne_bytes());
    params.extend(device.address(to).to_ne_bytes());
    params.extend((input.len() as u32).to_ne_bytes());
    params.extend(choice.to_ne_bytes());
    let out = device
        .launch(kernel, [blocks, 1, 1], [64, 1, 1], &params)
        .map(|()| device.bytes(to).as_chunks::<4>().0.iter().map(|&b| u32::from_ne_bytes(b)).collect());
    Played { out }
}

#[test]
fn threads_meet_at_a_barrier_in_both_manners() {
    let input: Vec<u32> = (0..192).collect();
    let expected: Vec<u32> = (0..3).flat_map(|block| (0..64).rev().map(move |n| block * 64 + n)).collect();
    for manner in MANNERS {
        assert_eq!(play(manner, "play_reverse", 3, &input, 0).out.as_ref(), Ok(&expected));
    }
}

#[test]
fn a_missing_barrier_gives_two_results() {
    let input: Vec<u32> = (0..64).collect();
    let [a, b] = MANNERS.map(|manner| play(manner, "play_reverse", 1, &input, 1).out.unwrap());
    assert_ne!(a, b);
}

#[test]
fn warps_shuffle_and_vote() {
    let input: Vec<u32> = (0..64).map(|n| n * n + 3).collect();
    let expected: Vec<u32> = input.chunks(32).flat_map(|warp| [warp.iter().sum::<u32>() + 1000 * 16; 32]).collect();
    for manner in MANNERS {
        assert_eq!(play(manner, "play_warp_sum", 1, &input, 0).out.as_ref(), Ok(&expected));
    }
}

#[test]
fn errors_of_kernels_are_found() {
    let input = [7; 64];
    let words = [
        "",
        "4 bytes at offset 256 of buffer 1",
        "4 bytes at offset -4 of buffer 0",
        "63 of 64 threads wait",
        "an index outside of its array: 64 of 64",
        "not a multiple of 4",
        "1 of 64 threads wait",
    ];
    for manner in MANNERS {
        assert!(play(manner, "play_wrong", 1, &input, 0).out.is_ok());
        for (choice, words) in (0..).zip(words).skip(1) {
            let error = play(manner, "play_wrong", 1, &input, choice).out.unwrap_err();
            assert!(error.contains(words), "{choice}: {error}");
            // A failed launch must not affect the next launch.
            assert!(play(manner, "play_reverse", 1, &input, 0).out.is_ok());
        }
    }
    let error = play(MANNERS[0], "play_nothing", 1, &input, 0).out.unwrap_err();
    assert!(error.contains("no such kernel"), "{error}");
}

#[test]
fn halves_are_rounded_as_the_crate_half_rounds_them() {
    let mut bits: Vec<u32> = (0..=u16::MAX)
        .flat_map(|h| {
            let x = half::f16::from_bits(h).to_f32().to_bits();
            [
                x,
                x.wrapping_add(1),
                x.wrapping_sub(1),
                x | 0x1000,
                x | 0x0FFF,
                u32::from(h) << 16 | 0x8000,
                u32::from(h) << 16,
            ]
        })
        .collect();
    bits.extend((0..100_000_u32).map(|n| n.wrapping_mul(0x9E37_79B1)));
    bits.retain(|&b| !f32::from_bits(b).is_nan());
    let out = play(MANNERS[0], "play_halves", 1, &bits, 0).out.unwrap();
    for (&bits, out) in bits.iter().zip(out) {
        let x = f32::from_bits(bits);
        assert_eq!(out as u16, half::f16::from_f32(x).to_bits(), "{x:e}");
        assert_eq!((out >> 16) as u16, half::bf16::from_f32(x).to_bits(), "{x:e}");
    }
}

//! Tests that an invalid JPEG leads to an error or a cut, never to a panic, in time proportional to its size.

#[path = "../../../../../tests/bounded/clock.rs"]
mod clock;

use super::*;
use crate::testing::Jpeg;
use proptest::prelude::*;
use std::time::Duration;

/// Checks that cutting does not panic, and that the cut has a header and is not longer than the input.
/// Returns true if cutting succeeded.
fn survive(bytes: &[u8], rect: Rect, out: &mut Vec<u8>) -> bool {
    let Ok(header) = JpegHeader::parse(bytes) else { return false };
    let (width, height) = (u32::from(header.width), u32::from(header.height));
    let x = rect.x % width;
    let y = rect.y % height;
    let rect = Rect { x, y, width: 1 + rect.width % (width - x), height: 1 + rect.height % (height - y) };
    let plan = CutPlan::new(bytes, &header, rect).expect("a rectangle within the picture");
    assert!(plan.cut().shown.contains(&rect), "{rect} in {:?}", plan.cut());
    if plan.write(out).is_err() {
        return false;
    }
    let shown = JpegHeader::parse(out).expect("a header");
    assert_eq!((u32::from(shown.width), u32::from(shown.height)), (plan.cut().shown.width, plan.cut().shown.height));
    assert!(out.len() <= bytes.len(), "larger: {} of {}", out.len(), bytes.len());
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn no_mutation_makes_it_panic(
        case in cases(60),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..5),
        in_header in any::<bool>(),
    ) {
        let mut random = Random(case.seed);
        let mut bytes = case.jpeg(&mut random);
        for (at, value, what) in edits {
            let at = if in_header { at.index(bytes.len().min(640)) } else { at.index(bytes.len()) };
            match what {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => bytes.insert(at, 0xFF),
                _ => drop(bytes.drain(at..(at + usize::from(value & 15)).min(bytes.len().max(at + 1)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                bytes.push(value);
            }
        }
        let rect = random.rect(1000, 1000);
        let mut out = Vec::new();
        if survive(&bytes, rect, &mut out) {
            // The decoder must not crash on the cut, even if it is not a picture.
            let _ = decode(&out);
        }
    }

    #[test]
    fn no_bytes_behind_a_header_make_it_panic(
        tail in prop::collection::vec(prop_oneof![3 => Just(0xFF_u8), 2 => 0xD0..=0xD9_u8, 1 => any::<u8>()], 0..200),
        size in (any::<u16>(), any::<u16>()),
        interval in any::<u16>(),
        rect in any::<[u32; 4]>(),
    ) {
        let [x, y, width, height] = rect;
        let segments = vec![(0xDD, interval.to_be_bytes().to_vec())];
        let jpeg = Jpeg { width: size.0.max(1), height: size.1.max(1), segments, tail, ..Jpeg::default() };
        survive(&jpeg.bytes(), Rect { x, y, width, height }, &mut Vec::new());
    }
}

fn markers(jpeg: &[u8]) -> Vec<usize> {
    let start = JpegHeader::parse(jpeg).unwrap().scan_offset as usize;
    (start..jpeg.len() - 1).filter(|&at| jpeg[at] == 0xFF && matches!(jpeg[at + 1], 0xD0..=0xD7)).collect()
}

fn tiled() -> Vec<u8> {
    let mut random = Random(11);
    let pixels: Vec<u8> = (0..64 * 48 * 3).map(|_| random.next() as u8).collect();
    let how = Encoding { quality: 80, subsampling: Subsampling::S420, restart_interval: 1 };
    let mut out = Vec::new();
    Compressor::new().encode(&pixels, 64, 48, PixelFormat::Rgb, how, &mut out).unwrap();
    out
}

const RECT: Rect = Rect { x: 17, y: 17, width: 10, height: 10 };

fn error(jpeg: &[u8]) -> String {
    cut(jpeg, RECT, &mut Vec::new()).unwrap_err().to_string()
}

#[test]
fn damaged_markers_are_named_with_their_place() {
    let jpeg = tiled();
    let at = markers(&jpeg);
    assert_eq!(at.len(), 11);

    let mut swapped = jpeg.clone();
    swapped[at[9] + 1] = 0xD4;
    assert_eq!(error(&swapped), format!("offset {}: JPEG restart marker: expected RST1, found RST4", at[9]));

    // Without eight consecutive markers, the remaining numbers are still in order. Only the count reveals the loss.
    let lost = [&jpeg[..at[1]], &jpeg[at[9]..]].concat();
    let end = lost.len();
    assert_eq!(
        error(&lost),
        format!(
            "offset {}: number of JPEG restart markers: expected 11 (from the frame header), found 3",
            end - 2 - (jpeg.len() - 2 - at[10] - 2)
        )
    );

    let more = [&jpeg[..at[0]], &jpeg[at[0]..at[8]], &jpeg[at[0]..]].concat();
    let message = error(&more);
    assert!(message.ends_with("expected 11 (from the frame header), found at least 12"), "{message}");

    let short = &jpeg[..at[4] + 3];
    let message = error(short);
    assert!(message.ends_with("expected 11 (from the frame header), found 5"), "{message}");

    let without_end = &jpeg[..jpeg.len() - 2];
    let expected = format!("offset {}: the JPEG is truncated: no marker follows its scan", jpeg.len() - 2);
    assert_eq!(error(without_end), expected);
    let cut = error(&jpeg[..100]);
    assert!(cut.starts_with("the JPEG header is truncated: it needs at least "), "{cut}");
    assert_eq!(error(b"GIF89a"), "not a JPEG: it does not begin with FF D8 FF");
}

#[test]
fn bytes_that_decoders_skip_are_no_damage() {
    let jpeg = tiled();
    let whole = decode(&jpeg).unwrap();
    let at = markers(&jpeg);
    let end = jpeg.len() - 2;
    let fill = [&jpeg[..at[5]], &[0xFF, 0xFF], &jpeg[at[5]..]].concat();
    // The next marker would be RST3, because it is the twelfth.
    let trailing_marker = [&jpeg[..end], &[0xFF, 0xD3], &jpeg[end..]].concat();
    let bytes_behind = [&jpeg, b"\xFF\xD8\xFF\xE1 a second picture".as_slice()].concat();
    let comment = [&jpeg[..end], b"\xFF\xFE\0\x05abc", &jpeg[end..]].concat();
    for (what, bytes) in [("fill", fill), ("marker", trailing_marker), ("tail", bytes_behind), ("comment", comment)] {
        let header = JpegHeader::parse(&bytes).unwrap();
        let plan = CutPlan::new(&bytes, &header, RECT).unwrap();
        let mut out = Vec::new();
        plan.write(&mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(plan.cut().kind, CutKind::Tiles);
        let inside = RECT.within(&plan.cut().shown).unwrap();
        assert!(decode(&out).unwrap().rows(inside).eq(whole.rows(RECT)), "{what}");
    }
}

/// Checks that eight times as many bytes of invalid data take about eight times as long. Cutting would take longer if
/// bytes were read again after each marker.
#[test]
fn time_is_linear() {
    for (kind, (small, large)) in nuisances(2 << 20).into_iter().zip(nuisances(16 << 20)).enumerate() {
        let few = (0..3).map(|_| time_of_cut(&small)).max().unwrap();
        let many = time_of_cut(&large);
        assert!(many < 24 * few + Duration::from_millis(20), "kind {kind}: {few:?}, then {many:?}");
    }
}

fn time_of_cut((jpeg, rect, cuts): &(Vec<u8>, Rect, bool)) -> Duration {
    let before = clock::thread();
    assert_eq!(cut(jpeg, *rect, &mut Vec::new()).is_ok(), *cuts);
    clock::thread() - before
}

/// Returns JPEGs with `body` bytes of invalid data, the rectangle to cut out of each, and true if the cut must succeed.
fn nuisances(body: usize) -> Vec<(Vec<u8>, Rect, bool)> {
    let repeat = |pattern: &[u8]| pattern.repeat(body / pattern.len());
    let markers: Vec<u8> = (0..body / 2).flat_map(|i| [0xFF, 0xD0 | (i & 7) as u8]).collect();
    let tails = [repeat(b"\xFF"), repeat(b"\xFF\0"), repeat(b"\0"), markers, repeat(b"\xFF\xFF\xD0")];
    let mut out: Vec<_> = tails
        .into_iter()
        .map(|tail| {
            let segments = vec![(0xDD, vec![0, 1])];
            let jpeg = Jpeg { width: 65_535, height: 65_535, segments, tail, ..Jpeg::default() };
            (jpeg.bytes(), Rect::whole(65_000, 65_000), false)
        })
        .collect();
    // A header that consists of millions of segments.
    let comments: Vec<(u8, Vec<u8>)> = (0..body / 4).map(|_| (0xFE, vec![])).collect();
    out.push((Jpeg { segments: comments, ..Jpeg::default() }.bytes(), Rect::whole(1, 1), true));
    out
}

//! Tests the rules of `docs/entropy-segments.md`, one test per rule, on pictures that are written bit by bit.

use super::*;
use crate::{DecodePaths, JpegDecoder, Rendering, View};
use shardpack_format::Limits;

/// A gray picture with one or more MCU rows. The test specifies its segments.
///
/// The code of a DC symbol is its number in five bits. The code of an AC symbol is its number in eight bits. This
/// leaves 16 five-bit codes and one eight-bit code undefined.
pub(super) struct Picture {
    columns: u16,
    rows: u16,
    interval: u16,
    quantiser: u8,
    segments: Vec<Vec<u8>>,
}

impl Picture {
    pub(super) fn of(columns: u16, rows: u16, interval: u16, segments: Vec<Vec<u8>>) -> Self {
        Self { columns, rows, interval, quantiser: 1, segments }
    }

    fn block(bits: &str) -> Self {
        Self::of(1, 1, 0, vec![packed(bits)])
    }

    fn with_quantiser(self, quantiser: u8) -> Self {
        Self { quantiser, ..self }
    }

    fn header(&self) -> Vec<u8> {
        let mut out = vec![0xFF, 0xD8];
        let mut segment = |marker: u8, body: &[u8]| {
            out.extend([0xFF, marker]);
            out.extend((body.len() as u16 + 2).to_be_bytes());
            out.extend_from_slice(body);
        };
        segment(0xDB, &[&[0][..], &[self.quantiser; 64]].concat());
        let ([w1, w0], [h1, h0]) = ((self.columns * 8).to_be_bytes(), (self.rows * 8).to_be_bytes());
        segment(0xC0, &[8, h1, h0, w1, w0, 1, 1, 0x11, 0]);
        let counts = |length: usize, count: u8| (1..17).map(move |l| if l == length { count } else { 0 });
        segment(0xC4, &[0].into_iter().chain(counts(5, 16)).chain(0..16).collect::<Vec<_>>());
        segment(0xC4, &[0x10].into_iter().chain(counts(8, 255)).chain(0..255).collect::<Vec<_>>());
        segment(0xDD, &self.interval.to_be_bytes());
        segment(0xDA, &[1, 1, 0, 0, 63, 0]);
        out
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = self.header();
        for (n, segment) in self.segments.iter().enumerate() {
            if n > 0 {
                out.extend([0xFF, 0xD0 + (n as u8 - 1) % 8]);
            }
            out.extend(stuffed(segment));
        }
        out.extend([0xFF, 0xD9]);
        out
    }

    fn all(&self) -> Rect {
        Rect::whole(u32::from(self.columns) * 8, u32::from(self.rows) * 8)
    }
}

/// Packs bits into bytes, padded with ones.
pub(super) fn packed(bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().filter(|b| *b != b' ').map(|b| b - b'0').collect();
    bits.chunks(8).map(|byte| (0..8).fold(0, |value, n| value << 1 | byte.get(n).copied().unwrap_or(1))).collect()
}

fn stuffed(segment: &[u8]) -> Vec<u8> {
    segment.iter().flat_map(|&byte| if byte == 0xFF { vec![0xFF, 0] } else { vec![byte] }).collect()
}

/// Returns the size of a value in bits, and its bits (T.81, F.2.2.1).
fn value(value: i32) -> (u32, String) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let raw = if value < 0 { value + (1 << size) - 1 } else { value };
    (size, if size == 0 { String::new() } else { format!("{raw:0width$b}", width = size as usize) })
}

pub(super) fn dc(difference: i32) -> String {
    let (size, bits) = value(difference);
    format!("{size:05b}{bits}")
}

pub(super) fn ac(run: u32, coefficient: i32) -> String {
    let (size, bits) = value(coefficient);
    symbol(run << 4 | size) + &bits
}

pub(super) fn symbol(symbol: u32) -> String {
    format!("{symbol:08b}")
}

pub(super) fn end() -> String {
    symbol(0)
}

/// Returns the bits of a block with only a DC coefficient.
fn flat(difference: i32) -> String {
    dc(difference) + &end()
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Regular,
    Odd {
        /// True if libjpeg-turbo decodes the rectangle, false if it fails.
        pixels: bool,
    },
}

const SILENT: Verdict = Verdict::Odd { pixels: true };
const ERROR: Verdict = Verdict::Odd { pixels: false };

fn decoder(own_decoder: bool, lenient: bool, partial: bool) -> JpegDecoder {
    JpegDecoder::with_paths(&Limits::default(), DecodePaths { lenient, partial, own_decoder })
}

/// Decodes `window` of a picture. The pixels of a regular picture must equal libjpeg-turbo's for the whole picture.
/// For an irregular picture, the result must be that of libjpeg-turbo.
fn judged(jpeg: &[u8], window: Rect) -> Verdict {
    let how = Rendering { view: View::rectangle(window), ..Default::default() };
    let shown = |mut decoder: JpegDecoder| {
        let mut slot = vec![0xA5; window.width as usize * window.height as usize * 3];
        decoder.decode_into(jpeg, &how, &mut slot).map(|_| slot)
    };
    let header = JpegHeader::parse(jpeg).unwrap();
    let mut out = vec![0x5A; window.width as usize * window.height as usize * 3];
    if BaselineDecoder::new().decode(jpeg, &header, None, window, &mut out).is_some() {
        assert!(shown(decoder(false, true, false)).unwrap() == out, "other pixels");
        return Verdict::Regular;
    }
    let turbo = shown(decoder(false, false, true));
    assert_eq!(shown(decoder(true, false, true)), turbo, "not as libjpeg-turbo has it");
    Verdict::Odd { pixels: turbo.is_ok() }
}

fn whole(picture: &Picture) -> Verdict {
    judged(&picture.bytes(), picture.all())
}

fn mcu(n: u32) -> Rect {
    Rect { x: n * 8, y: 0, width: 8, height: 8 }
}

#[test]
fn bits_left_over_mean_nothing() {
    for rest in 0..8 {
        assert_eq!(
            whole(&Picture::block(&format!("{}{rest:03b}", flat(0)))),
            Verdict::Regular,
            "13 bits and {rest:03b}"
        );
    }
    assert_eq!(whole(&Picture::block(&flat(5))), Verdict::Regular, "16 bits");
    let tiles = Picture::of(2, 1, 1, vec![packed(&(flat(0) + "000")), packed(&flat(5))]);
    assert_eq!(whole(&tiles), Verdict::Regular, "two segments");
}

#[test]
fn a_byte_left_over_is_odd() {
    let with = |bytes: &[u8]| [&packed(&flat(5)), bytes].concat();
    for count in 1..30 {
        let last = Picture::of(1, 1, 0, vec![with(&vec![0x12; count])]);
        // libjpeg-turbo reads up to six bytes ahead and then drops them silently.
        let expected = if count < 7 { SILENT } else { ERROR };
        assert_eq!(whole(&last), expected, "{count} bytes in the last segment");
        let padded = Picture::of(1, 1, 0, vec![with(&vec![0; count])]);
        assert_eq!(whole(&padded), SILENT, "{count} zeros in the last segment");
    }
    let first = Picture::of(2, 1, 1, vec![with(&[0x12; 20]), packed(&flat(5))]);
    assert_eq!(whole(&first), ERROR, "in the first segment");
    assert_eq!(judged(&first.bytes(), mcu(1)), Verdict::Regular, "in a segment outside the rectangle");
}

#[test]
fn missing_bits_are_odd() {
    // The block has a DC coefficient, which fills eight bits, but no AC symbol.
    assert_eq!(whole(&Picture::block(&dc(5))), ERROR);
    let short = packed(&dc(5));
    for (at, segments) in [(0, [short.clone(), packed(&flat(5))]), (1, [packed(&flat(5)), short])] {
        let tiles = Picture::of(2, 1, 1, segments.to_vec());
        assert_eq!(judged(&tiles.bytes(), mcu(at)), ERROR, "segment {at}");
        assert_eq!(judged(&tiles.bytes(), mcu(1 - at)), Verdict::Regular, "beside segment {at}");
    }
    // Part of the last coefficient's value is missing. A reader would use zeros or bits of the next segment in its
    // place.
    let cut = |bits: String| packed(&bits[..bits.len() - 8]);
    let long = dc(1) + "11" + &ac(0, 1 << 13);
    assert_eq!(whole(&Picture::of(1, 1, 0, vec![cut(long)])), ERROR);
    // The first segment contains only the first of its two rows.
    let rows = Picture::of(1, 3, 2, vec![packed(&flat(5)), packed(&flat(5))]);
    assert_eq!(whole(&rows), ERROR);
    assert_eq!(judged(&rows.bytes(), mcu(0)), Verdict::Regular, "a row below the rectangle");
}

#[test]
fn a_code_that_does_not_exist_is_odd() {
    for bits in ["11111".to_owned() + &end(), dc(0) + "11111111"] {
        assert_eq!(whole(&Picture::block(&bits)), ERROR, "{bits}");
        let tile = |bits: &str| packed(&(flat(5) + bits));
        let tiles = Picture::of(4, 1, 2, vec![tile(&bits), tile(&flat(0))]);
        assert_eq!(judged(&tiles.bytes(), mcu(0)), ERROR, "{bits}, outside the rectangle in its segment");
        assert_eq!(judged(&tiles.bytes(), mcu(2)), Verdict::Regular, "{bits}, in another segment");
    }
}

#[test]
fn fill_bytes_are_odd() {
    let tiles = Picture::of(2, 1, 1, vec![packed(&flat(5)), packed(&flat(5))]);
    let jpeg = tiles.bytes();
    assert_eq!(judged(&jpeg, tiles.all()), Verdict::Regular);
    for at in [jpeg.len() - 6, jpeg.len() - 2] {
        let mut filled = jpeg.clone();
        filled.insert(at, 0xFF);
        assert_eq!(judged(&filled, tiles.all()), SILENT, "at {at}");
    }
}

#[test]
fn markers_stand_in_their_order() {
    let segment = packed(&flat(5));
    let jpeg = |ends: &[u8]| {
        let mut out = Picture::of(3, 1, 1, Vec::new()).header();
        for end in ends {
            out.extend_from_slice(&segment);
            out.extend([0xFF, *end]);
        }
        out
    };
    let all = Rect::whole(24, 8);
    assert_eq!(judged(&jpeg(&[0xD0, 0xD1, 0xD9]), all), Verdict::Regular);
    let behind = [&jpeg(&[0xD0, 0xD1, 0xD9])[..], &[0xFF, 0xD3, 1, 2, 3]].concat();
    assert_eq!(judged(&behind, all), Verdict::Regular, "behind EOI");
    let cases: [(&[u8], Verdict); 6] = [
        (&[0xD0, 0xD2, 0xD9], ERROR),
        (&[0xD1, 0xD2, 0xD9], ERROR),
        (&[0xD0, 0xD9], ERROR),
        (&[0xD0, 0xD1, 0xD2, 0xD9], ERROR),
        (&[0xD0, 0xD1], ERROR),
        (&[0xD0, 0xD1, 0xDC], ERROR),
    ];
    for (ends, expected) in cases {
        for window in [all, mcu(0), mcu(2)] {
            let found = judged(&jpeg(ends), window);
            assert_ne!(found, Verdict::Regular, "{ends:X?}, {window}");
            if window == all {
                assert_eq!(found, expected, "{ends:X?}");
            }
        }
    }
}

#[test]
fn dc_beyond_sixteen_bits_is_odd() {
    let picture = |differences: [i32; 3]| {
        let bits: String = differences.into_iter().map(flat).collect();
        Picture::of(3, 1, 3, vec![packed(&bits)]).bytes()
    };
    // The first two MCUs are outside the rectangle, so their coefficients may be out of range.
    assert_eq!(judged(&picture([32_767, -32_767, 0]), mcu(2)), Verdict::Regular);
    assert_eq!(judged(&picture([-32_767, 32_767, 0]), mcu(2)), Verdict::Regular);
    assert_eq!(judged(&picture([-32_767, -1, 32_767]), mcu(2)), Verdict::Regular, "-32768");
    assert_eq!(judged(&picture([32_767, 1, -32_767]), mcu(2)), SILENT);
    assert_eq!(judged(&picture([-32_767, -2, 32_767]), mcu(2)), SILENT);
}

#[test]
fn a_run_beyond_the_block_is_odd() {
    let runs = |last: u32| Picture::block(&(dc(0) + &ac(15, 1).repeat(3) + &ac(last, 1)));
    assert_eq!(whole(&runs(14)), Verdict::Regular, "place 63");
    assert_eq!(whole(&runs(15)), SILENT, "place 64");
}

#[test]
fn symbols_without_a_value() {
    let zeros = symbol(0xF0);
    let block = |bits: String| whole(&Picture::block(&(dc(0) + &bits)));
    assert_eq!(block(zeros.repeat(3) + &end()), Verdict::Regular, "zeros, then the end");
    assert_eq!(block(zeros.repeat(2) + &ac(14, 1) + &zeros), Verdict::Regular, "zeros up to place 63");
    assert_eq!(block(zeros.repeat(4)), SILENT, "zeros beyond");
    assert_eq!(block(zeros.repeat(2) + &ac(14, 1) + &zeros + &end()), SILENT, "an end behind the end");
    for run in 1..15 {
        assert_eq!(block(symbol(run << 4)), SILENT, "run {run}");
    }
}

#[test]
fn a_full_block_has_no_end_mark() {
    let full = dc(0) + &ac(0, 1).repeat(63);
    assert_eq!(whole(&Picture::block(&full)), Verdict::Regular);
    assert_eq!(whole(&Picture::block(&(full + &end()))), SILENT);
}

#[test]
fn samples_out_of_range_are_odd() {
    let block = |quantiser, bits: String| whole(&Picture::block(&bits).with_quantiser(quantiser));
    for (quantiser, inside, outside) in [(1, 4_095, 4_096), (1, -4_096, -4_097), (255, 16, 17), (255, -16, -17)] {
        let what = format!("{quantiser} times {inside} or {outside}");
        assert_eq!(block(quantiser, flat(inside)), Verdict::Regular, "DC alone, {what}");
        assert_eq!(block(quantiser, flat(outside)), SILENT, "DC alone, {what}");
        // A block with an AC coefficient. The first pass of the inverse DCT multiplies it by four,
        // so the same limits apply.
        assert_eq!(block(quantiser, dc(0) + &ac(0, inside) + &end()), Verdict::Regular, "{what}");
        assert_eq!(block(quantiser, dc(0) + &ac(0, outside) + &end()), SILENT, "{what}");
    }
    // The lower 16 bits of 257 · 255 are −1, which is in range. A block with only a DC coefficient uses the whole
    // product instead.
    assert_eq!(block(255, dc(0) + &ac(0, 257) + &end()), Verdict::Regular);
    assert_eq!(block(255, dc(257) + &ac(0, 1) + &end()), Verdict::Regular);
    assert_eq!(block(255, flat(257)), SILENT);
    // A run of zeros after the DC coefficient counts as coefficients, although its values are 0.
    assert_eq!(block(255, dc(257) + &symbol(0xF0) + &end()), Verdict::Regular);
    // Values outside the rectangle may be out of range.
    let tile = Picture::of(2, 1, 2, vec![packed(&(flat(5_000) + &flat(-5_000)))]);
    assert_eq!(judged(&tile.bytes(), mcu(0)), SILENT);
    assert_eq!(judged(&tile.bytes(), mcu(1)), Verdict::Regular);
}

#[test]
fn only_decoded_segments_count() {
    // Two rows of two tiles, with two MCUs per tile. The last tile contains an undefined code.
    let good = || packed(&(flat(5) + &flat(-3)));
    let bad = packed(&(flat(5) + "11111"));
    let tiles = Picture::of(4, 2, 2, vec![good(), good(), good(), bad.clone()]);
    for (x, y, expected) in [(0, 0, true), (24, 0, true), (0, 8, true), (8, 8, true), (16, 8, false), (24, 8, false)] {
        let found = judged(&tiles.bytes(), Rect { x, y, width: 8, height: 8 });
        assert_eq!(found == Verdict::Regular, expected, "tile at {x}, {y}: {found:?}");
    }
    // In a single segment, damage above the rectangle matters, but damage below it does not.
    let row = flat(5) + &flat(-3);
    for bad_row in 0..3 {
        let bits: String = (0..3).map(|n| if n == bad_row { "11111".to_owned() } else { row.clone() }).collect();
        for interval in [0, 6] {
            let jpeg = Picture::of(2, 3, interval, vec![packed(&bits)]).bytes();
            for shown in 0..3 {
                let found = judged(&jpeg, Rect { x: 0, y: shown * 8, width: 16, height: 8 });
                assert_eq!(found == Verdict::Regular, shown < bad_row, "row {shown}, damaged in row {bad_row}");
            }
        }
    }
    // Segments of two rows each do not depend on each other.
    let rows = Picture::of(2, 4, 4, vec![bad, packed(&row.repeat(2))]).bytes();
    for (shown, expected) in [(0, false), (1, false), (2, true), (3, true)] {
        let found = judged(&rows, Rect { x: 8, y: shown * 8, width: 8, height: 8 });
        assert_eq!(found == Verdict::Regular, expected, "row {shown}");
    }
}

/// Tests a picture with three MCUs per row and a rectangle in the middle column. Depending on the interval, some
/// segments lie outside the rectangle, and some contain MCUs of two rows.
#[test]
fn segments_that_straddle_rows_are_decoded_where_they_are_needed() {
    let (columns, rows) = (3_usize, 4_usize);
    let mcus = columns * rows;
    for interval in 1..=mcus + 1 {
        let segments = mcus.div_ceil(interval);
        let of = |n: usize| n * interval..mcus.min((n + 1) * interval);
        for damaged in 0..segments {
            let bits = |n: usize| match n {
                // The last MCU contains an undefined code.
                n if n == damaged => flat(5).repeat(of(n).len() - 1) + "11111",
                n => flat(5).repeat(of(n).len()),
            };
            let all = (0..segments).map(|n| packed(&bits(n))).collect();
            let jpeg = Picture::of(columns as u16, rows as u16, interval as u16, all).bytes();
            for row in 0..rows {
                for height in 1..=rows - row {
                    let found = judged(&jpeg, Rect { x: 8, y: row as u32 * 8, width: 8, height: height as u32 * 8 });
                    let last = row + height - 1;
                    let odd = if interval <= columns {
                        (row..=last).any(|row| of(damaged).contains(&(row * columns + 1)))
                    } else {
                        // The decoder reads from the start of the first row's first segment to the end of the
                        // last row.
                        let decoded = row * columns / interval * interval..(last + 1) * columns;
                        decoded.contains(&(of(damaged).end - 1))
                    };
                    assert_eq!(
                        found != Verdict::Regular,
                        odd,
                        "{interval}, segment {damaged}, {height} rows from {row}"
                    );
                }
            }
        }
    }
}

//! Compares the output of our transcoder with libjpeg-turbo's.

use super::*;
use crate::baseline::rules_tests::{Picture, ac, dc, end, packed, symbol};
use crate::baseline::tests::{Change, config, damaged, source};
use crate::sources::{encode, plain, with_segments};
use crate::testing::{exif, shared_data};
use crate::turbo::{Bounds, PixelFormat, Process, Subsampling, Transcoder};
use proptest::prelude::*;
use shardpack_format::{Limits, Result};

fn how(restart_interval: u16, keep_metadata: bool) -> Transcoding {
    Transcoding { operation: Operation::None, restart_interval, keep_metadata }
}

fn own(jpeg: &[u8], how: Transcoding) -> Option<Vec<u8>> {
    let header = JpegHeader::parse(jpeg).ok()?;
    let mut out = b"before".to_vec();
    let result = BaselineTranscoder::new().transcode(jpeg, &header, how, &mut out);
    assert!(result.is_some() || out == b"before");
    result.map(|()| out[6..].to_vec())
}

fn turbo(jpeg: &[u8], how: Transcoding) -> Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let is_written = Transcoder::new(Bounds::of(&Limits::default())).transcode(jpeg, how, &mut out)?;
    Ok(is_written.then_some(out))
}

/// Returns true if our transcoder accepts the picture. Its output must then equal libjpeg-turbo's.
#[track_caller]
fn is_taken(jpeg: &[u8], how: Transcoding) -> bool {
    let Some(own) = own(jpeg, how) else { return false };
    let turbo = turbo(jpeg, how).map(|bytes| bytes.expect("libjpeg-turbo does not write this"));
    assert!(own == turbo.unwrap(), "other bytes");
    true
}

/// Reduces the width and height without changing the number of MCUs. Some blocks at the edges then become
/// padding, although they have coefficients.
fn narrowed(jpeg: &[u8], by: (u16, u16)) -> Vec<u8> {
    let header = JpegHeader::parse(jpeg).unwrap();
    let grid = header.common_grid().unwrap();
    let [h, v] = [grid.h, grid.v].map(|n| n as u16 * 8);
    let side = |side: u16, mcu: u16, by: u16| side - by % ((side - 1) % mcu + 1);
    let at = header.sof_offset as usize + 5;
    let mut jpeg = jpeg.to_vec();
    jpeg[at..at + 2].copy_from_slice(&side(header.height, v, by.1).to_be_bytes());
    jpeg[at + 2..at + 4].copy_from_slice(&side(header.width, h, by.0).to_be_bytes());
    jpeg
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn bytes_are_those_of_libjpeg_turbo(
        source in source(),
        by in (0_u16..16, 0_u16..16),
        interval in 1_u16..40,
        keep_metadata: bool,
        rotated in 0_usize..4,
    ) {
        let jpeg = narrowed(&source.encoded(), by);
        let mut segments = vec![
            (0xE1, exif(6, true)),
            (0xFE, b"a remark".to_vec()),
            (0xE0, b"JFXX\0".to_vec()),
            (0xE0, b"JFIF\0\x01\x02\x01\x00\x48\x00\x60\0\0".to_vec()),
        ];
        segments.rotate_left(rotated);
        let jpeg = with_segments(&jpeg, &segments);
        let is_wide = matches!(source.subsampling, Subsampling::S422 | Subsampling::S420);
        let is_narrow = is_wide && JpegHeader::parse(&jpeg).unwrap().width <= 4;
        prop_assert_eq!(is_taken(&jpeg, how(interval, keep_metadata)), !is_narrow);
    }

    #[test]
    fn damaged_pictures_have_the_result_of_libjpeg_turbo(
        source in source(),
        changes in prop::collection::vec(any::<(usize, u8, u8)>().prop_map(|(at, byte, n)| (at, byte, n % 6)), 1..4),
        in_header: bool,
        keep_metadata: bool,
    ) {
        let jpeg = source.encoded();
        let head = JpegHeader::parse(&jpeg).unwrap().scan_offset as usize;
        let within = |(at, byte, kind): Change| (if in_header { at % head } else { at }, byte, kind);
        let changes: Vec<_> = changes.into_iter().map(within).collect();
        is_taken(&damaged(jpeg, &changes), how(3, keep_metadata));
    }

    #[test]
    fn symbols_that_no_encoder_writes(
        blocks in prop::collection::vec(
            (-1100_i32..1100, prop::collection::vec((0_u32..70, -1100_i32..1100), 0..40), 0_u32..4),
            1..12,
        ),
        interval in 1_u16..14,
    ) {
        let columns = blocks.len() as u16;
        let mut bits = String::new();
        let mut is_writable = true;
        for (difference, coefficients, zeros) in blocks {
            bits += &dc(difference / 12);
            let mut at = 0;
            for (run, value) in coefficients {
                let value = if run % 8 < 7 { value / 90 } else { value };
                if value == 0 || at + run + 1 > 63 {
                    continue;
                }
                at += run + 1;
                is_writable &= value.abs() < 1024;
                bits += &(symbol(0xF0).repeat((run / 16) as usize) + &ac(run % 16, value));
            }
            // Add zeros at the end of the block, where they have no effect.
            let zeros = zeros.min((63 - at) / 16);
            bits += &symbol(0xF0).repeat(zeros as usize);
            if at + zeros * 16 < 63 {
                bits += &end();
            }
        }
        let jpeg = Picture::of(columns, 1, 0, vec![packed(&bits)]).bytes();
        prop_assert_eq!(is_taken(&jpeg, how(interval, false)), is_writable);
    }
}

#[test]
fn zeros_up_to_the_last_place_end_the_block_without_a_mark() {
    // The coefficient covers 15 positions, and each of the three symbols after it covers 16.
    // Together they fill the block to position 63, so no end mark follows.
    let block = dc(5) + &ac(14, 1) + &symbol(0xF0).repeat(3);
    let bits = packed(&(block.clone() + &block + &dc(0) + &ac(14, 2) + &end()));
    assert!(is_taken(&Picture::of(3, 1, 0, vec![bits]).bytes(), how(1, false)));
    let last = dc(0) + &symbol(0xF0).repeat(3) + &ac(14, 1);
    assert!(is_taken(&Picture::of(1, 1, 0, vec![packed(&last)]).bytes(), how(1, false)));
}

#[test]
fn coefficients_that_libjpeg_does_not_write_are_left_to_it() {
    let taken = |blocks: &[String], interval| {
        let jpeg = Picture::of(blocks.len() as u16, 1, 0, vec![packed(&blocks.concat())]).bytes();
        let taken = is_taken(&jpeg, how(interval, false));
        assert_eq!(taken, turbo(&jpeg, how(interval, false)).unwrap().is_some());
        taken
    };
    let flat = |difference| dc(difference) + &end();
    assert!(taken(&[flat(2047)], 1) && !taken(&[flat(2048)], 1));
    assert!(taken(&[dc(0) + &ac(0, -1023) + &end()], 1) && !taken(&[dc(0) + &ac(0, 1024) + &end()], 1));
    // The DC prediction is 0 at the start of each segment.
    assert!(taken(&[flat(1500), flat(1500)], 2) && !taken(&[flat(1500), flat(1500)], 1));
    assert!(!taken(&[flat(-3000), flat(3000)], 2));
}

#[test]
fn headers_that_libjpeg_refuses_are_left_to_it() {
    let whole = encode((40, 24), PixelFormat::Rgb, plain(Subsampling::S420), None);
    let adobe = |transform| (0xEE, [b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat());
    let jfif = |major| (0xE0, [b"JFIF\0".as_slice(), &[major, 1, 0, 0, 1, 0, 1, 0, 0]].concat());
    // Returns an unused table with 255 + `count` codes.
    let codes = |count: u8| {
        let lengths = [&[0; 14][..], &[255, count]].concat();
        (0xC4, [&[3][..], &lengths, &vec![0; 255 + usize::from(count)]].concat())
    };
    let taken = |segments: &[(u8, Vec<u8>)]| is_taken(&with_segments(&whole, segments), how(2, true));
    for segment in [adobe(0), adobe(1), adobe(9), jfif(1), codes(1), (0xDD, vec![0, 0]), (0xDC, vec![0, 24])] {
        assert!(taken(std::slice::from_ref(&segment)), "{segment:?}");
    }
    let fresh =
        [jfif(2), codes(2), (0xDD, vec![0, 0, 0]), (0xCC, vec![0, 0x10]), (0xE0, b"JFIF\0".to_vec()), (0xF0, vec![])];
    for segment in fresh {
        assert!(!taken(std::slice::from_ref(&segment)), "{segment:?}");
    }
    // If there is no JFIF segment, the Adobe segment determines the colours.
    let bare = [&whole[..2], &whole[20..]].concat();
    let taken = |segment| is_taken(&with_segments(&bare, &[segment]), how(2, true));
    assert!(is_taken(&bare, how(2, false)) && taken(adobe(1)) && !taken(adobe(0)) && !taken(adobe(9)));
    let stray = [&whole[..20], b"stray", &whole[20..]].concat();
    assert!(!is_taken(&stray, how(2, false)));
}

#[test]
fn other_pictures_are_left_to_libjpeg_turbo() {
    let made = |sampling, process| encode((40, 24), PixelFormat::Rgb, plain(sampling), process);
    let color = made(Subsampling::S420, None);
    assert!(is_taken(&color, how(1, false)) && !is_taken(&color, how(0, false)));
    assert!(own(&color, Transcoding { operation: Operation::Rotate180, ..how(1, false) }).is_none());
    let progressive = made(Subsampling::S420, Some(Process::Progressive));
    for jpeg in [progressive, made(Subsampling::S411, None), made(Subsampling::S444, Some(Process::Rgb))] {
        assert!(!is_taken(&jpeg, how(1, false)));
    }
    // libjpeg rejects pictures with a side of more than 65,500 pixels.
    for (height, taken) in [(65_500_u16, true), (65_501, false)] {
        let mut tall = encode((8, u32::from(65_500_u16)), PixelFormat::Gray, plain(Subsampling::Gray), None);
        let at = JpegHeader::parse(&tall).unwrap().sof_offset as usize + 5;
        tall[at..at + 2].copy_from_slice(&height.to_be_bytes());
        assert_eq!(is_taken(&tall, how(8, false)), taken);
    }
    let mut extended = color;
    let sof = JpegHeader::parse(&extended).unwrap().sof_offset as usize;
    extended[sof + 1] = 0xC1;
    assert!(is_taken(&extended, how(1, false)));
}

#[test]
fn one_transcoder_takes_all_pictures_in_turn() {
    let mut transcoder = BaselineTranscoder::new();
    for (size, sampling) in [(200, Subsampling::S444), (9, Subsampling::Gray), (90, Subsampling::S420)] {
        let jpeg = encode((size, size), PixelFormat::Rgb, plain(sampling), None);
        let header = JpegHeader::parse(&jpeg).unwrap();
        let cut = &jpeg[..jpeg.len() - 9];
        let mut out = Vec::new();
        assert!(transcoder.transcode(cut, &header, how(5, false), &mut out).is_none() && out.is_empty());
        transcoder.transcode(&jpeg, &header, how(5, false), &mut out).unwrap();
        assert!(out == turbo(&jpeg, how(5, false)).unwrap().unwrap());
    }
}

/// Tests every 17th of a thousand photos, or all of them with `SHARDPACK_PHOTO_STEP=1`.
#[test]
fn photos_have_the_bytes_of_libjpeg_turbo() {
    let Some(data) = shared_data() else { return };
    let folders = std::fs::read_dir(data.join("imagenet-sample")).unwrap().map(|entry| entry.unwrap().path());
    let mut photos: Vec<_> = folders
        .filter(|path| path.is_dir())
        .flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    photos.sort();
    let step = std::env::var("SHARDPACK_PHOTO_STEP").map_or(17, |step| step.parse().unwrap());
    let (mut taken, mut all) = (0, 0);
    for path in photos.iter().step_by(step) {
        let jpeg = std::fs::read(path).unwrap();
        taken += u32::from(is_taken(&jpeg, how(7, false)));
        all += 1;
    }
    assert!(taken * 20 >= all * 19, "{taken} of {all} photos");
}

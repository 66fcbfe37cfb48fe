//! Tests which tiles and header segments are kept, and which pictures cannot be cut.

use super::*;
use crate::testing::{Jpeg, exif};

/// Returns a picture of noise. Its segments are long enough for the tests to tell them apart by their bytes.
fn noise(width: u32, height: u32, subsampling: Subsampling, restart_interval: u16) -> Vec<u8> {
    let mut random = Random(7);
    let pixels: Vec<u8> = (0..width * height * 3).map(|_| random.next() as u8).collect();
    let how = Encoding { quality: 80, subsampling, restart_interval };
    let mut out = Vec::new();
    Compressor::new().encode(&pixels, width, height, PixelFormat::Rgb, how, &mut out).unwrap();
    out
}

fn plan(jpeg: &[u8], rect: (u32, u32, u32, u32)) -> Cut {
    let (x, y, width, height) = rect;
    let header = JpegHeader::parse(jpeg).unwrap();
    CutPlan::new(jpeg, &header, Rect { x, y, width, height }).unwrap().cut()
}

fn shown(jpeg: &[u8], rect: (u32, u32, u32, u32)) -> (u32, u32, u32, u32) {
    let Rect { x, y, width, height } = plan(jpeg, rect).shown;
    (x, y, width, height)
}

#[test]
fn keeps_a_margin_only_where_the_edge_of_the_rectangle_needs_it() {
    // The picture has 6 × 6 tiles of 32 × 16 pixels.
    let jpeg = noise(190, 90, Subsampling::S420, 2);
    let table = [
        // The rectangle is inside one tile, one pixel away from its edges.
        ((33, 17, 30, 14), (32, 16, 32, 16)),
        // The rectangle starts in the tile's first column, then in its first row, and ends in its
        // last column, then in its last row.
        ((32, 17, 30, 14), (0, 16, 64, 16)),
        ((33, 16, 30, 14), (32, 0, 32, 32)),
        ((33, 17, 31, 14), (32, 16, 64, 16)),
        ((33, 17, 30, 15), (32, 16, 32, 32)),
        // At the edges of the picture, no neighbour is needed for interpolation.
        ((0, 0, 31, 15), (0, 0, 32, 16)),
        ((161, 81, 29, 9), (160, 80, 30, 10)),
    ];
    for (rect, expected) in table {
        assert_eq!(shown(&jpeg, rect), expected, "{rect:?}");
    }
    let full = noise(190, 90, Subsampling::S444, 4);
    assert_eq!(shown(&full, (32, 16, 32, 16)), (32, 16, 32, 16));
    let rows_only = noise(190, 90, Subsampling::S440, 4);
    assert_eq!(shown(&rows_only, (32, 16, 32, 16)), (32, 0, 32, 48));
    let columns_only = noise(190, 90, Subsampling::S422, 2);
    assert_eq!(shown(&columns_only, (32, 16, 32, 16)), (0, 16, 96, 16));
    // Column 33 is the tile's second column, so the tile to the left is not needed.
    assert_eq!(shown(&columns_only, (33, 16, 20, 16)), (32, 16, 32, 16));
}

/// libjpeg does not interpolate rows with only two chroma columns. A narrow cut from a wider picture must therefore
/// have more columns.
#[test]
fn a_narrow_last_tile_takes_the_one_before_it() {
    let jpeg = noise(100, 40, Subsampling::S420, 1);
    assert_eq!(shown(&jpeg, (98, 1, 2, 14)), (80, 0, 20, 16));
    let wider = noise(101, 40, Subsampling::S420, 1);
    assert_eq!(shown(&wider, (98, 1, 3, 14)), (96, 0, 5, 16));
}

#[test]
fn rows_and_groups_of_rows() {
    let jpeg = noise(100, 100, Subsampling::S444, 13);
    assert_eq!(plan(&jpeg, (10, 20, 10, 10)).kind, CutKind::Rows);
    assert_eq!(shown(&jpeg, (10, 20, 10, 10)), (0, 16, 100, 16));
    let groups = noise(100, 100, Subsampling::S444, 39);
    assert_eq!(shown(&groups, (10, 30, 10, 10)), (0, 24, 100, 24));
    assert_eq!(shown(&groups, (10, 97, 10, 3)), (0, 96, 100, 4));
}

#[test]
fn pictures_without_a_grid_are_copied() {
    let whole = Cut { shown: Rect::whole(33, 17), kind: CutKind::Whole };
    let with = |change: fn(&mut Jpeg)| {
        let mut jpeg = Jpeg::default();
        jpeg.segments.push((0xDD, vec![0, 1]));
        change(&mut jpeg);
        jpeg.bytes()
    };
    let pictures = [
        with(|jpeg| drop(jpeg.segments.pop())),
        with(|jpeg| jpeg.sof = 2),
        with(|jpeg| jpeg.sof = 9),
        with(|jpeg| jpeg.precision = 12),
        with(|jpeg| jpeg.scan = 1),
        // With three MCUs per row, these intervals do not form a grid.
        with(|jpeg| jpeg.segments.push((0xDD, vec![0, 2]))),
        with(|jpeg| jpeg.segments.push((0xDD, vec![0, 4]))),
        with(|jpeg| jpeg.segments.push((0xDD, vec![0, 0]))),
    ];
    for jpeg in pictures {
        let mut out = vec![9; 9];
        assert_eq!(cut(&jpeg, Rect::whole(3, 3), &mut out), Ok(whole));
        assert!(out == jpeg);
    }
    // The same picture without the obstacle can be cut.
    let jpeg = with(|_| ());
    assert_eq!(plan(&jpeg, (0, 0, 3, 3)).kind, CutKind::Tiles);
}

/// The sampling factors of a single component do not matter: its tiles consist of blocks of 8 × 8 pixels.
#[test]
fn sampling_factors_of_gray_do_not_count() {
    let mut jpeg = noise(40, 24, Subsampling::Gray, 1);
    let header = JpegHeader::parse(&jpeg).unwrap();
    jpeg[header.sof_offset as usize + 11] = 0x22;
    let whole = decode(&jpeg).unwrap();
    for (x, y) in [(0, 0), (8, 8), (16, 0), (30, 15)] {
        let rect = Rect { x, y, width: 9, height: 9 };
        let (cut, _) = check_equal(&jpeg, &whole, rect);
        assert_eq!(cut.shown.x, x / 8 * 8);
        assert_eq!(cut.shown.y, y / 8 * 8);
    }
}

#[test]
fn keeps_what_colours_need_and_no_other_metadata() {
    let plain = noise(64, 64, Subsampling::S444, 2);
    let extra: Vec<(u8, Vec<u8>)> = vec![
        (0xE1, exif(6, true)),
        (0xE2, b"ICC_PROFILE\0\x01\x01abc".to_vec()),
        (0xE0, b"JFXX\0\x10".to_vec()),
        (0xFE, b"a comment".to_vec()),
        (0xEE, b"Adobe\0\x64\0\0\0\0\x01".to_vec()),
        (0xEE, b"Other".to_vec()),
    ];
    // Split the file after SOI and the JFIF segment.
    let (head, tail) = plain.split_at(20);
    let mut jpeg = head.to_vec();
    for (marker, body) in &extra {
        jpeg.extend([0xFF, *marker, 0, body.len() as u8 + 2]);
        jpeg.extend(body);
    }
    jpeg.extend(tail);
    let mut out = Vec::new();
    cut(&jpeg, Rect { x: 20, y: 20, width: 20, height: 20 }, &mut out).unwrap();
    let header = JpegHeader::parse(&out).unwrap();
    assert!(header.jfif && !header.exif && !header.icc);
    assert_eq!((header.adobe_transform, header.restart_interval), (Some(1), 2));
    let mut bare = Vec::new();
    cut(&plain, Rect { x: 20, y: 20, width: 20, height: 20 }, &mut bare).unwrap();
    assert_eq!(out.len(), bare.len() + extra[4].1.len() + 4, "the Adobe segment, and no other");
}

#[test]
fn the_buffer_is_used_again() {
    let jpeg = noise(200, 200, Subsampling::S420, 1);
    let mut out = Vec::new();
    cut(&jpeg, Rect { x: 1, y: 1, width: 150, height: 150 }, &mut out).unwrap();
    let before = (out.as_ptr(), out.capacity());
    let mut random = Random(3);
    for _ in 0..100 {
        let (x, y) = (random.below(100), random.below(100));
        cut(&jpeg, Rect { x, y, width: 80, height: 80 }, &mut out).unwrap();
        assert_eq!((out.as_ptr(), out.capacity()), before);
    }
}

#[test]
fn rectangles_must_be_within_the_picture() {
    let jpeg = noise(40, 30, Subsampling::S444, 1);
    let bad = [(0, 0, 0, 5), (0, 0, 5, 0), (36, 0, 5, 5), (0, 26, 5, 5), (40, 0, 1, 1), (u32::MAX, 0, 2, 2)];
    for (x, y, width, height) in bad {
        let error = cut(&jpeg, Rect { x, y, width, height }, &mut Vec::new()).unwrap_err();
        let problem = if width * height == 0 { "empty" } else { "not within the picture of 40 × 30 pixels" };
        assert_eq!(error.to_string(), format!("the rectangle {width} × {height} at ({x}, {y}) is {problem}"));
    }
}

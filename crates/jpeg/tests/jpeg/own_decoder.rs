//! Tests that common pictures decode to the expected pixels, and that damaged pictures are rejected.
#![allow(clippy::unwrap_used)]

use shardpack_format::Limits;
use shardpack_jpeg::{Decoded, JpegDecoder, PictureCheck, PixelLayout, Rect, Rendering, View};

/// A picture of 48 × 32 pixels, in tiles of 16 × 16.
const TILED: &[u8] = include_bytes!("../../testdata/tiles.jpg");
/// A progressive picture of 32 × 24 pixels.
const PROGRESSIVE: &[u8] = include_bytes!("../../testdata/progressive.jpg");

fn decode(jpeg: &[u8], view: View, bytes: usize) -> shardpack_format::Result<(Decoded, u32)> {
    let how = Rendering { view, layout: PixelLayout::HeightWidthChannels, ..Rendering::default() };
    let mut slot = vec![0; bytes];
    let decoded = JpegDecoder::new(&Limits::default()).decode_into(jpeg, &how, &mut slot)?;
    Ok((decoded, crc32fast::hash(&slot)))
}

#[test]
fn baseline_pictures_have_the_pixels_of_pillow() {
    let (_, whole) = decode(TILED, View::whole(), 48 * 32 * 3).unwrap();
    let (_, part) = decode(TILED, View::rectangle(Rect { x: 20, y: 3, width: 11, height: 9 }), 11 * 9 * 3).unwrap();
    // Checksums of the pixels that Pillow decodes, for the whole picture and the crop.
    assert_eq!([whole, part].map(|crc| format!("{crc:08x}")), ["fc80bef8", "d0193c99"]);
    assert_eq!(decode(TILED, View::resize((20, 10)), 20 * 10 * 3).unwrap().0.width, 10);
    let size = PictureCheck::new().check("image/jpeg", TILED, &Limits::default()).unwrap();
    assert_eq!(size, (48, 32));
}

#[test]
fn damage_is_an_error() {
    let mut damaged = TILED.to_vec();
    damaged.truncate(TILED.len() - 40);
    let error = decode(&damaged, View::whole(), 48 * 32 * 3).unwrap_err();
    assert!(matches!(error, shardpack_format::Error::Format { .. }), "{error}");
}

#[test]
fn progressive_pictures_are_decoded_too() {
    assert_eq!(JpegDecoder::new(&Limits::default()).size_of(PROGRESSIVE, 1).unwrap(), (24, 32));
    assert_eq!(decode(PROGRESSIVE, View::whole(), 32 * 24 * 3).unwrap().0.width, 32);
}

use super::*;
use crate::{DrawKey, PixelLayout, View};
use image::{DynamicImage, ImageBuffer, ImageFormat, RgbImage};
use shardpack_format::Limits;
use std::io::Cursor;
use tiff::encoder::{TiffEncoder, colortype};

const SIZE: (u32, u32) = (23, 17);

fn value(x: u32, y: u32, c: u32) -> u16 {
    ((x * 2741 + y * 3571 + c * 20011) % 65536) as u16
}

fn sixteen() -> DynamicImage {
    let at = |x, y| image::Rgb([0, 1, 2].map(|c| value(x, y, c)));
    DynamicImage::ImageRgb16(ImageBuffer::from_fn(SIZE.0, SIZE.1, at))
}

fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    match format {
        ImageFormat::Tiff => write_tiff(picture, &mut out),
        ImageFormat::Bmp => write_bmp(&picture.to_rgb8(), out.get_mut()),
        _ => picture.write_to(&mut out, format).unwrap(),
    }
    out.into_inner()
}

fn write_tiff(picture: &DynamicImage, out: &mut Cursor<Vec<u8>>) {
    let mut tiff = TiffEncoder::new(out).unwrap();
    let (width, height) = (picture.width(), picture.height());
    match picture {
        DynamicImage::ImageRgb8(rgb) => tiff.write_image::<colortype::RGB8>(width, height, rgb).unwrap(),
        DynamicImage::ImageRgb16(rgb) => tiff.write_image::<colortype::RGB16>(width, height, rgb).unwrap(),
        other => panic!("no TIFF of {:?}", other.color()),
    }
}

/// A file header, a header of 40 bytes, then blue, green, red from the lowest row up, each row padded to 4 bytes.
fn write_bmp(rgb: &RgbImage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"BM");
    for long in [0, 0, 54, 40, rgb.width(), rgb.height(), 1 | 24 << 16, 0, 0, 0, 0, 0, 0] {
        out.extend_from_slice(&long.to_le_bytes());
    }
    for row in rgb.rows().rev() {
        row.for_each(|pixel| out.extend(pixel.0.iter().rev()));
        out.resize((out.len() - 54).next_multiple_of(4) + 54, 0);
    }
}

fn shown(media_type: &str, bytes: &[u8], how: &Rendering) -> Vec<u8> {
    let mut decoder = PictureDecoder::new(Limits::default());
    let (height, width) =
        how.view.size().unwrap_or_else(|| decoder.size_of(media_type, bytes, how.orientation).unwrap());
    let mut slot = vec![0xA5; height as usize * width as usize * 3];
    decoder.decode_into(media_type, bytes, how, &mut slot).unwrap();
    slot
}

#[test]
fn pictures_that_lose_bits_are_counted() {
    let mut decoder = PictureDecoder::new(Limits::default());
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    let shallow = DynamicImage::from(sixteen().to_rgb8());
    for (picture, expected) in [(&shallow, 0), (&sixteen(), 1), (&shallow, 1), (&sixteen(), 2)] {
        for format in [ImageFormat::Png, ImageFormat::Tiff] {
            let bytes = written(picture, format);
            let media_type = format.to_mime_type();
            decoder.decode_into(media_type, &bytes, &Rendering::default(), &mut slot).unwrap();
        }
        assert_eq!(decoder.narrowed(), 2 * expected);
    }
    // A picture that does not decode is not counted.
    let cut = written(&sixteen(), ImageFormat::Png);
    decoder.decode_into("image/png", &cut[..cut.len() / 2], &Rendering::default(), &mut slot).unwrap_err();
    assert_eq!(decoder.narrowed(), 4);
}

/// Every colour type against the conversion of the `image` crate itself.
#[test]
fn all_kinds_of_pixels_become_rgb() {
    let source = sixteen();
    let kinds: [DynamicImage; 8] = [
        source.to_luma8().into(),
        source.to_luma_alpha8().into(),
        source.to_rgb8().into(),
        source.to_rgba8().into(),
        source.to_luma16().into(),
        source.to_luma_alpha16().into(),
        source.clone(),
        source.to_rgba16().into(),
    ];
    for kind in kinds {
        let png = written(&kind, ImageFormat::Png);
        assert!(shown("image/png", &png, &Rendering::default()) == kind.to_rgb8().into_raw(), "{:?}", kind.color());
    }
}

#[test]
fn alpha_is_dropped_without_looking_at_it() {
    let clear = ImageBuffer::from_pixel(2, 1, image::Rgba([10, 20, 30, 0]));
    let png = written(&DynamicImage::ImageRgba8(clear), ImageFormat::Png);
    assert_eq!(shown("image/png", &png, &Rendering::default()), [10, 20, 30, 10, 20, 30]);
}

#[test]
fn every_format_shows_the_same_picture_through_every_view() {
    let source: DynamicImage = sixteen().to_rgb8().into();
    let formats = [
        ("image/png", ImageFormat::Png),
        ("image/bmp", ImageFormat::Bmp),
        ("image/tiff", ImageFormat::Tiff),
        ("image/webp", ImageFormat::WebP),
    ];
    let key = DrawKey { seed: 2, epoch: 0, sample: 5 };
    for view in [
        View::whole(),
        View::resize((9, 30)),
        View::pad((9, 30)),
        View::pad((30, 9)).with_flip(1.0),
        View::center_crop(12, (10, 11)),
        View::random_resized_crop(8).with_flip(0.5),
    ] {
        for orientation in 1..=8 {
            for layout in [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth] {
                let how = Rendering { view, key, orientation, layout };
                let all = formats.map(|(media_type, format)| shown(media_type, &written(&source, format), &how));
                assert!(all.iter().all(|one| *one == all[0]), "{how:?}");
            }
        }
    }
    let (turned, upright) =
        (Rendering { orientation: 6, ..Default::default() }, source.rotate90().to_rgb8().into_raw());
    assert!(shown("image/png", &written(&source, ImageFormat::Png), &turned) == upright);
}

#[test]
fn jpegs_take_their_own_way() {
    let error = PictureDecoder::new(Limits::default())
        .decode_into("image/jpeg", b"\xFF\xD8\xFF\xD9", &Rendering::default(), &mut [])
        .unwrap_err();
    assert!(error.to_string().contains("JPEG"), "{error}");
}

#[test]
fn damage_and_size_are_refused() {
    let png = written(&sixteen(), ImageFormat::Png);
    let mut decoder = PictureDecoder::new(Limits::default());
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    for len in 0..png.len() - 12 {
        assert!(
            decoder.decode_into("image/png", &png[..len], &Rendering::default(), &mut slot).is_err(),
            "cut at {len}"
        );
    }
    assert!(
        decoder.decode_into("image/png", &png, &Rendering::default(), &mut slot).is_ok(),
        "the decoder stays usable"
    );
    assert!(decoder.decode_into("image/gif", &png, &Rendering::default(), &mut slot).is_err());
    let limits = Limits { max_decoded_bytes: 1000, ..Default::default() };
    let mut small = PictureDecoder::new(limits);
    assert!(small.decode_into("image/png", &png, &Rendering::default(), &mut slot).is_err());
}

#[test]
fn a_panic_of_a_decoder_is_an_error_of_its_picture() {
    let mut decoder = PictureDecoder::new(Limits::default());
    let error = decoder.guarded(|_| -> Result<()> { panic!("a defect of a library") }).unwrap_err().to_string();
    assert!(error.contains("a panic of its decoder: a defect of a library"), "{error}");
    let png = written(&sixteen(), ImageFormat::Png);
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    decoder.decode_into("image/png", &png, &Rendering::default(), &mut slot).unwrap();
}

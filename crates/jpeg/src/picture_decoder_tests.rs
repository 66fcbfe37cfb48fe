use super::*;
use crate::{DrawKey, PixelLayout, Rect, View};
use png::{BitDepth, ColorType};
use shardpack_format::Limits;
use std::io::Cursor;
use tiff::encoder::{TiffEncoder, colortype};

const SIZE: (u32, u32) = (23, 17);

struct Source {
    channels: usize,
    samples: Vec<u16>,
}

fn sixteen() -> Source {
    let value = |x: u32, y: u32, c: u32| ((x * 2741 + y * 3571 + c * 20011) % 65536) as u16;
    let at = |y, x| [0, 1, 2].map(|c| value(x, y, c));
    let pixels = (0..SIZE.1).flat_map(|y| (0..SIZE.0).map(move |x| at(y, x)));
    Source { channels: 3, samples: pixels.flatten().collect() }
}

impl Source {
    fn with_channels(&self, of: &[usize]) -> Self {
        let pixels = self.samples.chunks(self.channels);
        Self { channels: of.len(), samples: pixels.flat_map(|pixel| of.iter().map(|&c| pixel[c])).collect() }
    }

    fn eight(&self) -> Vec<u8> {
        self.samples.iter().map(|&v| ((u32::from(v) + 128) / 257) as u8).collect()
    }

    /// Returns the pixels as 8-bit RGB. A single channel is repeated three times, and alpha is dropped.
    fn rgb(&self) -> Vec<u8> {
        let eight = self.eight();
        let pixels = eight.chunks(self.channels);
        pixels
            .flat_map(|pixel| if self.channels < 3 { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] })
            .collect()
    }

    fn png(&self, depth: BitDepth) -> Vec<u8> {
        let color = [ColorType::Grayscale, ColorType::GrayscaleAlpha, ColorType::Rgb, ColorType::Rgba];
        let bytes = match depth {
            BitDepth::Sixteen => self.samples.iter().flat_map(|v| v.to_be_bytes()).collect(),
            _ => self.eight(),
        };
        png(color[self.channels - 1], depth, SIZE, &bytes)
    }

    fn tiff(&self, depth: BitDepth) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let mut tiff = TiffEncoder::new(&mut out).unwrap();
        match depth {
            BitDepth::Sixteen => tiff.write_image::<colortype::RGB16>(SIZE.0, SIZE.1, &self.samples).unwrap(),
            _ => tiff.write_image::<colortype::RGB8>(SIZE.0, SIZE.1, &self.eight()).unwrap(),
        }
        out.into_inner()
    }

    /// Writes a file header, a header of 40 bytes, and then blue, green and red from the bottom row up. Each
    /// row is padded to a multiple of 4 bytes.
    fn bmp(&self) -> Vec<u8> {
        let mut out = b"BM".to_vec();
        for long in [0, 0, 54, 40, SIZE.0, SIZE.1, 1 | 24 << 16, 0, 0, 0, 0, 0, 0] {
            out.extend_from_slice(&long.to_le_bytes());
        }
        for row in self.eight().chunks(SIZE.0 as usize * 3).rev() {
            row.chunks(3).for_each(|pixel| out.extend(pixel.iter().rev()));
            out.resize((out.len() - 54).next_multiple_of(4) + 54, 0);
        }
        out
    }

    fn webp(&self) -> Vec<u8> {
        let mut out = Vec::new();
        image_webp::WebPEncoder::new(&mut out)
            .encode(&self.eight(), SIZE.0, SIZE.1, image_webp::ColorType::Rgb8)
            .unwrap();
        out
    }
}

fn png(color: ColorType, depth: BitDepth, size: (u32, u32), bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size.0, size.1);
    encoder.set_color(color);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(bytes).unwrap();
    out
}

fn shown(media_type: &str, bytes: &[u8], how: &Rendering) -> Vec<u8> {
    let mut decoder = PictureDecoder::new(Limits::default());
    let (height, width) =
        how.view.size().unwrap_or_else(|| decoder.size_of(media_type, bytes, how.orientation).unwrap());
    let mut slot = vec![0xA5; height as usize * width as usize * 3];
    decoder.decode_into(&StoredPicture::new(media_type, bytes), how, &mut slot).unwrap();
    slot
}

#[test]
fn pictures_that_lose_bits_are_counted() {
    let mut decoder = PictureDecoder::new(Limits::default());
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    for (depth, expected) in
        [(BitDepth::Eight, 0), (BitDepth::Sixteen, 1), (BitDepth::Eight, 1), (BitDepth::Sixteen, 2)]
    {
        for (media_type, bytes) in [("image/png", sixteen().png(depth)), ("image/tiff", sixteen().tiff(depth))] {
            decoder.decode_into(&StoredPicture::new(media_type, &bytes), &Rendering::default(), &mut slot).unwrap();
        }
        assert_eq!(decoder.narrowed(), 2 * expected);
    }
    // A picture is counted only if decoding succeeds.
    let cut = sixteen().png(BitDepth::Sixteen);
    decoder
        .decode_into(&StoredPicture::new("image/png", &cut[..cut.len() / 2]), &Rendering::default(), &mut slot)
        .unwrap_err();
    assert_eq!(decoder.narrowed(), 4);
}

#[test]
fn all_kinds_of_pixels_become_rgb() {
    for channels in [&[0][..], &[0, 1], &[0, 1, 2], &[0, 1, 2, 0]] {
        for depth in [BitDepth::Eight, BitDepth::Sixteen] {
            let source = sixteen().with_channels(channels);
            let png = source.png(depth);
            assert!(shown("image/png", &png, &Rendering::default()) == source.rgb(), "{channels:?} {depth:?}");
        }
    }
}

/// The expected levels were rounded by hand: 128 / 257 is 0.498, and 129 / 257 is 0.502.
#[test]
fn sixteen_bits_are_rounded_to_eight() {
    let levels =
        [(0_u16, 0_u8), (128, 0), (129, 1), (32_767, 127), (32_768, 128), (33_000, 128), (65_406, 254), (65_535, 255)];
    let bytes: Vec<u8> = levels.iter().flat_map(|(sixteen, _)| sixteen.to_be_bytes()).collect();
    let gray = png(ColorType::Grayscale, BitDepth::Sixteen, (8, 1), &bytes);
    let expected: Vec<u8> = levels.iter().flat_map(|(_, eight)| [*eight; 3]).collect();
    assert_eq!(shown("image/png", &gray, &Rendering::default()), expected);
}

#[test]
fn few_bits_and_palettes_become_eight_bits() {
    let gray = png(ColorType::Grayscale, BitDepth::Two, (4, 1), &[0b00_01_10_11]);
    assert_eq!(shown("image/png", &gray, &Rendering::default()), [0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255]);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 2, 1);
    encoder.set_color(ColorType::Indexed);
    encoder.set_palette(vec![1, 2, 3, 4, 5, 6]);
    encoder.write_header().unwrap().write_image_data(&[1, 0]).unwrap();
    assert_eq!(shown("image/png", &out, &Rendering::default()), [4, 5, 6, 1, 2, 3]);
}

#[test]
fn alpha_is_dropped_without_looking_at_it() {
    let png = png(ColorType::Rgba, BitDepth::Eight, (2, 1), &[10, 20, 30, 0, 10, 20, 30, 0]);
    assert_eq!(shown("image/png", &png, &Rendering::default()), [10, 20, 30, 10, 20, 30]);
}

#[test]
fn every_format_shows_the_same_picture_through_every_view() {
    let source = sixteen();
    let formats = [
        ("image/png", source.png(BitDepth::Eight)),
        ("image/bmp", source.bmp()),
        ("image/tiff", source.tiff(BitDepth::Eight)),
        ("image/webp", source.webp()),
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
                let all = formats.each_ref().map(|(media_type, bytes)| shown(media_type, bytes, &how));
                assert!(all.iter().all(|one| *one == all[0]), "{how:?}");
            }
        }
    }
    // Orientation 6 turns the picture clockwise by 90°: its first column, read upwards, becomes the first
    // row.
    let (width, height, eight) = (SIZE.0 as usize, SIZE.1 as usize, source.eight());
    let at = |x: usize, y: usize| eight[(y * width + x) * 3..][..3].to_vec();
    let upright: Vec<u8> = (0..width).flat_map(|x| (0..height).rev().flat_map(move |y| at(x, y))).collect();
    let turned = Rendering { orientation: 6, ..Default::default() };
    assert!(shown("image/png", &formats[0].1, &turned) == upright);
}

#[test]
fn jpegs_take_their_own_way() {
    let error = PictureDecoder::new(Limits::default())
        .decode_into(&StoredPicture::new("image/jpeg", b"\xFF\xD8\xFF\xD9"), &Rendering::default(), &mut [])
        .unwrap_err();
    assert!(error.to_string().contains("JPEG"), "{error}");
}

#[test]
fn damage_and_size_are_refused() {
    let png = sixteen().png(BitDepth::Sixteen);
    let mut decoder = PictureDecoder::new(Limits::default());
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    for len in 0..png.len() - 12 {
        assert!(
            decoder
                .decode_into(&StoredPicture::new("image/png", &png[..len]), &Rendering::default(), &mut slot)
                .is_err(),
            "cut at {len}"
        );
    }
    assert!(
        decoder.decode_into(&StoredPicture::new("image/png", &png), &Rendering::default(), &mut slot).is_ok(),
        "the decoder stays usable"
    );
    assert!(decoder.decode_into(&StoredPicture::new("image/gif", &png), &Rendering::default(), &mut slot).is_err());
    let limits = Limits { max_decoded_bytes: 1000, ..Default::default() };
    let mut small = PictureDecoder::new(limits);
    assert!(small.decode_into(&StoredPicture::new("image/png", &png), &Rendering::default(), &mut slot).is_err());
}

#[test]
fn a_panic_of_a_decoder_is_an_error_of_its_picture() {
    let mut decoder = PictureDecoder::new(Limits::default());
    let error = decoder.guarded(|_| -> Result<()> { panic!("a defect of a library") }).unwrap_err().to_string();
    assert!(error.contains("the decoder panicked on the picture: a defect of a library"), "{error}");
    let png = sixteen().png(BitDepth::Sixteen);
    let mut slot = vec![0; (SIZE.0 * SIZE.1 * 3) as usize];
    decoder.decode_into(&StoredPicture::new("image/png", &png), &Rendering::default(), &mut slot).unwrap();
}

#[test]
fn a_damaged_size_takes_no_memory() {
    let jpeg = crate::testing::Jpeg { width: 16_000, height: 16_000, ..Default::default() }.bytes();
    let picture = StoredPicture::new("image/jpeg", &jpeg);
    let mut decoder = PictureDecoder::new(Limits::default());
    assert_eq!(decoder.size_of("image/jpeg", &jpeg, 1).unwrap(), (16_000, 16_000), "the limit of bytes allows it");
    let views = [0, 1000].map(|x| View::rectangle(Rect { x, y: 0, width: 15_000, height: 16_000 }));
    let crops = Crops { views: &views, key: DrawKey { seed: 1, epoch: 0, sample: 2 } };
    let mut shared = SharedPixels::default();
    let error = decoder.decode_shared(&picture, &crops, &Rendering::default(), &mut shared).unwrap_err();
    assert!(error.to_string().contains("max_expansion"), "{error}");
    assert_eq!(shared.pixels.capacity(), 0);
    // Decoding a single crop must fail too.
    let how = Rendering { view: View::resize((2, 2)), ..Rendering::default() };
    let error = decoder.decode_into(&picture, &how, &mut [0; 12]).unwrap_err();
    assert!(error.to_string().contains("max_expansion"), "{error}");
}

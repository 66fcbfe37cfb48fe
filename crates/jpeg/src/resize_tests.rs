use super::*;

const ALL: [Resizing; 3] = [how(Interpolation::Nearest), how(Interpolation::Bilinear), how(Interpolation::Bicubic)];

const fn how(interpolation: Interpolation) -> Resizing {
    Resizing { interpolation, mirrored: [false; 2], transposed: false }
}

#[test]
fn a_flat_picture_stays_flat() {
    let bytes = [17, 130, 255].repeat(60 * 40);
    let from = RgbPixels { bytes: &bytes, width: 60, height: 40 };
    let all = Rect { x: 0, y: 0, width: 60, height: 40 };
    let area = Area { x: 0.3, y: 2.0, width: 50.5, height: 37.0 };
    let mut out = vec![0; 23 * 31 * 3];
    for how in ALL {
        Resizer::new().resize(&Cutout { pixels: from, window: all, area }, 23, 31, how, &mut out).unwrap();
        assert!(out.as_chunks::<3>().0.iter().all(|&p| p == [17, 130, 255]));
    }
}

#[test]
fn nothing_outside_of_the_window_is_seen() {
    let inside = |x: u32, y: u32| (10..40).contains(&x) && (5..25).contains(&y);
    let bytes: Vec<u8> =
        (0..40).flat_map(|y| (0..60).flat_map(move |x| [if inside(x, y) { 200 } else { 0 }; 3])).collect();
    let from = RgbPixels { bytes: &bytes, width: 60, height: 40 };
    let window = Rect { x: 10, y: 5, width: 30, height: 20 };
    let area = Area { x: 10.0, y: 5.0, width: 30.0, height: 20.0 };
    for (width, height) in [(7, 9), (15, 10), (64, 47), (30, 11), (11, 20)] {
        let mut out = vec![0; (width * height * 3) as usize];
        for how in ALL {
            Resizer::new().resize(&Cutout { pixels: from, window, area }, width, height, how, &mut out).unwrap();
            assert!(out.iter().all(|&v| v == 200), "{width} × {height} {how:?}");
        }
    }
}

/// The first output pixel is at a distance of 1 from the first input pixel, where a cubic is zero. It therefore uses
/// fewer input pixels at the border than the second output pixel does.
#[test]
fn a_cubic_that_is_zero_at_the_border_stays_within_the_picture() {
    let bytes = gradients();
    let from = RgbPixels { bytes: &bytes, width: 37, height: 29 };
    let upright = how(Interpolation::Bicubic);
    for (start, extent) in [(1.25, 2.0), (1.0, 4.0), (33.75, 2.0)] {
        for size in [(4, 8), (8, 4), (4, 4), (3, 40)] {
            let area = Area { x: start, y: start.min(25.0), width: extent, height: extent };
            let mut out = [vec![0; size.0 * size.1 * 3], vec![0; size.0 * size.1 * 3]];
            let to = (size.0 as u32, size.1 as u32);
            for (out, transposed) in out.iter_mut().zip([false, true]) {
                let how = Resizing { transposed, ..upright };
                Resizer::new()
                    .resize(&Cutout { pixels: from, window: Rect::whole(37, 29), area }, to.0, to.1, how, out)
                    .unwrap();
            }
            // The order of the axes matters only where values overshoot, so most values must be alike.
            let alike = out[0].iter().zip(&out[1]).filter(|(a, b)| a.abs_diff(**b) <= 1).count();
            assert!(alike * 2 > out[0].len(), "{start} {size:?}: {alike} of {}", out[0].len());
        }
    }
}

/// Output of Pillow 13 for [`gradients`]: `crop(…).resize((width, height), Image.BILINEAR).tobytes()`.
const CROPPED: [u8; 126] = [
    131, 142, 129, 126, 131, 128, 129, 131, 130, 127, 118, 114, 124, 119, 125, 123, 132, 127, 124, 128, 121, 124, 125,
    125, 131, 120, 124, 124, 124, 126, 122, 123, 137, 127, 129, 130, 131, 123, 123, 121, 122, 122, 119, 130, 131, 128,
    130, 125, 122, 128, 124, 124, 119, 121, 135, 124, 118, 132, 126, 130, 134, 124, 131, 127, 118, 125, 128, 125, 116,
    117, 136, 120, 124, 129, 117, 127, 123, 117, 132, 119, 134, 126, 132, 135, 130, 126, 124, 120, 125, 130, 120, 132,
    114, 132, 128, 123, 119, 127, 136, 119, 113, 128, 122, 124, 123, 123, 134, 122, 130, 127, 131, 126, 128, 122, 126,
    130, 122, 114, 141, 143, 134, 130, 123, 125, 135, 138,
];

/// Pillow's output for the whole picture, resized to 5 × 4 pixels.
const SMALL: [u8; 60] = [
    101, 114, 116, 131, 134, 126, 123, 122, 121, 126, 126, 126, 122, 127, 126, 125, 133, 129, 125, 126, 126, 125, 123,
    126, 133, 127, 124, 126, 123, 124, 131, 124, 127, 122, 128, 120, 124, 130, 120, 123, 119, 128, 129, 124, 133, 127,
    126, 125, 126, 128, 127, 123, 129, 128, 122, 134, 130, 132, 127, 128,
];

/// Pillow's output for columns 4 to 8 and rows 3 to 6, enlarged.
const LARGE: [u8; 168] = [
    129, 150, 171, 147, 168, 189, 174, 195, 200, 204, 225, 70, 156, 177, 22, 30, 51, 56, 51, 72, 93, 77, 98, 119, 139,
    162, 186, 158, 181, 165, 180, 203, 131, 154, 177, 59, 107, 130, 41, 39, 62, 76, 67, 91, 114, 94, 117, 141, 154,
    182, 209, 175, 202, 126, 189, 216, 20, 73, 101, 41, 28, 55, 70, 53, 81, 107, 93, 120, 148, 121, 148, 176, 170, 201,
    233, 192, 167, 143, 207, 118, 30, 81, 73, 64, 38, 69, 101, 76, 108, 139, 118, 150, 181, 148, 179, 211, 185, 220,
    238, 200, 132, 157, 208, 21, 56, 96, 57, 92, 60, 95, 131, 100, 135, 171, 143, 168, 204, 174, 192, 227, 200, 240,
    115, 153, 152, 99, 89, 43, 83, 70, 81, 120, 82, 122, 161, 124, 163, 203, 169, 116, 155, 201, 76, 116, 210, 252, 38,
    123, 165, 63, 15, 57, 99, 54, 96, 138, 96, 138, 180, 139, 181, 223, 185, 83, 125, 218, 4, 46,
];

/// Pillow's output for `Image.BICUBIC`.
const CROPPED_BICUBIC: [u8; 126] = [
    131, 143, 129, 127, 131, 127, 130, 133, 133, 125, 118, 111, 125, 117, 124, 123, 132, 129, 121, 130, 121, 124, 125,
    123, 130, 118, 126, 123, 122, 126, 120, 125, 141, 129, 130, 130, 131, 123, 122, 122, 120, 119, 117, 131, 132, 129,
    132, 126, 121, 129, 125, 126, 117, 121, 137, 125, 116, 133, 130, 130, 131, 129, 131, 128, 115, 125, 128, 124, 114,
    115, 137, 118, 122, 130, 117, 125, 122, 114, 134, 114, 138, 129, 129, 140, 130, 126, 123, 118, 124, 132, 119, 133,
    112, 135, 128, 123, 118, 127, 139, 114, 112, 125, 124, 124, 121, 123, 136, 120, 133, 127, 134, 127, 126, 122, 126,
    129, 121, 112, 145, 146, 138, 131, 121, 124, 135, 138,
];

const SMALL_BICUBIC: [u8; 60] = [
    97, 111, 114, 136, 137, 128, 122, 121, 120, 125, 125, 127, 121, 128, 125, 126, 136, 130, 125, 125, 125, 124, 123,
    127, 134, 128, 124, 126, 122, 125, 132, 123, 128, 121, 128, 119, 124, 132, 118, 123, 118, 128, 128, 125, 134, 127,
    126, 125, 127, 128, 128, 124, 129, 129, 122, 135, 132, 134, 126, 127,
];

const LARGE_BICUBIC: [u8; 168] = [
    124, 144, 163, 140, 160, 204, 172, 193, 222, 235, 255, 61, 179, 200, 0, 20, 41, 51, 38, 59, 93, 77, 98, 118, 133,
    155, 185, 155, 182, 175, 180, 212, 142, 169, 195, 48, 114, 136, 22, 31, 54, 70, 59, 82, 114, 94, 117, 139, 151,
    178, 223, 182, 213, 129, 195, 230, 8, 59, 88, 30, 6, 32, 69, 52, 80, 107, 97, 124, 152, 125, 153, 180, 165, 208,
    255, 207, 175, 151, 228, 117, 6, 62, 50, 50, 5, 46, 101, 75, 106, 139, 125, 166, 197, 153, 201, 233, 182, 236, 246,
    210, 134, 166, 220, 5, 49, 87, 46, 84, 41, 95, 130, 99, 136, 172, 150, 179, 214, 180, 203, 238, 211, 250, 102, 155,
    156, 93, 76, 30, 84, 59, 73, 122, 79, 132, 171, 128, 173, 213, 180, 112, 152, 211, 66, 100, 228, 255, 16, 121, 173,
    48, 0, 53, 103, 42, 90, 143, 100, 150, 193, 142, 192, 235, 196, 71, 113, 227, 0, 16,
];

/// Output of torchvision 0.29.2 for `InterpolationMode.NEAREST_EXACT`.
const CROPPED_NEAREST: [u8; 126] = [
    203, 231, 3, 195, 223, 251, 128, 156, 184, 211, 239, 11, 27, 55, 83, 124, 152, 180, 156, 184, 212, 75, 131, 187,
    147, 203, 3, 180, 236, 36, 107, 163, 219, 3, 59, 115, 200, 0, 56, 56, 112, 168, 203, 31, 115, 99, 183, 11, 232, 60,
    144, 3, 87, 171, 235, 63, 147, 20, 104, 188, 212, 40, 124, 75, 187, 43, 51, 163, 19, 28, 140, 252, 155, 11, 123,
    211, 67, 179, 96, 208, 64, 112, 224, 80, 203, 87, 227, 3, 143, 27, 80, 220, 104, 51, 191, 75, 187, 71, 211, 172,
    56, 196, 12, 152, 36, 75, 243, 155, 211, 123, 35, 132, 44, 212, 203, 115, 27, 163, 75, 243, 248, 160, 72, 168, 80,
    248,
];

const SMALL_NEAREST: [u8; 60] = [
    93, 114, 135, 37, 58, 79, 239, 4, 25, 223, 244, 9, 199, 220, 241, 247, 61, 131, 215, 29, 99, 150, 220, 34, 123,
    193, 7, 123, 193, 7, 167, 37, 163, 199, 69, 195, 158, 28, 154, 155, 25, 151, 219, 89, 215, 65, 240, 159, 121, 40,
    215, 69, 244, 163, 55, 230, 149, 143, 62, 237,
];

const LARGE_NEAREST: [u8; 168] = [
    129, 150, 171, 129, 150, 171, 171, 192, 213, 219, 240, 5, 219, 240, 5, 17, 38, 59, 77, 98, 119, 77, 98, 119, 129,
    150, 171, 129, 150, 171, 171, 192, 213, 219, 240, 5, 219, 240, 5, 17, 38, 59, 77, 98, 119, 77, 98, 119, 156, 184,
    212, 156, 184, 212, 203, 231, 3, 0, 28, 56, 0, 28, 56, 59, 87, 115, 124, 152, 180, 124, 152, 180, 183, 218, 253,
    183, 218, 253, 235, 14, 49, 37, 72, 107, 37, 72, 107, 101, 136, 171, 171, 206, 241, 171, 206, 241, 183, 218, 253,
    183, 218, 253, 235, 14, 49, 37, 72, 107, 37, 72, 107, 101, 136, 171, 171, 206, 241, 171, 206, 241, 210, 252, 38,
    210, 252, 38, 11, 53, 95, 74, 116, 158, 74, 116, 158, 143, 185, 227, 218, 4, 46, 218, 4, 46, 210, 252, 38, 210,
    252, 38, 11, 53, 95, 74, 116, 158, 74, 116, 158, 143, 185, 227, 218, 4, 46, 218, 4, 46,
];

/// Returns a picture of 37 × 29 pixels, where each value differs from its neighbours.
fn gradients() -> Vec<u8> {
    let value = |x: u32, y: u32, c: u32| ((x * x * 3 + y * 7 * (c + 1) + x * y * 5) % 256) as u8;
    (0..29).flat_map(|y| (0..37).flat_map(move |x| (0..3).map(move |c| value(x, y, c)))).collect()
}

#[test]
fn pillow_makes_the_same_pixels_within_one_level() {
    let bytes = gradients();
    let from = RgbPixels { bytes: &bytes, width: 37, height: 29 };
    type Case<'a> = (Rect, (u32, u32), [&'a [u8]; 3]);
    let cases: [Case<'_>; 3] = [
        (Rect { x: 3, y: 2, width: 32, height: 25 }, (7, 6), [&CROPPED_NEAREST, &CROPPED, &CROPPED_BICUBIC]),
        (Rect::whole(37, 29), (5, 4), [&SMALL_NEAREST, &SMALL, &SMALL_BICUBIC]),
        (Rect { x: 4, y: 3, width: 5, height: 4 }, (8, 7), [&LARGE_NEAREST, &LARGE, &LARGE_BICUBIC]),
    ];
    for (rect, (width, height), expected) in cases {
        for ((how, expected), most) in ALL.into_iter().zip(expected).zip([0, 1, 1]) {
            let [x, y, w, h] = [rect.x, rect.y, rect.width, rect.height].map(f64::from);
            let mut out = vec![0; expected.len()];
            let area = Area { x, y, width: w, height: h };
            Resizer::new().resize(&Cutout { pixels: from, window: rect, area }, width, height, how, &mut out).unwrap();
            let far = out.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(far <= Some(most), "{rect:?} {how:?}: {far:?}");
        }
    }
}

/// If a centre is on the border between two pixels, the right pixel of the upright picture is used, even if
/// the picture is stored mirrored.
#[test]
fn the_nearest_pixel_of_a_mirrored_picture_is_that_of_the_upright_one() {
    let at = |start, extent, count, side, mirrored| {
        let mut out = Vec::new();
        nearest(&mut out, start..start + extent, count, side, mirrored);
        out
    };
    assert_eq!(at(0.0, 8.0, 4, 8, false), [1, 3, 5, 7]);
    assert_eq!(at(0.0, 8.0, 4, 8, true), [0, 2, 4, 6]);
    assert_eq!(at(1.0, 2.0, 5, 9, false), [1, 1, 2, 2, 2]);
    assert_eq!(at(6.0, 2.0, 5, 9, true), [6, 6, 6, 7, 7]);
    // The result is always within the side, regardless of rounding.
    assert_eq!(at(7.5, 1.0, 3, 8, false), [7, 7, 7]);
}

#[test]
fn interpolations_have_names() {
    for how in ALL {
        assert_eq!(how.interpolation.to_string().parse(), Ok(how.interpolation));
    }
    let error = "Bicubic".parse::<Interpolation>().unwrap_err().to_string();
    assert!(error.contains("expected nearest, bilinear or bicubic, found `Bicubic`"), "{error}");
}

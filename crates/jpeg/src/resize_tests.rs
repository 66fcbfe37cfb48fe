use super::*;

#[test]
fn a_flat_picture_stays_flat() {
    let bytes = [17, 130, 255].repeat(60 * 40);
    let from = Pixels { bytes: &bytes, width: 60, height: 40 };
    let all = Rect { x: 0, y: 0, width: 60, height: 40 };
    let area = Area { x: 0.3, y: 2.0, width: 50.5, height: 37.0 };
    let mut out = vec![0; 23 * 31 * 3];
    Resizer::new().resize(from, all, area, (23, 31), &mut out).unwrap();
    assert!(out.as_chunks::<3>().0.iter().all(|&p| p == [17, 130, 255]));
}

#[test]
fn nothing_outside_of_the_window_is_seen() {
    // A window of one colour in a picture of another.
    let inside = |x: u32, y: u32| (10..40).contains(&x) && (5..25).contains(&y);
    let bytes: Vec<u8> =
        (0..40).flat_map(|y| (0..60).flat_map(move |x| [if inside(x, y) { 200 } else { 0 }; 3])).collect();
    let from = Pixels { bytes: &bytes, width: 60, height: 40 };
    let window = Rect { x: 10, y: 5, width: 30, height: 20 };
    let area = Area { x: 10.0, y: 5.0, width: 30.0, height: 20.0 };
    for (width, height) in [(7, 9), (15, 10), (64, 47), (30, 11), (11, 20)] {
        let mut out = vec![0; (width * height * 3) as usize];
        Resizer::new().resize(from, window, area, (width, height), &mut out).unwrap();
        assert!(out.iter().all(|&v| v == 200), "{width} × {height}");
    }
}

/// The output of Pillow 13 for [`gradients`]:
/// `crop(…).resize((width, height), Image.BILINEAR).tobytes()`.
const CROPPED: [u8; 126] = [
    131, 142, 129, 126, 131, 128, 129, 131, 130, 127, 118, 114, 124, 119, 125, 123, 132, 127, 124, 128, 121, 124, 125,
    125, 131, 120, 124, 124, 124, 126, 122, 123, 137, 127, 129, 130, 131, 123, 123, 121, 122, 122, 119, 130, 131, 128,
    130, 125, 122, 128, 124, 124, 119, 121, 135, 124, 118, 132, 126, 130, 134, 124, 131, 127, 118, 125, 128, 125, 116,
    117, 136, 120, 124, 129, 117, 127, 123, 117, 132, 119, 134, 126, 132, 135, 130, 126, 124, 120, 125, 130, 120, 132,
    114, 132, 128, 123, 119, 127, 136, 119, 113, 128, 122, 124, 123, 123, 134, 122, 130, 127, 131, 126, 128, 122, 126,
    130, 122, 114, 141, 143, 134, 130, 123, 125, 135, 138,
];

/// The whole picture, at 5 × 4.
const SMALL: [u8; 60] = [
    101, 114, 116, 131, 134, 126, 123, 122, 121, 126, 126, 126, 122, 127, 126, 125, 133, 129, 125, 126, 126, 125, 123,
    126, 133, 127, 124, 126, 123, 124, 131, 124, 127, 122, 128, 120, 124, 130, 120, 123, 119, 128, 129, 124, 133, 127,
    126, 125, 126, 128, 127, 123, 129, 128, 122, 134, 130, 132, 127, 128,
];

/// Columns 4 to 8 and rows 3 to 6, enlarged.
const LARGE: [u8; 168] = [
    129, 150, 171, 147, 168, 189, 174, 195, 200, 204, 225, 70, 156, 177, 22, 30, 51, 56, 51, 72, 93, 77, 98, 119, 139,
    162, 186, 158, 181, 165, 180, 203, 131, 154, 177, 59, 107, 130, 41, 39, 62, 76, 67, 91, 114, 94, 117, 141, 154,
    182, 209, 175, 202, 126, 189, 216, 20, 73, 101, 41, 28, 55, 70, 53, 81, 107, 93, 120, 148, 121, 148, 176, 170, 201,
    233, 192, 167, 143, 207, 118, 30, 81, 73, 64, 38, 69, 101, 76, 108, 139, 118, 150, 181, 148, 179, 211, 185, 220,
    238, 200, 132, 157, 208, 21, 56, 96, 57, 92, 60, 95, 131, 100, 135, 171, 143, 168, 204, 174, 192, 227, 200, 240,
    115, 153, 152, 99, 89, 43, 83, 70, 81, 120, 82, 122, 161, 124, 163, 203, 169, 116, 155, 201, 76, 116, 210, 252, 38,
    123, 165, 63, 15, 57, 99, 54, 96, 138, 96, 138, 180, 139, 181, 223, 185, 83, 125, 218, 4, 46,
];

/// 37 × 29 pixels, each value different from its neighbours'.
fn gradients() -> Vec<u8> {
    let value = |x: u32, y: u32, c: u32| ((x * x * 3 + y * 7 * (c + 1) + x * y * 5) % 256) as u8;
    (0..29).flat_map(|y| (0..37).flat_map(move |x| (0..3).map(move |c| value(x, y, c)))).collect()
}

#[test]
fn pillow_makes_the_same_pixels_within_one_level() {
    let bytes = gradients();
    let from = Pixels { bytes: &bytes, width: 37, height: 29 };
    let cases: [(Rect, (u32, u32), &[u8]); 3] = [
        (Rect { x: 3, y: 2, width: 32, height: 25 }, (7, 6), &CROPPED),
        (Rect::whole(37, 29), (5, 4), &SMALL),
        (Rect { x: 4, y: 3, width: 5, height: 4 }, (8, 7), &LARGE),
    ];
    for (rect, (width, height), expected) in cases {
        let [x, y, w, h] = [rect.x, rect.y, rect.width, rect.height].map(f64::from);
        let mut out = vec![0; expected.len()];
        let area = Area { x, y, width: w, height: h };
        Resizer::new().resize(from, rect, area, (width, height), &mut out).unwrap();
        let far = out.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(far <= Some(1), "{rect:?}: {far:?}");
    }
}

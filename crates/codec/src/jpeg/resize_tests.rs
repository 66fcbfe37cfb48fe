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

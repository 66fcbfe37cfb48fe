use super::*;

fn key(sample: u64) -> DrawKey {
    DrawKey { seed: 11, epoch: 4, sample }
}

fn part(view: View, width: u32, height: u32, sample: u64) -> Rect {
    view.resolve(width, height, &key(sample)).unwrap().window
}

#[test]
fn fixed_views_show_the_documented_part() {
    let whole = View::whole().resolve(500, 375, &key(0)).unwrap();
    assert_eq!((whole.window, whole.height, whole.width), (Rect { x: 0, y: 0, width: 500, height: 375 }, 375, 500));
    let rect = Rect { x: 3, y: 4, width: 50, height: 60 };
    assert_eq!(View::rectangle(rect).resolve(500, 375, &key(0)).unwrap().area.rect(), Some(rect));
    let resized = View::resize((10, 20)).resolve(500, 375, &key(0)).unwrap();
    assert_eq!((resized.window, resized.height, resized.width), (whole.window, 10, 20));
}

/// The expected sizes and starts are from torchvision 0.20: `Resize(256)` resizes 500 × 375 to 341 × 256, and
/// `CenterCrop(224)` starts at column 58 (58.5 is rounded to even) and row 16.
#[test]
fn centre_crops_lie_where_torchvision_puts_them() {
    let crop = View::center_crop(256, 224).resolve(500, 375, &key(0)).unwrap();
    let (x, y) = (500.0 / 341.0, 375.0 / 256.0);
    assert_eq!(crop.area, Area { x: 58.0 * x, y: 16.0 * y, width: 224.0 * x, height: 224.0 * y });
    assert_eq!(crop.window, Rect { x: 82, y: 20, width: 416 - 82, height: 355 - 20 });
    let upright = View::center_crop(256, 224).resolve(375, 500, &key(0)).unwrap();
    assert_eq!((upright.area.x, upright.area.y), (crop.area.y, crop.area.x));
    // The window is the whole picture, because the filter cannot reach beyond it.
    let all = View::center_crop(8, 8).resolve(100, 100, &key(0)).unwrap();
    assert_eq!(all.window, Rect { x: 0, y: 0, width: 100, height: 100 });
}

/// With padding, the whole picture is shown, resized and centred. All pixels around it have the fill colour.
#[test]
fn padded_pictures_keep_their_proportions_and_lie_in_the_middle() {
    let place = |view: View, width, height| view.resolve(width, height, &key(0)).unwrap().inner;
    assert_eq!(place(View::pad(640), 500, 375), Rect { x: 0, y: 80, width: 640, height: 480 });
    assert_eq!(place(View::pad(640), 375, 500), Rect { x: 80, y: 0, width: 480, height: 640 });
    // 1280 × 720 becomes 640 × 360, and 1000 × 667 becomes 640 × 426.88.
    assert_eq!(place(View::pad(640), 1280, 720), Rect { x: 0, y: 140, width: 640, height: 360 });
    assert_eq!(place(View::pad(640), 1000, 667), Rect { x: 0, y: 106, width: 640, height: 427 });
    assert_eq!(place(View::pad((480, 640)), 640, 480), Rect::whole(640, 480));
    // A picture one pixel wide stays one pixel wide. If the number of border pixels is odd, the right border has one
    // more, or the left border if the picture is mirrored.
    assert_eq!(place(View::pad(8), 1, 65_535), Rect { x: 3, y: 0, width: 1, height: 8 });
    assert_eq!(place(View::pad(8).with_flip(1.0), 1, 65_535), Rect { x: 4, y: 0, width: 1, height: 8 });
    for (width, height, rows, columns) in (1..60).flat_map(|n| [(n, 60, 31, 17), (60, n, 31, 17), (n, 7, n + 3, 2)]) {
        let crop = View::pad((rows, columns)).with_flip(0.5).resolve(width, height, &key(u64::from(width))).unwrap();
        let whole = Rect::whole(width, height);
        assert_eq!((crop.window, crop.area.rect(), crop.fill), (whole, Some(whole), [114; 3]));
        assert!(Rect::whole(columns, rows).contains(&crop.inner));
        assert!(crop.inner.width == columns || crop.inner.height == rows);
        let scales = [f64::from(crop.inner.width) / f64::from(width), f64::from(crop.inner.height) / f64::from(height)];
        let exact = (f64::from(columns) / f64::from(width)).min(f64::from(rows) / f64::from(height));
        assert!((scales[0] - exact).abs() * f64::from(width) <= 1.0, "{scales:?} {exact}");
        assert!((scales[1] - exact).abs() * f64::from(height) <= 1.0, "{scales:?} {exact}");
        // Within the covered area, the corners of the picture must be at the expected positions.
        let covered = crop.covered();
        let at = |x: f64| (x - covered.x) * f64::from(columns) / covered.width;
        let ends = [at(0.0), at(f64::from(width))];
        let ends = if crop.flip { [f64::from(columns) - ends[1], f64::from(columns) - ends[0]] } else { ends };
        assert!(
            (ends[0] - f64::from(crop.inner.x)).abs() < 1e-9 && (ends[1] - f64::from(crop.inner.right())).abs() < 1e-9
        );
    }
    let resized = View::resize((9, 7)).resolve(30, 30, &key(0)).unwrap();
    assert_eq!((resized.is_padded(), resized.covered()), (false, resized.area));
}

#[test]
fn impossible_views_are_refused() {
    let range = |scale, ratio| View::new(Framing::RandomResizedCrop { size: 8.into(), scale, ratio });
    let refused = [
        View::resize((0, 5)),
        View::pad((5, 0)),
        View::center_crop(224, (256, 224)),
        View::whole().with_flip(1.5),
        View::whole().with_flip(f64::NAN),
        range((0.0, 1.0), (1.0, 1.0)),
        range((0.5, 0.1), (1.0, 1.0)),
        range((0.5, 2.0), (1.0, 1.0)),
        range((0.5, 1.0), (0.0, 1.0)),
        range((0.5, 1.0), (1.0, f64::INFINITY)),
        range((0.5, 1.0), (f64::NAN, 1.0)),
    ];
    for view in refused {
        assert!(matches!(view.resolve(10, 10, &key(0)), Err(Error::Usage { .. })), "{view:?}");
    }
    for rect in [(0, 0, 11, 1), (5, 0, 6, 1), (0, u32::MAX, 1, 1), (u32::MAX, 0, u32::MAX, 1)] {
        let rect = Rect { x: rect.0, y: rect.1, width: rect.2, height: rect.3 };
        assert!(View::rectangle(rect).resolve(10, 10, &key(0)).is_err(), "{rect:?}");
    }
}

#[test]
fn draws_do_not_depend_on_the_order_of_calls() {
    let view = View::random_resized_crop(224).with_flip(0.5);
    let forward: Vec<Crop> = (0..500).map(|i| view.resolve(500, 375, &key(i)).unwrap()).collect();
    let threads: Vec<Crop> = std::thread::scope(|scope| {
        let of =
            |start: u64| (start..start + 125).rev().map(|i| (i, view.resolve(500, 375, &key(i)).unwrap())).collect();
        let handles: Vec<_> =
            [375, 0, 250, 125].map(|start| scope.spawn(move || -> Vec<(u64, Crop)> { of(start) })).into();
        let mut all: Vec<_> = handles.into_iter().flat_map(|h| h.join().unwrap()).collect();
        all.sort_by_key(|&(i, _)| i);
        all.into_iter().map(|(_, crop)| crop).collect()
    });
    assert_eq!(forward, threads);
    let other = View { flip: 0.0, ..view };
    assert!((0..500).all(|i| other.resolve(500, 375, &key(i)).unwrap().window == forward[i as usize].window));
}

#[test]
fn random_parts_lie_within_the_picture() {
    let view = View::random_resized_crop(224);
    for (width, height) in [(1, 1), (2, 1), (1, 300), (500, 375), (4000, 3), (65535, 65535)] {
        for sample in 0..300 {
            let rect = part(view, width, height, sample);
            assert!(rect.width >= 1 && rect.height >= 1);
            assert!(rect.x + rect.width <= width && rect.y + rect.height <= height, "{rect:?} in {width} × {height}");
        }
    }
}

/// Returns the Kolmogorov–Smirnov distance between sorted values and the uniform distribution.
fn distance(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    values
        .iter()
        .enumerate()
        .map(|(i, v)| (v - i as f64 / n).abs().max((v - (i + 1) as f64 / n).abs()))
        .fold(0.0, f64::max)
}

/// The picture is so large that rounding does not matter, and the crops are so small that every attempt succeeds.
/// Each parameter therefore has exactly the documented distribution. 1.95 / √n is the 99.9 % point of the distance.
#[test]
fn parameters_are_distributed_as_documented() {
    let n = 20_000;
    let (scale, ratio) = ((0.1, 0.4), (0.5, 2.0));
    let view = View::new(Framing::RandomResizedCrop { size: 9.into(), scale, ratio });
    let side = 60_000;
    let parts: Vec<Rect> = (0..n).map(|i| part(view, side, side, i)).collect();
    let total = f64::from(side) * f64::from(side);
    type Share = Box<dyn Fn(&Rect) -> f64>;
    let checks: [(&str, Share); 4] = [
        ("area", Box::new(move |r| (f64::from(r.width) * f64::from(r.height) / total - 0.1) / 0.3)),
        ("ratio", Box::new(|r| ((f64::from(r.width) / f64::from(r.height)).ln() - 0.5_f64.ln()) / 4_f64.ln())),
        ("column", Box::new(move |r| f64::from(r.x) / f64::from(side - r.width + 1))),
        ("row", Box::new(move |r| f64::from(r.y) / f64::from(side - r.height + 1))),
    ];
    for (name, of) in checks {
        let d = distance(parts.iter().map(of).collect());
        assert!(d < 1.95 / (n as f64).sqrt(), "{name}: {d}");
    }
}

#[test]
fn flips_have_their_probability() {
    for probability in [0.0, 0.25, 0.5, 1.0] {
        let view = View::whole().with_flip(probability);
        let flips = (0..10_000).filter(|&i| view.resolve(9, 9, &key(i)).unwrap().flip).count() as f64;
        // The permitted deviation is four standard deviations.
        assert!(
            (flips - 10_000.0 * probability).abs() <= 400.0 * (probability * (1.0 - probability)).sqrt(),
            "{probability}: {flips}"
        );
    }
}

#[test]
fn impossible_shapes_fall_back_to_the_centre() {
    let view = View::new(Framing::RandomResizedCrop { size: 9.into(), scale: (1.0, 1.0), ratio: (0.75, 4.0 / 3.0) });
    assert_eq!(part(view, 1000, 30, 0), Rect { x: 480, y: 0, width: 40, height: 30 });
    assert_eq!(part(view, 30, 1000, 0), Rect { x: 0, y: 480, width: 30, height: 40 });
}

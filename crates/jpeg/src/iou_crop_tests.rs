use super::*;
use crate::{Crop, DrawKey, Framing, Rect, View};

fn key(sample: u64) -> DrawKey {
    DrawKey { seed: 3, epoch: 1, sample }
}

fn zoomed() -> View {
    let crop = IouCrop { zoom_out: Some((1.0, 4.0)), ..IouCrop::default() };
    View { framing: Framing::IouCrop { size: (60, 80).into(), crop, fill: [7; 3] }, ..View::whole() }
}

const BOXES: [[f64; 4]; 3] = [[20.0, 30.0, 90.0, 80.0], [300.0, 200.0, 420.0, 330.0], [100.0, 10.0, 130.0, 25.0]];

fn shown(view: View, boxes: &[[f64; 4]], sample: u64) -> Crop {
    let key = key(sample);
    view.of_boxes(500, 375, &key, boxes).unwrap().resolve(500, 375, &key).unwrap()
}

/// Every drawn crop satisfies the rules of torchvision, and each overlap is drawn equally often.
#[test]
fn crops_have_the_overlap_that_was_drawn() {
    let (mut wholes, mut shares) = (0, Vec::new());
    for sample in 0..4_000 {
        let crop = shown(View::iou_crop((60, 80)), &BOXES, sample);
        let rect = crop.area.rect().expect("whole pixels");
        assert_eq!((crop.height, crop.width, crop.inner, crop.window), (60, 80, Rect::whole(80, 60), rect));
        if rect == Rect::whole(500, 375) {
            wholes += 1;
            continue;
        }
        let part = [rect.x, rect.y, rect.width, rect.height].map(f64::from);
        assert!(part[2] >= 149.0 && part[3] >= 112.0 && (0.5..=2.0).contains(&(part[2] / part[3])), "{part:?}");
        let share = overlap(part, &BOXES).expect("a box whose centre is inside");
        // The overlap that was drawn last is at most the overlap of the crop.
        let least = (0..ROUNDS).map(|round| key(sample).draws().pair(FIRST_PAIR + round * (1 + 2 * TRIES))[0]);
        let least: Vec<f64> =
            least.map(|draw| OVERLAPS[(draw * 7.0) as usize]).take_while(|least| *least < 1.0).collect();
        assert!(least.iter().any(|least| share >= *least), "{share} {least:?}");
        shares.push(share);
    }
    // In one of seven pictures the whole picture is drawn at once. Overlaps of 0.7 and more hardly ever fit these
    // boxes, so that the next draw decides.
    assert!((600..1_600).contains(&wholes), "{wholes}");
    let many = |least: f64| shares.iter().filter(|share| **share >= least).count();
    assert!(many(0.1) > 1_500 && many(0.3) < shares.len(), "{} {}", many(0.1), many(0.3));
}

#[test]
fn a_crop_without_a_fitting_box_is_the_whole_picture() {
    for sample in 0..50 {
        assert_eq!(shown(View::iou_crop(60), &[], sample).area.rect(), Some(Rect::whole(500, 375)));
        // A box without an area never has an overlap, and only the smallest overlap accepts it.
        let crop = shown(View::iou_crop(60), &[[40.0, 40.0, 40.0, 40.0]], sample);
        assert!(crop.area.width > 0.0);
    }
    let direct = View::iou_crop(60).resolve(500, 375, &key(1)).unwrap();
    assert_eq!(direct, shown(View::iou_crop(60), &[], 1));
}

#[test]
fn half_of_the_pictures_are_placed_on_a_canvas() {
    let (mut zoomed_out, mut widest) = (0, 0.0_f64);
    for sample in 0..1_000 {
        let crop = shown(zoomed(), &[], sample);
        assert!(Rect::whole(80, 60).contains(&crop.inner) && crop.fill == [7; 3]);
        let canvas = crop.covered();
        assert_eq!(crop.area.rect(), Some(Rect::whole(500, 375)), "the whole picture is on its canvas");
        // The border begins at a whole pixel of the output: each side of the covered area is within half a pixel of the
        // canvas.
        zoomed_out += u32::from(crop.is_padded());
        widest = widest.max(canvas.width / 500.0);
        let mirrored = shown(zoomed().with_flip(1.0), &[], sample);
        assert_eq!(mirrored.inner, Rect { x: 80 - crop.inner.right(), ..crop.inner });
    }
    assert!((420..580).contains(&zoomed_out) && (3.7..4.4).contains(&widest), "{zoomed_out} {widest}");
}

#[test]
fn an_area_shows_its_part_of_the_picture() {
    let view = |x, y, width, height| View {
        framing: Framing::Part { area: Area { x, y, width, height }, size: (50, 100).into(), fill: [0; 3] },
        ..View::whole()
    };
    let crop = view(-100.0, 10.0, 200.0, 50.0).resolve(80, 90, &key(0)).unwrap();
    assert_eq!(crop.area.rect(), Some(Rect { x: 0, y: 10, width: 80, height: 50 }));
    assert_eq!((crop.inner, crop.is_padded()), (Rect { x: 50, y: 0, width: 40, height: 50 }, true));
    assert_eq!(crop.covered(), Area { x: -100.0, y: 10.0, width: 200.0, height: 50.0 });
    // A narrow part still has one pixel.
    let narrow = view(-999.0, 0.0, 1_000.0, 90.0).resolve(80, 90, &key(0)).unwrap();
    assert_eq!((narrow.inner.x, narrow.inner.width, narrow.window.width), (99, 1, 1));
    for area in [[80.0, 0.0, 9.0, 9.0], [-9.0, 0.0, 9.0, 9.0], [0.0, 0.0, 0.0, 9.0], [0.0, 0.0, f64::NAN, 9.0]] {
        let [x, y, width, height] = area;
        let error = view(x, y, width, height).resolve(80, 90, &key(0)).unwrap_err().to_string();
        assert!(error.contains("does not overlap the picture of 80 × 90 pixels"), "{error}");
    }
}

#[test]
fn invalid_ranges_are_refused() {
    let said = |crop| {
        let framing = Framing::IouCrop { size: 8.into(), crop, fill: [0; 3] };
        View { framing, ..View::whole() }.check().unwrap_err().to_string()
    };
    let crop = IouCrop::default();
    assert!(
        said(IouCrop { scale: (0.5, 1.5), ..crop })
            .contains("scale of an IoU crop must be a range LOW..HIGH with 0 < LOW <= HIGH <= 1, but is 0.5..1.5")
    );
    assert!(
        said(IouCrop { ratio: (2.0, 1.0), ..crop })
            .contains("ratio of an IoU crop must be a range LOW..HIGH with 0 < LOW <= HIGH, but is 2..1")
    );
    for zoom_out in [(0.5, 2.0), (1.0, 17.0), (1.0, f64::NAN)] {
        assert!(
            said(IouCrop { zoom_out: Some(zoom_out), ..crop })
                .contains("zoom of an IoU crop must be a range LOW..HIGH with 1 <= LOW <= HIGH <= 16")
        );
    }
}

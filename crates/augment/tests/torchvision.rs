//! Compares every operation with the result of torchvision v2 for the same picture. The results are in
//! `torchvision.txt`, which `scripts/augment_vectors.py` writes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

use shardpack_augment::{Affine, ChangeScratch, Operation, Picture};

const VECTORS: &str = include_str!("torchvision.txt");
const BOXES: &str = include_str!("torchvision_boxes.txt");
const SIZE: [usize; 2] = [18, 25];

fn pixels(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits")).collect()
}

fn operation(text: &str) -> Operation {
    let mut words = text.split(' ');
    let name = words.next().expect("a name");
    let numbers: Vec<f64> = words.map(|word| word.parse().expect("a number")).collect();
    let degrees = |shear: f64| shear.atan().to_degrees();
    let whole = |number: f64| number as usize;
    let corner = Affine { from_corner: true, ..Affine::default() };
    match (name, &*numbers) {
        ("brightness", &[factor]) => Operation::Brightness(factor),
        ("contrast", &[factor]) => Operation::Contrast(factor),
        ("saturation", &[factor]) => Operation::Saturation(factor),
        ("sharpness", &[factor]) => Operation::Sharpness(factor),
        ("hue", &[by]) => Operation::Hue(by),
        ("posterize", &[bits]) => Operation::Posterize(bits as u8),
        ("solarize", &[threshold]) => Operation::Solarize(threshold),
        ("autocontrast", []) => Operation::AutoContrast,
        ("equalize", []) => Operation::Equalize,
        ("invert", []) => Operation::Invert,
        ("grayscale", []) => Operation::Grayscale,
        ("shear_x", &[shear]) => Operation::Affine(Affine { shear: [degrees(shear), 0.0], ..corner }),
        ("shear_y", &[shear]) => Operation::Affine(Affine { shear: [0.0, degrees(shear)], ..corner }),
        ("translate", &[x, y]) => Operation::Affine(Affine { translate: [x, y], ..Affine::default() }),
        ("affine", &[angle, x, y, scale, shear_x, shear_y]) => {
            Operation::Affine(Affine { angle, translate: [x, y], scale, shear: [shear_x, shear_y], from_corner: false })
        }
        ("rotate", &[degrees]) => Operation::Affine(Affine::rotation(degrees)),
        ("blur", &[size, sigma]) => Operation::Blur { size: size as u32, sigma },
        ("erase", &[top, left, height, width, value]) => Operation::Erase {
            origin: [whole(top), whole(left)],
            size: [whole(height), whole(width)],
            value: [value as u8; 3],
        },
        _ => panic!("unknown operation `{text}`"),
    }
}

#[test]
fn every_operation_is_torchvisions_within_one_level() {
    let mut lines = VECTORS.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once('\t').unwrap());
    let (name, picture) = lines.next().expect("a picture");
    assert_eq!(name, "picture");
    let (picture, mut scratch, mut count) = (pixels(picture), ChangeScratch::default(), 0);
    for (text, expected) in lines {
        let mut found = picture.clone();
        operation(text).apply(&mut Picture::new(&mut found, SIZE[0], SIZE[1]).unwrap(), &mut scratch);
        let expected = pixels(expected);
        assert_eq!(found.len(), expected.len(), "{text}");
        let apart = found.iter().zip(&expected).filter(|(found, expected)| found.abs_diff(**expected) > 1).count();
        assert_eq!(apart, 0, "{text}: {apart} of {} levels are more than 1 apart", found.len());
        count += 1;
    }
    assert!(count >= 50, "{count} operations");
}

/// A box is replaced by the upright box around its moved corners, clipped at the borders of the
/// picture.
#[test]
fn boxes_are_torchvisions() {
    let numbers = |text: &str| text.split(' ').map(|word| word.parse().expect("a number")).collect::<Vec<f64>>();
    let [height, width] = SIZE.map(|side| side as u32);
    let mut gone = 0;
    for line in BOXES.lines().filter(|line| !line.starts_with('#')) {
        let [name, before, after] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let Operation::Affine(affine) = operation(name) else { panic!("{name}") };
        let (map, before, expected) = (affine.of_size(height, width), numbers(before), numbers(after));
        let corners = [[0, 1], [2, 1], [2, 3], [0, 3]].map(|[x, y]| map.moved([before[x], before[y]]));
        for (axis, side) in [(0, width), (1, height)] {
            let along = corners.map(|corner| corner[axis]);
            let low = along.into_iter().fold(f64::INFINITY, f64::min).clamp(0.0, side.into());
            let high = along.into_iter().fold(f64::NEG_INFINITY, f64::max).clamp(0.0, side.into());
            let apart = (low - expected[axis]).abs().max((high - expected[axis + 2]).abs());
            assert!(apart < 1e-3, "{line}: {low} to {high}");
            gone += usize::from(low >= high);
        }
    }
    assert!(gone > 0, "some boxes leave the picture");
    assert_eq!(BOXES.lines().count(), 1 + 8 * 10);
}

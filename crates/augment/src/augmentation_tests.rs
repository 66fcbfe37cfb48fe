use super::*;
use crate::{ChangeScratch, Picture};
use proptest::prelude::*;
use shardpack_base::DrawKey;
use std::collections::BTreeMap;

const EXAMPLES: [&str; Augmentation::NAMES.len()] = [
    "trivial_augment_wide",
    "rand_augment(num_ops=4,magnitude=30)",
    "color_jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.5)",
    "random_erasing(p=1)",
    "gaussian_blur(kernel_size=7)",
    "random_affine(degrees=180,translate=1,scale=0.1..4,shear=89,shear_y=89)",
    "random_rotation(degrees=360)",
    "random_affine_3d(degrees=30,scale=0.5..2,translate=0.1)",
    "random_posterize(bits=2)",
    "random_solarize(threshold=99.5)",
    "random_adjust_sharpness(factor=3)",
    "random_autocontrast",
    "random_equalize",
    "random_invert",
    "random_grayscale",
];

#[test]
fn each_name_has_an_example() {
    let names = EXAMPLES.map(|text| text.split('(').next().unwrap());
    assert_eq!(names, Augmentation::NAMES);
}

fn resolve(text: &str, sample: u64) -> Vec<Operation> {
    let draws = DrawKey { seed: 3, epoch: 1, sample }.draws();
    text.parse::<Augmentation>().unwrap().resolve(&draws, 0, 40, 60)
}

fn kind(operations: &[Operation]) -> String {
    match operations {
        [] => "none".into(),
        [Operation::Affine(affine)] => {
            let axes = [affine.angle != 0.0, affine.translate[0] != 0.0, affine.translate[1] != 0.0];
            format!("affine {axes:?} {:?}", affine.shear.map(|shear| shear != 0.0))
        }
        [one, ..] => format!("{one:?}").split('(').next().unwrap().to_owned(),
    }
}

#[test]
fn all_fourteen_operations_are_drawn_equally_often() {
    // Use the largest magnitude, because at magnitude 0 some operations do nothing and would be indistinguishable.
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for sample in 0..14_000 {
        *counts.entry(kind(&resolve("rand_augment(num_ops=1,magnitude=30)", sample))).or_default() += 1;
    }
    assert_eq!(counts.len(), 14, "{counts:?}");
    // The chi-square statistic with 13 degrees of freedom exceeds 42 with a probability of 0.01 %.
    let chi: f64 = counts.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
    assert!(chi < 42.0, "{chi} {counts:?}");
}

#[test]
fn all_orders_of_a_jitter_are_drawn_equally_often() {
    let mut counts: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for sample in 0..24_000 {
        let operations = resolve("color_jitter(brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1)", sample);
        *counts.entry(operations.iter().map(|one| kind(&[*one])).collect()).or_default() += 1;
    }
    assert_eq!(counts.len(), 24);
    // The chi-square statistic with 23 degrees of freedom exceeds 58 with a probability of 0.01 %.
    let chi: f64 = counts.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
    assert!(chi < 58.0, "{chi}");
}

#[test]
fn a_probability_is_one() {
    for (text, expected) in [("random_invert(p=0)", 0), ("random_invert(p=1)", 10_000), ("random_invert(p=0.25)", 2500)]
    {
        let count = (0..10_000).filter(|&sample| !resolve(text, sample).is_empty()).count();
        // For p = 0.25, allow five standard deviations of the count of applied operations.
        assert!(count.abs_diff(expected) <= if expected == 2500 { 217 } else { 0 }, "{text}: {count}");
    }
}

#[test]
fn erased_rectangles_have_the_requested_area() {
    for sample in 0..2000 {
        let operations = resolve("random_erasing(p=1,scale=0.1..0.2,ratio=0.5..2)", sample);
        let [Operation::Erase { origin: [top, left], size: [height, width], value: [0, 0, 0] }] = operations[..] else {
            panic!("{operations:?}");
        };
        assert!(top + height <= 40 && left + width <= 60);
        let area = (height * width) as f64 / (40.0 * 60.0);
        assert!((0.09..0.22).contains(&area), "{height} × {width}");
    }
    let none = "random_erasing(p=1,scale=1..1,ratio=1..1)".parse::<Augmentation>().unwrap();
    assert!(none.resolve(&DrawKey::default().draws(), 0, 8, 8).is_empty());
}

/// Each of the six numbers of an affine map must be in the requested range and have its own draw.
#[test]
fn affine_maps_are_drawn_from_their_ranges() {
    let text = "random_affine(degrees=-10..30,translate=0.1:0.25,scale=0.5..2,shear=5,shear_y=20..40)";
    let numbers: Vec<[f64; 6]> = (0..4000)
        .map(|sample| {
            let [Operation::Affine(affine)] = resolve(text, sample)[..] else { panic!("one map") };
            assert!(!affine.from_corner && affine.translate.iter().all(|pixels| pixels.fract() == 0.0));
            let Affine { angle, translate: [x, y], scale, shear: [along_x, along_y], .. } = affine;
            [angle, x, y, scale, along_x, along_y]
        })
        .collect();
    // The picture has 40 rows and 60 columns.
    let ranges = [(-10.0, 30.0), (-6.0, 6.0), (-10.0, 10.0), (0.5, 2.0), (-5.0, 5.0), (20.0, 40.0)];
    let share = |numbers: &[f64; 6], n: usize| (numbers[n] - ranges[n].0) / (ranges[n].1 - ranges[n].0);
    for n in 0..6 {
        assert!(numbers.iter().all(|one| (0.0..=1.0).contains(&share(one, n))), "{n}");
        // Allow five standard deviations of the mean of 4,000 uniform draws.
        let mean = numbers.iter().map(|one| share(one, n)).sum::<f64>() / 4000.0;
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0_f64).sqrt() / 4000.0_f64.sqrt(), "{n}: {mean}");
        for other in 0..n {
            let both = |one: &[f64; 6]| (share(one, n) - 0.5) * (share(one, other) - 0.5) * 12.0;
            let correlation = numbers.iter().map(both).sum::<f64>() / 4000.0;
            assert!(correlation.abs() < 0.08, "{n} and {other}: {correlation}");
        }
    }
    let [Operation::Affine(turn)] = resolve("random_rotation(degrees=30..30)", 1)[..] else { panic!("one turn") };
    assert_eq!(turn, Affine::rotation(30.0));
    let [Operation::Affine(alone)] = resolve("random_affine(degrees=0)", 1)[..] else { panic!("one map") };
    assert_eq!(alone, Affine::default());
}

#[test]
fn places_of_a_list_draw_for_themselves() {
    let draws = |sample| DrawKey { seed: 3, epoch: 1, sample }.draws();
    let invert: Augmentation = "random_invert".parse().unwrap();
    let drawn = |place| (0..64).map(|sample| invert.resolve(&draws(sample), place, 8, 8).len()).collect::<Vec<_>>();
    assert_ne!(drawn(0), drawn(1));
    assert_eq!(drawn(2), drawn(2));
}

proptest! {
    #[test]
    fn any_picture_allows_all_of_them(
        (height, width) in (0_usize..12, 0_usize..12), fill: u8, sample: u64, memory in 0_usize..300,
    ) {
        // Scratch memory may hold values left by another picture. They must not affect the result.
        let used = || ChangeScratch { before: vec![7; memory], sums: vec![7; memory], floats: vec![7.0; memory], row: vec![7.0; memory] };
        let draws = DrawKey { seed: 1, epoch: 2, sample }.draws();
        for text in EXAMPLES {
            let one = text.parse::<Augmentation>().unwrap();
            let start: Vec<u8> = (0..height * width * 3).map(|i| fill.wrapping_mul(i as u8).wrapping_add(i as u8)).collect();
            let changed = |mut scratch: ChangeScratch| {
                let mut pixels = start.clone();
                let mut picture = Picture::new(&mut pixels, height, width).unwrap();
                one.resolve(&draws, 0, height, width).iter().for_each(|one| one.apply(&mut picture, &mut scratch));
                pixels
            };
            prop_assert_eq!(changed(used()), changed(ChangeScratch::default()), "{}", text);
        }
    }
}

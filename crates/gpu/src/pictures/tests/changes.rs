//! Tests that randomly changed pictures equal the results of the host.

use super::*;
use shardpack_augment::{Affine, Augmentation, Operation};

struct Case {
    jpeg: Vec<u8>,
    how: Rendering,
    changes: Vec<Augmentation>,
}

fn by_host(case: &Case, row: &PictureRow, output: &Output) -> Vec<u8> {
    let Case { jpeg, how, changes } = case;
    let (height, width) = (row.height as usize, row.width as usize);
    let mut levels = vec![0; height * width * 3];
    let whole = DecodePaths { partial: false, ..Default::default() };
    let plain = Rendering { layout: PixelLayout::HeightWidthChannels, ..*how };
    JpegDecoder::with_paths(&Limits::default(), whole).decode_into(jpeg, &plain, &mut levels).unwrap();
    let how = Rendering { layout: output.layout, ..*how };
    converted(&on_host::changed(levels, [height, width], &how, changes), output)
}

/// Asserts that the kernels produce the host's result, regardless of the order of threads and the initial content of
/// memory.
fn assert_same(cases: &[Case], output: Output) {
    let mut memory = unwritten(1 << 20);
    let mut staging = Staging::new(&mut memory, StagingOptions { output, ..Default::default() });
    for (n, Case { jpeg, how, changes }) in cases.iter().enumerate() {
        assert_eq!(staging.push_changed(jpeg, how, changes), Ok(n), "{how:?}");
    }
    let batch = staging.finish();
    for manner in MANNERS {
        let played = play(&batch, &memory, manner).unwrap();
        for (n, (case, row)) in cases.iter().zip(batch.rows()).enumerate() {
            assert_eq!(played.status[n], 0);
            let (found, expected) = (bytes_of(&played, row, &output), by_host(case, row, &output));
            let at = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert!(at.is_none(), "{n}: differs at {at:?} of {}: {:?} {manner:?}", expected.len(), case.changes);
        }
    }
}

fn always(operation: Operation) -> Augmentation {
    Augmentation::Random { operation, p: 1.0 }
}

fn factor(random: &mut Random) -> f64 {
    f64::from(random.below(300)) / 100.0
}

/// Number of kinds of operations that [`operation`] draws.
const KINDS: u32 = 14;

fn operation(kind: u32, random: &mut Random) -> Operation {
    let signed = |random: &mut Random, most: f64| (factor(random) / 1.5 - 1.0) * most;
    match kind {
        0 => Operation::Brightness(factor(random)),
        1 => Operation::Contrast(factor(random)),
        2 => Operation::Posterize(random.below(9) as u8),
        3 => Operation::Solarize(f64::from(random.below(256))),
        4 => Operation::Invert,
        5 => Operation::AutoContrast,
        6 => Operation::Equalize,
        7 => Operation::Saturation(factor(random)),
        8 => Operation::Grayscale,
        9 => Operation::Hue(signed(random, 0.5)),
        10 => {
            let side = |random: &mut Random| random.below(60) as usize;
            let [origin, size] = [(); 2].map(|()| [side(random), side(random)]);
            Operation::Erase { origin, size, value: [1, 20, 255] }
        }
        11 => Operation::Sharpness(factor(random)),
        12 => Operation::Affine(Affine {
            angle: signed(random, 180.0),
            translate: [signed(random, 20.0), signed(random, 20.0)],
            scale: 0.1 + factor(random),
            shear: [signed(random, 40.0), signed(random, 40.0)],
            from_corner: random.below(2) == 0,
        }),
        13 => Operation::Blur { size: 1 + 2 * random.below(12), sigma: 0.1 + factor(random) },
        _ => panic!("kind {kind} of {KINDS}"),
    }
}

fn case(random: &mut Random, output: &Output, changes: Vec<Augmentation>) -> Case {
    let factors = [(0, 0), (1, 1), (2, 2)][random.below(3) as usize];
    let size = (5 + random.below(60) as u16, 1 + random.below(50) as u16);
    let source = Source { size, factors, interval: 3, detail: random.below(40), seed: random.next().into() };
    let how = rendering(random, (size.0.into(), size.1.into()), output.layout);
    Case { jpeg: source.encoded(), how, changes }
}

#[test]
fn every_operation_is_the_hosts_to_the_bit() {
    let random = &mut Random(7);
    for kind in 0..KINDS {
        for round in 0..6 {
            let output = output(random);
            let cases: Vec<_> = (0..3)
                .map(|n| {
                    let own = operation(kind, random);
                    // Some pictures get no change, and others get two.
                    let mut changes = vec![always(own); usize::from(n + round != 3)];
                    if n == 2 {
                        changes.push(always(operation((kind + 1 + round) % KINDS, random)));
                    }
                    case(random, &output, changes)
                })
                .collect();
            assert_same(&cases, output);
        }
    }
}

/// These pictures have no range to stretch, no levels to spread, or no pixels inside the border.
#[test]
fn pictures_of_one_pixel_and_of_one_colour_are_the_hosts() {
    let output = Output::default();
    for size in [(5, 1), (1, 1), (2, 9), (40, 3)] {
        let jpeg = Source { size, factors: (0, 0), interval: 1, detail: 0, seed: 3 }.encoded();
        let how = Rendering { layout: output.layout, ..Rendering::default() };
        let random = &mut Random(1);
        let cases: Vec<_> = (0..KINDS)
            .map(|kind| Case { jpeg: jpeg.clone(), how, changes: vec![always(operation(kind, random))] })
            .collect();
        assert_same(&cases, output);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..Default::default() })]

    #[test]
    fn recipes_are_the_hosts_to_the_bit(seed in any::<u64>()) {
        const RECIPES: [&[&str]; 5] = [
            &[
                "random_affine(degrees=30,translate=0.2:0.1,scale=0.5..1.5,shear=20,shear_y=5..10,p=0.9)",
                "random_rotation(degrees=180)",
            ],
            &["trivial_augment_wide", "random_erasing(p=0.5, value=9)"],
            &["rand_augment(num_ops=3)"],
            &[
                "color_jitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.2)",
                "gaussian_blur(kernel_size=7, p=0.5)",
            ],
            &["random_erasing"],
        ];
        let random = &mut Random(seed);
        let output = output(random);
        let cases: Vec<_> = (0..5).map(|n| {
            let changes = RECIPES[n].iter().map(|text| text.parse().unwrap()).collect();
            case(random, &output, changes)
        }).collect();
        assert_same(&cases, output);
    }
}

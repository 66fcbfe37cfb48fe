//! Tests damaged pictures. The kernels must flag them or produce the pixels of the host's loader. Their neighbours
//! must not change, and no kernel may access memory outside its buffers.

use super::*;

/// Decodes a batch of three pictures, the second of which is damaged. Returns whether the kernels accepted the
/// damaged picture, and whether they flagged it.
fn round(random: &mut Random) -> (bool, bool) {
    let output = Output::default();
    let source = |random: &mut Random| Source {
        size: (5 + random.below(60) as u16, 1 + random.below(50) as u16),
        factors: [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)][random.below(5) as usize],
        interval: 1 + random.below(8) as u16,
        detail: random.below(30),
        seed: random.next().into(),
    };
    let mut pictures: Vec<_> = (0..3)
        .map(|_| {
            let source = source(random);
            let size = (source.size.0.into(), source.size.1.into());
            (
                source.encoded(),
                if random.below(2) == 0 { Rendering::default() } else { rendering(random, size, output.layout) },
            )
        })
        .collect();
    damage(random, &mut pictures[1].0);
    let mut memory = unwritten(1 << 20);
    let mut staging = Staging::new(&mut memory, StagingOptions::default());
    let rows: Vec<_> = pictures.iter().map(|(jpeg, how)| staging.push(jpeg, how).ok()).collect();
    let batch = staging.finish();
    let mut flagged = false;
    let mut results = Vec::new();
    for manner in MANNERS {
        let played = play(&batch, &memory, manner).unwrap();
        for (n, row) in rows.iter().enumerate() {
            let Some(row) = *row else { continue };
            let (jpeg, how) = &pictures[n];
            let place = batch.rows()[row];
            // Skip a flagged picture, because the host decodes it. The tests of the stage compare flagged pictures.
            if n == 1 && played.status[row] != 0 {
                flagged = true;
                continue;
            }
            assert_eq!(played.status[row], 0, "a neighbour is flagged");
            let options = DecodePaths::default();
            match decoded(options, jpeg, how, &place, &output) {
                Ok(expected) => assert!(bytes_of(&played, &place, &output) == expected, "{n}: {how:?} differs"),
                Err(error) => panic!("{n}: not flagged: {how:?}: {error}"),
            }
        }
        results.push(played.status);
    }
    assert_eq!(results[0], results[1]);
    (rows[1].is_some(), flagged)
}

fn rounds(count: u32, seed: u64) {
    let random = &mut Random(seed);
    let (mut taken, mut flagged) = (0, 0);
    for _ in 0..count {
        let (is_taken, is_flagged) = round(random);
        taken += u32::from(is_taken);
        flagged += u32::from(is_flagged);
    }
    assert!(taken * 4 > count, "only {taken} of {count} came as far as the kernels");
    assert!(flagged * 3 > taken, "only {flagged} of {taken} were flagged");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..Default::default() })]

    #[test]
    fn damage_is_flagged_or_harmless(seed in any::<u64>()) {
        rounds(100, seed);
    }
}

#[test]
#[ignore = "minutes: the long campaign"]
fn damage_is_flagged_or_harmless_a_hundred_thousand_times() {
    rounds(100_000, 1);
}

/// Each segment is one MCU longer than a row of MCUs. So the first MCU of a row, which is left of the view, may belong
/// to the previous segment.
#[test]
fn long_segments_are_decoded_from_the_start_of_the_row() {
    let source = Source { size: (64, 40), factors: (0, 0), interval: 9, detail: 20, seed: 1 };
    let mut jpeg = source.encoded();
    let rect = Rect { x: 40, y: 8, width: 16, height: 8 };
    let how = Rendering { view: View::rectangle(rect), ..Default::default() };
    assert_same(&[(jpeg.clone(), how)], Output::default());

    // Insert extra bytes at the end of segment 0, which holds MCUs 0 to 8.
    let marker = jpeg.windows(2).position(|bytes| bytes == [0xFF, 0xD0]).unwrap();
    jpeg.splice(marker..marker, [0x55; 4]);
    let mut memory = unwritten(1 << 20);
    let batch = staged(&[(jpeg.clone(), how)], &mut memory, Output::default());
    for manner in MANNERS {
        assert_ne!(play(&batch, &memory, manner).unwrap().status[0], 0);
    }
    assert!(decoded(DecodePaths::default(), &jpeg, &how, &batch.rows()[0], &Output::default()).is_err());
}

//! Tests that decoding can start in the middle of a picture with a segment index, and that no pixel depends on the
//! index.

use super::*;
use shardpack_augment::Augmentation;
use shardpack_jpeg::{SegmentIndex, SegmentIndexer, StoredPicture};

struct Case {
    jpeg: Vec<u8>,
    index: Option<Vec<u8>>,
    how: Rendering,
    changes: Vec<Augmentation>,
}

impl Case {
    fn stored(&self) -> StoredPicture<'_> {
        StoredPicture { segments: self.index.as_deref(), ..StoredPicture::new("image/jpeg", &self.jpeg) }
    }

    /// Returns the levels that the host decodes with the given `paths`, after the changes.
    fn by_host(&self, paths: DecodePaths, row: &PictureRow, output: &Output) -> Result<Vec<u8>, String> {
        let (height, width) = (row.height as usize, row.width as usize);
        let mut levels = vec![0; height * width * 3];
        let plain = Rendering { layout: PixelLayout::HeightWidthChannels, ..self.how };
        let mut host = JpegDecoder::with_paths(&Limits::default(), paths);
        let decoded = host.decode_indexed(&self.jpeg, self.index.as_deref(), &plain, &mut levels);
        decoded.map_err(|error| error.to_string())?;
        let how = Rendering { layout: output.layout, ..self.how };
        Ok(converted(&on_host::changed(levels, [height, width], &how, &self.changes), output))
    }
}

pub(crate) fn index_of(jpeg: &[u8]) -> Option<Vec<u8>> {
    let mut index = Vec::new();
    SegmentIndexer::new().index(jpeg, &Limits::default(), &mut index).unwrap().map(|_| index)
}

fn without_index() -> DecodePaths {
    DecodePaths { own_decoder: false, partial: false, ..Default::default() }
}

fn batch_of(cases: &[Case], memory: &mut [u8], output: Output) -> (Vec<Result<usize, Reason>>, PictureBatch) {
    let mut staging = Staging::new(memory, StagingOptions { output, ..Default::default() });
    let rows = cases.iter().map(|case| staging.push_picture(&case.stored(), &case.how, &case.changes)).collect();
    (rows, staging.finish())
}

/// Asserts that the kernels produce the pixels that libjpeg-turbo decodes without the index, regardless of the order
/// of threads and the initial content of memory.
fn assert_same(cases: &[Case], output: Output) {
    let mut memory = unwritten(1 << 20);
    let (rows, batch) = batch_of(cases, &mut memory, output);
    for manner in MANNERS {
        let played = play(&batch, &memory, manner).unwrap();
        for (n, (case, taken)) in cases.iter().zip(&rows).enumerate() {
            let row = batch.rows()[*taken.as_ref().unwrap_or_else(|why| panic!("{n}: {why}, {:?}", case.how))];
            assert_eq!(played.status[n], 0, "{n}: {:?}", case.how);
            let expected = case.by_host(without_index(), &row, &output).unwrap();
            let at = bytes_of(&played, &row, &output).iter().zip(&expected).position(|(a, b)| a != b);
            assert!(at.is_none(), "{n}: {:?} differs at {at:?} of {}: {manner:?}", case.how, expected.len());
        }
    }
}

const CHANGES: [&str; 4] =
    ["trivial_augment_wide", "random_erasing(p=0.5)", "random_invert(p=0.5)", "color_jitter(hue=0.1)"];

fn case(source: &Source, random: &mut Random, layout: PixelLayout) -> Case {
    let (jpeg, size) = (source.encoded(), (source.size.0.into(), source.size.1.into()));
    let how =
        if random.below(4) == 0 { Rendering { layout, ..Default::default() } } else { rendering(random, size, layout) };
    let changes = match random.below(3) {
        0 => vec![CHANGES[random.below(4) as usize].parse().unwrap()],
        _ => Vec::new(),
    };
    Case { index: index_of(&jpeg), jpeg, how, changes }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..Default::default() })]

    #[test]
    fn pixels_do_not_depend_on_the_index(sources in prop::collection::vec(source(), 1..5), seed in any::<u64>()) {
        of_sources(&sources, seed);
    }
}

/// Compares the pictures of these sources in one batch. Returns how many of them have an index.
fn of_sources(sources: &[Source], seed: u64) -> usize {
    let random = &mut Random(seed);
    let output = output(random);
    let taken = sources.iter().filter(|source| is_taken(source));
    let mut cases: Vec<_> = taken.map(|source| case(source, random, output.layout)).collect();
    let mut memory = vec![0; 1 << 20];
    let mut roomy = Staging::new(&mut memory, StagingOptions::default());
    cases.retain(|case| roomy.push_picture(&case.stored(), &case.how, &case.changes) != Err(Reason::Shrinks));
    assert_same(&cases, output);
    cases.iter().filter(|case| case.index.is_some()).count()
}

#[test]
#[ignore = "minutes: the long campaign"]
fn a_hundred_thousand_pictures_with_an_index_are_the_hosts() {
    compare_a_hundred_thousand(of_sources);
}

#[test]
fn every_kind_of_picture_whole_and_cropped() {
    let (mut cases, mut indexed) = (Vec::new(), 0);
    for factors in [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)] {
        for interval in [0, 7, 12, 13, 40, 64] {
            let source = Source { size: (101, 67), factors, interval, detail: 20, seed: 3 };
            let jpeg = source.encoded();
            let index = index_of(&jpeg);
            indexed += usize::from(index.is_some());
            for view in [View::whole(), View::random_resized_crop((32, 40)).with_flip(0.5)] {
                let key = DrawKey { seed: 1, epoch: 0, sample: interval.into() };
                let how = Rendering { view, key, ..Default::default() };
                cases.push(Case { jpeg: jpeg.clone(), index: index.clone(), how, changes: Vec::new() });
            }
        }
    }
    assert!(indexed >= 24, "{indexed} of 30");
    assert_same(&cases, Output::default());
}

#[test]
fn a_rectangle_takes_only_its_segments() {
    for (factors, interval) in [((2, 2), 0), ((1, 1), 0), ((0, 0), 0), ((2, 1), 14)] {
        let source = Source { size: (224, 160), factors, interval, detail: 12, seed: 9 };
        let jpeg = source.encoded();
        let index = index_of(&jpeg).unwrap();
        let segments = SegmentIndex::parse(&index).unwrap().segments();
        let bytes_of = |rect: Rect| {
            let how = Rendering { view: View::rectangle(rect), ..Default::default() };
            let stored = StoredPicture { segments: Some(&index), ..StoredPicture::new("image/jpeg", &jpeg) };
            let needs = PreparedPicture::of(
                &stored,
                &Shown { how: &how, changes: &[], crops: None },
                &StagingOptions::default(),
            )
            .unwrap();
            (needs.bytes(), needs.totals())
        };
        let (whole, totals) = bytes_of(Rect { x: 0, y: 0, width: 224, height: 160 });
        assert_eq!((totals.segments, totals.edges), (segments + 1, segments));
        let (part, of_part) = bytes_of(Rect { x: 64, y: 40, width: 96, height: 80 });
        assert!(part * 3 < whole * 2, "{part} of {whole} bytes");
        assert!(of_part.edges * 3 < segments * 2, "{} of {segments} segments", of_part.edges);
        let rect = Rect { x: 97, y: 33, width: 31, height: 64 };
        let how = Rendering { view: View::rectangle(rect), ..Default::default() };
        assert_same(&[Case { jpeg, index: Some(index), how, changes: Vec::new() }], Output::default());
    }
}

/// Changes the index in a few places, most of them in its numbers. Returns true if the change is a single bit of one
/// number.
fn hurt(random: &mut Random, index: &mut Vec<u8>) -> bool {
    const HEAD: u32 = 28;
    let is_one_bit = random.below(2) == 0;
    for _ in 0..if is_one_bit { 1 } else { 1 + random.below(3) } {
        let from = if is_one_bit || random.below(3) > 0 { HEAD.min(index.len() as u32 - 1) } else { 0 };
        let at = (from + random.below(index.len() as u32 - from)) as usize;
        match random.below(12) {
            0 if !is_one_bit => index.truncate(at.max(1)),
            1 if !is_one_bit => index.push(random.next() as u8),
            2 | 3 if !is_one_bit => index[at] = random.next() as u8,
            _ => index[at] ^= 1 << random.below(8),
        }
    }
    // Usually correct the CRC32 afterwards, because it would otherwise reveal almost every change.
    if index.len() > HEAD as usize && random.below(8) > 0 {
        let crc = crc32fast::hash(&[&index[..24], &index[28..]].concat());
        index[24..28].copy_from_slice(&crc.to_le_bytes());
    }
    is_one_bit
}

fn drawn(random: &mut Random, needs_index: bool, layout: PixelLayout) -> Case {
    loop {
        let source = Source {
            size: (5 + random.below(90) as u16, 1 + random.below(70) as u16),
            factors: [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)][random.below(5) as usize],
            interval: if random.below(2) == 0 { 0 } else { 1 + random.below(60) as u16 },
            detail: random.below(30),
            seed: random.next().into(),
        };
        let case = Case { changes: Vec::new(), ..case(&source, random, layout) };
        if case.index.is_some() || !needs_index {
            return case;
        }
    }
}

/// Decodes a batch of three pictures, the second of which has a damaged index or damaged bytes. Returns whether the
/// kernels accepted the damaged picture, and whether they flagged it.
fn round(random: &mut Random, hurts_index: bool) -> (bool, bool) {
    let output = Output::default();
    let mut cases: Vec<_> = (0..3).map(|n| drawn(random, n == 1, output.layout)).collect();
    let is_one_bit = match &mut cases[1].index {
        Some(index) if hurts_index => hurt(random, index),
        _ => {
            damage(random, &mut cases[1].jpeg);
            false
        }
    };
    let mut memory = unwritten(1 << 20);
    let (rows, batch) = batch_of(&cases, &mut memory, output);
    let mut flagged = false;
    let mut statuses = Vec::new();
    for manner in MANNERS {
        let played = play(&batch, &memory, manner).unwrap();
        for (n, (case, row)) in cases.iter().zip(&rows).enumerate() {
            let Ok(row) = *row else { continue };
            let place = batch.rows()[row];
            // Skip a flagged picture, because the host decodes it. The tests of the stage compare flagged pictures.
            if n == 1 && played.status[row] != 0 {
                flagged = true;
                continue;
            }
            assert_eq!(played.status[row], 0, "a neighbour is flagged");
            // A single wrong number must be detected, so no pixel may change. If several numbers are wrong, or bytes
            // outside the needed segments are damaged, the pixels must equal the output of the host, which uses the
            // same index.
            let is_found = n != 1 || is_one_bit;
            let paths = if is_found { without_index() } else { DecodePaths::default() };
            match case.by_host(paths, &place, &output) {
                Ok(expected) => assert!(bytes_of(&played, &place, &output) == expected, "{n}: {:?} differs", case.how),
                Err(error) => panic!("{n}: not flagged: {:?}: {error}", case.how),
            }
        }
        statuses.push(played.status);
    }
    assert_eq!(statuses[0], statuses[1]);
    (rows[1].is_ok(), flagged)
}

fn rounds(count: u32, seed: u64, hurts_index: bool) {
    let random = &mut Random(seed);
    let (mut taken, mut flagged) = (0, 0);
    for _ in 0..count {
        let (is_taken, is_flagged) = round(random, hurts_index);
        taken += u32::from(is_taken);
        flagged += u32::from(is_flagged);
    }
    assert!(taken * 8 > count && flagged * 3 > taken, "{taken} of {count} were taken, {flagged} of them flagged");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..Default::default() })]

    #[test]
    fn a_wrong_index_is_found_or_changes_no_pixel(seed in any::<u64>()) {
        rounds(100, seed, true);
    }

    #[test]
    fn damage_is_flagged_or_harmless(seed in any::<u64>()) {
        rounds(100, seed, false);
    }
}

#[test]
#[ignore = "minutes: the long campaign"]
fn a_hundred_thousand_wrong_indexes() {
    rounds(100_000, 1, true);
}

#[test]
#[ignore = "minutes: the long campaign"]
fn a_hundred_thousand_damaged_pictures_with_an_index() {
    rounds(100_000, 1, false);
}

/// The index of a different picture is rejected, or the row is flagged. An index that does not fit the picture is
/// never used.
#[test]
fn wrong_indexes_are_refused_with_a_reason() {
    let source = Source { size: (96, 80), factors: (2, 2), interval: 0, detail: 9, seed: 1 };
    let (jpeg, other) = (source.encoded(), Source { seed: 2, ..source }.encoded());
    let (index, of_other) = (index_of(&jpeg).unwrap(), index_of(&other).unwrap());
    let how = Rendering::default();
    let staged = |jpeg: &[u8], index: &[u8], options: StagingOptions| {
        let mut memory = vec![0; 1 << 20];
        let picture = StoredPicture { segments: Some(index), ..StoredPicture::new("image/jpeg", jpeg) };
        Staging::new(&mut memory, options).push_picture(&picture, &how, &[])
    };
    let options = StagingOptions { max_segment_blocks: 40, ..Default::default() };
    assert_eq!(staged(&jpeg, &index, options), Ok(0), "without an index it is one long segment");
    assert_eq!(staged(&jpeg, &[], options), Err(Reason::Index));
    assert_eq!(staged(&jpeg, &index[..index.len() - 1], options), Err(Reason::Index));
    assert_eq!(staged(&jpeg, &of_other, options), Err(Reason::Index), "its data does not end there");
    let wide = Source { size: (112, 80), ..source }.encoded();
    assert_eq!(staged(&wide, &index, options), Err(Reason::Index), "more MCUs");
    let gray = Source { factors: (0, 0), ..source }.encoded();
    assert_eq!(staged(&gray, &index, options), Err(Reason::Index), "one component");
    let marked = Source { interval: 5, ..source }.encoded();
    assert_eq!(staged(&marked, &index, options), Err(Reason::Index), "4 MCUs do not divide 5");
    let (marked, as_long) = (Source { interval: 8, ..source }.encoded(), Source { interval: 12, ..source }.encoded());
    assert_eq!(staged(&as_long, &index_of(&marked).unwrap(), options), Err(Reason::Index), "other markers");
    for (reason, words) in [
        (Reason::LongSegments, "too few restart markers, and no segment index"),
        (Reason::Index, "invalid segment index"),
    ] {
        assert_eq!(reason.to_string(), words);
    }
}

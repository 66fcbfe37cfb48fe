use super::*;
use crate::TileOptions;
use crate::sources::{encode, pixels, plain, with_segments};
use crate::testing::{Jpeg, exif, shared_data};
use crate::turbo::Process;
use proptest::prelude::*;

/// Returns a source with quality 98, so that re-encoding makes it smaller.
fn source(size: (u32, u32), subsampling: Subsampling) -> Vec<u8> {
    encode(size, PixelFormat::Rgb, Encoding { quality: 98, ..plain(subsampling) }, None)
}

fn run(jpeg: &[u8], options: &ReencodeOptions, score: bool) -> Result<(Tiled, Vec<u8>)> {
    let mut out = Vec::new();
    JpegReencoder::new().reencode(jpeg, options, score, &mut out).map(|done| (done, out))
}

fn score(done: Tiled) -> Option<f64> {
    done.reencoded.unwrap().score
}

fn fixed(quality: u8) -> ReencodeOptions {
    ReencodeOptions { quality: Quality::Fixed(quality), ..Default::default() }
}

fn decode(jpeg: &[u8]) -> (u32, u32, Vec<u8>) {
    let picture = Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse).open(jpeg).unwrap();
    let frame = picture.frame();
    let mut rgb = vec![0; (frame.width * frame.height * 3) as usize];
    picture.decode(Scale::Full, PixelFormat::Rgb, &mut rgb, frame.width as usize * 3).unwrap();
    (frame.width, frame.height, rgb)
}

fn mean_difference(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

#[track_caller]
fn check_tiles(done: Tiled, stored: &[u8]) {
    assert!(done.reencoded.is_some(), "not encoded: {done:?}");
    let TileOutcome::Tiled { interval, tiles_per_row, segments } = done.outcome else {
        panic!("not tiled: {:?}", done.outcome)
    };
    let header = JpegHeader::parse(stored).unwrap();
    let grid = header.mcu_grid();
    assert!(header.is_baseline() && usize::from(header.scan_components) == header.components().len());
    assert_eq!((header.restart_interval, header.orientation), (interval, None));
    let mcus = grid.columns * grid.rows;
    let counted = [grid.columns, mcus].map(|n| n.div_ceil(u32::from(interval)));
    assert_eq!([tiles_per_row, segments], counted);
    assert_eq!((u32::from(header.width), u32::from(header.height)), (done.width, done.height));
    assert_eq!((done.orientation, done.applied), (1, 1));
}

const SAMPLINGS: [Subsampling; 6] =
    [Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::S411, Subsampling::Gray];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn any_picture_is_encoded_upright(
        size in (9u32..120, 9u32..120),
        sampling in 0usize..6,
        orientation in 1u16..9,
        asked in prop_oneof![Just(ChromaSampling::Keep), Just(ChromaSampling::S420), Just(ChromaSampling::S444)],
        resize in prop_oneof![Just(Resize::No), (1u32..150).prop_map(Resize::ShortSide), (1u32..150).prop_map(Resize::LongSide)],
    ) {
        let jpeg = with_segments(&source(size, SAMPLINGS[sampling]), &[(0xE1, exif(orientation, true))]);
        let options = ReencodeOptions { subsampling: asked, resize, ..fixed(40) };
        let (done, stored) = run(&jpeg, &options, true).unwrap();
        if done.reencoded.is_none() {
            prop_assert!(resize.of(size.0, size.1) == size, "resized pictures are encoded");
            return Ok(());
        }
        check_tiles(done, &stored);
        let upright = if orientation > 4 { (size.1, size.0) } else { size };
        prop_assert_eq!((done.width, done.height), resize.of(upright.0, upright.1));
        // A picture with very few pixels may not change at all.
        prop_assert!(score(done).unwrap() < 100.0 || done.width * done.height < 64);
        let found = JpegHeader::parse(&stored).unwrap().sampling();
        let kept = [Sampling::S444, Sampling::S422, Sampling::S420, Sampling::S440, Sampling::S411, Sampling::Gray][sampling];
        let expected = match (kept, asked, orientation > 4) {
            (Sampling::Gray, ..) => Sampling::Gray,
            (_, ChromaSampling::S420, _) => Sampling::S420,
            (_, ChromaSampling::S444, _) => Sampling::S444,
            (Sampling::S422, _, true) => Sampling::S440,
            (Sampling::S440, _, true) => Sampling::S422,
            (Sampling::S411, _, true) => Sampling::S420,
            _ => kept,
        };
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_picture_that_is_coarse_already_loses_nothing_more() {
    let jpeg = encode((96, 64), PixelFormat::Rgb, Encoding { quality: 60, ..plain(Subsampling::S444) }, None);
    for quality in [60, 85] {
        let (done, stored) = run(&jpeg, &fixed(quality), true).unwrap();
        assert!(matches!(done.outcome, TileOutcome::Tiled { .. }), "{quality}: {done:?}");
        assert_eq!(done.reencoded, None);
        assert_eq!(decode(&stored), decode(&jpeg), "{quality}");
    }
    let encoded = |options| run(&jpeg, &options, false).unwrap().0.reencoded.is_some();
    assert!(encoded(fixed(30)));
    let tables_of_60 = ReencodeOptions { subsampling: ChromaSampling::S420, ..fixed(60) };
    assert!(encoded(tables_of_60));
    assert!(encoded(ReencodeOptions { resize: Resize::ShortSide(32), ..fixed(60) }));
}

#[test]
fn a_turned_picture_shows_the_same() {
    let upright = source((96, 64), Subsampling::S444);
    let (_, _, expected) = decode(&run(&upright, &fixed(90), false).unwrap().1);
    for (orientation, operation) in (2..=8).map(|o| (o, crate::tile::operation(o as u8))) {
        // Start with a picture that is turned in the opposite direction.
        let inverse = match orientation {
            6 => crate::tile::operation(8),
            8 => crate::tile::operation(6),
            _ => operation,
        };
        let mut turned = Vec::new();
        let how = crate::turbo::Transcoding { operation: inverse, restart_interval: 0, keep_metadata: false };
        let bounds = Bounds::of(&Limits::default());
        crate::turbo::Transcoder::new(bounds).transcode(&upright, how, &mut turned).unwrap();
        let jpeg = with_segments(&turned, &[(0xE1, exif(orientation, false))]);
        let (done, stored) = run(&jpeg, &fixed(90), false).unwrap();
        check_tiles(done, &stored);
        let (width, height, found) = decode(&stored);
        assert_eq!((width, height), (96, 64));
        assert!(mean_difference(&found, &expected) < 1.5, "orientation {orientation}");
    }
}

#[test]
fn shrinking_is_antialiased_and_nothing_is_enlarged() {
    // The mean of a checkerboard of single pixels is gray, although no pixel is gray.
    let board: Vec<u8> = (0..96 * 64).flat_map(|i| [if (i % 96 + i / 96) % 2 == 0 { 255 } else { 0 }; 3]).collect();
    let mut jpeg = Vec::new();
    let how = Encoding { quality: 100, ..plain(Subsampling::S444) };
    Compressor::new().encode(&board, 96, 64, PixelFormat::Rgb, how, &mut jpeg).unwrap();
    let options = ReencodeOptions { resize: Resize::ShortSide(16), ..fixed(95) };
    let (done, stored) = run(&jpeg, &options, false).unwrap();
    assert_eq!((done.width, done.height, score(done)), (24, 16, None));
    let (_, _, rgb) = decode(&stored);
    assert!(rgb.iter().all(|v| v.abs_diff(128) < 8), "{rgb:?}");
    let large = ReencodeOptions { resize: Resize::LongSide(97), ..fixed(20) };
    assert_eq!(run(&jpeg, &large, false).unwrap().0.width, 96);
}

#[test]
fn grey_keeps_its_values() {
    let jpeg = source((50, 30), Subsampling::Gray);
    let (done, stored) = run(&jpeg, &fixed(95), true).unwrap();
    check_tiles(done, &stored);
    assert!(mean_difference(&decode(&jpeg).2, &decode(&stored).2) < 2.0);
}

#[test]
fn the_search_finds_the_smallest_quality() {
    let jpeg = source((120, 90), Subsampling::S420);
    let quality = |done: Tiled| done.reencoded.unwrap().quality;
    let mut qualities = Vec::new();
    for target in [50.0, 70.0, 85.0] {
        let options = ReencodeOptions { quality: Quality::Ssimulacra2(target), ..Default::default() };
        let (done, stored) = run(&jpeg, &options, false).unwrap();
        let (found, reached) = (quality(done), score(done).unwrap());
        assert!(reached >= target, "{reached} < {target}");
        let (below, _) = run(&jpeg, &fixed(found - 1), true).unwrap();
        assert!(score(below).unwrap() < target);
        let (again, bytes) = run(&jpeg, &fixed(found), true).unwrap();
        assert_eq!((score(again), bytes), (score(done), stored));
        qualities.push(found);
    }
    assert!(qualities.is_sorted() && qualities[0] < qualities[2]);
    // Only the source itself has a score of 100.
    let options = ReencodeOptions { quality: Quality::Ssimulacra2(100.0), ..Default::default() };
    let (done, _) = run(&jpeg, &options, false).unwrap();
    assert!(matches!(done.outcome, TileOutcome::Tiled { .. }));
    assert_eq!(done.reencoded, None);
    let resized = ReencodeOptions { resize: Resize::ShortSide(80), ..options };
    assert_eq!(quality(run(&jpeg, &resized, false).unwrap().0), 100);
}

#[test]
fn the_source_is_kept_where_that_is_smaller() {
    let jpeg = encode((96, 64), PixelFormat::Rgb, Encoding { quality: 30, ..plain(Subsampling::S420) }, None);
    let jpeg = with_segments(&jpeg, &[(0xE1, exif(6, true)), (0xFE, vec![7; 60_000])]);
    let options = ReencodeOptions { tile: TileOptions { max_growth: 1.0, ..Default::default() }, ..fixed(95) };
    let (done, stored) = run(&jpeg, &options, true).unwrap();
    let mut tiled = Vec::new();
    let expected = JpegTiler::new().tile(&jpeg, &options.tile, &mut tiled).unwrap();
    assert_eq!(done, expected);
    assert_eq!((done.orientation, done.reencoded), (6, None));
    assert_eq!(stored, tiled);
}

#[test]
fn four_inks_are_kept_unless_they_shrink() {
    let jpeg = encode((40, 24), PixelFormat::Cmyk, plain(Subsampling::S444), Some(Process::Cmyk));
    let (done, stored) = run(&jpeg, &fixed(30), false).unwrap();
    assert_eq!(done.outcome, TileOutcome::Kept(KeepReason::Cmyk));
    assert_eq!(stored, jpeg);
    let options = ReencodeOptions { resize: Resize::ShortSide(12), ..fixed(95) };
    let (done, stored) = run(&jpeg, &options, false).unwrap();
    check_tiles(done, &stored);
    assert_eq!((done.width, done.height), (20, 12));
}

#[test]
fn pictures_that_libjpeg_cannot_decode_are_kept() {
    let jpeg = Jpeg { components: vec![(1, 1, 1), (2, 1, 1)], scan: 2, ..Jpeg::default() }.bytes();
    let (done, stored) = run(&jpeg, &ReencodeOptions { resize: Resize::ShortSide(4), ..fixed(50) }, false).unwrap();
    assert_eq!(done.outcome, TileOutcome::Kept(KeepReason::TwoComponents));
    assert_eq!(stored, jpeg);
}

#[test]
fn the_profile_stays_if_metadata_does() {
    let mut profile = pixels(20, 10, 1);
    profile[..4].copy_from_slice(&200u32.to_be_bytes());
    profile[36..40].copy_from_slice(b"acsp");
    let mut jpeg = Vec::new();
    with_metadata(&source((96, 64), Subsampling::S444), Some(&profile), 6, &mut jpeg).unwrap();
    for keep_metadata in [false, true] {
        let tile = TileOptions { keep_metadata, ..Default::default() };
        let (done, stored) = run(&jpeg, &ReencodeOptions { tile, ..fixed(50) }, false).unwrap();
        check_tiles(done, &stored);
        let found = Metadata::read(&stored).unwrap();
        assert_eq!((found.icc.is_some(), found.orientation), (keep_metadata, 1));
    }
}

#[test]
fn a_picture_cut_anywhere_is_an_error() {
    let jpeg = source((48, 32), Subsampling::S420);
    let mut reencoder = JpegReencoder::new();
    let mut out = b"before".to_vec();
    for len in (0..jpeg.len()).step_by(7) {
        let error = reencoder.reencode(&jpeg[..len], &fixed(50), false, &mut out).unwrap_err();
        assert!(matches!(error, Error::Format { .. }) && out == b"before", "cut at {len}: {error}");
    }
    assert!(reencoder.reencode(&jpeg, &fixed(50), false, &mut out).is_ok());
}

#[test]
fn options_out_of_range_are_refused() {
    let jpeg = source((48, 32), Subsampling::S420);
    for quality in [Quality::Fixed(0), Quality::Fixed(101), Quality::Ssimulacra2(100.5), Quality::Ssimulacra2(f64::NAN)]
    {
        let options = ReencodeOptions { quality, ..Default::default() };
        assert!(matches!(run(&jpeg, &options, false), Err(Error::Usage { .. })), "{quality:?}");
    }
    for resize in [Resize::ShortSide(0), Resize::LongSide(0)] {
        let options = ReencodeOptions { resize, ..Default::default() };
        assert!(matches!(run(&jpeg, &options, false), Err(Error::Usage { .. })));
    }
}

#[test]
fn photos_get_the_requested_score() {
    let Some(data) = shared_data() else { return };
    let mut folders: Vec<_> =
        std::fs::read_dir(data.join("imagenet-sample")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let photo = |folder: &std::path::PathBuf| {
        let files = std::fs::read_dir(folder).ok()?;
        let photo = files
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpeg")))
            .min()?;
        std::fs::read(photo).ok()
    };
    for jpeg in folders.iter().filter_map(photo).take(3) {
        let options = ReencodeOptions {
            quality: Quality::Ssimulacra2(75.0),
            resize: Resize::ShortSide(160),
            ..Default::default()
        };
        let (done, stored) = run(&jpeg, &options, false).unwrap();
        check_tiles(done, &stored);
        assert_eq!(done.width.min(done.height), 160);
        assert!((75.0..80.0).contains(&score(done).unwrap()), "{done:?}");
    }
}

#[test]
fn pixels_become_a_tiled_jpeg_of_their_size() {
    let (width, height) = (96, 64);
    let rgb: Vec<u8> = (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 90]).collect();
    let grey: Vec<u8> = rgb.iter().step_by(3).copied().collect();
    let mut reencoder = JpegReencoder::new();
    let half = ReencodeOptions { resize: Resize::LongSide(48), ..Default::default() };
    for (pixels, channels, options, size) in [
        (&rgb, 3, &ReencodeOptions::default(), (96, 64)),
        (&grey, 1, &ReencodeOptions::default(), (96, 64)),
        (&rgb, 3, &half, (48, 32)),
    ] {
        let mut out = b"before".to_vec();
        let made = reencoder.encode_pixels(pixels, (width, height), channels, options, true, &mut out).unwrap();
        let header = JpegHeader::parse(&out[6..]).unwrap();
        assert_eq!((u32::from(header.width), u32::from(header.height)), size);
        assert_eq!((made.width, made.height, made.orientation), (size.0, size.1, 1));
        assert_eq!(header.components().len(), usize::from(channels));
        assert!(header.restart_interval > 0 && score(made).unwrap() > 60.0);
    }
    let mut out = Vec::new();
    for (pixels, size, channels) in [(&rgb, (96, 63), 3), (&rgb, (96, 64), 1), (&rgb, (0, 64), 3), (&rgb, (96, 32), 6)]
    {
        let refused = reencoder.encode_pixels(pixels, size, channels, &ReencodeOptions::default(), false, &mut out);
        assert!(refused.is_err() && out.is_empty(), "{size:?} {channels}");
    }
}

#[test]
fn large_buffers_are_freed_after_an_error() {
    let mut reencoder = JpegReencoder::new();
    // The destination takes 75 MB. The three bytes of the source are too few for its size.
    assert!(reencoder.shrunk(vec![0; 3], (10, 10), (5000, 5000)).is_err());
    assert!(reencoder.other.capacity() <= KEPT_BYTES);
}

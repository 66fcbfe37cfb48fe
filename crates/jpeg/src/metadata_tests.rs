use super::*;
use crate::testing::{Jpeg, exif};
use proptest::prelude::*;

fn profile(len: usize) -> Vec<u8> {
    let mut out: Vec<u8> = (0..len).map(|i| (i * 31 % 256) as u8).collect();
    out[..4].copy_from_slice(&(len as u32).to_be_bytes());
    out[36..40].copy_from_slice(b"acsp");
    out
}

fn chunk(number: u8, count: u8, data: &[u8]) -> (u8, Vec<u8>) {
    (0xE2, [ICC_TAG, &[number, count], data].concat())
}

fn read(segments: Vec<(u8, Vec<u8>)>) -> Metadata {
    Metadata::read(&Jpeg { segments, ..Jpeg::default() }.bytes()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_metadata_is_read_back(len in 128usize..300_000, orientation in 1u8..9) {
        let profile = profile(len);
        let mut out = Vec::new();
        let plain = Jpeg::default().bytes();
        with_metadata(&plain, Some(&profile), orientation, &mut out).unwrap();
        let found = Metadata::read(&out).unwrap();
        prop_assert_eq!(found, Metadata { icc: Some(profile), icc_damage: None, orientation });
        // The JFIF segment must stay first.
        prop_assert_eq!(&out[..20], &plain[..20]);
        prop_assert!(out.ends_with(&plain[20..]));
    }

    #[test]
    fn any_segments_are_read(
        bodies in prop::collection::vec((0xE0u8..0xF0, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
    ) {
        let found = read(bodies);
        prop_assert!((1..=8).contains(&found.orientation));
    }

    #[test]
    fn any_chunks_are_read(chunks in prop::collection::vec((0u8..5, 0u8..5, 0usize..200), 0..5)) {
        let found = read(chunks.iter().map(|&(n, count, len)| chunk(n, count, &profile(128 + len))).collect());
        prop_assert_eq!(found.icc.is_some() || found.icc_damage.is_some(), !chunks.is_empty());
    }
}

#[test]
fn chunks_are_joined_by_number() {
    let whole = profile(500);
    let found = read(vec![chunk(3, 3, &whole[400..]), chunk(1, 3, &whole[..300]), chunk(2, 3, &whole[300..400])]);
    assert_eq!(found.icc, Some(whole));
}

#[test]
fn damaged_profiles_are_noted() {
    let whole = profile(500);
    let mut unsigned = whole.clone();
    unsigned[36] = b'A';
    let too_many = (0..256).map(|i| chunk((i % 255) as u8 + 1, 255, b"")).collect();
    let huge = profile(65_000 * 70);
    let large = huge.chunks(65_000).zip(1..).map(|(data, n)| chunk(n, 70, data)).collect();
    for (segments, damage) in [
        (vec![chunk(1, 2, &whole)], "the wrong number of chunks"),
        (vec![chunk(1, 2, &whole[..9]), chunk(1, 2, &whole[9..])], "a chunk is missing or repeated"),
        (vec![chunk(0, 1, &whole)], "a chunk is missing or repeated"),
        (vec![chunk(1, 1, &whole[..499])], "its length differs"),
        (vec![chunk(1, 1, &whole[..100])], "it is shorter than a profile header"),
        (vec![chunk(1, 1, &unsigned)], "it has no profile signature"),
        (vec![(0xE2, [ICC_TAG, &[1]].concat())], "a chunk has no number"),
        (too_many, "more than 255 chunks"),
        (large, "larger than 4 MiB"),
    ] {
        let found = read(segments);
        assert_eq!(found.icc, None);
        assert!(found.icc_damage.unwrap().contains(damage), "{found:?}");
    }
}

#[test]
fn existing_metadata_stays() {
    let own = profile(200);
    let jpeg = Jpeg { segments: vec![(0xE1, exif(6, true)), chunk(1, 1, &own)], ..Jpeg::default() }.bytes();
    let mut out = Vec::new();
    with_metadata(&jpeg, Some(&profile(300)), 3, &mut out).unwrap();
    assert_eq!(out, jpeg);
}

#[test]
fn no_metadata_changes_nothing() {
    for segments in [vec![], Jpeg::default().segments] {
        let jpeg = Jpeg { segments, ..Jpeg::default() }.bytes();
        let mut out = Vec::new();
        with_metadata(&jpeg, None, 1, &mut out).unwrap();
        assert_eq!(out, jpeg);
    }
}

#[test]
fn nonsense_is_refused() {
    let jpeg = Jpeg::default().bytes();
    for (icc, orientation) in
        [(None, 0), (None, 9), (Some(b"no profile".to_vec()), 1), (Some(profile(MAX_ICC_BYTES + 1)), 1)]
    {
        let mut out = Vec::new();
        let error = with_metadata(&jpeg, icc.as_deref(), orientation, &mut out).unwrap_err();
        assert!(matches!(error, Error::Usage { .. }) && out.is_empty(), "{error}");
    }
}

#[test]
fn every_exif_segment_is_set_upright() {
    let mut jpeg = Jpeg { segments: vec![(0xE1, exif(6, true)), (0xE1, exif(8, false))], ..Jpeg::default() }.bytes();
    let before = jpeg.len();
    set_upright(&mut jpeg).unwrap();
    assert_eq!((Metadata::read(&jpeg).unwrap().orientation, jpeg.len()), (1, before));
    assert!(
        memchr::memmem::find(&jpeg, &exif(1, true)).is_some() && memchr::memmem::find(&jpeg, &exif(1, false)).is_some()
    );
}

#[test]
fn an_exif_segment_that_is_cut_off_changes_nothing_after_it() {
    for kept in 16..26 {
        let segments = vec![(0xE1, exif(6, true)), (0xE1, exif(6, true)[..kept].to_vec())];
        let before = Jpeg { segments, ..Jpeg::default() }.bytes();
        let mut after = before.clone();
        set_upright(&mut after).unwrap();
        // Only the value in the first segment may change.
        assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 1, "{kept} bytes");
    }
}

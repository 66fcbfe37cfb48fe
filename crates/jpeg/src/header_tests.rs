use super::*;
use crate::end_of_image;
use crate::testing::{Jpeg, exif, shared_data};
use proptest::prelude::*;

fn parse(jpeg: &Jpeg) -> Result<JpegHeader, JpegError> {
    JpegHeader::parse(&jpeg.bytes())
}

fn damage(jpeg: &Jpeg) -> &'static str {
    match parse(jpeg) {
        Err(JpegError::Damaged { what, .. }) => what,
        other => panic!("expected damage, found {other:?}"),
    }
}

#[test]
fn reads_a_plain_baseline_header() {
    let jpeg = Jpeg::default();
    let header = parse(&jpeg).unwrap();
    assert_eq!((header.width, header.height, header.precision, header.sof), (33, 17, 8, 0));
    assert_eq!(header.components().len(), 3);
    assert_eq!(header.components()[0], Component { id: 1, h: 2, v: 2, table: 0 });
    assert_eq!(header.sampling(), Sampling::S420);
    assert!(header.jfif && !header.exif && !header.icc);
    assert_eq!((header.stray_bytes, header.restart_interval), (0, 0));
    assert_eq!(header.scan_offset, jpeg.head().len() as u64);
    let bytes = jpeg.bytes();
    assert_eq!(bytes[header.sof_offset as usize..][..2], [0xFF, 0xC0]);
    assert_eq!(bytes[header.sos_offset as usize..][..2], [0xFF, 0xDA]);
    assert!(header.device_decodable());
    assert_eq!(header.unsupported(), None);
}

#[test]
fn tells_which_decoder_takes_it() {
    let gray = |h, v| vec![(1, h, v)];
    let color = |h, v| vec![(1, h, v), (2, 1, 1), (3, 1, 1)];
    let adobe = |transform| (0xEE, [b"Adobe\0\x64\0\0\0\0".as_slice(), &[transform]].concat());
    let base = Jpeg { segments: vec![], ..Jpeg::default() };
    // Columns: components, SOF, components in the scan, segments, and true if the device can decode the
    // picture.
    let table = [
        (gray(1, 1), 0, 1, vec![], true),
        (gray(2, 2), 0, 1, vec![], true),
        (color(1, 1), 0, 3, vec![], true),
        (color(2, 1), 0, 3, vec![], true),
        (color(1, 2), 0, 3, vec![], true),
        (color(2, 2), 0, 3, vec![adobe(1)], true),
        (color(4, 1), 0, 3, vec![], false),
        (color(4, 2), 0, 3, vec![], false),
        (vec![(1, 2, 2), (2, 2, 1), (3, 1, 1)], 0, 3, vec![], false),
        (color(2, 2), 2, 3, vec![], false),
        (color(2, 2), 1, 3, vec![], true),
        (color(2, 2), 0, 1, vec![], false),
        (color(1, 1), 0, 3, vec![adobe(0)], false),
        (vec![(b'R', 1, 1), (b'G', 1, 1), (b'B', 1, 1)], 0, 3, vec![], false),
        (vec![(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)], 0, 4, vec![adobe(2)], false),
    ];
    for (components, sof, scan, segments, taken) in table {
        let jpeg = Jpeg { components, sof, scan, segments, ..base.clone() };
        let header = parse(&jpeg).unwrap();
        assert_eq!(header.device_decodable(), taken, "{jpeg:?}");
        assert_eq!(header.unsupported(), None, "{jpeg:?}");
    }
    // 64 × 64 MCUs of three blocks, without restart markers and with segments of just over and just
    // under 2,048 blocks.
    for (interval, taken) in [(None, false), (Some(683_u16), false), (Some(682), true)] {
        let segments = interval.map(|mcus| (0xDD, mcus.to_be_bytes().to_vec())).into_iter().collect();
        let jpeg = Jpeg { components: color(1, 1), scan: 3, width: 512, height: 512, segments, ..base.clone() };
        assert_eq!(parse(&jpeg).unwrap().device_decodable(), taken, "{interval:?}");
    }
}

#[test]
fn names_processes_that_are_not_supported() {
    for (sof, precision, reason) in [
        (3, 8, "lossless JPEG"),
        (5, 8, "differential JPEG"),
        (9, 8, "JPEG with arithmetic coding"),
        (10, 8, "JPEG with arithmetic coding"),
        (1, 12, "JPEG of 12 bits"),
    ] {
        let header = parse(&Jpeg { sof, precision, ..Jpeg::default() }).unwrap();
        assert_eq!(header.unsupported(), Some(reason));
        assert!(!header.device_decodable());
    }
}

#[test]
fn reads_metadata_segments() {
    let segments = vec![
        (0xE1, exif(6, true)),
        (0xE2, b"ICC_PROFILE\0\x01\x01".to_vec()),
        (0xDD, vec![0x01, 0x02]),
        (0xEE, b"Adobe\0\x64\0\0\0\0\x01".to_vec()),
    ];
    let header = parse(&Jpeg { segments, ..Jpeg::default() }).unwrap();
    assert!(header.exif && header.icc && !header.jfif);
    assert_eq!(header.orientation, Some(6));
    assert_eq!(header.restart_interval, 0x0102);
    assert_eq!(header.adobe_transform, Some(1));

    for (orientation, little, expected) in
        [(8, false, Some(8)), (0, true, None), (9, false, None), (0x0600, true, None)]
    {
        let segments = vec![(0xE1, exif(orientation, little))];
        assert_eq!(parse(&Jpeg { segments, ..Jpeg::default() }).unwrap().orientation, expected);
    }
}

#[test]
fn damaged_exif_is_no_orientation() {
    let whole = exif(3, false);
    for cut in 6..whole.len() {
        let segments = vec![(0xE1, whole[..cut].to_vec())];
        let header = parse(&Jpeg { segments, ..Jpeg::default() }).unwrap();
        assert!(header.exif);
        // The value of the orientation ends ten bytes after the start of its entry.
        assert_eq!(header.orientation, (cut >= 6 + 8 + 2 + 10).then_some(3), "cut at {cut}");
    }
}

#[test]
fn refuses_damage() {
    let base = Jpeg::default();
    assert!(damage(&Jpeg { height: 0, ..base.clone() }).contains("DNL"));
    assert_eq!(damage(&Jpeg { width: 0, ..base.clone() }), "its width is 0");
    assert!(damage(&Jpeg { components: vec![], scan: 0, ..base.clone() }).contains("components"));
    assert!(damage(&Jpeg { components: vec![(1, 0, 1)], scan: 1, ..base.clone() }).contains("sampling"));
    assert!(damage(&Jpeg { components: vec![(1, 1, 5)], scan: 1, ..base.clone() }).contains("sampling"));
    assert!(
        damage(&Jpeg { segments: vec![(0xC0, vec![8, 0, 1, 0, 1, 1, 1, 0x11, 0])], ..base.clone() }).contains("second")
    );
    assert!(
        damage(&Jpeg { segments: vec![(0xDA, vec![1, 1, 0, 0, 63, 0])], ..base.clone() }).contains("before the frame")
    );
    assert!(damage(&Jpeg { scan: 0, ..base }).contains("no components"));
    for (bytes, what) in [
        (b"\xFF\xD8\xFF\xD9".as_slice(), "the image ends before its first scan"),
        (b"\xFF\xD8\xFF\xD8", "it has a second start-of-image marker"),
        (b"\xFF\xD8\xFF\xE0\0\x01\0", "a segment declares a length below 2 bytes, but the length field alone takes 2"),
        (b"\xFF\xD8\xFF\xDD\0\x03\0", "its restart interval is cut off"),
        (b"\xFF\xD8\xFF\xC0\0\x05\x08\0\x01", "its frame header is too short"),
    ] {
        assert_eq!(JpegHeader::parse(bytes).unwrap_err().to_string().rsplit_once(": ").unwrap().1, what);
    }
}

#[test]
fn segments_that_decoders_refuse_are_noted() {
    let with = |marker| Jpeg { segments: vec![(marker, vec![1, 2])], ..Jpeg::default() };
    for (marker, is_known) in [(0xE5, true), (0xFE, true), (0xDC, true), (0x9B, false), (0xF7, false), (0xC8, false)] {
        let header = JpegHeader::parse(&with(marker).bytes()).unwrap();
        assert_eq!(header.unknown_segment, !is_known, "{marker:x}");
        assert!(is_known || !header.device_decodable());
    }
}

#[test]
fn says_how_much_it_needs() {
    let segments = vec![(0xE2, vec![7; 60_000])];
    let jpeg = Jpeg { segments, ..Jpeg::default() };
    let (bytes, head) = (jpeg.bytes(), jpeg.head().len());
    // In each round, give the parser the number of bytes that it asked for. It must reach the end of the header
    // without reading entropy-coded data.
    let (mut have, mut rounds) = (0, 0);
    let header = loop {
        match JpegHeader::parse(&bytes[..have]) {
            Ok(header) => break header,
            Err(JpegError::Truncated { needed }) => {
                assert!(needed as usize > have, "{needed} after {have}");
                (have, rounds) = (needed as usize, rounds + 1);
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!((have, header), (head, JpegHeader::parse(&bytes).unwrap()));
    assert!(rounds < 20, "{rounds} rounds");
    for cut in 0..head {
        assert!(
            matches!(JpegHeader::parse(&bytes[..cut]), Err(JpegError::Truncated { needed }) if needed as usize > cut)
        );
    }
}

#[test]
fn skips_and_counts_stray_bytes() {
    let mut bytes = Jpeg::default().bytes();
    bytes.splice(20..20, *b"\x00\x11\xFF\x00\xFF\xFF\xFF");
    let header = JpegHeader::parse(&bytes).unwrap();
    assert_eq!(header.stray_bytes, 4, "fill bytes do not count");
    assert!(!header.device_decodable());
}

#[test]
fn finds_the_end_of_the_image() {
    let end_of = |tail: &[u8]| {
        let jpeg = Jpeg { tail: tail.to_vec(), ..Jpeg::default() };
        let start = jpeg.head().len() as u64;
        end_of_image(&jpeg.bytes(), start).map(|end| end - start)
    };
    assert_eq!(end_of(b"\x01\xFF\xD9"), Some(3));
    assert_eq!(end_of(b"\x01\xFF\x00\xD9\xFF\xD0\x02\xFF\xFF\xD9trailing"), Some(10));
    assert_eq!(end_of(b"\x01\xFF\xC4\x00\x04\xFF\xD9\x05\xFF\xD9"), Some(10), "EOI within a segment is not the end");
    assert_eq!(end_of(b"\x01\x02\x03\xFF"), None);
    assert_eq!(end_of(b"\x01\x02\xFF\xC4\x00\x40\xFF\xD9"), None);
    assert_eq!(end_of(b""), None);
}

proptest! {
    #[test]
    fn survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), start in any::<u64>()) {
        let mut jpeg = vec![0xFF, 0xD8, 0xFF];
        jpeg.extend(&bytes);
        for bytes in [&bytes, &jpeg] {
            if let Err(JpegError::Truncated { needed }) = JpegHeader::parse(bytes) {
                prop_assert!(needed > bytes.len() as u64);
            }
            if let Some(end) = end_of_image(bytes, start) {
                prop_assert!(end <= bytes.len() as u64);
            }
        }
    }

    #[test]
    fn survives_mutations(at in prop::collection::vec((0usize..200, any::<u8>()), 1..6)) {
        let mut bytes = Jpeg { segments: vec![(0xE1, exif(5, false)), (0xDD, vec![0, 9])], ..Jpeg::default() }.bytes();
        for (at, value) in at {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Ok(header) = JpegHeader::parse(&bytes) {
            prop_assert!(header.width > 0 && header.height > 0 && !header.components().is_empty());
            prop_assert!(header.sof_offset < header.sos_offset && header.sos_offset < header.scan_offset);
            prop_assert!(header.scan_offset <= bytes.len() as u64);
            let _ = end_of_image(&bytes, header.scan_offset);
        }
    }
}

/// Compares the parsed headers with numbers from the data set's description and from other software.
#[test]
fn agrees_on_a_thousand_photos() {
    let Some(data) = shared_data() else { return };
    let (mut sampling, mut icc, mut exif, mut oriented) = ([0; 5], 0, 0, 0);
    for folder in std::fs::read_dir(data.join("imagenet-sample")).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let header = JpegHeader::parse(&bytes).unwrap();
            assert!(header.is_baseline());
            assert!(end_of_image(&bytes, header.scan_offset).is_some());
            let column = match header.sampling() {
                Sampling::Gray => 0,
                Sampling::S444 => 1,
                Sampling::S420 => 2,
                Sampling::S422 => 3,
                Sampling::S440 => 4,
                other => panic!("{other:?}"),
            };
            sampling[column] += 1;
            icc += i32::from(header.icc);
            exif += i32::from(header.exif);
            oriented += i32::from(header.orientation.is_some_and(|o| o != 1));
        }
    }
    assert_eq!(sampling, [23, 761, 203, 12, 1]);
    assert_eq!((icc, exif, oriented), (286, 57, 1));
}

use super::*;
use crate::bad::BadKind;
use crate::testing::{Jpeg, bmp, exif, npy, png, shared_data, tiff, webp};
use proptest::prelude::*;

fn flaw(bytes: &[u8]) -> (BadKind, String) {
    let flaw = probe_picture(bytes).unwrap_err();
    (flaw.kind, flaw.detail)
}

#[test]
fn knows_each_type_by_its_content() {
    let vp8 = webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x05\x40\x07\xc0rest");
    let vp8l = webp(b"VP8L", &[[0x2F].as_slice(), &(4u32 | 6 << 14).to_le_bytes(), &[0; 5]].concat());
    let vp8x = webp(b"VP8X", &[0x10, 0, 0, 0, 4, 0, 0, 6, 0, 0]);
    let mut core = b"BM\0\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\x05\0\x07\0\x01\0\x08\0".to_vec();
    core.resize(26 + 8 * 7, 0);
    for (bytes, media_type, width, height) in [
        (Jpeg::default().bytes(), "image/jpeg", 33, 17),
        (png(5, 7), "image/png", 5, 7),
        (vp8, "image/webp", 5, 7),
        (vp8l, "image/webp", 5, 7),
        (vp8x, "image/webp", 5, 7),
        (bmp(5, 7), "image/bmp", 5, 7),
        (bmp(5, -7), "image/bmp", 5, 7),
        (core, "image/bmp", 5, 7),
        (tiff(3, 8, 1, 1), "image/tiff", 4, 3),
    ] {
        let picture = probe_picture(&bytes).unwrap().unwrap();
        assert_eq!((picture.media_type, picture.width, picture.height), (media_type, width, height));
        assert_eq!(picture.jpeg.is_some(), media_type == "image/jpeg");
    }
}

#[test]
fn leaves_other_content_alone() {
    for bytes in [
        npy(),
        tiff(224, 32, 3, 1),
        b"BM is how this text begins, and it is no BMP".to_vec(),
        vec![],
        b"ENVI\n".to_vec(),
    ] {
        assert_eq!(probe_picture(&bytes), Ok(None));
    }
}

#[test]
fn refuses_types_that_are_not_packed() {
    let animated = webp(b"VP8X", &[2, 0, 0, 0, 4, 0, 0, 6, 0, 0]);
    for (bytes, name) in [
        (b"GIF89a".as_slice(), "GIF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIF"),
        (b"\0\0\0\x18ftypavif\0\0\0\0", "AVIF"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"\xFF\x0A\0\0", "JPEG XL"),
        (&animated, "animated WebP"),
    ] {
        let (kind, detail) = flaw(bytes);
        assert_eq!(kind, BadKind::Unsupported);
        assert!(detail.starts_with(name), "{detail}");
    }
}

#[test]
fn a_picture_that_is_cut_off_is_damaged() {
    let vp8 = webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x05\0\x07\0rest");
    for (whole, signature) in
        [(Jpeg::default().bytes(), 3), (png(5, 7), 8), (vp8, 12), (bmp(5, 7), 18), (tiff(3, 8, 1, 1), 4)]
    {
        assert!(probe_picture(&whole).is_ok());
        // A TIFF counts as damaged only if it is truncated within its first 100 bytes, because its pixels are
        // not checked.
        let end = if whole.starts_with(b"II") { 100 } else { whole.len() };
        for cut in signature..end {
            assert_eq!(flaw(&whole[..cut]).0, BadKind::Damaged, "{:?} cut at {cut}", &whole[..signature]);
        }
    }
}

#[test]
fn zero_sized_pictures_are_damaged() {
    for bytes in [png(0, 7), png(5, 0), bmp(0, 7), Jpeg { height: 0, ..Jpeg::default() }.bytes()] {
        assert_eq!(flaw(&bytes).0, BadKind::Damaged);
    }
}

#[test]
fn jpeg_facts() {
    let facts = |jpeg: &Jpeg| probe_picture(&jpeg.bytes()).unwrap().unwrap().jpeg.unwrap();
    let base = Jpeg::default();
    assert_eq!(
        facts(&base),
        JpegFacts {
            gpu_jpeg: true,
            rare: None,
            progressive: false,
            components: 3,
            restart_interval: 0,
            orientation: None,
            icc: false,
            trailing_bytes: 0
        }
    );
    let turned = Jpeg { segments: vec![(0xE1, exif(6, true)), (0xDD, vec![0, 7])], ..base.clone() };
    assert_eq!((facts(&turned).orientation, facts(&turned).restart_interval), (Some(6), 7));
    let progressive = facts(&Jpeg { sof: 2, ..base });
    assert_eq!((progressive.gpu_jpeg, progressive.progressive), (false, true));
}

/// Returns a hierarchical JPEG: a DHP segment, and the half-size frame that decoding would start with.
fn hierarchical(components: u8, length: u8) -> Vec<u8> {
    let mut dhp = vec![0xFF, 0xDE, 0, length, 8, 0, 17, 0, 33, components];
    dhp.extend([1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0]);
    let mut bytes = Jpeg { width: 17, height: 9, sof: 1, ..Jpeg::default() }.bytes();
    bytes.splice(2..2, dhp);
    bytes
}

#[test]
fn rare_jpegs_are_kept_and_marked() {
    let of = |sof, precision| Jpeg { sof, precision, ..Jpeg::default() }.bytes();
    let two = Jpeg { components: vec![(1, 1, 1), (2, 1, 1)], scan: 2, ..Jpeg::default() }.bytes();
    for (bytes, rare) in [
        (of(3, 8), "lossless JPEG"),
        (of(3, 16), "lossless JPEG"),
        (of(9, 8), "JPEG with arithmetic coding"),
        (of(10, 12), "JPEG with arithmetic coding"),
        (of(11, 14), "JPEG with arithmetic coding"),
        (of(1, 12), "JPEG of 12 bits"),
        (of(2, 12), "JPEG of 12 bits"),
        (two, "JPEG of two components"),
        (hierarchical(3, 17), "hierarchical JPEG"),
    ] {
        let picture = probe_picture(&bytes).unwrap().unwrap();
        assert_eq!((picture.media_type, picture.width, picture.height), ("image/jpeg", 33, 17), "{rare}");
        let facts = picture.jpeg.unwrap();
        assert_eq!((facts.rare, facts.gpu_jpeg, facts.trailing_bytes), (Some(rare), false, 0));
        // Like any other JPEG, a rare one must be complete.
        assert_eq!(flaw(&bytes[..bytes.len() - 2]).0, BadKind::Damaged, "{rare}");
    }
}

#[test]
fn jpegs_that_no_decoder_reads_are_damaged() {
    let of = |sof, precision| Jpeg { sof, precision, ..Jpeg::default() }.bytes();
    for bytes in
        [of(0, 9), of(2, 16), of(3, 1), of(9, 10), of(5, 8), of(15, 8), hierarchical(0, 8), hierarchical(3, 18)]
    {
        assert_eq!(flaw(&bytes).0, BadKind::Damaged);
    }
    let whole = hierarchical(3, 17);
    for cut in 3..whole.len() {
        assert_eq!(flaw(&whole[..cut]).0, BadKind::Damaged, "cut at {cut}");
    }
}

#[test]
fn bytes_behind_the_end_are_counted() {
    let trailing = |tail: Vec<u8>| {
        probe_picture(&Jpeg { tail, ..Jpeg::default() }.bytes()).unwrap().unwrap().jpeg.unwrap().trailing_bytes
    };
    assert_eq!(trailing(b"\x01\xFF\xD9\0\0\0".to_vec()), 3);
    assert_eq!(trailing(b"\x01\xFF\xD9something else".to_vec()), 14);
    assert_eq!(trailing([b"\x01\xFF\xD9".as_slice(), &[0; 9000]].concat()), 9000);
    assert_eq!(trailing([b"\x01\xFF\xD9".as_slice(), &[5; 9000]].concat()), 9000);
}

#[test]
fn a_long_header_is_read_to_its_end() {
    let segments = (0..20).map(|i| (0xE2, vec![i; 60_000])).collect();
    assert_eq!(probe_picture(&Jpeg { segments, ..Jpeg::default() }.bytes()).unwrap().unwrap().width, 33);
}

proptest! {
    #[test]
    fn survives_mutations(
        which in 0usize..7,
        at in prop::collection::vec((0usize..200, any::<u8>()), 0..5),
        cut in 0usize..400,
    ) {
        let mut bytes = match which {
            0 => Jpeg::default().bytes(),
            1 => png(5, 7),
            2 => webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x05\0\x07\0rest"),
            3 => webp(b"VP8X", &[0x10, 0, 0, 0, 4, 0, 0, 6, 0, 0]),
            4 => bmp(3, 3),
            5 => hierarchical(3, 17),
            _ => tiff(3, 8, 1, 1),
        };
        for (at, value) in at {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(cut);
        if let Ok(Some(picture)) = probe_picture(&bytes) {
            prop_assert!(picture.width > 0 && picture.height > 0);
        }
    }
}

#[test]
fn a_thousand_photos_are_whole() {
    let Some(data) = shared_data() else { return };
    let (mut pixels, mut trailing) = (0, 0);
    for folder in std::fs::read_dir(data.join("imagenet-sample")).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let picture = probe_picture(&std::fs::read(file.unwrap().path()).unwrap()).unwrap().unwrap();
            pixels += u64::from(picture.width) * u64::from(picture.height);
            trailing += u64::from(picture.jpeg.unwrap().trailing_bytes > 0);
        }
    }
    assert_eq!((pixels / 100_000, trailing), (2017, 0));
}

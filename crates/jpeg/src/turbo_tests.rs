use super::*;
use crate::sources::{encode, plain, with_segments};
use crate::{DecodePaths, JpegDecoder, Rendering, View};
use proptest::prelude::*;
use shardpack_format::Limits;

fn bounds() -> Bounds {
    Bounds::of(&Limits { max_decoded_bytes: 1 << 24, ..Default::default() })
}

fn decompressor(warnings: Warnings) -> Decompressor {
    Decompressor::new(bounds(), warnings)
}

fn photo(size: (u32, u32)) -> Vec<u8> {
    encode(size, PixelFormat::Rgb, plain(Subsampling::S420), None)
}

fn sources() -> Vec<Vec<u8>> {
    let rgb = |subsampling, process| encode((72, 40), PixelFormat::Rgb, plain(subsampling), process);
    vec![
        rgb(Subsampling::S420, None),
        rgb(Subsampling::S444, Some(Process::Progressive)),
        rgb(Subsampling::S422, Some(Process::Arithmetic)),
        encode((50, 33), PixelFormat::Rgb, Encoding { restart_interval: 2, ..plain(Subsampling::S420) }, None),
        encode((31, 64), PixelFormat::Gray, plain(Subsampling::Gray), Some(Process::Progressive)),
        encode((40, 24), PixelFormat::Cmyk, plain(Subsampling::S444), Some(Process::Cmyk)),
    ]
}

/// Decodes a progressive picture that repeats its last scan many times.
#[test]
fn scans_are_counted_before_they_are_decoded() {
    let jpeg = encode((31, 64), PixelFormat::Gray, plain(Subsampling::Gray), Some(Process::Progressive));
    let last = jpeg.windows(2).rposition(|marker| marker == [0xFF, 0xDA]).unwrap();
    let scan = &jpeg[last..jpeg.len() - 2];
    let with = |more: usize| [&jpeg[..jpeg.len() - 2], &scan.repeat(more), &[0xFF, 0xD9]].concat();
    assert!(decompressor(Warnings::Accept).open(&with(400)).is_ok());
    let error = decompressor(Warnings::Accept).open(&with(600)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Limit { limit: 500, found: 600.., .. }), "{error}");
    // The limit is lower for large pictures, but always above the number of scans in normal pictures.
    let allowed = [1, 1 << 24, 1 << 28, u64::MAX].map(|pixels| bounds().scans_of(pixels));
    assert_eq!(allowed, [500, 128, 64, 64]);
}

/// Returns bytes that make libjpeg first warn and then fail in the middle of a Huffman table.
fn warns_then_fails(jpeg: &[u8]) -> Vec<u8> {
    let table = [&[0xFF, 0xC4, 0, 0x30, 0][..], &[0xEE; 64]].concat();
    // Insert the bytes directly after the JFIF segment.
    [&jpeg[..20], b"stray", table.as_slice(), &jpeg[20..]].concat()
}

/// Returns a picture that a reader sees as 1024 × 1024 pixels if it wrongly continues where an earlier reader failed.
/// The earlier reader failed in the middle of a Huffman table, so the wrong reader takes this picture's SOI for the
/// length of the table.
fn resumed(inner: &[u8]) -> Vec<u8> {
    let table = |symbols: usize| {
        let mut out = vec![0; 17 + symbols];
        out[16] = symbols.min(255) as u8;
        out[15] = (symbols - symbols.min(255)) as u8;
        out
    };
    let mut body = Vec::new();
    let mut left = 0xFFD8 - 2_usize;
    while left > 17 + 256 {
        let part = if left < 617 { 150 } else { 200 };
        body.extend(table(part));
        left -= 17 + part;
    }
    body.extend(table(left - 17));
    // Make the first reader skip some bytes with a warning and then fail in the middle of a table.
    body[30..35].copy_from_slice(&[0xFF, 0xC4, 0, 0x30, 0]);
    body[35..51].fill(0xEE);
    [b"\xFF\xD8", body.as_slice(), &inner[2..]].concat()
}

#[test]
fn a_reader_never_continues_in_another_picture() {
    let (good, attack) = (photo((320, 240)), resumed(&photo((1024, 1024))));
    let (length, guard) = (320 * 240 * 3, 1024 * 1024 * 3);
    for lenient in [false, true] {
        let mut decoder = JpegDecoder::with_paths(&Limits::default(), DecodePaths { lenient, ..Default::default() });
        let mut memory = vec![0xAB; length + guard];
        for jpeg in [&good, &attack, &attack, &good, &attack] {
            let (slot, behind) = memory.split_at_mut(length);
            let size = decoder.size_of(jpeg, 1);
            let decoded = decoder.decode_into(jpeg, &Rendering::default(), slot);
            assert_eq!((size.is_ok(), decoded.is_ok()), (jpeg == &good, jpeg == &good), "{size:?} {decoded:?}");
            assert!(behind.iter().all(|&v| v == 0xAB), "bytes behind the slot");
        }
    }
}

#[test]
fn dimensions_are_never_those_of_the_picture_before() {
    let (first, second) = (photo((320, 240)), photo((16, 300)));
    let mut tables_only = vec![0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0];
    tables_only.extend([1; 64]);
    tables_only.extend([0xFF, 0xD9]);
    for bad in
        [b"\xFF\xD8\xFF\xD9".to_vec(), tables_only, warns_then_fails(&first), resumed(&first), vec![], vec![0xFF]]
    {
        for lenient in [false, true] {
            let mut decoder =
                JpegDecoder::with_paths(&Limits::default(), DecodePaths { lenient, ..Default::default() });
            assert_eq!(decoder.size_of(&first, 1), Ok((240, 320)));
            let error = decoder.size_of(&bad, 1).unwrap_err();
            assert!(matches!(error, Error::Format { .. }), "{error}");
            assert_eq!(decoder.size_of(&second, 1), Ok((300, 16)));
        }
        let how = Transcoding { operation: Operation::None, restart_interval: 1, keep_metadata: false };
        let transcoder = Transcoder::new(bounds());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        transcoder.transcode(&first, how, &mut before).unwrap();
        assert!(transcoder.transcode(&bad, how, &mut after).is_err() && after.is_empty());
        transcoder.transcode(&first, how, &mut after).unwrap();
        assert_eq!(before, after);
    }
}

/// A picture without tables must not be decoded with the tables of the previous picture, as libjpeg would do.
#[test]
fn tables_are_those_of_the_picture_itself() {
    let jpeg = photo((64, 48));
    let mut bare = jpeg.clone();
    // Turn the first table into a comment.
    let at = memchr::memmem::find(&bare, b"\xFF\xDB").unwrap();
    bare[at + 1] = 0xFE;
    let mut decoder = JpegDecoder::new(&Limits::default());
    let mut slot = vec![0; 64 * 48 * 3];
    decoder.decode_into(&jpeg, &Rendering::default(), &mut slot).unwrap();
    let error = decoder.decode_into(&bare, &Rendering::default(), &mut slot).unwrap_err();
    assert!(error.to_string().contains("Quantization table"), "{error}");
}

#[test]
fn an_error_behind_a_warning_is_an_error() {
    let jpeg = encode((64, 48), PixelFormat::Rgb, plain(Subsampling::S444), Some(Process::Progressive));
    // Insert stray bytes before the second scan, and after them a marker that libjpeg does not support.
    let scans: Vec<usize> = memchr::memmem::find_iter(&jpeg, b"\xFF\xDA").collect();
    let bad = [&jpeg[..scans[1]], b"stray\xFF\xC8\0\x02", &jpeg[scans[1]..]].concat();
    let strays = [&jpeg[..scans[1]], b"stray", &jpeg[scans[1]..]].concat();
    let mut lenient = JpegDecoder::with_paths(&Limits::default(), DecodePaths { lenient: true, ..Default::default() });
    let mut strict = JpegDecoder::new(&Limits::default());
    for view in [View::whole(), View::resize((12, 16))] {
        let how = Rendering { view, ..Default::default() };
        let (height, width) = view.size().unwrap_or((48, 64));
        let mut slot = vec![0x11; (height * width * 3) as usize];
        lenient.decode_into(&jpeg, &how, &mut slot).unwrap();
        let whole = slot.clone();
        let error = lenient.decode_into(&bad, &how, &mut slot).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error}");
        slot.fill(0x11);
        lenient.decode_into(&strays, &how, &mut slot).unwrap();
        assert!(slot == whole, "the warning alone costs no pixel");
        let error = strict.decode_into(&strays, &how, &mut slot).unwrap_err();
        assert!(error.to_string().contains("extraneous bytes"), "{error}");
    }
}

#[test]
fn warnings_of_every_kind_are_accepted_by_name() {
    let jpeg = photo((64, 48));
    let edited = |find: &[u8], by: &dyn Fn(&mut [u8])| {
        let mut out = jpeg.clone();
        let at = memchr::memmem::find(&out, find).unwrap();
        by(&mut out[at..]);
        out
    };
    let adobe = with_segments(&jpeg[..], &[(0xEE, b"Adobe\0\x64\0\0\0\0\x09".to_vec())]);
    let without_jfif = [
        &adobe[..2],
        &memchr::memmem::find(&adobe, b"\xFF\xEE").map_or(vec![], |at| adobe[at..at + 16].to_vec()),
        &jpeg[20..],
    ]
    .concat();
    for (bytes, text) in [
        (edited(b"JFIF", &|at| at[5] = 7), "JFIF revision"),
        (without_jfif, "Adobe color transform"),
        (edited(b"\xFF\xDA", &|at| at[12] = 5), "SOS parameters"),
        (jpeg[..jpeg.len() / 2].to_vec(), "Premature end"),
        ([&jpeg[..20], b"stray", &jpeg[20..]].concat(), "extraneous"),
    ] {
        let mut pixels = vec![0; 64 * 48 * 3];
        let strict = decompressor(Warnings::Refuse);
        let error = strict.open(&bytes).and_then(|p| p.decode(Scale::Full, PixelFormat::Rgb, &mut pixels, 64 * 3));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        let lenient = decompressor(Warnings::Accept);
        lenient.open(&bytes).and_then(|p| p.decode(Scale::Full, PixelFormat::Rgb, &mut pixels, 64 * 3)).unwrap();
    }
}

fn mutant() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..4_u8, any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    (prop::sample::select(sources()), prop::collection::vec(change, 0..5)).prop_map(|(mut jpeg, changes)| {
        for (kind, at, value, early) in changes {
            // Prefer positions in the header, which has most of the special cases.
            let at = at.index(if early { jpeg.len().min(650) } else { jpeg.len() });
            match kind {
                0 => jpeg[at] = value,
                1 => jpeg.insert(at, value),
                2 => _ = jpeg.splice(at..at, [0xFF, value]),
                _ => jpeg.truncate(at.max(4)),
            }
        }
        jpeg
    })
}

type Shown = (Result<(u32, u32)>, Result<Vec<u8>>, Result<Vec<u8>>);

fn come_of(decoder: &mut JpegDecoder, jpeg: &[u8], fill: u8) -> Shown {
    let size = decoder.size_of(jpeg, 1);
    let mut show = |view: View, (height, width): (u32, u32)| {
        let mut slot = vec![fill; (height * width * 3) as usize];
        let how = Rendering { view, ..Default::default() };
        decoder.decode_into(jpeg, &how, &mut slot).map(|_| slot)
    };
    let whole = size.clone().and_then(|size| show(View::whole(), size));
    (size, whole, show(View::resize((9, 14)), (9, 14)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    /// Decodes into two slots with different initial contents, which must become equal. This shows that every byte is
    /// written and depends only on this picture.
    #[test]
    fn a_reused_decoder_is_as_good_as_a_new_one(
        jpegs in prop::collection::vec(mutant(), 1..3),
        lenient in any::<bool>(),
    ) {
        let limits = Limits { max_decoded_bytes: 1 << 22, ..Default::default() };
        let new = || JpegDecoder::with_paths(&limits, DecodePaths { lenient, ..Default::default() });
        let mut reused = new();
        for jpeg in jpegs {
            let expected = come_of(&mut new(), &jpeg, 0x11);
            prop_assert!(come_of(&mut reused, &jpeg, 0xEE) == expected);
        }
    }
}

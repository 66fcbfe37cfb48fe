//! Tests that a segment index changes which bytes are read, but never a pixel.

use super::tests::{Change, Source, by_us, config, damaged, source, window, within};
use super::*;
use crate::testing::shared_data;
use crate::{JpegDecoder, Rendering, SegmentIndexer, View};
use proptest::prelude::*;
use shardpack_format::Limits;

fn index_of(jpeg: &[u8]) -> shardpack_format::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let count = SegmentIndexer::new().index(jpeg, &Limits::default(), &mut out)?;
    assert_eq!(count.is_some(), !out.is_empty());
    Ok(count.map(|_| out))
}

fn by_index(jpeg: &[u8], index: &[u8], window: Rect) -> Option<Vec<u8>> {
    let header = JpegHeader::parse(jpeg).unwrap();
    let index = SegmentIndex::parse(index).ok()?;
    let mut out = vec![0xA5; window.width as usize * window.height as usize * 3];
    BaselineDecoder::new().decode(jpeg, &header, Some(&index), window, &mut out).map(|_| out)
}

/// Decodes a window with the default decoder. Returns its pixels, and true if the decoder used the index.
fn decoded(jpeg: &[u8], index: Option<&[u8]>, window: Rect) -> (Result<Vec<u8>, String>, bool) {
    let mut decoder = JpegDecoder::new(&Limits::default());
    let mut slot = vec![0; window.width as usize * window.height as usize * 3];
    let how = Rendering { view: View::rectangle(window), ..Default::default() };
    let result = decoder.decode_indexed(jpeg, index, &how, &mut slot);
    (result.map(|_| slot).map_err(|error| error.to_string()), decoder.wrong_indexes() == 0)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pixels_do_not_depend_on_the_index(source in source(), windows in prop::collection::vec(window(), 3)) {
        let jpeg = source.encoded();
        let Some(index) = index_of(&jpeg).unwrap() else { return Ok(()) };
        SegmentIndexer::new().verify(&jpeg, &index, &Limits::default()).unwrap();
        let header = JpegHeader::parse(&jpeg).unwrap();
        let whole = Rect::whole(header.width.into(), header.height.into());
        let windows = windows.into_iter().map(|numbers| within(source.size, numbers)).chain([whole]);
        for window in windows {
            let expected = by_us(&mut BaselineDecoder::new(), &jpeg, window);
            prop_assert_eq!(by_index(&jpeg, &index, window), expected, "{}", window);
        }
    }

    #[test]
    fn a_wrong_index_costs_time_and_no_pixel(
        source in source(),
        numbers in window(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), 0..4_u8), 1..4),
    ) {
        let jpeg = source.encoded();
        let Some(index) = index_of(&jpeg).unwrap() else { return Ok(()) };
        let mut wrong = index.clone();
        for (at, byte, change) in changes {
            let at = at % wrong.len();
            match change {
                0 => wrong[at] ^= 1 << (byte & 7),
                1 => wrong[at] = byte,
                2 => wrong.truncate(at.max(1)),
                _ => wrong.push(byte),
            }
        }
        let window = within(source.size, numbers);
        let expected = decoded(&jpeg, None, window).0;
        prop_assert_eq!(decoded(&jpeg, Some(&wrong), window).0, expected);
        prop_assert!(wrong == index || SegmentIndexer::new().verify(&jpeg, &wrong, &Limits::default()).is_err());
    }

    #[test]
    fn damage_is_found_or_gives_the_same_pixels(
        source in source(),
        numbers in window(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), 0..5_u8), 1..3),
    ) {
        let jpeg = source.encoded();
        let Some(index) = index_of(&jpeg).unwrap() else { return Ok(()) };
        let changes: Vec<Change> = changes;
        let jpeg = damaged(jpeg, &changes);
        let Ok(header) = JpegHeader::parse(&jpeg) else { return Ok(()) };
        if u32::from(header.width) * u32::from(header.height) >= 1 << 20 {
            return Ok(());
        }
        let window = within((header.width.into(), header.height.into()), numbers);
        let (found, used) = decoded(&jpeg, Some(&index), window);
        let whole = decoded(&jpeg, None, window).0;
        // With an index, the decoder does not read the data before the window's segments, so it
        // does not see damage there.
        if found != whole {
            prop_assert!(used && index_of(&jpeg).map_or(true, |now| now.as_deref() != Some(&index)), "{:?}", whole.err());
        }
    }
}

fn plain(interval: u16) -> Source {
    Source {
        size: (80, 64),
        gray: false,
        subsampling: crate::Subsampling::S420,
        quality: 80,
        interval,
        noise: 3,
        seed: 5,
    }
}

#[test]
fn only_pictures_that_need_an_index_get_one() {
    let segments = |interval| {
        index_of(&plain(interval).encoded()).unwrap().map(|index| {
            let index = SegmentIndex::parse(&index).unwrap();
            (index.segments(), index.interval())
        })
    };
    // The picture has four rows of five MCUs, with six blocks per MCU.
    assert_eq!(segments(0), Some((5, 4)));
    assert_eq!(segments(20), Some((5, 4)));
    assert_eq!(segments(5), Some((20, 1)), "a segment divides the interval");
    assert_eq!(segments(10), Some((10, 2)));
    assert_eq!(segments(4), None, "restart markers suffice");
    assert_eq!(segments(1), None);
    let small = Source { size: (16, 16), ..plain(0) };
    assert_eq!(index_of(&small.encoded()).unwrap(), None, "one segment");
}

#[test]
fn damage_is_an_error_of_the_index() {
    let jpeg = plain(0).encoded();
    assert!(index_of(&jpeg).unwrap().is_some());
    let cut = [&jpeg[..jpeg.len() - 40], &jpeg[jpeg.len() - 2..]].concat();
    let error = index_of(&cut).unwrap_err().to_string();
    assert!(error.contains("JPEG"), "{error}");
}

#[test]
fn an_index_of_another_picture_is_refused() {
    let (one, other) = (plain(0).encoded(), Source { seed: 6, ..plain(0) }.encoded());
    let index = index_of(&one).unwrap().unwrap();
    for x in 0..5 {
        let window = Rect { x: x * 16, y: 16, width: 16, height: 16 };
        assert_eq!(by_index(&other, &index, window), None);
    }
    assert!(SegmentIndexer::new().verify(&other, &index, &Limits::default()).is_err());
}

/// Flips one bit of an index and corrects the CRC32. For any window, a decoder must notice the contradiction at the
/// segments that it decodes.
#[test]
fn a_contradiction_is_noticed() {
    let source = Source { noise: 6, ..plain(0) };
    let jpeg = source.encoded();
    let index = index_of(&jpeg).unwrap().unwrap();
    let windows = (0..20).map(|n| Rect { x: n % 5 * 16, y: n / 5 * 16, width: 16, height: 16 });
    let expected: Vec<_> = windows.map(|window| (window, by_us(&mut BaselineDecoder::new(), &jpeg, window))).collect();
    let mut used = 0;
    for bit in (0..index.len() * 8).filter(|bit| !(24 * 8..28 * 8).contains(bit)) {
        let mut wrong = index.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let crc = crc32fast::hash(&[&wrong[..24], &wrong[28..]].concat());
        wrong[24..28].copy_from_slice(&crc.to_le_bytes());
        for (window, expected) in &expected {
            let found = by_index(&jpeg, &wrong, *window);
            assert!(found.is_none() || found == *expected, "bit {bit}, {window}");
            used += u32::from(found.is_some());
        }
    }
    assert!(used > 0, "a window far from the flipped bit may use the index");
}

/// RGB pictures are always decoded as a whole, on the host and on a device, so an index would be useless.
#[test]
fn pictures_without_luma_get_no_index() {
    let jpeg = Source { subsampling: crate::Subsampling::S444, ..plain(0) }.encoded();
    assert!(index_of(&jpeg).unwrap().is_some() && jpeg[2..4] == [0xFF, 0xE0]);
    // The Adobe segment declares the components as red, green and blue.
    let rest = &jpeg[4 + usize::from(u16::from_be_bytes([jpeg[4], jpeg[5]]))..];
    let rgb = [b"\xFF\xD8\xFF\xEE\0\x0EAdobe\0\x64\0\0\0\0\0".as_slice(), rest].concat();
    assert!(JpegHeader::parse(&rgb).unwrap().is_rgb());
    assert_eq!(index_of(&rgb).unwrap(), None);
}

/// A writer may choose the number of MCUs per segment within limits, so decoders must accept other numbers too.
#[test]
fn segments_of_other_lengths_serve() {
    let source = Source { noise: 6, ..plain(0) };
    let jpeg = source.encoded();
    let header = JpegHeader::parse(&jpeg).unwrap();
    let window = Rect { x: 20, y: 20, width: 30, height: 30 };
    let expected = by_us(&mut BaselineDecoder::new(), &jpeg, window);
    let mut walker = ScanWalker::new();
    for (interval, serves) in [(1, true), (2, true), (3, true), (5, true), (6, false)] {
        let mut index = Vec::new();
        assert_eq!(matches!(walker.walk(&jpeg, &header, Some(interval)), Walked::Listed), serves, "{interval}");
        if serves {
            walker.list.write(&mut index);
            assert_eq!(by_index(&jpeg, &index, window), expected, "{interval}");
            SegmentIndexer::new().verify(&jpeg, &index, &Limits::default()).unwrap();
        }
    }
}

#[test]
fn real_photos_have_the_same_pixels() {
    let Some(data) = shared_data() else { return };
    let folders = std::fs::read_dir(data.join("imagenet-sample")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = folders
        .filter(|path| path.is_dir())
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    paths.sort();
    let (mut indexed, mut bytes, mut index_bytes) = (0, 0, 0);
    for path in paths.iter().step_by(17) {
        let jpeg = std::fs::read(path).unwrap();
        let Ok(header) = JpegHeader::parse(&jpeg) else { continue };
        let Some(index) = index_of(&jpeg).unwrap() else { continue };
        (indexed, bytes, index_bytes) = (indexed + 1, bytes + jpeg.len(), index_bytes + index.len());
        let (width, height) = (u32::from(header.width), u32::from(header.height));
        let windows = [
            Rect::whole(width, height),
            Rect { x: width / 3, y: height / 2, width: width / 3, height: height / 4 },
            Rect { x: width - 1, y: height - 1, width: 1, height: 1 },
        ];
        for window in windows {
            let expected = by_us(&mut BaselineDecoder::new(), &jpeg, window).unwrap();
            assert!(by_index(&jpeg, &index, window).unwrap() == expected, "{}: {window}", path.display());
        }
    }
    assert!(indexed > 10 && index_bytes * 40 < bytes, "{indexed} pictures, {index_bytes} of {bytes} bytes");
}

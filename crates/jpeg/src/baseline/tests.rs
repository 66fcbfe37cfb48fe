//! Compares the pixels and errors of our own decoder with libjpeg-turbo's.

use super::*;
use crate::sources::{encode, plain};
use crate::testing::shared_data;
use crate::turbo::{Compressor, Encoding, PixelFormat, Process, Scale, Subsampling};
use crate::{Bounds, DecodePaths, Decompressor, JpegDecoder, JpegTiler, Rendering, TileOptions, View, Warnings};
use proptest::prelude::*;
use shardpack_format::Limits;

/// Configures proptest. Seeds are random, and failures are kept in `proptest-regressions`. `PROPTEST_CASES`
/// sets the number of cases.
pub(super) fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1500), ..config }
}

/// Decodes the whole picture to RGB with libjpeg-turbo. Returns `None` if it warns or fails.
fn by_turbo(jpeg: &[u8]) -> Option<Vec<u8>> {
    let picture = Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse).open(jpeg).ok()?;
    let frame = picture.frame();
    let pitch = frame.width as usize * 3;
    let mut out = vec![0; pitch * frame.height as usize];
    picture.decode(Scale::Full, PixelFormat::Rgb, &mut out, pitch).ok()?;
    Some(out)
}

fn cropped(pixels: &[u8], width: u32, window: Rect) -> Vec<u8> {
    let (x, width) = (window.x as usize * 3, width as usize * 3);
    let rows = pixels.chunks(width).skip(window.y as usize).take(window.height as usize);
    rows.flat_map(|row| row[x..x + window.width as usize * 3].to_vec()).collect()
}

pub(super) fn by_us(decoder: &mut BaselineDecoder, jpeg: &[u8], window: Rect) -> Option<Vec<u8>> {
    let header = JpegHeader::parse(jpeg).unwrap();
    let mut out = vec![0xA5; window.width as usize * window.height as usize * 3];
    decoder.decode(jpeg, &header, None, window, &mut out).map(|_| out)
}

/// Asserts that our decoder decodes all `windows` itself, with the same pixels as libjpeg-turbo.
fn assert_same(decoder: &mut BaselineDecoder, jpeg: &[u8], windows: &[Rect], what: &str) {
    let header = JpegHeader::parse(jpeg).unwrap();
    let whole = by_turbo(jpeg).unwrap();
    for &window in windows {
        let found = by_us(decoder, jpeg, window).unwrap_or_else(|| panic!("{what}: {window} was not decoded"));
        assert!(found == cropped(&whole, header.width.into(), window), "{what}: {window} differs");
    }
}

/// A picture of any kind that our decoder supports, with contents from one flat colour to black-and-white
/// noise.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) size: (u32, u32),
    pub(super) gray: bool,
    pub(super) subsampling: Subsampling,
    pub(super) quality: u8,
    pub(super) interval: u16,
    pub(super) noise: u32,
    pub(super) seed: u32,
}

impl Source {
    pub(super) fn encoded(&self) -> Vec<u8> {
        let format = if self.gray { PixelFormat::Gray } else { PixelFormat::Rgb };
        let mut state = self.seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let (width, height) = self.size;
        let pixels = (0..width * height * format.bytes() as u32).map(|i| {
            let (x, y) = (i / 3 % width, i / 3 / width);
            match self.noise {
                0 => 90,
                n if n > 8 => [0, 255][random() as usize & 1],
                n => ((x * 3 + y * 5) % 200 + random() % (1 << n)).min(255) as u8,
            }
        });
        let how = Encoding { quality: self.quality, subsampling: self.subsampling, restart_interval: self.interval };
        let mut out = Vec::new();
        Compressor::new().encode(&pixels.collect::<Vec<_>>(), self.size.0, self.size.1, format, how, &mut out).unwrap();
        out
    }
}

pub(super) fn source() -> impl Strategy<Value = Source> {
    use Subsampling::{Gray, S420, S422, S440, S444};
    let kind = prop_oneof![Just(Gray), Just(S444), Just(S422), Just(S420), Just(S440)];
    let interval = prop_oneof![Just(0), Just(1), Just(2), 0_u16..12, 0_u16..150];
    (5..90_u32, 1..70_u32, kind, 1..=100_u8, interval, 0..10_u32, any::<u32>()).prop_map(
        |(width, height, subsampling, quality, interval, noise, seed)| {
            let gray = matches!(subsampling, Gray);
            Source { size: (width, height), gray, subsampling, quality, interval, noise, seed }
        },
    )
}

/// Generates numbers for [`within`]. Some are random positions. Others are at the right and lower edges,
/// where different rules apply.
pub(super) fn window() -> impl Strategy<Value = [u32; 4]> {
    let place = || prop_oneof![3 => any::<u32>(), 1 => (0..3_u32).prop_map(|n| LAST - n)];
    (place(), place(), any::<u32>(), any::<u32>()).prop_map(|(x, y, w, h)| [x, y, w, h])
}

/// Represents the last column or row. Smaller numbers count back from it.
const LAST: u32 = u32::MAX;

pub(super) fn within((width, height): (u32, u32), [x, y, w, h]: [u32; 4]) -> Rect {
    let place = |n: u32, side: u32| if n > LAST - 3 { (side - 1).saturating_sub(LAST - n) } else { n % side };
    let (x, y) = (place(x, width), place(y, height));
    Rect { x, y, width: 1 + w % (width - x), height: 1 + h % (height - y) }
}

/// A change to a file: its position (any number, modulo the length), a byte, and the kind of change.
pub(super) type Change = (usize, u8, u8);

pub(super) fn damaged(mut jpeg: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for &(at, byte, change) in changes {
        let at = at % jpeg.len();
        match change {
            0 => jpeg.truncate(at.max(2)),
            1 => jpeg.insert(at, byte),
            2 => drop(jpeg.remove(at)),
            // Truncate the scan, but keep EOI after it.
            4 if byte < 128 => drop(jpeg.drain(at..jpeg.len().saturating_sub(2).max(at))),
            3 => jpeg[at] ^= 1 << (byte & 7),
            _ => jpeg[at] = byte,
        }
    }
    jpeg
}

/// Checks that using our decoder makes no visible difference for `jpeg`. Any difference is returned as an
/// error.
fn compare(jpeg: &[u8], window: [u32; 4], lenient: bool) -> Result<(), String> {
    let decoder = |own_decoder, lenient| {
        JpegDecoder::with_paths(&Limits::default(), DecodePaths { own_decoder, lenient, ..Default::default() })
    };
    let Ok((height, width)) = decoder(false, lenient).size_of(jpeg, 1) else { return Ok(()) };
    if width * height >= 1 << 20 {
        return Ok(());
    }
    for view in [View::whole(), View::rectangle(within((width, height), window))] {
        let (height, width) = view.size().unwrap_or((height, width));
        let seen = |own_decoder, lenient| {
            let mut slot = vec![0; height as usize * width as usize * 3];
            let how = Rendering { view, ..Default::default() };
            let decoded = decoder(own_decoder, lenient).decode_into(jpeg, &how, &mut slot);
            decoded.map(|decoded| (decoded.kind, slot)).map_err(|error| error.to_string())
        };
        let (ours, mut turbo) = (seen(true, lenient), seen(false, lenient));
        // Our decoder ignores damage outside the rectangle. libjpeg-turbo reads more and may fail on it. Our
        // pixels must then equal libjpeg-turbo's lenient result.
        if ours.is_ok() && turbo.is_err() && view != View::whole() {
            turbo = seen(false, true);
        }
        if ours != turbo {
            let [ours, turbo] = [ours, turbo].map(|seen| seen.map(|(kind, _)| kind));
            return Err(format!("{view:?}: {ours:?} by us, {turbo:?} by libjpeg-turbo, or other pixels"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pixels_are_those_of_libjpeg_turbo(source in source(), windows in prop::collection::vec(window(), 3)) {
        let jpeg = source.encoded();
        let header = JpegHeader::parse(&jpeg).unwrap();
        let mut windows: Vec<Rect> = windows.into_iter().map(|numbers| within(source.size, numbers)).collect();
        windows.push(Rect::whole(source.size.0, source.size.1));
        // Pictures whose chroma is too narrow to be interpolated are left to libjpeg-turbo.
        if Layout::of(&header, windows[0], None).is_some() {
            assert_same(&mut BaselineDecoder::new(), &jpeg, &windows, &format!("{source:?}"));
        } else {
            prop_assert!(source.size.0 <= 4, "{source:?}");
        }
    }

    /// Using our decoder must make no visible difference after bytes are changed, removed or inserted.
    #[test]
    fn damage_is_left_to_libjpeg_turbo(
        source in source(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), 0..8_u8), 1..4),
        window in window(),
        lenient in any::<bool>(),
    ) {
        let compared = compare(&damaged(source.encoded(), &changes), window, lenient);
        prop_assert!(compared.is_ok(), "{compared:?}");
    }

    /// A single flipped bit in the scan often changes pixels without a warning. Both decoders must
    /// then return the same pixels.
    #[test]
    fn a_flipped_bit_means_the_same_to_both(
        source in source(),
        (at, bit) in (any::<usize>(), any::<u8>()),
        window in window(),
        lenient in any::<bool>(),
    ) {
        let mut jpeg = source.encoded();
        let scan = JpegHeader::parse(&jpeg).unwrap().scan_offset as usize;
        let at = scan + at % (jpeg.len() - scan);
        jpeg[at] ^= 1 << (bit & 7);
        let compared = compare(&jpeg, window, lenient);
        prop_assert!(compared.is_ok(), "{compared:?}");
    }
}

/// Cases where the two decoders once disagreed. In the first cases, libjpeg-turbo decoded only a single chroma column
/// at the right edge.
#[test]
fn past_differences_stay_fixed() {
    let s420 = |size, quality, interval, noise| Source {
        size,
        gray: false,
        subsampling: Subsampling::S420,
        quality,
        interval,
        noise,
        seed: 0,
    };
    let cases: [(Source, &[Change], [u32; 4]); 2] = [
        (s420((18, 42), 21, 0, 7), &[(247_607, 128, 3)], [17, 1, 0, 85]),
        (s420((50, 60), 61, 2, 7), &[(1_000, 1, 3)], [49, 1, 0, 40]),
    ];
    for (source, changes, window) in cases {
        // Test the picture unchanged, and with one bit flipped.
        let jpeg = source.encoded();
        assert_eq!(compare(&jpeg, window, false), Ok(()), "{source:?}");
        assert_eq!(compare(&damaged(jpeg, changes), window, false), Ok(()), "{source:?} {changes:?}");
    }
}

#[test]
fn a_scan_that_ends_early_is_left_to_libjpeg_turbo_in_any_rectangle() {
    for interval in [0, 16] {
        let how = Encoding { restart_interval: interval, ..plain(Subsampling::S444) };
        let whole = encode((128, 128), PixelFormat::Rgb, how, None);
        let mut decoder = BaselineDecoder::new();
        let above = Rect { x: 0, y: 0, width: 128, height: 112 };
        assert!(by_us(&mut decoder, &whole, above).is_some());
        let scan = JpegHeader::parse(&whole).unwrap().scan_offset as usize;
        let mut jpeg = whole.clone();
        jpeg.drain(scan + (whole.len() - scan) / 2..whole.len() - 2);
        assert!(by_us(&mut decoder, &jpeg, above).is_none(), "interval {interval}");
    }
}

#[test]
fn unusual_pictures_are_left_to_libjpeg_turbo() {
    let size = (40, 24);
    let how = plain(Subsampling::S420);
    let all = Rect::whole(40, 24);
    let mut decoder = BaselineDecoder::new();
    let jpeg = encode(size, PixelFormat::Rgb, how, None);
    assert!(by_us(&mut decoder, &jpeg, all).is_some());
    for process in [Process::Progressive, Process::Arithmetic] {
        let jpeg = encode(size, PixelFormat::Rgb, how, Some(process));
        assert_eq!(by_us(&mut decoder, &jpeg, all), None, "{process:?}");
    }
    let narrow = encode((4, 24), PixelFormat::Rgb, how, None);
    assert_eq!(by_us(&mut decoder, &narrow, Rect::whole(4, 24)), None, "chroma is not interpolated");
    let wide = encode(size, PixelFormat::Rgb, plain(Subsampling::S411), None);
    assert_eq!(by_us(&mut decoder, &wide, all), None, "4:1:1");
    let end = jpeg.len() - 2;
    assert_eq!(by_us(&mut decoder, &jpeg[..end], all), None, "no EOI");
    let left_over = [&jpeg[..end], &[0x12, 0xFF, 0xD9]].concat();
    assert_eq!(by_us(&mut decoder, &left_over, all), None, "a byte left over");
    let marked = [&jpeg[..end], &[0xFF, 0xD0, 0xFF, 0xD9]].concat();
    assert_eq!(by_us(&mut decoder, &marked, all), None, "a marker left over");
}

#[test]
fn photos_have_the_pixels_of_libjpeg_turbo() {
    let Some(data) = shared_data() else { return };
    let mut folders = vec![data.join("imagenet-sample")];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut paths }.push(path);
        }
    }
    paths.retain(|path| {
        path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jpeg") || e.eq_ignore_ascii_case("jpg"))
    });
    paths.sort();
    let mut decoder = BaselineDecoder::new();
    let mut tiler = JpegTiler::new();
    let mut decoded = 0;
    for (n, path) in (0_u32..).zip(&paths) {
        let source = std::fs::read(path).unwrap();
        let mut tiled = Vec::new();
        tiler.tile(&source, &TileOptions::default(), &mut tiled).unwrap();
        let header = JpegHeader::parse(&tiled).unwrap();
        let size = (header.width.into(), header.height.into());
        if Layout::of(&header, Rect::whole(1, 1), None).is_none() || header.is_rgb() {
            continue;
        }
        decoded += 1;
        let random = |k: u32| within(size, [11, 13, 17, 19].map(|p| (n * 4 + k).wrapping_mul(0x9E37_79B1) / p));
        let windows = [Rect::whole(size.0, size.1), random(0), random(1), random(2)];
        assert_same(&mut decoder, &tiled, &windows, &path.display().to_string());
    }
    assert!(decoded * 100 >= paths.len() * 95, "{decoded} of {} photos", paths.len());
}

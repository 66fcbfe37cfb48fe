use super::*;
use crate::resize::Resizing;
use crate::turbo::Process;
use crate::{
    Compressor, Crop, DecodePaths, DrawKey, Encoding, Framing, Interpolation, PixelLayout, Rescaled, Subsampling, View,
    ViewSize,
};
use proptest::prelude::*;

/// Returns a smooth gradient with a texture, so that every pixel differs from its neighbours.
fn pixels(width: u32, height: u32, channels: u32) -> Vec<u8> {
    let value = |x: u32, y: u32, c: u32| {
        let wave = (f64::from(x) * 0.21 + f64::from(c)).sin() + (f64::from(y) * 0.13 - f64::from(c)).cos();
        (128.0 + 50.0 * wave + f64::from((x * 7 + y * 13 + c * 5) % 23)) as u8
    };
    (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..channels).map(move |c| value(x, y, c)))).collect()
}

fn encoded(width: u32, height: u32, format: PixelFormat, subsampling: Subsampling, restart_interval: u16) -> Vec<u8> {
    encoded_by(None, width, height, format, subsampling, restart_interval)
}

fn encoded_by(
    process: Option<Process>,
    width: u32,
    height: u32,
    format: PixelFormat,
    subsampling: Subsampling,
    restart_interval: u16,
) -> Vec<u8> {
    let mut out = Vec::new();
    let how = Encoding { quality: 92, subsampling, restart_interval };
    let source = pixels(width, height, format.bytes() as u32);
    let mut compressor = Compressor::new();
    if let Some(process) = process {
        compressor.write(process);
    }
    compressor.encode(&source, width, height, format, how, &mut out).unwrap();
    out
}

fn photo(width: u32, height: u32) -> Vec<u8> {
    encoded(width, height, PixelFormat::Rgb, Subsampling::S420, 2)
}

fn decoder() -> JpegDecoder {
    JpegDecoder::new(&Limits::default())
}

fn shown(decoder: &mut JpegDecoder, jpeg: &[u8], how: &Rendering) -> (Vec<u8>, Decoded) {
    let (height, width) = match how.view.size() {
        Some(size) => size,
        None => decoder.size_of(jpeg, how.orientation).unwrap(),
    };
    let mut slot = vec![0xA5; height as usize * width as usize * 3];
    let decoded = decoder.decode_into(jpeg, how, &mut slot).unwrap();
    assert_eq!((decoded.height, decoded.width), (height, width));
    (slot, decoded)
}

/// A picture as a table of pixels. Every operation moves one pixel at a time.
#[derive(Clone)]
struct Table {
    width: usize,
    height: usize,
    at: Vec<[u8; 3]>,
}

impl Table {
    fn by(width: usize, height: usize, mut at: impl FnMut(usize, usize) -> [u8; 3]) -> Self {
        let at = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| at(x, y)).collect();
        Self { width, height, at }
    }

    fn whole(jpeg: &[u8]) -> Self {
        let jpegs = Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse);
        let picture = jpegs.open(jpeg).unwrap();
        let frame = picture.frame();
        let (width, height) = (frame.width as usize, frame.height as usize);
        let mut bytes = vec![0; width * height * 3];
        picture.decode(Scale::Full, PixelFormat::Rgb, &mut bytes, width * 3).unwrap();
        Self { width, height, at: bytes.as_chunks().0.to_vec() }
    }

    fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        self.at[y * self.width + x]
    }

    /// Turns the picture upright, following the table of the Exif specification, which says where stored row
    /// 0 and column 0 appear.
    fn upright(&self, orientation: u8) -> Self {
        let (w, h) = (self.width, self.height);
        match orientation {
            1 => self.clone(),
            2 => Self::by(w, h, |x, y| self.pixel(w - 1 - x, y)),
            3 => Self::by(w, h, |x, y| self.pixel(w - 1 - x, h - 1 - y)),
            4 => Self::by(w, h, |x, y| self.pixel(x, h - 1 - y)),
            5 => Self::by(h, w, |x, y| self.pixel(y, x)),
            6 => Self::by(h, w, |x, y| self.pixel(y, h - 1 - x)),
            7 => Self::by(h, w, |x, y| self.pixel(w - 1 - y, h - 1 - x)),
            8 => Self::by(h, w, |x, y| self.pixel(w - 1 - y, x)),
            _ => unreachable!(),
        }
    }

    fn cropped(&self, rect: Rect) -> Self {
        Self::by(rect.width as usize, rect.height as usize, |x, y| self.pixel(x + rect.x as usize, y + rect.y as usize))
    }

    fn part(&self, window: Rect, area: Area, width: u32, height: u32, how: Resizing) -> Self {
        let seen = self.cropped(window);
        let area = Area { x: area.x - f64::from(window.x), y: area.y - f64::from(window.y), ..area };
        let mut out = vec![0; (width * height * 3) as usize];
        let from = RgbPixels { bytes: seen.at.as_flattened(), width: window.width, height: window.height };
        let all = Rect::whole(window.width, window.height);
        crate::resize::Resizer::new()
            .resize(&Cutout { pixels: from, window: all, area }, width, height, how, &mut out)
            .unwrap();
        Self { width: width as usize, height: height as usize, at: out.as_chunks().0.to_vec() }
    }

    fn flipped(&self) -> Self {
        Self::by(self.width, self.height, |x, y| self.pixel(self.width - 1 - x, y))
    }

    fn padded(&self, crop: &Crop) -> Self {
        Self::by(crop.width as usize, crop.height as usize, |x, y| {
            let at = x.checked_sub(crop.inner.x as usize).zip(y.checked_sub(crop.inner.y as usize));
            match at {
                Some((x, y)) if x < self.width && y < self.height => self.pixel(x, y),
                _ => crop.fill,
            }
        })
    }

    fn bytes(&self, layout: PixelLayout) -> Vec<u8> {
        match layout {
            PixelLayout::HeightWidthChannels => self.at.as_flattened().to_vec(),
            PixelLayout::ChannelsHeightWidth => (0..3).flat_map(|c| self.at.iter().map(move |p| p[c])).collect(),
        }
    }
}

/// Decodes the whole picture, turns it upright, crops, resizes and reflects it. If `turned_last` is true, the crop is
/// resized before it is turned, as in the decoder. If turning swaps rows and columns, this reverses the order of the
/// filter passes.
fn twin(jpeg: &[u8], how: &Rendering, turned_last: bool) -> Vec<u8> {
    let stored = Table::whole(jpeg);
    let upright = stored.upright(how.orientation);
    let crop = how.view.resolve(upright.width as u32, upright.height as u32, &how.key).unwrap();
    let size = (crop.inner.width, crop.inner.height);
    let resized = if turned_last {
        // Turn the coordinates of the crop within the whole picture, as the decoder does. Coordinates relative to the
        // crop would be rounded differently, which sometimes changes the last bit of a weight.
        let (turn, columns, rows) =
            (Orientation::of(how.orientation).unwrap(), stored.width as u32, stored.height as u32);
        let (area, window) = (turn.stored_area(crop.area, columns, rows), turn.stored_rect(crop.window, columns, rows));
        let resizing = turn.resizing(how.view.interpolation);
        let (columns, rows) = turn.size(size.0, size.1);
        stored.part(window, area, columns, rows, resizing).upright(how.orientation)
    } else {
        let upright_how = Resizing { interpolation: how.view.interpolation, mirrored: [false; 2], transposed: false };
        upright.part(crop.window, crop.area, size.0, size.1, upright_how)
    };
    let shown = if crop.flip { resized.flipped() } else { resized };
    shown.padded(&crop).bytes(how.layout)
}

fn any_framing(width: u32, height: u32) -> impl Strategy<Value = Framing> {
    let side = 1..90_u32;
    let size = (side.clone(), side.clone()).prop_map(ViewSize::from);
    prop_oneof![
        Just(Framing::Whole),
        (0..width, 0..height, any::<(u16, u16)>()).prop_map(move |(x, y, (w, h))| {
            let extent = |at: u32, of: u32, n: u16| 1 + u32::from(n) % (of - at);
            Framing::Rectangle(Rect { x, y, width: extent(x, width, w), height: extent(y, height, h) })
        }),
        size.clone().prop_map(Framing::Resize),
        (size.clone(), 0..40_u32)
            .prop_map(|(size, more)| { Framing::CenterCrop { short_side: size.height.max(size.width) + more, size } }),
        (size.clone(), 0.05..1.0_f64)
            .prop_map(|(size, low)| { Framing::RandomResizedCrop { size, scale: (low, 1.0), ratio: (0.5, 2.0) } }),
        (size.clone(), any::<[u8; 3]>()).prop_map(|(size, fill)| Framing::Pad { size, fill }),
        (size.clone(), 0.1..3.0_f64, any::<[u8; 3]>()).prop_map(|(size, high, fill)| {
            Framing::Rescaled { size, rescaled: Rescaled::Fit { scale: (0.1, high) }, fill }
        }),
        (size, side, any::<[u8; 3]>()).prop_map(|(size, low, fill)| {
            Framing::Rescaled { size, rescaled: Rescaled::ShortSide { range: (low, low + 20) }, fill }
        }),
    ]
}

fn any_large_case() -> impl Strategy<Value = (Vec<u8>, Rendering)> {
    any_case_of(100..500)
}

fn any_case() -> impl Strategy<Value = (Vec<u8>, Rendering)> {
    any_case_of(1..130)
}

prop_compose! {
    fn any_case_of(side: std::ops::Range<u32>)(
        size in (side.clone(), side),
        orientation in 1..=8_u8,
    )(
        framing in if orientation > 4 { any_framing(size.1, size.0).boxed() } else { any_framing(size.0, size.1).boxed() },
        subsampling in prop::sample::select(vec![Subsampling::S444, Subsampling::S422, Subsampling::S420, Subsampling::S440, Subsampling::S411]),
        restart_interval in 0..5_u16,
        process in prop::sample::select(vec![None, None, Some(Process::Progressive), Some(Process::Arithmetic)]),
        flip in prop::sample::select(vec![0.0, 0.5]),
        layout in prop::sample::select(vec![PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth]),
        sample in any::<u64>(),
        interpolation in prop::sample::select(vec![Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bilinear, Interpolation::Bicubic]),
        orientation in Just(orientation),
        size in Just(size),
    ) -> (Vec<u8>, Rendering) {
        let key = DrawKey { seed: 3, epoch: 1, sample };
        let jpeg = encoded_by(process, size.0, size.1, PixelFormat::Rgb, subsampling, restart_interval);
        (jpeg, Rendering { view: View { framing, flip, interpolation }, key, orientation, layout })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn the_same_pixels_whether_parts_are_decoded_or_the_whole((jpeg, how) in any_large_case()) {
        let (parts, _) = shown(&mut decoder(), &jpeg, &how);
        let mut whole = JpegDecoder::with_paths(&Limits::default(), DecodePaths { partial: false, ..Default::default() });
        prop_assert!(parts == shown(&mut whole, &jpeg, &how).0, "{how:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_same_pixels_as_the_slow_twin((jpeg, how) in any_case()) {
        let (fast, _) = shown(&mut decoder(), &jpeg, &how);
        prop_assert!(fast == twin(&jpeg, &how, true), "{how:?}");
    }

    #[test]
    fn turning_first_differs_by_rounding_alone((jpeg, how) in any_case()) {
        let (fast, _) = shown(&mut decoder(), &jpeg, &how);
        let slow = twin(&jpeg, &how, false);
        if how.orientation == 1 || how.view.interpolation == Interpolation::Nearest {
            prop_assert!(fast == slow);
        }
        let far = fast.iter().zip(&slow).map(|(a, b)| a.abs_diff(*b)).max();
        prop_assert!(far <= Some(2), "{far:?} {how:?}");
    }

    #[test]
    fn hostile_bytes_are_errors_at_worst(
        (mut jpeg, how) in any_case(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        kept in any::<prop::sample::Index>(),
        cut_off in any::<bool>(),
        lenient in any::<bool>(),
    ) {
        for (at, value) in changes {
            let at = at.index(jpeg.len());
            jpeg[at] = value;
        }
        if cut_off {
            jpeg.truncate(kept.index(jpeg.len()));
        }
        let framing = Framing::RandomResizedCrop { size: (9, 7).into(), scale: (0.1, 1.0), ratio: (0.5, 2.0) };
        let how = Rendering { view: View { framing, ..how.view }, ..how };
        let mut slot = [0; 9 * 7 * 3];
        let limits = Limits { max_decoded_bytes: 1 << 24, ..Default::default() };
        let mut decoder = JpegDecoder::with_paths(&limits, DecodePaths { lenient, ..Default::default() });
        let _ = decoder.decode_into(&jpeg, &how, &mut slot);
        // The decoder must stay usable after any picture.
        prop_assert!(decoder.decode_into(&photo(40, 40), &how, &mut slot).is_ok());
    }
}

/// libjpeg-turbo does not interpolate a region that has a single chroma column, so the decoder must
/// avoid these regions.
#[test]
fn regions_have_the_pixels_of_the_whole_picture() {
    use Subsampling::{S411, S420, S422, S440, S444};
    let decompressor = Decompressor::new(Bounds::of(&Limits::default()), Warnings::Refuse);
    for subsampling in [S444, S422, S420, S440, S411] {
        for (width, process) in (1..70).flat_map(|width| [(width, None), (width, Some(Process::Progressive))]) {
            let jpeg = encoded_by(process, width, 21, PixelFormat::Rgb, subsampling, 0);
            let all = Rect::whole(width, 21);
            let decoded = |region: Rect| {
                let mut out = vec![0; region.width as usize * region.height as usize * 3];
                let picture = decompressor.open(&jpeg).unwrap();
                picture.decode_region(region, PixelFormat::Rgb, &mut out, region.width as usize * 3).unwrap();
                out
            };
            let whole = decoded(all);
            for columns in 1..=all.width.min(6) {
                let window = Rect { x: all.width - columns, width: columns, y: 1, height: all.height - 1 };
                let region = region(&JpegHeader::parse(&jpeg).unwrap(), window, all).unwrap();
                let cut = |bytes: &[u8], from: Rect| {
                    let pixels = RgbPixels { bytes, width: from.width, height: from.height };
                    let at = Rect { x: window.x - from.x, y: window.y - from.y, ..window };
                    pixels.rows(at).unwrap().flatten().copied().collect::<Vec<_>>()
                };
                let what = format!("{subsampling:?} {process:?}, {window} of {all} by {region}");
                assert!(cut(&decoded(region), region) == cut(&whole, all), "{what}");
            }
        }
    }
}

#[test]
fn planes_are_the_pixels_transposed() {
    let jpeg = photo(70, 50);
    for orientation in 1..=8 {
        for view in [View::whole(), View::resize((31, 17)), View::resize((31, 17)).with_flip(1.0)] {
            let how = Rendering { view, orientation, ..Default::default() };
            let (pixels, _) = shown(&mut decoder(), &jpeg, &how);
            let planes = Rendering { layout: PixelLayout::ChannelsHeightWidth, ..how };
            let (planes, _) = shown(&mut decoder(), &jpeg, &planes);
            let transposed: Vec<u8> = (0..3).flat_map(|c| pixels.iter().skip(c).step_by(3).copied()).collect();
            assert!(planes == transposed, "orientation {orientation}, {view:?}");
        }
    }
}

#[test]
fn gray_and_cmyk_become_rgb() {
    let gray = encoded(33, 21, PixelFormat::Gray, Subsampling::Gray, 0);
    let (rgb, _) = shown(&mut decoder(), &gray, &Rendering::default());
    let source = pixels(33, 21, 1);
    assert!(
        rgb.as_chunks::<3>().0.iter().zip(&source).all(|(p, &v)| p[0] == p[1] && p[1] == p[2] && p[0].abs_diff(v) < 30)
    );

    // The picture has the same four inks everywhere, which the encoder hardly changes.
    let inks = [200, 100, 50, 220].repeat(32 * 32);
    let how = Encoding { quality: 100, subsampling: Subsampling::S444, restart_interval: 2 };
    let mut cmyk = Vec::new();
    Compressor::new().encode(&inks, 32, 32, PixelFormat::Cmyk, how, &mut cmyk).unwrap();
    let mut expected = [0; 3];
    cmyk_to_rgb(&[200, 100, 50, 220], &mut expected);
    for view in [View::whole(), View::resize(5), View::rectangle(Rect { x: 3, y: 17, width: 9, height: 4 })] {
        let (rgb, _) = shown(&mut decoder(), &cmyk, &Rendering { view, ..Default::default() });
        for pixel in rgb.as_chunks::<3>().0 {
            assert!(pixel.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 3), "{pixel:?}, expected {expected:?}");
        }
    }
}

#[test]
fn damage_is_an_error_unless_lenient() {
    let mut jpeg = encoded(64, 64, PixelFormat::Rgb, Subsampling::S444, 0);
    jpeg.truncate(jpeg.len() / 2);
    let mut slot = vec![0; 64 * 64 * 3];
    let error = decoder().decode_into(&jpeg, &Rendering::default(), &mut slot).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
    let mut lenient = JpegDecoder::with_paths(&Limits::default(), DecodePaths { lenient: true, ..Default::default() });
    lenient.decode_into(&jpeg, &Rendering::default(), &mut slot).unwrap();
    assert!(slot.iter().take(64 * 3).any(|&v| v != slot[0]), "the upper rows are decoded");
}

#[test]
fn views_and_slots_of_wrong_size_are_refused() {
    let jpeg = photo(20, 10);
    for bytes in [0, 599, 601] {
        let error = decoder().decode_into(&jpeg, &Rendering::default(), &mut vec![0; bytes]).unwrap_err();
        assert!(error.to_string().contains("10 × 20 × 3 = 600 bytes"), "{error}");
    }
    for orientation in [0, 9] {
        let how = Rendering { orientation, ..Default::default() };
        assert!(matches!(decoder().decode_into(&jpeg, &how, &mut [0; 600]), Err(Error::Usage { .. })));
    }
    let limits = Limits { max_decoded_bytes: 799, ..Default::default() };
    let mut small = JpegDecoder::new(&limits);
    assert!(matches!(small.decode_into(&jpeg, &Rendering::default(), &mut [0; 600]), Err(Error::Limit { .. })));
}

#[test]
fn a_picture_on_its_side_has_its_sides_exchanged() {
    assert_eq!(decoder().size_of(&photo(20, 10), 1), Ok((10, 20)));
    assert_eq!(decoder().size_of(&photo(20, 10), 6), Ok((20, 10)));
}

#[test]
fn an_outlier_leaves_no_large_buffers() {
    let jpeg = encoded(4800, 4800, PixelFormat::Gray, Subsampling::Gray, 0);
    let mut decoder = decoder();
    let mut slot = [0; 30 * 40 * 3];
    for fits in [true, false] {
        let view = if fits { View::resize((30, 40)) } else { View::resize((30, 41)) };
        let decoded = decoder.decode_into(&jpeg, &Rendering { view, ..Default::default() }, &mut slot);
        assert_eq!(decoded.is_ok(), fits);
        assert_eq!(decoder.pixels.capacity(), 0, "69 MB are not kept");
    }
    decoder
        .decode_into(&photo(400, 300), &Rendering { view: View::resize((30, 40)), ..Default::default() }, &mut slot)
        .unwrap();
    assert!(decoder.pixels.capacity() >= 400 * 300 * 3, "what is usual is");
}

/// Tests picture sizes that cause rounding in the coordinates of a turned crop.
#[test]
fn a_turned_crop_has_the_pixels_of_the_slow_twin() {
    let view = View::center_crop(112, (84, 8)).with_interpolation(Interpolation::Bicubic);
    for (width, height) in [(129, 43), (127, 55), (127, 103), (128, 37), (43, 129), (55, 127)] {
        let jpeg = encoded(width, height, PixelFormat::Rgb, Subsampling::S444, 0);
        for orientation in 1..=8 {
            let how = Rendering { view, orientation, ..Default::default() };
            let (fast, _) = shown(&mut decoder(), &jpeg, &how);
            assert!(fast == twin(&jpeg, &how, true), "{width} × {height}, orientation {orientation}");
        }
    }
}

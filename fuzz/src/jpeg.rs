//! Reads the header of a JPEG, cuts it and decodes it. Also checks that earlier input does not affect a decoder.

use crate::shard::limits;
use shardpack_format::Result;
use shardpack_jpeg::{
    CutPlan, DecodePaths, JpegDecoder, JpegHeader, JpegTiler, PictureCheck, PictureDecoder, Rect, Rendering,
    SegmentIndexer, StoredPicture, TileOptions, Tiled, View, end_of_image,
};

/// Number of bytes after the JPEG that describe the cut: the four numbers of a rectangle, and an unused byte.
const REQUEST_BYTES: usize = 9;

pub const TILES: &[u8] = include_bytes!("../../crates/jpeg/testdata/tiles.jpg");

/// Returns a tiled JPEG of six tiles, followed by the rectangle to cut.
pub fn tiled() -> Vec<u8> {
    let request = [17, 0, 17, 0, 30, 0, 14, 0, 0];
    [TILES, &request].concat()
}

fn decodes(bytes: &[u8]) -> bool {
    let mut check = PictureCheck::new();
    check.check("image/jpeg", bytes, &limits()).is_ok()
}

/// Reads the header, makes the cut, and decodes both source and cut. Returns true if the cut was made.
///
/// # Panics
/// If the cut is larger than its source, differs from the planned size, lacks part of the requested
/// rectangle, or is damaged although the source is not.
pub fn cut(data: &[u8]) -> bool {
    let Some((jpeg, request)) = data.split_last_chunk::<REQUEST_BYTES>() else { return false };
    let Ok(header) = JpegHeader::parse(jpeg) else { return false };
    if let Some(end) = end_of_image(jpeg, header.scan_offset) {
        assert!(end <= jpeg.len() as u64, "the end lies within the file");
    }
    let [x0, x1, y0, y1, w0, w1, h0, h1, _] = *request;
    let number = |low, high| u32::from(u16::from_le_bytes([low, high]));
    let (width, height) = (u32::from(header.width), u32::from(header.height));
    let (x, y) = (number(x0, x1) % width, number(y0, y1) % height);
    let rect = Rect { x, y, width: 1 + number(w0, w1) % (width - x), height: 1 + number(h0, h1) % (height - y) };
    let plan = CutPlan::new(jpeg, &header, rect).expect("a rectangle within the picture");
    let shown = plan.cut().shown;
    assert!(shown.contains(&rect) && Rect::whole(width, height).contains(&shown), "{rect} in {shown}");
    let mut out = Vec::new();
    if plan.write(&mut out).is_err() {
        return false;
    }
    assert!(out.len() <= jpeg.len(), "{} bytes of {}", out.len(), jpeg.len());
    let again = JpegHeader::parse(&out).expect("a header");
    assert_eq!((u32::from(again.width), u32::from(again.height)), (shown.width, shown.height));
    let whole = decodes(jpeg);
    assert!(decodes(&out) || !whole, "the cut is damaged, its source is not");
    true
}

/// All JPEG readers that are reused for several pictures.
pub struct Decoders {
    strict: JpegDecoder,
    lenient: JpegDecoder,
    pictures: PictureDecoder,
    tiler: JpegTiler,
}

#[derive(Debug, PartialEq)]
struct Made {
    /// Sizes returned by the strict and the lenient decoder.
    sizes: [Result<(u32, u32)>; 2],
    /// Pixels of the picture at full size, of the shrunk picture, and of its centre, each from the strict and the
    /// lenient decoder. The last entry holds the pixels from the strict decoder for all picture formats.
    pixels: [Result<Vec<u8>>; 7],
    tiled: Result<(Tiled, Vec<u8>)>,
}

impl Default for Decoders {
    fn default() -> Self {
        Self::with(true)
    }
}

impl Decoders {
    /// Uses the library's own decoder for baseline pictures, or libjpeg-turbo alone.
    fn with(own_decoder: bool) -> Self {
        let decoder =
            |lenient| JpegDecoder::with_paths(&limits(), DecodePaths { lenient, own_decoder, ..Default::default() });
        Self {
            strict: decoder(false),
            lenient: decoder(true),
            pictures: PictureDecoder::new(limits()),
            tiler: JpegTiler::new(),
        }
    }

    /// Reads `jpeg` with these decoders, with new decoders, and with libjpeg-turbo alone. Returns true if it decodes
    /// without a warning.
    ///
    /// # Panics
    /// If the results differ in a size, a pixel, a tile, or an error.
    pub fn read(&mut self, jpeg: &[u8]) -> bool {
        let made = self.make(jpeg, 0x11);
        assert_eq!(Self::default().make(jpeg, 0xEE), made, "a reused decoder differs from a new one");
        let mut turbo = Self::with(false).make(jpeg, 0x77);
        // libjpeg-turbo reads beyond the end of a rectangle, and our decoder does not. Damage there is an error only in
        // strict libjpeg-turbo, whose lenient result must equal ours.
        if turbo.pixels[4].is_err() && made.pixels[4].is_ok() && turbo.pixels[5] == made.pixels[4] {
            turbo.pixels[4] = made.pixels[4].clone();
        }
        assert_eq!(turbo, made, "our decoder differs from libjpeg-turbo");
        self.read_indexed(jpeg);
        made.pixels[0].is_ok()
    }

    /// Decodes the middle of a picture with its segment index, with a damaged index, and with the picture's bytes as
    /// the index.
    fn read_indexed(&mut self, jpeg: &[u8]) {
        let mut index = Vec::new();
        let Ok(Some(_)) = SegmentIndexer::new().index(jpeg, &limits(), &mut index) else { return };
        let Ok((height, width)) = self.strict.size_of(jpeg, 1) else { return };
        let rect = Rect { x: width / 3, y: height / 4, width: width.div_ceil(3), height: height.div_ceil(4) };
        let rendering = Rendering { view: View::rectangle(rect), ..Default::default() };
        let mut decoded = |segments: Option<&[u8]>| {
            let mut slot = vec![0x33; rect.height as usize * rect.width as usize * 3];
            self.strict.decode_indexed(jpeg, segments, &rendering, &mut slot).map(|_| slot)
        };
        let without = decoded(None);
        assert_eq!(decoded(Some(&index)), without, "a segment index changes pixels");
        let at = jpeg.len() % index.len();
        index[at] ^= 1 << (jpeg.len() % 8);
        assert_eq!(decoded(Some(&index)), without, "a damaged segment index changes pixels");
        assert_eq!(decoded(Some(jpeg)), without, "bytes that are no segment index change pixels");
    }

    /// Decodes a picture in all ways. Fills the output with `fill` first, which reveals bytes that are not written.
    fn make(&mut self, jpeg: &[u8], fill: u8) -> Made {
        let sizes = [self.strict.size_of(jpeg, 1), self.lenient.size_of(jpeg, 1)];
        let small = Rendering { view: View::resize((11, 9)), ..Default::default() };
        let slot = || vec![fill; 11 * 9 * 3];
        let whole = |decoder: &mut JpegDecoder, size: &Result<(u32, u32)>| {
            let (height, width) = size.clone()?;
            let mut slot = vec![fill; height as usize * width as usize * 3];
            decoder.decode_into(jpeg, &Rendering::default(), &mut slot).map(|_| slot)
        };
        let shrunk = |decoder: &mut JpegDecoder| {
            let mut slot = slot();
            decoder.decode_into(jpeg, &small, &mut slot).map(|_| slot)
        };
        let middle = |decoder: &mut JpegDecoder, size: &Result<(u32, u32)>| {
            let (height, width) = size.clone()?;
            let rect = Rect { x: width / 3, y: height / 4, width: width.div_ceil(3), height: height.div_ceil(4) };
            let mut slot = vec![fill; rect.height as usize * rect.width as usize * 3];
            let rendering = Rendering { view: View::rectangle(rect), ..Default::default() };
            decoder.decode_into(jpeg, &rendering, &mut slot).map(|_| slot)
        };
        let mut picture = slot();
        let picture =
            self.pictures.decode_into(&StoredPicture::new("image/jpeg", jpeg), &small, &mut picture).map(|_| picture);
        let pixels = [
            whole(&mut self.strict, &sizes[0]),
            whole(&mut self.lenient, &sizes[1]),
            shrunk(&mut self.strict),
            shrunk(&mut self.lenient),
            middle(&mut self.strict, &sizes[0]),
            middle(&mut self.lenient, &sizes[1]),
            picture,
        ];
        let mut tiles = Vec::new();
        let options = TileOptions { limits: limits(), max_growth: 10.0, ..Default::default() };
        let tiled = self.tiler.tile(jpeg, &options, &mut tiles).map(|tiled| (tiled, tiles));
        Made { sizes, pixels, tiled }
    }
}

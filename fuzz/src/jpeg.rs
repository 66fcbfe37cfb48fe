//! A JPEG on its way to the decoder: header walk, cut, decode.

use crate::shard::limits;
use shardpack_codec::PictureCheck;
use shardpack_codec::jpeg::{CutPlan, JpegHeader, Rect, Scale, end_of_image};

/// Bytes behind the JPEG that say what is cut out of it: four numbers of a rectangle, and a scale.
const REQUEST_BYTES: usize = 9;

/// A tiled JPEG of six tiles, and what to cut out of it.
pub fn tiled() -> Vec<u8> {
    let request = [17, 0, 17, 0, 30, 0, 14, 0, 0];
    [include_bytes!("../../crates/codec/testdata/tiles.jpg").as_slice(), &request].concat()
}

/// Whether `bytes`, a JPEG in memory and not a request behind it, decodes without a warning.
fn decodes(bytes: &[u8]) -> bool {
    let mut check = PictureCheck::new().expect("a decoder");
    check.check("image/jpeg", bytes, &limits()).is_ok()
}

/// Reads the header, cuts, and decodes both. Returns whether the cut was made.
///
/// # Panics
/// If a promise is broken: a cut larger than its source, of another size than planned, not showing what was asked for, or damaged although the
/// source is whole.
pub fn cut(data: &[u8]) -> bool {
    let Some((jpeg, request)) = data.split_last_chunk::<REQUEST_BYTES>() else { return false };
    let Ok(header) = JpegHeader::parse(jpeg) else { return false };
    if let Some(end) = end_of_image(jpeg, header.scan_offset) {
        assert!(end <= jpeg.len() as u64, "the end lies within the file");
    }
    let [x0, x1, y0, y1, w0, w1, h0, h1, scale] = *request;
    let number = |low, high| u32::from(u16::from_le_bytes([low, high]));
    let (width, height) = (u32::from(header.width), u32::from(header.height));
    let (x, y) = (number(x0, x1) % width, number(y0, y1) % height);
    let rect = Rect { x, y, width: 1 + number(w0, w1) % (width - x), height: 1 + number(h0, h1) % (height - y) };
    let scale = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth][usize::from(scale & 3)];
    let plan = CutPlan::new(jpeg, &header, rect, scale).expect("a rectangle within the picture");
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
    assert!(decodes(&out) || !whole, "damaged, and the source is not");
    true
}

//! Tests that the worked example in `docs/tiled-jpeg.md` is correct.

use super::*;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Returns a picture of 48 × 32 pixels in 4:2:0, with a restart marker after each 16 × 16 MCU. It has two
/// rows of three tiles, and each tile has one colour.
fn picture() -> Vec<u8> {
    const COLORS: [[[u8; 3]; 3]; 2] =
        [[[200, 60, 40], [240, 200, 80], [90, 150, 60]], [[40, 90, 160], [120, 70, 150], [30, 30, 40]]];
    let color = |x: usize, y: usize| COLORS[y / 16][x / 16];
    let pixels: Vec<u8> = (0..32).flat_map(|y| (0..48).flat_map(move |x| color(x, y))).collect();
    let how = Encoding { quality: 75, subsampling: Subsampling::S420, restart_interval: 1 };
    let mut out = Vec::new();
    Compressor::new().encode(&pixels, 48, 32, PixelFormat::Rgb, how, &mut out).unwrap();
    out
}

/// The rectangle to cut out. It covers parts of two tiles and is one pixel away from the neighbours of these tiles.
const RECT: Rect = Rect { x: 17, y: 17, width: 31, height: 15 };

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Formats the bytes as on the page: sixteen per line, with offsets.
fn dump(bytes: &[u8]) -> String {
    let mut out = "```text\n".to_owned();
    for (i, line) in bytes.chunks(16).enumerate() {
        writeln!(out, "{:04x}  {}", 16 * i, hex(line)).unwrap();
    }
    out + "```\n"
}

/// Formats the table of segments as on the page.
fn table(jpeg: &[u8]) -> String {
    let start = JpegHeader::parse(jpeg).unwrap().scan_offset as usize;
    let mut segments = Segments::new(&jpeg[start..]);
    let mut out = String::new();
    for tile in 0..6 {
        let at = start + segments.offset();
        let (segment, _) = segments.next().unwrap();
        let end = at + segment.len();
        let (column, row) = (tile % 3, tile / 3);
        let (segment, marker) = (hex(segment), hex(&jpeg[end..end + 2]));
        writeln!(out, "| {tile} | {column}, {row} | {at:04x} | {segment} | {marker} |").unwrap();
    }
    out
}

#[test]
#[ignore = "writes the file that the examples read: after a change of the encoder"]
fn write_the_worked_example() {
    std::fs::write(file("testdata/tiles.jpg"), picture()).unwrap();
}

#[test]
fn the_worked_example_equals_the_page() {
    let page = std::fs::read_to_string(file("../../docs/tiled-jpeg.md")).unwrap();
    let shows = |what: &str| assert!(page.contains(what), "docs/tiled-jpeg.md should have:\n{what}");
    let jpeg = picture();
    let stored = std::fs::read(file("testdata/tiles.jpg")).unwrap();
    assert!(stored == jpeg, "hint: run the ignored test `write_the_worked_example`, and look at what changed");
    let mut out = Vec::new();
    let cut = cut(&jpeg, RECT, &mut out).unwrap();
    assert_eq!(cut, Cut { shown: Rect { x: 16, y: 16, width: 32, height: 16 }, kind: CutKind::Tiles });
    shows(&dump(&jpeg));
    shows(&table(&jpeg));
    shows(&dump(&out));
    shows(&format!("{} bytes, `crates/jpeg/testdata/tiles.jpg`", jpeg.len()));
    shows(&format!("The cut has {} bytes", out.len()));

    // Applying the page's list of changes to the source must result in the cut.
    let mut changed = jpeg.clone();
    changed[0xA3..0xA7].copy_from_slice(&[0x00, 0x10, 0x00, 0x20]);
    drop(changed.drain(0x125..0x125 + 27));
    changed[0x129..0x12B].copy_from_slice(&[0xFF, 0xD0]);
    assert!(changed == out, "{}", dump(&changed));
}

//! The worked example of `docs/tiled-jpeg.md`: what stands there is what happens.

use super::*;
use std::fmt::Write as _;

/// 48 × 32 pixels, 4:2:0, so that an MCU is 16 × 16, and a restart marker behind each: three tiles in each of two rows, each of one colour.
fn picture() -> Vec<u8> {
    const COLORS: [[[u8; 3]; 3]; 2] =
        [[[200, 60, 40], [240, 200, 80], [90, 150, 60]], [[40, 90, 160], [120, 70, 150], [30, 30, 40]]];
    let color = |x: usize, y: usize| COLORS[y / 16][x / 16];
    let pixels: Vec<u8> = (0..32).flat_map(|y| (0..48).flat_map(move |x| color(x, y))).collect();
    let how = Encoding { quality: 75, subsampling: Subsampling::S420, restart_interval: 1 };
    let mut out = Vec::new();
    Compressor::new().unwrap().encode(&pixels, (48, 32), PixelFormat::Rgb, how, &mut out).unwrap();
    out
}

/// The rectangle that is cut out: within the lower right tile and the one left of it, a pixel away from their neighbours.
const RECT: Rect = Rect { x: 17, y: 17, width: 31, height: 15 };

fn testdata() -> String {
    format!("{}/testdata/tiles.jpg", env!("CARGO_MANIFEST_DIR"))
}

/// Sixteen bytes a line, with offsets.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        let hex: Vec<_> = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(out, "{:04x}  {}", 16 * i, hex.join(" ")).unwrap();
    }
    out
}

#[test]
#[ignore = "writes the file that the examples read: after a change of the encoder"]
fn write_the_worked_example() {
    std::fs::write(testdata(), picture()).unwrap();
}

#[test]
#[allow(clippy::print_stdout)]
fn the_worked_example_is_what_the_page_shows() {
    let jpeg = picture();
    assert!(std::fs::read(testdata()).unwrap() == jpeg, "run the ignored test `write_the_worked_example`");
    let mut out = Vec::new();
    let cut = cut(&jpeg, RECT, &mut out).unwrap();
    assert_eq!(cut, Cut { shown: Rect { x: 16, y: 16, width: 32, height: 16 }, kind: CutKind::Tiles });
    println!("{}\n{}", dump(&jpeg), dump(&out));
}

use super::*;
use proptest::prelude::*;

/// Returns a BMP with a Windows header and a gray palette whose first level is 7.
fn made(size: [i32; 2], bits: u16, compression: u32, extra: &[u8], pixels: &[u8]) -> Vec<u8> {
    let palette: Vec<u8> = match bits {
        1..=8 => (0..1_u32 << bits)
            .flat_map(|index| [(index * 3 + 7) as u8, (index * 5 + 7) as u8, (index + 7) as u8, 0])
            .collect(),
        _ => Vec::new(),
    };
    let start = 54 + extra.len() + palette.len();
    let mut out = b"BM\0\0\0\0".to_vec();
    // In some files, the reserved bytes are not zero.
    out.extend([1, 2, 3, 4]);
    out.extend((start as u32).to_le_bytes());
    out.extend(40_u32.to_le_bytes());
    out.extend(size.iter().flat_map(|side| side.to_le_bytes()));
    out.extend(1_u16.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out.extend(compression.to_le_bytes());
    out.resize(54, 0);
    out.extend(extra);
    out.extend(palette);
    out.extend(pixels);
    out
}

fn decoded(file: &[u8]) -> Result<Vec<u8>> {
    let bmp = Bmp::open(file, &Limits::default())?;
    let mut rgb = vec![0xA5; bmp.width as usize * bmp.height as usize * 3];
    bmp.decode(&mut rgb).map(|()| rgb)
}

fn shown(indices: &[u8]) -> Vec<u8> {
    indices
        .iter()
        .flat_map(|&index| [index + 7, index.wrapping_mul(5).wrapping_add(7), index.wrapping_mul(3).wrapping_add(7)])
        .collect()
}

#[test]
fn pixels_of_any_depth_are_read() {
    for (bits, rows) in [
        (1, [0b1010_0000, 0, 0, 0, 0b0110_0000, 0, 0, 0]),
        (2, [0b0100_0100, 0, 0, 0, 0b0001_0100, 0, 0, 0]),
        (4, [0x10, 0x10, 0, 0, 0x01, 0x10, 0, 0]),
        (8, [1, 0, 1, 0, 0, 1, 1, 0]),
    ] {
        // The bottom row comes first, or the top row if the height is negative.
        assert_eq!(decoded(&made([3, 2], bits, 0, &[], &rows)).unwrap(), shown(&[0, 1, 1, 1, 0, 1]), "{bits} bits");
        assert_eq!(decoded(&made([3, -2], bits, 0, &[], &rows)).unwrap(), shown(&[1, 0, 1, 0, 1, 1]), "{bits} bits");
    }
    assert_eq!(decoded(&made([1, 1], 24, 0, &[], &[1, 2, 3, 0])).unwrap(), [3, 2, 1]);
    assert_eq!(decoded(&made([1, 1], 32, 0, &[], &[1, 2, 3, 9])).unwrap(), [3, 2, 1]);
    // Test the default masks of 5 bits each, explicit masks of 5, 6 and 5 bits, and masks of 10 bits each in 32-bit
    // pixels.
    assert_eq!(decoded(&made([1, 1], 16, 0, &[], &[0x1F, 0x42, 0, 0])).unwrap(), [131, 131, 255]);
    let masks = |masks: [u32; 3]| masks.map(u32::to_le_bytes).concat();
    let file = made([1, 1], 16, 3, &masks([0xF800, 0x07E0, 0x001F]), &[0xFF, 0x07, 0, 0]);
    assert_eq!(decoded(&file).unwrap(), [0, 255, 255]);
    let file = made(
        [1, 1],
        32,
        6,
        &[masks([0x3FF0_0000, 0xFFC00, 0x3FF]), vec![0; 4]].concat(),
        &0x2000_03FF_u32.to_le_bytes(),
    );
    assert_eq!(decoded(&file).unwrap(), [127, 0, 255]);
}

#[test]
fn pixels_that_run_lengths_leave_out_have_the_first_colour() {
    // Two pixels of colour 5, a jump right by one and up by one, the literals 1, 2, 3, and the end.
    let runs = [2, 5, 0, 2, 0, 1, 0, 3, 1, 2, 3, 0, 0, 1];
    let expected = [shown(&[0; 6]), shown(&[0, 0, 1, 2, 3, 0]), shown(&[5, 5, 0, 0, 0, 0])].concat();
    assert_eq!(decoded(&made([6, 3], 8, 1, &[], &runs)).unwrap(), expected);
    // A 4-bit run alternates between two colours. Pixels past the end of the row are dropped.
    let runs = [5, 0x12, 0, 0, 0, 4, 0x34, 0x56, 0, 1];
    let expected = [shown(&[3, 4, 5, 6]), shown(&[1, 2, 1, 2])].concat();
    assert_eq!(decoded(&made([4, 2], 4, 2, &[], &runs)).unwrap(), expected);
    // A negative height means that the top row comes first.
    assert_eq!(decoded(&made([2, -2], 8, 1, &[], &[2, 9, 0, 1])).unwrap(), [shown(&[9, 9]), shown(&[0, 0])].concat());
    let error = decoded(&made([6, 3], 8, 1, &[], &[2, 5, 0])).unwrap_err().to_string();
    assert!(error.contains("the BMP is truncated"), "{error}");
}

#[test]
fn unsupported_bitmaps_are_named() {
    for (file, name) in [
        (made([4, 4], 0, 4, &[], &[]), "JPEG"),
        (made([4, 4], 24, 0, &[], &[0; 20]), "48 bytes"),
        (made([-4, 4], 8, 0, &[], &[0; 20]), "invalid size"),
        (made([100_000, 100_000], 8, 1, &[], &[0, 1]), "max_decoded_bytes"),
        (b"BM".to_vec(), "the BMP header is truncated"),
    ] {
        let error = decoded(&file).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
}

proptest! {
    #[test]
    fn hostile_files_end_in_errors(
        bits in prop::sample::select(vec![1_u16, 2, 4, 8, 16, 24, 32]),
        compression in 0_u32..7,
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        pixels in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut file = made([9, 7], bits, compression, &[0xF0; 16], &pixels);
        for (place, value) in at {
            let place = place.index(file.len());
            file[place] = value;
        }
        let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
        if let Ok(bmp) = Bmp::open(&file, &limits) {
            let mut rgb = vec![0; bmp.width as usize * bmp.height as usize * 3];
            let _ = bmp.decode(&mut rgb);
        }
    }
}

use super::tiff_writer::TiffSpec;
use super::writers::{npy, png};
use super::*;
use ::png::{BitDepth, ColorType};
use shardpack_array::floats_of;

#[track_caller]
fn assert_mask(path: &Path, dtype: Dtype, shape: [u64; 2], labels: &[u8]) {
    let mask = load_mask(path, &CubeOptions::default()).unwrap();
    assert_eq!((mask.array.dtype(), mask.array.shape(), mask.array.bytes()), (dtype, &shape[..], labels));
    let held = mask_of(path, std::fs::read(path).unwrap(), &CubeOptions::default()).unwrap();
    assert_eq!(held, mask);
}

#[test]
fn png_labels_are_samples_or_indices() {
    let folder = Folder::new();
    for color in [ColorType::Grayscale, ColorType::Indexed] {
        for (depth, rows, labels) in [
            (BitDepth::One, [0b1010_0000, 0b0110_0000].as_slice(), [1, 0, 1, 0, 1, 1].as_slice()),
            (BitDepth::Two, &[0b1101_1000, 0b0001_1100], &[3, 1, 2, 0, 1, 3]),
            (BitDepth::Four, &[0x12, 0x30, 0xab, 0xc0], &[1, 2, 3, 10, 11, 12]),
            (BitDepth::Eight, &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 6]),
        ] {
            assert_mask(&folder.write("m.jpg", png(color, depth, 3, 2, rows)), Dtype::U8, [2, 3], labels);
        }
    }
    let path = folder.write("m.png", png(ColorType::Grayscale, BitDepth::Sixteen, 2, 1, &[1, 2, 3, 4]));
    assert_mask(&path, Dtype::U16, [1, 2], &[2, 1, 4, 3]);
    assert_eq!(probe(&path).unwrap(), Some(CubeKind::Png));
    let path = folder.write("m.png", png(ColorType::Rgb, BitDepth::Eight, 1, 1, &[1, 2, 3]));
    let text = "`m.png`: a label mask must be a grey or palette PNG, but this one has the colour type Rgb\n\
                hint: save the class numbers, not their colours";
    assert_eq!(message(load_mask(&path, &CubeOptions::default())), text);
    let held = std::fs::read(&path).unwrap();
    assert_eq!(message(mask_of("m.png".as_ref(), held, &CubeOptions::default())), text);
}

#[test]
fn floats_become_the_smallest_integers() {
    let folder = Folder::new();
    let load = |values: &[f64]| {
        let elements: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        load_mask(
            &folder.write("m.npy", npy(1, "'<f8'", false, &format!("(1, {})", values.len()), &elements)),
            &CubeOptions::default(),
        )
    };
    for (values, dtype) in [
        ([0.0, 255.0], Dtype::U8),
        ([0.0, 256.0], Dtype::U16),
        ([0.0, 65536.0], Dtype::U32),
        ([0.0, 4294967296.0], Dtype::U64),
        ([-1.0, 127.0], Dtype::I8),
        ([-1.0, 128.0], Dtype::I16),
        ([-1.0, 32768.0], Dtype::I32),
        ([-1.0, 2147483648.0], Dtype::I64),
    ] {
        let mask = load(&values).unwrap();
        assert_eq!(mask.array.dtype(), dtype);
        assert_eq!(floats_of(dtype, mask.array.bytes()), values);
    }
    for (bad, found) in [(0.5, "0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf"), (1e300, "1e300")] {
        let error = message(load(&[0.0, bad]));
        let written = if bad == 1e300 { format!("{bad}") } else { found.to_owned() };
        assert_eq!(
            error,
            format!("`m.npy`: a label mask must contain only integers, but this one has {written} at row 0, column 1")
        );
    }
}

#[test]
fn masks_of_one_band_only() {
    let folder = Folder::new();
    let path = folder.write("m.npy", npy(1, "'|b1'", false, "(2, 2, 1)", &[0, 1, 1, 0]));
    assert_mask(&path, Dtype::Bool, [2, 2], &[0, 1, 1, 0]);
    let path = folder.write("m.npy", npy(1, "'|u1'", false, "(1, 2, 2)", &[0, 1, 1, 0]));
    assert_eq!(
        message(load_mask(&path, &CubeOptions::default())),
        "`m.npy`: a label mask must have one band, but this one has shape [1, 2, 2]"
    );
    let texts = vec![(42113, "255".to_owned())];
    let path = folder.write("m.tif", TiffSpec { texts, ..TiffSpec::new(Dtype::U8, [3, 4, 1]) }.file());
    assert_mask(&path, Dtype::U8, [3, 4], &cube(Dtype::U8, [3, 4, 1]));
    assert_eq!(load_mask(&path, &CubeOptions::default()).unwrap().no_data, Some(255.0));
}

#[test]
fn png_samples_keep_all_bits() {
    let folder = Folder::new();
    let options = CubeOptions::default();
    for (color, depth, rows, dtype, shape, values) in [
        (
            ColorType::Grayscale,
            BitDepth::Sixteen,
            [1, 2, 3, 4].as_slice(),
            Dtype::U16,
            [1, 2, 1],
            [2, 1, 4, 3].as_slice(),
        ),
        (ColorType::Rgb, BitDepth::Sixteen, &[1, 2, 3, 4, 5, 6], Dtype::U16, [1, 1, 3], &[2, 1, 4, 3, 6, 5]),
        (ColorType::Rgba, BitDepth::Eight, &[1, 2, 3, 4], Dtype::U8, [1, 1, 4], &[1, 2, 3, 4]),
        (ColorType::GrayscaleAlpha, BitDepth::Sixteen, &[1, 2, 3, 4], Dtype::U16, [1, 1, 2], &[2, 1, 4, 3]),
        (ColorType::Grayscale, BitDepth::Four, &[0x12, 0x30], Dtype::U8, [1, 3, 1], &[1, 2, 3]),
    ] {
        let [height, width, _] = shape;
        let path = folder.write("p.png", png(color, depth, width as u32, height as u32, rows));
        let (info, cube) = (peek(&path, &options).unwrap(), load(&path, &options).unwrap());
        assert_eq!((info.kind, info.dtype, info.shape), (CubeKind::Png, dtype, shape));
        assert_eq!((cube.array.dtype(), cube.array.shape(), cube.array.bytes()), (dtype, &shape[..], values));
        let short = CubeOptions { max_bytes: info.array_bytes - 1, ..CubeOptions::default() };
        assert!(matches!(peek(&path, &short).unwrap_err().problem(), CubeProblem::Limit { .. }));
    }
    let path = folder.write("p.png", png(ColorType::Indexed, BitDepth::Eight, 1, 1, &[1]));
    let text = "`p.png`: a PNG with a palette cannot be packed as a cube\n\
                hint: pack the file as a picture, with `--kind images`";
    assert_eq!(message(peek(&path, &options)), text);
    let whole = png(ColorType::Grayscale, BitDepth::Sixteen, 40, 40, &[7; 3200]);
    let path = folder.write("p.png", &whole[..whole.len() - 20]);
    assert!(message(load(&path, &options)).starts_with("`p.png`: cannot decode the PNG: "));
}

use super::writers::{MatArray, mat, v4};
use super::*;

/// Element type, its mxCLASS, and the type number with which its elements are usually stored.
const CLASSES: [(Dtype, u32, u32); 11] = [
    (Dtype::Bool, 9 | 0x200, 2),
    (Dtype::F64, 6, 9),
    (Dtype::F32, 7, 7),
    (Dtype::I8, 8, 1),
    (Dtype::U8, 9, 2),
    (Dtype::I16, 10, 3),
    (Dtype::U16, 11, 4),
    (Dtype::I32, 12, 5),
    (Dtype::U32, 13, 6),
    (Dtype::I64, 14, 12),
    (Dtype::U64, 15, 13),
];

fn spatial(h: u64, w: u64) -> CubeOptions {
    CubeOptions { spatial: Some((h, w)), ..Default::default() }
}

#[test]
fn every_class_order_and_compression() {
    let folder = Folder::new();
    let shape @ [h, w, c] = [4, 33, 5];
    for (dtype, class, kind) in CLASSES {
        for (big_endian, compressed) in [(false, false), (false, true), (true, false), (true, true)] {
            let column_major = ordered(dtype, big_endian, [c, w, h], |[k, x, y]| [y, x, k]);
            let text = MatArray { name: "note", class: 4, dims: &[1, 2], stored: (4, vec![0; 4]) };
            let array = MatArray { name: "c", class, dims: &[4, 33, 5], stored: (kind, column_major) };
            let path = folder.write("a", mat(big_endian, compressed, &[text, array]));
            assert_cube(&path, CubeKind::Mat5, dtype, shape, &CubeOptions::default());
            // In a matrix of bands × pixels, the pixels are in the picture's column order.
            let bands_first = ordered(dtype, big_endian, [w, h, c], |[x, y, k]| [y, x, k]);
            let array = MatArray { name: "Y", class, dims: &[5, 132], stored: (kind, bands_first) };
            let path = folder.write("a", mat(big_endian, compressed, &[array]));
            assert_cube(&path, CubeKind::Mat5, dtype, shape, &spatial(4, 33));
            let pixels_first = ordered(dtype, big_endian, [c, w, h], |[k, x, y]| [y, x, k]);
            let array = MatArray { name: "Y", class, dims: &[132, 5], stored: (kind, pixels_first) };
            let path = folder.write("a", mat(big_endian, compressed, &[array]));
            assert_cube(&path, CubeKind::Mat5, dtype, shape, &spatial(4, 33));
            let flat = load(&path, &spatial(132, 5)).unwrap();
            assert_eq!(flat.array.shape(), [132, 5, 1]);
        }
    }
}

#[test]
fn doubles_stored_as_small_integers() {
    let folder = Folder::new();
    // An array with one row is a vector. It only counts as a picture if the caller names it.
    let named = CubeOptions { variable: vec!["c".into()], ..Default::default() };
    for (kind, stored) in [
        (1, vec![0xff, 2]),
        (2, vec![255, 2]),
        (3, vec![0xff, 0xfe, 0, 2]),
        (7, [1.5f32, 2.0].map(f32::to_be_bytes).concat()),
    ] {
        let expected: [f64; 2] = match kind {
            1 => [-1.0, 2.0],
            2 => [255.0, 2.0],
            3 => [-2.0, 2.0],
            _ => [1.5, 2.0],
        };
        let stored = if kind == 3 { vec![0xff, 0xfe, 0, 2] } else { stored };
        let path = folder.write(
            "a.mat",
            mat(true, false, &[MatArray { name: "c", class: 6, dims: &[1, 2], stored: (kind, stored) }]),
        );
        let loaded = load(&path, &named).unwrap();
        assert_eq!(loaded.array.dtype(), Dtype::F64);
        assert_eq!(loaded.array.bytes(), expected.map(f64::to_le_bytes).concat());
    }
    let wide = MatArray { name: "c", class: 9, dims: &[1, 2], stored: (3, vec![0, 1, 1, 0]) };
    let path = folder.write("a.mat", mat(true, false, &[wide]));
    assert_eq!(
        message(load(&path, &named)),
        "`a.mat`: the MATLAB array is damaged: its int16 values cannot be converted to uint8"
    );
}

#[test]
fn the_right_variable_is_taken() {
    let folder = Folder::new();
    let array = |name, dims: &'static [u32]| MatArray {
        name,
        class: 9,
        dims,
        stored: (2, vec![7; dims.iter().product::<u32>() as usize]),
    };
    let wl = MatArray { name: "wl", class: 6, dims: &[1, 3], stored: (2, vec![4, 5, 6]) };
    let path = folder
        .write("a.mat", mat(false, true, &[array("S_GT", &[2, 2, 2]), array("Y", &[3, 4]), wl, array("M", &[3, 2])]));
    let error = message(load(&path, &CubeOptions::default()));
    let told = "`a.mat`: cannot tell whether the cube is the array with 3 axes or a larger matrix: the file has \
                `S_GT` [2, 2, 2] uint8, `Y` [3, 4] uint8";
    assert!(
        error.starts_with(told) && error.contains("\nhint: choose an array with `--variable NAME`; for a matrix"),
        "{error}"
    );
    let named = CubeOptions { variable: vec!["S_GT".into()], ..Default::default() };
    assert_eq!(load(&path, &named).unwrap().meta.get("variable"), Some(&"S_GT".into()));
    let loaded = load(&path, &spatial(2, 2)).unwrap();
    assert_eq!(serde_json::to_string(&loaded.meta).unwrap(), r#"{"variable":"Y","wavelengths":[4.0,5.0,6.0]}"#);
    assert_eq!(loaded.array.shape(), [2, 2, 3]);
    let options = CubeOptions { variable: vec!["Y".into()], ..spatial(5, 5) };
    assert_eq!(
        message(load(&path, &options)),
        "`a.mat`: one axis of the matrix must have an entry for each of the 5 x 5 pixels, but the matrix has 3 x 4 \
         entries"
    );
    let path = folder.write("b.mat", mat(false, true, &[array("Y", &[3, 4]), array("A", &[2, 4])]));
    assert_eq!(
        message(load(&path, &spatial(2, 2))),
        "`b.mat`: several matrices have 2 x 2 pixels: `Y` [3, 4] uint8, `A` [2, 4] uint8\n\
         hint: choose an array with `--variable NAME`"
    );
    assert_eq!(
        message(load_mask(&path, &CubeOptions::default())),
        "`b.mat`: several arrays have 2 axes: `Y` [3, 4] uint8, `A` [2, 4] uint8\n\
         hint: choose an array with `--variable NAME`"
    );
    let path = folder.write("wl.mat", mat(false, true, &[array("wl", &[1, 4])]));
    assert_eq!(
        message(load(&path, &CubeOptions::default())),
        "`wl.mat`: expected an array with 2 or 3 axes, found `wl` [1, 4] uint8"
    );
    let path = folder.write("gt.mat", mat(false, true, &[array("gt", &[3, 4]), array("n", &[1, 1])]));
    assert_eq!(load_mask(&path, &CubeOptions::default()).unwrap().array.shape(), [3, 4]);
}

#[test]
fn a_matrix_of_bands_needs_the_shape_of_its_picture() {
    let folder = Folder::new();
    let long = MatArray { name: "Y", class: 9, dims: &[3, 48], stored: (2, vec![7; 144]) };
    let path = folder.write("a.mat", mat(false, true, &[long]));
    for variable in [Vec::new(), vec!["Y".to_owned()]] {
        let options = |spatial| CubeOptions { variable: variable.clone(), spatial, ..Default::default() };
        assert_eq!(
            message(load(&path, &options(None))),
            "`a.mat`: the 3 x 48 matrix is ambiguous: it could be a single band, or hold one spectrum per pixel\n\
             hint: pass `--spatial HxW` if it has a spectrum for each pixel, or `--spatial 3x48` if it is a single band"
        );
        assert_eq!(load(&path, &options(Some((6, 8)))).unwrap().array.shape(), [6, 8, 3]);
        assert_eq!(load(&path, &options(Some((3, 48)))).unwrap().array.shape(), [3, 48, 1]);
    }
    // A less elongated matrix is a picture of one band, and a mask may have any shape.
    let short = MatArray { name: "gt", class: 9, dims: &[3, 47], stored: (2, vec![7; 141]) };
    assert_eq!(
        load(&folder.write("b.mat", mat(false, true, &[short])), &CubeOptions::default()).unwrap().array.shape(),
        [3, 47, 1]
    );
    assert_eq!(load_mask(&path, &CubeOptions::default()).unwrap().array.shape(), [3, 48]);
}

#[test]
fn refusals_name_the_reason() {
    let folder = Folder::new();
    for (class, dims, why) in [
        (6 | 0x800, vec![2, 3], "variable `c`: complex numbers are not supported"),
        (5, vec![2, 3], "variable `c`: sparse matrices are not supported"),
        (1, vec![2, 3], "the file has no numeric array"),
        (
            6,
            vec![1, 1, 1, 2],
            "the array has 4 axes ([1, 1, 1, 2]), but must have [height, width] or [height, width, channels]\n\
             hint: save each cube of the stack as a separate file",
        ),
        (6, vec![0, 2], "the array with shape [0, 2] is empty"),
        (6, vec![3, 2], "the MATLAB array is damaged: it has 16 bytes, but 6 float64 values take 48"),
        (
            6,
            vec![20_000, 20_000],
            "the float64 cube with shape [20000, 20000, 1] takes 3200000000 bytes of memory, but the limit is 1073741824 \
             bytes\n\
             hint: raise `--max-cube` if you trust this file",
        ),
        (6, vec![10_000, 10_000], "variable `c` is damaged: 64 bytes are too few for its 100000000 elements"),
    ] {
        let path = folder
            .write("a.mat", mat(false, false, &[MatArray { name: "c", class, dims: &dims, stored: (9, vec![0; 16]) }]));
        assert_eq!(message(load(&path, &CubeOptions::default())), format!("`a.mat`: {why}"));
    }
}

#[test]
fn a_damaged_checksum_is_found() {
    let folder = Folder::new();
    let mut file = mat(false, true, &[MatArray { name: "c", class: 9, dims: &[3, 4], stored: (2, vec![7; 12]) }]);
    let end = file.len();
    file[end - 1] ^= 1;
    let error = message(load(&folder.write("a.mat", file), &CubeOptions::default()));
    assert!(error.starts_with("`a.mat`: cannot decompress a MATLAB element: "), "{error}");
}

#[test]
fn vectors_after_the_first_of_a_name_are_not_read() {
    let folder = Folder::new();
    let vector = |name| MatArray { name, class: 6, dims: &[1, 3], stored: (2, vec![4, 5, 6]) };
    let cube = MatArray { name: "c", class: 9, dims: &[3, 4, 3], stored: (2, vec![7; 36]) };
    // Inflating thousands of such vectors would take long, so only one may be inflated. Damage the
    // second vector, so that the test fails if it is inflated.
    let mut file = mat(false, true, &[cube, vector("wl"), vector("wavelengths")]);
    let end = file.len();
    file[end - 1] ^= 1;
    let loaded = load(&folder.write("a.mat", file), &CubeOptions::default()).unwrap();
    assert_eq!(loaded.meta["wavelengths"], serde_json::json!([4.0, 5.0, 6.0]));
}

#[test]
fn hdf5_is_named() {
    let folder = Folder::new();
    let mut file = vec![b' '; 512];
    file.extend(b"\x89HDF\r\n\x1a\n and then nothing that could be read");
    let path = folder.write("a.mat", file);
    assert_eq!(probe(&path).unwrap(), Some(CubeKind::Hdf5));
    let error = message(load(&path, &CubeOptions::default()));
    if cfg!(feature = "hdf5") {
        assert!(error.starts_with("`a.mat`: cannot read the HDF5 file: "), "{error}");
    } else {
        assert!(
            error.starts_with("`a.mat`: this build cannot read HDF5 (or MATLAB v7.3)\nhint: use the Python package"),
            "{error}"
        );
    }
}

#[test]
fn version_4_in_both_byte_orders() {
    let folder = Folder::new();
    let types =
        [(0, Dtype::F64), (10, Dtype::F32), (20, Dtype::I32), (30, Dtype::I16), (40, Dtype::U16), (50, Dtype::U8)];
    for (mopt, dtype) in types {
        for big_endian in [false, true] {
            let columns = ordered(dtype, big_endian, [5, 4, 1], |[x, y, k]| [y, x, k]);
            let text = v4(big_endian, "note", 1, [1, 2], &[0; 16]);
            let scalar = v4(big_endian, "n", mopt, [1, 1], &vec![0; dtype.bytes() as usize]);
            let bytes = [text, v4(big_endian, "A_1", mopt, [4, 5], &columns), scalar].concat();
            let path = folder.write("a.mat", &bytes);
            assert_cube(&path, CubeKind::Mat4, dtype, [4, 5, 1], &CubeOptions::default());
            // Matrices of pixels × bands are read as in other versions.
            assert_eq!(load(&path, &spatial(2, 2)).unwrap().array.shape(), [2, 2, 5]);
            let cut = folder.write("cut.mat", &bytes[..bytes.len() - 1]);
            assert!(message(load(&cut, &CubeOptions::default())).contains("the file is truncated or damaged: it has"));
        }
    }
    let path = folder.write("s.mat", v4(false, "S", 2, [3, 3], &[0; 72]));
    assert!(message(load(&path, &CubeOptions::default())).contains("sparse matrices are not supported"));
    // Files in other formats that start with small numbers must not be recognised.
    for bytes in [vec![0; 100], v4(false, "1x", 0, [1, 1], &[0; 8]), v4(false, "x", 60, [1, 1], &[0; 8])] {
        assert_eq!(probe(&folder.write("other", bytes)).unwrap(), None);
    }
}

#[test]
fn a_single_in_its_own_tag() {
    let folder = Folder::new();
    for big_endian in [false, true] {
        let array = MatArray { name: "c", class: 9, dims: &[3, 2], stored: (2, vec![1, 2, 3, 4, 5, 6]) };
        let one = if big_endian { 1.5f32.to_be_bytes() } else { 1.5f32.to_le_bytes() };
        let scalar = MatArray { name: "wavelength", class: 7, dims: &[1, 1], stored: (7, one.to_vec()) };
        let path = folder.write("a.mat", mat(big_endian, true, &[array, scalar]));
        let cube = load(&path, &CubeOptions::default()).unwrap();
        assert_eq!(cube.meta.get("wavelengths"), Some(&serde_json::json!([1.5])));
    }
}

#[test]
fn of_several_names_the_first_that_a_file_has() {
    let folder = Folder::new();
    let array = |name: &'static str, value| MatArray { name, class: 9, dims: &[2, 2], stored: (2, vec![value; 4]) };
    let path = folder.write("a.mat", mat(false, true, &[array("X_gt", 1), array("X_corrected", 2), array("x_raw", 3)]));
    let read = |names: &[&str]| {
        let variable = names.iter().map(|&name| name.to_owned()).collect();
        load(&path, &CubeOptions { variable, ..Default::default() })
    };
    for (names, value) in [
        (&["X_gt"][..], 1),
        (&["none", "X_corrected", "X_gt"], 2),
        (&["*_corrected"], 2),
        (&["*raw*", "X_gt"], 3),
        (&["X_*d"], 2),
    ] {
        assert_eq!(read(names).unwrap().array.bytes(), [value; 4], "{names:?}");
    }
    assert_eq!(
        message(read(&["*_x", "y"])),
        "`a.mat`: no numeric array is named `*_x`, `y`; the file has `X_gt` [2, 2] uint8, \
         `X_corrected` [2, 2] uint8, `x_raw` [2, 2] uint8"
    );
    assert_eq!(
        message(read(&["X_*"])),
        "`a.mat`: several arrays have names that match `X_*`: `X_gt` [2, 2] uint8, `X_corrected` [2, 2] \
         uint8\nhint: choose an array with `--variable NAME`"
    );
}

use super::writers::{npy, npy_header, npz};
use super::*;

const DTYPES: [(Dtype, &str); 12] = [
    (Dtype::Bool, "b1"),
    (Dtype::U8, "u1"),
    (Dtype::I8, "i1"),
    (Dtype::U16, "u2"),
    (Dtype::I16, "i2"),
    (Dtype::U32, "u4"),
    (Dtype::I32, "i4"),
    (Dtype::U64, "u8"),
    (Dtype::I64, "i8"),
    (Dtype::F16, "f2"),
    (Dtype::F32, "f4"),
    (Dtype::F64, "f8"),
];

#[test]
fn every_type_order_and_version() {
    let folder = Folder::new();
    let [h, w, c] = [3, 35, 4];
    for (dtype, name) in DTYPES {
        for big_endian in [false, true] {
            let order = match (dtype.bytes(), big_endian) {
                (1, _) => '|',
                (_, false) => '<',
                (_, true) => '>',
            };
            for version in 1..=3 {
                for fortran in [false, true] {
                    let elements = if fortran {
                        ordered(dtype, big_endian, [c, w, h], |[k, x, y]| [y, x, k])
                    } else {
                        ordered(dtype, big_endian, [h, w, c], |at| at)
                    };
                    let file = npy(version, &format!("'{order}{name}'"), fortran, "(3, 35, 4)", &elements);
                    let path = folder.write("cube.bin", file);
                    assert_cube(&path, CubeKind::Npy, dtype, [h, w, c], &CubeOptions::default());
                }
            }
        }
    }
}

#[test]
fn values_stay_in_the_file_where_their_order_is_ours() {
    let folder = Folder::new();
    let in_file = |descr: &str, fortran, bytes: usize| {
        let path = folder.write("a.npy", npy(1, descr, fortran, "(2, 3, 4)", &vec![1; bytes]));
        peek(&path, &CubeOptions::default()).unwrap().in_file
    };
    assert!(in_file("'<f4'", false, 96) && in_file("'>f4'", false, 96));
    assert!(!in_file("'<f4'", true, 96), "Fortran order");
    assert!(!in_file("'|b1'", false, 24), "any byte but 0 is true");
}

#[test]
fn two_axes_are_one_band() {
    let folder = Folder::new();
    for fortran in [false, true] {
        let elements = if fortran {
            ordered(Dtype::I16, true, [40, 5, 1], |[x, y, k]| [y, x, k])
        } else {
            ordered(Dtype::I16, true, [5, 40, 1], |at| at)
        };
        let path = folder.write("a.npy", npy(1, "'>i2'", fortran, "(5, 40)", &elements));
        assert_cube(&path, CubeKind::Npy, Dtype::I16, [5, 40, 1], &CubeOptions::default());
    }
}

#[test]
fn any_true_becomes_one() {
    let folder = Folder::new();
    let path = folder.write("a.npy", npy(1, "'|b1'", false, "(1, 3)", &[0, 1, 255]));
    assert_eq!(load(&path, &CubeOptions::default()).unwrap().array.bytes(), [0, 1, 1]);
}

#[test]
fn refusals_name_the_reason() {
    let folder = Folder::new();
    let refused = |file: Vec<u8>| message(load(&folder.write("a.npy", file), &CubeOptions::default()));
    for (descr, reason, hint) in [
        (
            "'<c8'",
            "complex numbers (\"<c8\") are",
            "\nhint: save the real and imaginary parts as separate bands, or only the magnitude (`np.abs`)",
        ),
        (
            "'|O'",
            "Python objects (\"|O\") are",
            "\nhint: save the array with a numeric dtype: arrays of objects contain pickled code, which is never \
             loaded",
        ),
        ("[('a', '<f4')]", "structured types are", ""),
        ("'<f16'", "\"<f16\" is", "\nhint: convert the array with `.astype('float64')` before saving it"),
        ("'<U5'", "\"<U5\" is", ""),
        ("'<M8[s]'", "\"<M8[s]\" is", ""),
    ] {
        let kinds = "(supported: bool, integers, float16, float32 and float64)";
        let expected = format!("`a.npy`: {reason} not supported in npy files {kinds}{hint}");
        assert_eq!(refused(npy(1, descr, false, "(1, 1)", &[0; 8])), expected);
    }
    for (shape, reason) in [
        ("()", "the array has 0 axes ([]), but must have [height, width] or [height, width, channels]"),
        ("(4,)", "the array has 1 axis ([4]), but must have [height, width] or [height, width, channels]"),
        (
            "(1, 1, 1, 4)",
            "the array has 4 axes ([1, 1, 1, 4]), but must have [height, width] or [height, width, channels]\n\
             hint: save each cube of the stack as a separate file",
        ),
        ("(2, 0, 3)", "the array with shape [2, 0, 3] is empty"),
        ("(4294967296, 4294967296, 2)", "the array with shape [4294967296, 4294967296, 2] has 2^64 bytes or more"),
    ] {
        assert_eq!(refused(npy(1, "'|u1'", false, shape, &[0; 4])), format!("`a.npy`: {reason}"));
    }
    assert_eq!(
        refused(npy(1, "'|u1'", false, "(1, 3)", &[0; 4])),
        "`a.npy`: the npy file has 4 bytes of array data instead of 3 (dtype uint8, shape [1, 3])\n\
         hint: if the file holds several arrays, save them in one `.npz` file instead"
    );
    let over = refused(npy(1, "'|u1'", false, "(65536, 65536)", &[0; 4]));
    assert!(over.contains("takes 4294967296 bytes of memory, but the limit is 1073741824 bytes"), "{over}");
}

#[test]
fn the_header_is_no_python() {
    let folder = Folder::new();
    let good = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1)}";
    assert!(load(&folder.write("a.npy", npy_header(1, good, &[7])), &CubeOptions::default()).is_ok());
    for bad in [
        "",
        "{",
        "{'descr': '|u1', 'fortran_order': False}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1)} + 1",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1), 'x': 1}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '|u1', 'fortran_order': 0, 'shape': (1, 1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1, -1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1*1, 1)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (١, ١)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 1)}",
        "{'descr': '\\x7cu1', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': __import__('os').name, 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '=u2', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': 'u2', 'fortran_order': False, 'shape': (1, 1)}",
    ] {
        let result = load(&folder.write("a.npy", npy_header(1, bad, &[7])), &CubeOptions::default());
        assert!(matches!(result.unwrap_err().problem(), CubeProblem::Damaged(_)), "{bad}");
    }
    // The header of a tiny file claims a length of 4 GiB.
    let long = [b"\x93NUMPY\x02\0".as_slice(), &[0xff; 4], b"{}"].concat();
    assert!(
        message(load(&folder.write("a.npy", long), &CubeOptions::default()))
            .contains("the npy header has 4294967295 bytes, but at most 65536 are allowed")
    );
}

#[test]
fn archives() {
    let folder = Folder::new();
    let c = npy(1, "'<u2'", false, "(3, 4, 5)", &cube(Dtype::U16, [3, 4, 5]));
    let flat = npy(1, "'|u1'", false, "(3, 4)", &cube(Dtype::U8, [3, 4, 1]));
    let waves: Vec<u8> = [400.5f32, 500.0, 600.0, 700.0, 800.0].iter().flat_map(|wave| wave.to_be_bytes()).collect();
    let waves = npy(1, "'>f4'", false, "(5,)", &waves);
    for deflate in [false, true] {
        let members = [
            ("readme.txt", b"no array".to_vec()),
            ("mask.npy", flat.clone()),
            ("cube.npy", c.clone()),
            ("wavelengths.npy", waves.clone()),
        ];
        let path = folder.write("a.zip", npz(deflate, &members));
        let loaded = assert_cube(&path, CubeKind::Npz, Dtype::U16, [3, 4, 5], &CubeOptions::default());
        assert_eq!(
            serde_json::to_string(&loaded.meta).unwrap(),
            r#"{"variable":"cube","wavelengths":[400.5,500.0,600.0,700.0,800.0]}"#
        );
        let options = CubeOptions { variable: vec!["mask".into()], ..Default::default() };
        assert_cube(&path, CubeKind::Npz, Dtype::U8, [3, 4, 1], &options);
        assert_eq!(load_mask(&path, &CubeOptions::default()).unwrap().array.shape(), [3, 4]);
        let options = CubeOptions { variable: vec!["cub".into()], ..Default::default() };
        assert_eq!(
            message(load(&path, &options)),
            "`a.zip`: no numeric array is named `cub`; the file has `mask` [3, 4] uint8, `cube` [3, 4, 5] \
             uint16, `wavelengths` [5] float32"
        );
        let path = folder.write("b.npz", npz(deflate, &[("a.npy", c.clone()), ("b.npy", c.clone())]));
        assert_eq!(
            message(peek(&path, &CubeOptions::default())),
            "`b.npz`: several arrays have 3 axes: `a` [3, 4, 5] uint16, `b` [3, 4, 5] uint16\n\
             hint: choose an array with `--variable NAME`"
        );
    }
    let path = folder.write("c.zip", npz(true, &[("readme.txt", vec![])]));
    assert_eq!(probe(&path).unwrap(), None);
}

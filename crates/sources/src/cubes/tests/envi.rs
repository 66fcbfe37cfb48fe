use super::*;

fn header(code: u32, interleave: &str, big_endian: bool, offset: u64, [h, w, c]: [usize; 3]) -> String {
    format!(
        "ENVI\r\n; a comment = with an equals sign\r\nSamples = {w}\r\nlines={h}\r\nBANDS   = {c}\r\n\
         header offset = {offset}\r\n\
         data type = {code}\r\ninterleave = {interleave}\r\nbyte order = {}\r\n",
        u8::from(big_endian)
    )
}

#[test]
fn every_type_interleave_and_name() {
    let folder = Folder::new();
    let shape @ [h, w, c] = [3, 34, 5];
    let types = [
        (1, Dtype::U8),
        (2, Dtype::I16),
        (3, Dtype::I32),
        (4, Dtype::F32),
        (5, Dtype::F64),
        (12, Dtype::U16),
        (13, Dtype::U32),
        (14, Dtype::I64),
        (15, Dtype::U64),
    ];
    let names = ["x", "x.img", "x.RAW", "x.dat", "x.bil", "x.hyspex", "x.someone's own"];
    let mut names = names.iter().cycle();
    for (code, dtype) in types {
        for interleave in ["bsq", "BIL", "Bip"] {
            for big_endian in [false, true] {
                for offset in [0, 13] {
                    let elements = match interleave {
                        "bsq" => ordered(dtype, big_endian, [c, h, w], |[k, y, x]| [y, x, k]),
                        "BIL" => ordered(dtype, big_endian, [h, c, w], |[y, k, x]| [y, x, k]),
                        _ => ordered(dtype, big_endian, [h, w, c], |at| at),
                    };
                    let data = folder.write(names.next().unwrap(), [vec![9; offset as usize], elements].concat());
                    let path = folder.write("x.hdr", header(code, interleave, big_endian, offset, shape));
                    assert_cube(&path, CubeKind::EnviHeader, dtype, shape, &CubeOptions::default());
                    assert_eq!(companion(&path, &CubeOptions::default()).as_deref(), Some(data.as_path()));
                    assert_eq!(companion(&data, &CubeOptions::default()), None);
                    std::fs::remove_file(data).unwrap();
                }
            }
        }
    }
}

#[test]
fn metadata_keeps_names_order_and_numbers() {
    let folder = Folder::new();
    folder.write("x.img", cube(Dtype::U8, [1, 2, 3]));
    // Real headers may omit byte order, header offset and file type.
    let text = "ENVI\ndescription = {\n Field 7, plot = 3 }\nsamples = 2\nlines = 1\nbands = 3\ndata type = 1\n\
                interleave = bip\n\
                Wavelength Units = Nanometers\nwavelength = {\n 400,\n 500.5,\n 600\n }\nfwhm = {1, 2}\nbbl = {1,0,1}\n\
                map info = {UTM, 1, 1, 350000.5, North}\nband names = {a, b, 3}\nreflectance scale factor = 10000\n\
                data ignore value = -1.5e3\nsensor type = HySpex\n";
    let path = folder.write("x.hdr", text);
    let loaded = assert_cube(&path, CubeKind::EnviHeader, Dtype::U8, [1, 2, 3], &CubeOptions::default());
    assert_eq!(loaded.no_data, Some(-1500.0));
    assert_eq!(
        serde_json::to_string(&loaded.meta).unwrap(),
        "{\"description\":\"Field 7, plot = 3\",\"wavelength_units\":\"Nanometers\",\"wavelengths\":[400,500.5,600],\
         \"header_fwhm\":[1,2],\"bbl\":[1,0,1],\"map_info\":[\"UTM\",\"1\",\"1\",\"350000.5\",\"North\"],\
         \"band_names\":[\"a\",\"b\",\"3\"],\"reflectance_scale_factor\":10000,\"sensor_type\":\"HySpex\"}"
    );
}

#[test]
fn the_data_file_that_fits_is_taken() {
    let folder = Folder::new();
    let elements = cube(Dtype::U8, [2, 3, 4]);
    folder.write("x.img", &elements[1..]);
    let right = folder.write("x.dat", &elements);
    let path = folder.write("x.hdr", header(1, "bip", false, 0, [2, 3, 4]));
    assert_eq!(companion(&path, &CubeOptions::default()), Some(right));
    assert_cube(&path, CubeKind::EnviHeader, Dtype::U8, [2, 3, 4], &CubeOptions::default());
    let double = folder.write("y.img.hdr", header(1, "bip", false, 0, [2, 3, 4]));
    folder.write("y.img", &elements);
    assert_cube(&double, CubeKind::EnviHeader, Dtype::U8, [2, 3, 4], &CubeOptions::default());
}

#[test]
fn refusals_name_the_reason() {
    let folder = Folder::new();
    let good = header(4, "bsq", false, 7, [2, 3, 4]);
    let path = folder.write("x.hdr", &good);
    assert_eq!(
        message(load(&path, &CubeOptions::default())),
        "`x.hdr`: found no data file for this ENVI header: expected `x`, `x.img`, `x.dat` or similar"
    );
    assert_eq!(companion(&path, &CubeOptions::default()), None);
    folder.write("x.raw", [0; 102]);
    for result in [load(&path, &CubeOptions::default()).map(|_| ()), peek(&path, &CubeOptions::default()).map(|_| ())] {
        assert_eq!(
            message(result),
            "`x.raw`: the ENVI data file has 102 bytes, but must have at least 103: the header describes 2 lines, 3 \
             samples and 4 bands of float32, starting at byte 7"
        );
    }
    for (from, to, why) in [
        ("type = 4", "type = 6", "complex numbers are not supported (`data type` 6 in the ENVI header)"),
        ("= bsq", "= bsx", "`interleave` in the ENVI header: expected bsq, bil or bip, found `bsx`"),
        ("interleave", "interleaved", "the ENVI header lacks the key `interleave`"),
        ("order = 0", "order = 2", "`byte order` in the ENVI header: expected 0 or 1, found `2`"),
        ("lines=2", "lines=-2", "`lines` in the ENVI header: expected a non-negative integer, found `-2`"),
        ("lines=2", "lines=0", "the array with shape [0, 3, 4] is empty"),
        (
            "; a",
            "file compression = 1\n; a",
            "gzip compression is not supported (`file compression` in the ENVI header)\n\
             hint: save the cube without compression and without frame offsets",
        ),
        ("; a", "x = {1,\n; a", "the list `x` in the ENVI header has no closing `}`"),
    ] {
        let path = folder.write("x.hdr", good.replace(from, to));
        assert_eq!(message(load(&path, &CubeOptions::default())), format!("`x.hdr`: {why}"));
    }
}

#[test]
fn files_that_hold_no_picture_are_refused_by_their_type() {
    let folder = Folder::new();
    folder.write("x.sli", vec![0; 3 * 4 * 5]);
    for (kind, hint) in [
        ("ENVI Spectral Library", "move this spectral library out of the source: only images can be packed"),
        ("envi meta file", "pack the files that this meta file lists"),
    ] {
        let text = format!("{}file type = {kind}\n", header(1, "bsq", false, 0, [3, 4, 5]));
        let path = folder.write("x.hdr", text);
        let told = message(peek(&path, &CubeOptions::default()));
        let expected = format!("`{kind}` is not an image type (`file type` in the ENVI header)\nhint: {hint}");
        assert!(told.contains(&expected), "{told}");
        assert!(companion(&path, &CubeOptions::default()).unwrap().ends_with("x.sli"));
    }
    let standard = format!("{}file type = ENVI Standard\n", header(1, "bsq", false, 0, [3, 4, 5]));
    assert!(peek(&folder.write("x.hdr", standard), &CubeOptions::default()).is_ok());
}

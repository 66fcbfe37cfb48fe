use super::tiff_writer::TiffSpec;
use super::*;

#[track_caller]
fn check(folder: &Folder, spec: &TiffSpec) -> LoadedCube {
    let path = folder.write("a.tif", spec.file());
    assert_cube(&path, CubeKind::Tiff, spec.dtype, spec.shape, &CubeOptions::default())
}

#[test]
fn every_type_and_predictor() {
    let folder = Folder::new();
    for &dtype in Dtype::ALL.iter().filter(|&&dtype| dtype != Dtype::Bool) {
        for predictor in 1..=if dtype.is_float() { 3 } else { 2 } {
            for big_endian in [false, true] {
                for (planar, shape) in [(false, [7, 11, 3]), (true, [7, 11, 3]), (false, [7, 11, 1])] {
                    let spec = TiffSpec {
                        predictor,
                        big_endian,
                        planar,
                        compression: 8,
                        rows: 3,
                        ..TiffSpec::new(dtype, shape)
                    };
                    check(&folder, &spec);
                }
            }
        }
    }
}

#[test]
fn every_arrangement_and_compression() {
    let folder = Folder::new();
    for compression in [1, 5, 8, 32773, 50000] {
        for (big_endian, big_tiff) in [(false, false), (true, false), (false, true), (true, true)] {
            for (planar, pages) in [(false, false), (true, false), (false, true)] {
                for (tile, rows) in [(None, 1), (None, 4), (None, 9), (Some((16, 16)), 9), (Some((4, 8)), 9)] {
                    for shape in [[9, 21, 5], [9, 21, 1]] {
                        let spec = TiffSpec {
                            big_endian,
                            big_tiff,
                            planar,
                            pages,
                            tile,
                            rows,
                            compression,
                            ..TiffSpec::new(Dtype::I16, shape)
                        };
                        check(&folder, &spec);
                    }
                }
            }
        }
    }
}

#[test]
fn metadata_of_gdal() {
    let folder = Folder::new();
    let xml = "<GDALMetadata>\n  <Item name=\"start_time\">2022-07-24</Item>\n  \
                 <Item name=\"wavelength\" sample=\"0\">400.5</Item>\n\
               <Item name=\"wavelength\" sample=\"1\">500</Item><Item name=\"wavelength_units\" sample=\"0\">nm</Item>\
               <Item name=\"wavelength_units\" sample=\"1\">nm</Item><Item name=\"DESCRIPTION\" sample=\"1\" \
               role=\"description\">a &amp;lt; b</Item>\
               <Item name=\"far\" sample=\"9999999999\">x</Item>\n</GDALMetadata>";
    let texts = vec![(270, "a cube".to_owned()), (42112, xml.to_owned()), (42113, "-3.40282346638529e+38".to_owned())];
    let loaded = check(&folder, &TiffSpec { texts, ..TiffSpec::new(Dtype::F32, [2, 2, 2]) });
    assert_eq!(loaded.no_data, Some(f64::from(f32::MIN)));
    assert_eq!(
        serde_json::to_string(&loaded.meta).unwrap(),
        r#"{"description":"a cube","start_time":"2022-07-24","wavelengths":[400.5,500],"wavelength_units":"nm","band_names":[null,"a < b"]}"#
    );
    let texts = vec![(42113, "nan".to_owned())];
    assert!(check(&folder, &TiffSpec { texts, ..TiffSpec::new(Dtype::F32, [2, 2, 2]) }).no_data.unwrap().is_nan());
}

#[test]
fn refusals_name_the_reason() {
    let folder = Folder::new();
    let spec = |shape| TiffSpec::new(Dtype::U16, shape);
    let refused = |file: Vec<u8>| message(load(&folder.write("a.tif", file), &CubeOptions::default()));
    for (spec, why) in [
        (
            TiffSpec { compression: 7, ..spec([2, 3, 4]) },
            "TIFF compression 7 (JPEG) is not supported (supported: none, LZW, deflate, PackBits and zstd)\n\
             hint: convert with `gdal_translate -co COMPRESS=ZSTD IN OUT`",
        ),
        (
            TiffSpec { predictor: 3, compression: 8, ..spec([2, 3, 4]) },
            "TIFF predictor 3 is invalid for uint16 samples: expected 1 or 2",
        ),
        (TiffSpec { predictor: 2, ..spec([2, 3, 4]) }, "TIFF predictor 2 needs LZW, deflate or zstd compression"),
        (TiffSpec { shape: [0, 3, 4], rows: 1, ..spec([1, 3, 4]) }, "the TIFF is empty: 0 x 3 pixels with 4 bands"),
    ] {
        assert_eq!(refused(spec.file()), format!("`a.tif`: {why}"));
    }
    // Make a second page by linking to a copy of the first directory.
    let mut file = spec([2, 3, 2]).file();
    let at = file.len();
    let first = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let entries = usize::from(file[first]);
    let link = first + 2 + 12 * entries;
    let directory = file[first..link + 4].to_vec();
    file[link..link + 4].copy_from_slice(&(at as u32).to_le_bytes());
    file.extend(directory);
    assert_eq!(
        refused(file.clone()),
        "`a.tif`: the TIFF has 2 pages of 2 bands each, but a TIFF with several pages must have one band per page\n\
         hint: save each page as a separate file"
    );
    let end = file.len();
    file[end - 4..].copy_from_slice(&(first as u32).to_le_bytes());
    assert_eq!(refused(file), format!("`a.tif`: the chain of TIFF pages has a loop at offset {first}"));
}

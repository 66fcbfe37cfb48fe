//! Tests with real files, if available. They are not part of the repository.

use super::*;
use shardpack_array::floats_of;

fn data() -> Option<PathBuf> {
    crate::testing::shared_data().map(|folder| folder.join("hsi"))
}

fn with(variable: &str, spatial: Option<(u64, u64)>) -> CubeOptions {
    CubeOptions { variable: vec![variable.into()], spatial, ..Default::default() }
}

/// Returns the roughness along each axis. This is the mean absolute difference between neighbours, divided by
/// the mean absolute difference between distant elements.
fn roughness(values: &[f64], [h, w, c]: [usize; 3]) -> [f64; 3] {
    let mean = |step: usize| {
        let pairs =
            values.iter().zip(&values[step..]).map(|(a, b)| (a - b).abs()).filter(|difference| difference.is_finite());
        let (count, sum) = pairs.fold((0.0, 0.0), |(count, sum), difference| (count + 1.0, sum + difference));
        sum / count
    };
    let far = mean((h / 2 * w + w / 2) * c + c / 2);
    [w * c, c, 1].map(|step| mean(step) / far)
}

#[test]
fn cubes_in_use() {
    let Some(data) = data() else { return };
    for (file, options, dtype, shape) in [
        ("envi/corn-kernel-hyperspectral.hdr", CubeOptions::default(), Dtype::U16, [31, 43, 580]),
        ("envi/cubus_gamsberg_subset.hdr", CubeOptions::default(), Dtype::F32, [25, 10, 189]),
        ("mat/jasperRidge2_R198.mat", with("Y", Some((100, 100))), Dtype::F64, [100, 100, 198]),
        ("mat/Samson.mat", with("Y", Some((95, 95))), Dtype::F64, [95, 95, 156]),
        ("mat/salton_sea_roi.mat", with("I", None), Dtype::F64, [51, 56, 224]),
        ("mat/reg_pavia_dataset.mat", with("I1", None), Dtype::F64, [80, 50, 103]),
    ] {
        let path = data.join(file);
        let info = peek(&path, &options).unwrap();
        assert_eq!((info.dtype, info.shape), (dtype, shape), "{file}");
        let cube = load(&path, &options).unwrap();
        if let Some(list) = cube.meta.get("wavelengths") {
            assert_eq!(list.as_array().unwrap().len() as u64, shape[2], "{file}");
        }
        // Real pictures and spectra are smooth along each axis. Mixed-up axes would make them rough.
        let roughness = roughness(&floats_of(dtype, cube.array.bytes()), shape.map(|axis| axis as usize));
        assert!(roughness.iter().all(|&ratio| ratio > 0.0 && ratio < 0.5), "{file}: {roughness:?}");
    }
}

#[test]
fn tiles_and_masks_in_use() {
    let Some(data) = data() else { return };
    let folder = data.join("enmap-potsdam-tiles");
    let mut tiles = 0;
    for entry in std::fs::read_dir(folder.join("images")).unwrap() {
        let path = entry.unwrap().path();
        let cube = load(&path, &CubeOptions::default()).unwrap();
        assert_eq!((cube.array.dtype(), cube.array.shape()), (Dtype::F32, &[32, 32, 224][..]));
        assert_eq!(cube.no_data, Some(-32768.0));
        assert_eq!(cube.meta.get("wavelength_units"), Some(&"Nanometers".into()));
        let waves = cube.meta.get("wavelengths").unwrap().as_array().unwrap();
        assert!(waves.iter().all(|wave| (400.0..2500.0).contains(&wave.as_f64().unwrap())));
        // The file stores integers as floats, and no value is below the no-data value.
        assert!(
            floats_of(Dtype::F32, cube.array.bytes()).iter().all(|value| value.fract() == 0.0 && *value >= -32768.0)
        );
        let mask = load_mask(&folder.join("labels").join(path.file_name().unwrap()), &CubeOptions::default()).unwrap();
        assert_eq!((mask.array.dtype(), mask.array.shape()), (Dtype::U8, &[32, 32][..]));
        assert!(mask.array.bytes().iter().all(|&label| label <= 6));
        tiles += 1;
    }
    assert_eq!(tiles, 18);
    for (file, shape, classes) in
        [("Indian_pines_gt", [145, 145], 16), ("PaviaU_gt", [610, 340], 9), ("Salinas_gt", [512, 217], 16)]
    {
        let mask = load_mask(&data.join(format!("mat/{file}.mat")), &CubeOptions::default()).unwrap();
        assert_eq!((mask.array.dtype(), mask.array.shape()), (Dtype::U8, &shape[..]));
        assert_eq!(mask.array.bytes().iter().max(), Some(&classes));
    }
}

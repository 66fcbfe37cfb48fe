use super::*;
use hdf5_pure::{AttrValue, FileBuilder};

fn numbers(dims: [usize; 3], at: impl Fn([usize; 3]) -> [usize; 3]) -> Vec<u16> {
    ordered(Dtype::U16, false, dims, at).as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes)).collect()
}

#[test]
fn datasets_in_groups() {
    let folder = Folder::new();
    let mut builder = FileBuilder::new();
    let mut group = builder.create_group("scene");
    let values = numbers([9, 8, 7], |at| at);
    group.create_dataset("cube").with_u16_data(&values).with_shape(&[9, 8, 7]).with_chunks(&[4, 8, 3]).with_deflate(4);
    group.create_dataset("wavelength").with_f64_data(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    builder.add_group(group.finish());
    let path = folder.write("a.h5", builder.finish().unwrap());
    let loaded = assert_cube(&path, CubeKind::Hdf5, Dtype::U16, [9, 8, 7], &CubeOptions::default());
    assert_eq!(
        serde_json::to_string(&loaded.meta).unwrap(),
        r#"{"variable":"scene/cube","wavelengths":[1.0,2.0,3.0,4.0,5.0,6.0,7.0]}"#
    );
    // The limit applies to the cube of 1,008 bytes. The file is larger, but it is read as a stream.
    let options = CubeOptions { max_bytes: 1008, ..Default::default() };
    assert_cube(&path, CubeKind::Hdf5, Dtype::U16, [9, 8, 7], &options);
    let options = CubeOptions { max_bytes: 1007, ..Default::default() };
    let error = load(&path, &options).unwrap_err();
    assert!(matches!(error.problem(), CubeProblem::Limit { found: 1008, .. }));
}

#[test]
fn matlab_arrays_have_their_axes_reversed() {
    let folder = Folder::new();
    let file = |dims: &[u64], values: &[u16]| {
        let mut builder = FileBuilder::new();
        builder.with_userblock(512);
        let dataset = builder.create_dataset("c");
        dataset
            .with_u16_data(values)
            .with_shape(dims)
            .set_attr("MATLAB_class", AttrValue::AsciiString("uint16".into()));
        builder.finish().unwrap()
    };
    let [h, w, c] = [3, 4, 5];
    let path = folder.write("a.mat", file(&[5, 4, 3], &numbers([c, w, h], |[k, x, y]| [y, x, k])));
    assert_cube(&path, CubeKind::Hdf5, Dtype::U16, [h, w, c], &CubeOptions::default());
    // Write a matrix `[bands, pixels]` in MATLAB's order.
    let path = folder.write("a.mat", file(&[12, 5], &numbers([w, h, c], |[x, y, k]| [y, x, k])));
    let options = CubeOptions { spatial: Some((3, 4)), ..Default::default() };
    assert_cube(&path, CubeKind::Hdf5, Dtype::U16, [h, w, c], &options);
}

#[test]
fn damaged_files_do_not_panic() {
    let folder = Folder::new();
    let mut builder = FileBuilder::new();
    let values = numbers([9, 8, 7], |at| at);
    builder
        .create_dataset("cube")
        .with_u16_data(&values)
        .with_shape(&[9, 8, 7])
        .with_chunks(&[4, 8, 3])
        .with_deflate(4);
    let bytes = builder.finish().unwrap();
    let mut state = 1u64;
    for round in 0..bytes.len() * 2 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = bytes.clone();
        if round < bytes.len() {
            damaged.truncate(round);
        } else {
            damaged[round - bytes.len()] ^= (state >> 33) as u8 | 1;
        }
        let path = folder.write("a.h5", damaged);
        let _ = peek(&path, &CubeOptions::default());
        let _ = load(&path, &CubeOptions::default());
    }
}

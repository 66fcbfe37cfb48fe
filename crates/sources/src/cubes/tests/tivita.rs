use super::*;

fn file([h, w, c]: [usize; 3]) -> Vec<u8> {
    // A Tivita file stores columns, then rows from the bottom up, then bands.
    let elements = ordered(Dtype::F32, true, [w, h, c], |[x, up, k]| [h - 1 - up, x, k]);
    writers::tivita(w as i32, h as i32, c as i32, &elements)
}

#[test]
fn columns_from_the_bottom_up() {
    let folder = Folder::new();
    for shape in [[1, 1, 1], [5, 3, 1], [1, 4, 2], [20, 33, 7]] {
        let path = folder.write("2021_SpecCube.dat", file(shape));
        assert_cube(&path, CubeKind::Tivita, Dtype::F32, shape, &CubeOptions::default());
    }
}

#[test]
fn the_size_is_the_signature() {
    let folder = Folder::new();
    let mut bytes = file([2, 3, 4]);
    bytes.push(0);
    assert_eq!(probe(&folder.write("a.dat", &bytes)).unwrap(), None);
    assert_eq!(probe(&folder.write("a.dat", [0; 12])).unwrap(), None);
    assert_eq!(probe(&folder.write("a.dat", [])).unwrap(), None);
    assert_eq!(
        message(load(&folder.write("a.dat", &bytes), &CubeOptions::default())),
        "`a.dat`: the file is not a cube in a supported format (NumPy, Blosc2, ENVI, TIFF, PNG, HDF5, MATLAB, \
         Tivita): it begins with `\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x02`"
    );
    assert_eq!(
        message(load(&folder.write("b", []), &CubeOptions::default())).rsplit("): ").next(),
        Some("it is empty")
    );
    let error = load(folder.path(), &CubeOptions::default()).unwrap_err();
    assert!(matches!(error.problem(), CubeProblem::Usage(_)));
}

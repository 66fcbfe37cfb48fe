//! Tests the public API of the crate `shardpack` as a Rust program uses it: packs, opens and verifies a dataset, loads
//! typed batches, and checks that errors are helpful.

use ndarray::{ArrayView1, ArrayView3, ArrayView4};
use shardpack::collect::Sample;
use shardpack::order::{End, Mode};
use shardpack::{CollectOptions, CubeMode, Dataset, ErrorKind, PackOptions, PatchPlace, Scalar, View};
use std::fs;
use std::path::{Path, PathBuf};

fn packed(scratch: &Path) -> PathBuf {
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/jpeg/testdata/tiles.jpg");
    for (class, count) in [("cat", 3), ("dog", 4)] {
        fs::create_dir_all(scratch.join("src").join(class)).unwrap();
        (0..count).for_each(|i| {
            fs::copy(&picture, scratch.join(format!("src/{class}/{i}.jpg"))).unwrap();
        });
    }
    let out = scratch.join("out");
    let report = shardpack::pack(scratch.join("src"), &out, PackOptions::default()).unwrap();
    assert_eq!(report.report.samples, 7);
    out
}

#[test]
fn a_program_packs_verifies_and_trains() {
    let scratch = tempfile::tempdir().unwrap();
    let out = packed(scratch.path());
    assert!(shardpack::verify(&out).unwrap().report.is_whole());
    let dataset = Dataset::open(&out).unwrap();
    assert_eq!(dataset.classes().unwrap(), ["cat", "dog"]);
    assert!(matches!(dataset.get(0).unwrap().scalar("label").unwrap(), Scalar::Signed(0 | 1)));

    let options = dataset.loader().batch_size(3).end(End::Uneven).image(View::random_resized_crop((16, 24)));
    let mut loader = options.fields(["image", "label"]).open().unwrap();
    for epoch in 0..2 {
        let mut labels = Vec::new();
        for batch in loader.epoch(epoch) {
            let batch = batch.unwrap();
            let images: ArrayView4<u8> = batch.array("image").unwrap();
            assert_eq!(images.shape(), [batch.len(), 16, 24, 3]);
            labels.extend_from_slice(batch.slice::<i64>("label").unwrap());
            assert_eq!(batch.array::<i64, ndarray::Ix1>("label").unwrap().len(), batch.len());
        }
        labels.sort_unstable();
        assert_eq!((labels, loader.current_epoch()), (vec![0, 0, 0, 1, 1, 1, 1], epoch));
    }
}

#[test]
fn a_program_writes_samples_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let collector = Dataset::create(&out, None, CollectOptions::default()).unwrap();
    for (number, text) in ["to be", "or not"].into_iter().enumerate() {
        collector.add(Sample::new().with("text", text).with("number", number as i64)).unwrap();
    }
    assert_eq!(collector.commit(None, None).unwrap().report.samples, 2);
    let dataset = Dataset::open(&out).unwrap();
    assert_eq!(
        dataset.by_key("00000001").unwrap().map(|index| dataset.get(index).unwrap().text("text").unwrap()),
        Some("or not".into())
    );
    let again = Dataset::create(&out, None, CollectOptions::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Busy);
    let nowhere = Dataset::create("ftp://host/out", None, CollectOptions::default()).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::Usage);
}

#[test]
fn a_subset_takes_one_line() {
    let scratch = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(packed(scratch.path())).unwrap();
    let options = || dataset.loader().batch_size(8).end(End::Uneven).fields(["label"]);
    let mut loader = options().subset([5, 1, 3]).mode(Mode::Stored).open().unwrap();
    let batches: Vec<_> = loader.epoch(0).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.indices()).collect::<Vec<_>>(), [[1, 3, 5]]);
    let order = shardpack::order::Order::of(&dataset, 0);
    let both = options().subset([1]).sampling(std::sync::Arc::new(order)).open().unwrap_err();
    assert!(both.to_string().contains("`subset` and `sampling` cannot be combined"), "{both}");
}

#[test]
fn errors_name_the_type_of_a_field() {
    let scratch = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(packed(scratch.path())).unwrap();
    let mut loader = dataset.loader().batch_size(7).open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let said = |error: shardpack::Error| format!("{error:?}");
    let said_of = |result: Result<(), _>| said(shardpack::Error::from(result.unwrap_err() as shardpack_reader::Error));
    let ragged = said_of(batch.array::<u8, ndarray::Ix4>("image").map(drop));
    assert!(ragged.contains("rows of field `image` differ in shape"), "{ragged}");
    assert!(ragged.contains("\nhint: "), "{ragged}");
    let wrong = said_of(batch.slice::<f32>("label").map(drop));
    assert_eq!(wrong, "field `label` has elements of type int64, not float32");
    let axes = said_of(batch.array::<i64, ndarray::Ix2>("label").map(drop));
    assert_eq!(axes, "field `label` has the shape [7], but an array with 2 axes was requested");
    let none = said_of(batch.slice::<i64>("labels").map(drop));
    assert!(none.starts_with("there is no field `labels`: the fields of the batch are `"), "{none}");
    let image = batch.field("image").unwrap();
    let pixels: ArrayView3<u8> = image.row_array(6).unwrap();
    assert_eq!(pixels.shape()[2], 3);
    assert!(
        said_of(image.row_array::<u8, ndarray::Ix3>(7).map(drop))
            .contains("there is no row 7: field `image` has 7 rows")
    );

    let missing = Dataset::open(scratch.path().join("nowhere")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    let other = Dataset::open(scratch.path().join("src/cat/0.jpg")).unwrap_err();
    assert!(!other.hint().is_empty() && format!("{other:?}").ends_with(&other.hint()), "{other:?}");
}

#[test]
fn cubes_come_as_their_type() {
    let scratch = tempfile::tempdir().unwrap();
    let (src, out) = (scratch.path().join("src"), scratch.path().join("out"));
    crate::making::write_cubes(&src, 4);
    shardpack::pack(&src, &out, PackOptions::default()).unwrap();
    let dataset = Dataset::open(&out).unwrap();
    let cube = CubeMode::Patch { height: 2, width: 2, place: PatchPlace::Random };
    let dtype = shardpack::ArrayDtype::Cubes(shardpack::Dtype::F32.into());
    let mut loader = dataset.loader().batch_size(2).cube(cube).dtype(dtype).open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let cubes: ArrayView4<f32> = batch.array("cube").unwrap();
    assert_eq!(cubes.shape()[..3], [2, 2, 2]);
    let flat: &[f32] = batch.slice("cube").unwrap();
    assert_eq!(ArrayView1::from(flat).len(), cubes.len());
}

#[test]
fn the_readme_shows_the_loop_that_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let (readme, front) = (read("README.md"), read("src/lib.rs"));
    let (_, block) = readme.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let documented: String = block.lines().map(|line| format!("//! {line}").trim_end().to_owned() + "\n").collect();
    assert!(front.contains(&documented), "{documented}");
}

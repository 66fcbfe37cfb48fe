//! Tests combinations of datasets with different fields and classes. Fields are matched by name and masked where they
//! are missing. Labels are mapped to the classes of the whole combination.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Made, RowOf, base, record, said, schema, write_classes};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Field, FieldKind, Schema};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ImageMode, Loader};
use shardpack_reader::{Dataset, Scalar};

/// Classes of the photos, whose labels are `id % 10`.
const TEN: [&str; 10] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];
/// Classes of the scenes, whose labels are `id % 3`.
const THREE: [&str; 3] = ["c3", "new", "c0"];

fn made(id: u64) -> Made {
    Made { id, height: 16, width: 24, said_height: 16, half: false }
}

fn photos(classes: Option<&[&str]>) -> tempfile::TempDir {
    let dir = crate::support::scratch();
    write_classes(dir.path(), (&schema(), classes), &[4, 3], |schema, shard, id| {
        made(id).record_with(schema, shard, true)
    });
    dir
}

fn cubes_of(dtype: Dtype) -> (Schema, usize) {
    let fields = vec![
        Field::scalar("score", Dtype::F32),
        Field::stored("note", FieldKind::Text),
        Field::scalar("label", dtype),
        Field::stored("cube", FieldKind::Array),
    ];
    (Schema::new(fields).unwrap(), dtype.size())
}

/// Writes scenes. Their fields are in a different order than in the photos, without pictures and sizes.
fn scenes(classes: Option<&[&str]>, dtype: Dtype, label: impl Fn(u64) -> i64) -> tempfile::TempDir {
    let dir = crate::support::scratch();
    let (schema, width) = cubes_of(dtype);
    write_classes(dir.path(), (&schema, classes), &[2, 0, 3], |schema, shard, id| {
        let made = made(id + 100);
        let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![16, 24, 3]).encode().unwrap();
        let note = (Codec::Raw, format!("note {id}").into_bytes(), Vec::new(), None);
        let cube = (Codec::Raw, made.cube(), descriptor, None);
        let scalars = [&(id as f32).to_le_bytes()[..], &label(id).to_le_bytes()[..width]].concat();
        let (bytes, frame) = record(schema, (shard, id), &made.key(), &scalars, &[Some(note), Some(cube)]);
        (bytes, frame, made.key(), scalars)
    });
    dir
}

fn both() -> (tempfile::TempDir, tempfile::TempDir) {
    (photos(Some(&TEN)), scenes(Some(&THREE), Dtype::I64, |id| id as i64 % 3))
}

fn concat(dirs: &[&tempfile::TempDir]) -> Result<Dataset, String> {
    let datasets: Vec<Dataset> = dirs.iter().map(|dir| Dataset::open(dir.path()).unwrap()).collect();
    Dataset::concat(&datasets).map_err(|error| said(&error))
}

#[test]
fn fields_and_classes_are_matched_by_name() {
    let (a, b) = both();
    let union = concat(&[&a, &b]).unwrap();
    let names: Vec<&str> = union.schema().fields().iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["image", "cube", "label", "height", "width", "channels", "score", "note"]);
    let classes: Vec<&str> = union.classes().unwrap().iter().map(|name| &**name).collect();
    assert_eq!(classes, [&TEN[..], &["new"]].concat());
    assert_eq!(union.labels().unwrap(), [0, 1, 2, 3, 4, 5, 6, 3, 10, 0, 3, 10]);
    let score = union.column("score").unwrap().to_f64s();
    assert!(score[..7].iter().all(|value| value.is_nan()) && score[7..] == [0.0, 1.0, 2.0, 3.0, 4.0]);
    let height = union.column("height").unwrap();
    assert_eq!((height.value(6), height.value(7)), (Some(Scalar::Unsigned(16)), Some(Scalar::Unsigned(0xFFFF_FFFF))));
    let without = |field| union.without(field).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!((without("image"), without("note")), ((7..12).collect(), (0..7).collect()));
    assert!(union.without("cube").is_empty() && without("nothing").len() == 12);

    let (photo, scene) = (union.get(1).unwrap(), union.get(8).unwrap());
    assert_eq!(
        (photo.scalar("label").unwrap(), scene.scalar("label").unwrap()),
        (Scalar::Signed(1), Scalar::Signed(10))
    );
    assert_eq!((scene.text("note").unwrap(), scene.key()), ("note 1".into(), "sample-00101"));
    assert_eq!(scene.array("cube").unwrap().bytes(), made(101).cube());
    assert!(scene.field("image").unwrap().is_none() && photo.field("note").unwrap().is_none());
    assert_eq!(
        (scene.view().scalar_if_any("height").unwrap(), scene.view().scalar_if_any("score").unwrap()),
        (None, Some(Scalar::Float(1.0)))
    );
    let text = scene.scalar("height").unwrap_err().to_string();
    assert!(text.contains("sample `sample-00101` has no value for the field `height`"), "{text}");
    let streamed = union.iter().unwrap().map(|sample| sample.unwrap().scalar("label").unwrap().as_i64().unwrap());
    assert_eq!(streamed.collect::<Vec<_>>(), union.labels().unwrap());

    // Combined in reverse order, or nested in another union, the datasets have the same samples. Their labels refer to
    // a list of classes in a different order, but must name the same classes.
    let other = concat(&[&b, &a]).unwrap();
    let name = |dataset: &Dataset, label: i64| dataset.classes().unwrap()[label as usize].clone();
    let named =
        |dataset: &Dataset| dataset.labels().unwrap().iter().map(|&label| name(dataset, label)).collect::<Vec<_>>();
    assert_eq!(other.classes().unwrap()[..4], ["c3", "new", "c0", "c1"]);
    assert_eq!([&named(&union)[7..], &named(&union)[..7]].concat(), named(&other));
    let nested = Dataset::concat(&[other.clone(), union.clone()]).unwrap();
    assert_eq!(named(&nested), [named(&other), named(&union)].concat());
    assert_eq!(nested.without("image"), [0..5, 19..24]);
    assert_eq!(nested.get(23).unwrap().array("cube").unwrap().bytes(), made(104).cube());
}

#[test]
fn rows_without_a_value_are_masked() {
    let (a, b) = both();
    for dirs in [[&a, &b], [&b, &a]] {
        let union = concat(&dirs).unwrap();
        for image in ["center8".parse().unwrap(), ImageMode::Raw, "full".parse().unwrap()] {
            let options = base().batch_size(5).mode(Mode::Stored).end(End::Uneven).image(image).objects(["note"]);
            let mut loader = Loader::open(&union, options).unwrap();
            let mut rows = 0;
            while let Some(batch) = loader.next_batch() {
                let batch = batch.unwrap();
                let [image, cube, label, height, score] =
                    ["image", "cube", "label", "height", "score"].map(|name| batch.field(name).unwrap());
                let [has_image, has_label, has_height, has_score] =
                    [&image, &label, &height, &score].map(|field| field.mask().collect::<Vec<_>>());
                let notes = batch.objects("note").unwrap();
                assert!(batch.mask().iter().all(|&there| there) && cube.mask().all(|there| there));
                for (row, (key, &index)) in batch.keys().zip(batch.indices()).enumerate() {
                    let id: u64 = key["sample-".len()..].parse().unwrap();
                    let is_photo = id < 100;
                    assert_eq!(
                        [has_image[row], has_label[row], has_height[row], has_score[row]],
                        [is_photo, true, is_photo, !is_photo]
                    );
                    assert_eq!(cube.row_of(row), made(id).cube());
                    assert_eq!(label.row_of(row), union.labels().unwrap()[index as usize].to_le_bytes());
                    assert_eq!(image.row_of(row).iter().any(|&byte| byte != 0), is_photo, "{key}");
                    assert_eq!(height.row_of(row), if is_photo { 16_u32 } else { u32::MAX }.to_le_bytes());
                    let found = f32::from_le_bytes(score.row_of(row).try_into().unwrap());
                    assert!(if is_photo { found.is_nan() } else { found == (id - 100) as f32 });
                    assert_eq!(notes[row].is_some(), !is_photo);
                    rows += 1;
                }
            }
            assert_eq!(rows, 12);
        }
    }
}

#[test]
fn fields_that_do_not_match_are_an_error() {
    let photos = photos(Some(&TEN));
    let dir = crate::support::scratch();
    let schema = Schema::new(vec![Field::stored("image", FieldKind::Array)]).unwrap();
    write_classes(dir.path(), (&schema, None), &[], |_, _, _| unreachable!());
    let text = concat(&[&photos, &dir]).unwrap_err();
    assert!(text.contains("field `image` is of kind `image` in `"), "{text}");
    assert!(text.contains("`, but of kind `array` in `") && text.contains("\nhint: "), "{text}");
    let nameless = scenes(None, Dtype::I64, |_| 0);
    let text = concat(&[&photos, &nameless]).unwrap_err();
    assert!(text.contains("have class names, but the labels of `") && text.contains("have none"), "{text}");
    // A label that is not in its dataset's list of classes is an error, because it could be any class of the union. A
    // label below 0 is accepted, because it means that there is no class.
    let stray = scenes(Some(&THREE), Dtype::I64, |id| if id == 3 { 3 } else { -1 });
    let union = concat(&[&photos, &stray]).unwrap();
    let text = union.labels().unwrap_err().to_string();
    assert!(
        text.contains("sample `sample-00103`") && text.contains("field `label`: expected a class number below 3"),
        "{text}"
    );
    assert_eq!(union.get(7).unwrap().scalar("label").unwrap(), Scalar::Signed(-1));
    let narrow = scenes(Some(&THREE), Dtype::U8, |id| id as i64 % 3);
    let many: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    let wide = crate::support::scratch();
    write_classes(wide.path(), (&cubes_of(Dtype::U8).0, Some(&many)), &[], |_, _, _| unreachable!());
    let text = concat(&[&wide, &narrow]).unwrap_err();
    assert!(text.contains("uint8 cannot hold class 302: the datasets together have 303 classes"), "{text}");
    let fewer = crate::support::scratch();
    write_classes(fewer.path(), (&cubes_of(Dtype::U8).0, Some(&many[..250])), &[], |_, _, _| unreachable!());
    assert_eq!(concat(&[&fewer, &narrow]).unwrap().labels().unwrap(), [250, 251, 252, 250, 251]);
}

#[test]
fn arrays_of_a_different_shape_or_type_are_an_error_when_loaded() {
    let dir = crate::support::scratch();
    let (schema, _) = cubes_of(Dtype::I64);
    write_classes(dir.path(), (&schema, None), &[2], |schema, shard, id| {
        let descriptor = ArrayDescriptor::plain(Dtype::U16, vec![4, 4, 3]).encode().unwrap();
        let cube = (Codec::Raw, vec![0; 96], descriptor, None);
        let note = (Codec::Raw, Vec::new(), Vec::new(), None);
        let (scalars, key) = (vec![0; 12], format!("small-{id}"));
        let (bytes, frame) = record(schema, (shard, id), &key, &scalars, &[Some(note), Some(cube)]);
        (bytes, frame, key, scalars)
    });
    let large = scenes(None, Dtype::I64, |_| 0);
    let union = concat(&[&large, &dir]).unwrap();
    let options = |fields: &str| base().batch_size(2).fields([fields]);
    let text = Loader::open(&union, options("cube")).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("cannot batch field `cube`: its arrays differ in shape"), "{text}");
    assert!(Loader::open(&union, options("label")).is_ok());
}

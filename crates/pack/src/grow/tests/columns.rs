//! Tests columns that are added to a dataset: their values, and what later changes do with them.

use super::*;
use crate::salvage::{SalvageOptions, Survey, restore_manifest};
use shardpack_format::Dtype;
use shardpack_reader::{ArrayDecoder, Shard};

const NAMES: [&str; 5] = ["src/a/1.jpg", "src/a/2.jpg", "src/b/1.jpg", "src/b/2.jpg", "src/b/3.jpg"];

/// The values of two columns, in the order of the rows: a score, and an embedding of four numbers.
struct Rows {
    scores: Vec<u8>,
    embeddings: Vec<u8>,
}

impl Rows {
    fn new(rows: impl IntoIterator<Item = u64> + Clone) -> Self {
        let scores = rows.clone().into_iter().flat_map(|row| score(row).to_le_bytes()).collect();
        Self { scores, embeddings: rows.into_iter().flat_map(embedding).flat_map(f32::to_le_bytes).collect() }
    }

    fn columns(&self) -> [NewColumn<'_>; 2] {
        [
            NewColumn { name: "score".into(), dtype: Dtype::F64, shape: vec![], bytes: &self.scores },
            NewColumn { name: "embedding".into(), dtype: Dtype::F32, shape: vec![4], bytes: &self.embeddings },
        ]
    }
}

fn several_shards() -> PackOptions {
    PackOptions { shard_bytes: 1500, ..small() }
}

fn score(row: u64) -> f64 {
    row as f64 / 8.0
}

fn embedding(row: u64) -> [f32; 4] {
    [0.0, 1.0, 2.0, 3.0].map(|n| row as f32 + n / 7.0)
}

impl Place {
    fn add_columns(&self, columns: &[NewColumn<'_>], keys: Option<&[String]>) -> crate::Result<ColumnsReport> {
        let new = NewColumns { columns, keys, generation: None };
        add_columns(&self.path("out"), &new, &RewriteOptions { threads: 2, ..Default::default() })
    }

    /// Packs five photos into several shards, and adds columns to them.
    fn packed_with_columns(&self) -> ColumnsReport {
        self.photos(0, &NAMES);
        self.pack(&several_shards());
        self.add_columns(&Rows::new(0..5).columns(), None).unwrap()
    }
}

/// Checks the values of samples. `row` returns the row of the sample at this position.
fn check(dataset: &Dataset, row: impl Fn(u64) -> u64) {
    let scores = dataset.column("score").unwrap().to_f64s();
    let samples: Vec<_> = dataset.iter().unwrap().map(|sample| sample.unwrap()).collect();
    let mut stream = dataset.stream().unwrap();
    assert_eq!(samples.len() as u64, dataset.len());
    for (i, sample) in (0..).zip(samples) {
        let (row, i) = (row(i), usize::try_from(i).unwrap());
        let expected: Vec<u8> = embedding(row).into_iter().flat_map(f32::to_le_bytes).collect();
        assert_eq!(scores[i], score(row));
        assert_eq!(sample.scalar("score").unwrap().as_f64(), score(row));
        assert_eq!((sample.key(), sample.array("embedding").unwrap().bytes()), (sample.key(), &expected[..]));
        let view = stream.next_record().unwrap().unwrap();
        assert_eq!(view.array("embedding", &mut ArrayDecoder::new()).unwrap().bytes(), expected);
        assert!(!view.image("image").unwrap().bytes.is_empty());
        let again = dataset.get(i as u64).unwrap();
        assert_eq!(again.array("embedding").unwrap().shape(), [4]);
    }
    let all: Vec<u64> = (0..dataset.len()).collect();
    assert_eq!(dataset.get_many(&all).unwrap()[0].array("embedding").unwrap().bytes().len(), 16);
}

fn files(place: &Place) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn columns_are_added_without_rewriting_a_shard() {
    let place = Place::new();
    place.photos(0, &NAMES);
    place.pack(&several_shards());
    let before = files(&place);
    let report = place.add_columns(&Rows::new(0..5).columns(), None).unwrap();
    let shards = place.open(Some(1)).shards().len();
    assert!(shards > 1);
    assert_eq!((report.generation, report.samples, report.files as usize), (2, 5, shards));
    assert_eq!(report.fields, ["score", "embedding"]);
    let after = files(&place);
    for (name, bytes) in before.iter().filter(|(name, _)| name.ends_with(".shard")) {
        assert_eq!(after.get(name), Some(bytes), "{name}");
    }
    assert_eq!(after["manifest-0001.json"], before["manifest.json"]);
    let (old, new) = (place.open(Some(1)), place.open(None));
    check(&new, |i| i);
    assert!(old.column("score").is_err() && new.manifest().unwrap().schema == *old.schema());
    assert_ne!(old.version_id(), new.version_id());
    let names: Vec<&str> = new.schema().fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["score", "embedding"]);
    place.verify(2);
    // A columns file on its own has only the new fields.
    let alone = Dataset::open(place.path("out/columns-00000-0002.shard")).unwrap();
    assert_eq!(alone.schema().fields().len(), 2);
}

#[test]
fn rows_are_matched_by_key() {
    let place = Place::new();
    place.photos(0, &NAMES);
    place.pack(&small());
    let dataset = place.open(None);
    let order = [3, 0, 4, 1, 2];
    let keys: Vec<String> = order.iter().map(|&i| dataset.key(i).unwrap()).collect();
    let rows = Rows::new(order);
    place.add_columns(&rows.columns(), Some(&keys)).unwrap();
    check(&place.open(None), |i| i);
    let wrong = |keys: &[&str]| {
        let keys = super::keys(keys);
        let rows = Rows::new(0..keys.len() as u64);
        let [mut score, _] = rows.columns();
        score.name = "other".into();
        place.add_columns(&[score], Some(&keys)).unwrap_err().to_string()
    };
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let error = wrong(&[keys[0], keys[1], keys[2], keys[3], keys[3]]);
    assert!(error.contains(&format!("lacks 1 key (`{}`), and it repeats 1 key (`{}`)", keys[4], keys[3])), "{error}");
    let error = wrong(&[keys[0], keys[1], keys[2], keys[3], keys[4], "c/1.jpg"]);
    assert!(error.contains("it has 1 unknown key (`c/1.jpg`)"), "{error}");
    assert_eq!(place.open(None).generation(), 2);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let place = Place::new();
    place.packed_with_columns();
    let rows = Rows::new(0..5);
    let [score, embedding] = rows.columns();
    let error = |columns: &[NewColumn<'_>]| place.add_columns(columns, None).unwrap_err().to_string();
    assert_eq!(error(&[]), "there are no columns to add");
    assert!(error(&[embedding]).contains("generation 2 has a field with this name"));
    for name in ["channels", "key", "embedding.quality"] {
        let named = NewColumn { name: name.into(), ..score.clone() };
        assert!(error(&[named]).contains("this name is reserved"), "{name}");
    }
    let other = NewColumn { name: "other".into(), ..score.clone() };
    assert!(error(&[other.clone(), other.clone()]).contains("occurs twice"));
    let short = NewColumn { bytes: &rows.scores[8..], ..other.clone() };
    assert!(error(&[short]).contains("have 40 bytes, but 32 were given"));
    let new = NewColumns { columns: std::slice::from_ref(&other), keys: None, generation: Some(1) };
    let stale = add_columns(&place.path("out"), &new, &RewriteOptions::default()).unwrap_err().to_string();
    assert!(stale.contains("belong to generation 1, but the newest generation is 2"), "{stale}");
    // A second addition keeps the first.
    assert_eq!(place.add_columns(&[other], None).unwrap().generation, 3);
    let dataset = place.open(None);
    assert_eq!(dataset.column("other").unwrap(), dataset.column("score").unwrap());
    check(&dataset, |i| i);
    place.verify(3);
}

#[test]
fn adding_equal_columns_again_adds_nothing() {
    let place = Place::new();
    let report = place.packed_with_columns();
    let rows = Rows::new(0..5);
    let repeated = || place.add_columns(&rows.columns(), None).unwrap();
    let before = files(&place);
    assert_eq!(repeated(), ColumnsReport { files: 0, bytes_out: 0, ..report.clone() });
    assert_eq!(files(&place), before);
    // By key, in another order.
    let (dataset, order) = (place.open(None), [3, 0, 4, 1, 2]);
    let keys: Vec<String> = order.iter().map(|&i| dataset.key(i).unwrap()).collect();
    assert_eq!(place.add_columns(&Rows::new(order).columns(), Some(&keys)).unwrap().files, 0);
    // A program that repeats the call still has the generation before it.
    let again = |columns: &[NewColumn<'_>], generation: u32| {
        let new = NewColumns { columns, keys: None, generation: Some(generation) };
        add_columns(&place.path("out"), &new, &RewriteOptions::default())
    };
    assert_eq!(again(&rows.columns(), 1).unwrap().files, 0);
    let stale = again(&Rows::new(1..6).columns(), 1).unwrap_err().to_string();
    assert!(stale.contains("belong to generation 1, but the newest generation is 2"), "{stale}");
    // Other columns have been added since, one of them with a NaN and a negative zero.
    let odd =
        [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::from_bits(0x7ff0_0000_0000_0001)].map(f64::to_le_bytes).concat();
    let odd = NewColumn { name: "odd".into(), dtype: Dtype::F64, shape: vec![], bytes: &odd };
    let list = NewColumn { name: "list".into(), shape: vec![1], ..odd.clone() };
    let both = [odd.clone(), list];
    assert_eq!(place.add_columns(&both, None).unwrap().generation, 3);
    assert_eq!(place.add_columns(&both, None).unwrap(), ColumnsReport { files: 0, ..again(&both, 3).unwrap() });
    assert_eq!((repeated().generation, again(&rows.columns(), 1).unwrap().generation), (3, 3));
    // The generation that the rows belong to is gone, so they may belong to other samples.
    compact(&place.path("out")).unwrap();
    let stale = again(&rows.columns(), 1).unwrap_err().to_string();
    assert!(stale.contains("belong to generation 1, but the newest generation is 3"), "{stale}");
    assert_eq!(repeated().files, 0);
}

#[test]
fn other_columns_of_the_same_name_are_refused() {
    let place = Place::new();
    place.packed_with_columns();
    let before = files(&place);
    let refused = |columns: &[NewColumn<'_>], keys: Option<&[String]>| {
        let error = place.add_columns(columns, keys).unwrap_err().to_string();
        assert!(error.contains("generation 2 has a field with this name"), "{error}");
    };
    let rows = Rows::new(0..5);
    let [score, embedding] = rows.columns();
    for at in [0, rows.embeddings.len() - 1] {
        let mut bytes = rows.embeddings.clone();
        bytes[at] ^= 1;
        refused(&[score.clone(), NewColumn { bytes: &bytes, ..embedding.clone() }], None);
    }
    for at in [0, rows.scores.len() - 1] {
        let mut bytes = rows.scores.clone();
        bytes[at] ^= 1;
        refused(&[NewColumn { bytes: &bytes, ..score.clone() }, embedding.clone()], None);
    }
    refused(&[score.clone(), NewColumn { dtype: Dtype::I32, ..embedding.clone() }], None);
    refused(&[score.clone(), NewColumn { shape: vec![2, 2], ..embedding.clone() }], None);
    refused(&[NewColumn { dtype: Dtype::U64, ..score.clone() }, embedding.clone()], None);
    // Fewer values, other keys, and only a part of the addition.
    refused(&[NewColumn { bytes: &rows.scores[8..], ..score.clone() }, embedding.clone()], None);
    refused(&[score.clone(), embedding.clone()], Some(&keys(&["a", "b", "c", "d", "e"])));
    refused(std::slice::from_ref(&score), None);
    assert_eq!(files(&place), before);
    // Values that cannot be read cannot be compared.
    let path = place.path("out/columns-00000-0002.shard");
    let row = Shard::open(&path, Default::default()).unwrap().row(0).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(row.offset + row.length).unwrap() - 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = place.add_columns(&[score, embedding], None).unwrap_err().to_string();
    assert!(error.contains("columns-00000-0002.shard") && error.contains("CRC32"), "{error}");
}

#[test]
fn samples_are_not_added_to_a_dataset_with_columns() {
    let place = Place::new();
    place.packed_with_columns();
    place.photo("more/a/9.jpg", 9);
    let before = files(&place);
    let error = place.add("more", &AddOptions::default()).unwrap_err();
    assert!(error.to_string().contains("columns that were added later (`score`, `embedding`)"), "{error}");
    assert!(error.hint().contains("concat"), "{error:?}");
    let files = files(&place);
    assert_eq!(files.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[test]
fn removal_stores_the_columns_in_the_shards() {
    let place = Place::new();
    place.packed_with_columns();
    let dataset = place.open(None);
    let (gone, shards) = (dataset.key(2).unwrap(), dataset.shards().len());
    let report = remove(&place.path("out"), &[gone], &RewriteOptions::default()).unwrap();
    assert_eq!((report.samples, report.generation, report.shards as usize), (4, 3, shards));
    assert!(report.notes.iter().any(|note| note.contains("columns")), "{:?}", report.notes);
    let newest = place.open(None);
    assert!(newest.manifest().unwrap().columns.is_empty());
    assert_eq!(newest.schema(), dataset.schema());
    check(&newest, |i| if i < 2 { i } else { i + 1 });
    place.verify(3);
    // The new generation uses no columns file, so compacting deletes them.
    let compacted = compact(&place.path("out")).unwrap();
    assert_eq!(compacted.generations, [1, 2]);
    assert!(!files(&place).keys().any(|name| name.starts_with("columns-")), "{compacted:?}");
    check(&place.open(None), |i| if i < 2 { i } else { i + 1 });
}

#[test]
fn compacting_keeps_the_columns_of_the_newest_generation() {
    let place = Place::new();
    place.packed_with_columns();
    let compacted = compact(&place.path("out")).unwrap();
    assert_eq!((compacted.generations, compacted.shards), (vec![1], vec![]));
    check(&place.open(None), |i| i);
    place.verify(0);
}

#[test]
fn segment_indexes_are_added_beside_the_columns() {
    let place = Place::new();
    place.photos(0, &NAMES);
    place.pack(&kept());
    place.add_columns(&Rows::new(0..5).columns(), None).unwrap();
    let report = add_indexes(&place.path("out"), &RewriteOptions::default()).unwrap();
    assert_eq!((report.generation, report.shards), (3, 1));
    let newest = place.open(None);
    assert!(newest.manifest().unwrap().columns.is_empty());
    check(&newest, |i| i);
    place.verify(3);
}

#[test]
fn a_concatenation_has_the_columns_of_each_dataset() {
    let place = Place::new();
    place.packed_with_columns();
    let (old, new) = (place.open(Some(1)), place.open(None));
    let both = Dataset::concat(&[old.clone(), new.clone()]).unwrap();
    assert_eq!(both.schema(), new.schema());
    assert_eq!(both.without("embedding"), vec![0..5]);
    let scores = both.column("score").unwrap().to_f64s();
    assert!(scores[..5].iter().all(|score| score.is_nan()));
    assert_eq!(scores[5..], [0, 1, 2, 3, 4].map(score));
    assert_eq!(both.get(2).unwrap().field("embedding").unwrap(), None);
    assert_eq!(both.get(7).unwrap().array("embedding").unwrap(), new.get(2).unwrap().array("embedding").unwrap());
}

#[test]
fn files_that_do_not_belong_together_are_noticed() {
    let place = Place::new();
    place.packed_with_columns();
    let sound = files(&place);
    let manifest = |from: &str, to: &str| {
        let text = String::from_utf8(sound["manifest.json"].clone()).unwrap();
        assert!(text.contains(from), "{text}");
        place.write("out/manifest.json", text.replacen(from, to, 1));
    };
    let refused = |expected: &str| {
        let opened = Dataset::open(place.path("out")).and_then(|dataset| dataset.shard(0).map(drop));
        assert!(opened.is_err(), "{expected}");
        let report = verify(place.path("out"), &VerifyOptions { digest: true, ..Default::default() }).unwrap();
        assert!(report.problems.iter().any(|problem| problem.to_string().contains(expected)), "{:?}", report.problems);
        for (name, bytes) in &sound {
            place.write(&format!("out/{name}"), bytes);
        }
    };
    manifest("columns-00000-0002", "columns-00001-0002");
    refused("twice");
    // The files of two shards are exchanged.
    place.write("out/columns-00000-0002.shard", &sound["columns-00001-0002.shard"]);
    refused("shard number");
    fs::remove_file(place.path("out/columns-00000-0002.shard")).unwrap();
    refused("columns-00000-0002.shard");
    let mut damaged = sound["columns-00000-0002.shard"].clone();
    let at = damaged.len() - 8;
    damaged[at] ^= 1;
    place.write("out/columns-00000-0002.shard", damaged);
    refused("footer");
    assert!(verify(place.path("out"), &VerifyOptions::default()).unwrap().is_whole());
}

#[test]
fn damage_to_a_value_affects_only_its_sample() {
    let place = Place::new();
    place.packed_with_columns();
    let path = place.path("out/columns-00000-0002.shard");
    let file = Shard::open(&path, Default::default()).unwrap();
    let row = file.row(0).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(row.offset + row.length).unwrap() - 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    let dataset = place.open(None);
    let error = dataset.get(0).unwrap_err().to_string();
    assert!(error.contains("columns-00000-0002.shard") && error.contains("CRC32"), "{error}");
    assert!(dataset.get(dataset.samples_in(1).start).is_ok() && dataset.column("score").is_ok());
    let mut stream = dataset.stream().unwrap();
    assert!(stream.next_record().unwrap().is_err() && stream.next_record().unwrap().is_ok());
    let report = verify(place.path("out"), &VerifyOptions::default()).unwrap();
    assert_eq!((report.damaged_samples, report.samples, report.problems.len()), (1, 5, 1));
}

#[test]
fn a_columns_file_alone_is_not_salvaged() {
    let place = Place::new();
    place.packed_with_columns();
    let scan = |path: &str| Survey::scan(&place.path(path), &SalvageOptions::default(), &AtomicBool::new(false));
    let survey = scan("out").unwrap();
    assert_eq!((survey.samples(), survey.places_lost()), (5, 0), "{:?}", survey.lost);
    assert!(survey.notes.iter().any(|note| note.text.contains("columns files")), "{:?}", survey.notes);
    let error = scan("out/columns-00001-0002.shard").unwrap_err();
    assert!(error.to_string().contains("is a columns file: it has columns that were added to the samples of shard 1"));
    // The manifest of a generation is restored from its copy, with the columns.
    let before = fs::read(place.path("out/manifest.json")).unwrap();
    fs::remove_file(place.path("out/manifest.json")).unwrap();
    restore_manifest(&place.path("out"), &SalvageOptions::default()).unwrap();
    assert_eq!(fs::read(place.path("out/manifest.json")).unwrap(), before);
    // Without any manifest, the first generation is rebuilt from the shards.
    for name in ["manifest.json", "manifest-0001.json", "manifest-0002.json"] {
        fs::remove_file(place.path("out").join(name)).unwrap();
    }
    let all = SalvageOptions { all_generations: true, ..SalvageOptions::default() };
    let restored = restore_manifest(&place.path("out"), &all).unwrap();
    assert_eq!(restored.rebuilt.manifest.samples, 5);
    assert!(restored.rebuilt.left_out.iter().all(|(_, why)| why.to_string().contains("columns file")));
    assert!(place.open(None).column("score").is_err());
}

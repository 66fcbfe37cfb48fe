//! Tests salvaging and verifying datasets with several generations.

use super::*;
use crate::salvage::{SalvageOptions, Survey, restore_manifest};
use shardpack_format::{ErrorKind, Explain, Note};
use shardpack_io::{FailingStorage, Failure, MemoryStorage};
use std::path::Path;
use std::sync::Arc;

#[test]
fn generations_that_are_whole_lose_nothing_when_salvaged() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg", "src/c.jpg"]);
    place.pack(&kept());
    place.photo("week/d.jpg", 4);
    place.add("week", &AddOptions::default()).unwrap();
    let out = place.path("out");
    let all = SalvageOptions { all_generations: true, ..SalvageOptions::default() };
    let scan = |options: &SalvageOptions| Survey::scan(&out, options, &AtomicBool::new(false)).unwrap();
    let newest = SalvageOptions::default();
    let survey = scan(&newest);
    let texts = |notes: &[Note]| notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>();
    let by = |name: &str, n: u32| format!("using generation {n}, as listed in `{name}`");
    let notes = texts(&survey.notes);
    assert_eq!((survey.samples(), survey.places_lost(), notes), (4, 0, vec![by("manifest.json", 2)]));
    remove(&out, &keys(&["a.jpg"]), &RewriteOptions::default()).unwrap();
    let survey = scan(&newest);
    assert_eq!((survey.samples(), survey.places_lost()), (3, 0), "{:?}", survey.lost);
    assert!(survey.notes[0].text.starts_with("left out 1 shard of older generations"), "{:?}", survey.notes);
    let survey = scan(&all);
    assert_eq!((survey.samples(), survey.places_lost()), (4, 0), "{:?}", survey.lost);
    assert!(survey.notes[0].text.starts_with("samples are also copied from "), "{:?}", survey.notes);
    // If two samples have the same key, the newer one is kept, because it replaced the older one.
    place.photo("next/a.jpg", 9);
    place.add("next", &AddOptions::default()).unwrap();
    assert_eq!(scan(&newest).places_lost(), 0);
    let mut survey = scan(&all);
    assert_eq!((survey.samples(), survey.places_lost()), (4, 1), "{:?}", survey.lost);
    assert!(survey.lost[0].contains("sample key `a.jpg` occurs twice"), "{:?}", survey.lost);
    let saved = place.path("saved");
    survey.write(&saved, &Limits::default(), &shardpack_writer::WriteOptions::default()).unwrap();
    let bytes = |dataset: &Dataset| {
        let index = dataset.by_key("a.jpg").unwrap().unwrap();
        dataset.get(index).unwrap().field("image").unwrap().unwrap().bytes.to_vec()
    };
    assert_eq!(bytes(&Dataset::open(&saved).unwrap()), bytes(&place.open(None)));
    // A lost manifest is restored byte for byte from its copy.
    let (path, before) = (out.join("manifest.json"), fs::read(out.join("manifest.json")).unwrap());
    for lost in [None, Some(b"{".as_slice())] {
        fs::remove_file(&path).unwrap();
        if let Some(bytes) = lost {
            fs::write(&path, bytes).unwrap();
        }
        let notes = texts(&scan(&newest).notes);
        assert!(notes.contains(&by("manifest-0004.json", 4)), "{notes:?}");
        let restored = restore_manifest(&out, &newest).unwrap();
        assert_eq!(texts(&restored.notes), [by("manifest-0004.json", 4)]);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    fs::remove_file(out.join("manifest.json.damaged")).unwrap();
    for (generation, notes) in [
        (1, "not verified: 3 shards belong only to other generations (first: `shard-00000-0003.shard`)"),
        (2, "not verified: 2 shards belong only to other generations (first: `shard-00000-0003.shard`)"),
        (4, "not verified: 1 shard belongs only to other generations (first: `shard-00000.shard`)"),
    ] {
        fs::write(out.join("extra.shard"), "").unwrap();
        let report = verify(&out, &VerifyOptions { generation: Some(generation), ..Default::default() }).unwrap();
        assert_eq!(report.notes, [notes, "not verified: `extra.shard` is not in the manifest"]);
    }
}

/// Creates a dataset with three samples, two of them remaining in its second generation.
fn withdrawn() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg", "src/c.jpg"]);
    place.pack(&kept());
    let out = place.path("out");
    remove(&out, &keys(&["a.jpg"]), &RewriteOptions::default()).unwrap();
    (place, out)
}

type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn removed_samples_stay_away_whatever_became_of_the_manifest() {
    let damages: [Damage<'_>; 7] = [
        ("cut", &|out| fs::write(out.join("manifest.json"), "{\"format\": \"shar").unwrap()),
        ("lost", &|out| fs::remove_file(out.join("manifest.json")).unwrap()),
        ("older", &|out| fs::copy(out.join("manifest-0001.json"), out.join("manifest.json")).map(drop).unwrap()),
        ("its generation changed", &|out| {
            edit(&out.join("manifest.json"), "shardpack_generation", "shardpack_generatiom")
        }),
        ("the name of its shard changed", &|out| {
            edit(&out.join("manifest.json"), "shard-00000-0002.shard", "shard-00000.shard");
        }),
        ("the newest one that is kept lost", &|out| fs::remove_file(out.join("manifest-0002.json")).unwrap()),
        ("the newest one that is kept cut", &|out| fs::write(out.join("manifest-0002.json"), "{").unwrap()),
    ];
    for (what, damage) in damages {
        let (place, out) = withdrawn();
        damage(&out);
        let mut survey = Survey::scan(&out, &SalvageOptions::default(), &AtomicBool::new(false)).expect(what);
        assert_eq!((survey.samples(), survey.places_lost()), (2, 0), "{what}: {:?}", survey.lost);
        let saved = place.path("saved");
        survey.write(&saved, &Limits::default(), &shardpack_writer::WriteOptions::default()).unwrap();
        assert!(Dataset::open(&saved).unwrap().by_key("a.jpg").unwrap().is_none(), "{what}");
        restore_manifest(&out, &SalvageOptions::default()).expect(what);
        assert!(Dataset::open(&out).unwrap().by_key("a.jpg").unwrap().is_none(), "{what}");
    }
}

#[test]
fn without_the_newest_manifest_nothing_is_salvaged_unless_all_generations_are_wanted() {
    let both = |out: &Path| {
        fs::remove_file(out.join("manifest.json")).unwrap();
        fs::remove_file(out.join("manifest-0002.json")).unwrap();
    };
    let damages: [Damage<'_>; 4] = [
        ("an older one is left", &both),
        ("an older one has its name", &|out| {
            fs::copy(out.join("manifest-0001.json"), out.join("manifest.json")).unwrap();
            fs::write(out.join("manifest-0002.json"), "{").unwrap();
        }),
        ("one of another number has its name", &|out| {
            fs::copy(out.join("manifest-0001.json"), out.join("manifest-0002.json")).unwrap();
            fs::remove_file(out.join("manifest.json")).unwrap();
        }),
        ("none is left", &|out| {
            both(out);
            fs::remove_file(out.join("manifest-0001.json")).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let (_place, out) = withdrawn();
        damage(&out);
        let scan = |all_generations| {
            let options = SalvageOptions { all_generations, ..SalvageOptions::default() };
            Survey::scan(&out, &options, &AtomicBool::new(false))
        };
        let error = scan(false).expect_err(what);
        let text = error.to_string();
        assert!(text.contains("it is unknown which samples were removed"), "{what}: {text}");
        let hint = error.hints().remove(0);
        assert_eq!(hint.options().collect::<Vec<_>>(), ["all_generations"], "{what}");
        assert!(restore_manifest(&out, &SalvageOptions::default()).is_err(), "{what}");
        let survey = scan(true).unwrap();
        assert_eq!(survey.samples(), 3, "{what}");
        assert!(survey.notes[0].text.starts_with("removed samples may be copied too"), "{what}");
    }
}

fn edit(path: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(old));
    fs::write(path, text.replacen(old, new, 1)).unwrap();
}

#[test]
fn a_damaged_dataset_in_a_store_is_salvaged_and_an_outage_is_no_damage() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg", "src/c.jpg", "src/d.jpg", "src/e.jpg", "src/f.jpg"]);
    place.pack(&PackOptions { shard_bytes: 1500, ..kept() });
    let out = place.path("out");
    let shards = place.open(None).shards().len();
    assert!(shards > 2);
    // One shard is missing, and a record of another is damaged.
    fs::remove_file(out.join("shard-00001.shard")).unwrap();
    let damaged = out.join("shard-00000.shard");
    let row = shardpack_reader::Shard::open(&damaged, Default::default()).unwrap().row(0).unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[usize::try_from(row.offset + row.length / 2).unwrap()] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let memory = MemoryStorage::of_folder(&out);
    let memory = Arc::new(MemoryStorage::new("s3://bucket/train", memory.objects().clone()));
    let (options, cancel) = (SalvageOptions::default(), AtomicBool::new(false));
    let scan = |failing: Arc<FailingStorage>, name| Survey::scan_in(failing, name, &options, &cancel);
    let mut here = Survey::scan(&out, &options, &cancel).unwrap();
    let counted = FailingStorage::new(&memory, Failure::None);
    let mut there = scan(Arc::clone(&counted), None).unwrap();
    let moved = |lost: &[String]| -> Vec<String> {
        lost.iter().map(|lost| lost.replace(&*out.to_string_lossy(), "s3://bucket/train")).collect()
    };
    assert_eq!((there.samples(), there.lost.len()), (here.samples(), here.lost.len()));
    assert_eq!(there.lost.last(), moved(&here.lost).last());
    assert!(here.samples() > 0 && there.lost.iter().any(|lost| lost.contains("shard-00001.shard")), "{:?}", there.lost);
    // The copies are the same in every byte.
    let write = |survey: &mut Survey, to: &str| {
        survey.write(&place.path(to), &Limits::default(), &shardpack_writer::WriteOptions::default()).unwrap();
        MemoryStorage::of_folder(&place.path(to)).objects().clone()
    };
    assert!(write(&mut here, "here") == write(&mut there, "there"));
    // A single shard.
    assert_eq!(scan(Arc::clone(&counted), Some("shard-00002.shard")).unwrap().places_lost(), 0);
    let requests = FailingStorage::new(&memory, Failure::None);
    scan(Arc::clone(&requests), None).unwrap();
    for failure in Failure::all(requests.requests()) {
        let failing = FailingStorage::new(&memory, failure);
        match (scan(Arc::clone(&failing), None), failure) {
            (Err(error), _) => assert_eq!(error.kind(), ErrorKind::Io, "{failure:?}: {error}"),
            // The response that is lost may be that a file does not exist.
            (Ok(survey), Failure::Unanswered(_) | Failure::KilledAfter(_)) => {
                let found = (survey.samples(), survey.lost, survey.damage, survey.notes);
                assert_eq!(found, (there.samples(), there.lost.clone(), there.damage.clone(), there.notes.clone()));
            }
            (Ok(_), _) => panic!("{failure:?}: an outage is taken for damage"),
        }
        if let Failure::Once(at) | Failure::KilledBefore(at) = failure {
            assert_eq!(failing.requests(), at + 1, "{failure:?}: requests follow the one that failed");
        }
    }
}

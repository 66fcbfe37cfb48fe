//! Generations, salvaged and verified.

use super::*;

#[test]
fn generations_that_are_whole_lose_nothing_when_salvaged() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg", "src/c.jpg"]);
    place.pack(&kept());
    place.photo("week/d.jpg", 4);
    place.add("week", &AddOptions::default()).unwrap();
    let out = place.path("out");
    let scan = || crate::salvage::Survey::scan(&out, &Limits::default(), &AtomicBool::new(false)).unwrap();
    assert_eq!((scan().samples(), scan().places_lost(), scan().notes), (4, 0, Vec::new()));
    remove(&out, &keys(&["a.jpg"]), &RemoveOptions::default()).unwrap();
    let survey = scan();
    assert_eq!((survey.samples(), survey.places_lost()), (4, 0), "{:?}", survey.lost);
    assert!(survey.notes[0].starts_with("1 shard of older generations copied as well"), "{:?}", survey.notes);
    // A sample that took the place of one is the one that is kept.
    place.photo("next/a.jpg", 9);
    place.add("next", &AddOptions::default()).unwrap();
    let mut survey = scan();
    assert_eq!((survey.samples(), survey.places_lost()), (4, 1), "{:?}", survey.lost);
    assert!(survey.lost[0].contains("sample `a.jpg`: there twice"), "{:?}", survey.lost);
    let saved = place.path("saved");
    survey.write(&saved, &Limits::default(), &shardpack_writer::WriteOptions::default()).unwrap();
    let bytes = |dataset: &Dataset| {
        let index = dataset.by_key("a.jpg").unwrap().unwrap();
        dataset.get(index).unwrap().field("image").unwrap().unwrap().bytes.to_vec()
    };
    assert_eq!(bytes(&Dataset::open(&saved).unwrap()), bytes(&place.open(None)));
    // The shards alone do not tell which of them the newest generation has.
    let error = crate::salvage::restore_manifest(&out, &Limits::default()).unwrap_err();
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<shardpack_reader::Error>()?.hint()).unwrap();
    assert!(hint.to_string().contains("copy `manifest-0004.json` over `manifest.json`"), "{hint}");
    for (generation, notes) in [
        (1, "3 shards are of other generations alone: not verified (first: `shard-00000-0003.shard`)"),
        (2, "2 shards are of other generations alone: not verified (first: `shard-00000-0003.shard`)"),
        (4, "1 shard is of other generations alone: not verified (first: `shard-00000.shard`)"),
    ] {
        fs::write(out.join("extra.shard"), "").unwrap();
        let report = verify(&out, &VerifyOptions { generation: Some(generation), ..Default::default() }).unwrap();
        assert_eq!(report.notes, [notes, "`extra.shard` is not in the manifest: not verified"]);
    }
}

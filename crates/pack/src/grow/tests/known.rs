//! Tests adding samples whose keys are already in the dataset.

use super::*;

#[test]
fn keys_that_are_there_are_refused_by_name_or_left_out() {
    let place = Place::new();
    place.photos(1, &["src/a.jpg", "src/b.jpg"]);
    place.pack(&small());
    place.photos(3, &["week/b.jpg", "week/c.jpg"]);
    let error = place.add("week", &AddOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("1 of 2 new samples") && error.contains("`b.jpg`"), "{error}");
    assert_eq!(place.open(None).generation(), 1);
    let skip = AddOptions { on_known_key: OnKnownKey::Skip, ..AddOptions::default() };
    let added = place.add("week", &skip).unwrap();
    assert_eq!((added.packed.report.samples, added.known, added.samples), (1, 1, 3));
    let added = place.add("week", &skip).unwrap();
    assert_eq!((added.packed.report.outcome, added.generation, added.known), (Outcome::AlreadyComplete, 2, 2));
    let error = place.add("week", &AddOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("2 of 2 new samples"), "{error}");
    place.verify(2);
}

#[test]
fn the_same_command_again_after_its_end_says_that_all_is_there() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&small());
    place.photo("week/c.jpg", 3);
    place.add("week", &AddOptions::default()).unwrap();
    let again = place.add("week", &AddOptions::default()).unwrap();
    assert_eq!((again.packed.report.outcome, again.generation), (Outcome::AlreadyComplete, 2));
    assert_eq!((again.packed.report.samples, again.samples), (0, 2), "new ones, and those of the dataset");
}

#[test]
fn the_same_command_with_other_samples_is_refused() {
    let place = Place::new();
    let table = |text: &str| place.write("labels.csv", text);
    place.photo("src/a.jpg", 1);
    place.pack(&labelled(table("key,label,age,who\na.jpg,c1,1,x\n")));
    place.photo("week/b.jpg", 2);
    let add = |text: &str, on_known_key| place.add("week", &AddOptions { on_known_key, ..add_labelled(table(text)) });
    let (stop, same) = (OnKnownKey::Stop, "key,label,age,who\nb.jpg,c7,2,y\n");
    add(same, stop).unwrap();
    assert_eq!(add(same, stop).unwrap().packed.report.outcome, Outcome::AlreadyComplete);
    let refused = |text: &str, words: &str| {
        let error = add(text, stop).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
        let skipped = add(text, OnKnownKey::Skip).unwrap();
        assert_eq!((skipped.known, skipped.generation), (1, 2));
        let note = skipped.packed.notes[0].text.clone();
        assert!(note.starts_with("skipped 1 sample, although") && note.contains(words), "{note}");
    };
    refused("key,label,age,who\nb.jpg,c1,2,y\n", "`b.jpg`: label `c7` in the dataset, but `c1` in the new sample");
    refused("key,label,age,who\nb.jpg,new,2,y\n", "`b.jpg`: label `c7` in the dataset, but `new` in the new sample");
    refused("key,label,age,who\nb.jpg,c7,3,y\n", "`b.jpg`: column `age`: 2 in the dataset, but 3 in the new sample");
    // Text values are stored in the records. Records are only read if a call is repeated.
    let error = add("key,label,age,who\nb.jpg,c7,2,z\n", stop).unwrap_err().to_string();
    assert!(error.contains("`b.jpg`: column `who`: `y` in the dataset, but `z` in the new sample"), "{error}");
    let error = add("key,label,age,who,size\nb.jpg,c7,2,y,1\n", stop).unwrap_err().to_string();
    assert!(error.starts_with("the table has a column `size`, but the dataset has no such field"), "{error}");
    // The file gets different content of the same size, and a newer time.
    place.photo("week/b.jpg", 3);
    place.touch("week/b.jpg", SystemTime::now() + Duration::from_secs(9));
    let again = add(same, stop).unwrap().packed;
    let note =
        "skipped 1 sample without comparing contents, although the files are newer than the dataset (first: `b.jpg`)";
    assert_eq!((again.report.outcome, again.notes[0].text.as_str()), (Outcome::AlreadyComplete, note));
    let mut longer = fs::read(place.path("week/b.jpg")).unwrap();
    longer.push(0);
    fs::write(place.path("week/b.jpg"), &longer).unwrap();
    refused(same, &format!("{} bytes in the dataset, but {} bytes in the new sample", longer.len() - 1, longer.len()));
    place.verify(2);
}

#[test]
fn another_cube_under_the_same_key_is_refused() {
    let place = Place::new();
    place.cube("src/a.npy", [6, 5, 4], 0.5);
    place.pack(&small());
    place.cube("week/b.npy", [6, 5, 4], 1.5);
    let add = || place.add("week", &AddOptions::default());
    add().unwrap();
    assert_eq!(add().unwrap().packed.report.outcome, Outcome::AlreadyComplete);
    place.touch("week/b.npy", SystemTime::now() + Duration::from_secs(9));
    // A fresh copy of a file, with a newer time, counts as the same file.
    let again = add().unwrap().packed;
    assert_eq!(again.report.outcome, Outcome::AlreadyComplete);
    assert!(
        again.notes[0].text.ends_with("although the files are newer than the dataset (first: `b.npy`)"),
        "{}",
        again.notes[0].text
    );
    place.cube("week/b.npy", [6, 5, 3], 1.5);
    let error = add().unwrap_err().to_string();
    assert!(
        error.ends_with("`b.npy`: a cube of 6 × 5 × 4 in the dataset, but 6 × 5 × 3 in the new sample)"),
        "{error}"
    );
}

#[test]
fn pictures_that_are_kept_are_compared_to_the_byte() {
    let place = Place::new();
    place.photo("src/a.jpg", 1);
    place.pack(&kept());
    place.photo("week/b.jpg", 2);
    let add = || place.add("week", &AddOptions::default());
    add().unwrap();
    // The new copy contains the same picture, so no note is expected.
    place.touch("week/b.jpg", SystemTime::now() + Duration::from_secs(9));
    assert!(add().unwrap().packed.notes.is_empty());
    place.photo("week/b.jpg", 3);
    place.touch("week/b.jpg", SystemTime::UNIX_EPOCH);
    let error = add().unwrap_err().to_string();
    assert!(error.ends_with("`b.jpg`: the dataset has a different picture of the same size)"), "{error}");
}

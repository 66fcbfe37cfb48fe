//! The options of all front ends, together.

use super::*;
use crate::grow::{AddOptions, OnKnownKey};
use shardpack_array::{ArrayLayout, BandDifference, Coder, Filter, Prefer, Values};
use shardpack_format::{Hint, Setting, Voice};
use shardpack_jpeg::ChromaSampling;
use shardpack_recipe::{Jpeg, Share};
use shardpack_sources::{OnBadInput, SourceKind};
use std::collections::BTreeSet;

fn every_word<T: Word + std::fmt::Debug>(count: usize) {
    assert_eq!(T::WORDS.len(), count);
    for (word, value, _) in T::WORDS {
        assert_eq!((T::parse(word).as_ref(), value.spelled()), (Ok(value), *word));
    }
}

#[test]
fn words_are_read_as_they_are_spelled() {
    every_word::<SourceKind>(2);
    every_word::<OnBadInput>(2);
    every_word::<OnKnownKey>(2);
    every_word::<Option<bool>>(3);
    every_word::<Jpeg>(3);
    every_word::<ChromaSampling>(3);
    every_word::<Share>(3);
    every_word::<Values>(4);
    every_word::<BandDifference>(3);
    every_word::<Option<Coder>>(6);
    every_word::<Option<Filter>>(5);
    every_word::<Option<ArrayLayout>>(3);
    every_word::<Prefer>(3);
}

/// Values of every kind: each option can have one of them.
fn values() -> Vec<Value> {
    let words = [
        "images", "on", "stop", "tile", "420", "sample", "keep", "zstd", "none", "size", "skip", "as-given", "1/4",
        "2x3", "8MiB",
    ];
    let mut all = vec![Value::Switch(true), Value::Integer(2), Value::Float(0.5), Value::Path("a".into())];
    all.extend(words.map(|word| Value::Text(word.into())));
    all.push(Value::Text("ssimulacra2=80".into()));
    all.push(Value::Text("name=command".into()));
    all
}

#[test]
fn every_name_sets_an_option() {
    let taken = |set: &mut dyn FnMut(&Value) -> Result<bool>, name| {
        let results: Vec<_> = values().iter().map(set).collect();
        assert!(results.contains(&Ok(true)) && !results.contains(&Ok(false)), "{name}: {results:?}");
    };
    for name in PackArguments::names().filter(|name| *name != "recipe") {
        let mut changed = BTreeSet::new();
        taken(
            &mut |value| {
                let mut arguments = PackArguments::default();
                let set = arguments.set(name, value);
                changed.insert(arguments != PackArguments::default());
                set
            },
            name,
        );
        assert!(changed.contains(&true), "{name} changes nothing");
    }
    for name in ReportArguments::names() {
        taken(&mut |value| ReportArguments::default().set(name, value), name);
    }
    for name in AddOptions::NAMES {
        taken(&mut |value| AddOptions::default().set(name, value), name);
    }
    let nothing = Value::Switch(true);
    assert_eq!(PackArguments::default().set("out", &nothing), Ok(false));
    assert_eq!(ReportArguments::default().set("output", &nothing), Ok(false));
    assert_eq!(AddOptions::default().set("jpeg", &nothing), Ok(false));
}

#[test]
fn values_that_do_not_fit_are_named() {
    let text = |text: &str| Value::Text(text.into());
    for (name, value, said) in [
        ("quality", Value::Integer(0), "quality: expected a whole number from 1 to 100, found `0`"),
        ("quality", Value::Integer(i128::MAX), "a whole number from 1 to 100"),
        ("quality", Value::Switch(true), "found `true`"),
        ("jpeg", text("fast"), "jpeg: expected tile, keep or reencode, found `fast`"),
        ("upright", text("yes"), "expected true or false, found `yes`"),
        ("max_error", text("small"), "max_error: expected a number, found `small`"),
        ("part", Value::Pair(5, 4), "part: expected a part and a count such as 1/4 … 4/4, found `5/4`"),
        ("spatial", Value::Pair(0, 4), "spatial: expected height and width"),
        ("threads", Value::Integer(-1), "threads: expected a number from 1 to 1024, found `-1`"),
        ("target", text("psnr=40"), "target: expected ssimulacra2=S"),
        ("memory", text("8 potatoes"), "memory: unknown unit"),
    ] {
        let error = PackArguments::default().set(name, &value).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let given = |options: &[(&str, &str)]| {
        let mut arguments = PackArguments::default();
        for (name, value) in options {
            assert_eq!(arguments.set(name, &Value::Text((*value).into())), Ok(true), "{name}");
        }
        arguments.check()
    };
    assert_eq!(given(&[("jpeg", "reencode"), ("quality", "80"), ("short_side", "64")]), Ok(()));
    assert_eq!(given(&[("upright", "true"), ("keep_metadata", "true")]), Ok(()));
    for (options, said, next) in [
        (&[("quality", "80")][..], "--quality: expected with `jpeg` reencode, found tile", "`--jpeg reencode` only"),
        (&[("jpeg", "keep"), ("upright", "true")], "--upright: ", "`--jpeg tile` only"),
        (&[("jpeg", "keep"), ("keep_metadata", "true")], "--keep-metadata: ", "`--jpeg tile` or `--jpeg reencode`"),
        (&[("key_column", "id")], "--key-column: expected a table of labels", "`--labels FILE`"),
        (&[("label_column", "id")], "--label-column: expected a table of labels", "`--labels FILE`"),
    ] {
        let error = given(options).unwrap_err();
        assert!(error.told(Voice::Command).starts_with(said), "{error}");
        assert!(error.hint().unwrap().told(Voice::Command).contains(next), "{error:?}");
    }
    for options in [
        [("jpeg", "reencode"), ("quality", "80"), ("target", "ssimulacra2=80")],
        [("jpeg", "reencode"), ("short_side", "80"), ("long_side", "80")],
        [("jpeg", "keep"), ("no_shuffle", "true"), ("seed", "0")],
        [("jpeg", "keep"), ("splits", "true"), ("listing", "list")],
    ] {
        assert!(given(&options).unwrap_err().to_string().ends_with("found both"), "{options:?}");
    }
}

#[test]
fn ladders_that_contradict_each_other_are_refused() {
    let given = |options: &[(&str, &str)]| {
        let mut arguments = ReportArguments::default();
        for (name, value) in options {
            assert_eq!(arguments.set(name, &Value::Text((*value).into())), Ok(true), "{name}");
        }
        arguments.check().map_err(|error| error.to_string())
    };
    assert_eq!(given(&[("codec", "zstd"), ("codec", "auto"), ("filter", "none"), ("want", "size<=3GB")]), Ok(()));
    let mut several = ReportArguments::default();
    assert_eq!(several.set("quality", &Value::Text("90,80".into())), Ok(true));
    assert_eq!(several.quality, [90, 80]);
    assert!(several.set("quality", &Value::Text("90,800".into())).is_err());
    for (options, said) in [
        (&[("candidates", "a.toml"), ("quality", "80")][..], "candidates: "),
        (&[("filter", "none")], "filter: expected with `codec`"),
        (&[("metric_baseline_runs", "4")], "metric_baseline_runs: expected with `metric`"),
        (&[("max_error", "-1")], "max_error: expected errors above zero, found -1"),
        (&[("want", "beauty>=1")], "want: "),
        (&[("short_side", "1"), ("long_side", "2")], "short_side: "),
    ] {
        assert!(given(options).unwrap_err().starts_with(said), "{options:?}: {:?}", given(options));
    }
}

#[test]
fn what_a_source_is_told_is_told_again() {
    let mut arguments = PackArguments::default();
    assert!(arguments.source.given().is_empty());
    for (name, value) in [
        ("kind", "cubes"),
        ("labels", "a.csv"),
        ("label_column", "species"),
        ("class_folders", "off"),
        ("variable", "cube"),
        ("variable", "*_corrected"),
        ("spatial", "2x3"),
        ("max_cube", "1MiB"),
    ] {
        arguments.set(name, &Value::Text(value.into())).unwrap();
    }
    let mut again = PackArguments::default();
    for (name, value) in arguments.source.given() {
        assert_eq!(again.set(name, &value), Ok(true));
    }
    assert_eq!(again, arguments);
    assert_eq!(again.source.variable, ["cube", "*_corrected"]);
}

#[test]
fn sizes_are_read_in_both_bases() {
    assert_eq!(parse_size("8MiB"), Ok(8 << 20));
    assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
    assert_eq!(parse_size("500MB"), Ok(500_000_000));
    assert_eq!(parse_size("64"), Ok(64));
    for bad in ["", "MiB", "8 potatoes", "0", "99999999999TiB", "-1", "1.2.3MB"] {
        assert!(parse_size(bad).is_err(), "{bad}");
    }
    for bytes in [1, 1023, 1 << 10, 5 << 30, 64 << 20, 100_000_000_000, 1_000_001] {
        assert_eq!(parse_size(&spelled_size(bytes)), Ok(bytes));
    }
}

#[test]
fn parts_count_from_one() {
    assert_eq!(parse_part("1/4"), Ok((1, 4)));
    for bad in ["0/4", "5/4", "1", "a/b", "1/0"] {
        assert!(parse_part(bad).is_err(), "{bad}");
    }
    let zero = PackArguments { part: Some((0, 4)), ..PackArguments::default() };
    assert!(zero.options("out".as_ref()).unwrap_err().to_string().starts_with("part: "));
    assert_eq!(parse_target("ssimulacra2=80.5"), Ok(80.5));
    for bad in ["80", "ssimulacra2=", "ssimulacra2=0", "ssimulacra2=101", "psnr=40", "ssimulacra2=NaN"] {
        assert!(parse_target(bad).is_err(), "{bad}");
    }
    assert_eq!(parse_spatial("100x95"), Ok((100, 95)));
    assert!(parse_spatial("100").is_err() && parse_spatial("0x4").is_err());
}

#[test]
fn hints_say_options_to_each_in_their_words() {
    let hint = Hint::new("see ").and([Setting::on("force"), Setting::number("max_error", 0.75)]);
    assert_eq!(hint.told(Voice::Command), "see `--force --max-error 0.75`");
    assert_eq!(hint.told(Voice::Python), "see `force=True, max_error=0.75`");
    assert_eq!(hint.options().collect::<Vec<_>>(), ["force", "max_error"]);
}

//! Tests the options of all front ends together.

use super::*;
use crate::grow::{AddOptions, OnKnownKey};
use crate::pack::PackOptions;
use shardpack_array::Values;
use shardpack_format::{Explain, Hint, Setting, Voice};
use shardpack_jpeg::Resize;
use shardpack_recipe::{Jpeg, parse_part, parse_spatial, parse_target};
use std::path::Path;

type Result<T, E = ArgumentError> = std::result::Result<T, E>;

#[test]
fn words_are_read_as_they_are_spelled() {
    assert_eq!(OnKnownKey::WORDS.len(), 2);
    for (word, value) in OnKnownKey::WORDS {
        assert_eq!((OnKnownKey::parse(word).as_ref(), value.spelled()), (Ok(value), *word));
    }
}

/// Returns values of every kind, so that each option accepts at least one of them.
fn values() -> Vec<OptionValue> {
    let words = [
        "images", "on", "stop", "tile", "420", "sample", "keep", "zstd", "none", "size", "skip", "as-given", "1/4",
        "2x3", "8MiB",
    ];
    let mut all = vec![
        OptionValue::Switch(true),
        OptionValue::Integer(2),
        OptionValue::Float(0.5),
        OptionValue::Path("a".into()),
    ];
    all.extend(words.map(|word| OptionValue::Text(word.into())));
    all.push(OptionValue::Text("ssimulacra2=80".into()));
    all.push(OptionValue::Text("name=command".into()));
    all
}

fn text(name: &str, value: &str) -> (String, OptionValue) {
    (name.to_owned(), OptionValue::Text(value.to_owned()))
}

fn pack(given: &[(String, OptionValue)]) -> Result<PackOptions> {
    PackOptions::read(given, Path::new("out"))
}

#[test]
fn every_option_can_be_given() {
    for about in PackOptions::about() {
        let results: Vec<_> = values().iter().map(|value| PackOptions::canonical(about.name, value)).collect();
        assert!(results.iter().any(|result| matches!(result, Ok(Some(_)))), "{}: {results:?}", about.name);
        assert!(!results.contains(&Ok(None)), "{}", about.name);
    }
    for about in ReportArguments::about() {
        let taken = |value: &OptionValue| ReportArguments::check_value(about.name, value).is_ok();
        assert!(values().iter().any(taken), "{}", about.name);
    }
    for about in AddOptions::about() {
        assert!(values().iter().any(|value| AddOptions::check_value(about.name, value).is_ok()), "{}", about.name);
    }
    let nothing = ("out".to_owned(), OptionValue::Switch(true));
    assert!(pack(std::slice::from_ref(&nothing)).unwrap_err().to_string().contains("there is no option `out`"));
    assert!(ReportArguments::read(&[text("output", "x")]).is_err() && AddOptions::read(&[text("jpeg", "x")]).is_err());
}

/// Checks that each storage option has an effect, that it is marked if it shrinks pictures, and that formatting and
/// parsing its value returns the same value.
#[test]
fn every_option_of_storage_is_spelled_as_it_is_read() {
    for option in StorageOptions::OPTIONS {
        let mut changed = 0;
        for value in values() {
            let Ok(canonical) = StorageOptions::canonical(option, &value) else { continue };
            let given = OptionValue::Text(canonical.clone());
            assert_eq!(StorageOptions::canonical(option, &given), Ok(canonical), "{}", option.about.name);
            let jpeg = option.about.jpeg.first().copied().unwrap_or_default();
            let before =
                StorageOptions { pictures: shardpack_recipe::PictureOptions::of(jpeg), ..StorageOptions::default() };
            let mut after = before.clone();
            option.set(&mut after, &value).unwrap();
            changed += usize::from(after != before);
            let shrinks = after.pictures.resize() != Resize::No;
            assert_eq!(shrinks, option.about.shrinks, "{} is not marked correctly", option.about.name);
        }
        assert!(changed > 0, "{} changes nothing", option.about.name);
        assert!(option.about.without.is_empty() || StorageOptions::option(option.about.without).is_some());
    }
}

#[test]
fn values_that_do_not_fit_are_named() {
    let text = |text: &str| OptionValue::Text(text.into());
    for (name, value, said) in [
        ("quality", OptionValue::Integer(0), "quality: expected a whole number from 1 to 100, found `0`"),
        ("quality", OptionValue::Integer(i128::MAX), "a whole number from 1 to 100"),
        ("quality", OptionValue::Switch(true), "found `true`"),
        ("jpeg", text("fast"), "jpeg: expected tile, keep or reencode, found `fast`"),
        ("upright", text("yes"), "expected true or false, found `yes`"),
        ("max_error", text("small"), "max_error: expected a number, found `small`"),
        ("part", OptionValue::Pair(5, 4), "part: `5/4` is not a valid part: expected I/N with I from 1 to N"),
        ("spatial", OptionValue::Pair(0, 4), "spatial: `0x4` is not a valid height and width"),
        ("threads", OptionValue::Integer(-1), "threads: expected a number from 1 to 1024, found `-1`"),
        ("target", text("psnr=40"), "target: expected ssimulacra2=SCORE"),
        ("memory", text("8 potatoes"), "memory: unknown unit"),
    ] {
        let error = pack(&[(name.to_owned(), value)]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let given = |options: &[(&str, &str)]| {
        let options: Vec<_> = options.iter().map(|(name, value)| text(name, value)).collect();
        pack(&options)
    };
    let small = given(&[("quality", "80"), ("short_side", "64"), ("jpeg", "reencode")]).unwrap();
    assert_eq!(small.pictures.jpeg(), Jpeg::Reencode);
    assert!(given(&[("upright", "true"), ("keep_metadata", "true")]).is_ok());
    for (options, said, next) in [
        (&[("quality", "80")][..], "--quality: the option has no effect if `jpeg` is tile", "`--jpeg reencode`"),
        (&[("jpeg", "keep"), ("upright", "true")], "--upright: ", "`--jpeg tile`"),
        (&[("jpeg", "keep"), ("keep_metadata", "true")], "--keep-metadata: ", "`--jpeg tile` or `--jpeg reencode`"),
        (
            &[("key_column", "id")],
            "--key-column: the option has no effect without a table of labels",
            "`--labels FILE`",
        ),
        (
            &[("label_column", "id")],
            "--label-column: the option has no effect without a table of labels",
            "`--labels FILE`",
        ),
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
        assert!(given(&options).unwrap_err().to_string().contains("cannot be combined with"), "{options:?}");
    }
    // An option that is switched off contradicts no other option.
    assert!(given(&[("no_shuffle", "false"), ("seed", "3"), ("jpeg", "keep"), ("upright", "false")]).is_ok());
}

#[test]
fn ladders_that_contradict_each_other_are_refused() {
    let given = |options: &[(&str, &str)]| {
        let options: Vec<_> = options.iter().map(|(name, value)| text(name, value)).collect();
        ReportArguments::read(&options)
    };
    assert!(given(&[("codec", "zstd"), ("codec", "auto"), ("filter", "none"), ("want", "size<=3GB")]).is_ok());
    assert_eq!(given(&[("quality", "90,80")]).unwrap().ladder("quality"), ["90", "80"]);
    assert!(given(&[("quality", "90"), ("target", "ssimulacra2=80")]).is_ok());
    assert!(given(&[("quality", "90,800")]).is_err());
    for (options, said) in [
        (&[("candidates", "a.toml"), ("quality", "80")][..], "candidates: "),
        (&[("filter", "none")], "filter: has no effect without `codec`"),
        (&[("metric_baseline_runs", "4")], "metric_baseline_runs: has no effect without `metric`"),
        (&[("max_error", "-1")], "max_error: expected a number above 0, found -1"),
        (&[("want", "beauty>=1")], "want: "),
        (&[("short_side", "1"), ("long_side", "2")], "short_side: "),
    ] {
        let error = given(options).unwrap_err().to_string();
        assert!(error.starts_with(said), "{options:?}: {error}");
    }
}

#[test]
fn options_on_a_source_are_read_as_they_were_given() {
    assert!(of_reading(&[text("values", "keep")]).is_empty());
    let given = [
        text("kind", "cubes"),
        text("labels", "a.csv"),
        text("label_column", "species"),
        text("class_folders", "off"),
        text("variable", "cube"),
        text("variable", "*_corrected"),
        text("spatial", "2x3"),
        text("max_cube", "1MiB"),
    ];
    let reading = [given.to_vec(), vec![text("values", "keep")]].concat();
    assert_eq!(of_reading(&reading), given);
    let options = super::reading(&given).unwrap();
    assert_eq!((options.cubes.spatial, options.cubes.max_bytes), (Some((2, 3)), 1 << 20));
    assert_eq!(options.cubes.variable, ["cube", "*_corrected"]);
    assert_eq!(pack(&reading).unwrap().arrays.values, Values::Keep);
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
    assert!(pack(&[text("part", "0/4")]).unwrap_err().to_string().starts_with("part: "));
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

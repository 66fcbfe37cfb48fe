//! Tests that serialised recipes have exactly the bytes that manifests contain.

use super::*;
use serde_json::Value;
use shardpack_jpeg::{ChromaSampling, Quality, ReencodeOptions, Resize};
use std::path::Path;

fn again(json: &str) -> String {
    let Value::Object(map) = serde_json::from_str(json).unwrap() else { panic!("an object: {json}") };
    serde_json::to_string(&DatasetRecipe::read(&map).to_map()).unwrap()
}

#[test]
fn a_recipe_has_the_bytes_of_the_manifest_that_it_was_read_from() {
    let trial = r#"{"settings":{"values":"integer-or-f16","codec":"blosc2-zstd","level":1,"filter":"shuffle","band_difference":false,"layout":"as-shape"},"asked":{"values":"auto","max_error":null,"lossless":false,"band_difference":"auto","coder":null,"level":null,"filter":null,"layout":null,"prefer":"speed"},"candidates":[]}"#;
    let folder = r#"{"shardpack":"0.1.0","kind":"KIND","order":ORDER,"shard_bytes":1073741824,"on_bad_input":"stop","#;
    let images = folder.replace("KIND", "images").replace("ORDER", r#"{"shuffle_seed":7}"#);
    let cubes = folder.replace("KIND", "cubes").replace("ORDER", r#""as the keys sort""#);
    let program = r#"{"shardpack":"0.1.0","kind":"samples of a program","order":"as they were added","shard_bytes":64,"fields":{"photo":"image","order":"array","image":"image"},"#;
    let pictures = [
        r#"{"jpeg":"keep"}"#,
        r#"{"jpeg":"keep","segment_index":true}"#,
        r#"{"jpeg":"tile","upright":true,"check_pixels":"all","keep_metadata":false}"#,
        r#"{"jpeg":"reencode","reencode":{"quality":80,"subsampling":"4:2:0","long_side":64},"score":"none","keep_metadata":true}"#,
        r#"{"jpeg":"reencode","reencode":{"quality":{"ssimulacra2":80.5},"subsampling":"keep"},"score":"sample","keep_metadata":false}"#,
    ];
    for image in pictures {
        for recipe in [
            format!(r#"{images}"image":{image}}}"#),
            format!(
                r#"{images}"labels":{{"columns":["label","age"],"label_column":"sp","key_column":"id"}},"image":{image},"clips":true,"mask":{trial}}}"#
            ),
            format!(r#"{program}"photo":{image},"image":{image},"field order":{trial},"later":1}}"#),
        ] {
            assert_eq!(again(&recipe), recipe);
        }
        let typed: PictureOptions = serde_json::from_str(image).unwrap();
        assert_eq!(serde_json::to_string(&typed).unwrap(), image);
    }
    for variable in [r#""cube""#, r#"["cube","*_corrected"]"#] {
        let recipe = format!(r#"{cubes}"variable":{variable},"spatial":[100,120],"cube":{trial},"mask":{trial}}}"#);
        assert_eq!(again(&recipe), recipe);
    }
}

#[test]
fn entries_of_later_versions_are_kept() {
    for recipe in [
        "{}",
        r#"{"kind":"images","order":"by size","labels":7,"image":{"jpeg":"tile","colour":"grey"},"depth":{"a":[1]}}"#,
        r#"{"kind":"videos","order":{"shuffle_seed":3},"image":{"jpeg":"keep"}}"#,
    ] {
        assert_eq!(again(recipe), recipe);
    }
}

#[test]
fn fields_are_found_by_their_names_in_recipes_of_all_kinds() {
    let how = ReencodeOptions {
        quality: Quality::Fixed(70),
        subsampling: ChromaSampling::S444,
        resize: Resize::ShortSide(32),
        ..ReencodeOptions::default()
    };
    let pictures = PictureOptions::Reencode { how, score: Share::All, keep_metadata: true };
    let mut program = ProgramRecipe::new(Order::Shuffled(3), 64, [("order".to_owned(), "image".to_owned())]);
    program.add_pictures("order", &pictures);
    let map = DatasetRecipe::Program(Box::new(program)).to_map();
    let recipe = DatasetRecipe::read(&map);
    assert_eq!((recipe.order(), recipe.shard_bytes()), (Some(Order::Shuffled(3)), Some(64)));
    assert_eq!((recipe.pictures("order"), recipe.pictures("image")), (Some(pictures), None));
    let keep = [("kind", "videos".into()), ("image", serde_json::json!({ "jpeg": "keep" }))];
    let other = DatasetRecipe::read(&keep.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    assert_eq!(other.pictures("image"), Some(PictureOptions::Keep { segment_index: false }));
    let mut indexed = other.clone();
    indexed.set_pictures("image", &PictureOptions::of(Jpeg::Keep));
    indexed.set_pictures("photo", &PictureOptions::of(Jpeg::Keep));
    assert_eq!(serde_json::to_string(&indexed.to_map()["image"]).unwrap(), r#"{"jpeg":"keep","segment_index":true}"#);
    assert_eq!(indexed.to_map().len(), other.to_map().len());
}

#[test]
fn recipes_of_the_fixtures_are_read_and_written() {
    fn manifests(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                manifests(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures"), &mut found);
    let mut read = 0;
    for path in found {
        let Ok(manifest) = serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap_or_default()) else {
            continue;
        };
        let Some(Value::Object(recipe)) = manifest.get("recipe") else { continue };
        let text = serde_json::to_string(recipe).unwrap();
        assert_eq!(again(&text), text);
        read += 1;
    }
    assert!(read > 0);
}

fn every_word<T: Word + std::fmt::Debug>(count: usize) {
    assert_eq!(T::WORDS.len(), count);
    for (word, value) in T::WORDS {
        assert_eq!((T::parse(word).as_ref(), value.spelled()), (Ok(value), *word));
    }
}

#[test]
fn words_are_read_as_they_are_spelled() {
    use shardpack_array::{ArrayLayout, BandDifference, Coder, Filter, Prefer, Values};
    every_word::<SourceKind>(2);
    every_word::<OnBadInput>(2);
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

//! Tests that the keyword arguments in Python match the options of the library. Each loader option must have a keyword
//! argument with the same default, and must be named in the documentation. Options for packing, adding and reports must
//! accept the same values.

use crate::layers::root;
use shardpack::order::{End, Mode, Order};
use shardpack::{
    CubeMode, FrameMode, ImageMode, LoaderOptions, NoData, OnCorrupt, OrderOptions, OutputOptions, PatchClasses,
    Patches, PixelLayout, ResourceOptions, ViewOptions, Window,
};
use shardpack_pack::grow::AddOptions;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::{About, Takes};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Loader options that have no keyword argument of the same name, with the keyword arguments that correspond to them.
const OTHERWISE: &[(&str, &[&str])] = &[
    ("mode", &["shuffle"]),
    ("sampling", &["weights", "mix"]),
    ("patches", &["patches_per_sample", "patches", "overlap"]),
    ("patch_classes", &["patches"]),
    ("clip_layout", &["layout"]),
    ("augment_bands", &["augment"]),
    ("augment_pictures", &["augment"]),
    ("objects", &["fields"]),
    ("scaling", &["mean", "std"]),
    ("normalise", &["mean", "std"]),
    ("mix", &["augment_batch", "num_classes"]),
    ("transform", &["transform", "transform_workers"]),
    ("on_corrupt", &["skip_corrupt"]),
    ("slots", &["prefetch"]),
    ("max_batch_bytes", &["max_batch"]),
    ("stage", &["device", "decode"]),
    // These options exist only in Rust.
    ("read_ahead_bytes", &[]),
    ("part_bytes", &[]),
    ("begins_ahead", &[]),
    ("memory", &[]),
];

/// Keyword arguments about tensors, which exist only in Python.
const OF_PYTHON: &[&str] = &["to", "transform_batch"];

fn signature(text: &str) -> BTreeMap<&str, &str> {
    let (_, rest) = text.split_once("    def __init__(\n").expect("an initialiser");
    let (parameters, _) = rest.split_once("        **unknown").expect("the end of the keywords");
    let pairs = parameters.lines().filter_map(|line| {
        let (parameter, default) = line.trim().trim_end_matches(',').rsplit_once(" = ")?;
        Some((parameter.split_once(':')?.0, default))
    });
    pairs.collect()
}

fn documented(text: &str) -> BTreeMap<&str, &str> {
    let (_, rest) = text.split_once("    Parameters\n    ----------\n").expect("documented parameters");
    let (parameters, _) = rest.split_once("\n    Raises\n").expect("the end of the parameters");
    let heads = parameters.lines().filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')));
    heads
        .filter_map(|line| line.split_once(" : "))
        .flat_map(|(names, head)| names.split(", ").map(move |name| (name, head)))
        .collect()
}

fn loader() -> String {
    fs::read_to_string(root().join("python/shardpack/_loader.py")).expect("the loader of Python")
}

#[test]
fn each_option_of_the_loader_has_its_keywords() {
    let text = loader();
    let keywords: BTreeSet<&str> = signature(&text).into_keys().collect();
    let groups = [OrderOptions::NAMES, ViewOptions::NAMES, OutputOptions::NAMES, ResourceOptions::NAMES];
    let mut expected: BTreeSet<&str> = OF_PYTHON.iter().copied().collect();
    for option in groups.concat() {
        match OTHERWISE.iter().find(|(name, _)| *name == option) {
            Some((_, names)) => expected.extend(*names),
            None => _ = expected.insert(option),
        }
    }
    assert_eq!(keywords, expected);
    for (name, _) in OTHERWISE {
        assert!(groups.concat().contains(name), "`{name}` is no option any more: take it off the list");
    }
}

#[test]
fn keywords_of_the_loader_have_the_defaults_of_the_library() {
    let text = loader();
    let signature = signature(&text);
    let LoaderOptions { order, view, output, resources, .. } = LoaderOptions::default();
    let word = |name: &str| signature[name].trim_matches('"');
    let number = |name: &str| signature[name].parse::<u64>().expect("a number");
    assert_eq!(number("batch_size"), u64::from(order.batch_size));
    assert_eq!((number("seed"), number("epoch")), (order.seed, u64::from(order.epoch)));
    assert_eq!((signature["shuffle"], order.mode), ("True", Mode::Windowed));
    assert_eq!((signature["lanes"], order.lanes), ("None", Order::LANES));
    assert_eq!((word("end"), order.end), ("drop", End::Drop));
    assert_eq!((signature["rank"], order.rank, signature["world_size"], order.world_size), ("None", 0, "None", 1));
    assert_eq!((signature["open_scenes"], order.open_scenes), ("None", 0));
    assert!(signature["weights"] == "None" && signature["mix"] == "None" && order.sampling.is_none());
    assert_eq!(word("image").parse::<ImageMode>().expect("a view"), view.image);
    assert_eq!((signature["crops"], view.crops), ("None", Vec::new()));
    assert_eq!(word("frames").parse::<FrameMode>().expect("frames"), view.frames);
    assert_eq!(word("cube").parse::<CubeMode>().expect("a view"), view.cube);
    assert_eq!((number("patches_per_sample"), view.patches), (1, Patches::One));
    assert_eq!((word("patches"), view.patch_classes), ("random", PatchClasses::Any));
    assert_eq!((word("layout"), output.layout), ("hwc", PixelLayout::HeightWidthChannels));
    assert_eq!((number("skip_corrupt"), output.on_corrupt), (0, OnCorrupt::Error));
    assert_eq!((signature["no_data"], output.no_data), ("None", NoData::AsStored));
    assert_eq!((signature["threads"], resources.threads), ("None", 0));
    assert_eq!(word("window").parse::<Window>().expect("a window"), resources.window);
    assert_eq!(word("max_batch"), format!("{}GiB", resources.max_batch_bytes >> 30));
    assert_eq!((signature["resident"], resources.resident), ("False", false));
    assert_eq!((word("device"), word("decode"), resources.stage.is_none()), ("cpu", "auto", true));
    let none =
        ["bands", "dtype", "fields", "align", "prefetch", "mean", "std", "augment", "augment_batch", "transform"];
    none.into_iter().for_each(|name| assert_eq!(signature[name], "None", "{name}"));
}

#[test]
fn the_documentation_of_the_loader_names_every_keyword_and_its_default() {
    let text = loader();
    let (signature, mut documented) = (signature(&text), documented(&text));
    documented.remove("dataset");
    assert_eq!(signature.keys().collect::<Vec<_>>(), documented.keys().collect::<Vec<_>>());
    for (name, default) in signature {
        let said = documented[name].split_once("default ").map(|(_, default)| default);
        assert_eq!(said.unwrap_or("None"), default, "`{name}`");
    }
}

fn literals(file: &str) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("python/shardpack").join(file)).expect("a file of the package");
    let words = |list: &str| list.split(", ").map(|word| word.trim_matches('"').to_owned()).collect();
    let lines = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("    ")?.split_once(": Literal[")?;
        Some((name.to_owned(), words(rest.split_once(']')?.0)))
    });
    lines.collect()
}

fn compare_words(file: &str, options: impl Iterator<Item = &'static About>) {
    let literals = literals(file);
    let mut named = BTreeSet::new();
    for about in options {
        let (words, must) = match about.takes {
            Takes::Word(words, _) => (words(), true),
            Takes::Words(words, _) => (words(), false),
            _ => continue,
        };
        match literals.get(about.name) {
            Some(literal) => assert_eq!(*literal, words, "{file}: `{}`", about.name),
            None => assert!(!must, "{file}: `{}` has no words", about.name),
        }
        named.insert(about.name);
        let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let helped: BTreeSet<&str> = about.help.split(|c: char| !is_part(c)).collect();
        let in_help = |word: &&str| helped.contains(word);
        assert!(words.iter().all(in_help), "the help of `{}` does not name its words: {words:?}", about.name);
    }
    let others: Vec<&String> = literals.keys().filter(|name| !named.contains(name.as_str())).collect();
    assert!(others.is_empty(), "{file}: not words of an option: {others:?}");
}

#[test]
fn python_and_help_name_the_words_of_the_tables() {
    compare_words("_pack.py", PackOptions::about());
    compare_words("_grow.py", AddOptions::about());
    compare_words("_report.py", ReportArguments::about());
}

//! Tests that hints in errors and notes name existing options, and that they reach the user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use shardpack_format::{
    DatasetId, Dtype, Field, FieldKind, Footer, Hint, Identity, IndexBuilder, Manifest, Metadata, RecordBuilder,
    Schema, Setting, ShardEntry, StoredField, is_hidden, shard_name,
};
use shardpack_loader::LoaderOptions;
use shardpack_pack::grow::AddOptions;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options that exist in a single command or only in `convert`, and loader options with a different name in
/// `LoaderOptions`.
const OTHERS: [&str; 12] = [
    "all_generations",
    "max_record",
    "max_batch",
    "output",
    "field",
    "skip",
    "device",
    "splits",
    "flip",
    "format",
    "append",
    "classes",
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn code() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    sources(&root.join("src"), &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the names of the options that hints in this code recommend.
fn settings(code: &str) -> impl Iterator<Item = &str> {
    code.split("Setting::").skip(1).filter_map(|found| {
        // The first argument is the option name. It may be on the next line.
        let (_, arguments) = found.split_once('(')?;
        arguments.trim_start().strip_prefix('"')?.split('"').next()
    })
}

#[test]
fn every_named_option_exists() {
    let known: BTreeSet<String> = PackOptions::names()
        .chain(ReportArguments::about().map(|about| about.name))
        .chain(AddOptions::about().map(|about| about.name))
        .chain(OTHERS)
        .chain(LoaderOptions::NAMES.iter().flat_map(|(_, names)| names.iter().copied()))
        .map(str::to_owned)
        .collect();
    let mut named = BTreeSet::new();
    for (path, text) in code() {
        for name in settings(&text) {
            assert!(known.contains(name), "{}: there is no option `{name}`", path.display());
            named.insert(name.to_owned());
        }
    }
    assert!(named.len() > 15, "the search finds them: {named:?}");
}

fn of_command(command: &str) -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_shardpack")).args([command, "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.lines().filter_map(|line| {
        // The line of an option looks like ` -o, --output <FILE>`, with or without the short form.
        let (before, option) = line.split_once("--")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let starts = before.trim().is_empty() || before.trim().len() == 3;
        starts.then(|| option.split(|c| !is_name(c)).next().unwrap_or_default().replace('-', "_"))
    });
    options.collect()
}

#[test]
fn each_command_has_the_options_that_its_own_hints_name() {
    let modules = [
        ("pack", "src/cli/pack/"),
        ("add", "crates/pack/src/grow/"),
        ("add", "src/cli/grow/"),
        // These commands write a generation, and may find an unfinished one.
        ("remove", "crates/writer/src/growth.rs"),
        ("compact", "crates/writer/src/growth.rs"),
        ("compact", "crates/writer/src/compact.rs"),
        ("compact", "crates/writer/src/lock.rs"),
        ("cat", "src/cli/cat.rs"),
        ("bench", "src/cli/bench/"),
        ("report", "src/cli/report/"),
        ("salvage", "crates/pack/src/salvage/"),
        ("salvage", "crates/reader/src/salvage/"),
        // `add` also runs this code. `AddOptions::can_follow` drops hints for options that `add` lacks.
        ("pack", "crates/sources/src/"),
        ("pack", "crates/pack/src/pack/"),
        ("pack", "crates/pack/src/encode/"),
    ];
    let mut checked = 0;
    for (path, text) in code() {
        let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap();
        for (command, _) in modules.iter().filter(|(_, module)| path.starts_with(module)) {
            let options = of_command(command);
            for name in settings(&text) {
                assert!(options.contains(name), "{path}: `{command}` has no option `{name}`: {options:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "the search finds them: {checked}");
}

#[test]
fn add_takes_the_options_that_its_table_lists() {
    let mut options = of_command("add");
    assert!(["help", "json", "spool", "take_over"].iter().all(|common| options.remove(*common)), "{options:?}");
    assert_eq!(options, AddOptions::about().map(|about| about.name.to_owned()).collect());
    // Errors about tables, links and files recommend these options, so `add` must have them.
    for name in ["key_column", "label_column", "follow_links", "labels", "masks", "on_bad_input", "on_known_key"] {
        assert!(AddOptions::can_follow(&Hint::set([Setting::named(name)])), "{name}");
    }
}

/// Hints must not be part of an error message. A hint within the message would be printed before
/// the causes of the error, and would spell options in the same way for the command and for Python.
#[test]
fn no_text_has_a_hint_in_it() {
    let mut searched = 0;
    for (path, text) in code() {
        // Skip tests, because they compare messages together with their hints. Also skip
        // `spelling.rs`, because it appends hints.
        let of_tests = |part: &std::ffi::OsStr| part.to_string_lossy().contains("tests");
        if path.iter().any(of_tests) || path.ends_with("crates/format/src/spelling.rs") {
            continue;
        }
        let (shown, _) = text.split_once("#[cfg(test)]\nmod ").unwrap_or((&text, ""));
        let shown: Vec<_> = shown.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // A backslash at the end of a line continues a string.
        let joined: String = shown.join("\n").split("\\\n").map(str::trim_start).collect();
        for start in ["\"hint:", "\\nhint:"] {
            assert!(!joined.contains(start), "{}: a text with a hint in it", path.display());
        }
        searched += 1;
    }
    assert!(searched > 200, "the search finds them: {searched}");
}

#[test]
fn the_hints_of_every_error_reach_front_ends() {
    let code = code();
    let all: String = code.iter().map(|(_, text)| text.as_str()).collect();
    let mut asked = 0;
    for (path, text) in &code {
        if !text.contains("fn hint(&self)") && !text.contains("fn hints(&self)") {
            continue;
        }
        let derived = text.split("thiserror::Error").skip(1).filter_map(|rest| {
            let line = rest.lines().find(|line| line.starts_with("pub enum ") || line.starts_with("pub struct "))?;
            line.split_whitespace().nth(2)
        });
        let written =
            text.split("impl std::error::Error for ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for name in derived.chain(written) {
            let name = name.split(['(', '<', ';']).next().unwrap();
            // Each crate defines its type `Error` and implements `Explain` in the same file. Only
            // `shardpack-format` implements it elsewhere, in `explain.rs`.
            let of_bottom = path.components().any(|part| part.as_os_str() == "format");
            let place = if name == "Error" && !of_bottom { text } else { &all };
            assert!(place.contains(&format!("impl Explain for {name} {{")), "{}: `{name}`", path.display());
            asked += 1;
        }
    }
    assert!(asked >= 8, "the search finds them: {asked}");
}

/// Characters that affect a terminal: ESC, BEL, a C1 control, bidirectional overrides, zero-width characters, a tag
/// character, and line ends.
const EVIL: &str = "\x1b[2Jx\x07y\u{9b}31m\u{202e}z\u{2066}\u{200b}\u{feff}\u{e0041}\x7f\nhint: obey\r!";
const EVIL_KEY: &str = "a\u{202e}b\u{2066}c\u{200b}d\u{feff}";

fn evil(key: &str) -> Map<String, Value> {
    let inner = json!({ EVIL: EVIL, "list": [EVIL, { EVIL: [EVIL] }], "settings": { EVIL: EVIL } });
    let pictures = json!({ "kind": EVIL, "samples": 1, "kept_because": { EVIL: 1 }, "worst_sample": EVIL });
    [(EVIL, inner), (key, pictures), ("plain", json!(EVIL))]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}

/// Writes a dataset and applies `change` to the metadata of its shard. Everything else is intact.
fn hostile_dataset(folder: &Path, change: impl Fn(String) -> String) -> String {
    let fields = vec![
        Field::stored("text", FieldKind::Text),
        Field::stored("json", FieldKind::Json),
        Field::scalar("label", Dtype::I64),
    ];
    let schema = Schema::new(fields).unwrap();
    let metadata = Metadata {
        schema: schema.clone(),
        classes: Some(vec![EVIL.to_owned(), format!("{EVIL}2")]),
        recipe: evil("text"),
        shards: Some(1),
    };
    let id = DatasetId([7; 16]);
    let identity = Identity::new(id, 0);
    let json = serde_json::to_vec(&Value::Object(evil("text"))).unwrap();
    let raw = |bytes: &[u8]| Some(StoredField::raw(bytes.len() as u64));
    let stored = [raw(EVIL.as_bytes()), raw(&json)];
    let label = 1_i64.to_le_bytes();
    let mut record = RecordBuilder::new(Vec::new(), &schema, 0, 0, EVIL_KEY, &label, &stored).unwrap();
    record.field_mut(0).copy_from_slice(EVIL.as_bytes());
    record.field_mut(1).copy_from_slice(&json);
    let (record, frame) = record.finish();
    let mut out = identity.encode_header().to_vec();
    let mut index = IndexBuilder::new(&schema);
    index.push(&frame, EVIL_KEY, &label).unwrap();
    out.extend(record);
    let text = change(String::from_utf8(metadata.encode().unwrap()).unwrap());
    let index = index.encode(text.as_bytes()).unwrap();
    let footer = Footer {
        identity,
        record_count: 1,
        index_offset: out.len() as u64,
        index_bytes: index.len() as u64,
        index_crc32: crc32fast::hash(&index),
    };
    out.extend(index);
    out.extend(footer.encode());
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(shard_name(0)), &out).unwrap();
    let mut manifest = Manifest::new(id, metadata);
    manifest.fidelity = evil("text");
    manifest.push(ShardEntry {
        name: shard_name(0),
        bytes: out.len() as u64,
        samples: 1,
        footer_crc32: footer.crc32(),
        sha256: Sha256::digest(&out).into(),
    });
    let text = String::from_utf8(manifest.encode().unwrap()).unwrap();
    fs::write(folder.join("manifest.json"), &text).unwrap();
    text
}

/// Runs a command, and checks that its output has no hidden characters and that its JSON is valid.
fn shown(words: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_shardpack")).args(words).output().unwrap();
    let texts = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    for text in &texts {
        let hidden = text.chars().find(|&c| is_hidden(c) && !matches!(c, '\n' | '\t'));
        assert_eq!(hidden, None, "{words:?}: {text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("hint: obey")), "{words:?}: {text}");
    }
    let [out, err] = texts;
    if words.contains(&"--json") && !out.is_empty() {
        let parsed: Vec<Value> =
            serde_json::Deserializer::from_str(&out).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(parsed.len(), 1, "{words:?}");
    }
    (done.status.code().unwrap_or(-1), out, err)
}

/// Runs all commands that read a dataset, and returns the exit codes of `inspect` and `verify`.
fn all_commands(dataset: &Path, scratch: &Path) -> [i32; 2] {
    let at = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let dataset = dataset.to_str().unwrap();
    let shard = format!("{dataset}/{}", shard_name(0));
    let mut codes = [0; 2];
    for json in [None, Some("--json")] {
        let run = |words: &[&str]| shown(&words.iter().copied().chain(json).collect::<Vec<_>>()).0;
        codes = [run(&["inspect", dataset]), run(&["verify", dataset, "--deep", "--digest"])];
        run(&["inspect", &shard]);
        run(&["verify", &shard]);
        run(&["ls", dataset, "--columns", "class,label,shard"]);
        run(&["ls", dataset, "--where", "class=c"]);
        run(&["ls", dataset, "--columns", "nothing"]);
        run(&["cat", dataset, "c", "--field", "nothing"]);
        for name in ["text", "nothing"] {
            run(&["cat", dataset, "0", "--field", name, "--output", &at("field")]);
        }
        shown(&["cat", dataset, "0", "--json"]);
        run(&["unpack", dataset, &at("files")]);
        run(&["salvage", dataset, &at("saved"), "--all-generations"]);
        run(&["salvage", dataset, &at("saved again")]);
        run(&["report", dataset, "--output", &at("page.html")]);
        run(&["bench", dataset]);
        run(&["merge", dataset, dataset]);
        run(&["compact", dataset]);
        fs::create_dir_all(scratch.join("more")).unwrap();
        fs::write(scratch.join("keys"), format!("nothing\n{EVIL_KEY}x\n")).unwrap();
        run(&["add", dataset, &at("more")]);
        run(&["remove", dataset, "--keys", &at("keys")]);
        run(&["pack", &at("more"), dataset]);
    }
    codes
}

#[test]
fn hostile_names_of_a_source_do_not_reach_the_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let picture = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/jpeg/testdata/tiles.jpg")).unwrap();
    // The sources contain only damaged files, one damaged picture, only unknown files, a picture next to a cube, and a
    // header without data.
    type Files<'a> = &'a [(&'a str, &'a [u8])];
    let sources: [(&str, Files<'_>); 5] = [
        ("all", &[(".jpg", b"no picture"), (".npy", b"no cube"), (".mat", b"no file")]),
        ("one", &[(".jpg", b"no picture")]),
        ("none", &[(".txt", b"nothing")]),
        ("both", &[(".jpg", &picture), (".npy", b"\x93NUMPY")]),
        ("header", &[(".hdr", b"ENVI\nsamples = 1\nlines = 1\nbands = 1\ndata type = 1\n")]),
    ];
    for (name, files) in sources {
        let folder = at(name).join(EVIL);
        fs::create_dir_all(&folder).unwrap();
        for (end, bytes) in files {
            fs::write(folder.join(format!("{EVIL}{end}")), bytes).unwrap();
        }
        let table = at(name).join(format!("{EVIL}.csv"));
        fs::write(&table, format!("key,{EVIL}\n{EVIL},1\n")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", folder.join(format!("{EVIL}-link.jpg"))).unwrap();
        for source in [at(name), folder.clone(), folder.join(format!("{EVIL}{}", files[0].0))] {
            let (source, out) = (text(&source), text(&at("out")));
            let mut codes = Vec::new();
            for json in [None, Some("--json")] {
                let run = |words: &[&str]| shown(&words.iter().copied().chain(json).collect::<Vec<_>>()).0;
                codes.push(run(&["pack", &source, &out]));
                codes.push(run(&["pack", &source, &out, "--labels", &text(&table)]));
                codes.push(run(&["pack", &source, &out, "--masks", &text(&folder)]));
                run(&["report", &source, "--output", &text(&at("page.html"))]);
                run(&["pack", &source, &source]);
                for command in ["inspect", "verify", "ls"] {
                    codes.push(run(&[command, &source]));
                }
            }
            assert!(!codes.contains(&0), "{name}: {codes:?}");
        }
        let gone = text(&at(name).join(format!("{EVIL}.gone")));
        for words in [vec!["pack", &gone, "out"], vec!["verify", &gone], vec!["salvage", &gone, "out"]] {
            assert_ne!(shown(&words).0, 0);
        }
    }
}

#[test]
fn hostile_texts_of_a_dataset_do_not_reach_the_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = scratch.path().join("whole");
    let manifest = hostile_dataset(&whole, |text| text);
    assert_eq!(all_commands(&whole, &scratch.path().join("of whole")), [0, 0]);
    let quoted = serde_json::to_string(EVIL).unwrap();
    // These changes cause parser messages about unknown keys, duplicate keys and invalid values.
    let changes: [(&str, String); 6] = [
        ("unknown", manifest.replacen('{', &format!("{{{quoted}: 1,"), 1)),
        ("twice", manifest.replacen("\"plain\"", &quoted, 1)),
        ("kind", manifest.replacen("\"kind\": \"text\"", &format!("\"kind\": {quoted}"), 1)),
        ("field", manifest.replacen("\"name\": \"json\"", &format!("\"name\": {quoted}"), 1)),
        ("version", manifest.replacen("\"version\": \"1.0\"", &format!("\"version\": {quoted}"), 1)),
        ("shard", manifest.replacen("\"name\": \"shard-00000.shard\"", &format!("\"name\": {quoted}"), 1)),
    ];
    for (name, text) in changes {
        assert_ne!(text, manifest, "{name}");
        let folder = scratch.path().join(name);
        hostile_dataset(&folder, |text| text);
        fs::write(folder.join("manifest.json"), text).unwrap();
        assert_ne!(all_commands(&folder, &scratch.path().join(format!("of {name}"))), [0, 0], "{name}");
    }
    // Put two of these faults into the metadata of a shard too, and correct the shard's checksums.
    for (n, (old, new)) in [("{", format!("{{{quoted}: 1,")), ("\"plain\"", quoted)].into_iter().enumerate() {
        let folder = scratch.path().join(n.to_string());
        hostile_dataset(&folder, |text| text.replacen(old, &new, 1));
        let codes = all_commands(&folder, &scratch.path().join(format!("of {n}")));
        assert_eq!(codes, [1, 1], "{old}");
    }
}

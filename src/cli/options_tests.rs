//! Tests that the command's options agree with the option tables of the libraries.

use super::args::Cli;
use crate::MAX_RECORD_BYTES;
use clap::CommandFactory;
use shardpack_loader::LoaderOptions;
use shardpack_pack::grow::AddOptions;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::{StorageOptions, parse_size};
use std::collections::BTreeSet;

#[test]
fn commands_have_the_default_limit_of_the_library() {
    let command = Cli::command();
    for name in ["inspect", "verify", "unpack", "cat", "salvage", "bench", "remove"] {
        let arguments = command.find_subcommand(name).unwrap();
        let limit = arguments.get_arguments().find(|argument| argument.get_long() == Some("max-record")).unwrap();
        let default = limit.get_default_values()[0].to_str().unwrap();
        assert_eq!(parse_size(default), Ok(MAX_RECORD_BYTES), "{name}");
    }
}

#[test]
fn the_help_of_bench_has_the_defaults_of_the_loader() {
    let command = Cli::command();
    let bench = command.find_subcommand("bench").unwrap();
    let help = |name: &str| {
        let argument = bench.get_arguments().find(|argument| argument.get_long() == Some(name)).unwrap();
        let value =
            argument.get_default_values().first().map(|value| format!(" [default: {}]", value.to_string_lossy()));
        format!("{}{}", argument.get_help().unwrap(), value.unwrap_or_default())
    };
    let LoaderOptions { order, resources, .. } = LoaderOptions::default();
    for (name, default) in [
        ("batch-size", order.batch_size.to_string()),
        ("lanes", order.lanes.to_string()),
        ("seed", order.seed.to_string()),
        ("slots", format!("{}; {} on a device", resources.slots, LoaderOptions::default_slots(true))),
    ] {
        let help = help(name);
        assert!(help.contains(&format!("[default: {default}")), "--{name}: {help}");
    }
}

fn options(subcommand: &str, own: &[&str]) -> BTreeSet<String> {
    let command = Cli::command();
    let arguments = command.find_subcommand(subcommand).unwrap().get_arguments();
    let long = arguments.filter_map(clap::Arg::get_long).filter(|name| !own.contains(name));
    long.map(|name| name.replace('-', "_")).collect()
}

fn keywords(file: &str, class: &str) -> BTreeSet<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("python/shardpack").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, body) = text.split_once(&format!("class {class}(")).unwrap();
    let lines: Vec<&str> = body.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with(' ')).collect();
    let mut names = BTreeSet::new();
    for (number, line) in lines.iter().enumerate() {
        let Some((name, _)) = line.strip_prefix("    ").and_then(|line| line.split_once(": ")) else { continue };
        if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            assert!(lines[number + 1].trim_start().starts_with("\"\"\""), "{class}.{name} has no documentation");
            names.insert(name.to_owned());
        }
    }
    names
}

/// The keyword arguments in Python are written by hand, so this test compares them with the option table.
#[test]
fn every_option_is_declared_once_and_is_in_each_front_end() {
    let set = |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect::<BTreeSet<_>>();
    let pack = set(&mut PackOptions::names());
    assert_eq!(options("pack", &["json", "help"]), pack);
    assert_eq!(options("plan", &["json", "help", "parts"]), pack);
    let of_storage = keywords("_pack.py", "StorageOptions");
    let storage = set(&mut StorageOptions::OPTIONS.iter().map(|option| option.about.name));
    assert!(storage.iter().all(|name| of_storage.contains(name) || name == "no_shuffle"), "{of_storage:?}");
    assert_eq!(&of_storage | &keywords("_pack.py", "PackOptions"), pack);
    let report = set(&mut ReportArguments::about().map(|about| about.name));
    assert_eq!(options("report", &["json", "help", "output"]), report);
    assert_eq!(keywords("_report.py", "ReportOptions"), report);
    let add = set(&mut AddOptions::about().map(|about| about.name));
    assert_eq!(options("add", &["json", "help", "spool", "take-over"]), add);
    assert_eq!(keywords("_grow.py", "AddOptions"), add);
}

#[test]
fn a_command_without_options_gives_none() {
    use super::args::Command;
    use clap::Parser;
    let parsed = |line: &[&str]| Cli::try_parse_from(line).unwrap().command;
    let Command::Pack(args) = parsed(&["shardpack", "pack", "in", "out"]) else { panic!("another command") };
    assert!(args.options.given.is_empty());
    let Command::Report(args) = parsed(&["shardpack", "report", "in"]) else { panic!("another command") };
    assert!(args.options.given.is_empty());
}

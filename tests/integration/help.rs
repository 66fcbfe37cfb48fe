//! Tests that help texts are short: each option has one line, and rare options appear only in `--help`.

use std::process::Command;

/// Number of lines on a screen. `-h` must fit on one screen, and `--help` on two.
const SCREEN: usize = 24;

/// Commands whose `--help` does not fit on two screens, each with its maximum number of lines.
const LONG: &[(&str, usize)] = &[("pack", 78), ("plan", 76), ("bench", 60), ("report", 62)];

fn help(command: &str, flag: &str) -> String {
    let mut shardpack = Command::new(env!("CARGO_BIN_EXE_shardpack"));
    let output = shardpack.args([command, flag]).env("COLUMNS", "100").output().expect("the help");
    String::from_utf8(output.stdout).expect("text")
}

fn commands() -> Vec<String> {
    let all = Command::new(env!("CARGO_BIN_EXE_shardpack")).arg("--help").output().expect("the help");
    let all = String::from_utf8(all.stdout).expect("text");
    let (_, list) = all.split_once("Commands:\n").expect("the list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn help_texts_fit_their_screens() {
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let limit = LONG.iter().find(|(name, _)| *name == command).map_or(2 * SCREEN, |(_, limit)| *limit);
        for (flag, limit) in [("-h", SCREEN), ("--help", limit)] {
            let help = help(&command, flag);
            let lines = help.lines().count();
            assert!(lines <= limit, "{command} {flag}: {lines} lines, more than {limit}\n{help}");
        }
    }
}

//! Lays out help texts with one line per option. `--help` shows everything. `-h` fits on a screen: it omits the
//! explanations, the examples and, for commands with many options, the rarely used ones.

use super::args::Cli;
use clap::{Command, CommandFactory};

/// Help template that puts the explanation of a command before its usage.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// Options that `-h` shows for commands with many options.
const COMMON: &[(&str, &str)] = &[
    ("add", "labels masks on_bad_input on_known_key force threads json"),
    ("pack", "labels masks splits jpeg quality values max_error on_bad_input part force threads json"),
    ("plan", "parts listing labels masks jpeg quality values max_error shard_size threads json"),
    ("bench", "image cube dtype augment fields batch_size order epochs cold threads device json"),
    ("report", "output json source samples want metric candidates quality target max_error device threads"),
];

/// Returns the command with the help texts for `-h` or `--help`.
pub(super) fn command(short: bool) -> Command {
    Cli::command().mut_subcommands(if short { brief } else { full })
}

fn full(command: Command) -> Command {
    let about = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    // Without a long text, clap prints each option on one line.
    let command = command.long_about(None::<&str>);
    match about.split_once("\n\n") {
        Some((_, explanation)) => command.before_help(explanation.to_owned()).help_template(TEMPLATE),
        None => command,
    }
}

fn brief(command: Command) -> Command {
    let more = format!("More: shardpack {} --help", command.get_name());
    let command = command.long_about(None::<&str>).after_help(more);
    let Some((_, common)) = COMMON.iter().find(|(name, _)| *name == command.get_name()) else { return command };
    command.mut_args(|arg| {
        let is_rare = !arg.is_positional() && common.split(' ').all(|name| name != arg.get_id().as_str());
        arg.help_heading(None::<&str>).hide(is_rare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_options_exist() {
        for (name, common) in COMMON {
            let command = Cli::command();
            let options = command.find_subcommand(name).unwrap().get_arguments();
            let options: Vec<&str> = options.map(|arg| arg.get_id().as_str()).collect();
            common.split(' ').for_each(|option| assert!(options.contains(&option), "{name} --{option}"));
        }
    }
}

//! The options of `pack` for other programs: spelled and checked as on the command line.

use super::args::Cli;
use super::args::Command::{Add, Pack, Plan};
use clap::CommandFactory;
use shardpack_format::Limits;
use shardpack_pack::grow::AddOptions;
use shardpack_pack::pack::PackOptions;
use std::ffi::OsString;
use std::path::PathBuf;

/// A long option of `shardpack pack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without the dashes in front.
    pub name: String,
    /// Whether a value follows it.
    pub takes_value: bool,
}

/// The long options of `shardpack pack`, except `--json` and `--help`.
///
/// ```
/// let flags = shardpack::cli::pack_flags();
/// assert!(flags.iter().any(|flag| flag.name == "shard-size" && flag.takes_value));
/// assert!(flags.iter().any(|flag| flag.name == "force" && !flag.takes_value));
/// ```
#[must_use]
pub fn pack_flags() -> Vec<Flag> {
    flags("pack")
}

/// The long options of `shardpack report`, as [`pack_flags`].
///
/// ```
/// assert!(shardpack::cli::report_flags().iter().any(|flag| flag.name == "samples" && flag.takes_value));
/// ```
#[must_use]
pub fn report_flags() -> Vec<Flag> {
    flags("report")
}

fn flags(subcommand: &str) -> Vec<Flag> {
    let command = Cli::command();
    let arguments = command.find_subcommand(subcommand).into_iter().flat_map(clap::Command::get_arguments);
    let flags = arguments.filter_map(|argument| {
        let name = argument.get_long().filter(|name| !matches!(*name, "json" | "help"))?;
        Some(Flag { name: name.to_owned(), takes_value: argument.get_action().takes_values() })
    });
    flags.collect()
}

/// Largest record or decoded field that the commands accept unless `--max-record` says otherwise: 4
/// GiB.
pub const MAX_RECORD_BYTES: u64 = 4 << 30;

/// What the commands accept: records and decoded fields up to `max_record` bytes, defaults for the
/// rest.
///
/// ```
/// let limits = shardpack::cli::read_limits(shardpack::cli::MAX_RECORD_BYTES);
/// assert_eq!((limits.max_record_bytes, limits.max_decoded_bytes), (4 << 30, 4 << 30));
/// ```
#[must_use]
pub fn read_limits(max_record: u64) -> Limits {
    super::open::limits(max_record)
}

/// A size as written on the command line: `1048576`, `8MiB`, `4GiB`, `500MB`.
///
/// ```
/// assert_eq!(shardpack::cli::size("64MiB"), Ok(64 << 20));
/// assert!(shardpack::cli::size("much").is_err());
/// ```
///
/// # Errors
/// What was expected, and what was found.
pub fn size(text: &str) -> Result<u64, String> {
    super::units::parse_bytes(text)
}

/// Source, output and options of `shardpack pack ARGS…`.
///
/// ```
/// let (src, _, options) = shardpack::cli::pack_options(["photos", "train", "--shard-size", "64MiB", "--jpeg", "keep"])?;
/// assert_eq!((src.to_str(), options.shard_bytes), (Some("photos"), 64 << 20));
/// let error = shardpack::cli::pack_options(["photos", "train", "--jpeg", "fast"]).unwrap_err().to_string();
/// assert!(error.starts_with("invalid value 'fast' for '--jpeg <JPEG>'"));
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
/// If the command would refuse them.
pub fn pack_options<T: Into<OsString>>(
    args: impl IntoIterator<Item = T>,
) -> anyhow::Result<(PathBuf, PathBuf, PackOptions)> {
    let own = ["shardpack", "pack"].into_iter().map(OsString::from);
    let command_line: Vec<OsString> = own.chain(args.into_iter().map(Into::into)).collect();
    match parsed(&command_line)? {
        Pack(args) => {
            let options = super::pack::options(&args)?;
            Ok((args.src, args.out, options))
        }
        _ => anyhow::bail!("expected the arguments of `pack`"),
    }
}

/// Source, output, options and number of parts of `shardpack plan ARGS…`.
///
/// ```
/// let (_, _, options, parts) = shardpack::cli::plan_options(["photos", "train", "--parts", "8", "--listing", "list"])?;
/// assert_eq!((parts, options.source.listing), (8, Some("list".into())));
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
/// If the command would refuse them.
pub fn plan_options<T: Into<OsString>>(
    args: impl IntoIterator<Item = T>,
) -> anyhow::Result<(PathBuf, PathBuf, PackOptions, u32)> {
    let own = ["shardpack", "plan"].into_iter().map(OsString::from);
    let command_line: Vec<OsString> = own.chain(args.into_iter().map(Into::into)).collect();
    match parsed(&command_line)? {
        Plan(args) => {
            let options = super::plan::options(&args)?;
            Ok((args.pack.src, args.pack.out, options, args.parts))
        }
        _ => anyhow::bail!("expected the arguments of `plan`"),
    }
}

/// Dataset, source and options of `shardpack add ARGS…`.
///
/// ```
/// let (dataset, src, options) = shardpack::cli::add_options(["train", "week-2", "--threads", "3"])?;
/// assert_eq!((dataset.to_str(), src.to_str(), options.threads), (Some("train"), Some("week-2"), 3));
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
/// If the command would refuse them.
pub fn add_options<T: Into<OsString>>(
    args: impl IntoIterator<Item = T>,
) -> anyhow::Result<(PathBuf, PathBuf, AddOptions)> {
    let own = ["shardpack", "add"].into_iter().map(OsString::from);
    let command_line: Vec<OsString> = own.chain(args.into_iter().map(Into::into)).collect();
    match parsed(&command_line)? {
        Add(args) => {
            let options = super::grow::options(&args);
            Ok((args.dataset, args.src, options))
        }
        _ => anyhow::bail!("expected the arguments of `add`"),
    }
}

/// Parses a command line that begins with the program's name, for programs that call the commands.
pub(super) fn parsed(command_line: &[OsString]) -> anyhow::Result<super::args::Command> {
    let cli = super::parse(command_line).map_err(|error| {
        let text = match error.downcast::<clap::Error>() {
            Ok(error) => error.to_string(),
            Err(error) => return error,
        };
        // Drop the pointer to a help text that the caller does not have.
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nUsage: ").next().unwrap_or_default();
        anyhow::anyhow!("{}", text.split("\n\nFor more information").next().unwrap_or_default().trim_end())
    })?;
    Ok(cli.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_have_the_default_that_other_programs_are_told() {
        let command = Cli::command();
        for name in ["inspect", "verify", "unpack", "cat", "salvage", "bench", "remove"] {
            let arguments = command.find_subcommand(name).unwrap();
            let limit = arguments.get_arguments().find(|argument| argument.get_long() == Some("max-record")).unwrap();
            let default = limit.get_default_values()[0].to_str().unwrap();
            assert_eq!(size(default), Ok(MAX_RECORD_BYTES), "{name}");
        }
    }
}

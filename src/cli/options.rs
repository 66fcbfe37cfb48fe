//! The options of `pack` for other programs: as the command line spells them, checked as it checks them.

use super::args::Cli;
use super::args::Command::Pack;
use crate::pack::PackOptions;
use clap::{CommandFactory, Parser};
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

/// The long options of `shardpack pack`, but for `--json` and `--help`.
///
/// ```
/// let flags = shardpack::cli::pack_flags();
/// assert!(flags.iter().any(|flag| flag.name == "shard-size" && flag.takes_value));
/// assert!(flags.iter().any(|flag| flag.name == "force" && !flag.takes_value));
/// ```
#[must_use]
pub fn pack_flags() -> Vec<Flag> {
    let command = Cli::command();
    let arguments = command.find_subcommand("pack").into_iter().flat_map(clap::Command::get_arguments);
    let flags = arguments.filter_map(|argument| {
        let name = argument.get_long().filter(|name| !matches!(*name, "json" | "help"))?;
        Some(Flag { name: name.to_owned(), takes_value: argument.get_action().takes_values() })
    });
    flags.collect()
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
    let cli = Cli::try_parse_from(own.chain(args.into_iter().map(Into::into))).map_err(|error| {
        let text = error.to_string();
        // Without the way to a help text that the caller does not have.
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nUsage: ").next().unwrap_or_default();
        anyhow::anyhow!("{}", text.split("\n\nFor more information").next().unwrap_or_default().trim_end())
    })?;
    match cli.command {
        Pack(args) => {
            let options = super::pack::options(&args)?;
            Ok((args.src, args.out, options))
        }
        _ => anyhow::bail!("expected the arguments of `pack`"),
    }
}

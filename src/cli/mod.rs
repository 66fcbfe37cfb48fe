//! The command line of shardpack, with one module per subcommand.

mod args;
mod bench;
#[cfg(feature = "store")]
mod cache;
mod cat;
mod examples;
mod exit_status;
mod grow;
mod help;
mod inspect;
mod interrupt;
mod ls;
#[cfg(test)]
mod options_tests;
mod pack;
mod plan;
mod progress;
mod recipe;
mod refuse;
mod report;
mod salvage;
mod shared_args;
mod show;
mod summary;
mod table;
mod units;
mod unpack;
mod verify;

use args::{Cli, Command};
use clap::FromArgMatches;
use exit_status::ExitStatus;
use shardpack_pack::grow::AddOptions;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Runs the command line of this process and returns the exit code: 0 for success, 1 for a problem in the data,
/// 2 if the command could not run, 130 if it was interrupted.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(main_from(std::env::args_os()))
}

/// Runs the command line `args`, which starts with the program name, and returns the exit code as in [`main`]. Prints
/// to stdout and stderr, and handles the signals of the process, so use it only in a program that does nothing else.
///
/// ```
/// assert_eq!(shardpack::cli::main_from(["shardpack", "inspect", "no/such/folder"]), 2);
/// ```
pub fn main_from<T: Into<OsString> + Clone>(args: impl IntoIterator<Item = T>) -> u8 {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let cli = match parse(&args) {
        Ok(Ok(cli)) => cli,
        Ok(Err(error)) => {
            // clap reports `--help` and `--version` as errors that print to stdout. Their exit code is 0.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return code;
        }
        Err(error) => {
            show::error(&error);
            return 2;
        }
    };
    // An error of `pack`, `plan`, `merge`, `add` or `report` concerns the input or the output, not
    // a dataset that the command reads.
    let reads = !matches!(
        cli.command,
        Command::Pack(_) | Command::Plan(_) | Command::Merge(_) | Command::Add(_) | Command::Report(_)
    );
    let adds = matches!(cli.command, Command::Add(_));
    let outcome = catch_unwind(AssertUnwindSafe(|| match cli.command {
        Command::Pack(args) => pack::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Merge(args) => pack::merge(&args),
        Command::Add(args) => grow::run_add(&args),
        Command::Remove(args) => grow::run_remove(&args),
        Command::Compact(args) => grow::run_compact(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Unpack(args) => unpack::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Bench(args) => bench::run(&args),
        #[cfg(feature = "store")]
        Command::Cache(args) => cache::run(&args),
        Command::Report(args) => report::run(&args),
    }));
    match outcome.unwrap_or_else(|panic| Err(shardpack_format::Error::panicked("the command", &*panic).into())) {
        Ok(ExitStatus::Fine) => 0,
        Ok(ExitStatus::Problem) => 1,
        Ok(ExitStatus::Interrupted) => u8::try_from(interrupt::EXIT_CODE).unwrap_or(1),
        Err(error) if show::is_broken_pipe(&error) => 0,
        Err(error) => {
            show::error_where(&error, |hint| !adds || AddOptions::can_follow(hint));
            if reads && show::is_about_data(&error) { 1 } else { 2 }
        }
    }
}

/// Parses the arguments, and for `pack --recipe` inserts the recipe's options first.
fn parse(args: &[OsString]) -> crate::Result<Result<Cli, clap::Error>> {
    let cli = match read(args) {
        Ok(cli) => cli,
        refused => return Ok(refused),
    };
    let recipe = match &cli.command {
        Command::Pack(pack) => &pack.recipe,
        Command::Plan(plan) => &plan.pack.recipe,
        _ => &None,
    };
    match recipe {
        Some(recipe) => Ok(read(&recipe::inserted(args, recipe)?)),
        None => Ok(Ok(cli)),
    }
}

fn read(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = help::command(args.iter().any(|arg| arg == "-h"));
    let mut matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

//! Declares the arguments of `shardpack report`.

use super::super::examples;
use super::super::table::Options;
use clap::Args;
use shardpack_pack::options::ReportArguments;
use std::path::PathBuf;

/// Compare lossy settings on one page, before packing.
///
/// Draws samples from SRC, stores and scores them with each candidate setting, and writes an HTML
/// page with a recommendation, sizes against scores, predictions for all of SRC, and the worst
/// samples. If SRC is a dataset, the page shows its recipe, sizes and scores; `--source` compares
/// samples with their sources. Ctrl-C writes the page with the results so far. See docs/report.md.
#[derive(Debug, Args)]
#[command(after_help = examples::REPORT)]
pub(crate) struct ReportArgs {
    /// Folder or file of pictures or cubes, or a dataset
    pub src: PathBuf,
    /// Page to write [default: report.html; none with --json]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the data as one JSON object, without pictures
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub options: Options<ReportArguments>,
}

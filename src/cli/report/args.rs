//! The arguments of `shardpack report`.

use super::super::examples;
use super::super::table::Options;
use clap::Args;
use shardpack_pack::options::ReportArguments;
use std::path::PathBuf;

/// Show what a lossy choice costs, on one page, before a dataset is packed.
///
/// Draws a sample of the sources, encodes it under a set of candidates as `pack` would, decodes and
/// scores it, and writes one HTML file: a recommended recipe with its reason, bytes against score,
/// predictions for the whole set with their intervals, the worst samples to look at, and how all of
/// it was found. Nothing is packed and nothing in SRC is changed.
///
/// Of a dataset (SRC with a manifest, or a lone shard), the page shows its recipe, the fidelity that
/// packing measured, sizes and scores of its samples, and the worst of them. With `--source`, samples
/// are drawn, decoded and compared with their sources, as those of candidates are.
///
/// Interrupted (Ctrl-C), it writes the page with what was measured by then.
#[derive(Debug, Args)]
#[command(after_help = examples::REPORT)]
pub(crate) struct ReportArgs {
    /// Folder (or single file) of pictures or cubes, or a dataset
    pub src: PathBuf,
    /// The page to write [default: report.html; with --json none]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The data as one JSON object on stdout. Pictures are on the page only
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub options: Options<ReportArguments>,
}

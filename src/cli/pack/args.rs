//! The arguments of `shardpack pack`, `plan` and `merge`.

use super::super::examples;
use super::super::table::Options;
use crate::place::Destination;
use clap::Args;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::ArgumentError;
use std::path::{Path, PathBuf};

/// Convert a folder of pictures or cubes into a dataset.
///
/// JPEGs are stored in tiles with the same pixels, so that a reader can decode a part of a picture.
/// Cubes of integers, even in a float type, are stored without loss. Other cubes are stored as
/// float16, and the error is measured and printed. An interrupted run continues if you repeat the
/// command. Options are explained in docs/options.md.
#[derive(Debug, Args)]
#[command(after_help = examples::PACK)]
pub(crate) struct PackArgs {
    /// Folder or file to pack, or the URL of a folder (s3://, gs://, az://)
    pub src: PathBuf,
    /// Folder or URL of the dataset to write
    pub out: PathBuf,
    #[command(flatten)]
    pub options: Options<PackOptions>,
    /// Use the settings of candidate N of a report [default: recommended]
    #[arg(long, value_name = "REPORT[#N]")]
    pub recipe: Option<String>,
    #[command(flatten)]
    pub to: ToStore,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
}

impl PackArgs {
    pub(crate) fn options(&self) -> Result<PackOptions, ArgumentError> {
        PackOptions::read(&self.options.given, &self.out)
    }
}

/// Estimate time, size and memory of each part of `pack --part I/N`, without packing.
///
/// Lists SRC, plans the shards with the given options of `pack`, and packs a few samples in memory
/// to measure the speed of this machine. The estimated times omit listing and writing. OUT is not
/// changed. `--listing FILE` saves the file list, so that many machines need not scan SRC.
#[derive(Debug, Args)]
#[command(after_help = examples::PLAN)]
pub(crate) struct PlanArgs {
    /// Number of parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub parts: u32,
    #[command(flatten)]
    pub pack: PackArgs,
}

/// Join the parts of a dataset that several machines packed with --part.
///
/// If parts are missing, unfinished or damaged, the error names them, such as `17,203-210`. Slurm's
/// `--array` accepts this form, so you can submit them again. All parts must have been packed with
/// the same options.
#[derive(Debug, Args)]
#[command(after_help = examples::MERGE)]
pub(crate) struct MergeArgs {
    /// Folder or URL with the shards of all parts
    pub out: PathBuf,
    #[command(flatten)]
    pub to: ToStore,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of writing to a store.
#[derive(Debug, Args)]
pub(crate) struct ToStore {
    /// Local folder for shards that wait to be uploaded [default: temporary folder]
    #[arg(long, value_name = "DIR", help_heading = "Object stores")]
    pub spool: Option<PathBuf>,
    /// Continue a run killed on another machine or with another --spool
    #[arg(long, help_heading = "Object stores")]
    pub take_over: bool,
}

impl ToStore {
    pub(crate) fn destination(&self, out: &Path) -> Destination {
        Destination { path: out.to_owned(), spool: self.spool.clone(), take_over: self.take_over }
    }
}

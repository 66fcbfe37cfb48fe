//! The arguments of `shardpack pack`, `plan` and `merge`.

use super::super::examples;
use super::super::table::Options;
use crate::place::Destination;
use clap::Args;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::ArgumentError;
use std::path::{Path, PathBuf};

/// Convert a folder of pictures or cubes into a dataset, once.
///
/// JPEGs are stored in tiles, with the same pixels as the source. A reader can then cut out just
/// the part that it needs. `--jpeg keep` keeps the files to the byte. Cubes of integers, also
/// integers held as floats, are stored without loss. Other cubes are stored as float16, and the
/// error is measured and printed; `--values keep` keeps every bit. If a run is interrupted, give
/// the same command again: it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::PACK)]
pub(crate) struct PackArgs {
    /// Folder (or single file) to pack: class folders, a flat folder, or nested folders; or the URL
    /// of a folder in a store
    pub src: PathBuf,
    /// Folder of the dataset to write, or its URL in a store (s3://, gs://, az://)
    pub out: PathBuf,
    #[command(flatten)]
    pub options: Options<PackOptions>,
    /// Store samples as a candidate of `shardpack report` does: `report.html#2`, or `report.html` for
    /// the one that it recommends
    #[arg(long, value_name = "REPORT[#N]")]
    pub recipe: Option<String>,
    #[command(flatten)]
    pub to: ToStore,
    /// One JSON object on stdout instead of the summary
    #[arg(long)]
    pub json: bool,
}

impl PackArgs {
    /// Returns the options for packing into OUT.
    pub(crate) fn options(&self) -> Result<PackOptions, ArgumentError> {
        PackOptions::read(&self.options.given, &self.out)
    }
}

/// Say what each part of `pack --part I/N` would take, without packing.
///
/// It lists SRC, makes the plan of `pack` with the same options, and packs a few samples into nothing
/// to learn the rate of this machine. The times leave out what listing, writing and a slower disk
/// take. With --listing FILE it writes the listing there, for `pack --part I/N --listing FILE` on
/// every machine: a thousand parts then list SRC once. OUT is not touched.
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
/// Parts that are missing, half done or damaged are named, with an expression such as
/// `--array=17,203-210` that submits them again to a job system; with --json, in the object on
/// stdout as well. Parts of different options are refused, and the option is named.
#[derive(Debug, Args)]
#[command(after_help = examples::MERGE)]
pub(crate) struct MergeArgs {
    /// Folder that holds the shards of all parts, or its URL
    pub out: PathBuf,
    #[command(flatten)]
    pub to: ToStore,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// How a dataset is written to a store.
#[derive(Debug, Args)]
pub(crate) struct ToStore {
    /// With a URL as OUT: folder of this machine that holds up to three shards until the store has
    /// them, and what a run that is stopped needs to go on [default: the folder for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Object stores")]
    pub spool: Option<PathBuf>,
    /// With a URL as OUT: go on in the place of a run that was killed on another machine, or with
    /// another spool. If that run lives after all, it stops
    #[arg(long, help_heading = "Object stores")]
    pub take_over: bool,
}

impl ToStore {
    /// Returns the destination for `out`.
    pub(crate) fn destination(&self, out: &Path) -> Destination {
        Destination { path: out.to_owned(), spool: self.spool.clone(), take_over: self.take_over }
    }
}

//! The arguments of the command line, as clap parses them.

use super::bench::args::BenchArgs;
use super::examples;
use super::grow::args::{AddArgs, CompactArgs, RemoveArgs};
use super::pack::args::{MergeArgs, PackArgs, PlanArgs};
use super::report::args::ReportArgs;
use super::shared_args::DatasetArgs;
use clap::{Args, Parser, Subcommand};
use shardpack_recipe::{parse_size, parse_threads};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
The Python package adds `shardpack convert` and `shardpack export` for other formats.

Exit codes:
  0    success
  1    finished, but the data has a problem
  2    failed: wrong arguments, bad input, missing files, a full disk
  130  interrupted";

/// Pack images and hyperspectral cubes into shards that feed a GPU at disk speed.
#[derive(Debug, Parser)]
#[command(name = "shardpack", version, max_term_width = 110, after_help = EXIT_CODES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Pack(Box<PackArgs>),
    Plan(Box<PlanArgs>),
    Merge(MergeArgs),
    Add(AddArgs),
    Remove(RemoveArgs),
    Compact(CompactArgs),
    Inspect(InspectArgs),
    Verify(VerifyArgs),
    Unpack(UnpackArgs),
    Ls(LsArgs),
    Cat(CatArgs),
    Salvage(SalvageArgs),
    Bench(Box<BenchArgs>),
    #[cfg(feature = "store")]
    Cache(CacheArgs),
    Report(Box<ReportArgs>),
}

/// Show the fields, classes, shapes, sizes, recipe, fidelity and shards of a dataset.
#[derive(Debug, Args)]
#[command(after_help = examples::INSPECT)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// List, check or clear the local cache of datasets in stores.
///
/// The cache may be in use. A reader that misses a block fetches it again.
#[cfg(feature = "store")]
#[derive(Debug, Args)]
#[command(after_help = examples::CACHE)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    pub task: CacheTask,
}

#[cfg(feature = "store")]
#[derive(Debug, Subcommand)]
pub(super) enum CacheTask {
    /// List the datasets in the cache, with the number and size of their blocks
    Ls(CacheFolderArgs),
    /// Check every block and remove damaged ones
    Verify(CacheFolderArgs),
    /// Remove all blocks, or the blocks of one dataset
    Clear {
        #[command(flatten)]
        folder: CacheFolderArgs,
        /// Remove only the blocks of the dataset with this URL, as `cache ls` shows it
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
}

#[cfg(feature = "store")]
#[derive(Debug, Args)]
pub(super) struct CacheFolderArgs {
    /// Folder of the cache
    pub folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Check every byte of a dataset and list the damaged samples.
///
/// Checks the header, footer and index of each shard; frame, checksum, head and padding of each
/// record; the agreement of records, index, schema and manifest; unique keys and sample ids; labels
/// against classes; and the fidelity figures of the manifest against those of the samples.
/// `--deep` also decodes every field. `--digest` also compares each shard with its SHA-256.
///
/// It cannot check the values against the sources (`pack` measures that), nor files that the
/// manifest does not name. To detect changes to the manifest, keep its SHA-256 elsewhere.
#[derive(Debug, Args)]
#[command(after_help = examples::VERIFY)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Also decode every field
    #[arg(long)]
    pub deep: bool,
    /// Also compare the SHA-256 of every shard with the manifest
    #[arg(long)]
    pub digest: bool,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Write the samples back as files: pictures with their old names, cubes as .npy.
///
/// Pictures packed with `--jpeg keep` come back byte for byte; tiled pictures have the same pixels,
/// ICC profile and orientation. The mask and metadata of `a.npy` are `a.mask.npy` and
/// `a.meta.json`; the mask of `a.jpg` is `a.jpg.mask.npy`. `pack` accepts these files.
///
/// Damaged samples are listed and skipped, and the exit code is 1. An interrupted run continues if
/// you repeat the command.
#[derive(Debug, Args)]
#[command(after_help = examples::UNPACK)]
pub(super) struct UnpackArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Folder to write to; existing files are never overwritten
    pub dir: PathBuf,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// List the samples of a dataset: their keys, and columns on request.
///
/// Reads the indexes of the shards, but no records. Columns are separated by tabs, and the first
/// line has their names.
#[derive(Debug, Args)]
#[command(after_help = examples::LS)]
pub(super) struct LsArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Keys to list: a pattern with `*`, `?` and `[a-z]`; `*` and `?` also match `/`
    #[arg(long, value_name = "PATTERN")]
    pub keys: Option<String>,
    /// Samples to list: NAME, one of = != < <= > >=, and a value; repeatable
    #[arg(long, value_name = "COND")]
    pub r#where: Vec<String>,
    /// Columns besides the key: scalar fields, class, index, bytes, shard
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Print at most N samples
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Write one field of a sample to a file or to stdout.
#[derive(Debug, Args)]
#[command(after_help = examples::CAT)]
pub(super) struct CatArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Key of the sample, or its index in stored order
    pub sample: String,
    /// Field to write [default: the picture or the cube]
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// File to write; `-` is stdout, even if it is a terminal [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print the description of the sample and its fields as JSON
    #[arg(long)]
    pub json: bool,
}

/// Copy undamaged samples to a new dataset; rebuild a lost manifest, index or footer.
#[derive(Debug, Args)]
#[command(after_help = examples::SALVAGE)]
pub(super) struct SalvageArgs {
    /// Folder or URL of a dataset, or a single shard
    pub dataset: PathBuf,
    /// Local folder of the new dataset; or the same folder, to rebuild only its manifest
    pub out: PathBuf,
    /// Copy the samples of all generations, including removed ones
    #[arg(long)]
    pub all_generations: bool,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

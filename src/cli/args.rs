//! The arguments of the command line as typed: clap parses them before any look-up or check against the disk.

use super::bench::args::BenchArgs;
use super::examples;
use super::grow::args::{AddArgs, CompactArgs, RemoveArgs};
use super::pack::args::{MergeArgs, PackArgs, PlanArgs};
use super::report::args::ReportArgs;
use super::shared_args::FromStore;
use clap::{Args, Parser, Subcommand};
use shardpack_recipe::{parse_size, parse_threads};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
The Python package adds `shardpack convert` and `shardpack export`, from and to other formats.

Exit codes:
  0    fine
  1    done, but a problem in the data was found
  2    could not run, or stopped: wrong arguments, bad input, missing files, a full disk
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
    Report(Box<ReportArgs>),
}

/// Show what a dataset is: fields, classes, shapes, sizes, recipe, fidelity, shards.
#[derive(Debug, Args)]
#[command(after_help = examples::INSPECT)]
pub(super) struct InspectArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Check every byte of a dataset and list the damaged samples.
///
/// Always checked: header, footer and index of each shard; frame, CRC32, head and padding of each
/// record; whether records, index, schema and manifest agree; whether keys and sample ids are
/// unique; labels against the classes; the fidelity figures of the manifest against those of the
/// samples.
///
/// With --deep: whether every field decodes. With --digest: whether each shard is the file that was
/// packed, by its SHA-256.
///
/// Not checked: whether values equal those of the sources (`pack` measures that), the minor version
/// in the manifest, and files that the manifest does not name. --digest finds changes to a shard
/// and all its CRC32s, but not changes to the manifest as well: if that matters, keep the
/// manifest's SHA-256 elsewhere.
#[derive(Debug, Args)]
#[command(after_help = examples::VERIFY)]
pub(super) struct VerifyArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
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
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Write the samples back as files: pictures under their old names, cubes as .npy.
///
/// Pictures that were kept come back to the byte. Tiled pictures come back with the same pixels,
/// ICC profile and orientation. A cube `a.npy` has its mask beside it as `a.mask.npy` and its
/// metadata as `a.meta.json`, a picture `a.jpg` its mask as `a.jpg.mask.npy`; `pack` takes them back.
///
/// Damaged samples are listed and skipped, and the exit code is 1. If a run is interrupted, give
/// the same command again: it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::UNPACK)]
pub(super) struct UnpackArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// Folder to write to. Existing files are never overwritten: a file with the same content is
    /// skipped, one with other content is an error
    pub dir: PathBuf,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// List the samples of a dataset, a line each: their keys, and columns on request.
///
/// It reads the indexes alone, shard by shard, and no record.
#[derive(Debug, Args)]
#[command(after_help = examples::LS)]
pub(super) struct LsArgs {
    /// Folder of a dataset, its manifest, a lone shard, or a URL
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// Only keys that match this pattern: `*` and `?` stand for any characters, `/` included
    #[arg(long, value_name = "PATTERN")]
    pub keys: Option<String>,
    /// Only samples that meet this condition: NAME, one of = != < <= > >=, and a value, such as
    /// `class=ant` or `height>=256`; several must all hold
    #[arg(long, value_name = "COND")]
    pub r#where: Vec<String>,
    /// Columns beside the key, separated by commas: scalar fields, and `class`, `index`, `bytes` (of
    /// the record) and `shard`. Values are separated by tabs, under a line of names
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// At most so many samples
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// A JSON object on each line
    #[arg(long)]
    pub json: bool,
}

/// Write one field of one sample to a file or to stdout.
#[derive(Debug, Args)]
#[command(after_help = examples::CAT)]
pub(super) struct CatArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// Key of the sample, or its index in stored order
    pub sample: String,
    /// Field to write [default: the picture or the cube]
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// File to write; `-` is stdout, even if that is a terminal [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Describe the sample and its fields instead of writing one
    #[arg(long)]
    pub json: bool,
}

/// Copy all undamaged samples of a damaged dataset into a new one; rebuild a lost manifest, index
/// or footer.
#[derive(Debug, Args)]
#[command(after_help = examples::SALVAGE)]
pub(super) struct SalvageArgs {
    /// Folder of a dataset, or a lone shard
    pub dataset: PathBuf,
    /// Folder of the dataset to write; the damaged one is not changed. Or the same folder, to
    /// rebuild only its manifest
    pub out: PathBuf,
    /// Take the samples of all shards, also of older generations: removed samples come back
    #[arg(long)]
    pub all_generations: bool,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

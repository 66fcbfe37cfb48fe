//! Declares the arguments of `add`, `remove` and `compact`.

use super::super::examples;
use super::super::pack::args::ToStore;
use super::super::table::Options;
use clap::Args;
use shardpack_pack::grow::AddOptions;
use shardpack_recipe::{parse_size, parse_threads};
use std::path::PathBuf;

/// Add files to a dataset, packed by its own recipe, as a new generation.
///
/// New samples go into new shards in the same folder; existing shards do not change. Classes are
/// matched by name, and new ones get the next numbers. Older generations stay: `--generation 1`
/// opens the dataset as it was packed. An interrupted run leaves the dataset unchanged, and
/// continues if you repeat the command.
#[derive(Debug, Args)]
#[command(after_help = examples::ADD)]
pub(crate) struct AddArgs {
    /// Folder or URL of the dataset
    pub dataset: PathBuf,
    /// Folder or file with the new samples, or the URL of a folder (s3://, gs://, az://)
    pub src: PathBuf,
    #[command(flatten)]
    pub options: Options<AddOptions>,
    #[command(flatten)]
    pub to: ToStore,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Remove samples from a dataset, as a new generation.
///
/// Rewrites the shards that hold the samples. Older generations keep them until you run `shardpack
/// compact`. If a key is not in the dataset, nothing is removed. An interrupted run leaves the
/// dataset unchanged, and continues if you repeat the command.
#[derive(Debug, Args)]
#[command(after_help = examples::REMOVE)]
pub(crate) struct RemoveArgs {
    /// Folder or URL of the dataset
    pub dataset: PathBuf,
    /// Text file with a key on each line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub keys: PathBuf,
    /// Discard the unfinished files from an interrupted `add` or `remove`
    #[arg(long)]
    pub force: bool,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    #[command(flatten)]
    pub to: ToStore,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Delete all generations except the newest, and the shards that only they use.
///
/// With `--segment-index`, first rewrites the shards of a dataset of kept JPEGs with a segment index
/// next to each picture, so that loaders can decode parts of a picture.
///
/// Afterwards no file of the folder contains the bytes of removed samples. Copies and backups of the
/// folder, and free blocks of the disk, may still contain them. Class names stay in the manifest and
/// in every shard; classes without samples are listed.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPACT)]
pub(crate) struct CompactArgs {
    /// Folder or URL of the dataset
    pub dataset: PathBuf,
    /// First add segment indexes to kept JPEGs
    #[arg(long)]
    pub segment_index: bool,
    /// Discard unfinished files, with `--segment-index`
    #[arg(long, requires = "segment_index")]
    pub force: bool,
    /// Worker threads, with `--segment-index` [default: all cores]
    #[arg(long, value_name = "N", requires = "segment_index", value_parser = parse_threads)]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub to: ToStore,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

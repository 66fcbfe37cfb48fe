//! The arguments of `add`, `remove` and `compact`.

use super::super::examples;
use super::super::table::Options;
use clap::Args;
use shardpack_pack::grow::AddOptions;
use shardpack_recipe::{parse_size, parse_threads};
use std::path::PathBuf;

/// Pack more files behind a dataset, by its own recipe: its next generation.
///
/// The new samples go into new shards in the same folder; nothing there is written anew, and the run
/// takes the time of the new files alone. Classes are matched by their names; new ones get the next
/// numbers. Older generations stay: `manifest-0001.json` is the dataset as it was packed, and
/// `--generation 1` opens it. If a run is interrupted, the dataset is as it was; give the same
/// command again, and it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::ADD)]
pub(crate) struct AddArgs {
    /// Folder of the dataset
    pub dataset: PathBuf,
    /// Folder (or single file) with the new samples
    pub src: PathBuf,
    #[command(flatten)]
    pub options: Options<AddOptions>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Leave samples out of a dataset: a generation without them.
///
/// The shards that hold them are written anew without them; all others stay as they are. Older
/// generations still hold the samples, until `shardpack compact` deletes those. A key that the
/// dataset does not hold is an error, and nothing is removed. If a run is interrupted, the dataset
/// is as it was; give the same command again, and it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::REMOVE)]
pub(crate) struct RemoveArgs {
    /// Folder of the dataset
    pub dataset: PathBuf,
    /// Text with the key of a sample on each line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub keys: PathBuf,
    /// Drop what an interrupted `add` or `remove` of other samples has made so far
    #[arg(long)]
    pub force: bool,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Delete all generations of a dataset but the newest, and the shards that only they have.
///
/// After `remove`, this is what makes the bytes of the removed samples go: no file of the folder
/// holds them any more. Copies of the folder, backups and the blocks of the disk are beyond it, and so
/// are names of classes: they stay in the manifest and in every shard, also of classes without
/// samples, which are listed.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPACT)]
pub(crate) struct CompactArgs {
    /// Folder of the dataset
    pub dataset: PathBuf,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

//! Declares the arguments of `shardpack bench`.

use super::super::examples;
use super::super::shared_args::DatasetArgs;
use super::view::{Argument, parse_bands};
use crate::report::DeviceName;
use clap::{Args, ValueEnum};
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Window};
use shardpack_reader::Bands;
use shardpack_recipe::{parse_size, parse_threads};

/// Measure the loading speed, name the bottleneck, and suggest changes.
///
/// Runs the loader for some epochs and drops each batch at once: a training loop cannot be faster.
/// Prints peak memory next to the prediction. The first epoch is a warm-up and does not count,
/// unless it is the only one or `--cold` is given. Views are explained in docs/options.md.
#[derive(Debug, Args)]
#[command(after_help = examples::BENCH)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub dataset: DatasetArgs,
    /// Pictures: full, raw, shortN, rrcN, centerN, resizeN, padN, jitterN, randcropN, ioucropN [default: full]
    #[arg(long, value_name = "VIEW", value_parser = Argument::<ImageMode>::parse, help_heading = "Batches")]
    pub image: Option<Argument<ImageMode>>,
    /// Arrays: whole, raw, patchHxW, centerHxW, cycleHxW [default: whole]
    #[arg(long, value_name = "VIEW", value_parser = Argument::<CubeMode>::parse, help_heading = "Batches")]
    pub cube: Option<Argument<CubeMode>>,
    /// Bands of cubes: 10..50 (without 50), or a list [default: all]
    #[arg(long, value_name = "BANDS", value_parser = parse_bands, help_heading = "Batches")]
    pub bands: Option<Argument<Bands>>,
    /// Element type, for all or by field: cube=float16 [default: source's]
    #[arg(long, value_name = "TYPE", value_parser = Argument::<ArrayDtype>::parse, help_heading = "Batches")]
    pub dtype: Option<Argument<ArrayDtype>>,
    /// Mean of float pictures, 0 to 1: a number, or RED,GREEN,BLUE
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true, help_heading = "Batches")]
    pub mean: Option<Vec<f64>>,
    /// Standard deviation of float pictures, as --mean [default: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "Batches")]
    pub std: Option<Vec<f64>>,
    /// Replace no-data values of cubes with this number [default: keep]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = "Batches")]
    pub no_data: Option<f32>,
    /// Random changes, such as trivial_augment_wide,random_erasing(p=0.1)
    #[arg(long, value_name = "LIST", help_heading = "Batches")]
    pub augment: Option<String>,
    /// Mix samples: mixup(alpha=0.2), cutmix, both, or mosaic
    #[arg(long, value_name = "LIST", help_heading = "Batches")]
    pub augment_batch: Option<String>,
    /// Fields to load [default: all scalars, pictures and arrays]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Batches")]
    pub fields: Option<Vec<String>>,
    /// Samples in a batch [default: 32, or fewer if over 256 MiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Batches")]
    pub batch_size: Option<u32>,
    /// Order: stored, windowed (runs of 4 MiB), full
    #[arg(long, value_enum, default_value = "windowed", help_heading = "Batches", hide_possible_values = true)]
    pub order: OrderArg,
    /// Runs that --order windowed mixes at a time [default: 240]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Batches")]
    pub lanes: Option<u32>,
    /// Seed for the order, views and patches
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batches")]
    pub seed: u64,

    /// Epochs to run
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Run",
    )]
    pub epochs: u32,
    /// Drop the dataset from the page cache before each epoch
    #[arg(long, help_heading = "Run")]
    pub cold: bool,
    /// Threads that read and decode [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, help_heading = "Run")]
    pub threads: Option<usize>,
    /// Batches in memory, loading or in use [default: 3; 4 on a device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Run")]
    pub slots: Option<u32>,
    /// Bytes to read ahead, in addition to the window
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_size, help_heading = "Run")]
    pub read_ahead: u64,
    /// Largest batch to accept
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size, help_heading = "Run")]
    pub max_batch: u64,
    /// Where to keep the window: auto, memory or page-cache
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "auto",
        value_parser = Argument::<Window>::parse,
        help_heading = "Run",
    )]
    pub window: Argument<Window>,
    /// Device for decoding and batches: cpu, cuda, cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Run")]
    pub device: DeviceName,
    /// Keep the encoded dataset in the memory of the device
    #[arg(long, requires = "device", help_heading = "Run")]
    pub resident: bool,
    /// Maximum number of damaged samples to skip in each epoch
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Run")]
    pub skip: u64,

    /// Only read the records in stored order, on one thread
    #[arg(
        long,
        conflicts_with_all = [
            "image", "cube", "bands", "dtype", "augment", "augment_batch", "fields", "batch_size", "order",
            "lanes", "seed", "slots", "read_ahead", "max_batch", "window", "skip", "mean", "std", "no_data",
            "device", "resident",
        ],
        help_heading = "Without the loader",
    )]
    pub stream: bool,
    /// With --stream: also decode arrays, on all threads
    #[arg(long, requires = "stream", help_heading = "Without the loader")]
    pub decode: bool,

    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    // Without doc comments on these variants, clap's help shows each option on one line.
    Stored,
    Windowed,
    Full,
}

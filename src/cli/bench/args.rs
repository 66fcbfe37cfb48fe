//! The arguments of `shardpack bench`.

use super::super::examples;
use super::super::shared_args::FromStore;
use super::view::{Argument, parse_bands};
use crate::report::DeviceName;
use clap::{Args, ValueEnum};
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Window};
use shardpack_reader::Bands;
use shardpack_recipe::{parse_size, parse_threads};
use std::path::PathBuf;

/// Load a dataset epoch by epoch, as a training loop would, and say how fast that is, what the
/// limit is, and what to change.
///
/// This runs the loader of the library with the given options and drops each batch at once. So the
/// rates are the highest that a training loop can reach. Peak memory is printed beside the
/// prediction. The first epoch is a warm-up and does not count, unless it is the only one or
/// `--cold` is given.
#[derive(Debug, Args)]
#[command(after_help = examples::BENCH)]
pub(crate) struct BenchArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// How to load pictures: `full` (all pixels), `raw` (the stored bytes), `rrcN` (a random part,
    /// scaled to N × N pixels and mirrored at random, as in training), `centerN` (scaled to a
    /// shorter side of 8/7 N, then the centre N × N pixels, as in evaluation), `resizeN`, `padN` (the
    /// whole picture at its own proportions, in the middle of grey); HxW for sides that differ. Other
    /// parameters follow: `rrc224x160,scale=0.25..1,ratio=0.5..2,flip=0`, `center224,short=232`,
    /// `pad640,fill=0`, `resize224,interpolation=bicubic` [default: full]
    #[arg(long, value_name = "VIEW", value_parser = Argument::<ImageMode>::parse, help_heading = "Batches")]
    pub image: Option<Argument<ImageMode>>,
    /// How to load cubes, masks and other arrays: `whole` (all values), `raw` (the stored bytes),
    /// `patchHxW` (H rows and W columns at a random place, the same place for a cube and its mask),
    /// `centerHxW` (in the middle), `cycleHxW` (one tile after the other, the next one in each epoch)
    /// [default: whole]
    #[arg(long, value_name = "VIEW", value_parser = Argument::<CubeMode>::parse, help_heading = "Batches")]
    pub cube: Option<Argument<CubeMode>>,
    /// Bands of cubes to load, counted from 0: `10..50` (without 50), or numbers separated by
    /// commas [default: all]
    #[arg(long, value_name = "BANDS", value_parser = parse_bands, help_heading = "Batches")]
    pub bands: Option<Argument<Bands>>,
    /// Element type of cubes, such as `float16`, or types by field: `cube=float16,image=float16`. A
    /// change of type that would change a value of a cube is an error; pictures are uint8, or floats
    /// made of it, level / 255 [default: the type of the source; where
    /// sources differ, one that holds all their values]
    #[arg(long, value_name = "TYPE", value_parser = Argument::<ArrayDtype>::parse, help_heading = "Batches")]
    pub dtype: Option<Argument<ArrayDtype>>,
    /// Mean of pictures that come as floats, from 0 to 1, one number or one for red, green and blue:
    /// makes (level / 255 − mean) / std, as float32 if --dtype says nothing else
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true, help_heading = "Batches")]
    pub mean: Option<Vec<f64>>,
    /// Standard deviation of pictures that come as floats, as `--mean` [default: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "Batches")]
    pub std: Option<Vec<f64>>,
    /// What comes in the place of no-data in cubes, such as 0 [default: it stays as it is stored]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = "Batches")]
    pub no_data: Option<f32>,
    /// What is done to decoded pictures and arrays at random, such as
    /// `trivial_augment_wide,random_erasing(p=0.1)`, `color_jitter(brightness=0.4)`, `hflip,rot90`
    #[arg(long, value_name = "LIST", help_heading = "Batches")]
    pub augment: Option<String>,
    /// How the pictures and labels of each batch are mixed: `mixup(alpha=0.2)`, `cutmix`, or both
    /// with a comma between them, of which each batch gets one
    #[arg(long, value_name = "LIST", help_heading = "Batches")]
    pub augment_batch: Option<String>,
    /// Fields to load, separated by commas [default: all scalars, pictures and arrays]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Batches")]
    pub fields: Option<Vec<String>>,
    /// Samples in a batch [default: 32, or fewer if a batch would take more than 256 MiB]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Batches")]
    pub batch_size: Option<u32>,
    /// Order of the samples
    #[arg(long, value_enum, default_value = "windowed", help_heading = "Batches")]
    pub order: OrderArg,
    /// Runs that `--order windowed` mixes at a time [default: 240]. More mix better and take more
    /// memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Batches")]
    pub lanes: Option<u32>,
    /// Seed of the order, of random views and of random patches
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batches")]
    pub seed: u64,

    /// How many times to go through the dataset
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Run",
    )]
    pub epochs: u32,
    /// Drop the dataset's files from the page cache before each epoch
    #[arg(long, help_heading = "Run")]
    pub cold: bool,
    /// Threads that read and decode [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads, help_heading = "Run")]
    pub threads: Option<usize>,
    /// Batches in memory: one in use, the others being filled [default: 3, and 4 on a device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Run")]
    pub slots: Option<u32>,
    /// How much may be read ahead of the samples being decoded, besides the window of the order
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_size, help_heading = "Run")]
    pub read_ahead: u64,
    /// Largest batch
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = parse_size, help_heading = "Run")]
    pub max_batch: u64,
    /// Where to hold the window of the order: auto (in the page cache, if it fits there), memory,
    /// or page-cache
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "auto",
        value_parser = Argument::<Window>::parse,
        help_heading = "Run",
    )]
    pub window: Argument<Window>,
    /// Where to decode, and to leave the batches: `cpu`, `cuda` or `cuda:N`
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Run")]
    pub device: DeviceName,
    /// Read the dataset once, before the first epoch, and keep it encoded on the device
    #[arg(long, requires = "device", help_heading = "Run")]
    pub resident: bool,
    /// Skip up to N damaged samples in each epoch; one more is an error
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Run")]
    pub skip: u64,

    /// Stream the records in stored order on one thread instead, without batches: this shows what
    /// the disk and the checksums allow
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
    /// In the stream, decode cubes and other arrays on all threads (pictures stay encoded)
    #[arg(long, requires = "stream", help_heading = "Without the loader")]
    pub decode: bool,

    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// The stored order
    Stored,
    /// Runs of 4 MiB in random order; the samples of 240 runs, or of `--lanes`, are mixed at a time
    Windowed,
    /// All samples in random order; each is read separately
    Full,
}

//! The arguments of `shardpack pack`, `plan` and `merge`.

use super::super::args::words;
use super::super::examples;
use super::super::source_args::SourceArgs;
use crate::place::Destination;
use clap::Args;
use shardpack_array::{ArrayLayout, ArrayOptions, BandDifference, Coder, Filter, Prefer, Values};
use shardpack_jpeg::ChromaSampling;
use shardpack_pack::arguments::{
    PackArguments, Word, parse_part, parse_size, parse_target, parse_threads, spelled_size,
};
use shardpack_recipe::{Jpeg, Share};
use shardpack_sources::OnBadInput;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What holds if nothing else is said.
static DEFAULTS: LazyLock<PackArguments> = LazyLock::new(PackArguments::default);

// To clap, an `Option` would be an argument that may be missing.
pub(in super::super) type Codec = Option<Coder>;
pub(in super::super) type Filtered = Option<Filter>;
type Axes = Option<ArrayLayout>;

/// Convert a folder of pictures or cubes into a dataset, once.
///
/// JPEGs are stored in tiles, with the same pixels as the source. A reader can then cut out just
/// the part that it needs. `--jpeg keep` keeps the files to the byte. Cubes of integers, also
/// integers held as floats, are stored without loss. Other cubes are stored as float16, and the
/// error is measured and printed; `--values keep` keeps every bit. If a run is interrupted, give
/// the same command again: it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::PACK)]
pub(in super::super) struct PackArgs {
    /// Folder (or single file) to pack: class folders, a flat folder, or nested folders; or the URL
    /// of a folder in a store
    pub src: PathBuf,
    /// Folder of the dataset to write, or its URL in a store (s3://, gs://, az://)
    pub out: PathBuf,
    #[command(flatten)]
    pub reading: SourceArgs,
    /// Pack the first-level folders of SRC, such as `train`, `val` and `test`, into a dataset each:
    /// OUT/train, OUT/val, OUT/test. They have the same classes with the same numbers
    #[arg(long)]
    pub splits: bool,
    /// Make one sample, a clip, of each folder of JPEGs, which are its frames in the order of their
    /// names (`2.jpg` before `10.jpg`); or of each set of views. The key is the path of the folder
    #[arg(long)]
    pub clips: bool,
    /// What to do about files that cannot be packed: stop (before the run begins, if the start of a
    /// file shows it), or skip them, list them, and end with exit code 1
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = words::<OnBadInput>(),
        default_value = DEFAULTS.on_bad_input.spelled(),
    )]
    pub on_bad_input: OnBadInput,
    /// Store samples as a candidate of `shardpack report` does: `report.html#2`, or `report.html` for
    /// the one that it recommends
    #[arg(long, value_name = "REPORT[#N]")]
    pub recipe: Option<String>,

    /// How to store JPEG pictures
    #[arg(long, value_parser = words::<Jpeg>(), default_value = DEFAULTS.jpeg.spelled(), help_heading = "Pictures")]
    pub jpeg: Jpeg,
    /// Quality of re-encoded pictures, 1 to 100, on libjpeg's scale [default: 90]
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u8).range(1..=100), help_heading = "Pictures")]
    pub quality: Option<u8>,
    /// Search for the lowest quality at which each re-encoded picture reaches this score, such as
    /// `ssimulacra2=80`
    #[arg(long, value_name = "METRIC=SCORE", value_parser = parse_target, help_heading = "Pictures")]
    pub target: Option<f64>,
    /// Chroma subsampling of re-encoded pictures [default: keep]
    #[arg(long, value_parser = words::<ChromaSampling>(), help_heading = "Pictures")]
    pub subsampling: Option<ChromaSampling>,
    /// With `--jpeg reencode`: shrink larger pictures until their shorter side has this many pixels
    /// (Lanczos, antialiased). PNG, WebP, BMP and TIFF pictures, and JPEGs that few decoders read,
    /// keep their size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535), help_heading = "Pictures")]
    pub short_side: Option<u32>,
    /// The same for the longer side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535), help_heading = "Pictures")]
    pub long_side: Option<u32>,
    /// Which re-encoded pictures to score against their sources (SSIMULACRA2: 90 = cannot be told
    /// apart, 70 = high quality) [default: sample]
    #[arg(long, value_parser = words::<Share>(), help_heading = "Pictures")]
    pub score: Option<Share>,
    /// Which tiled pictures to decode and compare with their sources, pixel by pixel [default:
    /// sample]
    #[arg(long, value_parser = words::<Share>(), help_heading = "Pictures")]
    pub check_pixels: Option<Share>,
    /// Turn tiled pictures upright by moving their coefficients, if width and height are whole
    /// blocks, so that loaders need not rotate them (some pixels differ by a step or two)
    #[arg(long, help_heading = "Pictures")]
    pub upright: bool,
    /// Keep Exif, ICC profile, comments and all other metadata inside tiled JPEGs, and the ICC
    /// profile inside re-encoded ones. Without this option, the ICC profile goes into the field
    /// `icc`, the orientation goes into the column `orientation`, and the rest is dropped
    #[arg(long, help_heading = "Pictures")]
    pub keep_metadata: bool,

    /// How to store the values of cubes: `auto` is lossless for integers, else float16; `fixed` is
    /// fixed point with a bounded error
    #[arg(
        long,
        value_parser = words::<Values>(),
        default_value = DEFAULTS.arrays.values.spelled(),
        help_heading = "Cubes",
    )]
    pub values: Values,
    /// Largest absolute error of a stored value, in the units of the data: for `--values fixed`,
    /// and a bound for `auto`
    #[arg(long, value_name = "E", allow_negative_numbers = true, help_heading = "Cubes")]
    pub max_error: Option<f64>,
    /// Codec of cubes and masks; `auto` tries the candidates on a few samples
    #[arg(
        long,
        value_parser = words::<Codec>(),
        default_value = DEFAULTS.arrays.coder.spelled(),
        help_heading = "Cubes",
    )]
    pub codec: Codec,
    /// Compression level: for `blosc2-zstd` 1, 3, 5, 7, 9, 11, 13, 15 or 22; for `zstd` 1 to 22; for
    /// `blosc2-lz4hc` 1 to 9 [default: 1, 3, and 9]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Cubes")]
    pub level: Option<i32>,
    /// Filter before the codec
    #[arg(
        long,
        value_parser = words::<Filtered>(),
        default_value = DEFAULTS.arrays.filter.spelled(),
        help_heading = "Cubes",
    )]
    pub filter: Filtered,
    /// Order of the axes as stored: as given [height, width, channels], or band-major [channels,
    /// height, width]
    #[arg(
        long,
        value_parser = words::<Axes>(),
        default_value = DEFAULTS.arrays.layout.spelled(),
        help_heading = "Cubes",
    )]
    pub layout: Axes,
    /// Store each band as its difference from the band before it (elements of 1 or 2 bytes)
    #[arg(
        long,
        value_parser = words::<BandDifference>(),
        default_value = DEFAULTS.arrays.band_difference.spelled(),
        value_name = "WHEN",
        help_heading = "Cubes",
    )]
    pub band_difference: BandDifference,
    /// What `auto` optimises: time to read and decode, time to bring to a GPU and decode there, or
    /// size
    #[arg(
        long,
        value_parser = words::<Prefer>(),
        default_value = DEFAULTS.arrays.prefer.spelled(),
        help_heading = "Cubes",
    )]
    pub prefer: Prefer,

    /// Size of a shard
    #[arg(
        long,
        value_name = "SIZE",
        default_value = spelled_size(DEFAULTS.shard_size),
        value_parser = parse_size,
        help_heading = "Output",
    )]
    pub shard_size: u64,
    /// Keep the order of the sources instead of mixing the samples
    #[arg(long, help_heading = "Output")]
    pub no_shuffle: bool,
    /// Seed of the order [default: 0]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub seed: Option<u64>,
    /// Pack slice I of N of the same plan (1/4 … 4/4), one slice on each machine; then run
    /// `shardpack merge OUT`
    #[arg(long, value_name = "I/N", value_parser = parse_part, help_heading = "Output")]
    pub part: Option<(u32, u32)>,
    /// List nothing anew: use the listing of SRC that `shardpack plan --listing FILE` wrote under the
    /// same options. Files that were added since are left out; one that changed is an error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub listing: Option<PathBuf>,
    /// Start over: replace a dataset, finished or not, that shardpack wrote to OUT. The old one is
    /// removed before the first new shard is begun
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    #[command(flatten)]
    pub to: ToStore,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Limit on the memory of samples that are being packed [default: enough for one sample on each
    /// thread, and one more]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// One JSON object on stdout instead of the summary
    #[arg(long)]
    pub json: bool,
}

impl PackArgs {
    /// The same, as every front end says it.
    pub(in super::super) fn arguments(&self) -> PackArguments {
        PackArguments {
            source: self.reading.arguments(),
            splits: self.splits,
            clips: self.clips,
            on_bad_input: self.on_bad_input,
            jpeg: self.jpeg,
            quality: self.quality,
            target: self.target,
            subsampling: self.subsampling,
            short_side: self.short_side,
            long_side: self.long_side,
            score: self.score,
            check_pixels: self.check_pixels,
            upright: self.upright,
            keep_metadata: self.keep_metadata,
            arrays: ArrayOptions {
                values: self.values,
                max_error: self.max_error,
                coder: self.codec,
                level: self.level,
                filter: self.filter,
                layout: self.layout,
                band_difference: self.band_difference,
                prefer: self.prefer,
                lossless: false,
            },
            shard_size: self.shard_size,
            no_shuffle: self.no_shuffle,
            seed: self.seed,
            part: self.part,
            listing: self.listing.clone(),
            force: self.force,
            spool: self.to.spool.clone(),
            take_over: self.to.take_over,
            threads: self.threads,
            memory: self.memory,
        }
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
pub(in super::super) struct PlanArgs {
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
pub(in super::super) struct MergeArgs {
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
pub(in super::super) struct ToStore {
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
    /// Where `out` is.
    pub(in super::super) fn destination(&self, out: &Path) -> Destination {
        Destination { path: out.to_owned(), spool: self.spool.clone(), take_over: self.take_over }
    }
}

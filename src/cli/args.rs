//! The command line as typed: what clap parses, before anything is looked up or checked against the
//! disk.

use super::bench::{
    ArrayView, BandsView, DeviceArg, DtypeView, PictureView, WindowView, parse_array_view, parse_bands, parse_dtype,
    parse_view, parse_window,
};
use super::examples;
use super::grow::args::{AddArgs, CompactArgs, RemoveArgs};
use super::report::args::ReportArgs;
use super::units::{parse_bytes, parse_part, parse_spatial, parse_target, parse_threads};
use crate::place::Destination;
use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};

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

/// Convert a folder of pictures or cubes into a dataset, once.
///
/// JPEGs are stored in tiles, with the same pixels as the source. A reader can then cut out just
/// the part that it needs. `--jpeg keep` keeps the files to the byte. Cubes of integers, also
/// integers held as floats, are stored without loss. Other cubes are stored as float16, and the
/// error is measured and printed; `--values keep` keeps every bit. If a run is interrupted, give
/// the same command again: it continues.
#[derive(Debug, Args)]
#[command(after_help = examples::PACK)]
pub(super) struct PackArgs {
    /// Folder (or single file) to pack: class folders, a flat folder, or nested folders; or the URL
    /// of a folder in a store
    pub src: PathBuf,
    /// Folder of the dataset to write, or its URL in a store (s3://, gs://, az://)
    pub out: PathBuf,
    /// What SRC holds [default: told from the contents of the files]
    #[arg(long)]
    pub kind: Option<KindArg>,
    /// CSV or JSON Lines with a row for each sample. The column `key` (or `path`, `file`,
    /// `file_name`, `image`, `id`, …) holds its path below SRC, such as `cat/1.jpg`; extension and
    /// folders may be left out where one file alone has the name. A column `label` (or `class`) of
    /// text becomes the classes; every other column becomes a field
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Name of the column of --labels that holds the paths
    #[arg(long, value_name = "NAME", requires = "labels")]
    pub key_column: Option<String>,
    /// Use the names of first-level folders as labels; `auto` does so for pictures that are all in
    /// such folders
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub class_folders: WhenArg,
    /// Pack the first-level folders of SRC, such as `train`, `val` and `test`, into a dataset each:
    /// OUT/train, OUT/val, OUT/test. They have the same classes with the same numbers
    #[arg(long, conflicts_with = "listing")]
    pub splits: bool,
    /// Make one sample, a clip, of each folder of JPEGs, which are its frames in the order of their
    /// names (`2.jpg` before `10.jpg`); or of each set of views. The key is the path of the folder
    #[arg(long, conflicts_with = "masks")]
    pub clips: bool,
    /// Folder of label masks of pictures or cubes (.png, .npy, .tif, .mat). A mask belongs to the
    /// sample with the same file stem, and is stored without loss as the field `mask` [default:
    /// `a.mask.npy` beside `a.npy`, and `a.jpg.mask.npy` beside `a.jpg`, as `unpack` writes them]
    #[arg(long, value_name = "DIR")]
    pub masks: Option<PathBuf>,
    /// Follow symbolic links that lead out of SRC. Links that lead in a circle are bad input
    #[arg(long)]
    pub follow_links: bool,
    /// What to do about files that cannot be packed: stop (before the run begins, if the start of a
    /// file shows it), or skip them, list them, and end with exit code 1
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    pub on_bad_input: BadInputArg,
    /// Store samples as a candidate of `shardpack report` does, such as `report.html#2`
    #[arg(long, value_name = "REPORT#N")]
    pub recipe: Option<String>,

    /// How to store JPEG pictures
    #[arg(long, value_enum, default_value = "tile", help_heading = "Pictures")]
    pub jpeg: JpegArg,
    /// Quality of re-encoded pictures, 1 to 100, on libjpeg's scale [default: 90]
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u8).range(1..=100), conflicts_with = "target", help_heading = "Pictures")]
    pub quality: Option<u8>,
    /// Search for the lowest quality at which each re-encoded picture reaches this score, such as
    /// `ssimulacra2=80`
    #[arg(long, value_name = "METRIC=SCORE", value_parser = parse_target, help_heading = "Pictures")]
    pub target: Option<f64>,
    /// Chroma subsampling of re-encoded pictures [default: keep]
    #[arg(long, value_enum, help_heading = "Pictures")]
    pub subsampling: Option<SubsamplingArg>,
    /// With `--jpeg reencode`: shrink larger pictures until their shorter side has this many pixels
    /// (Lanczos, antialiased). PNG, WebP, BMP and TIFF pictures, and JPEGs that few decoders read,
    /// keep their size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535), conflicts_with = "long_side", help_heading = "Pictures")]
    pub short_side: Option<u32>,
    /// The same for the longer side
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535), help_heading = "Pictures")]
    pub long_side: Option<u32>,
    /// Which re-encoded pictures to score against their sources (SSIMULACRA2: 90 = cannot be told
    /// apart, 70 = high quality) [default: sample]
    #[arg(long, value_enum, help_heading = "Pictures")]
    pub score: Option<ShareArg>,
    /// Which tiled pictures to decode and compare with their sources, pixel by pixel [default:
    /// sample]
    #[arg(long, value_enum, help_heading = "Pictures")]
    pub check_pixels: Option<ShareArg>,
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
    #[arg(long, value_enum, default_value = "auto", help_heading = "Cubes")]
    pub values: ValuesArg,
    /// Largest absolute error of a stored value, in the units of the data: for `--values fixed`,
    /// and a bound for `auto`
    #[arg(long, value_name = "E", allow_negative_numbers = true, help_heading = "Cubes")]
    pub max_error: Option<f64>,
    /// Codec of cubes and masks; `auto` tries the candidates on a few samples
    #[arg(long, value_enum, default_value = "auto", help_heading = "Cubes")]
    pub codec: CodecArg,
    /// Compression level: for `blosc2-zstd` 1, 3, 5, 7, 9, 11, 13, 15 or 22; for `zstd` 1 to 22; for
    /// `blosc2-lz4hc` 1 to 9 [default: 1, 3, and 9]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Cubes")]
    pub level: Option<i32>,
    /// Filter before the codec
    #[arg(long, value_enum, default_value = "auto", help_heading = "Cubes")]
    pub filter: FilterArg,
    /// Order of the axes as stored: as given [height, width, channels], or band-major [channels,
    /// height, width]
    #[arg(long, value_enum, default_value = "auto", help_heading = "Cubes")]
    pub layout: LayoutArg,
    /// Store each band as its difference from the band before it (elements of 1 or 2 bytes)
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", help_heading = "Cubes")]
    pub band_difference: WhenArg,
    /// What `auto` optimises: time to read and decode, time to bring to a GPU and decode there, or
    /// size
    #[arg(long, value_enum, default_value = "speed", help_heading = "Cubes")]
    pub prefer: PreferArg,
    /// Variable to read from .mat, .npz and HDF5 files [default: the only 3-D array]
    #[arg(long, value_name = "NAME", help_heading = "Cubes")]
    pub variable: Option<String>,
    /// Height and width of the picture, for 2-D arrays of bands × pixels or pixels × bands in .mat
    /// files
    #[arg(long, value_name = "HxW", value_parser = parse_spatial, help_heading = "Cubes")]
    pub spatial: Option<(u64, u64)>,

    /// Size of a shard
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes, help_heading = "Output")]
    pub shard_size: u64,
    /// Keep the order of the sources instead of mixing the samples
    #[arg(long, help_heading = "Output")]
    pub no_shuffle: bool,
    /// Seed of the order
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "no_shuffle", help_heading = "Output")]
    pub seed: u64,
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
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Largest cube to accept, in decoded bytes
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes, help_heading = "Cubes")]
    pub max_cube: u64,
    /// One JSON object on stdout instead of the summary
    #[arg(long)]
    pub json: bool,
}

/// Say what each part of `pack --part I/N` would take, without packing.
///
/// It lists SRC, makes the plan of `pack` with the same options, and packs a few samples into nothing
/// to learn the rate of this machine. The times leave out what listing, writing and a slower disk
/// take. With --listing FILE it writes the listing there, for `pack --part I/N --listing FILE` on
/// every machine: a thousand parts then list SRC once. OUT is not touched.
#[derive(Debug, Args)]
#[command(after_help = examples::PLAN)]
pub(super) struct PlanArgs {
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
pub(super) struct MergeArgs {
    /// Folder that holds the shards of all parts, or its URL
    pub out: PathBuf,
    #[command(flatten)]
    pub to: ToStore,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// How a dataset is read from a store.
#[derive(Debug, Default, Args)]
pub(super) struct FromStore {
    /// With a URL: folder of this machine that keeps what was read, for all processes
    #[arg(long, value_name = "DIR", help_heading = "Object stores")]
    pub cache: Option<PathBuf>,
    /// Most bytes in that folder [default: 100GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "cache", help_heading = "Object stores")]
    pub cache_bytes: Option<u64>,
}

impl FromStore {
    /// The same as options of the store.
    pub(super) fn settings(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        if let Some(folder) = &self.cache {
            let folder = folder.to_str().with_context(|| format!("cache: expected UTF-8, found {folder:?}"))?;
            settings.push(("cache".to_owned(), folder.to_owned()));
        }
        settings.extend(self.cache_bytes.map(|bytes| ("cache_bytes".to_owned(), bytes.to_string())));
        Ok(settings)
    }
}

/// How a dataset is written to a store.
#[derive(Debug, Args)]
pub(super) struct ToStore {
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
    pub(super) fn destination(&self, out: &Path) -> Destination {
        Destination { path: out.to_owned(), spool: self.spool.clone(), take_over: self.take_over }
    }
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
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
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
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
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
    /// Folder to write to. Existing files are never overwritten: a file with the same content is
    /// skipped, one with other content is an error
    pub dir: PathBuf,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
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
    /// Key of the sample, or its index in stored order
    pub sample: String,
    /// Field to write [default: the picture or the cube]
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// File to write; `-` is stdout, even if that is a terminal [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
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
    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Load a dataset epoch by epoch, as a training loop would, and say how fast that is, what the
/// limit is, and what to change.
///
/// This runs the loader of the library with the given options and drops each batch at once. So the
/// rates are the highest that a training loop can reach. Peak memory is printed beside the
/// prediction. The first epoch is a warm-up and does not count, unless it is the only one or
/// `--cold` is given.
#[derive(Debug, Args)]
#[command(after_help = examples::BENCH)]
pub(super) struct BenchArgs {
    /// Folder of a dataset, its manifest, or a lone shard
    pub dataset: PathBuf,
    #[command(flatten)]
    pub from: FromStore,
    /// Generation of a dataset that has grown or shrunk, from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub generation: Option<u32>,
    /// How to load pictures: `full` (all pixels), `raw` (the stored bytes), `rrcN` (a random part,
    /// scaled to N × N pixels and mirrored at random, as in training), `centerN` (scaled to a
    /// shorter side of 8/7 N, then the centre N × N pixels, as in evaluation), `resizeN`; HxW for
    /// sides that differ. Other parameters follow: `rrc224x160,scale=0.25..1,ratio=0.5..2,flip=0`,
    /// `center224,short=232` [default: full]
    #[arg(long, value_name = "VIEW", value_parser = parse_view, help_heading = "Batches")]
    pub image: Option<PictureView>,
    /// How to load cubes, masks and other arrays: `whole` (all values), `raw` (the stored bytes),
    /// `patchHxW` (H rows and W columns at a random place, the same place for a cube and its mask),
    /// `centerHxW` (in the middle), `gridHxW` (one tile of a grid, the next one in each epoch)
    /// [default: whole]
    #[arg(long, value_name = "VIEW", value_parser = parse_array_view, help_heading = "Batches")]
    pub cube: Option<ArrayView>,
    /// Bands of cubes to load, counted from 0: `10..50` (without 50), or numbers separated by
    /// commas [default: all]
    #[arg(long, value_name = "BANDS", value_parser = parse_bands, help_heading = "Batches")]
    pub bands: Option<BandsView>,
    /// Element type of cubes, such as `float16`, or types by field: `cube=float16,image=float16`. A
    /// change of type that would change a value of a cube is an error; pictures are uint8, or floats
    /// made of it, level / 255 [default: the type of the source; where
    /// sources differ, one that holds all their values]
    #[arg(long, value_name = "TYPE", value_parser = parse_dtype, help_heading = "Batches")]
    pub dtype: Option<DtypeView>,
    /// Mean of pictures that come as floats, from 0 to 1, one number or one for red, green and blue:
    /// makes (level / 255 − mean) / std, also with `--dtype float16` alone
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true, help_heading = "Batches")]
    pub mean: Option<Vec<f64>>,
    /// Standard deviation of pictures that come as floats, as `--mean` [default: 1]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = "Batches")]
    pub std: Option<Vec<f64>>,
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
    /// Seed of the order, of random views and of random patches
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Batches")]
    pub seed: u64,

    /// How many times to go through the dataset
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Run")]
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
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_bytes, help_heading = "Run")]
    pub read_ahead: u64,
    /// Where to hold the window of the order: auto (in the page cache, if it fits there), memory,
    /// or page-cache
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = parse_window, help_heading = "Run")]
    pub window: WindowView,
    /// Where to decode, and to leave the batches: `cpu`, `cuda` or `cuda:N`
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Run")]
    pub device: DeviceArg,
    /// Read the dataset once, before the first epoch, and keep it encoded on the device
    #[arg(long, requires = "device", help_heading = "Run")]
    pub resident: bool,
    /// Skip up to N damaged samples in each epoch; one more is an error
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Run")]
    pub skip: u64,

    /// Stream the records in stored order on one thread instead, without batches: this shows what
    /// the disk and the checksums allow
    #[arg(long, conflicts_with_all = ["image", "cube", "bands", "dtype", "augment", "augment_batch", "fields", "batch_size", "order", "seed", "slots", "read_ahead", "window", "skip", "mean", "std", "device", "resident"], help_heading = "Without the loader")]
    pub stream: bool,
    /// In the stream, decode cubes and other arrays on all threads (pictures stay encoded)
    #[arg(long, requires = "stream", help_heading = "Without the loader")]
    pub decode: bool,

    /// Largest record or decoded field to accept
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_bytes)]
    pub max_record: u64,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OrderArg {
    /// The stored order
    Stored,
    /// Runs of 4 MiB in random order; the samples of 240 runs are mixed at a time
    Windowed,
    /// All samples in random order; each is read separately
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KindArg {
    Images,
    Cubes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BadInputArg {
    #[value(alias = "error")]
    Stop,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum JpegArg {
    /// The same pixels, in tiles; lossless
    Tile,
    /// The file as it is, to the byte
    Keep,
    /// Encoded again, in tiles; lossy, with `--quality` or `--target`
    Reencode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SubsamplingArg {
    /// That of the source
    Keep,
    /// 4:2:0
    #[value(name = "420")]
    S420,
    /// 4:4:4
    #[value(name = "444")]
    S444,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShareArg {
    None,
    /// One in 64, and at least 16
    Sample,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ValuesArg {
    Auto,
    Keep,
    F16,
    Fixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CodecArg {
    Auto,
    Blosc2Lz4,
    Blosc2Lz4hc,
    Blosc2Zstd,
    Zstd,
    Raw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FilterArg {
    Auto,
    None,
    Shuffle,
    Bitshuffle,
    Bytedelta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LayoutArg {
    Auto,
    AsGiven,
    BandMajor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WhenArg {
    Auto,
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PreferArg {
    Speed,
    Device,
    Size,
}

//! The arguments of `shardpack report`.

use super::super::args::words;
use super::super::bench::DeviceArg;
use super::super::examples;
use super::super::pack::args::{Codec, Filtered};
use super::super::source_args::SourceArgs;
use clap::Args;
use shardpack_jpeg::ChromaSampling;
use shardpack_pack::arguments::{ReportArguments, parse_size, parse_target, parse_threads};
use shardpack_pack::report::MetricCommand;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What holds if nothing else is said.
static DEFAULTS: LazyLock<ReportArguments> = LazyLock::new(ReportArguments::default);

/// Show what a lossy choice costs, on one page, before a dataset is packed.
///
/// Draws a sample of the sources, encodes it under a set of candidates as `pack` would, decodes and
/// scores it, and writes one HTML file: a recommended recipe with its reason, bytes against score,
/// predictions for the whole set with their intervals, the worst samples to look at, and how all of
/// it was found. Nothing is packed and nothing in SRC is changed.
///
/// Of a dataset (SRC with a manifest, or a lone shard), the page shows its recipe, the fidelity that
/// packing measured, sizes and scores of its samples, and the worst of them. With `--source`, samples
/// are drawn, decoded and compared with their sources, as those of candidates are.
///
/// Interrupted (Ctrl-C), it writes the page with what was measured by then.
#[derive(Debug, Args)]
#[command(after_help = examples::REPORT)]
pub(crate) struct ReportArgs {
    /// Folder (or single file) of pictures or cubes, or a dataset
    pub src: PathBuf,
    /// What the dataset SRC was packed from: its samples are decoded and compared with their sources
    #[arg(long, value_name = "DIR")]
    pub source: Option<PathBuf>,
    /// The page to write [default: report.html; with --json none]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The data as one JSON object on stdout. Pictures are on the page only
    #[arg(long)]
    pub json: bool,
    /// Replace a file at FILE that is no report
    #[arg(long)]
    pub force: bool,

    /// Samples to draw, spread over the classes or folders [default: as many as it takes to know the
    /// predicted size to ±2 %, from 64 to 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Sample")]
    pub samples: Option<u64>,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = DEFAULTS.seed, help_heading = "Sample")]
    pub seed: u64,
    /// Samples in the gallery: N of the worst, and N at random
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULTS.gallery,
        value_parser = clap::value_parser!(u8).range(0..=100),
        help_heading = "Sample",
    )]
    pub gallery: u8,

    /// A condition on the recommended candidate, such as `ssimulacra2.p10>=80`, `max_abs_error<=0.002`
    /// or `size<=30GB`; all that are given must hold, and the smallest candidate that meets them is
    /// taken. Measures: ssimulacra2, psnr, ssim, noise_ratio, spectral_angle_p50, spectral_angle_p95,
    /// spectral_angle_p99, spectral_angle_max, max_abs_error, max_rel_error, altered; of each the worst
    /// sample counts, or .p1, .p10 or .median [default: ssimulacra2.p10>=80 for pictures; for cubes
    /// noise_ratio<=1 and spectral_angle_p99<=0.5, and what loses least where it costs little]
    #[arg(long, value_name = "COND", help_heading = "Verdict")]
    pub want: Vec<String>,

    /// A metric of your own. COMMAND is run for each candidate, with the paths of two datasets added:
    /// the samples that were drawn as they are, and under the candidate. The last line that it prints
    /// is the number
    #[arg(
        long,
        value_name = "NAME=COMMAND",
        value_parser = clap::value_parser!(MetricCommand),
        help_heading = "Your metric",
    )]
    pub metric: Vec<MetricCommand>,
    /// Times that COMMAND is run with the original in both places, SHARDPACK_METRIC_RUN=0, 1, …: what
    /// differs by no more than these runs is as good [default: 3]
    #[arg(
        long,
        value_name = "K",
        value_parser = clap::value_parser!(u32).range(0..=1000),
        help_heading = "Your metric",
    )]
    pub metric_baseline_runs: Option<u32>,

    /// Candidates of your own, instead of the default ones: a TOML file with a `[[candidate]]` for
    /// each, whose keys are `name` and the long options of `pack`
    #[arg(long, value_name = "FILE", help_heading = "Candidates")]
    pub candidates: Option<PathBuf>,
    /// Qualities to re-encode pictures at, separated by commas
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(1..=100),
        help_heading = "Candidates",
    )]
    pub quality: Vec<u8>,
    /// Scores to re-encode each picture to, such as `ssimulacra2=80,ssimulacra2=70`
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_target, help_heading = "Candidates")]
    pub target: Vec<f64>,
    /// Chroma subsamplings of re-encoded pictures
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = words::<ChromaSampling>(),
        help_heading = "Candidates",
    )]
    pub subsampling: Vec<ChromaSampling>,
    /// Shorter sides to shrink re-encoded pictures to
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=65_535),
        help_heading = "Candidates",
    )]
    pub short_side: Vec<u32>,
    /// Longer sides to shrink re-encoded pictures to
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=65_535),
        help_heading = "Candidates",
    )]
    pub long_side: Vec<u32>,
    /// Largest errors for cubes in fixed point, in the units of the data [default: the noise of
    /// the quietest and of a typical band, and half of each]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "Candidates")]
    pub max_error: Vec<f64>,
    /// Codecs of cubes, beside what `auto` chooses
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = words::<Codec>(),
        help_heading = "Candidates",
    )]
    pub codec: Vec<Codec>,
    /// Filters before these codecs
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = words::<Filtered>(),
        help_heading = "Candidates",
    )]
    pub filter: Vec<Filtered>,

    #[command(flatten)]
    pub reading: SourceArgs,

    /// Also time how fast a GPU decodes: `cuda:0`, or `cpu` for none [default: the first GPU, if there
    /// is one]
    #[arg(long)]
    pub device: Option<DeviceArg>,
    /// Worker threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Limit on the memory of samples that are being measured [default: enough for one sample on
    /// each thread, and one more]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
}

impl ReportArgs {
    /// The same, as every front end says it.
    pub(in super::super) fn arguments(&self) -> ReportArguments {
        ReportArguments {
            reading: self.reading.arguments(),
            source: self.source.clone(),
            force: self.force,
            samples: self.samples,
            seed: self.seed,
            gallery: self.gallery,
            want: self.want.clone(),
            metric: self.metric.clone(),
            metric_baseline_runs: self.metric_baseline_runs,
            candidates: self.candidates.clone(),
            quality: self.quality.clone(),
            target: self.target.clone(),
            subsampling: self.subsampling.clone(),
            short_side: self.short_side.clone(),
            long_side: self.long_side.clone(),
            max_error: self.max_error.clone(),
            codec: self.codec.clone(),
            filter: self.filter.clone(),
            device: self.device.map(|device| device.to_string()),
            threads: self.threads,
            memory: self.memory,
        }
    }
}

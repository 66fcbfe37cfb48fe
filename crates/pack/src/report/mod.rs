//! What a lossy choice costs, before it is made: a sample of the sources is encoded under a set of
//! candidates by the code that packs, decoded by our own decoders, and scored.
//!
//! [`open`] lists the sources; [`Opened::measure`] does the rest and returns the data of the page.
//! Threads take one sample at a time through all candidates, so an interrupted run has measured
//! whole samples.

mod assemble;
mod budget;
mod cpu_time;
mod cubes;
mod dataset;
mod datasets;
mod draw;
mod false_colour;
mod gallery;
mod maker;
mod measure;
mod panels;
mod pictures;
mod rates;
mod record;

pub use assemble::{quoted, two_digits};
pub use cubes::{CubeTraits, Noise};
pub use dataset::{MOST_ROWS, of_dataset};
pub use datasets::{DecodingDevice, MetricCommand};

use crate::pack::{PackOptions, SampleEncoder};
use draw::Draw;
use maker::{Maker, Packed};
use measure::{Bench, Outcome, Sampled};
use shardpack_format::{Note, Voice};
use shardpack_reader::Dataset;
use shardpack_recipe::Value;
use shardpack_report::data::{Content, Report};
use shardpack_report::want::Want;
use shardpack_sources::{Listing, OnBadInput, SourceKind, SourceOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// One way to store the samples, to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A short name for people.
    pub name: String,
    /// The ladder that it is a rung of.
    pub group: String,
    /// The options of `pack` that make it, by their names.
    pub own: Vec<(String, Value)>,
    /// All options.
    pub options: PackOptions,
}

impl Plan {
    /// The options as arguments of `pack`.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        self.own.iter().map(|(name, value)| argument(name, value)).collect()
    }
}

/// An option as an argument of the command.
#[must_use]
pub fn argument(name: &str, value: &Value) -> String {
    let name = dashed(name);
    match value {
        Value::Switch(_) => format!("--{name}"),
        value => format!("--{name}={value}"),
    }
}

/// The name of an option as the command spells it.
fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Spelling of options in the notes of the report.
    pub voice: Voice,
    /// Samples to draw; `None`: as many as make the predicted size known to ±2 %, between 64 and
    /// 512.
    pub samples: Option<u64>,
    /// Seed of the draw.
    pub seed: u64,
    /// Conditions of the verdict; empty: the defaults.
    pub want: Vec<Want>,
    /// Pictures in the gallery: so many of the worst, and so many at random.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Times that each of them is run on the original.
    pub baseline_runs: u32,
    /// A device whose decoding is timed too.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Worker threads.
    pub threads: usize,
    /// Limit on the bytes of samples in flight; `None`: as packing.
    pub memory_bytes: Option<u64>,
    /// The source as the user wrote it, for the page.
    pub source: String,
    /// The command that repeats the run.
    pub command: String,
    /// The beginning of the command that packs, without the options of a candidate.
    pub pack_command: String,
}

/// Follows a run, and can stop it.
pub struct Hooks<'a> {
    /// Called with what is done and what there is to do, in encodings, and with what is being done.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Set it to stop: what is measured by then is reported.
    pub cancel: &'a AtomicBool,
}

/// Sources that were listed.
#[derive(Debug)]
pub struct Opened {
    listing: Listing,
    path: PathBuf,
    options: SourceOptions,
    start: Instant,
}

/// Lists the sources. Files that cannot be read are left out and reported, whatever the options say.
///
/// # Errors
/// As [`shardpack_sources::enumerate`].
pub fn open(src: &Path, options: &SourceOptions, threads: usize) -> anyhow::Result<Opened> {
    let start = Instant::now();
    let options = SourceOptions { on_bad_input: OnBadInput::Skip, ..options.clone() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let listing = pool.install(|| shardpack_sources::enumerate(src, &options))?;
    Ok(Opened { listing, path: src.to_owned(), options, start })
}

impl Opened {
    /// What the samples are.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        self.listing.kind
    }

    /// How many samples there are.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.listing.samples.len()
    }

    /// What the user should know about them.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.listing.notes
    }

    /// Where the sources are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the ladder of candidates for cubes depends on. Loads up to three cubes.
    #[must_use]
    pub fn cube_traits(&self) -> CubeTraits {
        cubes::traits(&self.listing, &self.options.cubes)
    }

    /// Draws a sample, measures the candidates on it, and puts the report together.
    ///
    /// # Errors
    /// If no candidate can be prepared, or nothing could be measured. A sample that cannot be read
    /// or stored is no error: it is in the report.
    pub fn measure(&self, plans: &[Plan], options: &ReportOptions, hooks: &Hooks<'_>) -> anyhow::Result<Report> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
        (hooks.on_progress)(0, 1, "choosing codecs");
        let prepared: Vec<Result<Maker<'_>, String>> = pool.install(|| {
            plans
                .iter()
                .map(|plan| SampleEncoder::new(&self.listing, &plan.options))
                .map(|encoder| encoder.map(Maker::Encoder).map_err(|error| format!("{error:#}")))
                .collect()
        });
        drop(pool);
        self.measured(plans, &prepared, options, hooks)
    }

    /// Compares the samples of a dataset with their sources: those that were listed, found by their
    /// keys.
    ///
    /// # Errors
    /// If the sources are of another kind than the dataset, or nothing could be measured. A sample
    /// that is missing on one side is in the report.
    pub fn measure_dataset(
        &self,
        dataset: &Dataset,
        options: &ReportOptions,
        hooks: &Hooks<'_>,
    ) -> anyhow::Result<Report> {
        let content = dataset::content(dataset.schema())?;
        let (found, expected) = match (self.listing.kind, content) {
            (SourceKind::Images, Content::Cubes) => ("pictures", "cubes, as in the dataset"),
            (SourceKind::Cubes, Content::Pictures) => ("cubes", "pictures, as in the dataset"),
            _ => ("", ""),
        };
        anyhow::ensure!(found.is_empty(), "sources `{}`: expected {expected}, found {found}", self.path.display());
        let plan = Plan {
            name: dataset::recipe_name(dataset, content),
            group: "stored".to_owned(),
            own: Vec::new(),
            options: maker::options_of(dataset, &self.options),
        };
        let packed = Packed { dataset, listing: &self.listing };
        let mut report = self.measured(&[plan], &[Ok(Maker::Dataset(packed))], options, hooks)?;
        dataset::beside_sources(&mut report, dataset, &options.source, &options.want);
        Ok(report)
    }

    fn measured(
        &self,
        plans: &[Plan],
        prepared: &[Result<Maker<'_>, String>],
        options: &ReportOptions,
        hooks: &Hooks<'_>,
    ) -> anyhow::Result<Report> {
        let bench = Bench::new(&self.listing, plans, prepared, options, hooks);
        let draw = Draw::new(&self.listing, options.seed, options.samples.unwrap_or(draw::PILOT));
        let first = options.samples.unwrap_or(draw::PILOT).min(draw.len());
        let mut sampled = bench.run(draw.first(first), 0);
        if options.samples.is_none() && !bench.is_cancelled() {
            let wanted = assemble::wanted_samples(&bench, &draw, &sampled);
            sampled.extend(bench.run(draw.range(first, wanted), sampled.len()));
        }
        anyhow::ensure!(
            sampled.iter().any(|s: &Sampled| s.outcomes.iter().any(|o| matches!(o, Outcome::Stored(_)))),
            "no sample could be measured{}",
            assemble::first_reason(&sampled, prepared)
        );
        assemble::report(self, &bench, &draw, sampled)
    }
}

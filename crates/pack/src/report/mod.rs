//! Measures the cost of a lossy choice in advance. Draws samples, packs them with each candidate, decodes the
//! records with the loader's decoders, and scores the results.
//!
//! [`open`] lists the sources, and [`ListedSource::measure`] returns the data of the report page. The front end
//! adds the path of the source, the commands, and the notes on the listing.
//!
//! Each thread measures one sample at a time with all candidates, so the samples of an interrupted run are complete.

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
mod options;
mod panels;
mod pictures;
mod provenance;
mod rates;
mod record;
mod sampled;

pub use cubes::{CubeTraits, Noise};
pub use dataset::{MOST_ROWS, of_dataset};
pub use options::{CandidateRecipe, DecodingDevice, Hooks, MetricCommand, ReportOptions};

use crate::bail;
use crate::pack::FolderSource;
use crate::pool::on_pool;
use draw::Draw;
use maker::{DatasetRecords, Maker};
use measure::Measurement;
use shardpack_format::Note;
use shardpack_reader::Dataset;
use shardpack_report::data::{Report, SampleKind};
use shardpack_sources::{Listing, OnBadInput, SourceKind, SourceOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A source whose samples have been listed.
#[derive(Debug)]
pub struct ListedSource {
    listing: Listing,
    path: PathBuf,
    options: SourceOptions,
    start: Instant,
}

/// Lists the sources. Always skips and reports unreadable files, even if the options say otherwise.
///
/// # Errors
/// Same as [`shardpack_sources::enumerate`].
pub fn open(src: &Path, options: &SourceOptions, threads: usize) -> crate::Result<ListedSource> {
    let start = Instant::now();
    let options = SourceOptions { on_bad_input: OnBadInput::Skip, ..options.clone() };
    let listing = on_pool(threads, || shardpack_sources::enumerate(src, &options))??;
    Ok(ListedSource { listing, path: src.to_owned(), options, start })
}

impl ListedSource {
    /// Returns the kind of the samples.
    #[must_use]
    pub const fn kind(&self) -> SourceKind {
        self.listing.kind
    }

    /// Returns notes for the user about the sources.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.listing.notes
    }

    /// Returns properties of up to three cubes, for the candidate ladder.
    #[must_use]
    pub fn cube_traits(&self) -> CubeTraits {
        cubes::traits(&self.listing, &self.options.cubes)
    }

    /// Draws samples, measures the candidates on them, and assembles the report.
    ///
    /// # Errors
    /// Fails if no candidate can be prepared, or if nothing could be measured. Samples that cannot be read or
    /// stored are not errors. The report lists them.
    pub fn measure(
        &self,
        recipes: &[CandidateRecipe],
        options: &ReportOptions,
        hooks: &Hooks<'_>,
    ) -> crate::Result<Report> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
        (hooks.on_progress)(0, 1, "choosing codecs");
        let prepared: Vec<Result<Maker<'_>, String>> = pool.install(|| {
            recipes
                .iter()
                .map(|recipe| FolderSource::open(&self.listing, &recipe.options))
                .map(|encoder| {
                    encoder.map(|source| Maker::Encoder(Box::new(source))).map_err(|error| error.to_string())
                })
                .collect()
        });
        drop(pool);
        self.measured(recipes, &prepared, options, hooks)
    }

    /// Compares the samples of a dataset with their listed sources, matched by key.
    ///
    /// # Errors
    /// Fails if the sources and the dataset are of different kinds, or if nothing could be measured. Samples
    /// that are missing on one side are not errors. The report lists them.
    pub fn measure_dataset(
        &self,
        dataset: &Dataset,
        options: &ReportOptions,
        hooks: &Hooks<'_>,
    ) -> crate::Result<Report> {
        let content = dataset::content(dataset.schema())?;
        let (found, expected) = match (self.listing.kind, content) {
            (SourceKind::Images, SampleKind::Cubes) => ("pictures", "cubes"),
            (SourceKind::Cubes, SampleKind::Pictures) => ("cubes", "pictures"),
            _ => ("", ""),
        };
        if !found.is_empty() {
            bail!("the source `{}` contains {found}, but the dataset contains {expected}", self.path.display());
        }
        let recipe = CandidateRecipe {
            name: dataset::recipe_name(dataset, content),
            group: "stored".to_owned(),
            own: Vec::new(),
            options: maker::options_of(dataset, &self.options),
        };
        let records = DatasetRecords { dataset, listing: &self.listing };
        let mut report = self.measured(&[recipe], &[Ok(Maker::Dataset(records))], options, hooks)?;
        dataset::beside_sources(&mut report, dataset, &options.want);
        Ok(report)
    }

    fn measured(
        &self,
        recipes: &[CandidateRecipe],
        prepared: &[Result<Maker<'_>, String>],
        options: &ReportOptions,
        hooks: &Hooks<'_>,
    ) -> crate::Result<Report> {
        let measurement = Measurement::new(&self.listing, recipes, prepared, options, hooks);
        let draw = Draw::new(&self.listing, options.seed, options.samples.unwrap_or(draw::PILOT));
        let first = options.samples.unwrap_or(draw::PILOT).min(draw.len());
        let mut sampled = measurement.run(draw.first(first), 0);
        if options.samples.is_none() && !measurement.is_cancelled() {
            let wanted = assemble::wanted_samples(&measurement, &draw, &sampled);
            sampled.extend(measurement.run(draw.range(first, wanted), sampled.len()));
        }
        if !sampled.iter().any(|sampled| sampled.records().next().is_some()) {
            bail!("no sample could be measured{}", assemble::first_reason(&sampled, prepared));
        }
        assemble::report(self.start, &measurement, &draw, sampled)
    }
}

//! Packing: from a listing of sources to a dataset. The steps are enumerate, try codecs, plan,
//! write.

pub(crate) mod clip_maker;
mod copy;
pub(crate) mod cubes;
pub mod fidelity;
mod forecast;
pub(crate) mod images;
mod json;
mod options;
mod overlap;
pub(crate) mod picture_maker;
mod picture_masks;
pub(crate) mod picture_sizes;
pub(crate) mod picture_totals;
mod sample_encoder;
mod sample_error;
pub(crate) mod schema;
mod splits;
pub(crate) mod stored_value;
mod summary;
mod tables;
mod tries;

pub(crate) use copy::copy_record;
pub use forecast::{Forecast, Measured, PartForecast, forecast};
pub use json::{report_json, unfinished_json};
pub use options::PackOptions;
pub use overlap::refuse_inside;
pub(crate) use overlap::refuse_overlap;
pub use picture_totals::PictureTotals;
pub(crate) use sample_encoder::SampleEncoder;
pub use sample_error::SampleError;
pub use splits::{PackedSplits, pack_splits};
pub use summary::{AnglePercentiles, ArraySummary, FieldSummary, PictureSummary, SpreadSummary};

use crate::bail;
use fidelity::Totals;
use picture_totals::PictureFigures;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardpack_array::{ArrayOptions, Trial};
use shardpack_format::{Hint, Hinted, Note, Schema, Setting, Voice};
use shardpack_recipe::PictureOptions;
use shardpack_sources::words::plural;
use shardpack_sources::{BadInput, LabelsFrom, Listing, SourceKind};
use shardpack_writer::{
    Output, Plan, PlanOptions, PlanSample, Progress, Report, SampleSource, WriteOptions, write_dataset,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What a run of [`pack`] did.
#[derive(Debug)]
pub struct PackReport {
    /// What the samples are.
    pub kind: SourceKind,
    /// What the writer did.
    pub report: Report,
    /// Number of classes; 0 if there are none.
    pub classes: u64,
    /// Where the labels came from.
    pub labels_from: LabelsFrom,
    /// Files that were left out before the run began (policy: skip).
    pub bad: Vec<BadInput>,
    /// Pictures with oddities that decoders pass over. Covers only this
    /// run: shards that an earlier run wrote are not checked again.
    pub odd_pictures: Vec<OddPicture>,
    /// Things that the user should know.
    pub notes: Vec<Note>,
    /// Pictures with more than 8 bits per sample, which decode to 8.
    pub deep_pictures: u64,
    /// For each array field, the candidates that were tried, best first.
    pub trials: Vec<(String, Trial)>,
    /// Bytes of samples in flight that the run could use.
    pub memory_bytes: u64,
}

/// A picture with an oddity that decoders pass over, and that costs no pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddPicture {
    /// Key of its sample.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

/// Follows a run, and can stop it.
pub struct Hooks<'a> {
    /// Called with the plan's size once it is made, before the first sample is read.
    pub on_plan: &'a dyn Fn(&Planned<'_>),
    /// Called about ten times a second.
    pub on_progress: &'a dyn Fn(&Progress),
    /// Set it to stop.
    pub cancel: &'a AtomicBool,
}

/// What is known before packing reads the first sample.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// The split that is packed; `None` if the source has none.
    pub split: Option<&'a str>,
    /// What the samples are.
    pub kind: SourceKind,
    /// Number of samples.
    pub samples: u64,
    /// Bytes of the sources.
    pub source_bytes: u64,
    /// Number of shards.
    pub shards: u32,
    /// For each array field, the candidates that were tried, best first.
    pub trials: &'a [(String, Trial)],
    /// Bytes of samples in flight that the run can use.
    pub memory_bytes: u64,
    /// Worker threads.
    pub threads: usize,
}

/// Packs `src` into a dataset in the folder `out`, or in a [`shardpack_writer::Bucket`].
///
/// # Errors
/// If source and output overlap, if anything in the source cannot be packed (under the policy to
/// stop), if the options do not fit the values, or if the dataset cannot be written. Finished
/// shards stay, and the same call continues from there.
pub fn pack(src: &Path, out: impl Into<Output>, options: &PackOptions, hooks: &Hooks<'_>) -> crate::Result<PackReport> {
    if options.source.splits {
        let hint = Hint::new("").only(Voice::Rust, "`pack_splits` packs one for each split");
        bail!(Hinted::new("splits: expected a source for one dataset, found those of several", hint));
    }
    let out = out.into();
    refuse_overlap(src, out.path(), &options.source.files)?;
    refuse_overlap(src, out.folder(), &options.source.files)?;
    options.arrays.check()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let listing = pool.install(|| shardpack_sources::enumerate(src, &options.source))?;
    drop(pool);
    pack_listing(&listing, &out, options, hooks)
}

/// What several datasets have in common, settled on the samples of all of them.
enum Common {
    /// Fields beside the pictures.
    Pictures(images::Beside),
    /// How arrays are stored.
    Cubes { trials: Vec<(String, Trial)> },
}

impl Common {
    /// Of the samples of `listing`. Runs on the caller's rayon pool.
    fn of(listing: &Listing, options: &PackOptions) -> crate::Result<Self> {
        Ok(match listing.kind {
            SourceKind::Images => {
                refuse_cube_options(listing, options)?;
                Self::Pictures(images::Beside::of(listing, options)?)
            }
            SourceKind::Cubes => {
                refuse_picture_options(options)?;
                Self::Cubes { trials: tries::choose(listing, options)? }
            }
        })
    }
}

/// Packs what was listed. As [`pack`], but the caller sees to it that `out` is not in the source.
pub(crate) fn pack_listing(
    listing: &Listing,
    out: &Output,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackReport> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let common = pool.install(|| Common::of(listing, options))?;
    drop(pool);
    pack_like(listing, &common, None, out, options, hooks)
}

/// Packs what was listed, as one of several datasets.
fn pack_like(
    listing: &Listing,
    common: &Common,
    split: Option<&str>,
    out: &Output,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackReport> {
    // The pool looks at files; the writer has its own threads.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    match common {
        Common::Pictures(beside) => {
            let source = pool.install(|| images::Images::new(listing, options, beside))?;
            drop(pool);
            let metadata = schema::metadata(listing, source.fields(), schema::map_of(source.recipe(options)));
            let stored: Vec<u64> = listing.samples.iter().map(|entry| source.estimate(entry)).collect();
            let trials = beside.masks.clone().map(|trial| ("mask".to_owned(), trial)).into_iter().collect();
            let mut report = run(out, listing, split, metadata, &stored, &source, trials, options, hooks)?;
            report.add_odd(source.odd());
            Ok(report)
        }
        Common::Cubes { trials } => {
            drop(pool);
            let source = cubes::Cubes::with_trials(listing, options, trials.clone())?;
            let metadata = schema::metadata(listing, source.fields(), schema::map_of(source.recipe(options)));
            let stored: Vec<u64> = listing.samples.iter().map(|e| source.estimate(e)).collect();
            let mut report = run(out, listing, split, metadata, &stored, &source, trials.clone(), options, hooks)?;
            report.notes.extend(source.unfit_note());
            Ok(report)
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the two kinds of sources meet here, and nowhere else")]
fn run<S: SampleSource>(
    out: &Output,
    listing: &Listing,
    split: Option<&str>,
    metadata: crate::Result<shardpack_format::Metadata>,
    stored: &[u64],
    source: &S,
    trials: Vec<(String, Trial)>,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackReport> {
    let plan = plan_of(listing, metadata, stored, options)?;
    let largest = (0..listing.samples.len() as u64).map(|i| source.memory_bytes(i)).max().unwrap_or(0);
    let memory_bytes = options.memory_bytes.unwrap_or_else(|| default_memory(options.threads, largest));
    (hooks.on_plan)(&Planned {
        split,
        kind: listing.kind,
        samples: plan.sample_count(),
        source_bytes: listing.source_bytes(),
        shards: plan.shard_count(),
        trials: &trials,
        memory_bytes,
        threads: options.threads,
    });
    let write = WriteOptions {
        threads: options.threads,
        memory_bytes,
        part: options.part,
        force: options.force,
        on_progress: Some(hooks.on_progress),
        cancel: Some(hooks.cancel),
    };
    let report = write_dataset(out.clone(), &plan, source, &write)?;
    let tiny = tiny_shards(plan.sample_count(), plan.shard_count(), options.shard_bytes);
    let idle = options.part.and_then(|part| idle_parts(part.count(), plan.shard_count()));
    let mut packed = PackReport::of(listing, report, trials, memory_bytes);
    packed.notes.extend(idle.into_iter().chain(tiny));
    Ok(packed)
}

impl PackReport {
    /// What was made of a listing.
    pub(crate) fn of(listing: &Listing, report: Report, trials: Vec<(String, Trial)>, memory_bytes: u64) -> Self {
        Self {
            classes: listing.classes.len() as u64,
            labels_from: listing.labels_from.clone(),
            bad: listing.bad.clone(),
            notes: listing.notes.iter().cloned().chain(report.notes.iter().cloned().map(Note::new)).collect(),
            deep_pictures: shardpack_sources::deep(&listing.samples).count() as u64,
            trials,
            memory_bytes,
            ..Self::unchanged(listing.kind, report)
        }
    }

    /// Nothing was packed.
    pub(crate) fn unchanged(kind: SourceKind, report: Report) -> Self {
        Self {
            kind,
            report,
            classes: 0,
            labels_from: LabelsFrom::Nothing,
            bad: Vec::new(),
            odd_pictures: Vec::new(),
            notes: Vec::new(),
            deep_pictures: 0,
            trials: Vec::new(),
            memory_bytes: 0,
        }
    }

    /// Names pictures with oddities that decoders pass over.
    pub(crate) fn add_odd(&mut self, odd: Vec<OddPicture>) {
        self.notes.extend(odd_note(&odd));
        self.odd_pictures = odd;
    }
}

/// The plan of a listing: the same on every machine.
pub(crate) fn plan_of(
    listing: &Listing,
    metadata: crate::Result<shardpack_format::Metadata>,
    stored: &[u64],
    options: &PackOptions,
) -> crate::Result<Plan> {
    let samples = listing.samples.iter().zip(stored).enumerate().map(|(position, (entry, stored))| PlanSample {
        key: &entry.key,
        source_bytes: entry.source_bytes(),
        stored_bytes: *stored,
        mtime_ns: entry.fingerprint_mtime_ns(),
        extra_digest: tables::digest(listing, position),
    });
    let plan_options = PlanOptions { shard_bytes: options.shard_bytes, shuffle: options.shuffle };
    Ok(Plan::new(samples, metadata?, plan_options)?)
}

/// A note that each sample is a shard, because a number was given where a unit was meant.
fn tiny_shards(samples: u64, shards: u32, shard_bytes: u64) -> Option<Note> {
    const TINY: u64 = 1 << 20;
    (samples > 1 && u64::from(shards) == samples && shard_bytes < TINY).then(|| {
        let note =
            format!("{samples} samples in as many shards: one of at most {shard_bytes} bytes has no room for two");
        Note::new(note).with_hint(Hint::set([Setting::word("shard_size", "256MiB")]).then(", say, makes larger ones"))
    })
}

/// A note that there are more parts than shards.
fn idle_parts(parts: u32, shards: u32) -> Option<Note> {
    let only = plural(u64::from(shards), "shard");
    (parts > shards).then(|| {
        let note = Note::new(format!("{parts} parts, but only {only}: some parts have nothing to pack"));
        note.with_hint(Hint::new("a smaller ").and([Setting::named("shard_size")]).then(" makes more shards"))
    })
}

/// One note on pictures with oddities that decoders pass over.
fn odd_note(pictures: &[OddPicture]) -> Option<Note> {
    let first = pictures.first()?;
    let (key, what) = (first.key.escape_debug(), first.what.lines().next().unwrap_or_default());
    Some(match pictures.len() {
        1 => format!("1 picture has an oddity that decoders pass over: `{key}`: {what}").into(),
        n => Note::new(format!("{n} pictures have oddities that decoders pass over (first: `{key}`: {what})"))
            .with_hint("`odd_pictures` in the JSON report names all"),
    })
}

/// Refuses options that would have no effect: whoever gives them expects one.
fn refuse_cube_options(listing: &Listing, options: &PackOptions) -> crate::Result<()> {
    let (cubes, arrays) = (&options.source.cubes, options.arrays);
    let has_masks = listing.samples.iter().any(|entry| entry.mask.is_some());
    // Masks are arrays, whose codec may be chosen.
    let allowed = match has_masks {
        true => ArrayOptions {
            coder: arrays.coder,
            level: arrays.level,
            filter: arrays.filter,
            prefer: arrays.prefer,
            ..ArrayOptions::default()
        },
        false => ArrayOptions::default(),
    };
    if arrays != allowed || !cubes.variable.is_empty() || cubes.spatial.is_some() {
        let and_codecs = if has_masks { "" } else { ", codecs" };
        bail!("the source holds pictures: options on values{and_codecs} and variables are for cubes");
    }
    Ok(())
}

fn refuse_picture_options(options: &PackOptions) -> crate::Result<()> {
    if options.pictures != PictureOptions::default() {
        bail!("the source holds cubes: options on JPEG, quality, scores and metadata are for pictures");
    }
    Ok(())
}

/// One sample for each thread and one more that waits to be written, but at least 64 MiB.
pub(crate) fn default_memory(threads: usize, largest_sample: u64) -> u64 {
    largest_sample.saturating_mul(threads as u64 + 1).max(64 << 20)
}

/// Whether a scalar field holds a figure that packing measured, rather than a user's value.
#[must_use]
pub fn is_figure(schema: &Schema, name: &str) -> bool {
    fidelity::is_figure(schema, name) || picture_totals::is_figure(schema, name)
}

/// What was done with one field of many samples.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FieldTotals {
    Array(Box<Totals>),
    Picture(PictureTotals),
}

/// Fidelity figures by field, as the writer adds them up.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally(BTreeMap<String, FieldTotals>);

impl Tally {
    fn of(field: &str, totals: FieldTotals) -> Self {
        Self(BTreeMap::from([(field.to_owned(), totals)]))
    }

    /// The figures in a record's scalars.
    pub(crate) fn of_record(schema: &Schema, key: &str, scalars: &[u8]) -> Self {
        Self::of_noted_record(schema, key, scalars, |_, figures| PictureTotals::of(key, figures, None))
    }

    /// Like [`of_record`](Self::of_record). `picture` adds what the columns of a picture do not
    /// tell. Fields without a value have no figures.
    pub(crate) fn of_noted_record(
        schema: &Schema,
        key: &str,
        scalars: &[u8],
        picture: impl Fn(&str, &PictureFigures) -> PictureTotals,
    ) -> Self {
        let arrays = fidelity::from_scalars(schema, scalars).into_iter().filter(|(_, figures)| figures.values > 0);
        let arrays = arrays.map(|(field, figures)| (field, FieldTotals::Array(Box::new(Totals::of(key, figures)))));
        let pictures = PictureFigures::from_scalars(schema, scalars).into_iter().filter(|(_, f)| f.source_bytes > 0);
        let pictures = pictures.map(|(field, figures)| {
            let totals = picture(&field, &figures);
            (field, FieldTotals::Picture(totals))
        });
        Self(arrays.chain(pictures).collect())
    }
}

impl Tally {
    fn entries(&self, array: impl Fn(&Totals) -> ArraySummary) -> Map<String, Value> {
        let entry = |totals: &FieldTotals| match totals {
            FieldTotals::Array(totals) => json!(array(totals)),
            FieldTotals::Picture(totals) => json!(totals.summary()),
        };
        self.0.iter().map(|(field, totals)| (field.clone(), entry(totals))).collect()
    }
}

impl shardpack_writer::Tally for Tally {
    fn merge(&mut self, next: Self) {
        for (field, totals) in next.0 {
            match (self.0.get_mut(&field), totals) {
                (Some(FieldTotals::Array(mine)), FieldTotals::Array(next)) => mine.merge(*next),
                (Some(FieldTotals::Picture(mine)), FieldTotals::Picture(next)) => mine.merge(next),
                // A field has the same kind in the whole dataset.
                (_, totals) => _ = self.0.insert(field, totals),
            }
        }
    }

    /// Without percentiles of angles: no column of the shards holds what they are made of, so `verify`
    /// could not check them.
    fn fidelity(&self) -> Map<String, Value> {
        self.entries(|totals| ArraySummary { angle_percentiles_rad: None, ..totals.summary() })
    }

    fn report(&self) -> Map<String, Value> {
        self.entries(Totals::summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_hold_one_sample_each_by_mistake_are_told() {
        let note = tiny_shards(30, 30, 10).unwrap().told(Voice::Command);
        assert_eq!(
            note,
            "30 samples in as many shards: one of at most 10 bytes has no room for two\n\
             hint: `--shard-size 256MiB`, say, makes larger ones"
        );
        // Samples that are large, shards of several, and a dataset of one sample.
        for (samples, shards, bytes) in [(30, 30, 1 << 30), (30, 15, 10), (1, 1, 10)] {
            assert!(tiny_shards(samples, shards, bytes).is_none(), "{samples} {shards} {bytes}");
        }
    }
}

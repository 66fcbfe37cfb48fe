//! Reports on a packed dataset from its indexes, without reading any records.

use super::draw::random;
use super::options::{Hooks, ReportOptions};
use super::provenance::blank;
use super::record::scalar;
use super::sampled::first_line;
use crate::bail;
use crate::encode::fidelity;
use crate::encode::picture_figures::PictureFigures;
use shardpack_array::Fidelity;
use shardpack_base::peak_rss_bytes;
use shardpack_format::{FieldKind, Schema};
use shardpack_jpeg::Quality;
use shardpack_reader::{Dataset, Shard};
use shardpack_recipe::{DatasetRecipe, PictureOptions, Word};
use shardpack_report::conclude::conclude;
use shardpack_report::data::{
    Candidate, DrawnSample, Estimate, Interrupted, Measure, Predictions, Provenance, Report, SampleKind, StoredSample,
    Subject, Unreadable, Whole,
};
use shardpack_report::want::Want;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Maximum number of samples in the report. From a larger dataset, this many are drawn.
pub const MOST_ROWS: u64 = 4096;

/// Reports on a dataset from the columns that packing stored.
///
/// # Errors
/// Fails if the dataset has neither pictures nor arrays, or if no shard can be read.
pub fn of_dataset(dataset: &Dataset, options: &ReportOptions, hooks: &Hooks<'_>) -> crate::Result<Report> {
    let start = Instant::now();
    let content = content(dataset.schema())?;
    let wanted = options.samples.unwrap_or(MOST_ROWS).min(MOST_ROWS);
    let taken = taken(dataset.len(), wanted, options.seed);
    let (mut samples, mut rows, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut first, mut exact, mut scored) = (0_u64, 0_u64, true, 0_u64);
    let shards: Vec<_> = dataset.shards().collect();
    let mut interrupted = None;
    for (number, info) in shards.iter().enumerate() {
        (hooks.on_progress)(number as u64, shards.len() as u64, "reading");
        if hooks.cancel.load(Ordering::Relaxed) {
            interrupted = Some(Interrupted { done: samples.len() as u64, of: taken.len() as u64 });
            break;
        }
        match dataset.shard(number) {
            Ok(shard) => {
                bytes = bytes.saturating_add(shard.file_bytes());
                for record in 0..shard.len() {
                    if !taken.contains(&(first + record)) {
                        continue;
                    }
                    let Some(found) = IndexedSample::of(&shard, record) else { continue };
                    exact &= found.exact;
                    scored += u64::from(!found.scores.is_empty());
                    rows.push(StoredSample { sample: samples.len(), bytes: found.bytes, scores: found.scores });
                    samples.push(found.sample);
                }
            }
            Err(error) => {
                let reason = first_line(&error.to_string());
                unreadable.push(Unreadable { path: info.name.clone(), reason });
                bytes = bytes.saturating_add(info.bytes);
            }
        }
        first = first.saturating_add(info.samples);
    }
    if samples.is_empty() && interrupted.is_none() {
        let why = unreadable
            .first()
            .map_or_else(|| "the dataset has no samples".to_owned(), |one: &Unreadable| one.reason.clone());
        bail!("there is nothing to report on: {why}");
    }
    let drawn = samples.len() as u64;
    #[allow(clippy::cast_precision_loss, reason = "a size")]
    let size = bytes as f64;
    let candidate = Candidate {
        number: 1,
        name: recipe_name(dataset, content),
        group: "stored".to_owned(),
        lossless: exact && drawn > 0 && !dataset.schema().scalars().any(|(name, _)| name == "image.score"),
        rows,
        predictions: Predictions {
            bytes: Some(Estimate { value: size, low: size, high: size }),
            ..Predictions::default()
        },
        ..Candidate::default()
    };
    let blank = blank(Subject::Dataset, content, options.seed, options.threads);
    let mut report = Report {
        whole: Whole {
            samples: dataset.len(),
            source_bytes: bytes,
            classes: dataset.classes().unwrap_or_default().to_vec(),
            recipe: Some(serde_json::Value::Object(dataset.recipe().clone())),
        },
        samples,
        candidates: vec![candidate],
        unreadable,
        notes: notes(content, scored, drawn, dataset.len(), wanted),
        provenance: Provenance {
            strata_count: 1,
            drawn,
            of: dataset.len(),
            interrupted,
            not_measured: vec![
                "Nothing was measured for this report: the figures were measured and stored by `pack`.".to_owned(),
            ],
            ..blank.provenance
        },
        ..blank
    };
    conclude(&mut report, &options.want, !options.want.is_empty());
    report.provenance.peak_rss_bytes = Some(peak_rss_bytes()).filter(|&bytes| bytes > 0);
    report.provenance.wall_s = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Turns a report on single records into a report on the dataset. Adds facts about the dataset and lists its
/// differences from the sources.
pub(super) fn beside_sources(report: &mut Report, dataset: &Dataset, want: &[Want]) {
    let bytes: u64 = dataset.shards().map(|shard| shard.bytes).sum();
    #[allow(clippy::cast_precision_loss, reason = "a size")]
    let size = bytes as f64;
    report.subject = Subject::Dataset;
    report.whole.recipe = Some(serde_json::Value::Object(dataset.recipe().clone()));
    if report.whole.samples != dataset.len() {
        let (sources, samples) = (report.whole.samples, dataset.len());
        report.notes.push(format!("the source has {sources} samples, but the dataset has {samples}"));
    }
    for candidate in &mut report.candidates {
        candidate.predictions.bytes = Some(Estimate { value: size, low: size, high: size });
    }
    conclude(report, want, !want.is_empty());
}

/// Returns the kind of the reported field. This is the first picture or array field.
pub(super) fn content(schema: &Schema) -> crate::Result<SampleKind> {
    let found = schema.stored().find_map(|field| match field.kind {
        FieldKind::Image => Some(SampleKind::Pictures),
        FieldKind::Array => Some(SampleKind::Cubes),
        _ => None,
    });
    match found {
        Some(content) => Ok(content),
        None => bail!("the dataset has neither pictures nor cubes"),
    }
}

fn taken(samples: u64, wanted: u64, seed: u64) -> BTreeSet<u64> {
    if samples <= wanted {
        return (0..samples).collect();
    }
    // Draw one sample from each of several equally long ranges. The stored order is already shuffled.
    (0..wanted)
        .map(|i| {
            let (from, to) = (stretch(samples, i, wanted), stretch(samples, i + 1, wanted));
            from + random(seed, 0, i) % (to - from).max(1)
        })
        .collect()
}

fn stretch(samples: u64, i: u64, of: u64) -> u64 {
    u64::try_from(u128::from(samples) * u128::from(i) / u128::from(of.max(1))).unwrap_or(samples)
}

struct IndexedSample {
    sample: DrawnSample,
    bytes: u64,
    scores: BTreeMap<Measure, f64>,
    /// True if the figures prove that nothing was lost.
    exact: bool,
}

impl IndexedSample {
    fn of(shard: &Shard, record: u64) -> Option<Self> {
        let index = shard.index();
        let schema = &index.metadata().schema;
        let row = index.row(record)?;
        let mut packed = Vec::new();
        for position in 0..schema.scalars().count() {
            packed.extend(index.scalar(record, position)?);
        }
        let axis = |name: &str| whole(schema, &packed, name);
        let class = axis("label").and_then(|label| u32::try_from(label).ok());
        let shape =
            ["height", "width", "channels"].into_iter().filter_map(|name| u64::try_from(axis(name)?).ok()).collect();
        let pictures = PictureFigures::from_scalars(schema, &packed);
        let arrays = fidelity::from_scalars(schema, &packed);
        let picture = pictures.values().next();
        let array = arrays.values().next();
        let source_bytes = picture.map_or(0, |figures| figures.source_bytes);
        let mut scores = BTreeMap::new();
        let reencoded = picture.and_then(|figures| figures.reencoded);
        if let Some(figures) = reencoded.filter(|figures| figures.score.is_finite()) {
            scores.insert(Measure::Ssimulacra2, f64::from(figures.score));
        }
        scores.extend(array.into_iter().flat_map(of_fidelity));
        // A picture that was not re-encoded has the same pixels as its source.
        let exact =
            array.is_none_or(|figures| figures.changed == 0) && reencoded.is_none_or(|figures| figures.quality == 0);
        let key = index.key(record)?.to_owned();
        Some(Self { sample: DrawnSample { key, class, source_bytes, shape }, bytes: row.length, scores, exact })
    }
}

fn whole(schema: &Schema, packed: &[u8], name: &str) -> Option<i64> {
    let value = scalar(schema, packed, name)?;
    match value.len() {
        4 => Some(i64::from(u32::from_le_bytes(*value.first_chunk()?))),
        8 => Some(i64::from_le_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn of_fidelity(figures: &Fidelity) -> Vec<(Measure, f64)> {
    let mut out = vec![
        (Measure::Altered, figures.changed as f64 / figures.values.max(1) as f64),
        (Measure::MaxAbsError, figures.max_abs_error),
        (Measure::MaxRelError, figures.max_rel_error),
    ];
    if figures.spectra > 0 {
        out.push((Measure::SpectralAngleMax, figures.max_angle.to_degrees()));
    }
    out.into_iter().filter(|(_, value)| value.is_finite()).collect()
}

pub(super) fn recipe_name(dataset: &Dataset, content: SampleKind) -> String {
    let recipe = DatasetRecipe::read(dataset.recipe());
    match content {
        SampleKind::Pictures => match recipe.pictures("image") {
            Some(PictureOptions::Reencode { how, .. }) => match how.quality {
                Quality::Ssimulacra2(score) => format!("reencode to SSIMULACRA2 {score:?}"),
                Quality::Fixed(quality) => format!("reencode q{quality}"),
            },
            Some(kept) => kept.jpeg().spelled().to_owned(),
            None => "pictures".to_owned(),
        },
        SampleKind::Cubes => {
            let asked = recipe.arrays("cube").map(|cube| cube.asked);
            let values = asked.map_or("arrays", |asked| asked.values.spelled());
            let error = asked.and_then(|asked| asked.max_error);
            format!("values {values}{}", error.map_or_else(String::new, |error| format!(" ±{error}")))
        }
    }
}

fn notes(content: SampleKind, scored: u64, drawn: u64, all: u64, wanted: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if content == SampleKind::Pictures && scored == 0 {
        notes.push(
            "packing stored no scores of these pictures: they were not re-encoded, or `score` was none".to_owned(),
        );
    } else if scored < drawn {
        notes.push(format!(
            "the scores are from {scored} of {drawn} samples: `pack` scores only some of the pictures unless `score` \
             is all"
        ));
    }
    if all > wanted {
        notes.push(format!("the figures are from {drawn} of {all} samples, drawn at random"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_of_a_large_dataset_is_spread_over_it() {
        let all = taken(1_000_000, 4096, 3);
        assert_eq!(all.len(), 4096);
        assert!(*all.first().unwrap() < 250 && *all.last().unwrap() >= 999_750);
        assert_eq!(taken(10, 4096, 3), (0..10).collect());
    }
}

//! Assembles the report from its measurements.

use super::draw::{Draw, GOAL, MOST, known};
use super::maker::Maker;
use super::measure::Measurement;
use super::options::ReportOptions;
use super::provenance::blank;
use super::sampled::{CandidateResult, Sampled, first_line};
use super::{datasets, gallery, panels, rates};
use crate::pack::FolderSource;
use shardpack_base::peak_rss_bytes;
use shardpack_report::conclude::{conclude, default_conditions};
use shardpack_report::data::{
    Candidate, DrawnSample, Estimate, FailedSample, Interrupted, Provenance, Report, SampleKind, StoredSample, Subject,
    TimedDevice, Unreadable, Whole,
};
use shardpack_report::stats::{Drawn, needed, predict};
use shardpack_report::want::Want;
use shardpack_sources::{SampleContent, SourceKind, SourceSample};
use std::time::Instant;

/// Returns the number of samples needed to predict the sizes of all candidates precisely enough.
pub(super) fn wanted_samples(measurement: &Measurement<'_>, draw: &Draw, sampled: &[Sampled]) -> u64 {
    let drawn = sampled.len() as u64;
    measurement
        .makers()
        .filter_map(|(number, _, _)| records(measurement, draw, sampled, number))
        .map(|found| needed(&found, drawn, draw.len(), GOAL))
        .max()
        .unwrap_or(drawn)
        .min(MOST)
        .max(drawn)
}

pub(super) fn first_reason(sampled: &[Sampled], prepared: &[Result<Maker<'_>, String>]) -> String {
    let of_sample = |sampled: &Sampled| {
        let failed = sampled.results.iter().find_map(|result| match result {
            CandidateResult::Failed(reason) => Some(reason.clone()),
            CandidateResult::Stored(_) => None,
        });
        sampled.unreadable.clone().or(failed)
    };
    let reason = prepared.iter().find_map(|one| one.as_ref().err().cloned());
    reason.or_else(|| sampled.iter().find_map(of_sample)).map_or_else(String::new, |reason| format!(": {reason}"))
}

fn records(measurement: &Measurement<'_>, draw: &Draw, sampled: &[Sampled], candidate: usize) -> Option<Estimate> {
    #[allow(clippy::cast_precision_loss, reason = "sizes for an estimate")]
    let drawn: Vec<Drawn> = sampled
        .iter()
        .filter_map(|sampled| {
            Some(Drawn {
                stratum: draw.stratum(sampled.position),
                known: known(measurement.listing.samples.get(sampled.position)?),
                stored_bytes: sampled.record(candidate)?.bytes as f64,
            })
        })
        .collect();
    predict(&drawn, &draw.strata)
}

pub(super) fn report(
    start: Instant,
    measurement: &Measurement<'_>,
    draw: &Draw,
    sampled: Vec<Sampled>,
) -> crate::Result<Report> {
    let drawn = measurement.options.samples.unwrap_or(sampled.len() as u64).min(draw.len()).max(sampled.len() as u64);
    let done = sampled.len() as u64;
    let scoring_s = sampled.iter().map(|sampled| sampled.scoring_s).sum();
    let listing = measurement.listing;
    let mut unreadable: Vec<Unreadable> =
        listing.bad.iter().map(|bad| Unreadable { path: bad.key.clone(), reason: first_line(&bad.detail) }).collect();
    let (mut whole, bad): (Vec<Sampled>, Vec<Sampled>) = sampled.into_iter().partition(|one| one.unreadable.is_none());
    unreadable.extend(bad.into_iter().filter_map(|one| {
        Some(Unreadable { path: listing.samples.get(one.position)?.key.clone(), reason: one.unreadable? })
    }));
    unreadable.sort_by(|a, b| a.path.cmp(&b.path));
    // Sorting by position also sorts by key.
    whole.sort_by_key(|one| one.position);
    let samples: Vec<DrawnSample> =
        whole.iter().filter_map(|one| listing.samples.get(one.position)).map(sample_of).collect();
    let rates = rates::measure(measurement, &whole);
    let candidates = measurement.recipes.iter().enumerate().map(|(number, _)| {
        let own_rates = rates.get(number).copied().unwrap_or_default();
        candidate(measurement, draw, &whole, number, own_rates)
    });
    let numbered = candidates.zip(1_u32..).map(|(candidate, number)| Candidate { number, ..candidate });
    let candidates: Vec<Candidate> = numbered.collect();
    let content = match listing.kind {
        SourceKind::Images => SampleKind::Pictures,
        SourceKind::Cubes => SampleKind::Cubes,
    };
    let want_given = !measurement.options.want.is_empty();
    let none = |_: &str| Err("no size".to_owned());
    let want = match want_given {
        true => measurement.options.want.clone(),
        false => default_conditions(content).iter().filter_map(|text| Want::parse(text, &none).ok()).collect(),
    };
    let interrupted = measurement.is_cancelled().then_some(Interrupted { done, of: drawn });
    let blank = blank(Subject::Sources, content, measurement.options.seed, measurement.options.threads);
    let mut report = Report {
        whole: Whole {
            samples: listing.samples.len() as u64,
            source_bytes: listing.source_bytes(),
            classes: listing.classes.clone(),
            recipe: None,
        },
        samples,
        candidates,
        unreadable,
        notes: unscored_note(&whole, listing).into_iter().collect(),
        provenance: Provenance {
            strata: draw.over,
            strata_count: draw.strata.len() as u64,
            drawn,
            of: draw.len(),
            device: measurement.options.device.as_ref().map(|device| TimedDevice { name: device.name().to_owned() }),
            scoring_s,
            interrupted,
            not_measured: not_measured(content, interrupted.is_some(), measurement.options),
            ..blank.provenance
        },
        ..blank
    };
    conclude(&mut report, &want, want_given);
    (measurement.hooks.on_progress)(1, 1, "drawing");
    panels::add(&mut report, measurement, &whole);
    gallery::add(&mut report, measurement, &whole);
    let positions: Vec<usize> = whole.iter().map(|one| one.position).collect();
    datasets::add(&mut report, measurement, &positions)?;
    report.provenance.peak_rss_bytes = Some(peak_rss_bytes()).filter(|&bytes| bytes > 0);
    report.provenance.wall_s = start.elapsed().as_secs_f64();
    Ok(report)
}

fn candidate(
    measurement: &Measurement<'_>,
    draw: &Draw,
    whole: &[Sampled],
    number: usize,
    rates: shardpack_report::data::Rates,
) -> Candidate {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let (mut encode_s, mut exact) = (0.0, true);
    for (sample, sampled) in whole.iter().enumerate() {
        match sampled.results.get(number) {
            Some(CandidateResult::Stored(stored)) => {
                encode_s += stored.encode_s;
                exact &= stored.scores.exact;
                rows.push(StoredSample { sample, bytes: stored.bytes, scores: stored.scores.values.clone() });
            }
            Some(CandidateResult::Failed(reason)) => failures.push(FailedSample { sample, reason: reason.clone() }),
            None => {}
        }
    }
    let mut made = Candidate { rates, ..Candidate::default() };
    if let Some(recipe) = measurement.recipes.get(number) {
        made.name.clone_from(&recipe.name);
        made.group.clone_from(&recipe.group);
    }
    match measurement.prepared.get(number) {
        Some(Ok(maker)) => {
            if let Some(encoder) = maker.encoder() {
                made.predictions.bytes = records(measurement, draw, whole, number)
                    .map(|found| with_shards(found, encoder, measurement, number));
            }
            made.notes.extend(maker.settings().map(|settings| settings.to_string()));
        }
        Some(Err(reason)) => {
            made.notes.push(first_line(reason));
            failures.clear();
        }
        None => {}
    }
    #[allow(clippy::cast_precision_loss, reason = "counts for a rate")]
    let (count, all) = (rows.len() as f64, measurement.listing.samples.len() as f64);
    made.lossless = !rows.is_empty() && exact && failures.is_empty();
    let is_made = matches!(measurement.prepared.get(number), Some(Ok(Maker::Encoder(_))));
    if encode_s > 0.0 && is_made {
        made.rates.encode_one_core_per_s = Some(count / encode_s);
        #[allow(clippy::cast_precision_loss, reason = "a number of threads")]
        let threads = measurement.options.threads as f64;
        made.predictions.pack_s = Some(encode_s / count * all / threads);
    }
    made.predictions.load_per_s = made.rates.decode_all_cores_per_s;
    made.predictions.epoch_s = made.predictions.load_per_s.map(|rate| all / rate);
    made.rows = rows;
    made.failures = failures;
    made
}

/// Adds the bytes that shards need outside their records. Their number is known exactly, except for some padding.
fn with_shards(found: Estimate, encoder: &FolderSource<'_>, measurement: &Measurement<'_>, number: usize) -> Estimate {
    #[allow(clippy::cast_precision_loss, reason = "sizes for an estimate")]
    let (beside, shard) = (
        encoder.beside_bytes() as f64,
        measurement.recipes.get(number).map_or(1 << 30, |recipe| recipe.options.shard_bytes) as f64,
    );
    let more_shards = (found.value / shard).floor();
    let slack = PADDING * (1.0 + more_shards);
    let value = found.value + beside + more_shards * PADDING / 2.0;
    Estimate { value, low: found.low + beside - slack, high: found.high + beside + more_shards * PADDING / 2.0 + slack }
}

/// Bytes of a shard that are unknown until it is written: the padding in its index and its copy of the recipe.
const PADDING: f64 = 4096.0;

fn sample_of(entry: &SourceSample) -> DrawnSample {
    let shape = match &entry.content {
        SampleContent::Picture(picture) => vec![u64::from(picture.height), u64::from(picture.width)],
        SampleContent::Cube(info) => info.shape.to_vec(),
    };
    DrawnSample { key: entry.key.clone(), class: entry.class, source_bytes: entry.source_bytes(), shape }
}

fn unscored_note(whole: &[Sampled], listing: &shardpack_sources::Listing) -> Option<String> {
    let unscored = |one: &Sampled| one.records().find_map(|record| record.scores.unscored.clone());
    let mut all = whole.iter().filter_map(|one| Some((one.position, unscored(one)?)));
    let (position, reason) = all.next()?;
    let count = all.count() + 1;
    let key = listing.samples.get(position).map_or("", |entry| entry.key.as_str());
    let samples = shardpack_sources::words::plural(count as u64, "sample");
    Some(format!("{samples} could not be scored for some candidates (first: `{}`: {reason})", key.escape_debug()))
}

fn not_measured(content: SampleKind, interrupted: bool, options: &ReportOptions) -> Vec<String> {
    let mut all = vec!["The disk: data were decoded from memory, so a slow disk lowers the rates.".to_owned()];
    if options.device.is_none() {
        all.push("Decoding on a GPU: the decode rates are for this machine's CPU cores.".to_owned());
    }
    if content == SampleKind::Pictures {
        all.push(
            "The loss from shrinking: shrunk pictures are scored against their losslessly shrunk source.".to_owned(),
        );
    }
    if interrupted {
        all.push("Decode rates, because the run was interrupted.".to_owned());
    }
    all
}

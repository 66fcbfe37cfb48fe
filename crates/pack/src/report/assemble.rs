//! Puts the report together from what was measured.

use super::draw::{Draw, GOAL, MOST, known};
use super::maker::Maker;
use super::measure::{Bench, Outcome, Sampled, first_line};
use super::{Opened, ReportOptions, dashed, datasets, gallery, panels, rates};
use crate::pack::SampleEncoder;
use shardpack_format::Setting;
use shardpack_reader::peak_rss_bytes;
use shardpack_report::conclude::{conclude, default_conditions};
use shardpack_report::data::{
    Candidate, Content, Device, Estimate, Failure, Interrupted, Machine, Provenance, Report, Row, Sample, Subject,
    Unreadable, VERSION, Verdict, Whole,
};
use shardpack_report::stats::{Drawn, needed, predict};
use shardpack_report::want::Want;
use shardpack_sources::{SampleContent, SourceKind, SourceSample};
use std::collections::BTreeMap;

/// How many samples it takes until the prediction of every candidate is as narrow as it should be.
pub(super) fn wanted_samples(bench: &Bench<'_>, draw: &Draw, sampled: &[Sampled]) -> u64 {
    let drawn = sampled.len() as u64;
    bench
        .makers()
        .filter_map(|(number, _, _)| records(bench, draw, sampled, number))
        .map(|found| needed(&found, drawn, draw.len(), GOAL))
        .max()
        .unwrap_or(drawn)
        .min(MOST)
        .max(drawn)
}

/// Why nothing could be measured: the first reason there is.
pub(super) fn first_reason(sampled: &[Sampled], prepared: &[Result<Maker<'_>, String>]) -> String {
    let of_sample = |sampled: &Sampled| {
        let failed = sampled.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Failed(reason) => Some(reason.clone()),
            Outcome::Stored(_) => None,
        });
        sampled.unreadable.clone().or(failed)
    };
    let reason = prepared.iter().find_map(|one| one.as_ref().err().cloned());
    reason.or_else(|| sampled.iter().find_map(of_sample)).map_or_else(String::new, |reason| format!(": {reason}"))
}

/// Predicted bytes of all records under one plan.
fn records(bench: &Bench<'_>, draw: &Draw, sampled: &[Sampled], plan: usize) -> Option<Estimate> {
    #[allow(clippy::cast_precision_loss, reason = "sizes for an estimate")]
    let drawn: Vec<Drawn> = sampled
        .iter()
        .filter_map(|sampled| match sampled.outcomes.get(plan)? {
            Outcome::Stored(stored) => Some(Drawn {
                stratum: draw.stratum(sampled.position),
                known: known(bench.listing.samples.get(sampled.position)?),
                stored_bytes: stored.bytes as f64,
            }),
            Outcome::Failed(_) => None,
        })
        .collect();
    predict(&drawn, &draw.strata)
}

/// The whole report.
pub(super) fn report(opened: &Opened, bench: &Bench<'_>, draw: &Draw, sampled: Vec<Sampled>) -> anyhow::Result<Report> {
    let drawn = bench.options.samples.unwrap_or(sampled.len() as u64).min(draw.len()).max(sampled.len() as u64);
    let done = sampled.len() as u64;
    let scoring_s = sampled.iter().map(|sampled| sampled.scoring_s).sum();
    let listing = bench.listing;
    let mut unreadable: Vec<Unreadable> =
        listing.bad.iter().map(|bad| Unreadable { path: bad.key.clone(), reason: first_line(&bad.detail) }).collect();
    let (mut whole, bad): (Vec<Sampled>, Vec<Sampled>) = sampled.into_iter().partition(|one| one.unreadable.is_none());
    unreadable.extend(bad.into_iter().filter_map(|one| {
        Some(Unreadable { path: listing.samples.get(one.position)?.key.clone(), reason: one.unreadable? })
    }));
    unreadable.sort_by(|a, b| a.path.cmp(&b.path));
    // In the order of the keys.
    whole.sort_by_key(|one| one.position);
    let samples: Vec<Sample> =
        whole.iter().filter_map(|one| listing.samples.get(one.position)).map(sample_of).collect();
    let rates = rates::measure(bench, &whole)?;
    let mut notes: Vec<String> =
        listing.notes.iter().map(|note| note.told(bench.options.voice).replace('\n', " ")).collect();
    notes.extend(unscored_note(&whole, listing));
    let candidates = bench.plans.iter().enumerate().map(|(number, _)| {
        let own_rates = rates.get(number).copied().unwrap_or_default();
        candidate(bench, draw, &whole, number, own_rates)
    });
    let candidates: Vec<Candidate> = candidates.collect();
    let content = match listing.kind {
        SourceKind::Images => Content::Pictures,
        SourceKind::Cubes => Content::Cubes,
    };
    let want_given = !bench.options.want.is_empty();
    let none = |_: &str| Err("no size".to_owned());
    let want = match want_given {
        true => bench.options.want.clone(),
        false => default_conditions(content).iter().filter_map(|text| Want::parse(text, &none).ok()).collect(),
    };
    let interrupted = bench.is_cancelled().then_some(Interrupted { done, of: drawn });
    let mut report = Report {
        shardpack_report: VERSION,
        subject: Subject::Sources,
        content,
        source: bench.options.source.clone(),
        whole: Whole {
            samples: listing.samples.len() as u64,
            source_bytes: listing.source_bytes(),
            classes: listing.classes.clone(),
            recipe: None,
        },
        samples,
        candidates,
        verdict: Verdict::default(),
        gallery: Vec::new(),
        cubes: Vec::new(),
        metrics: Vec::new(),
        unreadable,
        notes,
        provenance: Provenance {
            command: bench.options.command.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: bench.options.seed,
            strata: draw.over,
            strata_count: draw.strata.len() as u64,
            drawn,
            of: draw.len(),
            confidence: 0.95,
            machine: machine(bench.options.threads),
            device: bench.options.device.as_ref().map(|device| Device { name: device.name().to_owned() }),
            date: today(),
            wall_s: 0.0,
            scoring_s,
            peak_rss_bytes: None,
            interrupted,
            not_measured: not_measured(content, interrupted.is_some(), bench.options),
        },
    };
    conclude(&mut report, &want, want_given);
    if let Some(chosen) = report.verdict.chosen.and_then(|chosen| bench.plans.get(chosen))
        && !bench.options.pack_command.is_empty()
    {
        let skip = if report.unreadable.is_empty() { "" } else { " --on-bad-input skip" };
        let options: Vec<String> = chosen.arguments().iter().map(|argument| quoted(argument)).collect();
        report.verdict.command =
            format!("{} {}{skip}", bench.options.pack_command, options.join(" ")).trim_end().to_owned();
    }
    (bench.hooks.on_progress)(1, 1, "drawing");
    panels::add(&mut report, bench, &whole);
    gallery::add(&mut report, bench, &whole);
    let positions: Vec<usize> = whole.iter().map(|one| one.position).collect();
    datasets::add(&mut report, bench, &positions)?;
    report.provenance.peak_rss_bytes = Some(peak_rss_bytes()).filter(|&bytes| bytes > 0);
    report.provenance.wall_s = opened.start.elapsed().as_secs_f64();
    Ok(report)
}

fn candidate(
    bench: &Bench<'_>,
    draw: &Draw,
    whole: &[Sampled],
    number: usize,
    rates: shardpack_report::data::Rates,
) -> Candidate {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let (mut encode_s, mut exact) = (0.0, true);
    for (sample, sampled) in whole.iter().enumerate() {
        match sampled.outcomes.get(number) {
            Some(Outcome::Stored(stored)) => {
                encode_s += stored.encode_s;
                exact &= stored.measured.exact;
                rows.push(Row { sample, bytes: stored.bytes, scores: stored.measured.scores.clone() });
            }
            Some(Outcome::Failed(reason)) => failures.push(Failure { sample, reason: reason.clone() }),
            None => {}
        }
    }
    let mut made = Candidate { number: u32::try_from(number + 1).unwrap_or(u32::MAX), rates, ..Candidate::default() };
    if let Some(plan) = bench.plans.get(number) {
        made.name.clone_from(&plan.name);
        made.group.clone_from(&plan.group);
        let own = plan.own.iter().map(|(name, value)| (dashed(name), value.to_string()));
        made.options = own.collect::<BTreeMap<_, _>>();
        made.arguments = plan.arguments();
    }
    match bench.prepared.get(number) {
        Some(Ok(maker)) => {
            if let Some(encoder) = maker.encoder() {
                made.predictions.bytes =
                    records(bench, draw, whole, number).map(|found| with_shards(found, encoder, bench, number));
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
    let (count, all) = (rows.len() as f64, bench.listing.samples.len() as f64);
    made.lossless = !rows.is_empty() && exact && failures.is_empty();
    let is_made = matches!(bench.prepared.get(number), Some(Ok(Maker::Encoder(_))));
    if encode_s > 0.0 && is_made {
        made.rates.encode_one_core_per_s = Some(count / encode_s);
        #[allow(clippy::cast_precision_loss, reason = "a number of threads")]
        let threads = bench.options.threads as f64;
        made.predictions.pack_s = Some(encode_s / count * all / threads);
    }
    made.predictions.load_per_s = made.rates.decode_all_cores_per_s;
    made.predictions.epoch_s = made.predictions.load_per_s.map(|rate| all / rate);
    made.rows = rows;
    made.failures = failures;
    made
}

/// Adds what stands beside the records in shards. It is known but for some padding.
fn with_shards(found: Estimate, encoder: &SampleEncoder<'_>, bench: &Bench<'_>, number: usize) -> Estimate {
    #[allow(clippy::cast_precision_loss, reason = "sizes for an estimate")]
    let (beside, shard) = (
        encoder.beside_bytes() as f64,
        bench.plans.get(number).map_or(1 << 30, |plan| plan.options.shard_bytes) as f64,
    );
    let more_shards = (found.value / shard).floor();
    let slack = PADDING * (1.0 + more_shards);
    let value = found.value + beside + more_shards * PADDING / 2.0;
    Estimate { value, low: found.low + beside - slack, high: found.high + beside + more_shards * PADDING / 2.0 + slack }
}

/// Bytes of a shard that are not known before it is written: padding of the sections of its index,
/// and its copy of the recipe.
const PADDING: f64 = 4096.0;

fn sample_of(entry: &SourceSample) -> Sample {
    let shape = match &entry.content {
        SampleContent::Picture(picture) => vec![u64::from(picture.height), u64::from(picture.width)],
        SampleContent::Cube(info) => info.shape.to_vec(),
    };
    Sample { key: entry.key.clone(), class: entry.class, source_bytes: entry.source_bytes(), shape }
}

/// A number with two digits that is not above `value`, as it is typed: `0.0012`.
#[must_use]
pub fn two_digits(value: f64) -> f64 {
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return value };
    let kept: String = digits.chars().take("1.2".len()).collect();
    format!("{kept}e{exponent}").parse().unwrap_or(value)
}

fn unscored_note(whole: &[Sampled], listing: &shardpack_sources::Listing) -> Option<String> {
    let unscored = |one: &Sampled| {
        one.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Stored(stored) => stored.measured.unscored.clone(),
            Outcome::Failed(_) => None,
        })
    };
    let mut all = whole.iter().filter_map(|one| Some((one.position, unscored(one)?)));
    let (position, reason) = all.next()?;
    let count = all.count() + 1;
    let key = listing.samples.get(position).map_or("", |entry| entry.key.as_str());
    let samples = shardpack_sources::words::plural(count as u64, "sample");
    Some(format!("{samples} could not be scored under some candidates (first: `{}`: {reason})", key.escape_debug()))
}

fn not_measured(content: Content, interrupted: bool, options: &ReportOptions) -> Vec<String> {
    let mut all = vec!["The disk: rates are from memory into memory, and a slow disk lowers them.".to_owned()];
    if options.device.is_none() {
        all.push("A device: decode rates are those of this machine's cores.".to_owned());
    }
    if options.metrics.is_empty() {
        let option = Setting::named("metric").spelled(options.voice);
        let own = format!(
            "What your model makes of it: `{option}` trains it on each candidate, and on the original with several \
             seeds."
        );
        all.insert(0, own);
    }
    if content == Content::Pictures {
        all.push(
            "Pictures that are resized are scored against their source shrunk without loss: what shrinking \
             itself costs is not in the score."
                .to_owned(),
        );
    }
    if interrupted {
        all.push("Decode rates, because the run was interrupted.".to_owned());
    }
    all
}

pub(super) fn machine(threads: usize) -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let system = rustix::system::uname();
    let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        processor: processor.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
        threads: threads as u64,
        system: format!("{} {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy()),
    }
}

/// Today's date in UTC.
pub(super) fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    date_of(since.as_secs() / 86_400)
}

/// The date so many days after 1970-01-01 (Howard Hinnant, *chrono-compatible low-level date
/// algorithms*).
fn date_of(days: u64) -> String {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// An argument as a shell takes it.
#[must_use]
pub fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_quotes() {
        assert_eq!((date_of(0).as_str(), date_of(20_779).as_str()), ("1970-01-01", "2026-11-22"));
        assert_eq!(date_of(19_782), "2024-02-29");
        assert_eq!(quoted("--quality=80"), "--quality=80");
        assert_eq!(quoted("my dog's/a"), r"'my dog'\''s/a'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn noise_is_typed_with_two_digits() {
        assert_eq!(two_digits(0.001_234), 0.0012);
        assert_eq!(two_digits(1_234.0), 1200.0);
        assert_eq!((two_digits(0.001_26), two_digits(9.97), two_digits(0.5)), (0.0012, 9.9, 0.5));
    }
}

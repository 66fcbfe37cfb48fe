//! `shardpack verify`: checks every byte, and names the damaged samples.

use super::args::VerifyArgs;
use super::progress::Bar;
use super::{Outcome, interrupt, read_limits, show, sniff, units};
use crate::place::{self, Settings};
use serde_json::{Value, json};
use shardpack_format::{Error as FormatError, Hint, Limits, Manifest, Voice, told};
use shardpack_jpeg::PictureCheck;
use shardpack_pack::pack::Tally;
use shardpack_pack::salvage::tally_of;
use shardpack_reader::{OnProgress, Problem, Progress, Shard, VerifyOptions, VerifyReport};
use shardpack_writer::Tally as _;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// How many problems the text lists; `--json` has them all.
const SHOWN: usize = 50;

/// What [`check`] found.
#[derive(Debug)]
pub struct Checked {
    /// Every problem.
    pub report: VerifyReport,
    /// Pictures that are unchanged since they were packed, but do not decode.
    pub undecodable_pictures: u64,
    /// Wall-clock time.
    pub seconds: f64,
}

/// What [`check`] looks at, and how.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Decode every field, pictures too.
    pub deep: bool,
    /// Compare the SHA-256 of every shard.
    pub digest: bool,
    /// The generation; default the newest.
    pub generation: Option<u32>,
    /// What the files may ask for.
    pub limits: Limits,
    /// Worker threads; 0 is all cores.
    pub threads: usize,
}

/// Verifies a dataset as `shardpack verify` does; with `deep`, all fields are decoded, pictures
/// too.
///
/// # Errors
/// If there is no dataset. Damage is not an error: it is in the report.
#[allow(clippy::too_many_arguments, reason = "the command and Python meet here")]
pub fn check(
    dataset: &Path,
    settings: &Settings,
    checks: &Checks,
    on_progress: &OnProgress<'_>,
    cancel: &AtomicBool,
) -> anyhow::Result<Checked> {
    let Checks { deep, digest, generation, ref limits, threads } = *checks;
    sniff::check(dataset)?;
    // Pictures are decoded only after their CRC32 was found right, so these are unchanged since
    // packing.
    let undecodable = AtomicU64::new(0);
    let decode = |media_type: &str, bytes: &[u8]| {
        check_picture(media_type, bytes, limits).map_err(|e| {
            undecodable.fetch_add(u64::from(matches!(e, FormatError::Format { .. })), Ordering::Relaxed);
            e.to_string()
        })
    };
    let tallies = Mutex::new(BTreeMap::new());
    let on_shard = |number: usize, shard: &Shard| {
        let tally = tally_of(shard);
        tallies.lock().unwrap_or_else(PoisonError::into_inner).insert(number, tally);
    };
    let options = VerifyOptions {
        limits: limits.clone(),
        generation,
        deep: deep.then_some(&decode),
        on_shard: Some(&on_shard),
        digest,
        threads,
        on_progress: Some(on_progress),
        cancel: Some(cancel),
        ..VerifyOptions::default()
    };
    let start = Instant::now();
    let mut report = place::verify(dataset, &options, settings)?;
    let tallies = tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Taken from the report: another manifest may be in its place by now.
    if !report.cancelled
        && let Some((path, manifest)) = report.manifest.take()
    {
        check_fidelity(&path.to_string_lossy(), &manifest, tallies, &mut report);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Checked { report, undecodable_pictures: undecodable.load(Ordering::Relaxed), seconds })
}

/// Figures that stand in the manifest alone: no sample holds why its picture was kept.
const NOT_STORED: [&str; 3] = ["kept_because", "profiles_dropped", "below_target"];

/// Compares the manifest's figures of fidelity with those of the samples, which stand in the
/// indexes under a CRC32 of their own.
fn check_fidelity(file: &str, manifest: &Manifest, tallies: BTreeMap<usize, Tally>, report: &mut VerifyReport) {
    if tallies.len() != manifest.shards.len() {
        report.notes.push("fidelity figures were not compared, because a shard is unreadable".into());
        return;
    }
    let mut total = Tally::default();
    tallies.into_values().for_each(|tally| total.merge(tally));
    let figures = total.fidelity();
    let mut put = |field: &str, expected: &str, found: &str| {
        report.problems.push(Problem {
            file: file.to_owned(),
            offset: None,
            record: None,
            key: None,
            kind: "format",
            what: format!("figures of fidelity of `{}`", field.escape_debug()),
            expected: expected.to_owned(),
            found: found.to_owned(),
            hint: None,
        });
    };
    for (field, expected) in &figures {
        match manifest.fidelity.get(field) {
            None => put(field, "in the manifest", "none"),
            Some(found) => {
                let empty = serde_json::Map::new();
                let [found, expected] = [found, expected].map(|all| all.as_object().unwrap_or(&empty));
                if let Some((name, value)) = expected.iter().find(|(name, value)| found.get(*name) != Some(*value)) {
                    let found = found.get(name).map_or_else(|| "none".to_owned(), Value::to_string);
                    put(field, &format!("{name} {value}, as in the samples"), &found);
                }
                let more = |name: &&String| !expected.contains_key(*name) && !NOT_STORED.contains(&name.as_str());
                if let Some(name) = found.keys().find(more) {
                    put(field, "those of the samples alone", &format!("also `{}`", name.escape_debug()));
                }
            }
        }
    }
    // What another program measured, and put nowhere else.
    let unknown = manifest.fidelity.keys().filter(|field| !figures.contains_key(*field));
    report.notes.extend(unknown.map(|field| {
        format!("fidelity figures of `{}` were not compared: the samples do not hold them", field.escape_debug())
    }));
    report.problems.sort();
}

impl Checked {
    /// The object that `verify --json` prints.
    #[must_use]
    pub fn to_json(&self, deep: bool, digest: bool) -> Value {
        let report = &self.report;
        json!({
            "whole": report.is_whole(),
            "shards": report.shards,
            "samples": report.samples,
            "damaged_samples": report.damaged_samples,
            "missing_samples": report.missing_samples,
            "undecodable_pictures": self.undecodable_pictures,
            "bytes": report.bytes,
            "seconds": self.seconds,
            "deep": deep,
            "digest": digest,
            "problems": report.problems,
            "notes": report.notes,
        })
    }
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<Outcome> {
    sniff::check(&args.dataset)?;
    let limits = read_limits(args.max_record);
    let interrupt = interrupt::install(true)?;
    let bar = OnceLock::new();
    let on_progress = |p: Progress| {
        bar.get_or_init(|| Bar::new("verify", p.bytes_total, p.samples_total)).read(p.samples_done, p.bytes_done)
    };
    let threads = args.threads.unwrap_or(0);
    let raised = &interrupt.raised;
    let settings = args.from.settings()?;
    let checks = Checks { deep: args.deep, digest: args.digest, generation: args.generation, limits, threads };
    let checked = check(&args.dataset, &settings, &checks, &on_progress, raised)?;
    if let Some(bar) = bar.get() {
        bar.finish();
    }
    let report = &checked.report;
    if args.json {
        show::json(&checked.to_json(args.deep, args.digest))?;
    } else {
        show::print(&to_text(report, args, checked.undecodable_pictures, checked.seconds))?;
    }
    Ok(match (report.cancelled, report.is_whole()) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::Problem,
    })
}

fn to_text(report: &VerifyReport, args: &VerifyArgs, undecodable: u64, seconds: f64) -> String {
    let mut out: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    for problem in report.problems.iter().take(SHOWN) {
        out += &format!("{problem}\n");
    }
    if report.problems.len() > SHOWN {
        out += &format!("… and {} more (--json lists all)\n", units::count((report.problems.len() - SHOWN) as u64));
    }
    let checked = match (args.deep, args.digest) {
        (false, false) => "every byte checked",
        (true, false) => "every byte checked and every field decoded",
        (false, true) => "every byte and every digest checked",
        (true, true) => "every byte and every digest checked, every field decoded",
    };
    let read = format!(
        "{} in {}, {} in {} ({})",
        units::plural(report.samples, "sample"),
        units::plural(report.shards, "shard"),
        units::bytes(report.bytes),
        units::seconds(seconds),
        units::rate(report.bytes, seconds)
    );
    let name = args.dataset.display();
    let mut hints: BTreeSet<Hint> = report.problems.iter().filter_map(|problem| problem.hint.clone()).collect();
    let summary = match (report.cancelled, report.problems.len() as u64) {
        (true, n) => format!("interrupted: {} so far in `{name}` ({read})", units::plural(n, "problem")),
        (false, 0) => format!("`{name}` is whole: {checked}: {read}"),
        (false, n) if n == undecodable => {
            let files = if n == 1 { "file was" } else { "files were" };
            hints.insert(format!("the source {files} already damaged; `shardpack salvage` cannot help").into());
            match n {
                1 => format!("`{name}` is undamaged, but 1 picture does not decode: {read}"),
                n => format!("`{name}` is undamaged, but {} pictures do not decode: {read}", units::count(n)),
            }
        }
        (false, n) => {
            hints.insert("`shardpack salvage` copies what is undamaged, and rebuilds a manifest; without a whole one, samples that were removed may come back".into());
            format!(
                "`{name}` is damaged: {}, {} damaged{}{}: {read}",
                units::plural(n, "problem"),
                units::plural(report.damaged_samples, "sample"),
                match report.missing_samples {
                    0 => String::new(),
                    n => format!(", {} missing", units::count(n)),
                },
                match undecodable {
                    0 => String::new(),
                    n => format!(", and {} that did not decode before packing either", units::plural(n, "picture")),
                },
            )
        }
    };
    out += &told(summary, &hints, Voice::Command);
    out + "\n"
}

/// Decodes a picture with the decoder of this thread.
fn check_picture(media_type: &str, bytes: &[u8], limits: &Limits) -> Result<(), FormatError> {
    thread_local!(static CHECK: RefCell<Option<PictureCheck>> = const { RefCell::new(None) });
    CHECK.with_borrow_mut(|slot| {
        let check = match slot {
            Some(check) => check,
            none => none.insert(PictureCheck::new()),
        };
        check.check(media_type, bytes, limits).map(|_| ())
    })
}

//! Verifies every byte, every field, and the fidelity figures.

use crate::place::{self, Settings};
use crate::sniff;
use serde_json::{Value, json};
use shardpack_format::{Error as FormatError, Limits, Manifest};
use shardpack_jpeg::PictureCheck;
use shardpack_pack::pack::FidelityTotals;
use shardpack_reader::{OnProgress, Problem, Shard, VerifyOptions, VerifyReport};
use shardpack_writer::Tally as _;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Verifies every byte of the dataset at a path or a URL, and decodes every field.
///
/// ```no_run
/// let checked = shardpack::verify("train")?;
/// assert!(checked.report.is_whole(), "{:?}", checked.report.problems);
/// # Ok::<(), shardpack::Error>(())
/// ```
///
/// # Errors
/// Fails if there is no dataset. Damage is not an error; the report lists it.
pub fn verify(dataset: impl AsRef<Path>) -> crate::Result<Checked> {
    let checks = Checks { deep: true, limits: crate::read_limits(crate::MAX_RECORD_BYTES), ..Checks::default() };
    let cancel = AtomicBool::new(false);
    check(dataset.as_ref(), &[], &checks, &|_| {}, &cancel)
}

/// The result of [`check`].
#[derive(Debug)]
pub struct Checked {
    /// Report that lists all problems.
    pub report: VerifyReport,
    /// Number of pictures that cannot be decoded although their CRC32s match.
    pub undecodable_pictures: u64,
    /// Wall-clock time of the check in seconds.
    pub seconds: f64,
}

/// Options of [`check`].
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// Decode every field, including pictures.
    pub deep: bool,
    /// Compare the SHA-256 of every shard with the manifest.
    pub digest: bool,
    /// Generation to verify. Default: the newest.
    pub generation: Option<u32>,
    /// Limits on the sizes that files may declare.
    pub limits: Limits,
    /// Number of worker threads. 0 means all cores.
    pub threads: usize,
}

/// Verifies a dataset like `shardpack verify`. With `deep`, decodes all fields, including pictures.
///
/// # Errors
/// Fails if there is no dataset. Damage is not an error; the report lists it.
pub fn check(
    dataset: &Path,
    settings: &Settings,
    checks: &Checks,
    on_progress: &OnProgress<'_>,
    cancel: &AtomicBool,
) -> crate::Result<Checked> {
    let Checks { deep, digest, generation, ref limits, threads } = *checks;
    sniff::check(dataset)?;
    // Pictures are decoded only if their CRC32 matches, so an undecodable picture has not changed since it was packed.
    let undecodable = AtomicU64::new(0);
    let decode = |media_type: &str, bytes: &[u8]| {
        check_picture(media_type, bytes, limits).map_err(|e| {
            undecodable.fetch_add(u64::from(matches!(e, FormatError::Format { .. })), Ordering::Relaxed);
            e.to_string()
        })
    };
    let tallies = Mutex::new(BTreeMap::new());
    let on_shard = |number: usize, shard: &Shard| {
        let tally = FidelityTotals::of_shard(shard);
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
    // Use the manifest from the report, because the file may have been replaced by now.
    if !report.cancelled
        && let Some((path, manifest)) = report.manifest.take()
    {
        check_fidelity(&path.to_string_lossy(), &manifest, tallies, &mut report);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Checked { report, undecodable_pictures: undecodable.load(Ordering::Relaxed), seconds })
}

/// Figures that are stored only in the manifest. For example, no sample records why its picture was kept.
const NOT_STORED: [&str; 3] = ["kept_because", "profiles_dropped", "below_target"];

/// Compares the manifest's fidelity figures with the samples' figures. The indexes contain the samples' figures.
fn check_fidelity(
    file: &str,
    manifest: &Manifest,
    tallies: BTreeMap<usize, FidelityTotals>,
    report: &mut VerifyReport,
) {
    if tallies.len() != manifest.shards.len() {
        report.notes.push("the fidelity figures were not checked, because a shard cannot be read".into());
        return;
    }
    let mut total = FidelityTotals::default();
    tallies.into_values().for_each(|tally| total.merge(tally));
    let figures = total.fidelity();
    let mut put = |what: &str, expected: &str, found: &str| {
        report.problems.push(Problem {
            file: file.to_owned(),
            offset: None,
            record: None,
            key: None,
            kind: "format",
            what: what.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
            text: None,
            hint: None,
        });
    };
    for (field, expected) in &figures {
        match manifest.fidelity.get(field) {
            None => put(&format!("the manifest has no fidelity figures of `{}`", field.escape_debug()), "", ""),
            Some(found) => {
                let empty = serde_json::Map::new();
                let [found, expected] = [found, expected].map(|all| all.as_object().unwrap_or(&empty));
                if let Some((name, value)) = expected.iter().find(|(name, value)| found.get(*name) != Some(*value)) {
                    let found = found.get(name).map_or_else(|| "none".to_owned(), Value::to_string);
                    let what = format!("{name} in the fidelity figures of `{}`", field.escape_debug());
                    put(&what, &format!("{value} (from the samples)"), &found);
                }
                let more = |name: &&String| !expected.contains_key(*name) && !NOT_STORED.contains(&name.as_str());
                if let Some(name) = found.keys().find(more) {
                    let (name, field) = (name.escape_debug(), field.escape_debug());
                    put(&format!("the samples have no figure `{name}`, which the manifest has for `{field}`"), "", "");
                }
            }
        }
    }
    // Another program measured these figures and stored them only in the manifest.
    let unknown = manifest.fidelity.keys().filter(|field| !figures.contains_key(*field));
    report.notes.extend(unknown.map(|field| {
        format!(
            "the fidelity figures of `{}` were not checked, because the samples do not have them",
            field.escape_debug()
        )
    }));
    report.problems.sort();
}

impl Checked {
    /// Returns the JSON object printed by `verify --json`.
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

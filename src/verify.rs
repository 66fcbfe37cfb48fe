//! Verifying: every byte, every field, and the figures of fidelity.

use crate::place::{self, Settings};
use crate::sniff;
use serde_json::{Value, json};
use shardpack_format::{Error as FormatError, Limits, Manifest};
use shardpack_jpeg::PictureCheck;
use shardpack_pack::pack::Tally;
use shardpack_pack::salvage::tally_of;
use shardpack_reader::{OnProgress, Problem, Shard, VerifyOptions, VerifyReport};
use shardpack_writer::Tally as _;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Verifies a dataset, at a path or a URL: every byte, and every field decoded.
///
/// ```no_run
/// let checked = shardpack::verify("train")?;
/// assert!(checked.report.is_whole(), "{:?}", checked.report.problems);
/// # Ok::<(), shardpack::Error>(())
/// ```
///
/// # Errors
/// If there is no dataset. Damage is not an error: it is in the report.
pub fn verify(dataset: impl AsRef<Path>) -> crate::Result<Checked> {
    let checks = Checks { deep: true, limits: crate::read_limits(crate::MAX_RECORD_BYTES), ..Checks::default() };
    let cancel = AtomicBool::new(false);
    check(dataset.as_ref(), &[], &checks, &|_| {}, &cancel)
}

/// The findings of [`check`].
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
pub fn check(
    dataset: &Path,
    settings: &Settings,
    checks: &Checks,
    on_progress: &OnProgress<'_>,
    cancel: &AtomicBool,
) -> crate::Result<Checked> {
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

//! Runs a plan: examines the folder, continues where an earlier run stopped, and writes the manifest at the end.

use crate::commit::Done;
use crate::error::{Error, Result};
use crate::folder::{Survey, refuse_damaged_shards};
use crate::gate::StopReason;
use crate::journal::{Journal, JournalEntry};
use crate::lock::RunLock;
use crate::names::{journal_name, shard_count};
use crate::options::WriteOptions;
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::plan::Plan;
use crate::prepare::{Prepared, prepare};
use crate::report::{Outcome, Progress, Report};
use crate::source::{SampleSource, Tally};
use crate::target::Target;
use shardpack_format::{DatasetId, MANIFEST_NAME, Manifest, Metadata};
use shardpack_io::Holder;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

/// Writes the dataset of `plan` to the folder `out`, which is created if needed, or to a [`Bucket`](crate::Bucket).
///
/// A second call with the same plan continues where the first one stopped. If nothing is left to do, it returns
/// [`Outcome::AlreadyComplete`]. A complete part stays unchanged until [`merge`](crate::merge()) finishes the dataset.
///
/// # Errors
/// - `Usage` if the folder contains a different dataset, an unfinished dataset of a different plan, or other files. The
///   folder is then left unchanged.
/// - `Locked` if another packer is running there.
/// - `Source` if a sample fails; `Cancelled`; `Io`; `NoSpace`. Finished shards are then kept, temporary files are
///   removed, and the next call continues. If a shard cannot be synced, it is written once more before the run fails.
/// - `Damaged` if the folder contains a complete dataset that is damaged.
///
/// ```
/// use shardpack_format::{Field, FieldKind, Frame, Metadata, RecordBuilder, Schema, StoredField};
/// use shardpack_writer::{Encoded, EncodedSample, Outcome, Plan, PlanSample};
/// use shardpack_writer::{SampleSource, WriteOptions, write_dataset};
/// use std::borrow::Cow;
///
/// struct Texts(Schema);
///
/// impl SampleSource for Texts {
///     type Tally = ();
///     type Error = shardpack_format::Error;
///     fn key(&self, sample: u64) -> Cow<'_, str> {
///         format!("{sample}.txt").into()
///     }
///     fn memory_bytes(&self, _: u64) -> u64 {
///         256
///     }
///     fn encode(&self, sample: u64, shard: u32, buffer: Vec<u8>) -> Result<Encoded<()>, Self::Error> {
///         let field = Some(StoredField::raw(2));
///         let mut builder = RecordBuilder::new(buffer, &self.0, shard, sample, &self.key(sample), &[], &[field])?;
///         builder.field_mut(0).copy_from_slice(b"hi");
///         let (record, frame) = builder.finish();
///         Ok(Encoded::Record(EncodedSample { record, frame, scalars: Vec::new(), source_bytes: 2, tally: () }))
///     }
/// }
///
/// let schema = Schema::new(vec![Field::stored("text", FieldKind::Text)])?;
/// let keys = ["0.txt", "1.txt"];
/// let samples = keys.iter().map(|key| PlanSample { key, source_bytes: 2, stored_bytes: 192, ..Default::default() });
/// let plan = Plan::new(samples, Metadata { schema: schema.clone(), ..Default::default() }, Default::default())?;
/// let folder = tempfile::tempdir()?;
/// let report = write_dataset(folder.path(), &plan, &Texts(schema), &WriteOptions::default())?;
/// assert_eq!((report.outcome, report.samples), (Outcome::Complete, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_dataset<S: SampleSource>(
    out: impl Into<Output>,
    plan: &Plan,
    source: &S,
    options: &WriteOptions<'_>,
) -> Result<Report> {
    let out = out.into();
    write_dataset_on(&out.target(), plan, source, options)
}

pub(crate) fn write_dataset_on<S: SampleSource>(
    target: &Target<'_>,
    plan: &Plan,
    source: &S,
    options: &WriteOptions<'_>,
) -> Result<Report> {
    options.check()?;
    target.create()?;
    let lock = RunLock::take(target, options.part, &Holder::this_process())?;
    write_locked(target, plan, source, options, &lock)
}

/// Same as [`write_dataset`], for a caller that already holds the folder's lock.
pub(crate) fn write_locked<S: SampleSource>(
    target: &Target<'_>,
    plan: &Plan,
    source: &S,
    options: &WriteOptions<'_>,
    lock: &RunLock,
) -> Result<Report> {
    let report = write_prepared(target, plan, source, options)?;
    Ok(Report { notes: weaknesses(target, lock), ..report })
}

/// Describes the guarantees that the file system cannot provide, and the consequences for the user.
pub(crate) fn weaknesses(target: &Target<'_>, lock: &RunLock) -> Vec<String> {
    let mut notes = Vec::new();
    if lock.is_by_name() {
        notes.push(format!(
            "the file system of `{}` has no locks: if a run on another machine is killed, delete the lock \
             file that it leaves behind",
            target.path().display()
        ));
    }
    if !target.syncs_folders() {
        notes.push(format!(
            "the file system of `{}` cannot sync folders: after a power failure, files may be missing; check with \
             `shardpack verify`",
            target.path().display()
        ));
    }
    notes
}

fn write_prepared<S: SampleSource>(
    target: &Target<'_>,
    plan: &Plan,
    source: &S,
    options: &WriteOptions<'_>,
) -> Result<Report> {
    let started = Instant::now();
    let journal = match prepare(target, plan, options)? {
        Prepared::Complete(manifest) => return already_complete(target, &manifest, started),
        Prepared::Begin(journal) => journal,
    };
    let metadata = plan.metadata().encode()?;
    let pipeline = Pipeline { target, plan, metadata: &metadata, source, options };
    let shards = options.part.map_or(0..plan.shard_count(), |part| part.shards(plan.shard_count()));
    let reused = Figures::of(&journal.entries);
    let entries = run_all(&pipeline, shards.collect(), journal, reused)?;
    let fidelity;
    let outcome = if options.part.is_some() {
        fidelity = total::<S::Tally>(target.path(), &entries)?.report();
        target.publish(&journal_name(options.part))?;
        Outcome::PartComplete
    } else {
        fidelity = end_dataset::<S::Tally>(target, plan.dataset_id(), plan.metadata(), &entries)?;
        target.remove_journal(&journal_name(None))?;
        Outcome::Complete
    };
    Ok(report(outcome, plan.dataset_id(), &entries, reused, fidelity, started))
}

/// Writes all missing shards. If a shard could not be synced, it is written again from its sources, because its state
/// on disk is unknown.
pub(crate) fn run_all<S: SampleSource>(
    pipeline: &Pipeline<'_, S>,
    shards: Vec<u32>,
    mut journal: Journal,
    reused: Figures,
) -> Result<BTreeMap<u32, JournalEntry>> {
    let mut tried_again = BTreeSet::new();
    loop {
        let todo: Vec<u32> = shards.iter().copied().filter(|n| !journal.entries.contains_key(n)).collect();
        let no_space = |error: Error, entries: &BTreeMap<u32, JournalEntry>| {
            let missing = todo.iter().filter(|n| !entries.contains_key(n)).map(|&n| pipeline.plan.stored_bytes(n));
            // For a dataset in a store, at most three shards are on the disk at a time.
            let missing: u64 = if pipeline.target.is_store() { missing.take(3).sum() } else { missing.sum() };
            error.with_space(missing, || pipeline.target.free_bytes())
        };
        let open = journal.begin(pipeline.target).map_err(|e| no_space(e, &journal.entries))?;
        let progress = progress(pipeline.plan, &shards, &journal.entries, reused);
        let done = Done::new(std::mem::take(&mut journal.entries));
        let result = pipeline.shards(&todo, &open, &done, progress);
        journal.entries = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        // If the disk was full, some finished shards may be missing from the journal. The temporary file has been
        // removed, so there is now room for their lines.
        let not_noted = open.not_noted();
        let is_noted = not_noted.is_empty();
        journal.entries.extend(not_noted.into_iter().map(|entry| (entry.number, entry)));
        let error = match result {
            Ok(()) => return Ok(journal.entries),
            Err(StopReason::Sync { shard, .. }) if tried_again.insert(shard) => continue,
            Err(StopReason::Sync { error, .. } | StopReason::Fatal(error)) => error,
        };
        if !is_noted {
            // Ignore an error here, because the first one is reported. The next run packs these shards again.
            let _ = journal.begin(pipeline.target);
        }
        return Err(no_space(error, &journal.entries));
    }
}

pub(crate) fn progress(
    plan: &Plan,
    shards: &[u32],
    entries: &BTreeMap<u32, JournalEntry>,
    reused: Figures,
) -> Progress {
    let done = Figures::of(entries);
    Progress {
        samples: done.samples + done.skipped,
        samples_total: shards.iter().map(|&n| plan.samples(n).len() as u64).sum(),
        samples_reused: reused.samples + reused.skipped,
        skipped: done.skipped,
        bytes_in: done.bytes_in,
        bytes_in_reused: reused.bytes_in,
        bytes_in_total: shards.iter().map(|&n| plan.source_bytes(n)).sum(),
        bytes_out: entries.values().map(|e| e.file.bytes).sum(),
        shards: done.shards,
        shards_total: shard_count(shards.len()),
        bytes_sent: 0,
        bytes_to_send: 0,
    }
}

/// Totals over all finished shards, including shards from an earlier run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    shards: u32,
    samples: u64,
    skipped: u64,
    bytes_in: u64,
}

impl Figures {
    pub(crate) fn of(entries: &BTreeMap<u32, JournalEntry>) -> Self {
        Self {
            shards: shard_count(entries.len()),
            samples: entries.values().map(|e| e.file.samples).sum(),
            skipped: entries.values().map(|e| e.skipped.len() as u64).sum(),
            bytes_in: entries.values().map(|e| e.source_bytes).sum(),
        }
    }
}

/// Checks each shard of a complete dataset and removes the remains of a run that was interrupted at its end.
pub(crate) fn already_complete(target: &Target<'_>, manifest: &Manifest, started: Instant) -> Result<Report> {
    refuse_damaged_shards(target, manifest.dataset_id, &manifest.files().collect::<Vec<_>>())?;
    let survey = Survey::take(target)?;
    survey.remove_temporaries(target)?;
    survey.remove_journals(target)?;
    // A run that stopped right after writing the manifest leaves its journals behind. They contain statistics that
    // the manifest lacks.
    let id = manifest.dataset_id.to_string();
    let journals = survey.journals.into_values().flatten().filter(|journal| journal.head.dataset_id == id);
    let entries: BTreeMap<u32, JournalEntry> = journals.flat_map(|journal| journal.entries).collect();
    if entries.values().map(|entry| &entry.file).eq(&manifest.shards) {
        let (reused, fidelity) = (Figures::of(&entries), manifest.fidelity.clone());
        return Ok(report(Outcome::AlreadyComplete, manifest.dataset_id, &entries, reused, fidelity, started));
    }
    Ok(Report {
        outcome: Outcome::AlreadyComplete,
        dataset_id: manifest.dataset_id,
        samples: manifest.samples,
        samples_reused: manifest.samples,
        bytes_in: None,
        bytes_in_reused: None,
        bytes_out: manifest.shards.iter().map(|s| s.bytes).sum(),
        shards: shard_count(manifest.shards.len()),
        shards_reused: shard_count(manifest.shards.len()),
        skipped: Vec::new(),
        notes: Vec::new(),
        fidelity: manifest.fidelity.clone(),
        elapsed: started.elapsed(),
    })
}

pub(crate) fn total<T: Tally>(out: &Path, entries: &BTreeMap<u32, JournalEntry>) -> Result<T> {
    let mut total = T::default();
    for entry in entries.values() {
        total.merge(tally_of(out, entry)?);
    }
    Ok(total)
}

pub(crate) fn tally_of<T: Tally>(out: &Path, entry: &JournalEntry) -> Result<T> {
    T::deserialize(&entry.tally).map_err(|e| {
        Error::usage(
            format!(
                "cannot read the statistics of shard {} from the journal in `{}`: {e}",
                entry.number,
                out.display()
            ),
            "statistics must not contain NaN or infinity: the journal stores them as null",
        )
    })
}

/// Writes the manifest, which turns the shards into a dataset.
pub(crate) fn end_dataset<T: Tally>(
    target: &Target<'_>,
    id: DatasetId,
    metadata: &Metadata,
    entries: &BTreeMap<u32, JournalEntry>,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let mut manifest = Manifest::new(id, metadata.clone());
    let total = total::<T>(target.path(), entries)?;
    manifest.fidelity = total.fidelity();
    entries.values().for_each(|entry| manifest.push(entry.file.clone()));
    target.replace(MANIFEST_NAME, &manifest.encode()?)?;
    Ok(total.report())
}

pub(crate) fn report(
    outcome: Outcome,
    dataset_id: DatasetId,
    entries: &BTreeMap<u32, JournalEntry>,
    reused: Figures,
    fidelity: serde_json::Map<String, serde_json::Value>,
    started: Instant,
) -> Report {
    let all = Figures::of(entries);
    Report {
        outcome,
        dataset_id,
        samples: all.samples,
        samples_reused: reused.samples,
        bytes_in: Some(all.bytes_in),
        bytes_in_reused: Some(reused.bytes_in),
        bytes_out: entries.values().map(|e| e.file.bytes).sum(),
        shards: all.shards,
        shards_reused: reused.shards,
        skipped: entries.values().flat_map(|e| e.skipped.iter().cloned()).collect(),
        notes: Vec::new(),
        fidelity,
        elapsed: started.elapsed(),
    }
}

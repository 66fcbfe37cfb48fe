//! Adds samples to a dataset, or removes samples, as a new generation. Existing bytes do not change.
//!
//! The new shards are written with a journal, like any dataset, to a subfolder of the dataset. Writing the next
//! manifest there commits the generation. After that, the shards are moved next to the existing ones, the old manifest
//! is renamed after its generation, and the new manifest takes its place (spec §3.5). Every step can be repeated, so
//! the run after an interruption completes the missing steps.

use crate::error::{Error, Result};
use crate::folder::{Survey, refuse_damaged_shards, remove_next};
use crate::journal::{JournalEntry, JournalHead};
use crate::lock::RunLock;
use crate::names::{BASE_NAME, MANIFEST_TEMPORARY, NEXT};
use crate::options::WriteOptions;
use crate::output::Output;
use crate::pipeline::{PATIENCE, Pipeline};
use crate::plan::Plan;
use crate::prepare::{Prepared, prepare_or};
use crate::report::{Outcome, Progress, Report};
use crate::source::{SampleSource, Tally};
use crate::target::Target;
use crate::write::{Figures, already_complete, progress, report, run_all, tally_of, weaknesses};
use crossbeam_channel::{RecvTimeoutError, bounded};
use serde_json::{Map, Value};
use shardpack_format::{
    FOOTER_BYTES, HEADER_BYTES, Hint, Identity, Limits, MANIFEST_NAME, Manifest, Setting, generation_name,
    generation_of_name, generation_of_shard_name, shard_name, shard_name_of, to_usize, visible_path,
};
use shardpack_io::Holder;
use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// A dataset that is about to get its next generation. Holds the lock of the folder.
///
/// ```
/// use shardpack_writer::Growth;
/// let folder = tempfile::tempdir()?;
/// let error = Growth::take(folder.path()).unwrap_err().to_string();
/// assert!(error.contains("is not a dataset"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growth<'a> {
    pub(crate) target: Target<'a>,
    lock: RunLock,
    pub(crate) manifest: Manifest,
    /// The bytes of the manifest, as they were read.
    bytes: Vec<u8>,
    /// The generation that [`write`](Self::write) has prepared. If it could not be put in place, the next call to
    /// `write` tries again.
    ready: Mutex<Option<Ready>>,
}

/// A generation that can be put in place.
struct Ready {
    head: JournalHead,
    report: Report,
    /// Progress of the run, before any shard is sent to a store.
    progress: Progress,
}

impl std::fmt::Debug for Growth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Growth").field("out", &self.target.path()).finish_non_exhaustive()
    }
}

/// Statistics of the existing dataset that [`Growth::write`] needs for the manifest of a new generation.
pub struct Next<'a, T> {
    /// Statistics of the unchanged shards, by shard number.
    pub kept: BTreeMap<u32, T>,
    /// Computes the statistics of all samples, as stored in the manifest.
    pub fidelity: &'a dyn Fn(&T) -> Map<String, Value>,
}

impl<T> std::fmt::Debug for Next<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

impl Growth<'static> {
    /// Opens the dataset in the folder `out`, or in a [`Bucket`](crate::Bucket). First puts in place any generation
    /// that an interrupted run has left ready.
    ///
    /// # Errors
    /// `Usage` if there is no dataset, or the remains of an interrupted run belong to another one; `Locked` if another
    /// program is writing to it; `Damaged` if its manifest is damaged; `Io`.
    pub fn take(out: impl Into<Output>) -> Result<Self> {
        Self::take_on(out.into().target())
    }
}

impl<'a> Growth<'a> {
    pub(crate) fn take_on(target: Target<'a>) -> Result<Self> {
        // Check this before locking, so that a mistyped path does not get a lock file.
        let names = target.names_if_there()?;
        if !names.iter().any(|name| name == MANIFEST_NAME) {
            let newest = names.iter().filter_map(|name| generation_of_name(name)).max().map(generation_name);
            let hint = newest.map_or_else(
                || "create a dataset with `shardpack pack`".to_owned(),
                |newest| format!("copy `{newest}` to {MANIFEST_NAME} to restore that generation"),
            );
            let text = format!("`{}` is not a dataset: it has no {MANIFEST_NAME}", target.path().display());
            return Err(Error::usage(text, hint));
        }
        let lock = RunLock::take(&target, None, &Holder::this_process())?;
        if is_outdated(&target)? {
            remove_next(&target)?;
        }
        settle(&target)?;
        let (mut manifest, bytes) = read_manifest(&target, MANIFEST_NAME)?;
        // A field named like a segment index may be an ordinary field. The headers of the shards show which it is.
        if manifest.schema.optional_features() != 0
            && let Some(first) = manifest.shards.first()
            && let Ok(ends) = target.read_ends(&first.name, HEADER_BYTES, FOOTER_BYTES)
            && let Ok(identity) = Identity::parse_header(&ends.head)
        {
            manifest.schema = manifest.schema.with_features(identity.optional_features);
        }
        Ok(Self { target, lock, manifest, bytes, ready: Mutex::default() })
    }

    /// Returns the manifest of the newest generation.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks the newest generation and returns a report on it.
    ///
    /// # Errors
    /// `Damaged` if a shard is missing or differs from the manifest; `Io`.
    pub fn unchanged(&self) -> Result<Report> {
        already_complete(&self.target, &self.manifest, Instant::now())
    }

    /// Returns the number of the next generation. No earlier generation has had this number.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed.
    pub fn next_generation(&self) -> Result<u32> {
        let names = self.target.names()?;
        // A run that lost its spool may have left shards in a store. No object is replaced, so their names, which
        // contain the generation, are not used again.
        let of_shard = |name: &str| generation_of_shard_name(name).filter(|_| self.target.is_store());
        let newest = names.iter().filter_map(|name| generation_of_name(name).or_else(|| of_shard(name))).max();
        let newest = newest.unwrap_or(1).max(self.manifest.generation());
        newest.checked_add(1).ok_or_else(|| Error::Limit {
            what: "generations".into(),
            limit: u64::from(u32::MAX),
            found: u64::from(newest) + 1,
            hint: "".into(),
        })
    }

    /// Writes the shards of `plan` (from [`Plan::behind`] or [`Plan::anew`]) or its columns files (from
    /// [`Plan::columns`]) as the next generation. An interrupted run leaves the dataset unchanged. Call this again with
    /// the same plan to continue that run, or to put the generation in place if all files were written.
    ///
    /// # Errors
    /// Same as [`write_dataset`](crate::write_dataset). Also `Usage` if an earlier call with a different plan has put
    /// a generation in place, because this plan was made for the generation before it.
    pub fn write<S: SampleSource>(
        &self,
        plan: &Plan,
        source: &S,
        next: Next<'_, S::Tally>,
        options: &WriteOptions<'_>,
    ) -> Result<Report> {
        let started = Instant::now();
        options.check()?;
        if options.part.is_some() {
            return Err(Error::usage("a generation cannot be written in parts: `part` must be `None`", ""));
        }
        if plan.metadata().schema != self.manifest.schema && !next.kept.is_empty() {
            let what = "a generation with a different schema must replace all shards, but some shards are kept";
            return Err(Error::usage(what, ""));
        }
        self.refuse_loss_of_columns(plan)?;
        let folder = self.target.below(NEXT);
        let head = JournalHead::new(plan, None);
        if let Some(report) = self.end(&head, options)? {
            return Ok(report);
        }
        let generation = self.next_generation()?;
        refuse_foreign(&self.target, &self.manifest)?;
        folder.create()?;
        let or_base = if self.target.is_store() { ", or the dataset has changed since" } else { "" };
        let prepared = prepare_or(&folder, plan, options, |_| {
            let what =
                format!("{}, but that run had different options or source files{}", interrupted(&self.target), or_base);
            let hint = Hint::new("repeat the interrupted command to continue, or run this one with ")
                .and([Setting::on("force")]);
            Error::usage(what, hint.then(" to discard the unfinished files"))
        });
        let journal = match prepared? {
            Prepared::Begin(journal) => journal,
            Prepared::Complete(_) => return Err(changed(&self.target)),
        };
        let metadata = plan.metadata().encode()?;
        let pipeline = Pipeline { target: &folder, plan, metadata: &metadata, source, options };
        let reused = Figures::of(&journal.entries);
        let numbers: Vec<u32> = plan.numbers().collect();
        let entries = run_all(&pipeline, numbers.clone(), journal, reused)?;
        let progress = progress(plan, &numbers, &entries, reused);
        let manifest = match plan.is_columns {
            true => self.manifest_with_columns(generation, plan, &entries)?,
            false => self.manifest_of(generation, plan, &entries, next)?,
        };
        let encoded = manifest.encode()?;
        let report = report(Outcome::Complete, plan.dataset_id(), &entries, reused, manifest.fidelity, started);
        // Remember the generation before writing its manifest. If the write fails, the manifest may
        // or may not exist.
        *self.ready() = Some(Ready { head, report: report.clone(), progress });
        if self.target.is_store() {
            folder.replace_scratch(BASE_NAME, MANIFEST_TEMPORARY, &self.bytes)?;
        }
        folder.replace(MANIFEST_NAME, &encoded)?;
        self.settle(progress, options)?;
        Ok(self.noted(report))
    }

    /// Puts the generation in place. Reports progress while the shards are sent to a store.
    fn settle(&self, progress: Progress, options: &WriteOptions<'_>) -> Result<()> {
        let settled = match options.on_progress {
            Some(on_progress) if self.target.is_store() => {
                settle_with(&self.target, &|| on_progress(&progress.with(&self.target.uploads)))
            }
            _ => settle(&self.target),
        };
        settled.map_err(|error| match error {
            // The cancellation aborted the uploads, and this error is only the consequence.
            Error::Io { .. } if self.target.is_store() && options.is_cancelled() => Error::Cancelled,
            other => other,
        })
    }

    fn end(&self, head: &JournalHead, options: &WriteOptions<'_>) -> Result<Option<Report>> {
        let ready = self.ready();
        let Some(Ready { head: written, report, progress }) = &*ready else { return Ok(None) };
        self.settle(*progress, options)?;
        let (now, _) = read_manifest(&self.target, MANIFEST_NAME)?;
        // `settle` would have put a complete generation in place, so there was none.
        if now.generation() == self.manifest.generation() {
            return Ok(None);
        }
        if head.difference_on_resume(written).is_some() {
            let what = format!(
                "`{}` already contains the samples of an earlier attempt, as generation {}",
                self.target.path().display(),
                now.generation()
            );
            return Err(Error::usage(what, "add the remaining samples in a new run"));
        }
        Ok(Some(self.noted(report.clone())))
    }

    fn ready(&self) -> MutexGuard<'_, Option<Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self, report: Report) -> Report {
        Report { notes: weaknesses(&self.target, &self.lock), ..report }
    }

    fn manifest_of<T: Tally>(
        &self,
        generation: u32,
        plan: &Plan,
        entries: &BTreeMap<u32, JournalEntry>,
        mut next: Next<'_, T>,
    ) -> Result<Manifest> {
        let taken: HashSet<String> = self.target.names()?.into_iter().collect();
        let mut manifest = self.manifest.following(generation, plan.metadata());
        let mut total = T::default();
        let count = plan.metadata().shards.unwrap_or(0);
        for number in 0..count {
            let place = to_usize(number);
            match (entries.get(&number), self.manifest.shards.get(place), next.kept.remove(&number)) {
                (Some(entry), ..) => {
                    let mut file = entry.file.clone();
                    // The name of a rewritten shard includes the generation, even if the old name is free. Otherwise a
                    // reader that has the old shard open could mistake the new one for it.
                    if place < self.manifest.shards.len() || taken.contains(&file.name) {
                        file.name = shard_name_of(number, generation);
                    }
                    if taken.contains(&file.name) {
                        return Err(self.name_is_taken(&file.name, "shard"));
                    }
                    total.merge(tally_of(self.target.path(), entry)?);
                    manifest.push(file);
                }
                (None, Some(file), Some(tally)) => {
                    total.merge(tally);
                    manifest.push(file.clone());
                }
                _ => {
                    let what = format!("shard {number} of the new generation was neither kept nor written");
                    return Err(Error::internal(what, "", ""));
                }
            }
        }
        manifest.fidelity = (next.fidelity)(&total);
        Ok(manifest)
    }

    /// Returns the error for a new file, a `shard` or a `columns file`, whose name another file has.
    pub(crate) fn name_is_taken(&self, name: &str, file: &str) -> Error {
        let folder = self.target.path().display();
        let what = format!(
            "`{folder}` contains a file `{name}` that is not part of the dataset, but a new {file} needs its name"
        );
        Error::usage(what, "move or rename this file, then run the command again")
    }
}

pub(crate) fn interrupted(target: &Target<'_>) -> String {
    let folder = if target.is_store() { target.scratch_file(NEXT) } else { target.path().to_owned() };
    format!(
        "`{}` contains unfinished files from an interrupted `add`, `remove`, `compact` or `add_columns`",
        folder.display()
    )
}

fn changed(target: &Target<'_>) -> Error {
    let what = format!("another run has changed the dataset `{}` in the meantime", visible_path(target.path()));
    Error::usage(what, "run the command again")
}

/// True if the folder of the next generation has a complete generation that follows another generation than the
/// newest one in the store. Such a generation can no longer be put in place.
fn is_outdated(target: &Target<'_>) -> Result<bool> {
    let folder = target.below(NEXT);
    let there = folder.names_if_there()?;
    let has = |name: &str| there.iter().any(|other| other == name);
    if !target.is_store() || !has(MANIFEST_NAME) {
        return Ok(false);
    }
    let read = |target: &Target<'_>, name| target.read(name, Limits::default().max_manifest_bytes);
    let now = read(target, MANIFEST_NAME)?;
    Ok(read(&folder, MANIFEST_NAME)? != now && !(has(BASE_NAME) && read(&folder, BASE_NAME)? == now))
}

pub(crate) fn read_manifest(target: &Target<'_>, name: &str) -> Result<(Manifest, Vec<u8>)> {
    let limits = Limits::default();
    let bytes = target.read(name, limits.max_manifest_bytes)?;
    let in_file = |e: shardpack_format::Error| e.in_file(target.file(name).display().to_string());
    let manifest = Manifest::parse(&bytes, &limits).map_err(|e| Error::Damaged { source: in_file(e) })?;
    Ok((manifest, bytes))
}

/// Puts a generation in place if an interrupted run has already written its manifest.
pub(crate) fn settle(target: &Target<'_>) -> Result<()> {
    let folder = target.below(NEXT);
    let there = folder.names_if_there()?;
    if !there.iter().any(|name| name == MANIFEST_NAME) {
        return Ok(());
    }
    if is_outdated(target)? {
        return Err(changed(target));
    }
    let (next, next_bytes) = read_manifest(&folder, MANIFEST_NAME)?;
    let (now, now_bytes) = read_manifest(target, MANIFEST_NAME)?;
    let generation = next.generation();
    if next.dataset_id != now.dataset_id || generation < now.generation() {
        let what =
            format!("`{}` contains files from another dataset or from an older generation", folder.path().display());
        return Err(Error::usage(what, "remove this folder, then run the command again"));
    }
    if generation > now.generation() {
        refuse_foreign(target, &now)?;
        let known: HashSet<&str> = now.files().map(|(_, file)| file.name.as_str()).collect();
        let written: HashSet<&str> = there.iter().map(String::as_str).collect();
        // A generation has either new shards or new columns files, so no two of these files have the same number.
        let fresh = || next.files().filter(|(_, file)| !known.contains(file.name.as_str()));
        let made = fresh().map(|(number, shard)| (shard_name(number), shard));
        let made: Vec<_> = made.filter(|(name, _)| written.contains(name.as_str())).collect();
        if target.is_store() {
            target.uploads.restart();
            made.iter().for_each(|(_, shard)| target.uploads.plan(shard.bytes));
        }
        for (name, shard) in made {
            target.take_in(&folder, &name, &shard.name)?;
        }
        target.sync()?;
        refuse_damaged_shards(target, next.dataset_id, &fresh().collect::<Vec<_>>())?;
        // An existing manifest of the old generation is the right one, as checked above.
        target.put_generation(&generation_name(now.generation()), &now_bytes)?;
        if !target.put_generation(&generation_name(generation), &next_bytes)?
            || !target.exchange_manifest(&now_bytes, &next_bytes)?
        {
            return Err(changed(target));
        }
    }
    let survey = Survey::take(&folder)?;
    survey.remove_temporaries(&folder)?;
    survey.remove_journals(&folder)?;
    // Remove the manifest after the journal, because a journal without a manifest looks like an unfinished run.
    folder.sync()?;
    folder.remove_scratch(BASE_NAME)?;
    folder.remove(MANIFEST_NAME)?;
    // This keeps the folder if it contains files of the desktop or the file system.
    folder.remove_folder_if_empty()?;
    target.sync()
}

/// Like [`settle`], but calls `report` on this thread meanwhile, and once at the end.
fn settle_with(target: &Target<'_>, report: &dyn Fn()) -> Result<()> {
    thread::scope(|scope| {
        let (end, ended) = bounded::<()>(0);
        let work = move || {
            let _end = end;
            settle(target)
        };
        let settling = thread::Builder::new().name("upload".into()).spawn_scoped(scope, work);
        let settling = settling.map_err(|e| Error::io("start a thread to write", target.path(), e))?;
        // The thread closes the channel when it ends.
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(PATIENCE) {
            report();
        }
        report();
        settling.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Fails if a file of another program has the name that the manifest `now` will be renamed to.
fn refuse_foreign(target: &Target<'_>, now: &Manifest) -> Result<()> {
    let (name, generation) = (generation_name(now.generation()), now.generation());
    if !target.names()?.contains(&name) {
        return Ok(());
    }
    let bytes = target.read(&name, Limits::default().max_manifest_bytes)?;
    let is_it = |there: Manifest| there.dataset_id == now.dataset_id && there.generation() == generation;
    if Manifest::parse(&bytes, &Limits::default()).is_ok_and(is_it) {
        return Ok(());
    }
    let what = format!(
        "`{}` is not the manifest of generation {generation} of dataset {}, but that manifest needs this name",
        target.file(&name).display(),
        now.dataset_id
    );
    Err(Error::usage(what, "move or rename this file, then run the command again"))
}

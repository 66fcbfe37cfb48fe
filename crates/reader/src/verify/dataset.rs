//! Finds the shards to verify.

use super::problem::Problem;
use super::target::Target;
use super::work;
use super::{VerifyOptions, VerifyReport};
use crate::error::{Error, Result};
use crate::handles::Handles;
use crate::manifest_file::{is_columns_file, manifest_in, shard_names};
use crate::opening::{DatasetFile, DatasetOptions, no_dataset};
use shardpack_format::{Explain as _, Limits, MANIFEST_NAME, Manifest, ShardEntry, generation_name};
use shardpack_io::Storage;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Subject {
    manifest: Option<(PathBuf, Manifest)>,
    targets: Vec<Target>,
    report: VerifyReport,
    storage: Option<Arc<dyn Storage>>,
}

pub(super) fn verify(path: &Path, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    check(opening(options).find(path)?, options)
}

pub(super) fn verify_in(
    storage: Arc<dyn Storage>,
    name: Option<&str>,
    options: &VerifyOptions<'_>,
) -> Result<VerifyReport> {
    let found = match name {
        Some(name) => opening(options).find_file_in(storage, name)?,
        None => opening(options).find_in(storage),
    };
    check(found, options)
}

fn opening(options: &VerifyOptions<'_>) -> DatasetOptions {
    let (limits, follow_symlinks) = (options.limits.clone(), options.follow_symlinks);
    DatasetOptions::new().limits(limits).follow_symlinks(follow_symlinks).generation(options.generation)
}

fn check(found: DatasetFile, options: &VerifyOptions<'_>) -> Result<VerifyReport> {
    let Subject { manifest: found, targets, mut report, storage } = subject(found, options)?;
    let manifest = found.as_ref().map(|(_, manifest)| manifest);
    report.shards = targets.iter().filter(|target| target.columns.is_none()).count() as u64;
    let done = work::run(&targets, manifest, storage.as_deref(), options)?;
    report.samples = done.records.samples;
    report.damaged_samples = done.records.damaged_samples;
    report.missing_samples = done.records.missing_samples;
    report.bytes = done.bytes;
    report.cancelled = done.cancelled;
    report.problems.extend(done.records.problems);
    report.problems.extend(done.statements.problems(&targets, manifest, &options.limits));
    report.problems.sort();
    report.manifest = found;
    Ok(report)
}

/// Maximum number of generations to search for shards that are not in the verified manifest.
const MAX_GENERATIONS: usize = 1000;

fn subject(found: DatasetFile, options: &VerifyOptions<'_>) -> Result<Subject> {
    match found {
        DatasetFile::Shard { file, storage } => {
            let targets = vec![Target::lone(file)];
            Ok(Subject { manifest: None, targets, report: VerifyReport::default(), storage })
        }
        // Without its manifest, the shards of the requested generation are not known.
        DatasetFile::Manifest { manifest: Err(error), .. } if options.generation.is_some() => Err(error),
        DatasetFile::Manifest { storage, path, manifest, .. } => in_folder(storage, &path, manifest, &options.limits),
    }
}

struct Extra<'a> {
    others: Vec<&'a str>,
    unknown: Vec<&'a str>,
}

impl<'a> Extra<'a> {
    /// Searches the other generations, newest first, until every shard has been found in one.
    fn of(mut unknown: Vec<&'a str>, manifest: &Manifest, storage: &dyn Storage, limits: &Limits) -> Self {
        let read = |name: &str| {
            let other = manifest_in(storage, name, limits).ok()?;
            (other.dataset_id == manifest.dataset_id).then_some(other)
        };
        let mut others = Vec::new();
        let mut take = |other: &Manifest, unknown: &mut Vec<&'a str>| {
            let listed: HashSet<&str> = other.files().map(|(_, file)| file.name.as_str()).collect();
            let (known, left) = std::mem::take(unknown).into_iter().partition(|name| listed.contains(name));
            others.extend::<Vec<_>>(known);
            *unknown = left;
        };
        let newest = if unknown.is_empty() { None } else { read(MANIFEST_NAME) };
        for number in (1..=newest.as_ref().map_or(0, Manifest::generation)).rev().take(MAX_GENERATIONS) {
            if unknown.is_empty() {
                break;
            }
            if let Some(other) = read(&generation_name(number)) {
                take(&other, &mut unknown);
            }
        }
        others.sort_unstable();
        Self { others, unknown }
    }
}

fn in_folder(
    folder: Arc<dyn Storage>,
    manifest_path: &Path,
    manifest: Result<Manifest>,
    limits: &Limits,
) -> Result<Subject> {
    let mut report = VerifyReport::default();
    // A damaged manifest also shows that this is a dataset with a manifest, more reliably than the
    // files in the folder do.
    let is_of_manifest = manifest.as_ref().err().is_none_or(|error| error.kind().is_about_data());
    let present = match shard_names(&*folder) {
        Ok(names) => names,
        Err(Error::Io { source, .. }) if is_of_manifest && source.kind() == ErrorKind::Unsupported => {
            report.notes.push(
                "this store cannot list its files, so verify did not look for shards that are missing from the \
                 manifest"
                    .into(),
            );
            Vec::new()
        }
        // The manifest's error is more useful than the error from listing the folder.
        Err(error) => return Err(manifest.err().filter(|e| !e.kind().is_about_data()).unwrap_or(error)),
    };
    let folder_path = folder.path().to_owned();
    let storage = Some(Arc::clone(&folder));
    let beside = Arc::clone(&folder);
    let handles = Arc::new(Handles::new(folder));
    match manifest {
        Ok(manifest) => {
            let listed: HashSet<&str> = manifest.files().map(|(_, file)| file.name.as_str()).collect();
            let extra = present.iter().map(String::as_str).filter(|name| !listed.contains(name)).collect();
            let Extra { others, unknown } = Extra::of(extra, &manifest, &*beside, limits);
            if let Some(first) = others.first() {
                let (count, belong) = (others.len(), if others.len() == 1 { "shard belongs" } else { "shards belong" });
                report
                    .notes
                    .push(format!("not verified: {count} {belong} only to other generations (first: `{first}`)"));
            }
            report.notes.extend(unknown.iter().map(|name| format!("not verified: `{name}` is not in the manifest")));
            let listed =
                |entry: &ShardEntry, columns| Target::listed(&handles, entry, folder_path.join(&entry.name), columns);
            let mut targets: Vec<Target> = manifest.shards.iter().map(|entry| listed(entry, None)).collect();
            for (addition, columns) in manifest.columns.iter().enumerate() {
                let files = columns.files.iter().enumerate();
                targets.extend(files.map(|(number, entry)| listed(entry, Some((addition, number)))));
            }
            Ok(Subject { manifest: Some((manifest_path.to_owned(), manifest)), targets, report, storage })
        }
        Err(error) if present.is_empty() && !error.kind().is_about_data() => match error {
            Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => Err(no_dataset(&folder_path)),
            other => Err(other),
        },
        Err(error) => {
            // Verify the shards even without a manifest: each contains its own metadata.
            report.problems.push(Problem::new(manifest_path.to_string_lossy(), error));
            let (columns, shards): (Vec<_>, Vec<_>) =
                present.into_iter().partition(|name| is_columns_file(&*beside, name));
            let left = |name| format!("not verified: the columns file `{name}`, because its manifest is damaged");
            report.notes.extend(columns.iter().map(left));
            let target = |name: &String| Target::unlisted(&handles, name, folder_path.join(name));
            let targets = shards.iter().map(target).collect();
            Ok(Subject { manifest: None, targets, report, storage })
        }
    }
}

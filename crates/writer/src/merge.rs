//! Joining the parts that several machines wrote into one folder.

use crate::error::{Error, Result};
use crate::folder::{Survey, check_shard};
use crate::fs::{Disk, Fs, StdFs};
use crate::journal::{Entry, Head, Journal};
use crate::lock::Lock;
use crate::options::Part;
use crate::report::{Outcome, Report};
use crate::source::Tally;
use crate::write::{Figures, already_complete, end_dataset, report, weaknesses};
use shardpack_format::DatasetId;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Finishes a dataset that was written in [`Part`]s: checks that every shard is there, and writes
/// the same manifest as a single run.
///
/// `T` is the [`SampleSource::Tally`](crate::SampleSource::Tally) that the parts were written with.
///
/// `Usage` if parts or shards are missing (it lists them), if the parts come from different plans,
/// or if there are none; `Locked` if a packer is still running in the folder; `Format` if a
/// finished shard of a part is damaged; `Damaged` if there is a complete dataset that is damaged;
/// `Io`.
pub fn merge<T: Tally>(out: &Path) -> Result<Report> {
    merge_on::<T>(&StdFs, out)
}

pub(crate) fn merge_on<T: Tally>(fs: &dyn Fs, out: &Path) -> Result<Report> {
    let disk = Disk(fs);
    // Checked before the lock, so that a mistyped folder does not get a lock file.
    let names = disk.list(out)?;
    let what = || format!("folder `{}`", out.display());
    if !names.iter().any(|n| n == shardpack_format::MANIFEST_NAME || crate::journal::is_journal_name(n)) {
        return Err(Error::usage(what(), "parts of a dataset", "no journal", "pack the parts first"));
    }
    let lock = Lock::take(disk, out, None)?;
    let report = merge_locked::<T>(disk, out)?;
    Ok(Report { notes: weaknesses(disk, out, &lock), ..report })
}

fn merge_locked<T: Tally>(disk: Disk<'_>, out: &Path) -> Result<Report> {
    let started = Instant::now();
    let what = || format!("folder `{}`", out.display());
    let survey = Survey::take(disk, out)?;
    survey.refuse_damage()?;
    let journals: Vec<&Journal> = survey.journals.values().flatten().collect();
    if let Some(manifest) = &survey.manifest {
        let id = manifest.dataset_id.to_string();
        if let Some(other) = journals.iter().find(|j| j.head.dataset_id != id) {
            let found = format!("a part of dataset {}", other.head.dataset_id);
            let hint = "pack into a folder of its own";
            return Err(Error::usage(what(), format!("dataset {id} alone"), found, hint));
        }
        return already_complete(disk, out, manifest, started);
    }
    let Some(first) = journals.first() else {
        return Err(Error::usage(what(), "parts of a dataset", "no whole journal", "pack the parts again"));
    };
    for journal in &journals {
        if let Some(difference) = first.head.difference(&journal.head) {
            let found = difference.values.map_or_else(|| "others".to_owned(), |(a, b)| format!("{a} and {b}"));
            let what = format!("parts in {}: {}", what(), difference.what);
            return Err(Error::usage(what, "the same in all", found, "pack all parts with the same options"));
        }
    }
    let head = &first.head;
    let id: DatasetId = head.dataset_id.parse()?;
    let entries: BTreeMap<u32, Entry> = journals.iter().flat_map(|j| j.entries.clone()).collect();
    refuse_missing(head, &entries, &what())?;
    for (number, entry) in &entries {
        check_shard(disk, out, id, *number, &entry.file)??;
    }
    let fidelity = end_dataset::<T>(disk, out, id, &head.metadata, &entries)?;
    survey.remove_temporaries(disk, out)?;
    survey.remove_journals(disk, out)?;
    Ok(report(Outcome::Complete, id, &entries, Figures::of(&entries), fidelity, started))
}

fn refuse_missing(head: &Head, entries: &BTreeMap<u32, Entry>, what: &str) -> Result<()> {
    let shards = head.shards()?;
    let parts = head.part.map_or(1, Part::count);
    let mut missing: Vec<(Part, u64)> = Vec::new();
    let mut first = None;
    // A step for each shard, however many parts there are: a part may have no shard at all.
    for number in (0..shards).filter(|number| !entries.contains_key(number)) {
        first.get_or_insert(number);
        match (missing.last_mut(), Part::of_shard(number, shards, parts)?) {
            (Some((last, count)), part) if *last == part => *count += 1,
            (_, part) => missing.push((part, 1)),
        }
    }
    let Some(first) = first else { return Ok(()) };
    let count: u64 = missing.iter().map(|(_, count)| count).sum();
    let (noun, are) = if shards == 1 { ("shard", "is") } else { ("shards", "are") };
    let what = match missing.as_slice() {
        [(part, 1)] => format!("{what}: 1 of {shards} {noun} is missing: shard {first}, of part {part}"),
        _ => {
            let shown: Vec<_> = missing.iter().take(10).map(|(part, n)| format!("{n} of part {part}")).collect();
            let more =
                if missing.len() > 10 { format!(" and of {} parts more", missing.len() - 10) } else { String::new() };
            format!(
                "{what}: {count} of {shards} {noun} {are} missing, the first is {first}: {}{more}",
                shown.join(", ")
            )
        }
    };
    Err(Error::refused(what, "pack these parts, then merge again"))
}

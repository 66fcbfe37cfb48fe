//! Merges the parts that several machines wrote to one folder.

use crate::error::{Error, Result};
use crate::folder::{Survey, check_shards};
use crate::journal::{Difference, Journal, JournalEntry, JournalHead};
use crate::lock::RunLock;
use crate::names::shard_count;
use crate::output::Output;
use crate::part::Part;
use crate::report::{Outcome, Report};
use crate::source::Tally;
use crate::target::Target;
use crate::unfinished::{Unfinished, UnfinishedPart, array_expression};
use crate::write::{Figures, already_complete, end_dataset, report, weaknesses};
use shardpack_format::{DatasetId, Hint, Setting};
use shardpack_io::Holder;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Finishes a dataset that was written in [`Part`]s. Checks that every shard exists, and writes the same manifest as a
/// single run would.
///
/// `T` is the [`SampleSource::Tally`](crate::SampleSource::Tally) of the runs that wrote the parts.
///
/// # Errors
/// `Unfinished`, with the parts to pack again, if parts or shards are missing or a finished shard is damaged or
/// deleted. `Usage` if there are no parts, or if they come from different plans. The message then groups the parts by
/// the option that differs. `Locked` if a packer is still running in the folder; `Damaged` if a complete dataset is
/// damaged; `Io`.
pub fn merge<T: Tally>(out: impl Into<Output>) -> Result<Report> {
    let out = out.into();
    merge_on::<T>(&out.target())
}

pub(crate) fn merge_on<T: Tally>(target: &Target<'_>) -> Result<Report> {
    // Check this before locking, so that a mistyped path does not get a lock file.
    let names = target.names()?;
    let what = || format!("folder `{}`", target.path().display());
    if !names.iter().any(|n| n == shardpack_format::MANIFEST_NAME || crate::names::is_journal_name(n)) {
        return Err(Error::usage(format!("{} contains no parts of a dataset", what()), "pack the parts first"));
    }
    let lock = RunLock::take(target, None, &Holder::this_process())?;
    let report = merge_locked::<T>(target)?;
    Ok(Report { notes: weaknesses(target, &lock), ..report })
}

fn merge_locked<T: Tally>(target: &Target<'_>) -> Result<Report> {
    let started = Instant::now();
    let what = || format!("folder `{}`", target.path().display());
    let survey = Survey::take(target)?;
    survey.refuse_damage()?;
    let journals: Vec<&Journal> = survey.journals.values().flatten().collect();
    if let Some(manifest) = &survey.manifest {
        let id = manifest.dataset_id.to_string();
        if let Some(other) = journals.iter().find(|j| j.head.dataset_id != id) {
            let text =
                format!("{} contains dataset {id}, but also a part of dataset {}", what(), other.head.dataset_id);
            return Err(Error::usage(text, "pack the parts into a separate folder"));
        }
        return already_complete(target, manifest, started);
    }
    let Some(first) = journals.first() else {
        return Err(Error::usage(
            format!("{} contains parts of a dataset, but none of their journals is readable", what()),
            "pack the parts again",
        ));
    };
    refuse_mixture(&journals, &what())?;
    let head = &first.head;
    let id: DatasetId = head.dataset_id.parse()?;
    let entries: BTreeMap<u32, JournalEntry> = journals.iter().flat_map(|j| j.entries.clone()).collect();
    refuse_unfinished(target, head, id, &journals, &entries)?;
    let fidelity = end_dataset::<T>(target, id, &head.metadata, &entries)?;
    survey.remove_temporaries(target)?;
    survey.remove_journals(target)?;
    Ok(report(Outcome::Complete, id, &entries, Figures::of(&entries), fidelity, started))
}

fn refuse_mixture(journals: &[&Journal], what: &str) -> Result<()> {
    let Some(first) = journals.first() else { return Ok(()) };
    let differences = journals.iter().map(|journal| first.head.difference(&journal.head));
    let Some(Difference { what: thing, .. }) = differences.clone().flatten().next() else { return Ok(()) };
    // Compare by the first difference only. The next merge reports further differences.
    let mut groups: BTreeMap<Option<String>, Vec<u32>> = BTreeMap::new();
    let mut own = None;
    for (journal, difference) in journals.iter().zip(differences) {
        let difference = difference.filter(|difference| difference.what == thing);
        own = own.or_else(|| difference.as_ref().and_then(|difference| Some(difference.values.clone()?.0)));
        let value = difference.map(|difference| difference.values.map_or_else(|| "others".to_owned(), |(_, b)| b));
        let number = journal.head.part.map_or(1, |part| part.index().saturating_add(1));
        groups.entry(value).or_default().push(number);
    }
    let fewest = groups.values().min_by_key(|numbers| numbers.len()).cloned().unwrap_or_default();
    let named = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        let noun = if numbers.len() == 1 { "part" } else { "parts" };
        format!("{noun} {}", array_expression(numbers).replace(',', ", "))
    };
    let hint = Hint::new(format!("pack {} again with ", named(fewest)))
        .and([Setting::on("force")])
        .then(" and the same options and sources as the other parts");
    let found: Vec<String> = groups
        .into_iter()
        .map(|(value, numbers)| match &own {
            Some(own) => format!("{} in {}", value.as_ref().unwrap_or(own), named(numbers)),
            None => named(numbers),
        })
        .collect();
    let found = found.join(" and ");
    let text = match own {
        Some(_) => format!("the parts in {what} do not all have the same {thing}: {found}"),
        None => format!("the {thing} differ between {found} in {what}"),
    };
    Err(Error::usage(text, hint))
}

/// Fails if a part lacks shards, or if its shards differ from its journal.
fn refuse_unfinished(
    target: &Target<'_>,
    head: &JournalHead,
    id: DatasetId,
    journals: &[&Journal],
    entries: &BTreeMap<u32, JournalEntry>,
) -> Result<()> {
    let (shards, parts) = (head.shards()?, head.part.map(Part::count));
    let begun: BTreeSet<Part> = journals.iter().filter_map(|journal| journal.head.part).collect();
    let mut unfinished: Vec<UnfinishedPart> = Vec::new();
    let noted: Vec<_> = entries.range(..shards).map(|(_, entry)| entry.shard()).collect();
    let checked = check_shards(target, id, &noted)?;
    let mut checked: BTreeMap<u32, _> = noted.iter().map(|(number, _)| *number).zip(checked).collect();
    // Iterate over shards instead of parts, because a part may have no shards.
    for number in 0..shards {
        let damage = match checked.remove(&number) {
            None => None,
            Some(Ok(())) => continue,
            Some(Err(damage)) => Some(damage.to_string()),
        };
        let part = Part::of_shard(number, shards, parts.unwrap_or(1));
        match unfinished.last_mut() {
            Some(last) if last.part == part => {
                last.finished = last.finished.saturating_sub(1);
                last.damage = last.damage.take().or(damage);
            }
            _ => {
                let count = shard_count(part.shards(shards).len());
                let begun = parts.is_none() || begun.contains(&part);
                unfinished.push(UnfinishedPart {
                    part,
                    begun,
                    shards: count,
                    finished: count.saturating_sub(1),
                    damage,
                });
            }
        }
    }
    if unfinished.is_empty() {
        return Ok(());
    }
    Err(Error::Unfinished(Box::new(Unfinished { folder: target.path().to_owned(), parts, shards, unfinished })))
}

//! Examines the output folder before a run: it is complete, empty, to be continued, or refused.

use crate::error::{Error, Result, samples};
use crate::folder::{Survey, keep_present};
use crate::journal::{Difference, Journal, JournalHead, recipe_difference};
use crate::names::journal_name;
use crate::options::WriteOptions;
use crate::plan::Plan;
use crate::target::Target;
use shardpack_format::{Hint, Manifest, Setting};
use std::collections::BTreeMap;
use std::path::Path;

/// State of a folder before a run.
pub(crate) enum Prepared {
    /// The dataset is complete; there is nothing to do.
    Complete(Manifest),
    /// Begin, or continue with the shards that this journal names.
    Begin(Journal),
}

/// Examines the folder, and then refuses it, clears it, or continues with it. Changes nothing until
/// all reasons to refuse are ruled out.
pub(crate) fn prepare(target: &Target<'_>, plan: &Plan, options: &WriteOptions<'_>) -> Result<Prepared> {
    prepare_or(target, plan, options, |difference| other_run(difference, target.path()))
}

/// As [`prepare`], with a caller-defined error for a run of another plan.
pub(crate) fn prepare_or(
    target: &Target<'_>,
    plan: &Plan,
    options: &WriteOptions<'_>,
    other_run: impl Fn(Difference) -> Error,
) -> Result<Prepared> {
    let refuse_difference = |difference: Option<Difference>| difference.map(&other_run).map_or(Ok(()), Err);
    let head = JournalHead::new(plan, options.part);
    let fresh = Journal { head, entries: BTreeMap::new() };
    let what = || format!("output folder `{}`", target.path().display());
    let mut survey = Survey::take(target)?;
    let start_over = options.force && options.part.is_none();
    survey.refuse(target, plan.dataset_id(), start_over)?;
    if survey.is_being_removed {
        if options.part.is_some() {
            let hint = "run once without a part, with force, or remove the folder";
            return Err(Error::usage(what(), "a new or empty one", "a dataset whose removal was interrupted", hint));
        }
        survey.remove_all(target)?;
        survey = Survey::take(target)?;
    }
    if start_over {
        survey.remove_all(target)?;
        return Ok(Prepared::Begin(fresh));
    }
    if let Some(manifest) = survey.manifest.take() {
        if manifest.dataset_id == plan.dataset_id() && !options.force {
            if manifest.generation() > 1 {
                let (samples, generation) = (samples(manifest.samples), manifest.generation());
                let what = format!(
                    "`{}` was packed from these files, and has changed since: generation {generation} holds {samples}",
                    target.path().display()
                );
                let hint = Hint::new("`shardpack add` puts new samples behind them; ").and([Setting::on("force")]);
                return Err(Error::refused(what, hint.then(" starts over")));
            }
            return Ok(Prepared::Complete(manifest));
        }
        let generation = manifest.generation();
        let hint = match options.part {
            Some(_) => "remove the folder first: a part cannot replace a dataset".into(),
            None if generation > 1 => Hint::new("`shardpack add` puts new samples behind them; use ")
                .and([Setting::on("force")])
                .then(" to replace all generations, or choose another folder"),
            None => replace(),
        };
        let others = if options.force { String::new() } else { why_other(plan, &manifest) };
        let grown = if generation > 1 { format!(" in generation {generation}") } else { String::new() };
        let held = samples(manifest.samples);
        let what = format!("`{}` already holds a dataset of {held}{grown}{others}", target.path().display());
        return Err(Error::refused(what, hint));
    }
    let own_name = journal_name(options.part);
    let mut own = survey.journals.remove(&own_name).flatten();
    for begun in survey.journals.values().flatten() {
        // With `force` the other parts may also be about to start over; `merge` checks it later.
        let difference = if options.force { None } else { fresh.head.difference(&begun.head) };
        refuse_difference(difference)?;
        refuse_other_cut(&fresh.head, &begun.head, &what())?;
    }
    if let Some(begun) = own.take_if(|_| options.force) {
        survey.remove_part(target, &begun)?;
    }
    // A run without a finished shard loses nothing: it may start over with other options.
    let is_bare = |begun: &mut Journal| begun.entries.is_empty() && survey.journals.is_empty() && !survey.has_shards();
    drop(own.take_if(is_bare));
    refuse_difference(own.as_ref().and_then(|begun| fresh.head.difference_on_resume(&begun.head)))?;
    if options.part.is_none() {
        survey.remove_temporaries(target)?;
    }
    let entries = own.map(|journal| journal.entries).unwrap_or_default();
    let entries = keep_present(target, plan.dataset_id(), entries)?;
    Ok(Prepared::Begin(Journal { entries, ..fresh }))
}

/// Hint: replace the existing dataset.
pub(crate) fn replace() -> Hint {
    Hint::new("use ").and([Setting::on("force")]).then(" to replace it, or choose another folder")
}

/// Hint for a program with samples instead of files.
pub(crate) fn replace_or_append() -> Hint {
    Hint::new("use ")
        .and([Setting::on("force")])
        .then(" to replace it, ")
        .and([Setting::on("append")])
        .then(" to add to it, or choose another folder")
}

/// The difference between a complete dataset and the plan.
fn why_other(plan: &Plan, manifest: &Manifest) -> String {
    match recipe_difference(&plan.metadata().recipe, &manifest.shard_recipe()) {
        Some(Difference { what, values: Some((now, then)) }) => {
            format!(", packed with another {what}: it was packed with {then}, now it is {now}")
        }
        _ if plan.sample_count() != manifest.samples => {
            format!(", packed from other files: now there are {}", plan.sample_count())
        }
        _ => ", packed from files of other names, sizes, labels or contents".to_owned(),
    }
}

/// The error for an unfinished dataset of another plan.
fn other_run(difference: Difference, out: &Path) -> Error {
    let Difference { what: thing, values } = difference;
    let begun = format!("`{}` holds an unfinished dataset", out.display());
    let what = match values {
        Some((here, there)) => format!("{begun} with another {thing}: it was begun with {there}, now it is {here}"),
        None => format!("{begun}, and the {thing} have changed since it was begun"),
    };
    let hint = Hint::new("give the old options, on unchanged sources, to go on; or add ")
        .and([Setting::on("force")])
        .then(" to start over");
    Error::refused(what, hint)
}

/// Refuses to continue a run with a different number of parts.
fn refuse_other_cut(wanted: &JournalHead, begun: &JournalHead, what: &str) -> Result<()> {
    let count = |head: &JournalHead| head.part.map(|p| p.count());
    if count(wanted) == count(begun) {
        return Ok(());
    }
    let words = |head: &JournalHead| count(head).map_or_else(|| "the whole".to_owned(), |n| format!("{n} parts"));
    let hint = Hint::new("pack the missing parts and merge them, or use ")
        .and([Setting::on("force")])
        .then(" without a part to start over");
    Err(Error::usage(
        what,
        format!("a dataset written as {}", words(wanted)),
        format!("one written as {}", words(begun)),
        hint,
    ))
}

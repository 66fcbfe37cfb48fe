//! Examines the output folder before a run. The folder may be empty, or contain a complete dataset,
//! a run to continue, or files that the run must not touch.

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

pub(crate) enum Prepared {
    /// The dataset is complete, so there is nothing to do.
    Complete(Manifest),
    /// Start the dataset, or continue after the shards that this journal lists.
    Begin(Journal),
}

/// Examines the folder, then refuses it, clears it or continues the run in it. Changes nothing until all reasons to
/// refuse have been ruled out.
pub(crate) fn prepare(target: &Target<'_>, plan: &Plan, options: &WriteOptions<'_>) -> Result<Prepared> {
    prepare_or(target, plan, options, |difference| other_run(difference, target.path()))
}

/// Same as [`prepare`], but the caller provides the error to return if the folder contains a run of a different plan.
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
            let hint = Hint::new("run the command once with ").and([Setting::on("force")]).then(" and without ");
            let hint = hint.and([Setting::named("part")]).then(", or remove the folder");
            return Err(Error::usage(
                format!("{} contains a dataset that an interrupted run has partly removed", what()),
                hint,
            ));
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
                    "`{}` was packed from these files, but has been changed since then: it is now at generation \
                     {generation} and has {samples}",
                    target.path().display()
                );
                let hint = Hint::new("add new samples with `shardpack add`, or use ").and([Setting::on("force")]);
                return Err(Error::usage(what, hint.then(" to start over")));
            }
            return Ok(Prepared::Complete(manifest));
        }
        let generation = manifest.generation();
        let hint = match options.part {
            Some(_) => "remove the folder first, because a single part cannot replace a whole dataset".into(),
            None if generation > 1 => Hint::new("add new samples with `shardpack add`, use ")
                .and([Setting::on("force")])
                .then(" to replace all generations, or choose another folder"),
            None => replace(),
        };
        let others = if options.force { String::new() } else { why_other(plan, &manifest) };
        let grown = if generation > 1 { format!(" (generation {generation})") } else { String::new() };
        let held = samples(manifest.samples);
        let what = format!("`{}` already contains a dataset of {held}{grown}{others}", target.path().display());
        return Err(Error::usage(what, hint));
    }
    let own_name = journal_name(options.part);
    let mut own = survey.journals.remove(&own_name).flatten();
    for begun in survey.journals.values().flatten() {
        // With `force`, the other parts may start over too, so differences from them are left to `merge`.
        let difference = if options.force { None } else { fresh.head.difference(&begun.head) };
        refuse_difference(difference)?;
        refuse_other_cut(&fresh.head, &begun.head, &what())?;
    }
    if let Some(begun) = own.take_if(|_| options.force) {
        survey.remove_part(target, &begun)?;
    }
    // A run without finished shards has nothing to lose, so a run with other options may replace it.
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

pub(crate) fn replace() -> Hint {
    Hint::new("use ").and([Setting::on("force")]).then(" to replace it, or choose another folder")
}

pub(crate) fn replace_or_append() -> Hint {
    Hint::new("use ")
        .and([Setting::on("force")])
        .then(" to replace it, ")
        .and([Setting::on("append")])
        .then(" to add to it, or choose another folder")
}

fn why_other(plan: &Plan, manifest: &Manifest) -> String {
    match recipe_difference(&plan.metadata().recipe, &manifest.shard_recipe()) {
        Some(Difference { what, values: Some((now, then)) }) => {
            format!(", packed with a different {what}: {then} before, {now} now")
        }
        _ if plan.sample_count() != manifest.samples => {
            format!(", but the source has {}", samples(plan.sample_count()))
        }
        _ => ", packed from files with different names, sizes, labels or contents".to_owned(),
    }
}

fn other_run(difference: Difference, out: &Path) -> Error {
    let Difference { what: thing, values } = difference;
    let begun = format!("`{}` contains an unfinished dataset", out.display());
    let what = match values {
        Some((here, there)) => format!("{begun} with a different {thing}: {there} before, {here} now"),
        None => format!("{begun}, and the {thing} have changed since"),
    };
    let hint = Hint::new("repeat the command with the same options and unchanged sources to continue, or add ");
    let hint = hint.and([Setting::on("force")]).then(" to start over");
    Error::usage(what, hint)
}

fn refuse_other_cut(wanted: &JournalHead, begun: &JournalHead, what: &str) -> Result<()> {
    let count = |head: &JournalHead| head.part.map(|p| p.count());
    let (wanted, begun) = (count(wanted), count(begun));
    if wanted == begun {
        return Ok(());
    }
    let parts = |n: u32| format!("{n} part{}", if n == 1 { "" } else { "s" });
    let hint = match begun {
        Some(n) => crate::error::start_over(format!("continue with {} and then merge, ", parts(n))),
        None => Hint::new("leave out ")
            .and([Setting::named("part")])
            .then(" to continue, or replace it with ")
            .and([Setting::on("force")])
            .then(" to start over"),
    };
    let begun = begun.map_or_else(|| "without parts".to_owned(), |n| format!("with {}", parts(n)));
    let wanted = wanted.map_or_else(|| "none".to_owned(), parts);
    Err(Error::usage(
        format!("{what} contains an unfinished dataset that was started {begun}, but this run uses {wanted}"),
        hint,
    ))
}

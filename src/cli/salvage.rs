//! `shardpack salvage`: copies the undamaged samples of a damaged dataset.

use super::args::SalvageArgs;
use super::exit_status::ExitStatus;
use super::refuse::refuse_url_to_write;
use super::{interrupt, show, units};
use crate::{place, read_limits, sniff};
use serde_json::json;
use shardpack_format::{ErrorKind, Note, Voice};
use shardpack_pack::salvage::{Restored, SalvageOptions, restore_manifest};
use shardpack_writer::WriteOptions;

/// Number of losses shown in the text. `--json` lists all.
const SHOWN: usize = 50;

pub(super) fn run(args: &SalvageArgs) -> crate::Result<ExitStatus> {
    refuse_url_to_write(&args.out, "salvage")?;
    sniff::check(&args.dataset)?;
    let limits = read_limits(args.max_record);
    let how = SalvageOptions { limits: limits.clone(), all_generations: args.all_generations };
    if same_folder(args) {
        return restore(args, &how);
    }
    let interrupt = interrupt::install(true)?;
    let cancel = &interrupt.raised;
    let options = WriteOptions { cancel: Some(cancel), ..WriteOptions::default() };
    let salvaged = place::salvage(&args.dataset, &how, &[], cancel).and_then(|mut survey| {
        let report = survey.write(&args.out, &limits, &options)?;
        survey.notes.extend(report.notes.iter().cloned().map(Note::new));
        Ok((survey, report))
    });
    let (survey, report) = match salvaged {
        Ok(salvaged) => salvaged,
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            show::note("interrupted: the damaged dataset is unchanged");
            return Ok(ExitStatus::Interrupted);
        }
        Err(error) => return Err(error),
    };
    let (lost, damage) = (&survey.lost, &survey.damage);
    if args.json {
        show::json(&json!({
            "samples": report.samples,
            "bytes_out": report.bytes_out,
            "shards": report.shards,
            "lost": lost,
            "lost_unlisted": survey.lost_unlisted,
            "damage": damage,
            "notes": told(&survey.notes),
        }))?;
    } else {
        let mut text = String::new();
        told(&survey.notes).iter().for_each(|note| text += &format!("note: {note}\n"));
        damage.iter().for_each(|damage| text += &format!("damaged, but no sample was lost: {damage}\n"));
        lost.iter().take(SHOWN).for_each(|lost| text += &format!("lost: {lost}\n"));
        let more = survey.places_lost().saturating_sub(SHOWN as u64);
        if more > 0 {
            let all = if survey.lost_unlisted == 0 { "all" } else { "the first 10,000" };
            text += &format!("… and {} more (--json lists {all})\n", units::count(more));
        }
        text += &format!(
            "salvaged {} ({}) into `{}`; lost: {}\n",
            units::plural(report.samples, "sample"),
            units::bytes(report.bytes_out),
            args.out.display(),
            units::plural(survey.places_lost(), "place"),
        );
        show::print(&text)?;
    }
    Ok(if lost.is_empty() { ExitStatus::Fine } else { ExitStatus::Problem })
}

fn told(notes: &[Note]) -> Vec<String> {
    notes.iter().map(|note| note.told(Voice::Command)).collect()
}

fn same_folder(args: &SalvageArgs) -> bool {
    match (args.dataset.canonicalize(), args.out.canonicalize()) {
        (Ok(dataset), Ok(out)) => dataset == out,
        _ => false,
    }
}

fn restore(args: &SalvageArgs, options: &SalvageOptions) -> crate::Result<ExitStatus> {
    let Restored { rebuilt, notes } = restore_manifest(&args.dataset, options)?;
    let left_out: Vec<String> = rebuilt.left_out.iter().map(|(_, error)| error.to_string()).collect();
    let (samples, shards) = (rebuilt.manifest.samples, rebuilt.manifest.shards.len() as u64);
    if args.json {
        show::json(&json!({ "samples": samples, "shards": shards, "left_out": left_out, "notes": told(&notes) }))?;
    } else {
        let mut text: String = told(&notes).iter().map(|note| format!("note: {note}\n")).collect();
        left_out.iter().for_each(|reason| text += &format!("note: left out: {reason}\n"));
        let (samples, shards) = (units::plural(samples, "sample"), units::plural(shards, "shard"));
        text += &format!("rebuilt the manifest of `{}`: {samples} in {shards}\n", args.dataset.display());
        show::print(&text)?;
    }
    Ok(if left_out.is_empty() { ExitStatus::Fine } else { ExitStatus::Problem })
}

//! `shardpack pack` and `shardpack merge`: pack a source into a dataset, and join the parts of a
//! dataset.

pub(super) mod args;

use super::exit_status::ExitStatus;
use super::progress::Bar;
use super::{interrupt, show, summary, units};
use crate::place::{for_packing, is_url};
use args::{MergeArgs, PackArgs};
use serde_json::Value;
use shardpack_array::{Prefer, Trial};
use shardpack_format::{Hint, MANIFEST_NAME, Setting, Voice};
use shardpack_pack::pack::{
    FieldSummary, Hooks, PackReport, PackedSplits, Planned, pack, pack_splits, report_json, unfinished_json,
};
use shardpack_pack::peak_rss_bytes;
use shardpack_sources::{BadInput, LabelsFrom, SourceKind};
use shardpack_writer::{Outcome as Written, Output, Report};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SHOWN_CANDIDATES: usize = 6;
const SHOWN_SKIPPED: usize = 20;
/// Maximum share of values below float16's normal range, above which a warning is printed.
const SUBNORMAL_WARNING: f64 = 0.01;

pub(super) fn run(args: &PackArgs) -> crate::Result<ExitStatus> {
    let (mut src, mut options) = (args.src.clone(), args.options()?);
    let interrupt = interrupt::install(false)?;
    let cancel = &*interrupt.raised;
    let to = args.to.destination(&args.out);
    let out = for_packing(&mut src, &mut options.source, &to, &[], Some(Arc::clone(&interrupt.raised)))?;
    let holds_dataset = holds_dataset(&out)?;
    options.source.cancel = Some(Arc::clone(&interrupt.raised));
    let bar: RefCell<Option<Bar>> = RefCell::new(None);
    let on_plan = |planned: &Planned<'_>| {
        // From here on, an interrupted run must clean up its files.
        interrupt.graceful.store(true, Ordering::SeqCst);
        // If the dataset is already complete, do not print a plan, because nothing will be packed.
        let of_split = |split| args.out.join(split).join(MANIFEST_NAME).exists();
        let is_there = !options.force && planned.split.map_or(holds_dataset, of_split);
        if !args.json && !is_there {
            show::note(&plan_text(planned, options.arrays.prefer));
            if let Output::Bucket(bucket) = &out {
                show::note(&format!("shards wait in `{}` until they are uploaded", bucket.spool().display()));
            }
        }
        if let Some(before) = bar.replace(Some(Bar::new("pack", planned.source_bytes, Some(planned.samples)))) {
            before.finish();
        }
    };
    let on_progress = |p: &shardpack_writer::Progress| {
        if let Some(bar) = bar.borrow().as_ref() {
            bar.pack(p);
        }
    };
    let hooks = Hooks { on_plan: &on_plan, on_progress: &on_progress, cancel };
    let result = match options.source.splits {
        true => pack_splits(&src, out.clone(), &options, &hooks).map(Done::Splits),
        false => pack(&src, out.clone(), &options, &hooks).map(|packed| Done::One(Box::new(packed))),
    };
    if let Some(bar) = bar.take() {
        bar.finish();
    }
    let done = match result {
        Ok(done) => done,
        Err(error) if interrupt.has_caused(&error, &args.out) => {
            show::next("interrupted: finished shards are kept", "run the same command again to continue");
            return Ok(ExitStatus::Interrupted);
        }
        Err(error) => return Err(error),
    };
    tell(&done, args)
}

enum Done {
    One(Box<PackReport>),
    Splits(PackedSplits),
}

fn tell(done: &Done, args: &PackArgs) -> crate::Result<ExitStatus> {
    let (json, reports, notes, bad) = match done {
        Done::One(packed) => (packed.to_json(), vec![(None, &**packed)], &[][..], &[][..]),
        Done::Splits(packed) => {
            let reports = packed.splits.iter().map(|(name, packed)| (Some(name.as_str()), packed)).collect();
            (packed.to_json(), reports, &packed.notes[..], &packed.bad[..])
        }
    };
    notes.iter().for_each(|note| show::note(&format!("note: {}", note.told(Voice::Command))));
    let mut skipped: Vec<String> = bad.iter().map(ToString::to_string).collect();
    for (split, packed) in &reports {
        let of = split.map_or_else(String::new, |split| format!("`{}`: ", split.escape_debug()));
        packed.notes.iter().for_each(|note| show::note(&format!("note: {of}{}", note.told(Voice::Command))));
        skipped.extend(skipped_lines(&packed.bad, &packed.report).into_iter().map(|line| format!("{of}{line}")));
        warn_below_target(&packed.report);
    }
    if args.json {
        show::json(&json)?;
    }
    for (split, packed) in &reports {
        if !args.json {
            let out = split.map_or_else(|| args.out.clone(), |split| args.out.join(split));
            show::print(&to_text(packed, &out))?;
        }
        warn_subnormal(&packed.report);
    }
    if !args.json && reports.iter().any(|(_, packed)| packed.report.outcome == Written::AlreadyComplete) {
        let hint = Hint::new("pass ").and([Setting::on("force")]);
        show::hint(&hint.then(" to pack again if a file has changed but still has the same size"));
    }
    Ok(outcome_of(&skipped))
}

fn holds_dataset(out: &Output) -> crate::Result<bool> {
    Ok(match out {
        Output::Bucket(bucket) => bucket.holds_dataset()?,
        folder => folder.path().join(MANIFEST_NAME).exists(),
    })
}

/// Lists the skipped files, and returns the exit status of the command.
pub(super) fn outcome_of(skipped: &[String]) -> ExitStatus {
    if skipped.is_empty() {
        return ExitStatus::Fine;
    }
    show::note(&skipped_text(skipped));
    ExitStatus::Problem
}

pub(super) fn merge(args: &MergeArgs) -> crate::Result<ExitStatus> {
    let interrupt = interrupt::install(is_url(&args.out))?;
    let out = args.to.destination(&args.out).output(&[], Some(Arc::clone(&interrupt.raised)))?;
    let report = match shardpack_writer::merge::<shardpack_pack::pack::FidelityTotals>(out) {
        Err(shardpack_writer::Error::Unfinished(unfinished)) => {
            if args.json {
                show::json(&unfinished_json(&unfinished))?;
            }
            return Err(shardpack_writer::Error::Unfinished(unfinished).into());
        }
        other => other,
    };
    let report = match report.map_err(crate::Error::from) {
        Err(error) if interrupt.has_caused(&error, &args.out) => {
            show::next("interrupted: the parts are kept", "run the same command again to continue");
            return Ok(ExitStatus::Interrupted);
        }
        other => other?,
    };
    report.notes.iter().for_each(|note| show::note(&format!("warning: {note}")));
    if args.json {
        show::json(&report_json(&report))?;
    } else {
        let shards = units::plural(u64::from(report.shards), "shard");
        let (samples, size) = (units::plural(report.samples, "sample"), units::bytes(report.bytes_out));
        let out = args.out.display();
        show::print(&match report.outcome {
            Written::AlreadyComplete => {
                format!("already complete: `{out}` contains {samples} in {shards}, {size}; nothing was left to merge\n")
            }
            _ => format!("merged {samples} in {shards}, {size}, into `{out}`\n"),
        })?;
    }
    Ok(outcome_of(&skipped_lines(&[], &report)))
}

fn plan_text(planned: &Planned<'_>, prefer: Prefer) -> String {
    let noun = match planned.kind {
        SourceKind::Images => "picture",
        SourceKind::Cubes => "cube",
    };
    let split = planned.split.map_or_else(String::new, |split| format!("`{}`: ", split.escape_debug()));
    let mut out = format!(
        "{split}packing {} ({}) into {} with {}, with at most {} of samples in memory",
        units::plural(planned.samples, noun),
        units::bytes(planned.source_bytes),
        units::plural(u64::from(planned.shards), "shard"),
        units::plural(planned.threads as u64, "thread"),
        units::bytes(planned.memory_bytes),
    );
    for (field, trial) in planned.trials.iter().filter(|(_, trial)| trial.table.len() > 1) {
        let order = match prefer {
            Prefer::Speed => "fastest to read and decode first",
            Prefer::Device => "fastest to decode on a GPU first",
            Prefer::Size => "smallest first",
        };
        out += &format!("\ncandidates for storing `{field}`, {order}\n{}", trial_text(trial));
    }
    out.trim_end().to_owned()
}

fn trial_text(trial: &Trial) -> String {
    let rows: Vec<Vec<String>> = trial
        .table
        .iter()
        .take(SHOWN_CANDIDATES)
        .map(|c| {
            let mb_per_s = c.source_bytes as f64 / c.predicted_us.max(1e-9);
            vec![units::significant(c.ratio(), 3), format!("{mb_per_s:.0}"), c.settings.to_string()]
        })
        .collect();
    let more = trial.table.len().saturating_sub(SHOWN_CANDIDATES);
    let rest = if more > 0 { format!("  … and {more} more (stored in the recipe)\n") } else { String::new() };
    show::table(&["times smaller", "MB/s, predicted", "settings"], &rows) + &rest
}

fn to_text(packed: &PackReport, out: &Path) -> String {
    let report = &packed.report;
    let seconds = report.elapsed.as_secs_f64();
    let out_name = out.display();
    let samples = units::plural(report.samples, "sample");
    if report.outcome == Written::AlreadyComplete {
        let size = units::bytes(report.bytes_out);
        return format!(
            "already packed: `{out_name}` contains {samples} with the same names, sizes, labels and options, {size}; \
             nothing was written\n"
        );
    }
    let bytes_in = report.bytes_in.unwrap_or(0);
    // Rates cover only this run, whereas sizes cover the whole dataset.
    let own_samples = report.samples.saturating_sub(report.samples_reused);
    let own_bytes = bytes_in.saturating_sub(report.bytes_in_reused.unwrap_or(0));
    let mut text = format!(
        "packed {samples} into `{out_name}` in {}: {:.0} samples/s, {}\n",
        units::seconds(seconds),
        own_samples as f64 / seconds.max(1e-9),
        units::rate(own_bytes, seconds),
    );
    let stored: Vec<(String, String)> = packed
        .trials
        .iter()
        .map(|(field, trial)| (format!("`{field}` stored as"), trial.settings.to_string()))
        .collect();
    let mut rows = Vec::new();
    if packed.classes > 0 {
        rows.push(("classes", units::count(packed.classes)));
    }
    let label = if packed.labels_from == LabelsFrom::Nothing { "labels" } else { "labels from" };
    rows.push((label, packed.labels_from.to_string()));
    let (before, after) = (units::bytes(bytes_in), units::bytes(report.bytes_out));
    rows.push(("size", format!("{before} → {after}, {}", summary::compared(bytes_in, report.bytes_out))));
    let reused = match report.shards_reused {
        0 => String::new(),
        n => format!(", {n} of them from an earlier run"),
    };
    rows.push(("shards", format!("{}{reused}", units::count(u64::from(report.shards)))));
    if packed.kind == SourceKind::Images && report.fidelity.is_empty() && report.samples > 0 {
        rows.push(("pictures", "kept byte for byte".to_owned()));
    }
    rows.extend(stored.iter().map(|(what, settings)| (what.as_str(), settings.clone())));
    rows.push(("memory used", format!("{} at most", units::bytes(peak_rss_bytes()))));
    text += &show::pairs(&rows);
    for (field, figures) in &report.fidelity {
        text += &format!("fidelity of `{field}`, compared with its source\n{}", summary::fidelity_text(figures));
    }
    if report.outcome == Written::PartComplete {
        text += &format!(
            "this part is complete; when all parts are complete, `shardpack merge {out_name}` finishes the dataset\n"
        );
    }
    text
}

pub(super) fn skipped_lines(bad: &[BadInput], report: &Report) -> Vec<String> {
    let bad = bad.iter().map(ToString::to_string);
    bad.chain(report.skipped.iter().map(|s| format!("{}: {}", s.key.escape_debug(), s.reason))).collect()
}

fn skipped_text(lines: &[String]) -> String {
    let mut out = format!("left out {}:", units::plural(lines.len() as u64, "file"));
    lines.iter().take(SHOWN_SKIPPED).for_each(|line| out += &format!("\n  {line}"));
    match lines.len().saturating_sub(SHOWN_SKIPPED) {
        0 => out,
        n => out + &format!("\n  … and {n} more (--json lists all)"),
    }
}

fn warn_below_target(report: &Report) {
    let below = |entry: &Value| match FieldSummary::parse(entry) {
        Some(FieldSummary::Pictures(pictures)) => pictures.below_target,
        _ => 0,
    };
    let count: u64 = report.fidelity.values().map(below).sum();
    if count > 0 {
        let pictures = units::plural(count, "picture");
        show::note(&format!("warning: {pictures} did not reach the `--target` score, even at quality 100"));
    }
}

/// Warns if many values have lost digits, because float16 is coarse below its normal range.
fn warn_subnormal(report: &Report) {
    for (field, entry) in &report.fidelity {
        let Some(FieldSummary::Array(arrays)) = FieldSummary::parse(entry) else { continue };
        let share = arrays.subnormal as f64 / arrays.values.max(1) as f64;
        if share > SUBNORMAL_WARNING {
            let text = format!(
                "warning: {:.1} % of the values in `{field}` are so close to 0 that float16 stores them less precisely",
                100.0 * share
            );
            let hint = Hint::new("pass ")
                .and([Setting::word("values", "fixed"), Setting::any("max_error", "E")])
                .then(" to limit the absolute error, or ")
                .and([Setting::word("values", "keep")])
                .then(" to store the exact values");
            show::next(&text, hint);
        }
    }
}

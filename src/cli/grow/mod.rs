//! `shardpack add`, `remove` and `compact`: manage the generations of a dataset.

pub(super) mod args;

use super::exit_status::ExitStatus;
use super::interrupt::{self, Interrupt};
use super::progress::Bar;
use super::{pack, show, units};
use crate::place::{Destination, for_adding, is_url};
use crate::read_limits;
use args::{AddArgs, CompactArgs, RemoveArgs};
use serde_json::json;
use shardpack_format::Voice;
use shardpack_pack::Context;
use shardpack_pack::grow::{AddOptions, AddReport, IndexReport, RewriteOptions, add, add_indexes, compact, remove};
use shardpack_pack::pack::{Hooks, Planned};
use shardpack_writer::{Outcome as Written, Output};
use std::cell::OnceCell;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum size of a key file in bytes, enough for a million keys of maximum length.
const MAX_KEYS_BYTES: u64 = 4 << 30;

pub(super) fn run_add(args: &AddArgs) -> crate::Result<ExitStatus> {
    // In a store, there is a claim to release from the start.
    let interrupt = interrupt::install(is_url(&args.dataset))?;
    let mut options =
        AddOptions { cancel: Some(Arc::clone(&interrupt.raised)), ..AddOptions::read(&args.options.given)? };
    let (mut src, to) = (args.src.clone(), args.to.destination(&args.dataset));
    let out = for_adding(&mut src, &mut options, &to, &[], Some(Arc::clone(&interrupt.raised)))?;
    let bar = OnceCell::new();
    let on_plan = |planned: &Planned<'_>| {
        interrupt.graceful.store(true, Ordering::SeqCst);
        let _ = bar.set(Bar::new("add", planned.source_bytes, Some(planned.samples)));
    };
    let on_progress = |p: &shardpack_writer::Progress| {
        if let Some(bar) = bar.get() {
            bar.pack(p);
        }
    };
    let hooks = Hooks { on_plan: &on_plan, on_progress: &on_progress, cancel: &interrupt.raised };
    let result = add(out, &src, &options, &hooks);
    if let Some(bar) = bar.get() {
        bar.finish();
    }
    let added = match result {
        Err(error) if interrupt.has_caused(&error, &args.dataset) => return Ok(interrupted()),
        other => other?,
    };
    added.packed.notes.iter().for_each(|note| show::note(&format!("note: {}", note.told(Voice::Command))));
    let skipped = pack::skipped_lines(&added.packed.bad, &added.packed.report);
    if args.json {
        show::json(&added.to_json())?;
    } else {
        show::print(&added_text(&added, &args.dataset))?;
    }
    Ok(pack::outcome_of(&skipped))
}

fn interrupted() -> ExitStatus {
    show::next("interrupted: the dataset is unchanged", "run the same command again to continue");
    ExitStatus::Interrupted
}

fn added_text(added: &AddReport, dataset: &Path) -> String {
    let (name, report) = (dataset.display(), &added.packed.report);
    let known = match added.known {
        0 => String::new(),
        n => format!("skipped {} with keys that the dataset already has\n", units::plural(n, "sample")),
    };
    let whole = format!("generation {} with {}", added.generation, units::plural(added.samples, "sample"));
    if report.outcome == Written::AlreadyComplete {
        return format!("nothing to add: `{name}` already has samples with these keys; it stays at {whole}\n{known}");
    }
    let reused = match report.shards_reused {
        0 => String::new(),
        n => format!(", {n} of them from an earlier run"),
    };
    let mut text = format!(
        "added {} in {}{reused}, {}, to `{name}` in {}: {whole}\n",
        units::plural(report.samples, "sample"),
        units::plural(u64::from(report.shards), "shard"),
        units::bytes(report.bytes_out),
        units::seconds(report.elapsed.as_secs_f64()),
    );
    text += &known;
    if !added.new_classes.is_empty() {
        let count = added.new_classes.len() as u64;
        text += &format!(
            "{}, numbered after the others: {}\n",
            units::plural(count, "new class"),
            first(&added.new_classes)
        );
    }
    text
}

pub(super) fn run_remove(args: &RemoveArgs) -> crate::Result<ExitStatus> {
    let keys = read_keys(&args.keys)?;
    let options = RewriteOptions { force: args.force, ..rewriting(args.threads, args.max_record) };
    let (interrupt, dataset) = (interrupt::install(true)?, args.to.destination(&args.dataset));
    let removed = rewrite("remove", &interrupt, &dataset, options, |out, options| remove(out, &keys, options))?;
    let Some(removed) = removed else { return Ok(interrupted()) };
    warn(&removed.notes);
    if args.json {
        show::json(&removed)?;
        return Ok(ExitStatus::Fine);
    }
    if removed.removed == 0 {
        show::print(&format!(
            "nothing to remove: `{}` no longer has these keys; it stays at generation {} with {}\n",
            args.dataset.display(),
            removed.generation,
            units::plural(removed.samples, "sample"),
        ))?;
    } else {
        let name = args.dataset.display();
        show::print(&format!(
            "removed {} from `{name}`: generation {} with {}; rewrote {}, {}\n\
             older generations still hold the removed samples; `shardpack compact {name}` deletes them\n",
            units::plural(removed.removed, "sample"),
            removed.generation,
            units::plural(removed.samples, "sample"),
            units::plural(u64::from(removed.shards), "shard"),
            units::bytes(removed.bytes_out),
        ))?;
    }
    show::print(&empty_text(&removed.empty_classes))?;
    Ok(ExitStatus::Fine)
}

fn rewriting(threads: Option<usize>, max_record: u64) -> RewriteOptions<'static> {
    let defaults = RewriteOptions::default();
    RewriteOptions { threads: threads.unwrap_or(defaults.threads).max(1), limits: read_limits(max_record), ..defaults }
}

/// Runs `work`, which writes a generation from the samples of the dataset, with a progress bar. Returns `None` if the
/// user interrupts it.
fn rewrite<R>(
    task: &'static str,
    interrupt: &Interrupt,
    dataset: &Destination,
    options: RewriteOptions<'static>,
    work: impl FnOnce(Output, &RewriteOptions<'_>) -> crate::Result<R>,
) -> crate::Result<Option<R>> {
    let out = dataset.output(&[], Some(Arc::clone(&interrupt.raised)))?;
    let bar = OnceCell::new();
    let on_progress = |p: &shardpack_writer::Progress| {
        bar.get_or_init(|| Bar::new(task, p.bytes_in_total, Some(p.samples_total))).pack(p);
    };
    let result =
        work(out, &RewriteOptions { on_progress: Some(&on_progress), cancel: Some(&interrupt.raised), ..options });
    if let Some(bar) = bar.get() {
        bar.finish();
    }
    match result {
        Err(error) if interrupt.has_caused(&error, &dataset.path) => Ok(None),
        other => other.map(Some),
    }
}

fn warn(notes: &[String]) {
    notes.iter().for_each(|note| show::note(&format!("warning: {note}")));
}

/// Number of classes shown in the text. `--json` lists all.
const SHOWN: usize = 5;

fn first(classes: &[String]) -> String {
    let names: Vec<String> = classes.iter().take(SHOWN).map(|name| format!("`{}`", show::plain(name))).collect();
    let more = match classes.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!(" and {} more (--json lists all)", units::count(n as u64)),
    };
    names.join(", ") + &more
}

fn empty_text(classes: &[String]) -> String {
    if classes.is_empty() {
        return String::new();
    }
    let stay = if classes.len() == 1 { "whose name stays" } else { "whose names stay" };
    format!(
        "{} without samples, {stay} in the manifest and in every shard: {}\n",
        units::plural(classes.len() as u64, "class"),
        first(classes),
    )
}

/// Reads a file with one key per line, ignoring empty lines.
fn read_keys(file: &Path) -> crate::Result<Vec<String>> {
    let mut text = String::new();
    let shown = || format!("cannot read the keys in `{}`", file.display());
    if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_KEYS_BYTES).read_to_string(&mut text).with_context(shown)?;
    } else {
        std::fs::File::open(file)
            .with_context(shown)?
            .take(MAX_KEYS_BYTES)
            .read_to_string(&mut text)
            .with_context(shown)?;
    }
    // Some editors start a file with a byte order mark. It is not part of the first key.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let keys: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if keys.is_empty() {
        shardpack_pack::bail!("`{}` contains no keys: expected a file with one key on each line", file.display());
    }
    Ok(keys)
}

pub(super) fn run_compact(args: &CompactArgs) -> crate::Result<ExitStatus> {
    let (to, in_store) = (args.to.destination(&args.dataset), is_url(&args.dataset));
    let interrupt = interrupt::install(args.segment_index || in_store)?;
    let mut indexed = None;
    if args.segment_index {
        let options = RewriteOptions { force: args.force, ..rewriting(args.threads, crate::MAX_RECORD_BYTES) };
        indexed = rewrite("index", &interrupt, &to, options, add_indexes)?;
        let Some(indexed) = &indexed else { return Ok(interrupted()) };
        warn(&indexed.notes);
    }
    // A folder needs no cleaning up after an interruption: the next run deletes the rest.
    interrupt.graceful.store(in_store, Ordering::SeqCst);
    let gone = match to.output(&[], Some(Arc::clone(&interrupt.raised))).map_err(Into::into).and_then(compact) {
        Err(error) if interrupt.has_caused(&error, &args.dataset) => {
            show::next("interrupted: the newest generation is whole", "run the same command again to delete the rest");
            return Ok(ExitStatus::Interrupted);
        }
        other => other?,
    };
    if args.json {
        let mut all = json!(gone);
        if let Some(indexed) = &indexed {
            all["segment_index"] = json!(indexed);
        }
        show::json(&all)?;
        return Ok(ExitStatus::Fine);
    }
    if let Some(indexed) = &indexed {
        show::print(&indexed_text(indexed, &args.dataset))?;
    }
    let name = args.dataset.display();
    if gone.generations.is_empty() && gone.shards.is_empty() {
        show::print(&format!("nothing to delete: `{name}` has only one generation\n"))?;
    } else {
        show::print(&format!(
            "deleted {} of `{name}`, and {} ({}) that only they used\n",
            units::plural(gone.generations.len() as u64, "older generation"),
            units::plural(gone.shards.len() as u64, "shard"),
            units::bytes(gone.bytes),
        ))?;
    }
    show::print(&empty_text(&gone.empty_classes))?;
    Ok(ExitStatus::Fine)
}

fn indexed_text(indexed: &IndexReport, dataset: &Path) -> String {
    let name = dataset.display();
    if indexed.shards == 0 {
        return format!("`{name}` already has segment indexes\n");
    }
    let mut text = format!(
        "added segment indexes ({}) to {} of `{name}`, which makes generation {}; rewrote {} ({})\n",
        units::bytes(indexed.index_bytes),
        units::plural(indexed.indexed, "picture"),
        indexed.generation,
        units::plural(u64::from(indexed.shards), "shard"),
        units::bytes(indexed.bytes_out),
    );
    if indexed.damaged > 0 {
        text += &format!("left {} unchanged\n", units::plural(indexed.damaged, "damaged picture"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn a_few_classes_are_named_and_the_others_counted() {
        let names: Vec<String> = (0..910).map(|number| format!("n{number}")).collect();
        assert_eq!(first(&names), "`n0`, `n1`, `n2`, `n3`, `n4` and 905 more (--json lists all)");
        assert_eq!(first(&names[..2]), "`n0`, `n1`");
    }
}

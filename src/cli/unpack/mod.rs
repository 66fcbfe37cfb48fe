//! `shardpack unpack`: writes samples back as files.

mod table;
mod work;

use super::args::UnpackArgs;
use super::exit_status::ExitStatus;
use super::progress::Bar;
use super::refuse::refuse_url_to_write;
use super::{interrupt, show, units};
use serde_json::json;
use shardpack_format::{Field, FieldKind, Note, visible_path};
use shardpack_pack::export::{FileNames, ICC_FIELD, OutFolder};
use shardpack_pack::pack::refuse_inside;
use shardpack_pack::{Context, bail};
use shardpack_reader::{Dataset, RecordView};
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;
use table::LabelTable;
use work::{Tally, Unpacker};

/// Number of samples and files shown in the text. `--json` lists all.
const SHOWN: usize = 50;

pub(super) fn run(args: &UnpackArgs) -> crate::Result<ExitStatus> {
    refuse_url_to_write(&args.dir, "unpack")?;
    refuse_inside(&args.dataset.path, &args.dir)?;
    let dataset = args.dataset.open(args.max_record)?;
    let interrupt = interrupt::install(true)?;
    let cancel = &interrupt.raised;
    let columns = table::columns(&dataset);
    let (names, table_name) = names(&dataset, columns.as_deref())?;
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot create `{}`", visible_path(&args.dir)))?;
    let _held = hold(&args.dir)?;
    let out = OutFolder::open(&args.dir).with_context(|| format!("cannot open `{}`", visible_path(&args.dir)))?;
    let start = Instant::now();
    let bar = Bar::new("unpack", dataset.shards().map(|s| s.bytes).sum(), Some(dataset.len()));
    let unpacker = Unpacker::new(&args.dir, &out, names, cancel);
    let threads = args.threads.unwrap_or_else(shardpack_io::cores).max(1);
    let mut table = columns
        .as_ref()
        .map(|columns| LabelTable::create(&dataset, columns, &out, args.dir.join(&table_name)))
        .transpose()?;
    let on_sample = |view: &RecordView<'_>| table.as_mut().map_or(Ok(()), |table| table.add(view));
    let done = unpacker.run(&dataset, threads, on_sample, |samples, bytes| bar.read(samples, bytes));
    bar.finish();
    let mut tally = done?;
    if cancel.load(Ordering::Relaxed) {
        let so_far = units::plural(tally.samples, "sample");
        show::next(&format!("interrupted after {so_far}"), "run the same command again to continue");
        return Ok(ExitStatus::Interrupted);
    }
    if let Some(table) = table {
        table.finish(&mut tally)?;
    }
    report(args, &dataset, &tally, start.elapsed().as_secs_f64())
}

/// Chooses all names before the first file is written. Skips the keys of unreadable shards, because no samples are
/// unpacked from them.
fn names(dataset: &Dataset, columns: Option<&[String]>) -> crate::Result<(FileNames, String)> {
    let shards: Vec<_> = dataset.shard_numbers().filter_map(|number| dataset.shard(number).ok()).collect();
    let in_table = |name: &String| columns.is_some_and(|columns| columns.contains(name));
    let keys = || shards.iter().flat_map(|shard| (0..shard.len()).filter_map(|record| shard.index().key(record)));
    let has_pictures = dataset.schema().stored().any(|field| field.kind == FieldKind::Image);
    // ICC profiles go back into their pictures instead of into files.
    let in_picture = |field: &Field| has_pictures && field.kind == FieldKind::Bytes && field.name == ICC_FIELD;
    let wanted = |field: &Field| !in_picture(field) && (field.kind != FieldKind::Text || !in_table(&field.name));
    let table = table::name(keys());
    let taken: &[&str] = if columns.is_some() { &[&table] } else { &[] };
    let names = FileNames::plan(dataset.schema(), wanted, taken, keys).map(|names| (names, table));
    names.map_err(|e| e.in_file(dataset.path().to_string_lossy())).context("cannot name the files")
}

/// Locks the folder against a second run. That run would mistake unfinished files of the first run
/// for the remains of a killed run.
fn hold(dir: &Path) -> crate::Result<Option<File>> {
    // On systems that cannot lock folders, the user must avoid a second run.
    let Ok(folder) = File::open(dir) else { return Ok(None) };
    match folder.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!("another `shardpack unpack` is writing to `{}`", visible_path(dir))
        }
        _ => Ok(Some(folder)),
    }
}

fn report(args: &UnpackArgs, dataset: &Dataset, tally: &Tally, seconds: f64) -> crate::Result<ExitStatus> {
    let damaged = tally.damaged();
    let list = |what: &str, items: &[&str]| {
        items.iter().take(SHOWN).for_each(|item| show::note(&format!("{what}: {item}")));
        if items.len() > SHOWN {
            show::note(&format!("… and {} more (--json lists all)", units::count((items.len() - SHOWN) as u64)));
        }
    };
    list("damaged", &damaged);
    let impossible: Vec<&str> = tally.impossible.iter().map(String::as_str).collect();
    list("not written", &impossible);
    if args.json {
        show::json(&json!({
            "samples": tally.samples,
            "files": tally.files,
            "already_there": tally.already_there,
            "bytes_out": tally.bytes,
            "seconds": seconds,
            "damaged": damaged,
            "occupied": tally.occupied,
            "impossible": tally.impossible,
        }))?;
    } else {
        let of =
            if tally.samples < dataset.len() { format!("{} of ", units::count(tally.samples)) } else { String::new() };
        let samples = units::plural(dataset.len(), "sample");
        let files = units::plural(tally.files, "file");
        let there = match tally.already_there {
            0 => String::new(),
            n => format!("; {} already existed", units::plural(n, "file")),
        };
        let (size, time, rate) =
            (units::bytes(tally.bytes), units::seconds(seconds), units::rate(tally.bytes, seconds));
        show::print(&format!("unpacked {of}{samples} into {files}: {size} in {time} ({rate}){there}\n"))?;
    }
    let occupied: Vec<&str> = tally.occupied.iter().map(String::as_str).collect();
    if !occupied.is_empty() {
        list("not overwritten, because the content differs", &occupied);
        let files = units::plural(occupied.len() as u64, "file");
        let exist = if occupied.len() == 1 { "already exists" } else { "already exist" };
        let text = format!("{files} {exist} with different content");
        bail!(Note::new(text).with_hint("unpack into another folder, or move the existing files"));
    }
    if !impossible.is_empty() {
        show::hint(&"use `shardpack cat` to write these fields to files with names that you choose".into());
    }
    if damaged.is_empty() && !impossible.is_empty() {
        return Ok(ExitStatus::Problem);
    }
    if !damaged.is_empty() {
        show::hint(&"run `shardpack verify` to list all problems in the dataset".into());
        return Ok(ExitStatus::Problem);
    }
    Ok(ExitStatus::Fine)
}

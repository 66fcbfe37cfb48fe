//! `shardpack cache`: lists, checks or clears the local cache of datasets in stores.

use super::args::{CacheArgs, CacheFolderArgs, CacheTask};
use super::exit_status::ExitStatus;
use super::{show, units};
use serde_json::json;
use shardpack_store::{BlockCount, CacheFolder};

pub(super) fn run(args: &CacheArgs) -> crate::Result<ExitStatus> {
    match &args.task {
        CacheTask::Ls(args) => list(args),
        CacheTask::Verify(args) => verify(args),
        CacheTask::Clear { folder, url } => clear(folder, url.as_deref()),
    }
}

fn list(args: &CacheFolderArgs) -> crate::Result<ExitStatus> {
    let datasets = CacheFolder::open(&args.folder)?.datasets()?;
    if args.json {
        let all: Vec<_> = datasets
            .iter()
            .map(|dataset| {
                json!({
                    "url": dataset.url,
                    "objects": dataset.objects,
                    "blocks": dataset.blocks,
                    "bytes": dataset.bytes,
                })
            })
            .collect();
        show::json(&json!({ "datasets": all }))?;
    } else if datasets.is_empty() {
        show::print("the cache is empty\n")?;
    } else {
        let rows: Vec<Vec<String>> = datasets
            .iter()
            .map(|dataset| {
                let numbers =
                    [units::count(dataset.objects), units::count(dataset.blocks), units::bytes(dataset.bytes)];
                [vec![show::plain(&dataset.url)], numbers.to_vec()].concat()
            })
            .collect();
        show::print(&show::table(&["dataset", "files", "blocks", "size"], &rows))?;
    }
    Ok(ExitStatus::Fine)
}

fn verify(args: &CacheFolderArgs) -> crate::Result<ExitStatus> {
    let check = CacheFolder::open(&args.folder)?.verify()?;
    if args.json {
        show::json(&json!({ "whole": counts(check.whole), "damaged": counts(check.damaged) }))?;
    } else {
        show::print(&format!("{} are intact, {} were damaged and removed\n", said(check.whole), said(check.damaged)))?;
    }
    Ok(if check.damaged.blocks == 0 { ExitStatus::Fine } else { ExitStatus::Problem })
}

fn clear(args: &CacheFolderArgs, url: Option<&str>) -> crate::Result<ExitStatus> {
    let removed = CacheFolder::open(&args.folder)?.clear(url)?;
    if args.json {
        show::json(&json!({ "removed": counts(removed) }))?;
    } else {
        show::print(&format!("{} removed\n", said(removed)))?;
    }
    Ok(ExitStatus::Fine)
}

fn counts(count: BlockCount) -> serde_json::Value {
    json!({ "blocks": count.blocks, "bytes": count.bytes })
}

fn said(count: BlockCount) -> String {
    format!("{} ({})", units::plural(count.blocks, "block"), units::bytes(count.bytes))
}

//! `shardpack verify`: every byte, and which sample is hurt.

use super::args::VerifyArgs;
use super::progress::Bar;
use super::{Outcome, interrupt, open, show, sniff, units};
use serde_json::json;
use shardpack_codec::PictureCheck;
use shardpack_format::{Error as FormatError, Limits};
use shardpack_reader::{Progress, VerifyOptions, VerifyReport, verify};
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Problems that the text lists one by one; `--json` has them all.
const SHOWN: usize = 50;

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<Outcome> {
    sniff::check(&args.dataset)?;
    let limits = open::limits(args.max_record);
    let interrupt = interrupt::install(true)?;
    let cancel = &interrupt.raised;
    let bar = OnceLock::new();
    let on_progress =
        |p: Progress| bar.get_or_init(|| Bar::new("verify", p.bytes_total)).read(p.samples_done, p.bytes_done);
    // Pictures are decoded only once their CRC32 was found right: these are as they were packed.
    let undecodable = AtomicU64::new(0);
    let decode = |media_type: &str, bytes: &[u8]| {
        check_picture(media_type, bytes, &limits).map_err(|e| {
            undecodable.fetch_add(u64::from(matches!(e, FormatError::Format { .. })), Ordering::Relaxed);
            e.to_string()
        })
    };
    let options = VerifyOptions {
        limits: limits.clone(),
        deep: args.deep.then_some(&decode),
        digest: args.digest,
        threads: args.threads.unwrap_or(0),
        on_progress: Some(&on_progress),
        cancel: Some(cancel),
        ..VerifyOptions::default()
    };
    let start = Instant::now();
    let mut report = verify(&args.dataset, &options)?;
    report.problems.iter_mut().for_each(|problem| problem.expected = show::in_flags(&problem.expected));
    let seconds = start.elapsed().as_secs_f64();
    if let Some(bar) = bar.get() {
        bar.finish();
    }
    let undecodable = undecodable.load(Ordering::Relaxed);
    if args.json {
        show::json(&json!({
            "whole": report.is_whole(),
            "shards": report.shards,
            "samples": report.samples,
            "damaged_samples": report.damaged_samples,
            "undecodable_pictures": undecodable,
            "bytes": report.bytes,
            "seconds": seconds,
            "deep": args.deep,
            "digest": args.digest,
            "problems": report.problems,
            "notes": report.notes,
        }))?;
    } else {
        show::print(&to_text(&report, args, undecodable, seconds))?;
    }
    Ok(match (report.cancelled, report.is_whole()) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::Problem,
    })
}

fn to_text(report: &VerifyReport, args: &VerifyArgs, undecodable: u64, seconds: f64) -> String {
    let mut out: String = report.notes.iter().map(|note| format!("note: {note}\n")).collect();
    for problem in report.problems.iter().take(SHOWN) {
        out += &format!("{problem}\n");
    }
    if report.problems.len() > SHOWN {
        out += &format!("… and {} more (--json lists all)\n", units::count((report.problems.len() - SHOWN) as u64));
    }
    let checked = match (args.deep, args.digest) {
        (false, false) => "every byte checked",
        (true, false) => "every byte checked and every field decoded",
        (false, true) => "every byte and every digest checked",
        (true, true) => "every byte and every digest checked, every field decoded",
    };
    let read = format!(
        "{} in {}, {} in {} ({})",
        units::plural(report.samples, "sample"),
        units::plural(report.shards, "shard"),
        units::bytes(report.bytes),
        units::seconds(seconds),
        units::rate(report.bytes, seconds)
    );
    let name = args.dataset.display();
    out += &match (report.cancelled, report.problems.len() as u64) {
        (true, n) => format!("interrupted: {} so far in `{name}` ({read})\n", units::plural(n, "problem")),
        (false, 0) => format!("`{name}` is whole: {checked}: {read}\n"),
        (false, n) if n == undecodable => format!(
            "`{name}` is as it was packed, but {} in it: {read}\n\
             hint: the stored bytes are those of the source files: these were damaged already, and `shardpack salvage` changes nothing about it\n",
            match n {
                1 => "1 picture does not decode".to_owned(),
                n => format!("{} pictures do not decode", units::count(n)),
            },
        ),
        (false, n) => format!(
            "`{name}` is damaged: {}, {} hurt: {read}\nhint: `shardpack salvage` copies what is whole\n",
            units::plural(n, "problem"),
            units::plural(report.damaged_samples, "sample"),
        ),
    };
    out
}

/// Decodes a picture with the decoder of this thread.
fn check_picture(media_type: &str, bytes: &[u8], limits: &Limits) -> Result<(), FormatError> {
    thread_local!(static CHECK: RefCell<Option<PictureCheck>> = const { RefCell::new(None) });
    CHECK.with_borrow_mut(|slot| {
        let check = match slot {
            Some(check) => check,
            none => none.insert(PictureCheck::new()?),
        };
        check.check(media_type, bytes, limits).map(|_| ())
    })
}

//! `shardpack verify`: checks every byte and lists the damaged samples.

use super::args::VerifyArgs;
use super::exit_status::ExitStatus;
use super::progress::Bar;
use super::{interrupt, show, units};
use crate::verify::{Checks, check};
use crate::{read_limits, sniff};
use shardpack_format::{Hint, Voice, told};
use shardpack_reader::{Progress, VerifyReport};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Number of problems shown in the text. `--json` lists all.
const SHOWN: usize = 50;

pub(super) fn run(args: &VerifyArgs) -> crate::Result<ExitStatus> {
    sniff::check(&args.dataset.path)?;
    let limits = read_limits(args.max_record);
    let interrupt = interrupt::install(true)?;
    let bar = OnceLock::new();
    let on_progress = |p: Progress| {
        bar.get_or_init(|| Bar::new("verify", p.bytes_total, p.samples_total)).read(p.samples_done, p.bytes_done)
    };
    let threads = args.threads.unwrap_or(0);
    let raised = &interrupt.raised;
    let settings = args.dataset.from.settings()?;
    let checks = Checks { deep: args.deep, digest: args.digest, generation: args.dataset.generation, limits, threads };
    let checked = check(&args.dataset.path, &settings, &checks, &on_progress, raised)?;
    if let Some(bar) = bar.get() {
        bar.finish();
    }
    let report = &checked.report;
    if args.json {
        show::json(&checked.to_json(args.deep, args.digest))?;
    } else {
        show::print(&to_text(report, args, checked.undecodable_pictures, checked.seconds))?;
    }
    Ok(match (report.cancelled, report.is_whole()) {
        (true, _) => ExitStatus::Interrupted,
        (false, true) => ExitStatus::Fine,
        (false, false) => ExitStatus::Problem,
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
    let name = args.dataset.path.display();
    let mut hints: BTreeSet<Hint> = report.problems.iter().filter_map(|problem| problem.hint.clone()).collect();
    let summary = match (report.cancelled, report.problems.len() as u64) {
        (true, n) => format!("interrupted: {} so far in `{name}` ({read})", units::plural(n, "problem")),
        (false, 0) => format!("`{name}` is intact: {checked}: {read}"),
        (false, n) if n == undecodable => {
            let files = if n == 1 { "file was" } else { "files were" };
            hints.insert(
                format!("the source {files} already damaged before packing, so `shardpack salvage` cannot help").into(),
            );
            match n {
                1 => format!("`{name}` has not been damaged since packing, but 1 picture cannot be decoded: {read}"),
                n => {
                    format!(
                        "`{name}` has not been damaged since packing, but {} pictures cannot be decoded: {read}",
                        units::count(n)
                    )
                }
            }
        }
        (false, n) => {
            hints.insert(
                "run `shardpack salvage` to copy the undamaged samples and rebuild a manifest (if no manifest is \
                 undamaged, removed samples may come back)"
                    .into(),
            );
            format!(
                "`{name}` is damaged: {}, {} damaged{}{}: {read}",
                units::plural(n, "problem"),
                units::plural(report.damaged_samples, "sample"),
                match report.missing_samples {
                    0 => String::new(),
                    n => format!(", {} missing", units::count(n)),
                },
                match undecodable {
                    0 => String::new(),
                    n => format!(", and {} that could not be decoded before packing", units::plural(n, "picture")),
                },
            )
        }
    };
    out += &told(summary, &hints, Voice::Command);
    out + "\n"
}

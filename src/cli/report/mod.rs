//! `shardpack report`: writes the page that compares lossy settings.

pub(super) mod args;
mod text;

use super::exit_status::ExitStatus;
use super::progress::Bar;
use super::{interrupt, show, units};
use crate::report;
use args::ReportArgs;
use shardpack_pack::options::ReportArguments;
use std::sync::atomic::Ordering;

const PAGE: &str = "report.html";

pub(super) fn run(args: &ReportArgs) -> crate::Result<ExitStatus> {
    let arguments = ReportArguments::read(&args.options.given)?;
    let page = args.output.clone().or_else(|| (!args.json).then(|| PAGE.into()));
    if let Some(page) = &page {
        report::check(page, arguments.force)?;
    }
    let interrupt = interrupt::install_patient()?;
    let cancel = &interrupt.raised;
    let bar = Bar::of_steps("report");
    let on_progress = |done, of, what| bar.step(done, of, what);
    let made = report::make(&args.src, &arguments, &on_progress, cancel);
    bar.finish();
    let data = match made {
        Ok((made, _)) => made,
        Err(_) if cancel.load(Ordering::Relaxed) => {
            show::note("interrupted before anything was measured, so no report was written");
            return Ok(ExitStatus::Interrupted);
        }
        Err(error) => return Err(error),
    };
    if let Some(page) = &page {
        report::write(page, &shardpack_report::page(&data))?;
    }
    data.notes.iter().for_each(|note| show::note(&format!("note: {}", show::plain(note))));
    if args.json {
        show::json(&data)?;
    } else {
        show::print(&text::of(&data, page.as_deref()))?;
    }
    if !data.unreadable.is_empty() {
        show::note(&text::unreadable(&data));
    }
    Ok(match (data.provenance.interrupted, data.unreadable.is_empty()) {
        (Some(part), _) => {
            let (done, of) = (part.done, units::plural(part.of, "sample"));
            show::note(&format!("interrupted: the report covers only {done} of {of}"));
            ExitStatus::Interrupted
        }
        (None, true) => ExitStatus::Fine,
        (None, false) => ExitStatus::Problem,
    })
}

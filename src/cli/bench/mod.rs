//! `shardpack bench`: measures how fast a dataset loads, finds the bottleneck, and gives advice.

pub(super) mod args;
mod device;
mod epoch;
mod limit;
mod report;
mod setup;
mod stream;
mod system;
mod view;

use super::exit_status::ExitStatus;
use super::progress::Bar;
use super::{interrupt, show, units};
use args::BenchArgs;
use report::Report;
use shardpack_format::{Error as FormatError, Hint, Note, Setting};

fn damaged() -> Note {
    let hint =
        Hint::new("run `shardpack verify` to list all damaged samples, or pass ").and([Setting::any("skip", "N")]);
    Note::new("stopped at a damaged sample").with_hint(hint.then(" to skip up to N of them in each epoch"))
}

pub(super) fn run(args: &BenchArgs) -> crate::Result<ExitStatus> {
    // This command writes nothing, so the first Ctrl-C may end the process at once.
    interrupt::install(false)?;
    if args.stream { stream::run(args) } else { load(args) }
}

fn load(args: &BenchArgs) -> crate::Result<ExitStatus> {
    let mut setup = setup::setup(args)?;
    let of_all = |once: u64| once.saturating_mul(args.epochs.into());
    let samples = of_all(setup.loader.dataset().len());
    let bar = Bar::new("bench", of_all(setup.workload.dataset_bytes), Some(samples));
    let mut epochs = Vec::new();
    for number in 0..args.epochs {
        if args.cold {
            system::drop_page_cache(setup.loader.dataset())?;
        }
        let ran = epoch::run(&mut setup.loader, number, &bar).and_then(|epoch| {
            // The loader counts skipped samples over all epochs, but `--skip` is per epoch.
            let few = args.skip == 0 || epoch.skipped <= args.skip;
            let (most, skipped) = (args.skip, epoch.skipped);
            let error = || {
                FormatError::malformed(format!(
                    "an epoch has {skipped} damaged samples, but `--skip` allows only {most}"
                ))
            };
            few.then_some(epoch).ok_or_else(|| error().into())
        });
        match ran {
            Ok(epoch) => epochs.push(epoch),
            Err(error) => {
                bar.finish();
                return Err(if show::is_about_data(&error) { error.context(damaged()) } else { error });
            }
        }
    }
    bar.finish();
    let warm_up = (args.epochs > 1 && !args.cold).then(|| epochs.remove(0));
    let median = epoch::median(&epochs);
    if args.cold && median.disk_bytes == Some(0) && setup.loader.dataset().traffic().requests == 0 {
        show::note(
            "note: nothing was read from a disk despite `--cold`: the files are in memory (tmpfs), or the page cache \
             could not be dropped",
        );
    }
    let report = Report { args, setup: &setup, warm_up, epochs, median };
    if args.json {
        show::json(&report.to_json())?;
    } else {
        show::print(&report.to_text())?;
    }
    match report.skipped() {
        0 => Ok(ExitStatus::Fine),
        skipped => {
            let skipped = units::plural(skipped, "damaged sample");
            show::next(&format!("{skipped} skipped"), "run `shardpack verify` to list the damaged samples");
            Ok(ExitStatus::Problem)
        }
    }
}

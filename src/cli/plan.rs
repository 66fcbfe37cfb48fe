//! `shardpack plan`: estimates the time, size and memory of packing in parts.

use super::exit_status::ExitStatus;
use super::pack::args::PlanArgs;
use super::{interrupt, show, units};
use crate::place::for_packing;
use shardpack_format::ErrorKind;
use shardpack_pack::pack::{Forecast, PackOptions, PartForecast, forecast};
use std::path::Path;
use std::sync::Arc;

const SHOWN_PARTS: usize = 12;

pub(super) fn run(args: &PlanArgs) -> crate::Result<ExitStatus> {
    let (mut src, mut options) = (
        args.pack.src.clone(),
        PackOptions::read_for_plan(&args.pack.options.given, &args.pack.out, args.pack.to.take_over)?,
    );
    let to = args.pack.to.destination(&args.pack.out);
    let out = for_packing(&mut src, &mut options.source, &to, &[], None)?;
    let interrupt = interrupt::install(false)?;
    options.source.cancel = Some(Arc::clone(&interrupt.raised));
    let found = match forecast(&src, out.path(), &options, args.parts) {
        Err(error) if error.kind() == ErrorKind::Cancelled => {
            return Ok(ExitStatus::Interrupted);
        }
        other => other?,
    };
    if args.pack.json {
        show::json(&found.to_json())?;
    } else {
        show::print(&text(&found, options.source.listing.as_deref()))?;
    }
    Ok(ExitStatus::Fine)
}

fn text(found: &Forecast, listing: Option<&Path>) -> String {
    let measured = found.measured;
    let parts = units::plural(found.parts.len() as u64, "part");
    let mut out = format!(
        "{} ({}) into {}, about {}, in {parts}\n",
        units::plural(found.samples, "sample"),
        units::bytes(found.source_bytes),
        units::plural(u64::from(found.shards), "shard"),
        units::bytes(found.stored_bytes),
    );
    let rows: Vec<Vec<String>> = found.parts.iter().take(SHOWN_PARTS).map(|part| row(found, part)).collect();
    out += &show::table(&["part", "shards", "samples", "sources", "records", "time"], &rows);
    if found.parts.len() > SHOWN_PARTS {
        out += &format!("  … and {} more (--json lists all)\n", found.parts.len() - SHOWN_PARTS);
    }
    let empty = found.empty();
    let time = format!(
        "{} for the longest part, {} for all parts in sequence",
        units::seconds(found.longest_seconds()),
        units::seconds(measured.seconds_for(found.source_bytes))
    );
    let rate = format!(
        "{}: {} on {} of this machine, not counting the time for writing",
        units::plural(measured.samples, "sample"),
        units::rate(measured.source_bytes, measured.seconds),
        units::plural(measured.threads as u64, "thread"),
    );
    let memory = format!(
        "{} for samples in progress, and {} for the file list, the plan and the program",
        units::bytes(found.memory_bytes),
        units::bytes(found.plan_rss_bytes)
    );
    let listed = match listing {
        Some(file) => format!("{}, written to `{}`", units::seconds(found.listing_seconds), file.display()),
        None => format!(
            "{} for each part, or once for all parts with --listing FILE",
            units::seconds(found.listing_seconds)
        ),
    };
    let mut pairs = vec![("time", time), ("measured on", rate), ("memory per part", memory), ("listing", listed)];
    if !empty.is_empty() {
        pairs.insert(0, ("empty parts", format!("{empty}: a smaller --shard-size makes more shards")));
    }
    out + &show::pairs(&pairs)
}

fn row(found: &Forecast, part: &PartForecast) -> Vec<String> {
    vec![
        part.part.to_string(),
        units::count(part.shards.len() as u64),
        units::count(part.samples),
        units::bytes(part.source_bytes),
        units::bytes(part.stored_bytes),
        units::seconds(found.measured.seconds_for(part.source_bytes)),
    ]
}

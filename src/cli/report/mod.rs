//! `shardpack report`: the page that shows what a lossy choice costs.

pub(super) mod args;
mod device;
mod file;
mod ladder;
pub(super) mod page_file;
mod text;

use super::args::{Command, FromStore, KindArg, WhenArg};
use super::progress::Bar;
use super::{Outcome, interrupt, open, show, units};
use anyhow::{Context, bail};
use args::ReportArgs;
use shardpack_format::MANIFEST_NAME;
use shardpack_pack::report::{self, Hooks, Opened, Plan, ReportOptions, quoted};
use shardpack_pack::sources::cubes::CubeOptions;
use shardpack_pack::sources::{Kind, SourceOptions};
use shardpack_report::data::Report;
use shardpack_report::want::Want;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The page's name if none is given.
const PAGE: &str = "report.html";

/// Data of a report, and a piece of HTML with its verdict and its curve, for a notebook.
#[derive(Debug)]
pub struct Reported {
    /// What `--json` prints.
    pub data: Report,
    /// For a notebook.
    pub fragment: String,
}

/// Runs `shardpack report ARGS…` without printing. The page is written if the arguments name a file.
///
/// ```
/// # use std::sync::{Arc, atomic::AtomicBool};
/// let error = shardpack::cli::report(["no/such/folder"], &|_, _, _| {}, &Arc::new(AtomicBool::new(false))).unwrap_err();
/// assert!(error.to_string().contains("no/such/folder"));
/// ```
///
/// # Errors
/// If the command would refuse the arguments, or nothing could be measured.
pub fn report<T: Into<OsString>>(
    args: impl IntoIterator<Item = T>,
    on_progress: &(dyn Fn(u64, u64, &'static str) + Sync),
    cancel: &Arc<AtomicBool>,
) -> anyhow::Result<Reported> {
    let own = ["shardpack", "report"].into_iter().map(OsString::from);
    let command_line: Vec<OsString> = own.chain(args.into_iter().map(Into::into)).collect();
    let Command::Report(args) = super::options::parsed(&command_line)? else {
        bail!("expected the arguments of `report`");
    };
    if let Some(page) = &args.output {
        page_file::check(page, args.force)?;
    }
    let data = make(&args, on_progress, cancel)?;
    if let Some(page) = &args.output {
        page_file::write(page, &shardpack_report::page(&data))?;
    }
    let fragment = shardpack_report::fragment(&data);
    Ok(Reported { data, fragment })
}

pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let page = args.output.clone().or_else(|| (!args.json).then(|| PAGE.into()));
    if let Some(page) = &page {
        page_file::check(page, args.force)?;
    }
    let interrupt = interrupt::install_patient()?;
    let cancel = &interrupt.raised;
    let bar = Bar::of_steps("report");
    let on_progress = |done, of, what| bar.step(done, of, what);
    let made = make(args, &on_progress, cancel);
    bar.finish();
    let report = match made {
        Ok(report) => report,
        Err(_) if cancel.load(Ordering::Relaxed) => {
            show::note("interrupted before anything was measured: there is no page");
            return Ok(Outcome::Interrupted);
        }
        Err(error) => return Err(error),
    };
    if let Some(page) = &page {
        page_file::write(page, &shardpack_report::page(&report))?;
    }
    report.notes.iter().for_each(|note| show::note(&format!("note: {}", show::plain(note))));
    if args.json {
        show::json(&report)?;
    } else {
        show::print(&text::of(&report, page.as_deref()))?;
    }
    if !report.unreadable.is_empty() {
        show::note(&text::unreadable(&report));
    }
    Ok(match (report.provenance.interrupted, report.unreadable.is_empty()) {
        (Some(part), _) => {
            let (done, of) = (part.done, units::plural(part.of, "sample"));
            show::note(&format!("interrupted: the report rests on {done} of {of} that were drawn"));
            Outcome::Interrupted
        }
        (None, true) => Outcome::Fine,
        (None, false) => Outcome::Problem,
    })
}

/// Makes the report that the arguments ask for.
///
/// # Errors
/// If the command would refuse them, or nothing could be measured.
pub(super) fn make(
    args: &ReportArgs,
    on_progress: &(dyn Fn(u64, u64, &'static str) + Sync),
    cancel: &Arc<AtomicBool>,
) -> anyhow::Result<Report> {
    let want = args.want.iter().map(|text| Want::parse(text, &units::parse_bytes)).collect::<Result<Vec<_>, _>>();
    let want = want.map_err(anyhow::Error::msg).context("--want")?;
    if args.max_error.iter().any(|error| !(error.is_finite() && *error > 0.0)) {
        bail!("--max-error: expected errors above zero, found {:?}", args.max_error);
    }
    let src = text_of(&args.src, "SRC")?;
    let common = common(args)?;
    let hooks = Hooks { on_progress, cancel };
    if is_dataset(&args.src) {
        return of_dataset(args, want, src, &hooks, cancel);
    }
    if let Some(source) = &args.source {
        bail!("--source: expected SRC to be a dataset, found `{src}`, with `{}` beside it", source.display());
    }
    // Before the sources are listed: a file of candidates may be wrong.
    let own = args.candidates.as_deref().map(file::read).transpose()?;
    let threads = args.threads.unwrap_or_else(open::all_cores).max(1);
    on_progress(0, 1, "listing");
    let opened = report::open(&args.src, &source_options(args, cancel), threads)?;
    refuse_wrong_kind(args, opened.kind())?;
    let rungs = own.unwrap_or_else(|| ladder::rungs(args, opened.kind(), &|| opened.cube_traits()));
    let plans: Vec<Plan> = rungs.into_iter().map(|rung| ladder::plan(rung, &src, &common)).collect::<Result<_, _>>()?;
    measure(args, &opened, &plans, want, &Given { src, common, threads }, &hooks)
}

/// Whether there is a manifest, or the file is a shard: then it is packed already.
fn is_dataset(path: &Path) -> bool {
    path.join(MANIFEST_NAME).is_file()
        || path.file_name().is_some_and(|name| name == MANIFEST_NAME)
        || path.extension().is_some_and(|extension| extension == "shard")
}

fn of_dataset(
    args: &ReportArgs,
    want: Vec<Want>,
    source: String,
    hooks: &Hooks<'_>,
    cancel: &Arc<AtomicBool>,
) -> anyhow::Result<Report> {
    let of_sources = args.candidates.is_some()
        || !(args.quality.is_empty() && args.target.is_empty() && args.subsampling.is_empty())
        || !(args.short_side.is_empty() && args.long_side.is_empty() && args.max_error.is_empty())
        || !args.codec.is_empty()
        || !args.metric.is_empty();
    let common = common(args)?;
    if of_sources || !(common.is_empty() || args.source.is_some()) {
        bail!("`{source}` is a dataset: options on candidates, on metrics and on reading sources are for sources");
    }
    if args.source.is_none() && args.device.is_some() {
        bail!(
            "`{source}` is a dataset: without `--source` nothing is decoded, and `--device` has no effect\nhint: `shardpack bench` measures the rate of a device"
        );
    }
    let threads = args.threads.unwrap_or_else(open::all_cores).max(1);
    let words: Vec<String> = common.iter().map(|argument| format!(" {}", quoted(argument))).collect();
    let dataset = open::dataset(&args.src, &open::limits(super::MAX_RECORD_BYTES), &FromStore::default())?;
    let options = ReportOptions {
        samples: args.samples,
        seed: args.seed,
        want,
        gallery: usize::from(args.gallery),
        metrics: Vec::new(),
        baseline_runs: 0,
        device: if args.source.is_some() { device::found(args.device)? } else { None },
        threads,
        memory_bytes: args.memory,
        source,
        command: command(args, &words.concat()),
        pack_command: String::new(),
    };
    let Some(sources) = &args.source else { return report::of_dataset(&dataset, &options, hooks) };
    (hooks.on_progress)(0, 1, "listing");
    let listing = SourceOptions { exclude: Some(args.src.clone()), ..source_options(args, cancel) };
    report::open(sources, &listing, threads)?.measure_dataset(&dataset, &options, hooks)
}

/// What the arguments say about the source.
struct Given {
    src: String,
    common: Vec<String>,
    threads: usize,
}

fn measure(
    args: &ReportArgs,
    opened: &Opened,
    plans: &[Plan],
    want: Vec<Want>,
    given: &Given,
    hooks: &Hooks<'_>,
) -> anyhow::Result<Report> {
    let words: Vec<String> = given.common.iter().map(|argument| quoted(argument)).collect();
    let common = if words.is_empty() { String::new() } else { format!(" {}", words.join(" ")) };
    let options = ReportOptions {
        samples: args.samples,
        seed: args.seed,
        want,
        gallery: usize::from(args.gallery),
        metrics: args.metric.clone(),
        baseline_runs: args.metric_baseline_runs,
        device: device::found(args.device)?,
        threads: given.threads,
        memory_bytes: args.memory,
        source: given.src.clone(),
        command: command(args, &common),
        pack_command: format!("shardpack pack {} OUT{common}", quoted(&given.src)),
    };
    opened.measure(plans, &options, hooks)
}

/// The command that repeats the run.
fn command(args: &ReportArgs, common: &str) -> String {
    let mut out = format!("shardpack report {}{common}", quoted(&args.src.to_string_lossy()));
    let mut put = |name: &str, value: String| out += &format!(" --{name}={}", quoted(&value));
    if let Some(source) = &args.source {
        put("source", source.to_string_lossy().into_owned());
    }
    if let Some(samples) = args.samples {
        put("samples", samples.to_string());
    }
    put("seed", args.seed.to_string());
    args.want.iter().for_each(|want| put("want", want.clone()));
    if let Some(device) = args.device {
        put("device", device.to_string());
    }
    args.metric.iter().for_each(|metric| put("metric", format!("{}={}", metric.name, metric.command)));
    if !args.metric.is_empty() {
        put("metric-baseline-runs", args.metric_baseline_runs.to_string());
    }
    if let Some(file) = &args.candidates {
        put("candidates", file.to_string_lossy().into_owned());
    }
    let list = |values: Vec<String>| values.join(",");
    let lists = [
        ("quality", list(args.quality.iter().map(ToString::to_string).collect())),
        ("target", list(args.target.iter().map(|score| format!("ssimulacra2={score}")).collect())),
        ("subsampling", list(args.subsampling.iter().map(ladder::spelled).collect())),
        ("short-side", list(args.short_side.iter().map(ToString::to_string).collect())),
        ("long-side", list(args.long_side.iter().map(ToString::to_string).collect())),
        ("max-error", list(args.max_error.iter().map(ToString::to_string).collect())),
        ("codec", list(args.codec.iter().map(ladder::spelled).collect())),
        ("filter", list(args.filter.iter().map(ladder::spelled).collect())),
    ];
    lists.into_iter().filter(|(_, list)| !list.is_empty()).for_each(|(name, list)| put(name, list));
    out
}

/// The arguments on reading the source, as `pack` takes them too.
fn common(args: &ReportArgs) -> anyhow::Result<Vec<String>> {
    let mut out = Vec::new();
    let mut put = |name: &str, value: String| out.push(format!("--{name}={value}"));
    match args.kind {
        Some(KindArg::Images) => put("kind", "images".into()),
        Some(KindArg::Cubes) => put("kind", "cubes".into()),
        None => {}
    }
    if let Some(labels) = &args.labels {
        put("labels", text_of(labels, "--labels")?);
    }
    if let Some(column) = &args.key_column {
        put("key-column", column.clone());
    }
    match args.class_folders {
        WhenArg::Auto => {}
        WhenArg::On => put("class-folders", "on".into()),
        WhenArg::Off => put("class-folders", "off".into()),
    }
    if let Some(masks) = &args.masks {
        put("masks", text_of(masks, "--masks")?);
    }
    if args.follow_links {
        out.push("--follow-links".into());
    }
    let mut put = |name: &str, value: String| out.push(format!("--{name}={value}"));
    if let Some(variable) = &args.variable {
        put("variable", variable.clone());
    }
    if let Some((height, width)) = args.spatial {
        put("spatial", format!("{height}x{width}"));
    }
    if args.max_cube != super::MAX_RECORD_BYTES {
        put("max-cube", args.max_cube.to_string());
    }
    Ok(out)
}

fn source_options(args: &ReportArgs, cancel: &Arc<AtomicBool>) -> SourceOptions {
    SourceOptions {
        kind: args.kind.map(|kind| match kind {
            KindArg::Images => Kind::Images,
            KindArg::Cubes => Kind::Cubes,
        }),
        labels: args.labels.clone(),
        key_column: args.key_column.clone(),
        follow_links: args.follow_links,
        masks: args.masks.clone(),
        class_folders: match args.class_folders {
            WhenArg::Auto => None,
            WhenArg::On => Some(true),
            WhenArg::Off => Some(false),
        },
        cubes: CubeOptions {
            variable: args.variable.clone(),
            spatial: args.spatial,
            max_bytes: args.max_cube,
            ..CubeOptions::default()
        },
        cancel: Some(Arc::clone(cancel)),
        ..SourceOptions::default()
    }
}

/// Refuses options that would have no effect: whoever gives them expects one.
fn refuse_wrong_kind(args: &ReportArgs, kind: Kind) -> anyhow::Result<()> {
    let of_pictures = !(args.quality.is_empty()
        && args.target.is_empty()
        && args.subsampling.is_empty()
        && args.short_side.is_empty()
        && args.long_side.is_empty());
    let of_cubes = !(args.max_error.is_empty() && args.codec.is_empty());
    match kind {
        Kind::Images if of_cubes || args.variable.is_some() || args.spatial.is_some() => {
            bail!("the source holds pictures: options on errors, codecs and variables are for cubes")
        }
        Kind::Cubes if of_pictures => bail!("the source holds cubes: options on quality and sizes are for pictures"),
        _ => Ok(()),
    }
}

/// A path as text: it stands on the page.
fn text_of(path: &Path, what: &str) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{what}: expected a path in UTF-8, found `{}`", path.display()))
}

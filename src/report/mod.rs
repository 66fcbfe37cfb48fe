//! Creates reports. A report shows how much quality and size each lossy setting costs.

mod arguments;
mod device;
mod file;
mod ladder;
mod page_file;

pub(crate) use device::DeviceName;
pub(crate) use page_file::data_of_page;
#[cfg(feature = "cli")]
pub(crate) use page_file::{check, write};

use crate::{MAX_RECORD_BYTES, place, read_limits, sniff};
use arguments::{argument, dashed, quoted};
use shardpack_format::{Hint, MANIFEST_NAME, Note, Setting, Voice};
use shardpack_pack::options::{ReportArguments, reading};
use shardpack_pack::report::{self, CandidateRecipe, DecodingDevice, Hooks, ReportOptions};
use shardpack_pack::{Context, bail};
use shardpack_reader::DatasetOptions;
use shardpack_recipe::{ArgumentError, OptionValue, is_given};
use shardpack_report::data::Report;
use shardpack_sources::{SourceKind, SourceOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The data of a report, and an HTML fragment with the verdict and the curve for a notebook.
#[derive(Debug)]
pub struct Reported {
    /// The data printed by `--json`.
    pub data: Report,
    /// HTML fragment for a notebook.
    pub fragment: String,
    /// Notes for the user about the data. Each front end formats the options in the notes in its own spelling.
    pub notes: Vec<Note>,
}

/// Creates the same report as `shardpack report`, without printing anything. Writes the page to `output`, if
/// given.
///
/// ```
/// # use std::sync::{Arc, atomic::AtomicBool};
/// let (arguments, cancel) = (Default::default(), Arc::new(AtomicBool::new(false)));
/// let source = "no/such/folder".as_ref();
/// let error = shardpack::report(source, None, &arguments, &|_, _, _| {}, &cancel).unwrap_err();
/// assert!(error.to_string().contains("no/such/folder"));
/// ```
///
/// # Errors
/// Fails if the command would refuse the arguments, or if nothing could be measured.
pub fn report(
    src: &Path,
    output: Option<&Path>,
    arguments: &ReportArguments,
    on_progress: &(dyn Fn(u64, u64, &'static str) + Sync),
    cancel: &Arc<AtomicBool>,
) -> crate::Result<Reported> {
    if let Some(page) = output {
        page_file::check(page, arguments.force)?;
    }
    let (data, notes) = make(src, arguments, on_progress, cancel)?;
    if let Some(page) = output {
        page_file::write(page, &shardpack_report::page(&data))?;
    }
    let fragment = shardpack_report::fragment(&data);
    Ok(Reported { data, fragment, notes })
}

pub(crate) fn make(
    path: &Path,
    args: &ReportArguments,
    on_progress: &(dyn Fn(u64, u64, &'static str) + Sync),
    cancel: &Arc<AtomicBool>,
) -> crate::Result<(Report, Vec<Note>)> {
    let src = text_of(path, "SRC")?;
    for (option, value) in &args.reading {
        if let OptionValue::Path(path) = value {
            text_of(path, option)?;
        }
    }
    let hooks = Hooks { on_progress, cancel };
    let asked = Asked { path, src, args, device: device_of(args)? };
    let (mut report, listed) = match is_dataset(path) {
        true => of_dataset(&asked, &hooks, cancel)?,
        false => of_sources(&asked, &hooks, cancel)?,
    };
    let notes: Vec<Note> = listed.into_iter().chain(report.notes.drain(..).map(Note::new)).collect();
    report.notes = notes.iter().map(|note| note.told(Voice::Command).replace('\n', " ")).collect();
    report.provenance.command = command(&asked);
    report.source = asked.src;
    Ok((report, notes))
}

struct Asked<'a> {
    path: &'a Path,
    src: String,
    args: &'a ReportArguments,
    device: Option<DeviceName>,
}

impl Asked<'_> {
    fn threads(&self) -> usize {
        self.args.threads.unwrap_or_else(shardpack_io::cores).max(1)
    }

    fn common(&self) -> String {
        let all = &self.args.reading;
        all.iter().map(|(name, value)| format!(" {}", quoted(&argument(name, value)))).collect()
    }
}

fn device_of(args: &ReportArguments) -> Result<Option<DeviceName>, ArgumentError> {
    let device = args.device.as_deref().map(str::parse).transpose();
    device.map_err(|said: String| ArgumentError::of("device", said))
}

fn is_dataset(path: &Path) -> bool {
    // A folder in a store counts as a dataset, because a report reads source files only from local folders.
    place::is_url(path)
        || path.join(MANIFEST_NAME).is_file()
        || path.file_name().is_some_and(|name| name == MANIFEST_NAME)
        || path.extension().is_some_and(|extension| extension == "shard")
}

/// Returns the first given option that applies only to source files. Options for reading also apply to a dataset that is
/// compared with its source files.
fn option_of_sources(args: &ReportArguments) -> Option<&'static str> {
    let candidates = args.candidates.is_some().then_some("candidates");
    let metric = (!args.metric.is_empty()).then_some("metric");
    let given = candidates.or(args.option_on_pictures()).or(args.option_on_cubes()).or(metric);
    let reading = || {
        let mut names = ReportArguments::about().map(|about| about.name);
        names.find(|name| is_given(&args.reading, name)).unwrap_or("source")
    };
    given.or_else(|| (args.source.is_none() && !args.reading.is_empty()).then(reading))
}

fn of_dataset(asked: &Asked<'_>, hooks: &Hooks<'_>, cancel: &Arc<AtomicBool>) -> crate::Result<(Report, Vec<Note>)> {
    let args = asked.args;
    let source = &asked.src;
    if let Some(option) = option_of_sources(args) {
        bail!(ArgumentError::of(option, format!("applies only to source files, but `{source}` is a dataset")));
    }
    if args.source.is_none() && asked.device.is_some() {
        let said = format!("has no effect without the source files of the dataset `{source}`");
        let hint = Hint::new("pass ").and([Setting::named("source")]);
        let hint = hint.then(" to compare with the source files, or run `shardpack bench` to measure a device");
        bail!(ArgumentError::of("device", said).with_hint(hint));
    }
    let dataset = open(asked.path)?;
    let Some(sources) = &args.source else {
        let mut report = report::of_dataset(&dataset, &options(asked, None)?, hooks)?;
        report.provenance.not_measured.push("Decode rates: `shardpack bench` measures them.".to_owned());
        return Ok((report, Vec::new()));
    };
    let options = options(asked, device::found(asked.device)?)?;
    (hooks.on_progress)(0, 1, "listing");
    // Do not read labels, so that a file next to class folders counts as a sample too.
    let class_folders = Some(false);
    let listing =
        SourceOptions { exclude: Some(asked.path.to_owned()), class_folders, ..source_options(args, cancel)? };
    let listed = report::open(sources, &listing, asked.threads())?;
    let mut report = listed.measure_dataset(&dataset, &options, hooks)?;
    name_metric_option(&mut report);
    Ok((report, listed.notes().to_vec()))
}

fn of_sources(asked: &Asked<'_>, hooks: &Hooks<'_>, cancel: &Arc<AtomicBool>) -> crate::Result<(Report, Vec<Note>)> {
    let args = asked.args;
    if let Some(source) = &args.source {
        let (src, source) = (&asked.src, source.display());
        bail!(ArgumentError::of(
            "source",
            format!("`{src}` is not a dataset, so it cannot be compared with the source files in `{source}`")
        ));
    }
    // Read the candidate file first: an error in it should be reported before the sources are listed.
    let own = args.candidates.as_deref().map(file::read).transpose()?;
    (hooks.on_progress)(0, 1, "listing");
    let listed = report::open(asked.path, &source_options(args, cancel)?, asked.threads())?;
    refuse_wrong_kind(args, listed.kind())?;
    let rungs = own.unwrap_or_else(|| ladder::rungs(args, listed.kind(), &|| listed.cube_traits()));
    let recipes: Vec<CandidateRecipe> =
        rungs.into_iter().map(|rung| ladder::recipe(rung, &args.reading)).collect::<Result<_, _>>()?;
    let options = options(asked, device::found(asked.device)?)?;
    let mut report = listed.measure(&recipes, &options, hooks)?;
    for (candidate, recipe) in report.candidates.iter_mut().zip(&recipes) {
        let own = recipe.own.iter().map(|(name, value)| (dashed(name), value.to_string()));
        candidate.options = own.collect();
        candidate.arguments = arguments_of(recipe);
    }
    report.verdict.command = pack_command(asked, &report, &recipes);
    if args.metric.is_empty() {
        name_metric_option(&mut report);
    }
    Ok((report, listed.notes().to_vec()))
}

fn arguments_of(recipe: &CandidateRecipe) -> Vec<String> {
    recipe.own.iter().map(|(name, value)| argument(name, value)).collect()
}

/// Returns the command that packs with the recommended candidate. Empty if there is none.
fn pack_command(asked: &Asked<'_>, report: &Report, recipes: &[CandidateRecipe]) -> String {
    let Some(chosen) = report.verdict.chosen.and_then(|chosen| recipes.get(chosen)) else { return String::new() };
    let skip = if report.unreadable.is_empty() { "" } else { " --on-bad-input skip" };
    let options: Vec<String> = arguments_of(chosen).iter().map(|argument| quoted(argument)).collect();
    let (src, common) = (quoted(&asked.src), asked.common());
    format!("shardpack pack {src} OUT{common} {}{skip}", options.join(" ")).trim_end().to_owned()
}

/// Puts the accuracy of the user's model at the start of the list of missing measurements, and
/// names the option that measures it.
fn name_metric_option(report: &mut Report) {
    let option = Setting::named("metric").spelled(Voice::Command);
    let own = format!(
        "The accuracy of your model: `{option}` trains it on each candidate, and on the original with several seeds."
    );
    report.provenance.not_measured.insert(0, own);
}

fn options(asked: &Asked<'_>, device: Option<Arc<dyn DecodingDevice>>) -> crate::Result<ReportOptions> {
    let args = asked.args;
    Ok(ReportOptions {
        samples: args.samples,
        seed: args.seed,
        want: args.wants()?,
        gallery: usize::from(args.gallery),
        metrics: args.metric.clone(),
        baseline_runs: args.metric_baseline_runs.unwrap_or(ReportArguments::BASELINE_RUNS),
        device,
        threads: asked.threads(),
        memory_bytes: args.memory,
    })
}

/// Returns the command that repeats the run.
fn command(asked: &Asked<'_>) -> String {
    let args = asked.args;
    let mut out = format!("shardpack report {}{}", quoted(&asked.src), asked.common());
    let mut put = |name: &str, value: String| out += &format!(" --{name}={}", quoted(&value));
    if let Some(source) = &args.source {
        put("source", source.to_string_lossy().into_owned());
    }
    if let Some(samples) = args.samples {
        put("samples", samples.to_string());
    }
    put("seed", args.seed.to_string());
    args.want.iter().for_each(|want| put("want", want.clone()));
    if let Some(device) = asked.device {
        put("device", device.to_string());
    }
    args.metric.iter().for_each(|metric| put("metric", format!("{}={}", metric.name, metric.command)));
    if !args.metric.is_empty() {
        let runs = args.metric_baseline_runs.unwrap_or(ReportArguments::BASELINE_RUNS);
        put("metric-baseline-runs", runs.to_string());
    }
    if let Some(file) = &args.candidates {
        put("candidates", file.to_string_lossy().into_owned());
    }
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &args.ladders {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names.into_iter().for_each(|name| put(&dashed(name), args.ladder(name).join(",")));
    out
}

fn source_options(args: &ReportArguments, cancel: &Arc<AtomicBool>) -> Result<SourceOptions, ArgumentError> {
    Ok(SourceOptions { cancel: Some(Arc::clone(cancel)), ..reading(&args.reading)? })
}

/// Fails for options that have no effect on sources of this kind.
fn refuse_wrong_kind(args: &ReportArguments, kind: SourceKind) -> crate::Result<()> {
    let (option, text) = match kind {
        SourceKind::Images => {
            let reading = || ["variable", "spatial"].into_iter().find(|name| is_given(&args.reading, name));
            let option = args.option_on_cubes().or_else(reading);
            (option, "applies only to cubes, but the source has pictures")
        }
        SourceKind::Cubes => (args.option_on_pictures(), "applies only to pictures, but the source has cubes"),
    };
    option.map_or(Ok(()), |option| Err(ArgumentError::of(option, text).into()))
}

fn text_of(path: &Path, what: &str) -> crate::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{what}: the path `{}` is not valid UTF-8", path.display()))
}

fn open(path: &Path) -> crate::Result<shardpack_reader::Dataset> {
    sniff::check(path)?;
    let options = DatasetOptions::new().limits(read_limits(MAX_RECORD_BYTES));
    place::open(path, &options, &[]).context("cannot open the dataset")
}

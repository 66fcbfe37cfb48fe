//! Measures whole datasets. Runs the user's own metrics on them, and times how fast a device decodes them.
//!
//! The report's samples are packed once unchanged, and once for each candidate.

use super::maker::Maker;
use super::measure::Measurement;
use super::options::MetricCommand;
use super::sampled::first_line;
use crate::pack::{Hooks as PackHooks, PackOptions, pack_listing};
use crate::{Context, bail};
use shardpack_array::{ArrayOptions, Values};
use shardpack_recipe::{Jpeg, PictureOptions};
use shardpack_report::data::{Metric, MetricValue, Report};
use shardpack_sources::{Listing, SourceKind};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Environment variable that contains the number of the run.
const RUN: &str = "SHARDPACK_METRIC_RUN";
const PAUSE: Duration = Duration::from_millis(20);

/// Measures the candidates on the samples at these positions of the listing. The report lists errors, and the
/// measurements that are missing because the run was stopped.
pub(super) fn add(report: &mut Report, measurement: &Measurement<'_>, positions: &[usize]) -> crate::Result<()> {
    if measurement.options.metrics.is_empty() && measurement.options.device.is_none() {
        return Ok(());
    }
    let folder =
        tempfile::Builder::new().prefix("shardpack-report-").tempdir().context("cannot create a temporary folder")?;
    let listing = measurement.listing.subset(positions);
    let original = folder.path().join("original");
    let mut metrics: Vec<Metric> = measurement.options.metrics.iter().map(empty).collect();
    if let (false, Some(recipe)) = (metrics.is_empty() || measurement.is_cancelled(), measurement.recipes.first())
        && let Err(error) = pack(measurement, &listing, &original, &unchanged(listing.kind, &recipe.options))
        && !measurement.is_cancelled()
    {
        // Without the original dataset, the candidates cannot be compared with anything.
        let what = format!("the original cannot be packed: {}", first_line(&error.to_string()));
        report.metrics = metrics.into_iter().map(|metric| Metric { failures: vec![what.clone()], ..metric }).collect();
        metrics = Vec::new();
    }
    let mut steps = Steps::new(measurement, metrics.len());
    for metric in &mut metrics {
        for run in (0..measurement.options.baseline_runs).take_while(|_| !measurement.is_cancelled()) {
            steps.next("your metric");
            match number(measurement, &metric.command, [&original, &original], run) {
                Ok(value) => metric.baseline.push(value),
                Err(error) => metric.failures.push(format!("original, run {run}: {error}")),
            }
        }
    }
    for (candidate, recipe) in measurement.recipes.iter().enumerate().filter(|_| !measurement.is_cancelled()) {
        let packed = CandidateDataset::of(measurement, &listing, candidate, folder.path());
        for metric in &mut metrics {
            steps.next("your metric");
            match packed.path().and_then(|path| number(measurement, &metric.command, [&original, path], 0)) {
                Ok(value) => {
                    let within_spread = within(&metric.baseline, value);
                    metric.values.push(MetricValue { candidate, value, within_spread });
                }
                Err(error) => metric.failures.push(format!("{}: {error}", recipe.name)),
            }
        }
        if let Some(device) = &measurement.options.device {
            steps.next("timing the device");
            match (packed.path().and_then(|path| device.samples_per_s(path)), report.candidates.get_mut(candidate)) {
                (Ok(rate), Some(candidate)) => candidate.rates.decode_device_per_s = Some(rate),
                (Ok(_), None) => {}
                (Err(error), _) => {
                    let what = first_line(&error.to_string());
                    report
                        .notes
                        .push(format!("could not measure the decode rate of {} on the device: {what}", recipe.name));
                }
            }
        }
        packed.remove()?;
    }
    if measurement.is_cancelled() {
        metrics.iter_mut().for_each(|metric| metric.failures.push("interrupted before all runs were done".into()));
    }
    report.metrics.extend(metrics);
    Ok(())
}

struct Steps<'a> {
    measurement: &'a Measurement<'a>,
    done: u64,
    of: u64,
}

impl<'a> Steps<'a> {
    fn new(measurement: &'a Measurement<'a>, metrics: usize) -> Self {
        let a_candidate = metrics + usize::from(measurement.options.device.is_some());
        let of = measurement.recipes.len() * a_candidate + metrics * measurement.options.baseline_runs as usize;
        Self { measurement, done: 0, of: of as u64 }
    }

    fn next(&mut self, what: &'static str) {
        (self.measurement.hooks.on_progress)(self.done, self.of, what);
        self.done += 1;
    }
}

enum CandidateDataset {
    /// A temporary dataset. Only one exists at a time, because it may be as large as the samples themselves.
    Made(PathBuf),
    Found(PathBuf),
    /// There is no dataset. The string says why.
    None(String),
}

impl CandidateDataset {
    fn of(measurement: &Measurement<'_>, listing: &Listing, candidate: usize, folder: &Path) -> Self {
        if let Some(Ok(Maker::Dataset(records))) = measurement.prepared.get(candidate) {
            return Self::Found(records.dataset.path().to_owned());
        }
        let path = folder.join(format!("candidate-{}", candidate + 1));
        let Some(recipe) = measurement.recipes.get(candidate) else {
            return Self::None("no such candidate".to_owned());
        };
        match pack(measurement, listing, &path, &recipe.options) {
            Ok(()) => Self::Made(path),
            Err(error) => Self::None(format!("cannot be packed: {}", first_line(&error.to_string()))),
        }
    }

    fn path(&self) -> crate::Result<&Path> {
        match self {
            Self::Made(path) | Self::Found(path) => Ok(path),
            Self::None(why) => bail!("{why}"),
        }
    }

    fn remove(self) -> crate::Result<()> {
        match self {
            Self::Made(path) => {
                std::fs::remove_dir_all(&path).with_context(|| format!("cannot remove `{}`", path.display()))
            }
            Self::Found(_) | Self::None(_) => Ok(()),
        }
    }
}

fn empty(command: &MetricCommand) -> Metric {
    let MetricCommand { name, command } = command.clone();
    Metric { name, command, baseline: Vec::new(), values: Vec::new(), failures: Vec::new() }
}

/// Returns options that keep the bytes of picture files and all bits of cubes.
fn unchanged(kind: SourceKind, options: &PackOptions) -> PackOptions {
    let (pictures, arrays) = match kind {
        SourceKind::Images => (PictureOptions::of(Jpeg::Keep), ArrayOptions::default()),
        SourceKind::Cubes => {
            (PictureOptions::default(), ArrayOptions { values: Values::Keep, ..ArrayOptions::default() })
        }
    };
    PackOptions { pictures, arrays, ..options.clone() }
}

fn pack(measurement: &Measurement<'_>, listing: &Listing, out: &Path, options: &PackOptions) -> crate::Result<()> {
    let hooks = PackHooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: measurement.hooks.cancel };
    let options = PackOptions { threads: measurement.options.threads, ..options.clone() };
    pack_listing(listing, &out.into(), &options, &hooks).map(drop)
}

/// Returns true if `value` is within the range of `baseline`, or `None` if `baseline` has fewer than two values.
fn within(baseline: &[f64], value: f64) -> Option<bool> {
    let low = baseline.iter().copied().reduce(f64::min)?;
    let high = baseline.iter().copied().reduce(f64::max)?;
    (baseline.len() > 1).then(|| (low..=high).contains(&value))
}

/// Runs a command and parses the number that it prints. Cancelling the report also stops the command.
fn number(
    measurement: &Measurement<'_>,
    command: &str,
    [original, candidate]: [&Path; 2],
    run: u32,
) -> crate::Result<f64> {
    // Use files instead of pipes, because this thread waits for the command and could not drain them.
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new("sh")
        .args(["-c", &format!("{command} \"$@\""), "shardpack-metric"])
        .args([original, candidate])
        .env(RUN, run.to_string())
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()
        .context("cannot start `sh`")?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if measurement.is_cancelled() {
            // The command may have ended in the meantime, so killing it may fail.
            let _ = child.kill();
            child.wait()?;
            bail!("stopped");
        }
        std::thread::sleep(PAUSE);
    };
    let last = |file: &mut File| -> crate::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
    };
    if !status.success() {
        bail!("{status}: {}", last(&mut err)?);
    }
    let line = last(&mut out)?;
    match line.parse() {
        Ok(value) if f64::is_finite(value) => Ok(value),
        _ => bail!("expected a number in the last line of output, found {line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_takes_two_runs() {
        assert_eq!(within(&[], 1.0), None);
        assert_eq!(within(&[1.0], 1.0), None);
        assert_eq!(within(&[1.0, 3.0], 3.0), Some(true));
        assert_eq!(within(&[1.0, 3.0, 2.0], 0.9), Some(false));
    }
}

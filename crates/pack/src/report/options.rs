//! Report options, including the candidates, the conditions, and hooks for progress and cancellation.

use crate::pack::PackOptions;
use shardpack_recipe::OptionValue;
use shardpack_report::want::Want;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One way to store the samples, measured as a candidate.
#[derive(Debug, Clone)]
pub struct CandidateRecipe {
    /// Short name for display.
    pub name: String,
    /// Name of the ladder that the candidate belongs to.
    pub group: String,
    /// The `pack` options that distinguish this candidate from the others, by name.
    pub own: Vec<(String, OptionValue)>,
    /// All packing options of the candidate.
    pub options: PackOptions,
}

/// Options for measuring a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Number of samples to draw. `None` draws 64 first, then up to 512 until the size is predicted to ±2 %.
    pub samples: Option<u64>,
    /// Seed for drawing the samples.
    pub seed: u64,
    /// Conditions for the recommended candidate. If empty, the defaults apply.
    pub want: Vec<Want>,
    /// Number of worst samples in the gallery, and also the number of random samples.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Number of runs of each metric on the unchanged samples, which shows how much the metric varies by chance.
    pub baseline_runs: u32,
    /// Device on which decoding is also timed, if any.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Number of worker threads.
    pub threads: usize,
    /// Memory limit for samples, in bytes. `None` uses the same default as `pack`.
    pub memory_bytes: Option<u64>,
}

/// A command that prints a number.
///
/// A shell runs the command with two extra arguments, the paths of two datasets: the unchanged samples, and the
/// same samples packed with a candidate. `SHARDPACK_METRIC_RUN` is the number of the run, counted from 0. It
/// can serve as a seed. The last line that the command prints must be the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCommand {
    /// The user's name for the metric.
    pub name: String,
    /// The shell command.
    pub command: String,
}

impl std::str::FromStr for MetricCommand {
    type Err = String;

    /// Parses `NAME=COMMAND`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, command)) if !name.trim().is_empty() && !command.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), command: command.trim().to_owned() })
            }
            _ => Err("expected NAME=COMMAND, such as `accuracy=python train.py`".to_owned()),
        }
    }
}

/// A device whose decode rate is measured.
pub trait DecodingDevice: std::fmt::Debug + Send + Sync {
    /// Returns the display name of the device.
    fn name(&self) -> &str;

    /// Returns the number of samples of a dataset that the device decodes per second.
    ///
    /// # Errors
    /// Fails if the device cannot decode the dataset.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64>;
}

/// A callback that reports on a run, and a flag that cancels it.
pub struct Hooks<'a> {
    /// Called with the number of finished steps, the total number of steps, and the name of the current step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Cancels the run when set. The report then has the measurements made so far.
    pub cancel: &'a AtomicBool,
}

//! The options of a report: the candidates, the draw, the conditions, and the hooks that follow a run.

use crate::pack::PackOptions;
use shardpack_recipe::OptionValue;
use shardpack_report::want::Want;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One way to store the samples, as a candidate to measure.
#[derive(Debug, Clone)]
pub struct CandidateRecipe {
    /// A short name for people.
    pub name: String,
    /// The ladder of the candidate.
    pub group: String,
    /// The options of `pack` of this candidate, by name.
    pub own: Vec<(String, OptionValue)>,
    /// All options.
    pub options: PackOptions,
}

/// The options of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Number of samples to draw; `None` draws until the predicted size is known to ±2 %, between 64 and 512.
    pub samples: Option<u64>,
    /// Seed of the draw.
    pub seed: u64,
    /// Conditions of the verdict; empty for the defaults.
    pub want: Vec<Want>,
    /// Samples in the gallery: this many of the worst, and this many at random.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Number of runs of each metric on the original.
    pub baseline_runs: u32,
    /// Device on which decoding is also timed.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Number of worker threads.
    pub threads: usize,
    /// Limit on the bytes of samples in flight; `None` means the limit of packing.
    pub memory_bytes: Option<u64>,
}

/// A command that prints a number.
///
/// A shell runs it with two more arguments, the paths of two datasets: the unchanged samples, and the samples under a
/// candidate. `SHARDPACK_METRIC_RUN` holds the index of the run, from 0, for use as a seed. The last printed line is
/// the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCommand {
    /// The user's name for the number.
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

/// Device whose decode rate is measured.
pub trait DecodingDevice: std::fmt::Debug + Send + Sync {
    /// Returns the name of the device for people.
    fn name(&self) -> &str;

    /// Returns the samples of a dataset that it decodes per second.
    ///
    /// # Errors
    /// Fails if it cannot decode them.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64>;
}

/// Hooks that follow a run and can stop it.
pub struct Hooks<'a> {
    /// Called with the number of finished steps, the number of all steps, and the name of the step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Set it to stop; the report then has the measurements so far.
    pub cancel: &'a AtomicBool,
}

//! Report options: the candidates, the draw, the conditions, and the hooks that follow a run.

use crate::pack::PackOptions;
use shardpack_recipe::OptionValue;
use shardpack_report::want::Want;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One way to store the samples, measured as a candidate.
#[derive(Debug, Clone)]
pub struct CandidateRecipe {
    /// Short display name.
    pub name: String,
    /// Name of the candidate's ladder.
    pub group: String,
    /// This candidate's own `pack` options, by name.
    pub own: Vec<(String, OptionValue)>,
    /// All options.
    pub options: PackOptions,
}

/// Options of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Number of samples to draw; `None` draws 64 to 512, until the predicted size is known to ±2 %.
    pub samples: Option<u64>,
    /// Seed of the draw.
    pub seed: u64,
    /// Conditions of the verdict. Empty for the defaults.
    pub want: Vec<Want>,
    /// Number of worst samples in the gallery, and of random ones.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Number of runs of each metric on the original.
    pub baseline_runs: u32,
    /// Device on which decoding is also timed, if any.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Number of worker threads.
    pub threads: usize,
    /// Limit on the bytes of samples in flight; `None` means packing's limit.
    pub memory_bytes: Option<u64>,
}

/// A command that prints a number.
///
/// A shell runs it with two more arguments, the paths of two datasets: the unchanged samples, and the samples
/// under a candidate. `SHARDPACK_METRIC_RUN` holds the index of the run, from 0, for use as a seed. The last
/// printed line is the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCommand {
    /// User's name for the number.
    pub name: String,
    /// Shell command.
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
    /// Fails if the device cannot decode them.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64>;
}

/// Hooks that follow a run and can stop it.
pub struct Hooks<'a> {
    /// Progress callback: number of finished steps, number of all steps, and name of the step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Flag that stops the run. The report then has the measurements so far.
    pub cancel: &'a AtomicBool,
}

//! Report options: the candidates, the draw, the conditions, and callbacks for following a run.

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
    /// Name of the ladder to which the candidate belongs.
    pub group: String,
    /// The `pack` options by which this candidate differs from others, by name.
    pub own: Vec<(String, OptionValue)>,
    /// All packing options of the candidate.
    pub options: PackOptions,
}

/// Options of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Number of samples to draw. `None` draws 64 at first, and then up to 512, until the predicted size is
    /// known to ±2 %.
    pub samples: Option<u64>,
    /// Seed of the draw.
    pub seed: u64,
    /// Conditions that the recommended candidate must meet. If empty, the defaults apply.
    pub want: Vec<Want>,
    /// Number of worst samples in the gallery, and also the number of random samples.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Number of times that each metric is run on the original alone.
    pub baseline_runs: u32,
    /// Device on which decoding is timed too, if any.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Number of worker threads.
    pub threads: usize,
    /// Limit on the bytes of samples in memory; `None` means the limit that packing uses.
    pub memory_bytes: Option<u64>,
}

/// A command that prints a number.
///
/// A shell runs the command with two more arguments, the paths of two datasets: the unchanged samples, and
/// the samples under a candidate. `SHARDPACK_METRIC_RUN` holds the index of the run, from 0, which can serve
/// as a seed. The number is the last line that the command prints.
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

/// A device whose decode rate is measured.
pub trait DecodingDevice: std::fmt::Debug + Send + Sync {
    /// Returns the display name of the device.
    fn name(&self) -> &str;

    /// Returns how many samples of a dataset the device decodes per second.
    ///
    /// # Errors
    /// Fails if the device cannot decode the dataset.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64>;
}

/// A callback that reports on a run, and a flag that stops it.
pub struct Hooks<'a> {
    /// Callback for progress. Its arguments are the number of finished steps, the number of all steps, and
    /// the name of the step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Flag that stops the run when it is set. The report then has the measurements made so far.
    pub cancel: &'a AtomicBool,
}

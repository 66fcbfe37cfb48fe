//! The options of a report: the candidates, the draw, the conditions, and the hooks that follow a run.

use crate::pack::PackOptions;
use shardpack_recipe::Value;
use shardpack_report::want::Want;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One way to store the samples, to be measured.
#[derive(Debug, Clone)]
pub struct CandidateRecipe {
    /// A short name for people.
    pub name: String,
    /// The ladder that it is a rung of.
    pub group: String,
    /// The options of `pack` that make it, by their names.
    pub own: Vec<(String, Value)>,
    /// All options.
    pub options: PackOptions,
}

/// The options of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Samples to draw; `None`: as many as make the predicted size known to ±2 %, between 64 and
    /// 512.
    pub samples: Option<u64>,
    /// Seed of the draw.
    pub seed: u64,
    /// Conditions of the verdict; empty: the defaults.
    pub want: Vec<Want>,
    /// Samples in the gallery: this many of the worst, and this many at random.
    pub gallery: usize,
    /// The user's own metrics.
    pub metrics: Vec<MetricCommand>,
    /// Times that each of them is run on the original.
    pub baseline_runs: u32,
    /// A device whose decoding is timed too.
    pub device: Option<Arc<dyn DecodingDevice>>,
    /// Worker threads.
    pub threads: usize,
    /// Limit on the bytes of samples in flight; `None`: as packing.
    pub memory_bytes: Option<u64>,
}

/// A command that prints a number.
///
/// A shell runs it with two more arguments, the paths of two datasets: the samples as they are, and
/// under a candidate. In `SHARDPACK_METRIC_RUN` is the number of the run, from 0 on, which is meant
/// as a seed. The last line that it prints is the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCommand {
    /// The user's name for the number.
    pub name: String,
    /// The command, as a shell takes it.
    pub command: String,
}

impl std::str::FromStr for MetricCommand {
    type Err = String;

    /// `NAME=COMMAND`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, command)) if !name.trim().is_empty() && !command.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), command: command.trim().to_owned() })
            }
            _ => Err("expected NAME=COMMAND, such as `accuracy=python train.py`".to_owned()),
        }
    }
}

/// A device whose rate is measured.
pub trait DecodingDevice: std::fmt::Debug + Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Samples of a dataset that it decodes a second.
    ///
    /// # Errors
    /// If it cannot decode them.
    fn samples_per_s(&self, dataset: &Path) -> crate::Result<f64>;
}

/// Follows a run, and can stop it.
pub struct Hooks<'a> {
    /// Called with the steps done, the steps in all, and the name of the step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Set it to stop: what is measured by then is reported.
    pub cancel: &'a AtomicBool,
}

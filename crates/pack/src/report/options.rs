//! The options of a report: the candidates, the draw, the conditions, and the hooks that follow a run.

use super::datasets::{DecodingDevice, MetricCommand};
use crate::pack::PackOptions;
use shardpack_recipe::Value;
use shardpack_report::want::Want;
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

/// Follows a run, and can stop it.
pub struct Hooks<'a> {
    /// Called with the steps done, the steps in all, and the name of the step.
    pub on_progress: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Set it to stop: what is measured by then is reported.
    pub cancel: &'a AtomicBool,
}

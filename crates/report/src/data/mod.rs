//! The data of a report: the types behind `shardpack report --json` and behind the page.
//!
//! A value that was not measured is `None`, and not in the JSON. Floats are finite: what is infinite
//! or has no meaning is `None`, too. Names end in their unit.

mod candidate;
mod cubes;
mod gallery;
mod measure;
mod metric;
mod provenance;

pub use candidate::{Candidate, Distribution, Estimate, FailedSample, Predictions, Rates, StoredSample};
pub use cubes::{BandError, CubePanel, Histogram, SpectrumPair, Why};
pub use gallery::{EmbeddedPicture, GalleryItem, Rect};
pub use measure::{Better, MEASURES, Measure, NO_NOISE, SPECTRAL_ANGLES};
pub use metric::{Metric, MetricValue};
pub use provenance::{Interrupted, Machine, Provenance, Strata, TimedDevice};

use serde::{Deserialize, Serialize};

/// Version of the JSON. Grows when a reader of the old one would go wrong.
pub const VERSION: u32 = 1;

/// Everything that one run of `shardpack report` found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`].
    pub shardpack_report: u32,
    /// The subject of a report.
    pub subject: Subject,
    /// The kind of the samples.
    pub content: SampleKind,
    /// The path as the user gave it.
    pub source: String,
    /// The whole set, of which a sample was drawn.
    pub whole: Whole,
    /// The samples that were drawn, in the order of their keys. Rows of the candidates point here.
    pub samples: Vec<DrawnSample>,
    /// The candidates, in the order of the ladder. For a dataset there is one: what is stored.
    pub candidates: Vec<Candidate>,
    /// Which candidate is recommended, and why.
    pub verdict: Verdict,
    /// Pictures to look at: the worst and a random few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gallery: Vec<GalleryItem>,
    /// Measures of cubes only, for the candidates where there is an error to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cubes: Vec<CubePanel>,
    /// The user's own metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Sources that could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Unreadable>,
    /// Notes for the user, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The origin of the figures.
    pub provenance: Provenance,
}

/// The subject of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Files that are not packed yet: the candidates are ways to pack them.
    Sources,
    /// A packed dataset: its only candidate is what is stored.
    Dataset,
}

/// The kind of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// Pictures.
    Pictures,
    /// Cubes.
    Cubes,
}

/// The whole set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// Samples.
    pub samples: u64,
    /// Bytes of the sources (of a dataset without them, of its shards).
    pub source_bytes: u64,
    /// Names of the classes; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The recipe in the manifest, of a dataset only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<serde_json::Value>,
}

impl Whole {
    /// True if nothing is known of what was there before `stored` bytes were: of a dataset without its
    /// sources.
    #[must_use]
    #[allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "the same number, or another")]
    pub fn is_alone(&self, stored: f64) -> bool {
        self.recipe.is_some() && self.source_bytes as f64 == stored
    }
}

/// A sample that was drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawnSample {
    /// Its key: text from the user's file names, with anything in it.
    pub key: String,
    /// Its class, as a position in [`Whole::classes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Bytes of its source.
    pub source_bytes: u64,
    /// Its axes: height, width and, of cubes, bands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// Its key or path.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Which candidate is recommended, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The conditions, as the user would write them: `ssimulacra2.p10>=80`. All must hold, and of
    /// the candidates for which they do the smallest is chosen.
    pub want: Vec<String>,
    /// True if the user gave the conditions; if not, they are the defaults.
    pub want_given: bool,
    /// The chosen one, as a position in [`Report::candidates`]; `None` if no candidate was measured.
    pub chosen: Option<usize>,
    /// True if the chosen one meets all conditions. If none does, the one that loses nothing is
    /// chosen, or the one that comes closest.
    pub met: bool,
    /// The recommendation in one sentence.
    pub sentence: String,
    /// Why this one, in one sentence.
    pub reason: String,
    /// The command that packs with it, ready to copy; empty for a dataset.
    pub command: String,
}

//! The data of a report. `shardpack report --json` and the page present the same data.
//!
//! The JSON omits values that were not measured, and floating-point numbers that are not finite. Field names end with
//! the unit.

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

/// Version of the JSON format. Increase it if readers of the previous version would misread the new format.
pub const VERSION: u32 = 1;

/// All results of one `shardpack report` run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`VERSION`].
    pub shardpack_report: u32,
    /// Subject of the report: unpacked files or a packed dataset.
    pub subject: Subject,
    /// Type of the samples: pictures or cubes.
    pub content: SampleKind,
    /// Path of the source, as given by the user.
    pub source: String,
    /// The whole set that the samples were drawn from.
    pub whole: Whole,
    /// The drawn samples, sorted by key. The rows of candidates refer to positions in this list.
    pub samples: Vec<DrawnSample>,
    /// The candidates, grouped by ladder. A report on a dataset has one candidate, the form in
    /// which the samples are stored.
    pub candidates: Vec<Candidate>,
    /// The recommended candidate, with the reason.
    pub verdict: Verdict,
    /// Pictures for visual comparison of the worst samples and a few random samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gallery: Vec<GalleryItem>,
    /// Measures for cubes only, for each candidate that changes values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cubes: Vec<CubePanel>,
    /// User-defined metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Sources that could not be read, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Unreadable>,
    /// Notes for the user. Each is one sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The machine, settings and date with which the figures were measured.
    pub provenance: Provenance,
}

/// The subject of a report: files or a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Files that have not been packed. Each candidate is a way of packing them.
    Sources,
    /// A packed dataset. Its only candidate is its stored form.
    Dataset,
}

/// Type of the samples in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// Pictures.
    Pictures,
    /// Cubes.
    Cubes,
}

/// The whole set that the samples were drawn from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// Number of samples.
    pub samples: u64,
    /// Size of the sources in bytes. For a dataset without its sources, the size of its shards.
    pub source_bytes: u64,
    /// Class names. Empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Recipe from the manifest. Only for a dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<serde_json::Value>,
}

impl Whole {
    /// Returns true if the size before packing is unknown, because a dataset was measured without its
    /// sources. `stored` is the size after packing in bytes.
    #[must_use]
    #[allow(clippy::float_cmp, clippy::cast_precision_loss, reason = "the same number, or another")]
    pub fn is_alone(&self, stored: f64) -> bool {
        self.recipe.is_some() && self.source_bytes as f64 == stored
    }
}

/// A randomly chosen sample of the whole set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawnSample {
    /// Key of the sample. It comes from the user's file names, so it may contain any text.
    pub key: String,
    /// Class of the sample, as an index into [`Whole::classes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
    /// Size of the sample's source, in bytes.
    pub source_bytes: u64,
    /// Height, width and, for cubes, number of bands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u64>,
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// Key or path of the source.
    pub path: String,
    /// Why the source could not be read.
    pub reason: String,
}

/// The recommended candidate, with the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Conditions in the user's notation, such as `ssimulacra2.p10>=80`. The smallest candidate that meets
    /// all conditions is chosen.
    pub want: Vec<String>,
    /// True if the user gave the conditions, false for the default conditions.
    pub want_given: bool,
    /// Position of the chosen candidate in [`Report::candidates`]. `None` if no candidate was measured.
    pub chosen: Option<usize>,
    /// True if the chosen candidate meets all conditions. Otherwise the chosen candidate is
    /// lossless, or meets more conditions than the others.
    pub met: bool,
    /// The recommendation in one sentence.
    pub sentence: String,
    /// Reason for the choice, in one sentence.
    pub reason: String,
    /// Command that packs with the chosen candidate, ready to be copied. Empty for a dataset.
    pub command: String,
}

//! The options of a report.

use super::value::{Named, parse_target};
use super::{ArgumentError, PackArguments, Result, SourceArguments, Value, parse_size};
use crate::report::MetricCommand;
use shardpack_array::{Coder, Filter};
use shardpack_jpeg::ChromaSampling;
use shardpack_report::want::Want;
use std::path::PathBuf;

/// What a report can be told. Lists are ladders: a candidate is measured for each value.
///
/// ```
/// use shardpack_pack::arguments::{ReportArguments, Value};
/// let mut arguments = ReportArguments::default();
/// for quality in [90, 80] {
///     assert!(arguments.set("quality", &Value::Integer(quality))?);
/// }
/// assert_eq!((arguments.quality, arguments.gallery), (vec![90, 80], 6));
/// # Ok::<(), shardpack_pack::arguments::ArgumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReportArguments {
    /// How the source is read.
    pub reading: SourceArguments,
    /// What a dataset was packed from. Default: none.
    pub source: Option<PathBuf>,
    /// Replace a file that is no report. Default: false.
    pub force: bool,
    /// Samples to draw. Default: as many as make the predicted size known to ±2 %.
    pub samples: Option<u64>,
    /// Seed of the draw. Default 0.
    pub seed: u64,
    /// Samples in the gallery: so many of the worst, and so many at random. Default 6.
    pub gallery: u8,
    /// Conditions on the recommended candidate. Default: see [`Want`].
    pub want: Vec<String>,
    /// The user's own metrics. Default: none.
    pub metric: Vec<MetricCommand>,
    /// Times that each of them is run on the original alone. Default 3.
    pub metric_baseline_runs: Option<u32>,
    /// A file of candidates, instead of ladders. Default: none.
    pub candidates: Option<PathBuf>,
    /// Qualities to re-encode pictures at.
    pub quality: Vec<u8>,
    /// Scores to re-encode each picture to.
    pub target: Vec<f64>,
    /// Chroma subsamplings of re-encoded pictures.
    pub subsampling: Vec<ChromaSampling>,
    /// Shorter sides to shrink re-encoded pictures to, in pixels.
    pub short_side: Vec<u32>,
    /// Longer sides to shrink re-encoded pictures to, in pixels.
    pub long_side: Vec<u32>,
    /// Largest errors for cubes in fixed point, in the units of the data.
    pub max_error: Vec<f64>,
    /// Codecs of cubes, beside what auto chooses.
    pub codec: Vec<Option<Coder>>,
    /// Filters before these codecs.
    pub filter: Vec<Option<Filter>>,
    /// A device whose decoding is timed: `cuda:0`, or `cpu` for none. Default: the first GPU.
    pub device: Option<String>,
    /// Worker threads. Default: all cores.
    pub threads: Option<usize>,
    /// Limit on the bytes of samples that are being measured. Default: as packing.
    pub memory: Option<u64>,
}

impl Default for ReportArguments {
    fn default() -> Self {
        Self {
            reading: SourceArguments::default(),
            source: None,
            force: false,
            samples: None,
            seed: 0,
            gallery: 6,
            want: Vec::new(),
            metric: Vec::new(),
            metric_baseline_runs: None,
            candidates: None,
            quality: Vec::new(),
            target: Vec::new(),
            subsampling: Vec::new(),
            short_side: Vec::new(),
            long_side: Vec::new(),
            max_error: Vec::new(),
            codec: Vec::new(),
            filter: Vec::new(),
            device: None,
            threads: None,
            memory: None,
        }
    }
}

impl ReportArguments {
    /// Times that a metric is run on the original alone, unless the caller says otherwise.
    pub const BASELINE_RUNS: u32 = 3;

    const OWN: [&str; 20] = [
        "source",
        "force",
        "samples",
        "seed",
        "gallery",
        "want",
        "metric",
        "metric_baseline_runs",
        "candidates",
        "quality",
        "target",
        "subsampling",
        "short_side",
        "long_side",
        "max_error",
        "codec",
        "filter",
        "device",
        "threads",
        "memory",
    ];

    /// Names of all options.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SourceArguments::NAMES.into_iter().chain(Self::OWN)
    }

    /// Options that may be several in one text, with commas between them.
    const LADDERS: [&str; 8] =
        ["quality", "target", "subsampling", "short_side", "long_side", "max_error", "codec", "filter"];

    /// Sets the option `name`; of one that is a list, adds a value. False if there is no such option.
    ///
    /// # Errors
    /// If the option cannot have this value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<bool> {
        let Some(option) = Self::names().find(|option| *option == name) else { return Ok(false) };
        if let (true, Value::Text(text)) = (Self::LADDERS.contains(&option), value)
            && text.contains(',')
        {
            let rungs = text.split(',').map(|rung| self.set(name, &Value::Text(rung.to_owned())));
            return rungs.collect::<Result<Vec<_>>>().map(|_| true);
        }
        let given = Named { option, value };
        match option {
            "source" => self.source = Some(given.path()),
            "force" => self.force = given.switch()?,
            "samples" => self.samples = Some(given.integer(1..=u64::MAX)?),
            "seed" => self.seed = given.integer(0..=u64::MAX)?,
            "gallery" => self.gallery = given.integer(0..=100)?,
            "want" => self.want.push(given.text()),
            "metric" => self.metric.push(given.read(str::parse)?),
            "metric_baseline_runs" => self.metric_baseline_runs = Some(given.integer(0..=1000)?),
            "candidates" => self.candidates = Some(given.path()),
            "quality" => self.quality.push(given.integer(1..=100)?),
            "target" => self.target.push(given.read(parse_target)?),
            "subsampling" => self.subsampling.push(given.word()?),
            "short_side" => self.short_side.push(given.integer(1..=65_535)?),
            "long_side" => self.long_side.push(given.integer(1..=65_535)?),
            "max_error" => self.max_error.push(given.float()?),
            "codec" => self.codec.push(given.word()?),
            "filter" => self.filter.push(given.word()?),
            "device" => self.device = Some(given.text()),
            "threads" => self.threads = Some(given.threads()?),
            "memory" => self.memory = Some(given.size()?),
            _ => return self.reading.set(given),
        }
        Ok(true)
    }

    /// Whether ladders of candidates for pictures are asked for.
    #[must_use]
    pub const fn is_on_pictures(&self) -> bool {
        !(self.quality.is_empty()
            && self.target.is_empty()
            && self.subsampling.is_empty()
            && self.short_side.is_empty()
            && self.long_side.is_empty())
    }

    /// Whether ladders of candidates for cubes are asked for.
    #[must_use]
    pub const fn is_on_cubes(&self) -> bool {
        !(self.max_error.is_empty() && self.codec.is_empty())
    }

    /// The conditions of [`want`](Self::want).
    ///
    /// # Errors
    /// If one is none.
    pub fn wants(&self) -> Result<Vec<Want>> {
        let wants = self.want.iter().map(|text| Want::parse(text, &parse_size));
        wants.collect::<Result<_, _>>().map_err(|said| ArgumentError::of("want", said))
    }

    /// Fails if the options contradict each other.
    ///
    /// # Errors
    /// Which option, and why.
    pub fn check(&self) -> Result<()> {
        self.reading.check()?;
        if self.candidates.is_some() && (self.is_on_pictures() || self.is_on_cubes()) {
            return Err(ArgumentError::new("candidates", "without ladders of other candidates", "both"));
        }
        if !(self.short_side.is_empty() || self.long_side.is_empty()) {
            return Err(ArgumentError::new("short_side", "without `long_side`", "both"));
        }
        if !self.filter.is_empty() && self.codec.is_empty() {
            return Err(ArgumentError::new("filter", "with `codec`", "none"));
        }
        if self.metric_baseline_runs.is_some() && self.metric.is_empty() {
            return Err(ArgumentError::new("metric_baseline_runs", "with `metric`", "none"));
        }
        if let Some(error) = self.max_error.iter().find(|error| !(error.is_finite() && **error > 0.0)) {
            return Err(ArgumentError::new("max_error", "errors above zero", error));
        }
        self.wants().map(drop)
    }

    /// What all candidates have in common, as options of packing.
    #[must_use]
    pub fn packing(&self) -> PackArguments {
        PackArguments { source: self.reading.clone(), ..PackArguments::default() }
    }
}

//! Parses the options of `report`.

use super::source::{READING, abouts, check_columns, of_reading};
use super::{
    About, ArgumentError, Declared, Given, OptionValue, StorageOptions, Takes, parse_size, read, refuse_unknown, words,
};
use crate::report::MetricCommand;
use shardpack_array::{Coder, Filter};
use shardpack_jpeg::ChromaSampling;
use shardpack_recipe::is_given;
use shardpack_report::want::Want;
use std::path::PathBuf;

type Result<T, E = ArgumentError> = std::result::Result<T, E>;
type ReportOption = Declared<ReportArguments>;

/// Options of a report. [`read`](Self::read) parses them by name.
///
/// ```
/// use shardpack_pack::options::ReportArguments;
/// use shardpack_recipe::OptionValue;
/// let given = [("quality".to_owned(), OptionValue::Text("90,80".into())), ("seed".to_owned(), OptionValue::Integer(3))];
/// let arguments = ReportArguments::read(&given)?;
/// assert_eq!((arguments.ladder("quality"), arguments.seed), (vec!["90", "80"], 3));
/// # Ok::<(), shardpack_recipe::ArgumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReportArguments {
    /// The given options that affect how the source is read.
    pub reading: Vec<(String, OptionValue)>,
    /// The source to compare a dataset with. Default: none.
    pub source: Option<PathBuf>,
    /// Replace a file that is not a report. Default: false.
    pub force: bool,
    /// Number of samples to draw. Default: as many as needed to predict the size to ±2 %.
    pub samples: Option<u64>,
    /// Seed for drawing the samples. Default: 0.
    pub seed: u64,
    /// Number of worst samples in the gallery, and also the number of random samples. Default: 6 of
    /// each.
    pub gallery: u8,
    /// Conditions that the recommended candidate must meet. Default: see [`Want`].
    pub want: Vec<String>,
    /// The user's own metrics. Default: none.
    pub metric: Vec<MetricCommand>,
    /// Number of runs of each metric on the unchanged samples, which shows how much the metric
    /// varies by chance. Default: 3.
    pub metric_baseline_runs: Option<u32>,
    /// File with candidates that replace the ladders. Default: none.
    pub candidates: Option<PathBuf>,
    /// Pairs of a packing option and a value to measure as a candidate.
    pub ladders: Vec<(&'static str, String)>,
    /// GPU on which decoding is timed, such as `cuda:0`, or `cpu` for none. Default: the first GPU.
    pub device: Option<String>,
    /// Number of worker threads. Default: all cores.
    pub threads: Option<usize>,
    /// Memory limit for samples that are measured at the same time, in bytes. Default: as in packing.
    pub memory: Option<u64>,
}

impl Default for ReportArguments {
    fn default() -> Self {
        Self {
            reading: Vec::new(),
            source: None,
            force: false,
            samples: None,
            seed: 0,
            gallery: 6,
            want: Vec::new(),
            metric: Vec::new(),
            metric_baseline_runs: None,
            candidates: None,
            ladders: Vec::new(),
            device: None,
            threads: None,
            memory: None,
        }
    }
}

fn add_rungs(arguments: &mut ReportArguments, given: Given<'_>) -> Result<()> {
    let mut add = |value: &OptionValue| {
        let Some(option) = StorageOptions::option(given.option) else { return Ok(()) };
        arguments.ladders.push((option.about.name, StorageOptions::canonical(option, value)?));
        Ok(())
    };
    match given.value {
        OptionValue::Text(text) => text.split(',').try_for_each(|rung| add(&OptionValue::Text(rung.to_owned()))),
        value => add(value),
    }
}

const fn ladder(name: &'static str, takes: Takes, help: &'static str) -> ReportOption {
    ReportOption::new(name, takes, help, add_rungs).group("Candidates")
}

impl ReportArguments {
    /// Default number of runs of each metric on the unchanged samples.
    pub const BASELINE_RUNS: u32 = 3;

    const OPTIONS: &[ReportOption] = &[
        ReportOption::new(
            "source",
            Takes::Path("DIR"),
            "Source files of the dataset SRC, to compare with it",
            |options, given| given.path().map(|path| options.source = Some(path)),
        ),
        ReportOption::new("force", Takes::Switch, "Overwrite FILE even if it is not a report", |options, given| {
            given.switch().map(|on| options.force = on)
        }),
        ReportOption::new(
            "samples",
            Takes::Value("N"),
            "Samples to draw [default: 64 to 512, until the size is known to ±2 %]",
            |options, given| given.integer(1..=u64::MAX).map(|samples| options.samples = Some(samples)),
        )
        .group("Sample"),
        ReportOption::new("seed", Takes::Value("N"), "Seed for drawing the samples", |options, given| {
            given.integer(0..=u64::MAX).map(|seed| options.seed = seed)
        })
        .spelled_by(|options| Some(options.seed.to_string()))
        .group("Sample"),
        ReportOption::new(
            "gallery",
            Takes::Value("N"),
            "Samples in the gallery: the N worst, and N at random",
            |options, given| given.integer(0..=100).map(|samples| options.gallery = samples),
        )
        .spelled_by(|options| Some(options.gallery.to_string()))
        .group("Sample"),
        ReportOption::new(
            "want",
            Takes::Several("COND"),
            "Condition for the recommended candidate, such as `size<=30GB`; repeatable",
            |options, given| given.text().map(|text| options.want.push(text)),
        )
        .group("Verdict"),
        ReportOption::new(
            "metric",
            Takes::Several("NAME=COMMAND"),
            "Your own metric: COMMAND gets two datasets and prints a number",
            |options, given| given.read(str::parse).map(|metric| options.metric.push(metric)),
        )
        .group("Your metric"),
        ReportOption::new(
            "metric_baseline_runs",
            Takes::Value("K"),
            "Runs on the original data, to measure the noise [default: 3]",
            |options, given| given.integer(0..=1000).map(|runs| options.metric_baseline_runs = Some(runs)),
        )
        .group("Your metric"),
        ReportOption::new(
            "candidates",
            Takes::Path("FILE"),
            "TOML file of candidates, instead of the default ones",
            |options, given| given.path().map(|path| options.candidates = Some(path)),
        )
        .group("Candidates"),
        ladder("quality", Takes::List("LIST"), "Qualities of re-encoded pictures, separated by commas"),
        ladder("target", Takes::List("LIST"), "Target scores of re-encoded pictures: ssimulacra2=80,ssimulacra2=70"),
        ladder(
            "subsampling",
            Takes::Words(words::<ChromaSampling>, "LIST"),
            "Chroma subsampling of re-encoded pictures: keep, 420, 444",
        ),
        ladder("short_side", Takes::List("LIST"), "Shorter sides of re-encoded pictures, in pixels"),
        ladder("long_side", Takes::List("LIST"), "Longer sides of re-encoded pictures, in pixels"),
        ladder("max_error", Takes::List("LIST"), "Maximum errors of fixed-point cubes [default: from band noise]"),
        ladder(
            "codec",
            Takes::Words(words::<Option<Coder>>, "LIST"),
            "Codecs of cubes: auto, blosc2-lz4, blosc2-lz4hc, blosc2-zstd, zstd, raw",
        ),
        ladder(
            "filter",
            Takes::Words(words::<Option<Filter>>, "LIST"),
            "Filters of cubes: auto, none, shuffle, bitshuffle, bytedelta",
        ),
        ReportOption::new(
            "device",
            Takes::Value("DEVICE"),
            "Also time GPU decoding: cuda:N, or cpu for none [default: first GPU]",
            |options, given| given.text().map(|name| options.device = Some(name)),
        ),
        ReportOption::new("threads", Takes::Value("N"), "Worker threads [default: all cores]", |options, given| {
            given.threads().map(|threads| options.threads = Some(threads))
        }),
        ReportOption::new(
            "memory",
            Takes::Value("SIZE"),
            "Memory for samples in progress [default: threads + 1 samples]",
            |options, given| given.size().map(|bytes| options.memory = Some(bytes)),
        ),
    ];

    /// Returns descriptions of all options.
    pub fn about() -> impl Iterator<Item = &'static About> {
        abouts(Self::OPTIONS).chain(abouts(READING))
    }

    /// Parses the options and checks their combination.
    ///
    /// # Errors
    /// Fails if an option does not exist, has an invalid value, or contradicts another option.
    pub fn read(given: &[(String, OptionValue)]) -> Result<Self> {
        refuse_unknown(Self::about(), given)?;
        check_columns(given)?;
        super::reading(given)?;
        let mut arguments = Self { reading: of_reading(given), ..Self::default() };
        read(Self::OPTIONS, given, &mut arguments)?;
        arguments.check(given)?;
        Ok(arguments)
    }

    /// Checks the value of one option.
    ///
    /// # Errors
    /// Fails if the value is not valid for the option.
    pub fn check_value(name: &str, value: &OptionValue) -> Result<()> {
        let given = [(name.to_owned(), value.clone())];
        read(Self::OPTIONS, &given, &mut Self::default())?;
        read(READING, &given, &mut super::source::defaults())
    }

    /// Returns the default of an option as text, or `None` if the option has no default.
    #[must_use]
    pub fn default_of(name: &str) -> Option<String> {
        let own = Self::OPTIONS.iter().find(|option| option.about.name == name);
        match (own, READING.iter().find(|option| option.about.name == name)) {
            (Some(option), _) => option.spelled(&Self::default()),
            (None, Some(option)) => option.spelled(&super::source::defaults()),
            (None, None) => None,
        }
    }

    /// Returns the values to measure for a packing option.
    #[must_use]
    pub fn ladder(&self, option: &str) -> Vec<&str> {
        self.ladders.iter().filter(|(name, _)| *name == option).map(|(_, value)| value.as_str()).collect()
    }

    fn first_ladder(&self, is: impl Fn(&About) -> bool) -> Option<&'static str> {
        let mut names = self.ladders.iter().map(|(name, _)| *name);
        names.find(|name| StorageOptions::option(name).is_some_and(|option| is(&option.about)))
    }

    /// Returns the first option that requests candidates for pictures.
    #[must_use]
    pub fn option_on_pictures(&self) -> Option<&'static str> {
        self.first_ladder(|about| !about.jpeg.is_empty())
    }

    /// Returns the first option that requests candidates for cubes.
    #[must_use]
    pub fn option_on_cubes(&self) -> Option<&'static str> {
        self.first_ladder(|about| about.jpeg.is_empty())
    }

    /// Parses the conditions of [`want`](Self::want).
    ///
    /// # Errors
    /// Fails if a condition is invalid.
    pub fn wants(&self) -> Result<Vec<Want>> {
        let wants = self.want.iter().map(|text| Want::parse(text, &parse_size));
        wants.collect::<Result<_, _>>().map_err(|said| ArgumentError::of("want", said))
    }

    fn check(&self, given: &[(String, OptionValue)]) -> Result<()> {
        if self.candidates.is_some() && !self.ladders.is_empty() {
            return Err(ArgumentError::of(
                "candidates",
                "cannot be combined with options that list candidates, such as `quality`",
            ));
        }
        for (name, _) in &self.ladders {
            let other = StorageOptions::option(name).map_or("", |option| option.about.without);
            // Qualities and scores can be combined, because each value is a separate candidate.
            if *name != "quality" && self.ladders.iter().any(|(name, _)| *name == other) {
                return Err(ArgumentError::of(name, format!("cannot be combined with `{other}`")));
            }
        }
        if is_given(given, "filter") && !is_given(given, "codec") {
            return Err(ArgumentError::of("filter", "has no effect without `codec`"));
        }
        if self.metric_baseline_runs.is_some() && self.metric.is_empty() {
            return Err(ArgumentError::of("metric_baseline_runs", "has no effect without `metric`"));
        }
        let is_one = |error: &str| error.parse().is_ok_and(|error: f64| error.is_finite() && error > 0.0);
        if let Some(error) = self.ladder("max_error").into_iter().find(|error| !is_one(error)) {
            return Err(ArgumentError::new("max_error", "a number above 0", error));
        }
        self.wants().map(drop)
    }
}

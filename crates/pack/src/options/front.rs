//! Parses packing options by name, for front ends.

use super::source::{self, READING, abouts};
use super::{About, ArgumentError, Declared, OptionValue, StorageOptions, Takes, is_given, read};
use crate::pack::PackOptions;
use shardpack_sources::SourceOptions;
use shardpack_writer::Part;
use std::path::Path;

type RunOption = Declared<PackOptions>;

const RUN: &[RunOption] = &[
    RunOption::new(
        "part",
        Takes::Value("I/N"),
        "Pack part I of N (1/4 … 4/4); join all parts with `merge`",
        |options, given| {
            let (part, count) = given.part()?;
            let part = Part::new(part.wrapping_sub(1), count);
            options.part = Some(part.map_err(|error| ArgumentError::of("part", error.to_string()))?);
            Ok(())
        },
    )
    .group("Output"),
    RunOption::new(
        "force",
        Takes::Switch,
        "Replace a dataset, finished or not, that shardpack wrote to OUT",
        |options, given| given.switch().map(|on| options.force = on),
    )
    .group("Output"),
    RunOption::new("threads", Takes::Value("N"), "Worker threads [default: all cores]", |options, given| {
        given.threads().map(|threads| options.threads = threads)
    }),
    RunOption::new(
        "memory",
        Takes::Value("SIZE"),
        "Memory for samples in progress [default: threads + 1 samples]",
        |options, given| given.size().map(|bytes| options.memory_bytes = Some(bytes)),
    ),
];

/// Packing options that the front ends handle themselves: `spool` and `take_over` concern stores, and `recipe`
/// names a candidate of a report.
const OF_FRONT_ENDS: [&str; 3] = ["spool", "take_over", "recipe"];

impl PackOptions {
    /// Returns descriptions of all options that [`read`](Self::read) accepts.
    pub fn about() -> impl Iterator<Item = &'static About> {
        let of_storage = abouts(READING).chain(abouts(StorageOptions::OPTIONS));
        of_storage.chain(abouts(source::PACKING)).chain(abouts(RUN))
    }

    /// Returns the names of all options that a front end offers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::about().map(|about| about.name).chain(OF_FRONT_ENDS)
    }

    /// Checks the value of an option and returns it as text, or returns `None` if there is no such option.
    ///
    /// # Errors
    /// Fails if the value is not valid for the option.
    pub fn canonical(name: &str, value: &OptionValue) -> Result<Option<String>, ArgumentError> {
        if let Some(option) = StorageOptions::option(name) {
            return StorageOptions::canonical(option, value).map(Some);
        }
        let given = [(name.to_owned(), value.clone())];
        let (mut source, mut options) = (source::defaults(), Self::default());
        read(READING, &given, &mut source)?;
        read(source::PACKING, &given, &mut source)?;
        read(RUN, &given, &mut options)?;
        Ok(Self::about().any(|about| about.name == name).then(|| value.to_string()))
    }

    /// Returns the default of an option as text, or `None` if the option has no default.
    #[must_use]
    pub fn default_of(name: &str) -> Option<String> {
        let source = source::defaults();
        let of_source = READING.iter().chain(source::PACKING).find(|option| option.about.name == name);
        match (of_source, StorageOptions::option(name)) {
            (Some(option), _) => option.spelled(&source),
            (None, Some(option)) => option.spelled(&StorageOptions::default()),
            (None, None) => None,
        }
    }

    /// Parses the options for packing into the folder `out`, and checks their combination.
    ///
    /// ```
    /// use shardpack_pack::pack::PackOptions;
    /// use shardpack_recipe::OptionValue;
    /// let given = [("shard_size".to_owned(), OptionValue::Text("64MiB".into()))];
    /// assert_eq!(PackOptions::read(&given, "out".as_ref())?.shard_bytes, 64 << 20);
    /// # Ok::<(), shardpack_recipe::ArgumentError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if an option does not exist, has an invalid value, contradicts another option, or would have no
    /// effect.
    pub fn read(given: &[(String, OptionValue)], out: &Path) -> Result<Self, ArgumentError> {
        refuse_unknown(Self::about(), given)?;
        shardpack_recipe::check(Self::about(), given)?;
        source::check_columns(given)?;
        let mut source = source::defaults();
        read(READING, given, &mut source)?;
        read(source::PACKING, given, &mut source)?;
        // Exclude the output folder, because a followed link may lead into it.
        let exclude = source.follow_links.then(|| out.to_owned());
        let StorageOptions { pictures, arrays, shard_bytes, shuffle } = StorageOptions::read(given)?;
        let source = SourceOptions { exclude, ..source };
        let mut options = Self { source, pictures, arrays, shard_bytes, shuffle, ..Self::default() };
        read(RUN, given, &mut options)?;
        Ok(options)
    }

    /// Parses the options for a plan.
    ///
    /// # Errors
    /// Same as [`read`](Self::read); also fails for options such as `part` and `force`, because they have no
    /// effect on a plan.
    pub fn read_for_plan(given: &[(String, OptionValue)], out: &Path, take_over: bool) -> Result<Self, ArgumentError> {
        let of_a_run = ["part", "force"].map(|option| (option, is_given(given, option)));
        if let Some((option, _)) = of_a_run.into_iter().chain([("take_over", take_over)]).find(|(_, given)| *given) {
            return Err(ArgumentError::of(option, "this option is for `pack`, not for `plan`"));
        }
        if is_given(given, "splits") {
            let error = ArgumentError::of("splits", "a plan describes one dataset, not several splits");
            return Err(error.with_hint("plan each split separately, for example `SRC/train`"));
        }
        Self::read(given, out)
    }
}

pub(crate) fn refuse_unknown<'a>(
    known: impl Iterator<Item = &'a About>,
    given: &[(String, OptionValue)],
) -> Result<(), ArgumentError> {
    let names: Vec<&str> = known.map(|about| about.name).collect();
    match given.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some((name, _)) => Err(ArgumentError::of("options", format!("there is no option `{}`", name.escape_debug()))),
    }
}

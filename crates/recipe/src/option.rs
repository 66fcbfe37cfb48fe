//! Tables in which each option is declared once.

use crate::{ArgumentError, Given, Jpeg, OptionValue, Word};

/// The kind of value that an option takes, for help text and parsers.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// No value: the option is either on or off.
    Switch,
    /// One of these words. The string is the value's placeholder in the help text and may be empty.
    Word(fn() -> Vec<&'static str>, &'static str),
    /// A path. The string is its placeholder in the help text.
    Path(&'static str),
    /// A value. The string is its placeholder in the help text.
    Value(&'static str),
    /// A value. The option may be given several times. The string is the value's placeholder in the help text.
    Several(&'static str),
    /// Several values, separated by commas. The string is the value's placeholder in the help text.
    List(&'static str),
    /// Several words, separated by commas. The string is the value's placeholder in the help text.
    Words(fn() -> Vec<&'static str>, &'static str),
}

/// Returns all words that spell the values of `T`.
#[must_use]
pub fn words<T: Word>() -> Vec<&'static str> {
    T::WORDS.iter().map(|(word, _)| *word).collect()
}

/// The description of an option, which all front ends share.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Name in Python and in files. On the command line, each `_` becomes `-`.
    pub name: &'static str,
    /// Heading under which the help text lists the option, or an empty string.
    pub group: &'static str,
    /// Help text.
    pub help: &'static str,
    /// The kind of value that the option takes.
    pub takes: Takes,
    /// Name of an option that cannot be combined with this one, or an empty string.
    pub without: &'static str,
    /// Ways of storing JPEGs with which this option has an effect. Empty if the option does not concern pictures.
    pub jpeg: &'static [Jpeg],
    /// True if the option makes pictures smaller, and their masks with them.
    pub shrinks: bool,
}

/// Declares an option that changes a value of type `O`.
#[derive(Debug)]
pub struct Declared<O: 'static> {
    /// The description of the option.
    pub about: About,
    set: fn(&mut O, Given<'_>) -> Result<(), ArgumentError>,
    spelled: fn(&O) -> Option<String>,
}

impl<O: 'static> Declared<O> {
    /// Declares an option. `set` applies a value to the options.
    pub const fn new(
        name: &'static str,
        takes: Takes,
        help: &'static str,
        set: fn(&mut O, Given<'_>) -> Result<(), ArgumentError>,
    ) -> Self {
        let about = About { name, group: "", help, takes, without: "", jpeg: &[], shrinks: false };
        Self { about, set, spelled: |_| None }
    }

    /// Sets the function that formats the current value, or returns `None` if there is none. Needed for options
    /// with a default that help texts show, and for options of storage.
    #[must_use]
    pub const fn spelled_by(mut self, spelled: fn(&O) -> Option<String>) -> Self {
        self.spelled = spelled;
        self
    }

    /// Sets the heading under which the help text lists the option.
    #[must_use]
    pub const fn group(mut self, heading: &'static str) -> Self {
        self.about.group = heading;
        self
    }

    /// Declares that this option cannot be combined with `other`.
    #[must_use]
    pub const fn without(mut self, other: &'static str) -> Self {
        self.about.without = other;
        self
    }

    /// Declares that this option has an effect only with these ways of storing JPEGs.
    #[must_use]
    pub const fn only_with(mut self, jpeg: &'static [Jpeg]) -> Self {
        self.about.jpeg = jpeg;
        self
    }

    /// Declares that this option makes pictures smaller, and their masks with them.
    #[must_use]
    pub const fn shrinks(mut self) -> Self {
        self.about.shrinks = true;
        self
    }

    /// Sets the option.
    ///
    /// # Errors
    /// Fails if the value is not allowed.
    pub fn set(&self, options: &mut O, value: &OptionValue) -> Result<(), ArgumentError> {
        (self.set)(options, Given { option: self.about.name, value })
    }

    /// Formats the value so that [`set`](Self::set) can read it. Returns `None` if the option is not set, or if it was
    /// declared without [`spelled_by`](Self::spelled_by).
    #[must_use]
    pub fn spelled(&self, options: &O) -> Option<String> {
        (self.spelled)(options)
    }
}

/// Sets the given options in the order of the table. Options that are not in the table are ignored.
///
/// # Errors
/// Fails if a value is not allowed for its option.
pub fn read<O>(table: &[Declared<O>], given: &[(String, OptionValue)], options: &mut O) -> Result<(), ArgumentError> {
    for declared in table {
        for value in values_of(given, declared.about.name) {
            declared.set(options, value)?;
        }
    }
    Ok(())
}

/// Returns the values that were given for an option.
pub fn values_of<'a>(given: &'a [(String, OptionValue)], name: &str) -> impl Iterator<Item = &'a OptionValue> {
    given.iter().filter(move |(given, _)| given == name).map(|(_, value)| value)
}

/// True if an option was given. A switch that is off counts as not given.
#[must_use]
pub fn is_given(given: &[(String, OptionValue)], name: &str) -> bool {
    let is_off = |value: &OptionValue| match value {
        OptionValue::Switch(on) => !on,
        OptionValue::Text(text) => text == "false",
        _ => false,
    };
    values_of(given, name).any(|value| !is_off(value))
}

/// Checks that no two of the given options contradict each other.
///
/// # Errors
/// Fails if two options contradict each other. The error names both options.
pub fn check<'a>(
    options: impl IntoIterator<Item = &'a About>,
    given: &[(String, OptionValue)],
) -> Result<(), ArgumentError> {
    for about in options {
        if !about.without.is_empty() && is_given(given, about.name) && is_given(given, about.without) {
            return Err(ArgumentError::of(about.name, format!("cannot be combined with `{}`", about.without)));
        }
    }
    Ok(())
}

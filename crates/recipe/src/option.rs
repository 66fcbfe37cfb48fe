//! Options: each is declared once, in a table, with its name, help text, check and place.

use crate::{ArgumentError, Given, Jpeg, Value, Word};

/// How an option is written.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// Nothing: it is on or off.
    Switch,
    /// One of these words; the name of the value in help texts, or nothing.
    Word(fn() -> Vec<(&'static str, &'static str)>, &'static str),
    /// A path; its name in help texts.
    Path(&'static str),
    /// A value; its name in help texts.
    Value(&'static str),
    /// A value, any number of times.
    Several(&'static str),
    /// Values with commas between them.
    List(&'static str),
    /// Words with commas between them.
    Words(fn() -> Vec<(&'static str, &'static str)>, &'static str),
}

/// The words of a choice, each with an explanation or nothing.
#[must_use]
pub fn words<T: Word>() -> Vec<(&'static str, &'static str)> {
    T::WORDS.iter().map(|(word, _, help)| (*word, *help)).collect()
}

/// The description of an option, for every front end.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name, in Python and in files; the command has `-` for `_`.
    pub name: &'static str,
    /// The heading that it stands under in help texts, or nothing.
    pub group: &'static str,
    /// What it does.
    pub help: &'static str,
    /// How it is written.
    pub takes: Takes,
    /// An option that contradicts it, or nothing.
    pub without: &'static str,
    /// The ways to store JPEGs for which it has an effect; none for an option of other things.
    pub jpeg: &'static [Jpeg],
}

/// An option of `O`.
#[derive(Debug)]
pub struct Declared<O: 'static> {
    /// Its description.
    pub about: About,
    set: fn(&mut O, Given<'_>) -> Result<(), ArgumentError>,
    spelled: fn(&O) -> Option<String>,
}

impl<O: 'static> Declared<O> {
    /// An option with this name: how it is written, what it does, how it is set, and how its value is
    /// spelled, if it has one.
    pub const fn new(
        name: &'static str,
        takes: Takes,
        help: &'static str,
        set: fn(&mut O, Given<'_>) -> Result<(), ArgumentError>,
        spelled: fn(&O) -> Option<String>,
    ) -> Self {
        Self { about: About { name, group: "", help, takes, without: "", jpeg: &[] }, set, spelled }
    }

    /// Under a heading of help texts.
    #[must_use]
    pub const fn group(mut self, heading: &'static str) -> Self {
        self.about.group = heading;
        self
    }

    /// Not together with another option.
    #[must_use]
    pub const fn without(mut self, other: &'static str) -> Self {
        self.about.without = other;
        self
    }

    /// Only for some ways to store JPEGs.
    #[must_use]
    pub const fn only_with(mut self, jpeg: &'static [Jpeg]) -> Self {
        self.about.jpeg = jpeg;
        self
    }

    /// Sets the option.
    ///
    /// # Errors
    /// If the option cannot have this value.
    pub fn set(&self, options: &mut O, value: &Value) -> Result<(), ArgumentError> {
        (self.set)(options, Given { option: self.about.name, value })
    }

    /// The value as [`set`](Self::set) reads it; `None` for an option that is not set.
    #[must_use]
    pub fn spelled(&self, options: &O) -> Option<String> {
        (self.spelled)(options)
    }
}

/// Sets the options of a table that were given, in the order of the table.
///
/// # Errors
/// If an option cannot have its value.
pub fn read<O>(table: &[Declared<O>], given: &[(String, Value)], options: &mut O) -> Result<(), ArgumentError> {
    for declared in table {
        for value in values_of(given, declared.about.name) {
            declared.set(options, value)?;
        }
    }
    Ok(())
}

/// The values that were given for an option.
pub fn values_of<'a>(given: &'a [(String, Value)], name: &str) -> impl Iterator<Item = &'a Value> {
    given.iter().filter(move |(given, _)| given == name).map(|(_, value)| value)
}

/// Whether an option was given. A switch that is off is not.
#[must_use]
pub fn is_given(given: &[(String, Value)], name: &str) -> bool {
    let is_off = |value: &Value| match value {
        Value::Switch(on) => !on,
        Value::Text(text) => text == "false",
        _ => false,
    };
    values_of(given, name).any(|value| !is_off(value))
}

/// Fails if two options contradict each other.
///
/// # Errors
/// Which ones.
pub fn check<'a>(options: impl IntoIterator<Item = &'a About>, given: &[(String, Value)]) -> Result<(), ArgumentError> {
    for about in options {
        if !about.without.is_empty() && is_given(given, about.name) && is_given(given, about.without) {
            let expected = format!("without `{}`", about.without);
            return Err(ArgumentError::new(about.name, expected, "both"));
        }
    }
    Ok(())
}

//! The error for a value that is not allowed for an option.

use shardpack_format::{ErrorKind, Explain, Hint, Setting, Voice};
use std::fmt;

/// A value that is not allowed for its option.
///
/// ```
/// use shardpack_format::{Explain, Voice};
/// use shardpack_recipe::{StorageOptions, OptionValue};
/// let given = [("shard_size".to_owned(), OptionValue::Text("much".into()))];
/// let error = StorageOptions::read(&given).unwrap_err();
/// let said = "unknown unit `much`: expected KiB, MiB, GiB, TiB, kB, MB, GB or TB";
/// assert_eq!(error.told(Voice::Command), format!("--shard-size: {said}"));
/// assert_eq!(error.told(Voice::Python), format!("shard_size: {said}"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentError {
    option: &'static str,
    rest: String,
    hint: Option<Hint>,
}

impl ArgumentError {
    /// Creates an error that states the expected and the found value.
    pub fn new(option: &'static str, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::of(option, format!("expected {expected}, found {found}"))
    }

    /// Creates an error whose message is the name of the option, followed by this text.
    pub fn of(option: &'static str, rest: impl Into<String>) -> Self {
        Self { option, rest: rest.into(), hint: None }
    }

    /// Adds a hint about the next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the text without the name of the option.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.rest
    }

    /// Returns the hint about the user's next step.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        self.hint.clone()
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(Voice::Rust))
    }
}

impl std::error::Error for ArgumentError {}

impl Explain for ArgumentError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn told(&self, voice: Voice) -> String {
        format!("{}: {}", Setting::named(self.option).spelled(voice), self.rest)
    }
}

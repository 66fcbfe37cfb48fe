//! Hints suggest the user's next step. An error contains its hints as structured values, which [`crate::spelling`]
//! formats for a front end.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The front end that shows a hint. It determines how options are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Voice {
    /// A Rust program: `max_error = 0.5`, with the field name of the options struct.
    Rust,
    /// A command line: `--max-error 0.5`.
    Command,
    /// A Python program: `max_error=0.5`.
    Python,
}

/// An option with an optional value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// Name with `_` between words, as in the options of `pack`.
    pub(crate) option: Cow<'static, str>,
    pub(crate) field: Option<Cow<'static, str>>,
    pub(crate) keyword: Option<Cow<'static, str>>,
    pub(crate) given: Given,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Given {
    Nothing,
    On,
    Word(String),
    /// A number or a placeholder such as `E`, never quoted.
    Bare(Cow<'static, str>),
}

impl Setting {
    /// Creates an option without a value.
    #[must_use]
    pub const fn named(option: &'static str) -> Self {
        Self::of(option, Given::Nothing)
    }

    /// Creates a switch that is on.
    #[must_use]
    pub const fn on(option: &'static str) -> Self {
        Self::of(option, Given::On)
    }

    /// Creates an option whose value is a word or a path.
    pub fn word(option: &'static str, value: impl Into<String>) -> Self {
        Self::of(option, Given::Word(value.into()))
    }

    /// Creates an option whose value is a number.
    pub fn number(option: &'static str, value: impl fmt::Display) -> Self {
        Self::of(option, Given::Bare(Cow::Owned(value.to_string())))
    }

    /// Creates an option with a placeholder such as `E` or `FILE` as its value.
    #[must_use]
    pub const fn any(option: &'static str, stand_in: &'static str) -> Self {
        Self::of(option, Given::Bare(Cow::Borrowed(stand_in)))
    }

    const fn of(option: &'static str, given: Given) -> Self {
        Self { option: Cow::Borrowed(option), field: None, keyword: None, given }
    }

    /// Sets the name in Rust if it differs: for example, `max_record` is `max_record_bytes` in the limits.
    #[must_use]
    pub fn in_rust(self, field: &'static str) -> Self {
        Self { field: Some(Cow::Borrowed(field)), ..self }
    }

    /// Sets the name in Python if it differs: for example, `slots` is `prefetch` in Python.
    #[must_use]
    pub fn in_python(self, keyword: &'static str) -> Self {
        Self { keyword: Some(Cow::Borrowed(keyword)), ..self }
    }
}

/// A suggestion for the user's next step, made of words and options.
///
/// ```
/// use shardpack_format::{Hint, Setting, Voice};
/// let hint = Hint::set([Setting::word("values", "fixed"), Setting::any("max_error", "E")])
///     .then(" keeps values within ±E");
/// assert_eq!(hint.told(Voice::Command), "`--values fixed --max-error E` keeps values within ±E");
/// assert_eq!(hint.told(Voice::Python), "`values=\"fixed\", max_error=E` keeps values within ±E");
/// assert_eq!(hint.to_string(), "`values = fixed, max_error = E` keeps values within ±E");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hint(pub(crate) Vec<Phrase>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Phrase {
    Words(Cow<'static, str>),
    /// Options that are set together.
    Set(Vec<Setting>),
    /// Words that only one front end shows.
    Only(Voice, Cow<'static, str>),
}

impl Hint {
    /// Creates a hint that begins with words.
    pub fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Self(vec![Phrase::Words(words.into())])
    }

    /// Creates a hint that begins with options.
    pub fn set(settings: impl IntoIterator<Item = Setting>) -> Self {
        Self(Vec::new()).and(settings)
    }

    /// Appends words.
    #[must_use]
    pub fn then(mut self, words: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Phrase::Words(words.into()));
        self
    }

    /// Appends options.
    #[must_use]
    pub fn and(mut self, settings: impl IntoIterator<Item = Setting>) -> Self {
        self.0.push(Phrase::Set(settings.into_iter().collect()));
        self
    }

    /// Appends words that only the front end `voice` shows.
    ///
    /// ```
    /// use shardpack_format::{Hint, Voice};
    /// let hint = Hint::new("read it").only(Voice::Python, ", or open it in Python");
    /// assert_eq!(hint.told(Voice::Python), "read it, or open it in Python");
    /// assert_eq!(hint.told(Voice::Command), "read it");
    /// ```
    #[must_use]
    pub fn only(mut self, voice: Voice, words: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Phrase::Only(voice, words.into()));
        self
    }

    /// True if the hint is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|phrase| matches!(phrase, Phrase::Words(words) | Phrase::Only(_, words) if words.is_empty()))
    }

    /// Iterates over the option names in the hint.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        let sets = self.0.iter().filter_map(|phrase| match phrase {
            Phrase::Words(_) | Phrase::Only(..) => None,
            Phrase::Set(settings) => Some(settings),
        });
        sets.flatten().map(|setting| setting.option.as_ref())
    }
}

impl From<&'static str> for Hint {
    fn from(words: &'static str) -> Self {
        Self::new(words)
    }
}

impl From<String> for Hint {
    fn from(words: String) -> Self {
        Self::new(words)
    }
}

/// A remark for the user, with an optional hint.
///
/// ```
/// use shardpack_format::{Hint, Note, Setting, Voice};
/// let note = Note::new("no labels").with_hint(Hint::set([Setting::any("labels", "FILE")]));
/// assert_eq!(note.told(Voice::Command), "no labels\nhint: `--labels FILE`");
/// assert_eq!(note.text, "no labels");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The remark itself, without the hint.
    pub text: String,
    /// Suggestion for the user's next step.
    pub hint: Option<Hint>,
}

impl Note {
    /// Creates a note without a hint.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hint: None }
    }

    /// Adds a hint. An empty hint is no hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Hint>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }

    /// Prefixes the text with the part that the note is about.
    #[must_use]
    pub fn about(self, name: &str) -> Self {
        Self { text: format!("`{}`: {}", name.escape_debug(), self.text), ..self }
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

//! Formats options, hints, notes and errors for the front end that shows them.

use crate::hint::{Given, Hint, Note, Phrase, Setting, Voice};
use crate::plain_url::plain_urls;
use crate::visible::visible_lines;
use std::fmt;

impl Setting {
    /// Formats the setting for `voice`.
    ///
    /// ```
    /// use shardpack_format::{Setting, Voice};
    /// let voices = [Voice::Command, Voice::Python, Voice::Rust];
    /// let spelled = |setting: Setting| voices.map(|voice| setting.spelled(voice));
    /// assert_eq!(spelled(Setting::word("jpeg", "keep")), ["--jpeg keep", "jpeg=\"keep\"", "jpeg = keep"]);
    /// assert_eq!(spelled(Setting::on("no_shuffle")), ["--no-shuffle", "no_shuffle=True", "no_shuffle = true"]);
    /// assert_eq!(spelled(Setting::any("max_error", "E")), ["--max-error E", "max_error=E", "max_error = E"]);
    /// let limit = Setting::named("max_record").in_rust("max_record_bytes");
    /// assert_eq!(spelled(limit), ["--max-record", "max_record", "max_record_bytes"]);
    /// let slots = Setting::named("slots").in_python("prefetch");
    /// assert_eq!(spelled(slots), ["--slots", "prefetch", "slots"]);
    /// ```
    #[must_use]
    pub fn spelled(&self, voice: Voice) -> String {
        let name = match voice {
            Voice::Command => format!("--{}", self.option.replace('_', "-")),
            Voice::Rust => self.field.as_ref().unwrap_or(&self.option).to_string(),
            Voice::Python => self.keyword.as_ref().unwrap_or(&self.option).to_string(),
        };
        match (&self.given, voice) {
            (Given::Nothing, _) | (Given::On, Voice::Command) => name,
            (Given::On, Voice::Python) => name + "=True",
            (Given::On, Voice::Rust) => name + " = true",
            (Given::Word(value), Voice::Python) => format!("{name}={value:?}"),
            (Given::Word(value), Voice::Rust) => format!("{name} = {value}"),
            (Given::Bare(value), Voice::Python) => format!("{name}={value}"),
            (Given::Bare(value), Voice::Rust) => format!("{name} = {value}"),
            (Given::Word(value), Voice::Command) => format!("{name} {value}"),
            (Given::Bare(value), Voice::Command) => format!("{name} {value}"),
        }
    }
}

impl Hint {
    /// Formats the hint for `voice`, without the prefix `hint:`.
    #[must_use]
    pub fn told(&self, voice: Voice) -> String {
        let spelled = |phrase: &Phrase| match phrase {
            Phrase::Words(words) => words.to_string(),
            Phrase::Only(who, words) if *who == voice => words.to_string(),
            Phrase::Only(..) => String::new(),
            Phrase::Set(settings) => {
                let between = if voice == Voice::Command { " " } else { ", " };
                let all: Vec<_> = settings.iter().map(|setting| setting.spelled(voice)).collect();
                format!("`{}`", all.join(between))
            }
        };
        self.0.iter().map(spelled).collect()
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(Voice::Rust))
    }
}

impl Note {
    /// Formats the note for `voice`, with the hint on a line of its own.
    #[must_use]
    pub fn told(&self, voice: Voice) -> String {
        told(&self.text, &self.hint, voice)
    }
}

/// Formats a text and its hints for `voice`, each on its own line. Also hides secrets in URLs with [`plain_urls`],
/// because every error passes through this function before users see it.
///
/// ```
/// use shardpack_format::{Error, Voice, told};
/// let error = Error::limit("record", "max_record_bytes", 1, 2);
/// let text = "record is over the limit `max_record_bytes`: 2 > 1\nhint: raise `--max-record` if you trust this file";
/// assert_eq!(told(&error, &error.hint(), Voice::Command), text);
/// ```
pub fn told<'a>(text: impl fmt::Display, hints: impl IntoIterator<Item = &'a Hint>, voice: Voice) -> String {
    let hints = hints.into_iter().map(|hint| hint.told(voice)).filter(|hint| !hint.is_empty());
    let text = hints.fold(text.to_string(), |text, hint| format!("{text}\nhint: {hint}"));
    // Most messages include names from files, and parsers do not escape them.
    plain_urls(&visible_lines(&text)).into_owned()
}

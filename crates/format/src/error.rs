//! What can be wrong with bytes: one error type, with the place where it was found.

use crate::visible::visible;
use crate::{Hint, Setting};
use std::fmt;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in a dataset an error was found. Every part is optional, because a parser knows only what
/// it was given: the caller adds the rest with [`Error::in_file`] and [`Error::in_record`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file, as the user would name it.
    pub file: Option<String>,
    /// Record number within the shard, from 0.
    pub record: Option<u64>,
    /// Sample key.
    pub key: Option<String>,
    /// Byte offset from the start of the file.
    pub offset: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sep = "";
        if let Some(file) = &self.file {
            write!(f, "`{}`", file.escape_debug())?;
            sep = ", ";
        }
        if let Some(record) = self.record {
            write!(f, "{sep}record {record}")?;
            sep = ", ";
        }
        if let Some(key) = &self.key {
            write!(f, "{sep}sample `{}`", key.escape_debug())?;
            sep = ", ";
        }
        if let Some(offset) = self.offset {
            write!(f, "{sep}offset {offset}")?;
            sep = ", ";
        }
        if !sep.is_empty() {
            f.write_str(": ")?;
        }
        Ok(())
    }
}

/// An error found in bytes, or in a request to lay bytes out.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes break the specification.
    #[error("{place}{}: expected {}, found {}", visible(what), visible(expected), visible(found))]
    Format {
        /// Where.
        place: Box<Place>,
        /// The part of the layout, in the words of the specification.
        what: String,
        /// What the specification requires.
        expected: String,
        /// What was found.
        found: String,
        /// A next step.
        hint: Option<Box<Hint>>,
    },
    /// The bytes may be valid, but they need more than the caller's [`Limits`](crate::Limits)
    /// allow.
    #[error("{place}{} is over the limit `{name}`: {found} > {limit}", visible(what))]
    Limit {
        /// Where.
        place: Box<Place>,
        /// The quantity.
        what: String,
        /// Name of the field of `Limits`.
        name: &'static str,
        /// The limit.
        limit: u64,
        /// What was requested.
        found: u64,
    },
    /// The caller asked for something that the layout cannot hold.
    #[error("{}: expected {}, found {}", visible(what), visible(expected), visible(found))]
    Usage {
        /// The argument.
        what: String,
        /// What it may be.
        expected: String,
        /// What it was.
        found: String,
        /// A next step.
        hint: Option<Hint>,
    },
    /// Something happened that the code rules out, whatever the bytes are: a defect of this
    /// project.
    #[error("{place}internal error: {}: expected {}, found {}", visible(what), visible(expected), visible(found))]
    Internal {
        /// Where, as far as it is known.
        place: Box<Place>,
        /// The operation, or the value concerned.
        what: String,
        /// What the code relies on.
        expected: String,
        /// What it found.
        found: String,
    },
}

/// The option that raises a limit. No dataset of ours comes near a limit without one.
fn raise(limit: &'static str) -> Option<Hint> {
    let option = match limit {
        "max_record_bytes" | "max_decoded_bytes" | "max_run_bytes" => "max_record",
        "max_batch_bytes" => "max_batch",
        _ => return None,
    };
    Some(Hint::new("raise ").and([Setting::named(option).in_rust(limit)]).then(" if you trust this file"))
}

/// The next step of every `Internal` error.
pub const REPORT_HINT: &str =
    "this is a defect of shardpack, not of your data: please report it with this message and, if you can, the file";

impl Error {
    /// A [`Error::Format`] without a place.
    pub fn format(what: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Format {
            place: Box::default(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
            hint: None,
        }
    }

    /// A [`Error::Limit`] without a place.
    pub fn limit(what: impl Into<String>, name: &'static str, limit: u64, found: u64) -> Self {
        Self::Limit { place: Box::default(), what: what.into(), name, limit, found }
    }

    /// A [`Error::Usage`] without a hint.
    pub fn usage(what: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Usage { what: what.into(), expected: expected.to_string(), found: found.to_string(), hint: None }
    }

    /// With a next step, if it is a [`Error::Usage`] or a [`Error::Format`]: the others have theirs.
    ///
    /// ```
    /// use shardpack_format::{Error, Hint, Setting, Voice};
    /// let hint = Hint::set([Setting::named("codec")]);
    /// let error = Error::usage("level", "a codec that it belongs to", 3).with_hint(hint);
    /// assert_eq!(error.to_string(), "level: expected a codec that it belongs to, found 3");
    /// assert_eq!(error.hint().unwrap().told(Voice::Command), "`--codec`");
    /// ```
    #[must_use]
    pub fn with_hint(mut self, next: impl Into<Hint>) -> Self {
        match &mut self {
            Self::Usage { hint, .. } => *hint = Some(next.into()),
            Self::Format { hint, .. } => *hint = Some(Box::new(next.into())),
            Self::Limit { .. } | Self::Internal { .. } => {}
        }
        self
    }

    /// What to do next. It is no part of the text of the error: who shows it says how options are
    /// spelled ([`Hint::told`]).
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Usage { hint, .. } => hint.clone(),
            Self::Limit { name, .. } => raise(name),
            Self::Format { hint, .. } => hint.as_deref().cloned(),
            Self::Internal { .. } => Some(REPORT_HINT.into()),
        }
    }

    /// A [`Error::Internal`] without a place.
    ///
    /// ```
    /// let error = shardpack_format::Error::internal("rows of the batch", 8, 7);
    /// assert_eq!(error.to_string(), "internal error: rows of the batch: expected 8, found 7");
    /// assert!(error.hint().unwrap().to_string().contains("please report it"));
    /// ```
    pub fn internal(what: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Internal {
            place: Box::default(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// A [`Error::Internal`] for a caught panic, with its message.
    ///
    /// ```
    /// let panic = std::panic::catch_unwind(|| panic!("no row")).unwrap_err();
    /// let error = shardpack_format::Error::panicked("decoding", &*panic);
    /// assert!(error.to_string().contains("decoding: expected an end without a panic, found no row"));
    /// ```
    pub fn panicked(what: impl Into<String>, panic: &(dyn std::any::Any + Send)) -> Self {
        Self::internal(what, "an end without a panic", panic_text(panic))
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Format { place, .. } | Self::Limit { place, .. } | Self::Internal { place, .. } => Some(place),
            Self::Usage { .. } => None,
        }
    }

    /// Names the file, unless a deeper layer has named one.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        if let Some(place) = self.place_mut() {
            place.file.get_or_insert_with(|| file.into());
        }
        self
    }

    /// Names the record, unless a deeper layer has named one.
    #[must_use]
    pub fn in_record(mut self, record: u64) -> Self {
        if let Some(place) = self.place_mut() {
            place.record.get_or_insert(record);
        }
        self
    }

    /// Names the sample, unless a deeper layer has named one.
    #[must_use]
    pub fn in_sample(mut self, key: impl Into<String>) -> Self {
        if let Some(place) = self.place_mut() {
            place.key.get_or_insert_with(|| key.into());
        }
        self
    }

    /// Adds `base` to the offset, which so far counted from the start of the parsed slice.
    #[must_use]
    pub fn at(mut self, base: u64) -> Self {
        if let Some(place) = self.place_mut() {
            place.offset = Some(place.offset.unwrap_or(0).saturating_add(base));
        }
        self
    }
}
/// The message of a caught panic.
///
/// ```
/// let panic = std::panic::catch_unwind(|| panic!("row {}", 3)).unwrap_err();
/// assert_eq!(shardpack_format::panic_text(&*panic), "row 3");
/// ```
#[must_use]
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Stops at a state that the code excludes, whatever the input: the one place where the libraries panic.
///
/// Threads of a pool catch the panic at their edge and hand it on with [`Error::panicked`].
///
/// # Panics
///
/// Always.
#[cold]
#[track_caller]
#[allow(clippy::panic, reason = "a bug, not an input: see above")]
pub fn bug(what: &str) -> ! {
    panic!("{what}")
}

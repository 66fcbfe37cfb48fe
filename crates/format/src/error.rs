//! The error type of this crate. An error includes its location in the dataset.

use crate::visible::visible;
use crate::{Hint, Note, Setting};
use std::fmt;

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Location of an error in a dataset. Every part is optional, because a parser sees only its own slice. Callers add
/// the missing parts with [`Error::in_file`] and [`Error::in_record`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Name of the file, as specified by the user.
    pub file: Option<String>,
    /// Number of the record within the shard, counted from 0.
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

/// Error in parsed bytes, in the caller's request, or in this library.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes violate the specification.
    #[error("{place}{}", sentence(what, expected, found))]
    Format {
        /// Where the error is.
        place: Box<Place>,
        /// Part of the layout, named as in the specification, or the whole message.
        what: String,
        /// The value that the specification requires. Empty if `what` is the whole message.
        expected: String,
        /// Value found instead. Empty if `what` is the whole message.
        found: String,
        /// Suggestion for the user's next step.
        hint: Option<Box<Hint>>,
    },
    /// The bytes may be valid, but reading them needs more than the caller's [`Limits`](crate::Limits) allow.
    #[error("{place}{} is over the limit `{name}`: {found} > {limit}", visible(what))]
    Limit {
        /// Where the error is.
        place: Box<Place>,
        /// Quantity that the limit applies to.
        what: String,
        /// Field of `Limits` that was exceeded.
        name: &'static str,
        /// Value of the limit.
        limit: u64,
        /// Requested amount.
        found: u64,
    },
    /// The caller's request is invalid. The note names the argument, its allowed values and the actual value.
    #[error("{}", visible(&.0.text))]
    Usage(Note),
    /// A bug in shardpack: the program reached a state that no input should cause.
    #[error("{place}internal error: {}", sentence(what, expected, found))]
    Internal {
        /// Location of the error, as far as known.
        place: Box<Place>,
        /// The operation that failed, or the value that is wrong, or the whole message.
        what: String,
        /// State that the code assumes. Empty if `what` is the whole message.
        expected: String,
        /// Actual state. Empty if `what` is the whole message.
        found: String,
    },
}

/// Writes the message of an [`Error::Format`] or an [`Error::Internal`], with hidden characters replaced. If `expected`
/// and `found` are empty, `what` is the whole message.
///
/// ```
/// use shardpack_format::sentence;
/// assert_eq!(sentence("codec", "raw or jpeg", "zstd"), "codec: expected raw or jpeg, found zstd");
/// assert_eq!(sentence("the record is truncated", "", ""), "the record is truncated");
/// ```
#[must_use]
pub fn sentence(what: &str, expected: &str, found: &str) -> String {
    match (expected, found) {
        ("", "") => visible(what).into_owned(),
        _ => format!("{}: expected {}, found {}", visible(what), visible(expected), visible(found)),
    }
}

/// Returns a hint that names the option for raising a limit, or `None` for limits that no real dataset reaches.
fn raise(limit: &'static str) -> Option<Hint> {
    let option = match limit {
        "max_record_bytes" | "max_decoded_bytes" | "max_run_bytes" => "max_record",
        "max_batch_bytes" => "max_batch",
        _ => return None,
    };
    Some(Hint::new("raise ").and([Setting::named(option).in_rust(limit)]).then(" if you trust this file"))
}

/// Hint shown with every `Internal` error.
pub const REPORT_HINT: &str =
    "this is a bug in shardpack, not in your data: please report it with this message and, if you can, the file";

impl Error {
    /// Creates an [`Error::Format`] without a location.
    pub fn format(what: impl Into<String>, expected: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::Format {
            place: Box::default(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
            hint: None,
        }
    }

    /// Creates an [`Error::Format`] without a location from a whole message. Use it if no single value is wrong.
    ///
    /// ```
    /// let error = shardpack_format::Error::malformed("the JPEG is truncated");
    /// assert_eq!(error.in_file("a.jpg").to_string(), "`a.jpg`: the JPEG is truncated");
    /// ```
    pub fn malformed(text: impl Into<String>) -> Self {
        Self::format(text, "", "")
    }

    /// Creates an [`Error::Limit`] without a location.
    pub fn limit(what: impl Into<String>, name: &'static str, limit: u64, found: u64) -> Self {
        Self::Limit { place: Box::default(), what: what.into(), name, limit, found }
    }

    /// Creates an [`Error::Usage`] without a hint.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(Note::new(text))
    }

    /// Prefixes the message of an [`Error::Usage`] with the part of the request that caused it.
    ///
    /// ```
    /// let error = shardpack_format::Error::usage("std: expected a number above 0, found 0");
    /// assert_eq!(error.within("band 3").to_string(), "band 3: std: expected a number above 0, found 0");
    /// ```
    #[must_use]
    pub fn within(self, part: impl fmt::Display) -> Self {
        match self {
            Self::Usage(note) => Self::Usage(Note { text: format!("{part}: {}", note.text), ..note }),
            other => other,
        }
    }

    /// Adds a hint to an [`Error::Usage`] or [`Error::Format`]. Other kinds have fixed hints.
    ///
    /// ```
    /// use shardpack_format::{Error, Hint, Setting, Voice};
    /// let hint = Hint::set([Setting::named("codec")]);
    /// let error = Error::usage("level 3 needs a codec").with_hint(hint);
    /// assert_eq!(error.to_string(), "level 3 needs a codec");
    /// assert_eq!(error.hint().unwrap().told(Voice::Command), "`--codec`");
    /// ```
    #[must_use]
    pub fn with_hint(mut self, next: impl Into<Hint>) -> Self {
        match &mut self {
            Self::Usage(note) => note.hint = Some(next.into()),
            Self::Format { hint, .. } => *hint = Some(Box::new(next.into())),
            Self::Limit { .. } | Self::Internal { .. } => {}
        }
        self
    }

    /// Returns the hint. The message does not include the hint, because each front end spells options differently
    /// ([`Hint::told`]).
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Usage(note) => note.hint.clone(),
            Self::Limit { name, .. } => raise(name),
            Self::Format { hint, .. } => hint.as_deref().cloned(),
            Self::Internal { .. } => Some(REPORT_HINT.into()),
        }
    }

    /// Creates an [`Error::Internal`] without a location.
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

    /// Creates an [`Error::Internal`] from a caught panic and its message.
    ///
    /// ```
    /// let panic = std::panic::catch_unwind(|| panic!("no row")).unwrap_err();
    /// let error = shardpack_format::Error::panicked("decoding", &*panic);
    /// assert!(error.to_string().contains("decoding failed with a panic: no row"));
    /// ```
    pub fn panicked(what: impl Into<String>, panic: &(dyn std::any::Any + Send)) -> Self {
        let what: String = what.into();
        Self::internal(format!("{what} failed with a panic: {}", panic_text(panic)), "", "")
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Format { place, .. } | Self::Limit { place, .. } | Self::Internal { place, .. } => Some(place),
            Self::Usage(_) => None,
        }
    }

    /// Sets the file, unless a lower layer has already set it.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        if let Some(place) = self.place_mut() {
            place.file.get_or_insert_with(|| file.into());
        }
        self
    }

    /// Sets the record number, unless a lower layer has already set it.
    #[must_use]
    pub fn in_record(mut self, record: u64) -> Self {
        if let Some(place) = self.place_mut() {
            place.record.get_or_insert(record);
        }
        self
    }

    /// Sets the sample key, unless a lower layer has already set it.
    #[must_use]
    pub fn in_sample(mut self, key: impl Into<String>) -> Self {
        if let Some(place) = self.place_mut() {
            place.key.get_or_insert_with(|| key.into());
        }
        self
    }

    /// Adds `base`, the offset of the parsed slice, to the offset of the error.
    #[must_use]
    pub fn at(mut self, base: u64) -> Self {
        if let Some(place) = self.place_mut() {
            place.offset = Some(place.offset.unwrap_or(0).saturating_add(base));
        }
        self
    }
}

/// Returns the message of a caught panic.
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

/// Panics because of a bug: the code has reached a state that no input should cause. The libraries panic nowhere else.
///
/// Worker threads catch the panic and turn it into an error with [`Error::panicked`].
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

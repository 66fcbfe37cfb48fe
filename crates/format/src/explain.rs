//! The common interface of the error types of all crates: the kind of the error, the hints, and the failed
//! system call. Front ends need not know the concrete types.

use crate::{Error, Hint, Hinted, Voice};
use std::path::Path;

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system failed: a missing file, a full disk, a store that does not answer.
    Io,
    /// The bytes of a file are damaged or contradict each other.
    Format,
    /// A file needs more than the limits allow.
    Limit,
    /// An argument is invalid, or the caller's program passed on its own error.
    Usage,
    /// Another process holds the dataset.
    Busy,
    /// The caller stopped the run.
    Cancelled,
    /// A bug in shardpack.
    Internal,
}

impl ErrorKind {
    /// Returns true if a file's bytes are at fault, rather than the environment or the caller.
    #[must_use]
    pub const fn is_about_data(self) -> bool {
        matches!(self, Self::Format | Self::Limit)
    }
}

/// An error that a front end can show and act on. An error caused by another crate's error delegates to that cause.
///
/// ```
/// use shardpack_format::{Error, ErrorKind, Explain};
/// let error = Error::limit("record", "max_record_bytes", 1, 2);
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// assert_eq!(error.hints().len(), 1);
/// ```
pub trait Explain: std::error::Error {
    /// Returns the kind of the error.
    fn kind(&self) -> ErrorKind;

    /// Returns the hints, which are not part of the error's text.
    fn hints(&self) -> Vec<Hint>;

    /// Returns the text of the error, in which options are spelled for `voice`.
    fn told(&self, voice: Voice) -> String {
        let _ = voice;
        self.to_string()
    }

    /// Returns the system call whose failure caused the error, if there is one.
    fn system_error(&self) -> Option<SystemError<'_>> {
        None
    }
}

/// A failed call to the operating system or to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemError<'e> {
    /// Description of the failure, without the path and the error code.
    pub text: String,
    /// The file on which the call failed, if it is known.
    pub path: Option<&'e Path>,
    /// Error code of the operating system.
    pub code: Option<i32>,
}

impl<'e> SystemError<'e> {
    /// Prefixes the text with an action, given as a verb, and sets the file.
    #[must_use]
    pub fn doing(self, action: &str, path: &'e Path) -> Self {
        Self { text: format!("cannot {action}: {}", self.text), path: Some(path), ..self }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Format { .. } => ErrorKind::Format,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::Usage { .. } => ErrorKind::Usage,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }
}

impl Explain for Hinted {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }
}

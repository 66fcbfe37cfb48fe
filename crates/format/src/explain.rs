//! The common interface of all crates' error types: the kind of error, the hints, and the failed system call. It lets
//! front ends handle errors without knowing their concrete types.

use crate::{Error, Hint, Voice};
use std::path::Path;

/// The cause of an error, in categories that all crates share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system failed, for example a missing file, a full disk or an unresponsive store.
    Io,
    /// The bytes of a file are damaged or contradict each other.
    Format,
    /// Reading a file would exceed one of the limits.
    Limit,
    /// An argument is invalid, or the caller's code returned an error of its own.
    Usage,
    /// Another process is using the dataset.
    Busy,
    /// The caller stopped the run.
    Cancelled,
    /// A bug in shardpack.
    Internal,
}

impl ErrorKind {
    /// True if the bytes of a file are at fault, not the environment or the caller.
    #[must_use]
    pub const fn is_about_data(self) -> bool {
        matches!(self, Self::Format | Self::Limit)
    }
}

/// Implemented by all errors that front ends show and handle. A wrapper of another crate's error delegates to that
/// error.
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

    /// Returns the hints, which are not part of the message.
    fn hints(&self) -> Vec<Hint>;

    /// Returns the message, with option names spelled for `voice`.
    fn told(&self, voice: Voice) -> String {
        let _ = voice;
        self.to_string()
    }

    /// Returns the failed system call that caused the error, if any.
    fn system_error(&self) -> Option<SystemError<'_>> {
        None
    }
}

/// A failed call to the operating system or to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemError<'e> {
    /// Description of the failure, without the path and the error code.
    pub text: String,
    /// The file that the call failed on, if known.
    pub path: Option<&'e Path>,
    /// Error code of the operating system.
    pub code: Option<i32>,
}

impl<'e> SystemError<'e> {
    /// Prefixes the text with the failed action, a verb, and sets the file.
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
            Self::Usage(_) => ErrorKind::Usage,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }
}

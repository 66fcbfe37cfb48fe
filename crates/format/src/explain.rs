//! The common interface of the errors of all crates: the family, the next steps, and the failed call
//! of the system. A front end uses it without knowing the types of the errors.

use crate::{Error, Hint, Hinted, Voice};
use std::path::Path;

/// The family of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system: a missing file, a full disk, a store that does not answer.
    Io,
    /// The bytes of a file are damaged or contradict each other.
    Format,
    /// A file asks for more than the limits allow.
    Limit,
    /// An argument is not valid, or a program has passed on an error of its own.
    Usage,
    /// Another process holds the dataset.
    Busy,
    /// The caller stopped the run.
    Cancelled,
    /// A defect of this project.
    Internal,
}

impl ErrorKind {
    /// Returns whether the bytes of a file are at fault, not the environment or the caller.
    #[must_use]
    pub const fn is_about_data(self) -> bool {
        matches!(self, Self::Format | Self::Limit)
    }
}

/// An error that a front end can show and act on. An error with a cause from another crate delegates to
/// the cause.
///
/// ```
/// use shardpack_format::{Error, ErrorKind, Explain};
/// let error = Error::limit("record", "max_record_bytes", 1, 2);
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// assert_eq!(error.hints().len(), 1);
/// ```
pub trait Explain: std::error::Error {
    /// The family.
    fn kind(&self) -> ErrorKind;

    /// The next steps, which are not part of the text.
    fn hints(&self) -> Vec<Hint>;

    /// The text, with options spelled for `voice`.
    fn told(&self, voice: Voice) -> String {
        let _ = voice;
        self.to_string()
    }

    /// The failed call of the system, if that is the cause.
    fn system_error(&self) -> Option<SystemError<'_>> {
        None
    }
}

/// A failed call of the operating system, or of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemError<'e> {
    /// The text, without the path and the code.
    pub text: String,
    /// The file, if the error knows it.
    pub path: Option<&'e Path>,
    /// The code of the operating system.
    pub code: Option<i32>,
}

impl<'e> SystemError<'e> {
    /// Adds the operation, as a verb, and its file.
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

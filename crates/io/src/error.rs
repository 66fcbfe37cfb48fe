//! The error type of this crate.

use crate::cause::Cause;
use shardpack_format::{Error as FormatError, ErrorKind as Family, Explain, Hint, SystemError, visible_path};
use std::io::ErrorKind;
use std::path::PathBuf;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error from storage or from a file system.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file is missing, access is denied, or the disk or the network has failed.
    #[error("`{}`: cannot {action}{}: {source}", visible_path(path), at_offset(*offset))]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operation that failed, as a verb.
        action: &'static str,
        /// Offset in the file, in bytes, if known.
        offset: Option<u64>,
        /// Error from the operating system or the store.
        source: Cause,
    },
    /// The request was invalid, for example because its target is not a regular file. Always
    /// contains a [`shardpack_format::Error::Usage`].
    #[error("{0}")]
    Usage(FormatError),
}

/// Returns text such as ` at offset 7`, or nothing if there is no offset.
#[must_use]
pub(crate) fn at_offset(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at offset {offset}"))
}

impl Error {
    /// Creates the error for an operation on `path` that failed.
    pub fn io(path: impl Into<PathBuf>, action: &'static str, source: impl Into<Cause>) -> Self {
        Self::Io { path: path.into(), action, offset: None, source: source.into() }
    }

    /// Creates the error for a request that cannot be served.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(FormatError::usage(text))
    }

    /// Adds a hint about the next step if this is an [`Error::Usage`].
    #[must_use]
    pub fn with_hint(self, next: impl Into<Hint>) -> Self {
        match self {
            Self::Usage(error) => Self::Usage(error.with_hint(next)),
            io @ Self::Io { .. } => io,
        }
    }

    /// Returns the hint, which names the next step and is not part of the text.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Usage(error) => error.hint(),
            Self::Io { source, .. } => source.hint(),
        }
    }

    /// Returns the error kind of the cause, or `InvalidInput` for an [`Error::Usage`].
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => source.kind(),
            Self::Usage(_) => ErrorKind::InvalidInput,
        }
    }

    /// Returns whether the error says that the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Returns the cause without the path. The cause of an [`Error::Usage`] has the kind `InvalidInput`.
    #[must_use]
    pub fn into_cause(self) -> Cause {
        match self {
            Self::Io { source, .. } => source,
            Self::Usage(error) => {
                let cause = Cause::new(ErrorKind::InvalidInput, error.to_string());
                error.hint().into_iter().fold(cause, Cause::with_hint)
            }
        }
    }
}

impl Explain for Error {
    fn kind(&self) -> Family {
        match self {
            Self::Io { .. } => Family::Io,
            Self::Usage(error) => Explain::kind(error),
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io { path, action, offset, source } => {
                Some(source.system_error().doing(&format!("{action}{}", at_offset(*offset)), path))
            }
            Self::Usage(_) => None,
        }
    }
}

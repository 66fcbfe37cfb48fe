//! The error type of this crate.

use shardpack_format as format;
use shardpack_format::{ErrorKind, Explain, Hint, SystemError, visible_path};
use shardpack_io::Cause;
use std::path::PathBuf;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error while opening or reading a dataset.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is missing or cannot be read, or the disk failed.
    #[error("`{}`: cannot {action}{}: {source}{}", visible_path(path), Offset(*offset), OfSample(sample))]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operation that failed, as a verb.
        action: &'static str,
        /// Byte offset in the file, if known.
        offset: Option<u64>,
        /// The sample that was being read, if known.
        sample: Option<SampleName>,
        /// The error from the operating system or the store.
        source: Cause,
    },
    /// The bytes violate the specification or exceed the caller's [`Limits`](crate::Limits), the caller's request
    /// cannot be served, or shardpack has a bug. [`Explain::kind`] tells them apart.
    #[error(transparent)]
    Data(#[from] format::Error),
}

impl From<shardpack_io::Error> for Error {
    fn from(error: shardpack_io::Error) -> Self {
        match error {
            shardpack_io::Error::Io { path, action, offset, source } => {
                Self::Io { path, action, offset, sample: None, source }
            }
            shardpack_io::Error::Usage(error) => Self::Data(error),
        }
    }
}

/// The sample of a shard that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleName {
    /// Index of the record in the shard.
    pub record: u64,
    /// Key of the sample.
    pub key: String,
}

impl std::fmt::Display for SampleName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {}, sample `{}`", self.record, self.key.escape_debug())
    }
}

struct OfSample<'a>(&'a Option<SampleName>);

impl std::fmt::Display for OfSample<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or(Ok(()), |sample| write!(f, ": {sample}"))
    }
}

struct Offset(Option<u64>);

impl std::fmt::Display for Offset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |offset| write!(f, " at offset {offset}"))
    }
}

impl Error {
    /// Creates an error for a failed system call. `action` is a verb, such as `read`.
    pub fn io(path: impl Into<PathBuf>, action: &'static str, source: impl Into<Cause>) -> Self {
        Self::Io { path: path.into(), action, offset: None, sample: None, source: source.into() }
    }

    /// Same as [`Error::io`], with the byte offset in the file.
    pub fn io_at(path: impl Into<PathBuf>, action: &'static str, offset: u64, source: impl Into<Cause>) -> Self {
        Self::Io { path: path.into(), action, offset: Some(offset), sample: None, source: source.into() }
    }

    /// Adds the sample to an `Io` error. Other errors already name it.
    #[must_use]
    pub fn of_sample(self, name: impl FnOnce() -> SampleName) -> Self {
        match self {
            Self::Io { path, action, offset, source, .. } => {
                Self::Io { path, action, offset, sample: Some(name()), source }
            }
            other => other,
        }
    }

    /// Creates an error for a request that cannot be served.
    pub fn usage(text: impl Into<String>) -> Self {
        format::Error::usage(text).into()
    }

    /// Adds a hint, like [`shardpack_format::Error::with_hint`]. Does not change `Io` errors.
    #[must_use]
    pub fn with_hint(self, next: impl Into<Hint>) -> Self {
        match self {
            Self::Data(error) => Self::Data(error.with_hint(next)),
            Self::Io { .. } => self,
        }
    }

    /// Returns the hint for the next step. The message does not include the hint, because each front end spells options
    /// differently ([`Hint::told`]).
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Data(error) => error.hint(),
            Self::Io { source, .. } => source.hint(),
        }
    }

    /// Creates an error for a state that should be impossible.
    pub fn internal(what: impl Into<String>, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Self {
        Self::Data(format::Error::internal(what, expected, found))
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Data(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        let Self::Io { path, action, offset, sample, source } = self else { return None };
        let error = source.system_error().doing(&format!("{action}{}", Offset(*offset)), path);
        Some(SystemError { text: format!("{}{}", error.text, OfSample(sample)), ..error })
    }
}

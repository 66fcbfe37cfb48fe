//! The error type of this crate.

use crate::unfinished::Unfinished;
use shardpack_format::{ErrorKind, Explain, Hint, Note, Setting, SystemError, visible_path};
use shardpack_io::Cause;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error from writing, growing, compacting or merging a dataset.
///
/// The cause is the environment (`Io`, `NoSpace`), the bytes of a dataset (`Format`, `Damaged`), the caller (`Format`,
/// `Cancelled`), the content of the folder (`Format`, `Unfinished`), a limit (`Limit`), the caller's
/// [`SampleSource`](crate::SampleSource) (`Source`), another run (`Locked`), or a bug in shardpack (`Format`).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", visible_path(path))]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// File or folder that the operation failed on.
        path: PathBuf,
        /// Error from the operating system or the store.
        source: Cause,
    },
    /// The disk is full, or the user's quota is exhausted.
    #[error(
        "cannot write `{}`: {source}; the rest of the dataset needs about {needed_bytes} bytes{}",
        visible_path(path),
        free_bytes.filter(|n| n < needed_bytes).map(|n| format!(", but only {n} are free")).unwrap_or_default()
    )]
    NoSpace {
        /// File that could not be written.
        path: PathBuf,
        /// Estimated size of the unfinished shards, in bytes.
        needed_bytes: u64,
        /// Free bytes in the file system after the temporary file is removed, if known.
        free_bytes: Option<u64>,
        /// Error from the operating system or the store.
        source: Cause,
    },
    /// The bytes of an existing dataset or of a record violate the specification, the caller requested something
    /// impossible, the folder contains something that this run must not change or cannot continue, or shardpack has a
    /// bug. [`Explain::kind`] tells them apart.
    #[error(transparent)]
    Format(#[from] shardpack_format::Error),
    /// The manifest or a shard of a complete dataset is damaged.
    #[error("{source}")]
    Damaged {
        /// The damage, including the name of the file.
        source: shardpack_format::Error,
    },
    /// A quantity exceeds a limit of this crate or of the format.
    #[error("{what}: {found} exceeds the limit of {limit}")]
    Limit {
        /// Name of the quantity.
        what: String,
        /// Largest allowed value.
        limit: u64,
        /// Requested value.
        found: u64,
        /// Hint for the user. May be empty.
        hint: Hint,
    },
    /// The source could not provide a sample.
    #[error("sample `{}`: {source}", key.escape_debug())]
    Source {
        /// Key of the sample.
        key: String,
        /// Error returned by the source, or the message of its panic.
        source: Arc<dyn Explain + Send + Sync>,
    },
    /// Some parts of the dataset are unfinished, so they cannot be merged yet.
    #[error("{0}")]
    Unfinished(Box<Unfinished>),
    /// The caller has set `cancel`. Finished shards are kept.
    #[error("cancelled")]
    Cancelled,
    /// Another packer is running on the same folder.
    #[error("`{}` is being written by another packer: {holder}", visible_path(path))]
    Locked {
        /// Path of the lock file.
        path: PathBuf,
        /// Process, host and start time of the holder, as written in the lock file.
        holder: String,
        /// Hint for the user.
        hint: Hint,
    },
}

impl From<shardpack_io::Error> for Error {
    fn from(e: shardpack_io::Error) -> Self {
        match e {
            shardpack_io::Error::Io { path, action, source, .. } => Self::Io { action, path, source },
            shardpack_io::Error::Usage(error) => Self::Format(error),
        }
    }
}

pub(crate) fn samples(count: u64) -> String {
    format!("{count} sample{}", if count == 1 { "" } else { "s" })
}

/// Returns the hint `other`, followed by the hint to replace the existing dataset.
pub(crate) fn start_over(other: impl Into<std::borrow::Cow<'static, str>>) -> Hint {
    Hint::new(other)
        .then("or start over with ")
        .and([Setting::on("force")])
        .then(" but without ")
        .and([Setting::named("part")])
}

impl Error {
    /// Returns a hint for the next step. The message does not include it, because the command and the Python package
    /// spell options differently ([`Hint::told`]).
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            Self::Limit { hint, .. } | Self::Locked { hint, .. } => hint.clone(),
            Self::NoSpace { .. } => "free some space, then run the same command again: finished shards are kept".into(),
            Self::Cancelled => "run the same command again to continue: finished shards are kept".into(),
            Self::Damaged { .. } => start_over(
                "recover the undamaged samples with `shardpack salvage` (if no manifest is readable, removed samples \
                 may come back), ",
            ),
            Self::Io { source, .. } => return source.hint(),
            Self::Unfinished(unfinished) => return Some(unfinished.hint()),
            Self::Format(error) => return error.hint(),
            Self::Source { .. } => return None,
        };
        (!hint.is_empty()).then_some(hint)
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<Cause>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn usage(text: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Format(shardpack_format::Error::Usage(Note::new(text).with_hint(hint)))
    }

    pub(crate) fn internal(
        what: impl Into<String>,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Format(shardpack_format::Error::internal(what, expected, found))
    }

    /// Turns an error about a full disk into one that states the needed and the free bytes.
    pub(crate) fn with_space(self, needed_bytes: u64, free_bytes: impl FnOnce() -> Option<u64>) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Io { path, source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                Self::NoSpace { path, needed_bytes, free_bytes: free_bytes(), source }
            }
            other => other,
        }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::NoSpace { .. } => ErrorKind::Io,
            Self::Format(error) | Self::Damaged { source: error } => error.kind(),
            Self::Limit { .. } => ErrorKind::Limit,
            Self::Unfinished(_) => ErrorKind::Usage,
            Self::Source { source, .. } => source.kind(),
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Locked { .. } => ErrorKind::Busy,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Source { source, .. } => source.hints(),
            _ => self.hint().into_iter().collect(),
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io { action, path, source } => Some(source.system_error().doing(action, path)),
            Self::NoSpace { source, .. } => Some(source.system_error()),
            Self::Source { key, source } => source.system_error().map(|answer| SystemError {
                text: format!("sample `{}`: {}", key.escape_debug(), answer.text),
                ..answer
            }),
            _ => None,
        }
    }
}

//! Defines the error type of `Collector`.

use crate::encode::SampleError;
use shardpack_format::{ErrorKind, Explain, Hint, Note, SystemError, Voice, visible_path};
use shardpack_io::Cause;
use shardpack_recipe::ArgumentError;
use std::fmt;
use std::io::ErrorKind as CauseKind;
use std::path::{Path, PathBuf};

/// `Result` with [`CollectError`] as its default error.
pub type Result<T, E = CollectError> = std::result::Result<T, E>;

/// An error from adding a sample or from writing the dataset.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The operating system returned an error.
    #[error("cannot {action} `{}`: {source}", visible_path(path))]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The dataset folder.
        path: PathBuf,
        /// Error from the operating system.
        source: Cause,
    },
    /// A sample cannot be added.
    #[error("sample `{}`: {refusal}", key.escape_debug())]
    Sample {
        /// Key of the sample.
        key: String,
        /// Why it cannot be added.
        refusal: SampleRefusal,
    },
    /// Two samples have the same key.
    #[error("sample key `{}` occurs twice", key.escape_debug())]
    RepeatedKey {
        /// The repeated key.
        key: String,
    },
    /// An argument is not valid or does not fit the dataset, the options contradict each other, or a record does not
    /// fit the format.
    #[error(transparent)]
    Format(#[from] shardpack_format::Error),
    /// The output folder cannot be used, or writing the dataset failed.
    #[error(transparent)]
    Writer(#[from] shardpack_writer::Error),
    /// The existing dataset cannot be read.
    #[error(transparent)]
    Reader(#[from] shardpack_reader::Error),
    /// An option differs from the existing dataset's option.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
}

/// Why a sample cannot be added. The message does not name the sample.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SampleRefusal {
    /// A value does not fit the schema or is missing, or the sample's key, position or size is not allowed.
    #[error("{}", .0.text)]
    Misfit(Note),
    /// A value cannot be stored with these options.
    #[error("field `{field}`: {source}")]
    Encode {
        /// Name of the field.
        field: String,
        /// Error from encoding the value.
        source: Box<SampleError>,
    },
    /// The existing dataset already has a sample with this key.
    #[error("{}", .0.text)]
    KnownKey(Note),
}

impl Explain for SampleRefusal {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Encode { source, .. } if source.is_of_picture() => ErrorKind::Format,
            Self::Misfit(_) | Self::Encode { .. } | Self::KnownKey(_) => ErrorKind::Usage,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Misfit(note) | Self::KnownKey(note) => note.hint.clone().into_iter().collect(),
            Self::Encode { source, .. } => source.hints(),
        }
    }
}

impl Explain for CollectError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Sample { refusal, .. } => refusal.kind(),
            Self::RepeatedKey { .. } => ErrorKind::Usage,
            Self::Format(error) => error.kind(),
            Self::Writer(error) => error.kind(),
            Self::Reader(error) => error.kind(),
            Self::Argument(error) => error.kind(),
        }
    }

    fn told(&self, voice: Voice) -> String {
        match self {
            Self::Argument(error) => error.told(voice),
            other => other.to_string(),
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io { action, path, source } => Some(source.system_error().doing(action, path)),
            Self::Writer(error) => error.system_error(),
            Self::Reader(error) => error.system_error(),
            _ => None,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Io { source, .. } => match source.kind() {
                CauseKind::StorageFull | CauseKind::QuotaExceeded => {
                    vec!["free some space, then add the sample again: earlier samples are kept".into()]
                }
                _ => source.hint().into_iter().collect(),
            },
            Self::Sample { refusal, .. } => refusal.hints(),
            Self::RepeatedKey { .. } => Vec::new(),
            Self::Format(error) => error.hints(),
            Self::Writer(error) => error.hints(),
            Self::Reader(error) => error.hints(),
            Self::Argument(error) => error.hints(),
        }
    }
}

impl CollectError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    pub(super) fn of_sample(key: &str, text: impl Into<String>, hint: impl Into<Hint>) -> Self {
        let refusal = SampleRefusal::Misfit(Note::new(text).with_hint(hint));
        Self::Sample { key: key.to_owned(), refusal }
    }

    pub(super) fn misfit(key: &str, field: &str, text: impl fmt::Display, hint: impl Into<Hint>) -> Self {
        Self::of_sample(key, format!("field `{field}`: {text}"), hint)
    }

    pub(super) fn usage(text: impl Into<String>, hint: impl Into<Hint>) -> Self {
        Self::Format(shardpack_format::Error::Usage(Note::new(text).with_hint(hint)))
    }
}

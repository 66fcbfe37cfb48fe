//! Defines the error type of this crate, which the command and the Python package also use. It
//! wraps errors of the crates below and adds context.

use crate::collect::CollectError;
use crate::pack::SampleError;
use shardpack_array::EncodeError;
use shardpack_format::{Error as FormatError, ErrorKind, Explain, Hint, Note, SystemError, Voice, told};
use shardpack_io::{Cause, Error as IoError};
use shardpack_reader::Error as ReaderError;
use shardpack_recipe::ArgumentError;
use shardpack_sources::SourceError;
use shardpack_sources::cubes::CubeError;
use shardpack_writer::Error as WriterError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// `Result` with [`Error`] as its default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error from any shardpack crate, with context.
///
/// `Display` writes one line: the contexts, then the cause. `Debug` adds the hints, so a program prints both if
/// its `main` returns this error.
///
/// ```
/// use shardpack_format::ErrorKind;
/// use shardpack_pack::{Context, Error};
/// let missing = std::fs::read("no/such/file").context("cannot read the table").unwrap_err();
/// assert_eq!(missing.kind(), ErrorKind::Io);
/// assert!(missing.to_string().starts_with("cannot read the table: "));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// Context added to another error, with an optional hint.
    Context {
        /// Context, shown in front of the underlying error.
        note: Note,
        /// The underlying error.
        source: Box<Self>,
    },
    /// An option has an invalid value.
    Argument(ArgumentError),
    /// Bytes violate the specification, or the request is invalid.
    Format(FormatError),
    /// Error from a file system or a store.
    Storage(IoError),
    /// Error from the reader.
    Reader(ReaderError),
    /// Error from the writer.
    Writer(WriterError),
    /// The source as a whole cannot be used.
    Source(Arc<SourceError>),
    /// One file of a source cannot be read.
    Cube(Arc<CubeError>),
    /// One sample of a source cannot be packed.
    Sample(Arc<SampleError>),
    /// Error while collecting samples from a program.
    Collect(Arc<CollectError>),
    /// An array cannot be stored as requested.
    Encode(EncodeError),
    /// A system call failed.
    System(Cause),
    /// Error from another library.
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error from another library.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into().into())
    }

    /// Adds context, with an optional hint, to this error.
    #[must_use]
    pub fn context(self, note: impl Into<Note>) -> Self {
        Self::Context { note: note.into(), source: Box::new(self) }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.cause().map_or(ErrorKind::Usage, Explain::kind)
    }

    /// Returns the kind of the failed system call, if there was one.
    #[must_use]
    pub fn system_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Context { source, .. } => source.system_kind(),
            Self::System(cause) => Some(cause.kind()),
            other => Explain::system_error(other)?.code.map(|code| io::Error::from_raw_os_error(code).kind()),
        }
    }

    /// Returns the hints, one per line. Empty if there are none.
    #[must_use]
    pub fn hint(&self) -> String {
        self.hints().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn cause(&self) -> Option<&dyn Explain> {
        Some(match self {
            Self::Context { source, .. } => &**source,
            Self::Argument(error) => error,
            Self::Format(error) => error,
            Self::Storage(error) => error,
            Self::Reader(error) => error,
            Self::Writer(error) => error,
            Self::Source(error) => &**error,
            Self::Cube(error) => &**error,
            Self::Sample(error) => &**error,
            Self::Collect(error) => &**error,
            Self::Encode(error) => error,
            Self::System(error) => error,
            Self::Other(_) => return None,
        })
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        Self::kind(self)
    }

    /// Returns all hints without duplicates, starting with the hints of the contexts.
    fn hints(&self) -> Vec<Hint> {
        let mut hints = match self {
            Self::Context { note, .. } => note.hint.clone().into_iter().collect(),
            _ => Vec::new(),
        };
        for hint in self.cause().map_or_else(Vec::new, Explain::hints) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    fn told(&self, voice: Voice) -> String {
        match (self, self.cause()) {
            (Self::Context { note, source }, _) => format!("{}: {}", note.text, source.told(voice)),
            (Self::Other(error), _) => error.to_string(),
            (_, Some(cause)) => cause.told(voice),
            (_, None) => String::new(),
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        self.cause().and_then(Explain::system_error)
    }
}

// `source` is empty because `Display` already includes the causes. A caller that walks the chain would print
// them twice.
impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Explain::told(self, Voice::Rust))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(self, &self.hints(), Voice::Rust))
    }
}

const fn usage(note: Note) -> Error {
    Error::Format(FormatError::Usage(note))
}

macro_rules! from {
    ($($error:ty => $variant:expr,)+) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                $variant(error.into())
            }
        }
    )+};
}

from! {
    Note => usage,
    &str => usage,
    String => usage,
    ArgumentError => Self::Argument,
    FormatError => Self::Format,
    IoError => Self::Storage,
    ReaderError => Self::Reader,
    WriterError => Self::Writer,
    SourceError => Self::Source,
    CubeError => Self::Cube,
    SampleError => Self::Sample,
    CollectError => Self::Collect,
    EncodeError => Self::Encode,
    Cause => Self::System,
    io::Error => Self::System,
}

macro_rules! from_other {
    ($($error:ty),+) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::other(error)
            }
        }
    )+};
}

from_other!(serde_json::Error, std::num::TryFromIntError);

impl From<rayon::ThreadPoolBuildError> for Error {
    fn from(error: rayon::ThreadPoolBuildError) -> Self {
        io::Error::other(error).into()
    }
}

/// Adds context to an error, or turns a missing value into an error.
pub trait Context<T> {
    /// Adds context, with an optional hint.
    ///
    /// # Errors
    /// Fails if this is an error or `None`.
    fn context(self, note: impl Into<Note>) -> Result<T>;

    /// Adds context that is computed only if there is an error.
    ///
    /// # Errors
    /// Fails if this is an error or `None`.
    fn with_context<N: Into<Note>>(self, note: impl FnOnce() -> N) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, note: impl Into<Note>) -> Result<T> {
        self.map_err(|error| error.into().context(note))
    }

    fn with_context<N: Into<Note>>(self, note: impl FnOnce() -> N) -> Result<T> {
        self.map_err(|error| error.into().context(note()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, note: impl Into<Note>) -> Result<T> {
        self.ok_or_else(|| usage(note.into()))
    }

    fn with_context<N: Into<Note>>(self, note: impl FnOnce() -> N) -> Result<T> {
        self.ok_or_else(|| usage(note().into()))
    }
}

/// Returns early with an error, made from a format string or from any value that converts to an [`Error`].
#[macro_export]
macro_rules! bail {
    ($text:literal $(, $argument:expr)* $(,)?) => {
        return Err($crate::Error::from(format!($text $(, $argument)*)))
    };
    ($error:expr $(,)?) => {
        return Err($crate::Error::from($error))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Setting;

    #[test]
    fn debug_has_the_hint_and_display_does_not() {
        let error = Error::from(ReaderError::from(FormatError::limit("record", "max_record_bytes", 1, 2)));
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(error.to_string(), "record is over the limit `max_record_bytes`: 2 > 1");
        assert_eq!(format!("{error:?}"), format!("{error}\nhint: {}", error.hint()));
        assert!(error.hint().contains("`max_record_bytes`"), "{}", error.hint());
    }

    #[test]
    fn contexts_keep_the_kind_and_add_hints() {
        let io = io::Error::from(io::ErrorKind::BrokenPipe);
        let note = Note::new("while printing").with_hint("try again");
        let error = Err::<(), _>(io).context(note).context("outermost").unwrap_err();
        assert_eq!((error.kind(), error.hint()), (ErrorKind::Io, "try again".to_owned()));
        assert_eq!(error.to_string(), "outermost: while printing: broken pipe");
        assert_eq!(error.system_kind(), Some(io::ErrorKind::BrokenPipe));
        let error = Error::other("no light");
        assert_eq!(
            (error.kind(), error.to_string(), error.hint()),
            (ErrorKind::Usage, "no light".into(), String::new())
        );
    }

    #[test]
    fn an_option_below_a_context_is_spelled_by_the_voice() {
        let error = Error::from(ArgumentError::new("shard_size", "a size", "much")).context("candidate 1");
        let hint = Hint::set([Setting::on("force")]);
        let error = error.context(Note::new("cannot pack").with_hint(hint));
        let said = "expected a size, found much";
        assert_eq!(Explain::told(&error, Voice::Command), format!("cannot pack: candidate 1: --shard-size: {said}"));
        assert_eq!(error.to_string(), format!("cannot pack: candidate 1: shard_size: {said}"));
        assert_eq!(error.hint(), "`force = true`");
    }
}

//! The error of the facade: a text, its causes, and what to do next.

use crate::explain::{explain, explain_where, hints};
use shardpack_format::{Error as FormatError, Voice};
use shardpack_io::Error as IoError;
use shardpack_reader::Error as ReaderError;
use shardpack_writer::Error as WriterError;
use std::fmt;

/// The result of the facade.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate, or any other that a program passes on with `?`.
///
/// `Display` is one line: the error and its causes. `Debug` adds what to do next, so that a program
/// whose `main` returns this error prints both:
///
/// ```
/// # use shardpack::Dataset;
/// let error = Dataset::open("no/such/folder").unwrap_err();
/// assert_eq!(error.kind(), shardpack::ErrorKind::Io);
/// assert!(error.to_string().contains("no/such/folder"));
/// ```
pub struct Error(anyhow::Error);

/// The family of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system: a file that is not there, a full disk, a store that does not answer.
    Io,
    /// The bytes of a file are damaged, or not what they say they are.
    Format,
    /// A file asks for more than the limits allow.
    Limit,
    /// An argument does not fit, or another error that a program has passed on.
    Usage,
}

impl Error {
    /// The family of the error: that of the first cause that has one.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.chain().find_map(kind_of).unwrap_or(ErrorKind::Usage)
    }

    /// What to do next, each on a line; empty if there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        hints(&self.0).iter().map(|hint| hint.told(Voice::Rust)).collect::<Vec<_>>().join("\n")
    }
}

fn kind_of(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let of_format = |error: &FormatError| match error {
        FormatError::Format { .. } => ErrorKind::Format,
        FormatError::Limit { .. } => ErrorKind::Limit,
        _ => ErrorKind::Usage,
    };
    if let Some(error) = cause.downcast_ref::<ReaderError>() {
        return Some(match error {
            ReaderError::Io { .. } => ErrorKind::Io,
            ReaderError::Format(_) => ErrorKind::Format,
            ReaderError::Limit(_) => ErrorKind::Limit,
            _ => ErrorKind::Usage,
        });
    }
    if let Some(error) = cause.downcast_ref::<IoError>() {
        return Some(if matches!(error, IoError::Io { .. }) { ErrorKind::Io } else { ErrorKind::Usage });
    }
    if let Some(error) = cause.downcast_ref::<WriterError>() {
        return Some(match error {
            WriterError::Io { .. } | WriterError::NoSpace { .. } => ErrorKind::Io,
            WriterError::Format(error) => of_format(error),
            WriterError::Damaged { .. } => ErrorKind::Format,
            WriterError::Limit { .. } => ErrorKind::Limit,
            _ => ErrorKind::Usage,
        });
    }
    let io = cause.downcast_ref::<std::io::Error>().map(|_| ErrorKind::Io);
    cause.downcast_ref().map(of_format).or(io)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&explain_where(&self.0, Voice::Rust, |_| false))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&explain(&self.0, Voice::Rust))
    }
}

// As `anyhow::Error`, this is no `std::error::Error`, so that every other error becomes one by `?`.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Error {
    pub(crate) const fn new(error: anyhow::Error) -> Self {
        Self(error)
    }
}

impl From<Error> for anyhow::Error {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl From<Error> for Box<dyn std::error::Error> {
    fn from(error: Error) -> Self {
        error.0.into()
    }
}

impl From<Error> for Box<dyn std::error::Error + Send + Sync> {
    fn from(error: Error) -> Self {
        error.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_has_the_hint_and_display_does_not() {
        let error = Error::from(ReaderError::from(FormatError::limit("record", "max_record_bytes", 1, 2)));
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(error.to_string(), "record is over the limit `max_record_bytes`: 2 > 1");
        assert_eq!(format!("{error:?}"), format!("{error}\nhint: {}", error.hint()));
        assert!(error.hint().contains("`max_record_bytes`"), "{}", error.hint());
    }

    #[test]
    fn other_errors_become_one() {
        let error = Error::from(std::io::Error::other("no light"));
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Io, "no light".to_owned()));
        assert_eq!(error.hint(), "");
    }
}

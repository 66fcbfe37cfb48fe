//! The cause of an I/O error, with an optional hint.

use shardpack_format::{ErrorKind as Family, Explain, Hint, SystemError};
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// An error from the operating system or a store, with a hint about the next step if there is one.
///
/// ```
/// use shardpack_format::Hint;
/// use shardpack_io::Cause;
/// use std::io::ErrorKind;
/// let cause = Cause::new(ErrorKind::PermissionDenied, "the store denied access").with_hint("try other credentials");
/// assert_eq!((cause.kind(), cause.to_string().as_str()), (ErrorKind::PermissionDenied, "the store denied access"));
/// assert_eq!(cause.hint(), Some(Hint::new("try other credentials")));
/// ```
#[derive(Debug, Clone)]
pub struct Cause {
    error: Arc<io::Error>,
    /// Boxed, so that the many errors that contain a cause stay small.
    hint: Option<Box<Hint>>,
}

impl Cause {
    /// Creates a cause for an error that did not come from the operating system.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        io::Error::new(kind, text.into()).into()
    }

    /// Sets the hint, which names the next step.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Hint>) -> Self {
        Self { hint: Some(Box::new(hint.into())), ..self }
    }

    /// Returns the hint, which names the next step and is not part of the text.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        self.hint.as_deref().cloned()
    }

    /// Returns the error kind of the standard library.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    /// Returns the error code of the operating system, if there is one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.error.raw_os_error()
    }

    /// Returns the error code and the message without the code, so that each front end can format them in its own
    /// way.
    #[must_use]
    pub fn system_error(&self) -> SystemError<'static> {
        let (mut text, code) = (self.to_string(), self.raw_os_error());
        if let Some(code) = code {
            let bare = text.strip_suffix(&format!(" (os error {code})")).map(str::to_owned);
            text = bare.unwrap_or(text);
        }
        SystemError { text, path: None, code }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self { error: Arc::new(error), hint: None }
    }
}

impl From<ErrorKind> for Cause {
    fn from(kind: ErrorKind) -> Self {
        io::Error::from(kind).into()
    }
}

/// Supports traits of the standard library that require an `io::Error`. Drops the hint.
impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        Arc::try_unwrap(cause.error).unwrap_or_else(|error| match error.raw_os_error() {
            Some(code) => Self::from_raw_os_error(code),
            None => Self::new(error.kind(), error.to_string()),
        })
    }
}

impl Explain for Cause {
    fn kind(&self) -> Family {
        Family::Io
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        Some(Self::system_error(self))
    }
}

//! Defines the error type for cube files. An error always names the file.

use shardpack_format::{ErrorKind, Explain, Hint, Setting, SystemError};
use shardpack_io::Cause;
use std::fmt;
use std::path::Path;

/// `Result` with [`CubeError`] as its default error.
pub type Result<T, E = CubeError> = std::result::Result<T, E>;

/// An error that prevents a cube from being read. Every variant names the file; see [`CubeError::path`].
///
/// ```
/// use shardpack_sources::cubes::{CubeError, CubeOptions, load};
/// let error = load("no-such-file.npy".as_ref(), &CubeOptions::default()).unwrap_err();
/// assert!(matches!(error, CubeError::Io { .. }));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CubeError {
    /// A system call failed.
    Io {
        /// Path of the file.
        path: Box<Path>,
        /// The action that failed.
        what: &'static str,
        /// Error from the operating system.
        error: Cause,
    },
    /// The file violates its format, or is truncated.
    Damaged {
        /// Path of the file.
        path: Box<Path>,
        /// The violation.
        text: Box<str>,
        /// Hint for the user.
        hint: Option<Box<Hint>>,
    },
    /// A valid file that shardpack cannot read as a cube, for example because of complex numbers, four axes, or
    /// an unsupported compression.
    Unsupported {
        /// Path of the file.
        path: Box<Path>,
        /// The unsupported content.
        text: Box<str>,
        /// Hint for the user.
        hint: Option<Box<Hint>>,
    },
    /// The options do not match this file.
    Usage {
        /// Path of the file.
        path: Box<Path>,
        /// The mismatch between the options and the file.
        text: Box<str>,
        /// Hint for the user.
        hint: Option<Box<Hint>>,
    },
    /// The cube exceeds [`CubeOptions::max_bytes`](super::CubeOptions::max_bytes).
    Limit {
        /// Path of the file.
        path: Box<Path>,
        /// Name of the size that exceeds the limit.
        what: Box<str>,
        /// The limit, in bytes.
        limit: u64,
        /// Required memory, in bytes.
        found: u64,
    },
    /// The run was cancelled; see [`CubeRun`](super::CubeRun).
    Cancelled {
        /// Path of the file.
        path: Box<Path>,
    },
}

impl CubeError {
    /// Returns the path of the file with the error.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Damaged { path, .. }
            | Self::Unsupported { path, .. }
            | Self::Usage { path, .. }
            | Self::Limit { path, .. }
            | Self::Cancelled { path } => path,
        }
    }

    /// Describes the problem without the file's path.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Io { what, error, .. } => format!("{what}: {error}"),
            Self::Damaged { text, .. } | Self::Unsupported { text, .. } | Self::Usage { text, .. } => text.to_string(),
            Self::Limit { what, limit, found, .. } => {
                format!("{what} takes {found} bytes of memory, but the limit is {limit} bytes")
            }
            Self::Cancelled { .. } => "interrupted while reading the file".to_owned(),
        }
    }

    /// Returns the hint for the user. It is not part of the error text.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Damaged { hint, .. } | Self::Unsupported { hint, .. } | Self::Usage { hint, .. } => {
                hint.as_deref().cloned()
            }
            Self::Limit { .. } => {
                Some(Hint::new("raise ").and([Setting::named("max_cube")]).then(" if you trust this file"))
            }
            Self::Io { .. } | Self::Cancelled { .. } => None,
        }
    }

    pub(super) fn cancelled(path: &Path) -> Self {
        Self::Cancelled { path: path.into() }
    }

    pub(super) fn io(path: &Path, what: &'static str, error: impl Into<Cause>) -> Self {
        Self::Io { path: path.into(), what, error: error.into() }
    }

    pub(super) fn format(
        path: &Path,
        what: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::damaged(path, format_args!("{what}: expected {expected}, found {found}"))
    }

    pub(super) fn damaged(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Damaged { path: path.into(), text: text(reason), hint: None }
    }

    pub(super) fn unsupported(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Unsupported { path: path.into(), text: text(reason), hint: None }
    }

    pub(super) fn usage(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Usage { path: path.into(), text: text(reason), hint: None }
    }

    pub(super) fn limit(path: &Path, what: impl fmt::Display, limit: u64, found: u64) -> Self {
        Self::Limit { path: path.into(), what: text(what), limit, found }
    }

    #[must_use]
    pub(super) fn with_hint(mut self, next: impl Into<Hint>) -> Self {
        if let Self::Damaged { hint, .. } | Self::Unsupported { hint, .. } | Self::Usage { hint, .. } = &mut self {
            *hint = Some(Box::new(next.into()));
        }
        self
    }
}

fn text(value: impl fmt::Display) -> Box<str> {
    value.to_string().into_boxed_str()
}

impl fmt::Display for CubeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // File names are untrusted, so escape their control characters.
        write!(f, "`{}`: {}", self.path().to_string_lossy().escape_debug(), self.reason())
    }
}

impl std::error::Error for CubeError {}

impl Explain for CubeError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Damaged { .. } => ErrorKind::Format,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::Unsupported { .. } | Self::Usage { .. } => ErrorKind::Usage,
            Self::Cancelled { .. } => ErrorKind::Cancelled,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io { path, what, error } => {
                let answer = error.system_error();
                Some(SystemError { text: format!("{what}: {}", answer.text), path: Some(path), ..answer })
            }
            _ => None,
        }
    }
}

//! Defines the error type for cube files. An error always names the file.

use shardpack_format::{ErrorKind, Explain, Hint, Setting, SystemError};
use shardpack_io::Cause;
use std::fmt;
use std::path::Path;

/// `Result` with [`CubeError`] as its default error.
pub type Result<T, E = CubeError> = std::result::Result<T, E>;

/// An error that prevents a cube from being read.
///
/// ```
/// use shardpack_sources::cubes::{CubeOptions, CubeProblem, load};
/// let error = load("no-such-file.npy".as_ref(), &CubeOptions::default()).unwrap_err();
/// assert!(matches!(error.problem(), CubeProblem::Io { .. }));
/// ```
#[derive(Debug, Clone)]
pub struct CubeError {
    path: Box<Path>,
    problem: CubeProblem,
    hint: Option<Box<Hint>>,
}

/// The problem with a cube file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CubeProblem {
    /// A system call failed.
    Io {
        /// The action that failed.
        what: &'static str,
        /// Error from the operating system.
        error: Cause,
    },
    /// The file violates its format, or is truncated.
    Damaged(Box<str>),
    /// A valid file that shardpack cannot read as a cube, for example because of complex numbers, four axes, or
    /// an unsupported compression.
    Unsupported(Box<str>),
    /// The options do not match this file.
    Usage(Box<str>),
    /// The cube exceeds [`CubeOptions::max_bytes`](super::CubeOptions::max_bytes).
    Limit {
        /// Name of the size that exceeds the limit.
        what: Box<str>,
        /// The limit, in bytes.
        limit: u64,
        /// Required memory, in bytes.
        found: u64,
    },
    /// The run was cancelled; see [`CubeRun`](super::CubeRun).
    Cancelled,
}

impl CubeError {
    /// Returns the path of the file with the error.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the problem with the file.
    #[must_use]
    pub const fn problem(&self) -> &CubeProblem {
        &self.problem
    }

    /// Describes the problem without the file's path.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.problem {
            CubeProblem::Io { what, error } => format!("{what}: {error}"),
            CubeProblem::Damaged(text) | CubeProblem::Unsupported(text) | CubeProblem::Usage(text) => text.to_string(),
            CubeProblem::Limit { what, limit, found } => {
                format!("{what} takes {found} bytes of memory, but the limit is {limit} bytes")
            }
            CubeProblem::Cancelled => "interrupted while reading the file".to_owned(),
        }
    }

    /// Returns the hint for the user. It is not part of the error text.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        self.hint.as_deref().cloned()
    }

    fn new(path: &Path, problem: CubeProblem) -> Self {
        Self { path: path.into(), problem, hint: None }
    }

    pub(super) fn cancelled(path: &Path) -> Self {
        Self::new(path, CubeProblem::Cancelled)
    }

    pub(super) fn io(path: &Path, what: &'static str, error: impl Into<Cause>) -> Self {
        Self::new(path, CubeProblem::Io { what, error: error.into() })
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
        Self::new(path, CubeProblem::Damaged(text(reason)))
    }

    pub(super) fn unsupported(path: &Path, reason: impl fmt::Display) -> Self {
        Self::new(path, CubeProblem::Unsupported(text(reason)))
    }

    pub(super) fn usage(path: &Path, reason: impl fmt::Display) -> Self {
        Self::new(path, CubeProblem::Usage(text(reason)))
    }

    pub(super) fn limit(path: &Path, what: impl fmt::Display, limit: u64, found: u64) -> Self {
        let error = Self::new(path, CubeProblem::Limit { what: text(what), limit, found });
        error.with_hint(Hint::new("raise ").and([Setting::named("max_cube")]).then(" if you trust this file"))
    }

    #[must_use]
    pub(super) fn with_hint(mut self, next: impl Into<Hint>) -> Self {
        self.hint = Some(Box::new(next.into()));
        self
    }
}

fn text(value: impl fmt::Display) -> Box<str> {
    value.to_string().into_boxed_str()
}

impl fmt::Display for CubeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // File names are untrusted, so escape their control characters.
        write!(f, "`{}`: {}", self.path.to_string_lossy().escape_debug(), self.reason())
    }
}

impl std::error::Error for CubeError {}

impl Explain for CubeError {
    fn kind(&self) -> ErrorKind {
        match self.problem {
            CubeProblem::Io { .. } => ErrorKind::Io,
            CubeProblem::Damaged(_) => ErrorKind::Format,
            CubeProblem::Limit { .. } => ErrorKind::Limit,
            CubeProblem::Unsupported(_) | CubeProblem::Usage(_) => ErrorKind::Usage,
            CubeProblem::Cancelled => ErrorKind::Cancelled,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        let CubeProblem::Io { what, error } = &self.problem else { return None };
        let answer = error.system_error();
        Some(SystemError { text: format!("{what}: {}", answer.text), path: Some(&self.path), ..answer })
    }
}

//! Errors that make a whole source unusable. A problem with a single file is a [`BadInput`](crate::BadInput).

use crate::bad::BadInputs;
use crate::words::plural;
use shardpack_format::{ErrorKind, Explain, Hint, Setting, SystemError, visible, visible_path};
use shardpack_io::Cause;
use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with [`SourceError`] as its default error.
pub type Result<T, E = SourceError> = std::result::Result<T, E>;

/// An error that prevents a source from being packed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", visible_path(path))]
    Io {
        /// Attempted action.
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// Error from the operating system or the store.
        source: Cause,
    },
    /// The path cannot be a source of samples.
    #[error("`{}`: {problem}", visible_path(path))]
    NotASource {
        /// The path that was given as the source.
        path: PathBuf,
        /// The problem, in words.
        problem: &'static str,
    },
    /// Symbolic links lead to too many folders.
    #[error("`{}`: {problem}", visible_path(path))]
    TooManyLinks {
        /// The path of the source, or of a folder in it.
        path: PathBuf,
        /// The exceeded limit, in words.
        problem: &'static str,
    },
    /// The source contains no usable samples.
    #[error(
        "`{}` contains no samples: {} examined, {bad} unusable, {ignored} ignored{}",
        visible_path(src),
        plural(*.files, "file"),
        first_reason(.first_bad)
    )]
    Empty {
        /// Path or URL of the source.
        src: PathBuf,
        /// Number of examined files.
        files: u64,
        /// Number of files that cannot be packed.
        bad: u64,
        /// Number of hidden files and side files.
        ignored: u64,
        /// First unusable file and its reason.
        first_bad: Option<String>,
    },
    /// The source has both pictures and cubes, and no option chooses between them.
    #[error(
        "`{}` contains both pictures and cubes: {} (first: `{}`), {} (first: `{}`)",
        visible_path(src), plural(*.pictures, "picture"), visible(first_picture), plural(*.cubes, "cube"),
        visible(first_cube)
    )]
    Mixed {
        /// Path or URL of the source.
        src: PathBuf,
        /// Number of pictures.
        pictures: u64,
        /// Number of cubes.
        cubes: u64,
        /// Key of the first picture.
        first_picture: String,
        /// Key of the first cube.
        first_cube: String,
    },
    /// Some files cannot be packed, and the policy is to stop.
    #[error("{0}")]
    BadInputs(BadInputs),
    /// The label table is invalid.
    #[error("`{}`{}: {}", visible_path(file), At(*.line), visible(message))]
    Labels {
        /// Path of the label table.
        file: PathBuf,
        /// Line number, counted from 1, if the error concerns a single line.
        line: Option<u64>,
        /// Expected and actual content, in words.
        message: String,
        /// Hint for the user. May be empty.
        hint: Hint,
    },
    /// A listing file cannot be used.
    #[error("listing `{}`: {}", visible_path(file), visible(message))]
    Listing {
        /// Path of the listing file.
        file: PathBuf,
        /// The problem, in words.
        message: String,
        /// Hint for the user. May be empty.
        hint: Hint,
    },
    /// The caller set [`SourceOptions::cancel`](crate::SourceOptions::cancel).
    #[error("interrupted while listing the source")]
    Cancelled,
    /// A file has changed since it was listed.
    #[error("`{}` has changed since it was listed: {change}", visible_path(path))]
    Changed {
        /// Path of the file.
        path: PathBuf,
        /// The change of its size, time or version, in words.
        change: String,
    },
}

fn first_reason(first: &Option<String>) -> String {
    first.as_ref().map(|reason| format!("\nfirst unusable file: {reason}")).unwrap_or_default()
}

struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

impl SourceError {
    pub(crate) fn io<E: Into<Cause>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

impl Explain for SourceError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::NotASource { .. }
            | Self::TooManyLinks { .. }
            | Self::Empty { .. }
            | Self::Mixed { .. }
            | Self::BadInputs(_)
            | Self::Labels { .. }
            | Self::Listing { .. }
            | Self::Changed { .. } => ErrorKind::Usage,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Mixed { .. } => {
                let kind = |word: &str| [Setting::word("kind", word)];
                let hint = Hint::new("pass ").and(kind("images")).then(" or ").and(kind("cubes")).then(", and ");
                vec![hint.and([Setting::word("on_bad_input", "skip")]).then(" to leave out the other files")]
            }
            Self::BadInputs(bad) => bad.hints(),
            Self::Labels { hint, .. } | Self::Listing { hint, .. } => vec![hint.clone()],
            Self::Changed { .. } => vec!["run the command again once no other program is writing to the source".into()],
            Self::TooManyLinks { .. } => vec!["remove some of these links".into()],
            Self::Io { source, .. } => source.hint().into_iter().collect(),
            Self::NotASource { .. } | Self::Empty { .. } | Self::Cancelled => Vec::new(),
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Io { action, path, source } => Some(source.system_error().doing(action, path)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind as CauseKind;

    #[test]
    fn the_hint_of_a_store_stays() {
        let refused = Cause::new(CauseKind::PermissionDenied, "refused").with_hint("try other keys");
        let error = SourceError::io("list", Path::new("s3://bucket"))(refused);
        assert_eq!(error.hints(), [Hint::new("try other keys")]);
    }
}

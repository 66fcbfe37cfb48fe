//! Errors for samples that cannot be packed.

use shardpack_array::EncodeError;
use shardpack_format::{Error as FormatError, ErrorKind, Explain, Hint, Setting, SystemError};
use shardpack_sources::SourceError;
use shardpack_sources::cubes::{CubeError, CubeProblem};

/// An error that prevents a sample from being packed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SampleError {
    /// The file changed during the run, or cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file is damaged.
    #[error(transparent)]
    Cube(#[from] CubeError),
    /// The values do not fit the options.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The record does not fit the format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A picture is damaged or too large.
    #[error("{}{error}", if error.kind() == ErrorKind::Format { "cannot decode the picture: " } else { "" })]
    Picture {
        /// Error from the picture decoder or encoder.
        error: FormatError,
    },
    /// A frame does not fit its clip.
    #[error("frame {number}: {text}")]
    Frame {
        /// Index of the frame, from 0.
        number: usize,
        /// Why the frame does not fit.
        text: String,
    },
    /// The metadata of a cube cannot be read.
    #[error("{0}")]
    Meta(String),
    /// A mask does not fit its sample.
    #[error("mask `{mask}` has {found} pixels, but its sample has {height} × {width}")]
    Mask {
        /// Name of the mask.
        mask: String,
        /// Height of the cube, or of the upright picture.
        height: u64,
        /// Width of the cube, or of the upright picture.
        width: u64,
        /// Actual shape of the mask, as text.
        found: String,
    },
}

impl Explain for SampleError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Source(error) => error.kind(),
            Self::Cube(error) => error.kind(),
            Self::Encode(error) => error.kind(),
            Self::Format(error) | Self::Picture { error } => error.kind(),
            Self::Frame { .. } => ErrorKind::Format,
            Self::Meta(_) | Self::Mask { .. } => ErrorKind::Usage,
        }
    }

    fn system_error(&self) -> Option<SystemError<'_>> {
        match self {
            Self::Source(error) => error.system_error(),
            Self::Cube(error) => error.system_error(),
            _ => None,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Source(error) => error.hints(),
            Self::Cube(error) => error.hint().into_iter().collect(),
            Self::Encode(error) if self.unfit_values().is_some() => error.hint().into_iter().chain([skip()]).collect(),
            Self::Encode(error) => error.hint().into_iter().collect(),
            Self::Format(error) => error.hint().into_iter().collect(),
            Self::Picture { .. } | Self::Frame { .. } => vec![skip()],
            Self::Meta(_) | Self::Mask { .. } => Vec::new(),
        }
    }
}

impl SampleError {
    pub(crate) fn is_of_source(&self) -> bool {
        match self {
            // The user cancelled the run, so the file is not at fault.
            Self::Cube(error) if matches!(error.problem(), CubeProblem::Cancelled) => false,
            Self::Cube(_) | Self::Mask { .. } | Self::Meta(_) | Self::Encode(EncodeError::Source(_)) => true,
            other => other.unfit_values().is_some(),
        }
    }

    /// Describes the values that the value options cannot store. Returns `None` for other errors.
    pub(crate) const fn unfit_values(&self) -> Option<&'static str> {
        match self {
            Self::Encode(EncodeError::OutOfRange { .. }) => Some("values outside the range of float16"),
            Self::Encode(EncodeError::ErrorBound { .. }) => Some("values that would change by more than `max_error`"),
            Self::Encode(EncodeError::BecomesNoData { .. }) => {
                Some("values that rounding would turn into the no-data value")
            }
            _ => None,
        }
    }

    pub(crate) const fn is_of_picture(&self) -> bool {
        matches!(self, Self::Picture { .. } | Self::Frame { .. })
    }

    /// Returns true if a file is unreadable, damaged or changed during the run, and false if the sample cannot
    /// be stored.
    pub(crate) const fn is_of_file(&self) -> bool {
        self.is_of_picture() || matches!(self, Self::Source(_) | Self::Cube(_) | Self::Meta(_) | Self::Mask { .. })
    }
}

/// Returns the hint for a picture too large to be re-encoded.
pub(crate) fn skip_or_keep() -> Hint {
    let hint = Hint::new("pass ").and([Setting::word("on_bad_input", "skip")]).then(" to skip it, or ");
    hint.and([Setting::word("jpeg", "keep")]).then(" to store it unchanged")
}

fn skip() -> Hint {
    Hint::new("pass ").and([Setting::word("on_bad_input", "skip")]).then(" to skip it")
}

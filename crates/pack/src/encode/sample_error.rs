//! The reason why a sample could not be packed, its origin, and the next step.

use shardpack_array::EncodeError;
use shardpack_format::{Error as FormatError, ErrorKind, Explain, Hint, Setting, SystemError};
use shardpack_sources::SourceError;
use shardpack_sources::cubes::CubeError;

/// The reason why a sample could not be packed.
#[derive(Debug, thiserror::Error)]
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
    /// The record cannot be laid out.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A picture is damaged or too large.
    #[error("{}", picture_words(error))]
    Picture {
        /// The error of the picture.
        error: FormatError,
    },
    /// Metadata of a cube that cannot be read.
    #[error("{0}")]
    Meta(String),
    /// A mask that does not fit its sample.
    #[error("mask `{mask}`: expected {height} × {width} pixels, as its sample has, found {found}")]
    Mask {
        /// Name of the mask.
        mask: String,
        /// Height of the cube, or of the upright picture.
        height: u64,
        /// Width of the cube, or of the upright picture.
        width: u64,
        /// Shape of the mask.
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
            Self::Picture { .. } => vec![skip()],
            Self::Meta(_) | Self::Mask { .. } => Vec::new(),
        }
    }
}

impl SampleError {
    /// Returns true if the sample's file caused the error.
    pub(crate) fn is_of_source(&self) -> bool {
        match self {
            // A stop by the user or a defect of this program is not the file's fault.
            Self::Cube(CubeError::Cancelled { .. }) => false,
            Self::Cube(_) | Self::Mask { .. } | Self::Meta(_) | Self::Encode(EncodeError::Source(_)) => true,
            other => other.unfit_values().is_some(),
        }
    }

    /// Describes the sample's values that the options on values cannot store.
    pub(crate) const fn unfit_values(&self) -> Option<&'static str> {
        match self {
            Self::Encode(EncodeError::OutOfRange { .. }) => Some("values beyond float16"),
            Self::Encode(EncodeError::ErrorBound { .. }) => Some("values that cannot be stored within `max_error`"),
            Self::Encode(EncodeError::BecomesNoData { .. }) => Some("values that rounding would make no-data"),
            _ => None,
        }
    }

    /// Returns true if a file could not be read or changed meanwhile; false if the sample cannot be
    /// stored.
    pub(crate) const fn is_of_file(&self) -> bool {
        matches!(self, Self::Source(_) | Self::Cube(_) | Self::Meta(_) | Self::Mask { .. } | Self::Picture { .. })
    }
}

/// Returns the hint for a picture that is too large to be encoded again.
pub(crate) fn skip_or_keep() -> Hint {
    let hint = Hint::set([Setting::word("on_bad_input", "skip")]).then(" leaves it out, ");
    hint.and([Setting::word("jpeg", "keep")]).then(" stores it as it is")
}

fn skip() -> Hint {
    Hint::set([Setting::word("on_bad_input", "skip")]).then(" leaves it out")
}

/// Describes the error of a picture. For a picture that does not decode, the decoder's message is
/// enough.
fn picture_words(error: &FormatError) -> String {
    match error {
        FormatError::Format { what, expected, found, .. } if what == "JPEG" && expected == "a picture that decodes" => {
            format!("the picture is damaged: {}", found.strip_prefix("Corrupt JPEG data: ").unwrap_or(found))
        }
        other => other.to_string(),
    }
}

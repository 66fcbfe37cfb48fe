//! The error for bytes that are not a usable JPEG.

use std::fmt;

/// Reason why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JpegError {
    /// The bytes do not start with SOI and a marker.
    NotJpeg,
    /// The header extends past the end of the bytes. If the bytes are the whole file, it is truncated.
    Truncated {
        /// Number of bytes that are needed to continue, counted from the start of the file.
        needed: u64,
    },
    /// The bytes violate T.81.
    Damaged {
        /// Offset of the violation from the start of the file.
        offset: u64,
        /// Description of the error.
        what: &'static str,
    },
}

impl fmt::Display for JpegError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJpeg => f.write_str("not a JPEG: it does not begin with FF D8 FF"),
            Self::Truncated { needed } => {
                write!(f, "the JPEG header is truncated: it needs at least {needed} bytes")
            }
            Self::Damaged { offset, what } => write!(f, "cannot read the JPEG header at offset {offset}: {what}"),
        }
    }
}

impl std::error::Error for JpegError {}

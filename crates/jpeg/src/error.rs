//! Why bytes are no JPEG.

use std::fmt;

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JpegError {
    /// The bytes do not start with SOI and a marker.
    NotJpeg,
    /// The header continues after the given bytes. If they are the complete file, it is cut off.
    Truncated {
        /// How many bytes from the start of the file are needed to continue.
        needed: u64,
    },
    /// The bytes break T.81.
    Damaged {
        /// Offset from the start of the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

impl fmt::Display for JpegError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJpeg => f.write_str("not a JPEG"),
            Self::Truncated { needed } => write!(f, "JPEG header cut off: at least {needed} bytes expected"),
            Self::Damaged { offset, what } => write!(f, "damaged JPEG header, offset {offset}: {what}"),
        }
    }
}

impl std::error::Error for JpegError {}

//! What the device says of a cube that it could not decode.

use super::wire::{FAULT_BOOL, FAULT_FIXED, FAULT_LZ4, FAULT_ZSTD};

/// Why a cube is not decoded; what its part of the output holds is unspecified then. Whoever wants
/// the host's word on it decodes it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An LZ4 stream is damaged: the last one that is, by its number among the payload's streams.
    Lz4 {
        /// Its number.
        stream: u32,
    },
    /// A zstd frame is damaged: the last one that is, by its number among the payload's streams.
    Zstd {
        /// Its number.
        stream: u32,
    },
    /// A fixed-point element has more bits than its array.
    FixedPoint,
    /// A boolean is neither 0 nor 1.
    Boolean,
}

impl Fault {
    /// What a word of status says; `None` if all is well.
    #[must_use]
    pub const fn of(status: u32) -> Option<Self> {
        match status >> 28 {
            0 => None,
            FAULT_FIXED => Some(Self::FixedPoint),
            FAULT_BOOL => Some(Self::Boolean),
            FAULT_ZSTD => Some(Self::Zstd { stream: status & 0x0FFF_FFFF }),
            _ => Some(Self::Lz4 { stream: status & 0x0FFF_FFFF }),
        }
    }

    /// Its kind, whichever stream it is in.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Lz4 { .. } => "damaged lz4 block",
            Self::Zstd { .. } => "damaged zstd frame",
            Self::FixedPoint => "fixed-point element: more bits than the array has",
            Self::Boolean => "boolean: expected 0 or 1, found another byte",
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lz4 { stream } | Self::Zstd { stream } => write!(f, "stream {stream}: {}", self.reason()),
            Self::FixedPoint | Self::Boolean => f.write_str(self.reason()),
        }
    }
}

const _: () = assert!(FAULT_LZ4 == 1 && FAULT_FIXED == 2 && FAULT_BOOL == 3 && FAULT_ZSTD == 4);

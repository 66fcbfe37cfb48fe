//! Faults that the device reports for an array.

use super::wire::{FAULT_BOOL, FAULT_FIXED, FAULT_LZ4, FAULT_ZSTD};

/// Reason why the device did not decode an array. The output of the array is then unspecified. Decoding the array on
/// the host yields the exact error message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An LZ4 stream is damaged. If several are, this names the last one.
    Lz4 {
        /// Number of the stream in the payload.
        stream: u32,
    },
    /// A zstd frame is damaged. If several are, this names the last one.
    Zstd {
        /// Number of the stream in the payload.
        stream: u32,
    },
    /// A fixed-point element has more bits than its array.
    FixedPoint,
    Boolean,
}

impl Fault {
    /// Returns the fault that a status word contains, or `None` if there is none.
    #[must_use]
    pub(crate) const fn of(status: u32) -> Option<Self> {
        match status >> 28 {
            0 => None,
            FAULT_FIXED => Some(Self::FixedPoint),
            FAULT_BOOL => Some(Self::Boolean),
            FAULT_ZSTD => Some(Self::Zstd { stream: status & 0x0FFF_FFFF }),
            _ => Some(Self::Lz4 { stream: status & 0x0FFF_FFFF }),
        }
    }

    /// Returns the kind of fault, without the stream.
    #[must_use]
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Lz4 { .. } => "damaged lz4 block",
            Self::Zstd { .. } => "damaged zstd frame",
            Self::FixedPoint => "fixed-point element with too many bits",
            Self::Boolean => "boolean byte that is neither 0 nor 1",
        }
    }
}

const _: () = assert!(FAULT_LZ4 == 1 && FAULT_FIXED == 2 && FAULT_BOOL == 3 && FAULT_ZSTD == 4);

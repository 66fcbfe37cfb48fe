//! The interface that a coder offers to writers.

use crate::filter::Filter;
use shardpack_format::{Codec, Error, Result};
use std::ops::RangeInclusive;

/// The properties of a coder. Each coder defines them in its own file in this folder.
#[derive(Debug)]
pub(crate) struct CoderSpec {
    /// Name used in recipes and on the command line.
    pub(crate) name: &'static str,
    pub(crate) codec: Codec,
    pub(crate) levels: Levels,
    pub(crate) has_filters: bool,
    /// Decoding time on one core, in nanoseconds per byte of output, as measured by `examples/candidates.rs` (see
    /// docs/adr/0002-choosing-a-codec.md).
    pub(crate) decode_ns: f64,
    /// Decoding time of the device kernel, in nanoseconds per byte.
    pub(crate) device_ns: f64,
    pub(crate) encoder: fn(Option<i32>, Filter) -> Result<Box<dyn UnitEncoder>>,
}

/// Encodes units. Reuses its context and scratch memory from unit to unit.
pub(crate) trait UnitEncoder: Send + Sync {
    fn codec(&self) -> Codec;

    /// Appends the coded `unit` to `payload`. Returns the number of bytes that the coder will output when a reader
    /// decodes the unit, without runs and bytes that are stored unchanged.
    fn encode(&mut self, unit: &[u8], item_bytes: u8, payload: &mut Vec<u8>) -> Result<u64>;
}

#[derive(Debug)]
pub(crate) enum Levels {
    /// The coder has no levels.
    One,
    Range {
        default: i32,
        all: RangeInclusive<i32>,
    },
    List {
        default: i32,
        all: &'static [i32],
        /// Plural noun for the levels, used in error messages.
        noun: &'static str,
    },
}

impl Levels {
    pub(crate) const fn default(&self) -> Option<i32> {
        match self {
            Self::One => None,
            Self::Range { default, .. } | Self::List { default, .. } => Some(*default),
        }
    }

    /// Fails unless `level` is one of the levels of the coder `name`.
    pub(crate) fn check(&self, name: &str, level: Option<i32>) -> Result<()> {
        let fits = match self {
            Self::One => level.is_none(),
            Self::Range { all, .. } => level.is_some_and(|l| all.contains(&l)),
            Self::List { all, .. } => level.is_some_and(|l| all.contains(&l)),
        };
        if fits {
            return Ok(());
        }
        let given = level.map_or("none".into(), |l| l.to_string());
        Err(Error::usage(match self {
            Self::One => format!("{name} takes no compression level, but level {given} was given"),
            Self::Range { all, .. } => {
                format!(
                    "the compression level of {name} must be from {} to {}, but {given} was given",
                    all.start(),
                    all.end()
                )
            }
            Self::List { all, noun, .. } => {
                format!("the compression level of {name} must be one of {noun} ({all:?}), but {given} was given")
            }
        }))
    }
}

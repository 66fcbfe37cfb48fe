//! Properties of a coder that a writer needs.

use crate::filter::Filter;
use shardpack_format::{Codec, Error, Result};
use std::ops::RangeInclusive;

/// A coder, as described by its file in this folder.
#[derive(Debug)]
pub(crate) struct CoderSpec {
    /// Name in the recipe and the command.
    pub(crate) name: &'static str,
    pub(crate) codec: Codec,
    pub(crate) levels: Levels,
    pub(crate) has_filters: bool,
    /// Nanoseconds that one core needs per decoded byte, as measured by `examples/candidates.rs` (see
    /// docs/adr/0002-choosing-a-codec.md).
    pub(crate) decode_ns: f64,
    /// Nanoseconds that the device kernel needs per decoded byte.
    pub(crate) device_ns: f64,
    pub(crate) encoder: fn(Option<i32>, Filter) -> Result<Box<dyn UnitEncoder>>,
}

/// Encodes units. Keeps its context and scratch memory for the next unit.
pub(crate) trait UnitEncoder: Send + Sync {
    fn codec(&self) -> Codec;

    /// Appends the coded `unit`. Returns how many of its bytes a reader's coder will have to make, which
    /// excludes runs and bytes stored unchanged.
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
        /// Plural noun for the levels, used in errors.
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
        let (fits, expected) = match self {
            Self::One => (level.is_none(), "no level".to_owned()),
            Self::Range { all, .. } => (level.is_some_and(|l| all.contains(&l)), format!("{all:?}")),
            Self::List { all, noun, .. } => {
                (level.is_some_and(|l| all.contains(&l)), format!("one of {noun}, {all:?}"))
            }
        };
        if fits {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{name} level: expected {expected}, found {}",
            level.map_or("none".into(), |l| l.to_string())
        )))
    }
}

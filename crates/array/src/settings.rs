//! Settings for storing the arrays of a field, as recorded in a recipe.

use crate::codecs::Coder;
use crate::filter::Filter;
use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Layout, Result};
use std::fmt;

/// Rule for the value transform of arrays (spec §4.3). It is applied to each array separately, and the descriptor of
/// the array records the result.
///
/// Integers and booleans never lose precision: every rule except `Keep` stores them in the smallest integer type that
/// can represent them.
///
/// No rule turns a measured value into the no-data value. Only no-data elements decode to the no-data value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ValueRule {
    /// Stores values unchanged.
    Keep,
    /// Stores values in the smallest exact integer type if there is one, and otherwise unchanged. Lossless.
    IntegerOrKeep,
    /// Stores values in the smallest exact integer type if there is one, and otherwise as float16. If a value would
    /// round to the no-data value, all values are stored unchanged.
    IntegerOrF16,
    /// Stores values in the smallest exact integer type if there is one. Otherwise uses float16 if it meets the error
    /// bound and no value becomes no-data, and fixed point if not.
    IntegerOrF16OrFixed {
        /// Largest absolute error, in the units of the data.
        max_error: f64,
    },
    /// Stores values in the smallest exact integer type if there is one, and otherwise as fixed point.
    IntegerOrFixed {
        /// Largest absolute error, in the units of the data.
        max_error: f64,
    },
    /// Stores floats as float16. Encoding fails if a value would become infinite or no-data.
    F16,
    /// Stores floats as fixed point.
    Fixed {
        /// Largest absolute error, in the units of the data.
        max_error: f64,
    },
}

impl ValueRule {
    /// True if this rule never changes a value.
    #[must_use]
    pub const fn is_lossless(self) -> bool {
        matches!(self, Self::Keep | Self::IntegerOrKeep)
    }
}

/// Formats a rule like the command-line options that select it.
impl fmt::Display for ValueRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("values keep"),
            Self::IntegerOrKeep => f.write_str("values auto, lossless"),
            Self::IntegerOrF16 => f.write_str("values auto"),
            Self::IntegerOrF16OrFixed { max_error } => write!(f, "values auto ±{max_error}"),
            Self::IntegerOrFixed { max_error } => write!(f, "values auto ±{max_error}, no float16"),
            Self::F16 => f.write_str("values f16"),
            Self::Fixed { max_error } => write!(f, "values fixed ±{max_error}"),
        }
    }
}

/// All choices about how the arrays of one field are stored.
///
/// ```
/// use shardpack_array::{ArraySettings, Coder, Filter, ValueRule};
/// let settings = ArraySettings {
///     values: ValueRule::IntegerOrF16,
///     coder: Coder::Blosc2Zstd,
///     level: Some(1),
///     filter: Filter::Shuffle,
///     band_difference: false,
///     layout: shardpack_array::ArrayLayout::AsShape,
/// };
/// assert_eq!(settings.to_string(), "values auto, blosc2-zstd level 1, shuffle, as-given");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArraySettings {
    /// Rule that chooses the value transform.
    pub values: ValueRule,
    /// Coder of the payload.
    #[serde(rename = "codec")]
    pub coder: Coder,
    /// Level of the coder, or `None` if it has no levels.
    pub level: Option<i32>,
    /// Filter that runs before the coder. Always [`Filter::None`] outside Blosc2.
    pub filter: Filter,
    /// True if one- and two-byte elements are stored as differences along the last axis. Wider elements never are.
    pub band_difference: bool,
    /// Axis order of the payload.
    pub layout: ArrayLayout,
}

/// Axis order of the payload, named as in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayLayout {
    /// Same order as the shape.
    AsShape,
    /// The last axis comes first. Arrays with fewer than two axes stay unchanged.
    BandMajor,
}

impl From<ArrayLayout> for Layout {
    fn from(layout: ArrayLayout) -> Self {
        match layout {
            ArrayLayout::AsShape => Self::AsShape,
            ArrayLayout::BandMajor => Self::BandMajor,
        }
    }
}

impl ArraySettings {
    /// Fails if the settings contradict each other.
    ///
    /// # Errors
    /// `Usage` if the coder does not have the level, if there is a filter outside Blosc2, or if the error bound is not
    /// positive and finite.
    pub fn check(&self) -> Result<()> {
        self.coder.check_level(self.level)?;
        check_filter(self.coder, self.filter)?;
        match self.values {
            ValueRule::Fixed { max_error }
            | ValueRule::IntegerOrFixed { max_error }
            | ValueRule::IntegerOrF16OrFixed { max_error } => check_max_error(max_error),
            _ => Ok(()),
        }
    }
}

pub(crate) fn check_filter(coder: Coder, filter: Filter) -> Result<()> {
    if filter == Filter::None || coder.has_filters() {
        return Ok(());
    }
    Err(Error::usage(format!("the filter {filter} cannot be used with {coder}: only Blosc2 has filters")))
}

pub(crate) fn check_max_error(max_error: f64) -> Result<()> {
    if max_error.is_finite() && max_error > 0.0 {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the maximum error of fixed-point values must be a finite number above 0, not {max_error}"
    )))
}

impl fmt::Display for ArraySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.values, self.coder)?;
        if let Some(level) = self.level {
            write!(f, " level {level}")?;
        }
        if self.coder.has_filters() {
            write!(f, ", {}", if self.filter == Filter::None { "no filter" } else { self.filter.name() })?;
        }
        if self.band_difference {
            f.write_str(", band difference")?;
        }
        f.write_str(match self.layout {
            ArrayLayout::AsShape => ", as-given",
            ArrayLayout::BandMajor => ", band-major",
        })
    }
}

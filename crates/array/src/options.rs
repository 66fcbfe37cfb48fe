//! The user's options. With `Auto`, the choice depends on the data.

use crate::codecs::Coder;
use crate::filter::Filter;
use crate::settings::{ArrayLayout, ValueRule, check_filter, check_max_error};
use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Hint, Result, Setting, bug};

/// How the values of float arrays are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// Floats that are all integers become the smallest integer type that represents them exactly. Other float32 and
    /// float64 values become float16. With an error bound, they become fixed point instead if that is smaller or
    /// float16 cannot meet the bound.
    #[default]
    Auto,
    /// Values are stored unchanged.
    Keep,
    /// Values are stored as float16.
    F16,
    /// Values are stored as fixed point, with errors of at most `max_error`.
    Fixed,
}

/// Determines whether elements are stored as differences along the last axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandDifference {
    /// Store differences if this makes loading faster or the payload smaller, depending on [`Prefer`].
    #[default]
    Auto,
    /// Always store differences if the stored elements have one or two bytes.
    On,
    /// Never store differences.
    Off,
}

/// Criterion by which a trial chooses settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// Shortest predicted time to read and decode on the host.
    #[default]
    Speed,
    /// Shortest predicted time to move stored bytes to a GPU and to decode them there.
    Device,
    /// Smallest payload.
    Size,
}

/// Options for storing arrays. `None` leaves a choice to the [trial](crate::trial).
///
/// ```
/// use shardpack_array::{ArrayOptions, Coder, Values};
/// let options = ArrayOptions {
///     values: Values::Fixed,
///     max_error: Some(0.01),
///     coder: Some(Coder::Blosc2Zstd),
///     ..Default::default()
/// };
/// assert!(options.check().is_ok());
/// assert!(ArrayOptions { lossless: true, ..options }.check().is_err());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayOptions {
    /// How the values of float arrays are stored. Default auto.
    pub values: Values,
    /// Largest absolute error, in the units of the data. Required for fixed point, allowed with auto.
    pub max_error: Option<f64>,
    /// Forbids any change of a value, for example in masks and labels. With auto, arrays without an exact integer type
    /// are then stored unchanged. Default false.
    pub lossless: bool,
    /// Controls differences along the last axis. Default auto.
    pub band_difference: BandDifference,
    /// Coder of the payload.
    pub coder: Option<Coder>,
    /// Level of the coder, allowed only together with `coder`. Default 9 for LZ4HC, 1 for zstd in Blosc2, 3 for plain
    /// zstd.
    pub level: Option<i32>,
    /// Filter that runs before the coder, inside Blosc2.
    pub filter: Option<Filter>,
    /// Order of the axes in the payload.
    pub layout: Option<ArrayLayout>,
    /// Criterion for the trial's choice. Default speed.
    pub prefer: Prefer,
}

impl ArrayOptions {
    /// Fails if the options contradict each other.
    ///
    /// # Errors
    /// `Usage`, naming the two options.
    pub fn check(&self) -> Result<()> {
        match (self.coder, self.level) {
            (Some(coder), Some(level)) => coder.check_level(Some(level))?,
            (None, Some(level)) => {
                let hint = Hint::new("choose a codec with ").and([Setting::named("codec")]);
                return Err(
                    Error::usage(format!("compression level {level} has no effect without a codec")).with_hint(hint)
                );
            }
            (_, None) => {}
        }
        if let (Some(coder), Some(filter)) = (self.coder, self.filter) {
            check_filter(coder, filter)?;
        }
        match (self.values, self.max_error) {
            (Values::Fixed, None) => {
                let hint = Hint::new("set ").and([Setting::any("max_error", "E")]).then(", in the units of the data");
                Err(Error::usage("fixed-point values need a maximum error").with_hint(hint))
            }
            (Values::Keep | Values::F16, Some(max_error)) => {
                Err(Error::usage(format!("a maximum error ({max_error}) can be set only if `values` is auto or fixed")))
            }
            (_, Some(max_error)) => check_max_error(max_error),
            (_, None) => Ok(()),
        }?;
        if self.lossless && (matches!(self.values, Values::F16 | Values::Fixed) || self.max_error.is_some()) {
            return Err(Error::usage(
                "lossless storage is possible only if `values` is auto or keep, and no maximum error is set",
            ));
        }
        Ok(())
    }

    /// Returns the value rules that these options allow. Only auto with an error bound allows several.
    pub(crate) fn rules(&self) -> Vec<ValueRule> {
        match (self.values, self.max_error) {
            (Values::Keep, _) => vec![ValueRule::Keep],
            (Values::Auto, _) if self.lossless => vec![ValueRule::IntegerOrKeep],
            (Values::Auto, None) => vec![ValueRule::IntegerOrF16],
            (Values::Auto, Some(max_error)) => {
                vec![ValueRule::IntegerOrFixed { max_error }, ValueRule::IntegerOrF16OrFixed { max_error }]
            }
            (Values::Fixed, Some(max_error)) => vec![ValueRule::Fixed { max_error }],
            (Values::F16, _) => vec![ValueRule::F16],
            (Values::Fixed, None) => bug("the options of an array were not checked"),
        }
    }
}

//! The error type for encoding an array.

use shardpack_format::{Error, ErrorKind, Explain, Hint, Setting};

/// A result whose error is [`EncodeError`].
pub type EncodeResult<T> = Result<T, EncodeError>;

/// The reason why an array could not be stored as requested.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A finite value would become infinite in float16.
    #[error(
        "the value {value} at {position:?} is outside float16's range of ±65504 (the finite values of the array \
         range from {min} to {max})"
    )]
    OutOfRange {
        /// Position of the value, with one index per axis, for example `[y, x, band]` in a cube.
        position: Vec<u64>,
        /// The first value out of range, in storage order.
        value: f64,
        /// Smallest finite value of the array, not counting no-data.
        min: f64,
        /// Largest finite value of the array, not counting no-data.
        max: f64,
    },
    /// Fixed point cannot meet the error bound for this array.
    #[error("a maximum error of {max_error} is too small for 16-bit fixed point: {}", at_least(*smallest))]
    ErrorBound {
        /// The requested bound on the absolute error.
        max_error: f64,
        /// Smallest possible bound for this array, or infinity if no bound is possible.
        smallest: f64,
    },
    /// A measured value would decode to the no-data value, so readers could not tell it from missing data.
    #[error("the value {value} at {position:?} would be rounded to the no-data value {no_data}")]
    BecomesNoData {
        /// Position of the value, with one index per axis, for example `[y, x, band]` in a cube.
        position: Vec<u64>,
        /// The first value that would become no-data, in storage order.
        value: f64,
        /// The no-data value, in the decoded type.
        no_data: f64,
    },
    /// The bytes of the array cannot be read. Contains the message of the [`ArraySource`](crate::ArraySource).
    #[error("{0}")]
    Source(String),
    /// The settings contradict each other, or the array does not match its descriptor.
    #[error(transparent)]
    Format(#[from] Error),
}

impl EncodeError {
    /// Returns a suggestion for the user that is not part of the message.
    #[must_use]
    pub fn hint(&self) -> Option<Hint> {
        let as_they_are =
            |hint: Hint| Some(hint.and([Setting::word("values", "keep")]).then(" to store the values unchanged"));
        match self {
            Self::OutOfRange { .. } => {
                let fixed = [Setting::word("values", "fixed"), Setting::any("max_error", "E")];
                as_they_are(Hint::new("use ").and(fixed).then(" to store any range within ±E, or "))
            }
            Self::ErrorBound { smallest, .. } if smallest.is_finite() => {
                as_they_are(Hint::new("use ").and([Setting::number("max_error", smallest)]).then(", or "))
            }
            Self::ErrorBound { .. } | Self::BecomesNoData { .. } => as_they_are(Hint::new("use ")),
            Self::Format(error) => error.hint(),
            Self::Source(_) => None,
        }
    }
}

impl Explain for EncodeError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Format(error) => error.kind(),
            _ => ErrorKind::Usage,
        }
    }

    fn hints(&self) -> Vec<Hint> {
        self.hint().into_iter().collect()
    }
}

fn at_least(smallest: f64) -> String {
    match smallest.is_finite() {
        true => format!("the smallest value that works for this array is {smallest}"),
        false => "the values of this array span too wide a range".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Voice;

    #[test]
    fn an_impossible_bound_is_no_hint() {
        let error = |smallest| EncodeError::ErrorBound { max_error: 0.5, smallest };
        let hint = |smallest| error(smallest).hint().unwrap().told(Voice::Command);
        assert!(error(0.75).to_string().contains("smallest value that works for this array is 0.75"));
        assert_eq!(hint(0.75), "use `--max-error 0.75`, or `--values keep` to store the values unchanged");
        assert!(!error(f64::INFINITY).to_string().contains("inf"));
        assert_eq!(hint(f64::INFINITY), "use `--values keep` to store the values unchanged");
    }
}

//! What can go wrong while an array is encoded.

use shardpack_format::Error;

/// Result of encoding.
pub type EncodeResult<T> = Result<T, EncodeError>;

/// Why an array could not be stored as requested.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A finite value would become infinite as float16.
    #[error(
        "value at {position:?} is out of float16's range ±65504: {value} (finite values: {min} to {max})\n\
         hint: `--values fixed --max-error E` stores any range within ±E, `--values keep` stores the values as they are"
    )]
    OutOfRange {
        /// Where, one index for each axis: `[y, x, band]` in a cube.
        position: Vec<u64>,
        /// The first such value in storage order.
        value: f64,
        /// Smallest finite value of the array, no-data left out.
        min: f64,
        /// Largest finite value of the array, no-data left out.
        max: f64,
    },
    /// Fixed point cannot keep the error bound for this array.
    #[error(
        "largest error of fixed point of 16 bits decoded to float32: expected {}, found {max_error}\nhint: {}`--values keep` stores the values as they are",
        at_least(*smallest), bound_hint(*smallest)
    )]
    ErrorBound {
        /// The requested bound.
        max_error: f64,
        /// The smallest bound that is possible for this array; infinite if there is none.
        smallest: f64,
    },
    /// A measured value would decode to the no-data value, and the two could no longer be told
    /// apart.
    #[error(
        "value at {position:?} would become the no-data value {no_data}: {value}\n\
         hint: `--values keep` stores the values as they are"
    )]
    BecomesNoData {
        /// Where, one index for each axis: `[y, x, band]` in a cube.
        position: Vec<u64>,
        /// The first such value in storage order.
        value: f64,
        /// The no-data value in the decoded type.
        no_data: f64,
    },
    /// The array's bytes cannot be read: in the words of their [`ArraySource`](crate::ArraySource).
    #[error("{0}")]
    Source(String),
    /// The settings contradict each other, or the array and its descriptor do.
    #[error(transparent)]
    Format(#[from] Error),
}

fn at_least(smallest: f64) -> String {
    match smallest.is_finite() {
        true => format!("at least {smallest} for this array"),
        false => "another way to store this array, whose range no bound fits".to_owned(),
    }
}

fn bound_hint(smallest: f64) -> String {
    if smallest.is_finite() { format!("`--max-error {smallest}`; or ") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_nobody_can_give_is_no_hint() {
        let text = |smallest| EncodeError::ErrorBound { max_error: 0.5, smallest }.to_string();
        assert!(text(0.75).contains("at least 0.75") && text(0.75).contains("`--max-error 0.75`; or `--values keep`"));
        assert!(!text(f64::INFINITY).contains("inf") && text(f64::INFINITY).contains("hint: `--values keep`"));
    }
}

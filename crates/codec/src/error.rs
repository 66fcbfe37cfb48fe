//! What can go wrong while an array is encoded.

use shardpack_format::Error;

/// Result of encoding.
pub type EncodeResult<T> = Result<T, EncodeError>;

/// Why an array could not be stored as asked.
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
        "largest error is too small for fixed point of 16 bits decoded to float32: {max_error}; the smallest for this array: {smallest}\n\
         hint: `--max-error {smallest}`, or `--values keep` to store the values as they are"
    )]
    ErrorBound {
        /// The bound that was asked for.
        max_error: f64,
        /// The smallest bound that this array allows.
        smallest: f64,
    },
    /// A value that was measured would decode to the no-data value, and nobody could tell the two apart again.
    #[error(
        "value at {position:?} would become the no-data value {no_data}: {value}\n\
         hint: `--values keep` stores the values as they are"
    )]
    BecomesNoData {
        /// Where, one index for each axis: `[y, x, band]` in a cube.
        position: Vec<u64>,
        /// The first such value in storage order.
        value: f64,
        /// The no-data value, as the decoded type has it.
        no_data: f64,
    },
    /// The settings contradict each other, or the array and its descriptor do.
    #[error(transparent)]
    Format(#[from] Error),
}

//! Computes the scale and bias that normalise values with a given mean and standard deviation.

use shardpack_format::{Error, Result};

/// Returns the scale and the bias that turn `(value / unit − mean) / std` into `value · scale + bias`. They
/// are computed in float64 and rounded once, to float32.
///
/// Both factors are finite, and the scale is a normal number above 0. Infinities therefore stay infinite, and
/// only NaN becomes NaN.
///
/// ```
/// use shardpack_base::factors;
/// assert_eq!(factors(1.0, 3.0, 2.0)?, (0.5, -1.5));
/// assert!(factors(1.0, 0.0, -2.0).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
///
/// # Errors
/// `Usage` if the mean is not finite, the standard deviation is not a finite number above 0, or the factors
/// do not fit float32.
#[expect(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
pub fn factors(unit: f64, mean: f64, std: f64) -> Result<(f32, f32)> {
    if !mean.is_finite() {
        return Err(Error::usage(format!("the mean must be a finite number, but is {mean}")));
    }
    if !(std > 0.0 && std.is_finite()) {
        return Err(Error::usage(format!("the std must be a finite number above 0, but is {std}")));
    }
    let (scale, bias) = ((1.0 / (unit * std)) as f32, (-mean / std) as f32);
    match scale.is_normal() && bias.is_finite() {
        true => Ok((scale, bias)),
        false => {
            let given = format!("mean {mean} and std {std}");
            Err(Error::usage(format!("cannot normalise with {given}: 1 / std and mean / std must fit in float32")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_standard_deviations_are_refused() {
        for std in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = factors(255.0, 0.5, std).unwrap_err().to_string();
            assert!(error.contains("the std must be a finite number above 0"), "{error}");
        }
        for mean in [f64::NAN, f64::INFINITY] {
            assert!(factors(1.0, mean, 1.0).unwrap_err().to_string().contains("the mean must be a finite"));
        }
        for (mean, std) in [(1e30, 1e-30), (0.0, 1e-45), (0.0, 1e39)] {
            assert!(factors(1.0, mean, std).unwrap_err().to_string().contains("must fit in float32"), "{mean} {std}");
        }
    }
}

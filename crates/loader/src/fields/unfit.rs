//! Errors for arrays that do not fit their field.

use shardpack_array::{Resampling, common_dtype};
use shardpack_format::{ArrayDescriptor, Codes, Dtype, Error as FormatError, Hint, Setting, Transform};

/// Returns the error for an array whose values would change if converted to `dtype`.
pub(crate) fn loses(field: &str, descriptor: &ArrayDescriptor, dtype: Dtype) -> FormatError {
    let plain = |dtype| ArrayDescriptor::plain(dtype, Vec::new());
    let hint = match common_dtype(&[descriptor.clone(), plain(dtype)]) {
        Some(wider) => format!("choose the dtype {wider}, which can hold all values of both types"),
        None => "load the samples of each type separately: no type can hold all values of both".into(),
    };
    let special = match (descriptor.no_data, &descriptor.transform) {
        (_, Transform::Fixed { .. }) => " (stored as fixed point)".to_owned(),
        (Some(value), _) if descriptor.codes != Codes::default() => format!(" (no-data is {value})"),
        _ if descriptor.codes != Codes::default() => " (some values are not finite)".to_owned(),
        _ => String::new(),
    };
    let found = descriptor.decoded;
    FormatError::usage(format!("field `{field}`: {dtype} cannot hold all values of {found}{special}")).with_hint(hint)
}

/// Returns the error for a patch `[height, width]` that does not fit in its array.
pub(crate) fn too_large(patch: [u64; 2], array: [u64; 2]) -> FormatError {
    let ([a, b], [height, width]) = (patch, array);
    FormatError::usage(format!("the patch ({a} × {b}) does not fit in the array ({height} × {width})"))
}

/// Fails if an array's no-data would be mixed with other values. NaN is allowed, because a mean that includes
/// NaN is NaN.
pub(crate) fn check_no_data(
    field: &str,
    descriptor: &ArrayDescriptor,
    fill: Option<f32>,
    sampling: Option<Resampling>,
) -> Result<(), FormatError> {
    match (descriptor.no_data, sampling) {
        (Some(no_data), Some(Resampling::Bilinear { .. })) if fill.is_none() && !no_data.is_nan() => {
            let name = field.escape_debug();
            let text =
                format!("interpolation would mix the no-data value {no_data} of field `{name}` with other values");
            let hint = Hint::new("replace the no-data value with ").and([Setting::named("no_data")]);
            Err(FormatError::usage(text).with_hint(hint))
        }
        _ => Ok(()),
    }
}

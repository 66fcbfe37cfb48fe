//! Has a transform of the caller's change the rows that were decoded.

use crate::fields::FieldPlan;
use crate::options::{Transform, TransformField, TransformRow};
use crate::rows::RowMut;
use shardpack_format::Error as FormatError;
use shardpack_format::to_usize;
use shardpack_jpeg::DrawKey;

/// Has a row changed. `dims` are the axes of its ragged fields, `missing` the numbers of fields that
/// the sample has no value for.
///
/// # Errors
/// `Usage` with what the transform says.
pub(crate) fn change(
    transform: &dyn Transform,
    plans: &[FieldPlan],
    (index, key, draws): (u64, &str, DrawKey),
    row: &mut RowMut,
    (dims, missing): (&[u64], &[u32]),
) -> Result<(), FormatError> {
    let mut fields = Vec::with_capacity(plans.len());
    for ((number, plan), part) in plans.iter().enumerate().zip(row.parts()) {
        if missing.iter().any(|&missing| usize::try_from(missing) == Ok(number)) {
            continue;
        }
        let shape = match plan.is_ragged() {
            false => &*plan.shape,
            true => dims.get(plan.dims_at..plan.dims_at + plan.shape.len()).unwrap_or_default(),
        };
        let length = to_usize(plan.dtype.array_bytes(shape)?);
        let found = part.len();
        let bytes = part.get_mut(..length).ok_or_else(|| FormatError::internal("bytes of a row", length, found))?;
        fields.push(TransformField { name: &plan.name, dtype: plan.dtype, shape, bytes });
    }
    transform.change(&mut TransformRow { index, key, draws, fields }).map_err(|said| {
        let error = FormatError::usage("transform", "no error", said.text);
        match said.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })
}

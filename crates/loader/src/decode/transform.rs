//! Has a transform of the caller's change the rows that were decoded.

use crate::fields::FieldPlan;
use crate::options::{Transform, TransformField, TransformRow};
use crate::rows::RowMut;
use shardpack_format::Error as FormatError;
use shardpack_jpeg::DrawKey;

/// Has a row changed. `dims` are the axes of its ragged fields, `missing` the numbers of fields that
/// the sample has no value for.
///
/// # Errors
/// `Usage` with what the transform says, or if it changes the length of a field.
pub(crate) fn change(
    transform: &dyn Transform,
    plans: &[FieldPlan],
    (index, key, draws): (u64, &str, DrawKey),
    row: &mut RowMut,
    (dims, missing): (&[u64], &[u32]),
) -> Result<(), FormatError> {
    let mut fields = Vec::with_capacity(plans.len());
    let mut lengths = Vec::with_capacity(plans.len());
    for (number, plan) in plans.iter().enumerate() {
        if missing.iter().any(|&missing| usize::try_from(missing) == Ok(number)) {
            continue;
        }
        let shape = match plan.is_ragged() {
            false => &*plan.shape,
            true => dims.get(plan.dims_at..plan.dims_at + plan.shape.len()).unwrap_or_default(),
        };
        let length = usize::try_from(plan.dtype.array_bytes(shape)?).unwrap_or(usize::MAX);
        let part = row.part(number);
        let found = part.len();
        let bytes = part.get(..length).ok_or_else(|| FormatError::internal("bytes of a row", length, found))?;
        fields.push(TransformField { name: &plan.name, dtype: plan.dtype, shape, bytes: bytes.to_vec() });
        lengths.push((number, length));
    }
    let mut changing = TransformRow { index, key, draws, fields };
    transform.change(&mut changing).map_err(|said| {
        let error = FormatError::usage("transform", "no error", said.text);
        match said.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    for (field, (number, length)) in changing.fields.iter().zip(lengths) {
        if field.bytes.len() != length {
            let found = format!("{} of field `{}`", field.bytes.len(), field.name);
            return Err(FormatError::usage("transform", format!("{length} bytes, as there were"), found));
        }
        row.part(number).get_mut(..length).unwrap_or_default().copy_from_slice(&field.bytes);
    }
    Ok(())
}

//! Runs the caller's transform on decoded rows.

use super::record::RowRecord;
use crate::options::{Transform, TransformField, TransformRow};
use crate::rows::RowMut;
use shardpack_format::{Error as FormatError, bug, to_usize};

/// Calls the caller's transform for a row. `dims` are the axes of its ragged fields. `missing` lists the fields
/// without a value.
pub(crate) fn change(
    transform: &dyn Transform,
    record: RowRecord<'_>,
    row: &mut RowMut,
    dims: &[u64],
    missing: &[u32],
) -> Result<(), FormatError> {
    let plans = &record.recipe.fields.plans;
    let (index, key, draws) = (record.at.sample, record.key(), record.recipe.key(record.at));
    let mut fields = Vec::with_capacity(plans.len());
    for ((number, plan), part) in plans.iter().enumerate().zip(row.parts()) {
        if missing.iter().any(|&missing| usize::try_from(missing) == Ok(number)) {
            continue;
        }
        let shape = match plan.is_ragged() {
            false => &*plan.shape,
            true => dims.get(plan.dims_range()).unwrap_or_default(),
        };
        let length = to_usize(plan.dtype.array_bytes(shape)?);
        let Some(bytes) = part.get_mut(..length) else { bug("the shape of a row needs more bytes than the row has") };
        fields.push(TransformField { name: &plan.name, dtype: plan.dtype, shape, bytes });
    }
    transform.change(&mut TransformRow { index, key, draws, fields }).map_err(|said| {
        let error = FormatError::usage(format!("transform failed: {}", said.text));
        match said.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })
}

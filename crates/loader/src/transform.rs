//! A transform of the caller's: code that changes every decoded row.

use super::fields::FieldPlan;
use super::rows::RowMut;
use shardpack_format::{ElementType, Error as FormatError, Note};
use shardpack_jpeg::DrawKey;
use std::fmt;

/// Changes rows after they were decoded, in the threads of the loader: what it does must not depend
/// on the order in which they come. It may draw from [`TransformRow::draws`], so that a resumed
/// loader goes on with the same draws.
///
/// ```
/// use shardpack_loader::{LoaderOptions, Note, Transform, TransformRow};
/// use std::sync::Arc;
/// #[derive(Debug)]
/// struct Invert;
/// impl Transform for Invert {
///     fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note> {
///         let image = row.fields.iter_mut().find(|field| field.name == "image").ok_or("no image")?;
///         image.bytes.iter_mut().for_each(|level| *level = !*level);
///         Ok(())
///     }
/// }
/// let options = LoaderOptions { transform: Some(Arc::new(Invert)), ..Default::default() };
/// assert!(options.transform.is_some());
/// ```
pub trait Transform: fmt::Debug + Send + Sync {
    /// Changes the bytes of a row. A row is changed again if it is decoded again, from its record.
    ///
    /// # Errors
    /// What went wrong, and perhaps what to do next: the error of the batch says it, and names the
    /// sample.
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note>;
}

/// A row that is being changed.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransformRow<'a> {
    /// Number of the sample in the dataset.
    pub index: u64,
    /// Key of the sample.
    pub key: &'a str,
    /// What random views of the sample are drawn from, in this epoch.
    pub draws: DrawKey,
    /// Fields of the batch that the sample has a value for.
    pub fields: Vec<TransformField<'a>>,
}

/// A field of a row that is being changed.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransformField<'a> {
    /// Its name.
    pub name: &'a str,
    /// Type of an element.
    pub dtype: ElementType,
    /// Shape of the row.
    pub shape: &'a [u64],
    /// Its elements, little-endian: as many bytes afterwards as before.
    pub bytes: Vec<u8>,
}

/// Has a row changed. `dims` are the axes of its ragged fields, `missing` the numbers of fields that
/// the sample has no value for.
///
/// # Errors
/// `Usage` with what the transform says, or if it changes the length of a field.
pub(super) fn change(
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

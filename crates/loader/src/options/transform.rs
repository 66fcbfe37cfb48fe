//! The caller's transform: code that changes every decoded row.

use shardpack_format::{ElementType, Note};
use shardpack_jpeg::DrawKey;
use std::fmt;

/// Changes rows after they are decoded. A transform runs in the loader's threads, so its result must not
/// depend on the order of the rows. If it draws its random numbers from [`TransformRow::draws`], a resumed
/// loader continues with the same numbers.
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
/// let options = LoaderOptions::default().transform(Arc::new(Invert));
/// assert!(options.output.transform.is_some());
/// ```
pub trait Transform: fmt::Debug + Send + Sync {
    /// Changes the bytes of a row. A row that is decoded again is also transformed again.
    ///
    /// # Errors
    /// A description of the problem, and perhaps a hint. Both become part of the batch's error, which names
    /// the sample.
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note>;
}

/// A decoded row, as passed to the caller's transform.
#[derive(Debug)]
#[non_exhaustive]
pub struct TransformRow<'a> {
    /// Index of the sample in the dataset.
    pub index: u64,
    /// Key of the sample.
    pub key: &'a str,
    /// Key for the random numbers of this sample in this epoch.
    pub draws: DrawKey,
    /// Fields that have a value in this sample.
    pub fields: Vec<TransformField<'a>>,
}

/// A field of a [`TransformRow`].
#[derive(Debug)]
#[non_exhaustive]
pub struct TransformField<'a> {
    /// Name of the field.
    pub name: &'a str,
    /// Element type.
    pub dtype: ElementType,
    /// Shape of the row.
    pub shape: &'a [u64],
    /// Elements, little-endian, in the memory of the batch.
    pub bytes: &'a mut [u8],
}

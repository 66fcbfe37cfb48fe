//! A transform of the caller's: code that changes every decoded row.

use shardpack_format::{ElementType, Note};
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
/// let options = LoaderOptions::default().transform(Arc::new(Invert));
/// assert!(options.output.transform.is_some());
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
    /// Its elements, little-endian, where they stand in the batch.
    pub bytes: &'a mut [u8],
}

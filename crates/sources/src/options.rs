//! Options for reading a source.

use crate::bad::OnBadInput;
use crate::content::SourceKind;
use crate::cubes::CubeOptions;
use crate::files::Files;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options for reading a source.
///
/// ```
/// use shardpack_sources::{SourceKind, SourceOptions};
/// let options = SourceOptions { kind: Some(SourceKind::Images), ..Default::default() };
/// assert!(options.labels.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// Kind of the samples. Default: detected from their contents.
    pub kind: Option<SourceKind>,
    /// Label table. Default: none.
    pub labels: Option<PathBuf>,
    /// Key column of `labels`. Default: the first of `key`, `path`, `file`, `filename`, `file_name`,
    /// `file_path`, `image`, `image_path`, `image_id` and `id`.
    pub key_column: Option<String>,
    /// Label column of `labels`. Default: see [`LabelColumn`].
    pub label_column: LabelColumn,
    /// Columns of `labels` that are text, whatever their cells look like: in CSV, `12` may be a number or a
    /// code. Default: none; the cells determine the type.
    pub text_columns: Vec<String>,
    /// Folder of masks. Each mask is checked against its sample. Default: none.
    pub masks: Option<PathBuf>,
    /// True if first-level folders are classes. Default: for images, if every sample is in one and no table
    /// gives labels. If most samples are in several folders, a sample outside is bad input. `Some(true)` does
    /// the same for cubes, whose folders are often patients or flights.
    pub class_folders: Option<bool>,
    /// True if first-level folders are splits, each its own dataset;
    /// [`splits::enumerate`](crate::splits::enumerate) sets it. Default: false.
    pub splits: bool,
    /// True if each folder of pictures is one sample, a clip, with the pictures as frames: JPEGs in natural
    /// order of their names. The key is the folder's path. Default: false, each picture is a sample.
    pub clips: bool,
    /// True to follow symbolic links out of the source. Circular links are bad input. Default: false, and all
    /// links out of the source are bad input.
    pub follow_links: bool,
    /// Policy for files that cannot be packed. Default: stop.
    pub on_bad_input: OnBadInput,
    /// Path to leave out if it is inside the source: the output. The label table and the mask folder are
    /// always left out.
    pub exclude: Option<PathBuf>,
    /// Options for reading cubes.
    pub cubes: CubeOptions,
    /// Listing of this source, written by [`listing_file::write`](crate::listing_file::write), to use instead
    /// of a new scan. Default: none.
    pub listing: Option<PathBuf>,
    /// Object stores to use where the source, the masks or the label table is given as a URL. Default: none.
    pub files: Files,
    /// Flag that stops [`enumerate`](crate::enumerate()) with
    /// [`SourceError::Cancelled`](crate::SourceError::Cancelled) after the current files. Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Column of a label table that holds the labels.
///
/// Texts become classes, and the column does not become a field. Other values become the field `label`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// `label`, or a text column `class`. Without either, and without labels from folders: the only text
    /// column, if at least half of its values repeat; it then stays a field as well. Columns of splits and
    /// licences are ignored.
    #[default]
    Guessed,
    /// `label`, or a text column `class`.
    Usual,
    /// The column of this name.
    Named(String),
    /// The text column of this name, which also stays a field.
    AlsoField(String),
}

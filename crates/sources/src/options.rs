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
    /// The kind of the samples. Default: detected from their contents.
    pub kind: Option<SourceKind>,
    /// Table of labels. Default: none.
    pub labels: Option<PathBuf>,
    /// Name of the column of `labels` that holds the keys. Default: the first of `key`, `path`,
    /// `file`, `filename`, `file_name`, `file_path`, `image`, `image_path`, `image_id` and `id`.
    pub key_column: Option<String>,
    /// Column of `labels` with the labels. Default: see [`LabelColumn`].
    pub label_column: LabelColumn,
    /// Columns of `labels` that are text, whatever their cells look like: in CSV `12` may be a
    /// number or a code. Default: none; the cells determine the type of a column.
    pub text_columns: Vec<String>,
    /// Folder of masks. Each mask is checked against its sample. Default: none.
    pub masks: Option<PathBuf>,
    /// True if first-level folders are classes. Default: for images, if every sample is in one and
    /// no table gives labels. If most samples are in several folders, a sample outside of them is
    /// bad input. `Some(true)` does the same for cubes, whose folders are often patients or flights
    /// instead.
    pub class_folders: Option<bool>,
    /// True if the first-level folders are splits, each its own dataset: for
    /// [`splits::enumerate`](crate::splits::enumerate), which sets it. Default: false.
    pub splits: bool,
    /// True if each folder with pictures is one sample, a clip, and the pictures are its frames:
    /// JPEGs, in the order of their names, with numbers in them compared as numbers. The key is the
    /// path of the folder. Default: false, each picture is a sample.
    pub clips: bool,
    /// True if symbolic links out of the source are followed. Circular links are bad input.
    /// Default: false, and all links out of the source are bad input.
    pub follow_links: bool,
    /// The policy for files that cannot be packed. Default: stop.
    pub on_bad_input: OnBadInput,
    /// Path to leave out if it is inside the source: the output. The label table and the folder of
    /// masks are always left out.
    pub exclude: Option<PathBuf>,
    /// Options for reading cubes.
    pub cubes: CubeOptions,
    /// A listing of this source, written by [`listing_file::write`](crate::listing_file::write),
    /// instead of a new scan. Default: none.
    pub listing: Option<PathBuf>,
    /// Stores of the source, the masks and the table of labels, for URLs. Default: none.
    pub files: Files,
    /// Set it to stop: [`enumerate`](crate::enumerate()) then returns [`SourceError::Cancelled`](crate::SourceError::Cancelled) once the current files
    /// are done. Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Column of a table of labels that holds the labels.
///
/// Texts become classes, and the column does not become a field. Other values become the field
/// `label`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// `label`, or a text column `class`. If there is neither, and folders give no labels: the only
    /// text column, if at least half of its values are repeated; it then stays a field as well.
    /// Columns of splits and licences are ignored.
    #[default]
    Guessed,
    /// `label`, or a text column `class`.
    Usual,
    /// The column of this name.
    Named(String),
    /// The text column of this name, which stays a field as well.
    AlsoField(String),
}

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
    /// Which column of `labels` holds the labels. Default: see [`LabelColumn`].
    pub label_column: LabelColumn,
    /// Columns of `labels` that are text, whatever their cells look like: in CSV `12` may be a number
    /// or a code. Default: none, the type of a column is told from its cells.
    pub text_columns: Vec<String>,
    /// Folder of masks. Each is looked at to check that it fits its sample. Default: none.
    pub masks: Option<PathBuf>,
    /// True if first-level folders are classes. Default: for images, if every sample is in one and
    /// no table gives labels. Where most are in several folders, one beside them is bad input.
    /// `Some(true)` does the same for cubes, whose folders are often patients or flights instead.
    pub class_folders: Option<bool>,
    /// True if the first-level folders are splits, each a dataset of its own: for
    /// [`splits::enumerate`](crate::splits::enumerate), which sets it. Default: false.
    pub splits: bool,
    /// True if each folder that holds pictures is one sample, a clip, of which they are the frames:
    /// JPEGs, in the order of their names, with numbers in them as numbers. The key is the path of
    /// the folder. Default: false, each picture is a sample.
    pub clips: bool,
    /// True if symbolic links are followed out of the source. Those that lead in a circle are bad
    /// input. Default: false, and such links are bad input too.
    pub follow_links: bool,
    /// The policy for files that cannot be packed. Default: stop.
    pub on_bad_input: OnBadInput,
    /// A path to leave out if it is inside the source: the output. The label table and the folder of
    /// masks are always left out.
    pub exclude: Option<PathBuf>,
    /// Options for reading cubes.
    pub cubes: CubeOptions,
    /// A listing of this source that [`listing_file::write`](crate::listing_file::write) wrote: nothing is listed anew. Default:
    /// none.
    pub listing: Option<PathBuf>,
    /// Stores that the source, the masks and the table of labels may be in, as URLs. Default: none.
    pub files: Files,
    /// Set it to stop: [`enumerate`](crate::enumerate()) then returns [`SourceError::Cancelled`](crate::SourceError::Cancelled) once the current files
    /// are done. Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Which column of a table of labels holds the labels.
///
/// Texts become classes, and the column no field of its own. Other values become the field `label`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// `label`, or a text column `class`. If there is neither, and folders give no labels, the only
    /// text column, if half of its values or more are repeated; it then stays a field as well. Columns
    /// of splits and licences are not looked at.
    #[default]
    Guessed,
    /// `label`, or a text column `class`.
    Usual,
    /// The one of this name.
    Named(String),
    /// The text column of this name, which stays a field as well.
    AlsoField(String),
}

//! Options for listing and reading a source.

use crate::bad::OnBadInput;
use crate::content::SourceKind;
use crate::cubes::CubeOptions;
use crate::files::Files;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options for listing and reading a source.
///
/// ```
/// use shardpack_sources::{SourceKind, SourceOptions};
/// let options = SourceOptions { kind: Some(SourceKind::Images), ..Default::default() };
/// assert!(options.labels.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// Kind of the samples. Default: detected from their content.
    pub kind: Option<SourceKind>,
    /// Label table. Default: none.
    pub labels: Option<PathBuf>,
    /// Key column of `labels`. Default: the first of `key`, `path`, `file`, `filename`, `file_name`,
    /// `file_path`, `image`, `image_path`, `image_id` and `id`.
    pub key_column: Option<String>,
    /// Label column of `labels`. Default: see [`LabelColumn`].
    pub label_column: LabelColumn,
    /// Columns of `labels` to read as text, even if their cells look like numbers. In CSV, for example, `12`
    /// may be a number or a code. Default: none, so the cells determine the type of each column.
    pub text_columns: Vec<String>,
    /// Folder of masks. Each mask is checked against its sample. Default: none.
    pub masks: Option<PathBuf>,
    /// True if first-level folders are classes. `None` uses them as classes only for images, if every sample is
    /// in such a folder and no table has labels. If most samples are in several folders, a sample outside the
    /// folders is bad input. `Some(true)` also uses the folders of cubes as classes. `None` does not, because
    /// folders of cubes are often patients or flights.
    pub class_folders: Option<bool>,
    /// True if first-level folders are splits, each of which becomes a separate dataset. Set by
    /// [`splits::enumerate`](crate::splits::enumerate). Default: false.
    pub splits: bool,
    /// True if each folder of pictures is one sample, called a clip. Its frames are JPEGs in the
    /// natural order of their names, and its key is the path of the folder. Default: false, which
    /// makes each picture a sample.
    pub clips: bool,
    /// Follow symbolic links that lead out of the source. Circular links are always bad input.
    /// Default: false, which makes all links out of the source bad input.
    pub follow_links: bool,
    /// Policy for files that cannot be packed. Default: stop.
    pub on_bad_input: OnBadInput,
    /// Path to leave out if it is inside the source, usually the output. The label table and the folder of
    /// masks are always left out.
    pub exclude: Option<PathBuf>,
    /// Options for reading cubes.
    pub cubes: CubeOptions,
    /// Listing of this source, as written by [`listing_file::write`](crate::listing_file::write), to use
    /// instead of scanning the source. Default: none.
    pub listing: Option<PathBuf>,
    /// Object stores, required if the source, the masks or the label table is given as a URL. Default: none.
    pub files: Files,
    /// Flag that stops [`enumerate`](crate::enumerate()) after the current files, with the error
    /// [`SourceError::Cancelled`](crate::SourceError::Cancelled). Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// The label column of a label table.
///
/// Text values become classes, and the column does not become a field. Other values become the field `label`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LabelColumn {
    /// The column `label`, or a text column `class`. If neither exists and folders provide no
    /// labels, the only text column is used if at least half of its values repeat. That column is
    /// also kept as a field. Columns of splits and licences are ignored.
    #[default]
    Guessed,
    /// The column `label`, or a text column `class`.
    Usual,
    /// The column with this name.
    Named(String),
    /// The text column with this name. It is also kept as a field.
    AlsoField(String),
}

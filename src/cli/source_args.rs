//! The arguments of `pack` and `report` on how a source is read.

use super::args::words;
use clap::Args;
use shardpack_pack::arguments::{SourceArguments, Word, parse_size, parse_spatial, spelled_size};
use shardpack_sources::SourceKind;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What holds if nothing else is said.
static DEFAULTS: LazyLock<SourceArguments> = LazyLock::new(SourceArguments::default);

// To clap, an `Option` would be an argument that may be missing.
pub(super) type When = Option<bool>;

/// What SRC holds, and how it is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sources")]
pub(crate) struct SourceArgs {
    /// What SRC holds [default: told from the contents of the files]
    #[arg(long, value_parser = words::<SourceKind>())]
    pub kind: Option<SourceKind>,
    /// CSV, JSON Lines or a list of JSON objects, a row for each sample. The column `key` (or `path`, `file`,
    /// `file_name`, `image`, `id`, …) holds its path below SRC, such as `cat/1.jpg`; extension and
    /// folders may be left out where one file alone has the name. A column `label` (or `class`) of
    /// text becomes the classes, or the one that --label-column names; every other becomes a field
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Name of the column of --labels that holds the paths
    #[arg(long, value_name = "NAME")]
    pub key_column: Option<String>,
    /// Name of the column of --labels that holds the labels: texts become classes [default: `label`,
    /// or `class`; else the only column of text whose values repeat, with a note]
    #[arg(long, value_name = "NAME")]
    pub label_column: Option<String>,
    /// Use the names of first-level folders as labels; `auto` does so for pictures that are all in
    /// such folders. Where most are in several, one beside them is bad input
    #[arg(long, value_parser = words::<When>(), default_value = DEFAULTS.class_folders.spelled(), value_name = "WHEN")]
    pub class_folders: When,
    /// Folder of label masks of pictures or cubes (.png, .npy, .tif, .mat). A mask belongs to the
    /// sample with the same file stem, and is stored without loss as the field `mask` [default:
    /// `a.mask.npy` beside `a.npy`, and `a.jpg.mask.npy` beside `a.jpg`, as `unpack` writes them]
    #[arg(long, value_name = "DIR")]
    pub masks: Option<PathBuf>,
    /// Follow symbolic links that lead out of SRC. Links that lead in a circle are bad input
    #[arg(long)]
    pub follow_links: bool,
    /// Variable to read from .mat, .npz and HDF5 files. Given several times: the first that a file
    /// has. `*` stands for any characters: `*_corrected` [default: the only 3-D array]
    #[arg(long, value_name = "NAME")]
    pub variable: Vec<String>,
    /// Height and width of the picture, for 2-D arrays of bands × pixels or pixels × bands in .mat
    /// files
    #[arg(long, value_name = "HxW", value_parser = parse_spatial)]
    pub spatial: Option<(u64, u64)>,
    /// Largest cube to accept, in decoded bytes
    #[arg(long, value_name = "SIZE", default_value = spelled_size(DEFAULTS.max_cube), value_parser = parse_size)]
    pub max_cube: u64,
}

impl SourceArgs {
    /// The same, as every front end says it.
    pub(super) fn arguments(&self) -> SourceArguments {
        SourceArguments {
            kind: self.kind,
            labels: self.labels.clone(),
            key_column: self.key_column.clone(),
            label_column: self.label_column.clone(),
            class_folders: self.class_folders,
            masks: self.masks.clone(),
            follow_links: self.follow_links,
            variable: self.variable.clone(),
            spatial: self.spatial,
            max_cube: self.max_cube,
        }
    }
}

//! Lists and reads the sources of datasets. A source is a folder or a single file.
//!
//! [`enumerate`] lists the samples in a fixed order, recognises pictures and cubes by their content, and finds
//! labels and masks. It reports everything that cannot be packed before the first byte is written. It reads
//! masks completely, but other files only at their headers and ends. It runs on the caller's rayon pool.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

pub mod bad;
mod cancel;
mod classes;
mod clips;
pub mod columns;
pub mod content;
pub mod cubes;
mod enumerate;
pub mod error;
pub mod files;
#[cfg(test)]
mod formats_tests;
mod label_notes;
mod labels;
pub mod listing;
pub mod listing_file;
mod masks;
pub mod notes;
pub mod options;
pub mod pictures;
mod recognise;
mod side_files;
pub mod splits;
mod strays;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod truth;
pub mod unpacked;
pub mod words;

pub use bad::{BadInput, BadInputs, BadKind, OnBadInput};
pub use columns::{ColumnValues, TableColumn, Texts};
pub use content::{SampleContent, SourceKind};
pub use enumerate::enumerate;
pub use error::{Result, SourceError};
pub use files::Files;
pub use files::listed::SideFile;
pub use listing::{LabelsFrom, Listing, SourceSample};
pub use notes::deep;
pub use options::{LabelColumn, SourceOptions};

#[cfg(test)]
#[path = "../../../tests/bounded/mod.rs"]
mod bounded;

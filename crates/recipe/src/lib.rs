//! The typed recipe of a dataset, which records where its samples come from and how they are stored.
//!
//! Every manifest and every shard contains a recipe as JSON (spec §3.2), which [`DatasetRecipe`] reads and writes.
//! Some entries are the option types themselves: [`PictureOptions`] for a field of pictures and [`ArrayRecipe`] for a
//! field of arrays. Entries from later versions are kept unchanged.
//!
//! Each option is declared once, in a table of [`Declared`], with its name, help text, check, and the setting that it
//! changes. [`StorageOptions::OPTIONS`] is the table of options that a recipe records. Front ends set an option by
//! its name and an [`OptionValue`].
#![forbid(unsafe_code)]

mod array;
mod dataset;
mod entry;
mod error;
mod kind;
mod option;
mod pictures;
mod share;
mod sizes;
mod storage;
#[cfg(test)]
mod tests;
mod value;
mod word;
mod words;

pub use array::ArrayRecipe;
pub use dataset::{DatasetRecipe, FolderRecipe, LabelTable, OfProgram, Order, ProgramRecipe, Variables};
pub use entry::Entry;
pub use error::ArgumentError;
pub use kind::{OnBadInput, SourceKind};
pub use option::{About, Declared, Takes, check, is_given, read, values_of, words};
pub use pictures::{Jpeg, PictureOptions};
pub use share::Share;
pub use sizes::{parse_size, spelled_size};
pub use storage::StorageOptions;
pub use value::{Given, OptionValue, parse_part, parse_spatial, parse_target, parse_threads};
pub use word::Word;

/// Default maximum size of a cube to read, and of a record or decoded field to accept: 4 GiB.
pub const MAX_BYTES: u64 = 4 << 30;

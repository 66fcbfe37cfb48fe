//! The typed recipe of a dataset: its origin, and the storage of its samples.
//!
//! Every manifest and every shard holds a recipe as JSON (spec §3.4). [`DatasetRecipe`] reads and writes it. Its parts
//! are the option types themselves: [`PictureOptions`] for a field of pictures, [`ArrayRecipe`] for a field of arrays.
//! Entries of later versions are kept.
//!
//! An option is declared once, in a table of [`Declared`]: its name, its help text, its check and its place.
//! [`StorageOptions::OPTIONS`] is the table of the options that a recipe records. Front ends set options by name, with
//! a [`OptionValue`].
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

/// Default limit of the largest cube to read, and of the largest record or decoded field to accept: 4 GiB.
pub const MAX_BYTES: u64 = 4 << 30;

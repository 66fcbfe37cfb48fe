//! The recipe of a dataset, typed: what made it, and how its samples are stored.
//!
//! Every manifest and every shard holds a recipe as JSON (spec §3.4). [`DatasetRecipe`] reads and writes
//! it. Its parts are the options themselves: [`PictureOptions`] for a field of pictures,
//! [`ArrayRecipe`] for a field of arrays. Entries that a later version added are kept.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod array;
mod dataset;
mod entry;
mod kind;
mod pictures;
mod share;
#[cfg(test)]
mod tests;
mod word;
mod words;

pub use array::ArrayRecipe;
pub use dataset::{DatasetRecipe, FolderRecipe, LabelTable, OfProgram, Order, ProgramRecipe, Variables};
pub use entry::Entry;
pub use kind::{OnBadInput, SourceKind};
pub use pictures::{Jpeg, PictureOptions};
pub use share::Share;
pub use word::Word;

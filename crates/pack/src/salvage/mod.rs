//! Copies the undamaged part of a damaged dataset into a new one.
//!
//! The first pass scans every shard for undamaged records and notes where they are ([`Survey`]). The second
//! pass copies them through the writer, so the result is checked like any packed dataset. The damaged files are
//! only read.

mod copy;
mod folder;
mod options;
mod restore;
mod survey;
#[cfg(test)]
mod tests;
mod watched;

pub use options::SalvageOptions;
pub use restore::{Restored, restore_manifest};
pub use survey::Survey;

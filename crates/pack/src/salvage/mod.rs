//! Salvage: copies everything undamaged in a damaged dataset into a new one.
//!
//! The first pass scans every shard for undamaged records and notes their places ([`Survey`]). The second
//! copies them through the writer, so the result is checked like any packed dataset. The damaged files are
//! only read.

mod copy;
mod folder;
mod options;
mod restore;
mod survey;
#[cfg(test)]
mod tests;

pub use options::SalvageOptions;
pub use restore::{Restored, restore_manifest};
pub use survey::Survey;

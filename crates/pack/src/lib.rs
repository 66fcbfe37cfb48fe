//! Datasets made and taken apart: what the `shardpack` command and the Python package do.
//!
//! - [`options`] are the options of all of it, by their names.
//! - [`pack`] makes a dataset of what [`shardpack_sources`] lists, [`collect`] of samples that a program hands over one at a
//!   time.
//! - [`grow`] adds samples to a dataset, and removes some, as its next generation.
//! - [`export`] writes files back, durably; [`salvage`] copies what is whole of a damaged dataset.
//!
//! Nothing here prints. What takes long polls a flag, so that it can be stopped.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

pub mod collect;
pub mod compare;
mod encode;
mod error;
pub mod export;
pub mod grow;
mod lock;
pub mod npy;
pub mod options;
pub mod pack;
pub mod report;
pub mod salvage;

pub use error::{Context, Error, Result};

#[cfg(test)]
#[path = "../../../tests/bounded/mod.rs"]
mod bounded;

#[cfg(test)]
#[path = "../../sources/src/testing/files.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of `shardpack-sources` use the rest")]
mod testing;

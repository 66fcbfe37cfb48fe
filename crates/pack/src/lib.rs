//! Makes and unpacks datasets, for the `shardpack` command and the Python package.
//!
//! - [`options`] declares the options of all operations, by name.
//! - [`pack`] makes a dataset from a listing of [`shardpack_sources`]. [`collect`] makes a dataset from samples
//!   that a program adds one at a time.
//! - [`grow`] adds samples to a dataset or removes them, by creating its next generation.
//! - [`export`] writes values back to files, durably. [`salvage`] copies the undamaged part of a damaged
//!   dataset.
//!
//! This crate never prints. Long operations regularly check a flag that cancels them.
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
mod pool;
pub mod report;
pub mod salvage;

pub use error::{Context, Error, Result};
pub use shardpack_base::peak_rss_bytes;

#[cfg(test)]
#[path = "../../../tests/bounded/mod.rs"]
mod bounded;

#[cfg(test)]
#[path = "../../sources/src/testing/files.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of `shardpack-sources` use the rest")]
mod testing;

//! Datasets made and taken apart: what the `shardpack` command and the Python package do.
//!
//! - [`arguments`] are the options of all of it, by their names.
//! - [`sources`] lists the files of a folder: pictures, cubes, labels, masks.
//! - [`pack`] makes a dataset of them, [`collect`] of samples that a program hands over one at a
//!   time.
//! - [`grow`] adds samples to a dataset, and removes some, as its next generation.
//! - [`export`] writes files back, durably; [`salvage`] copies what is whole of a damaged dataset.
//!
//! Nothing here prints. What takes long polls a flag, so that it can be stopped.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub mod arguments;
pub mod collect;
pub mod compare;
mod elements;
pub mod export;
pub mod grow;
pub mod npy;
pub mod pack;
mod regular;
pub mod report;
pub mod salvage;
pub mod sources;

#[cfg(test)]
#[path = "../../../tests/bounded/mod.rs"]
mod bounded;

//! The shardpack command as a library: sources, packing, collecting, export, reports and the
//! command line itself.
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

pub mod cli;
pub mod collect;
pub mod export;
pub mod npy;
pub mod pack;
pub mod place;
mod regular;
pub mod report;
pub mod salvage;
pub mod sources;

#[cfg(test)]
#[path = "../tests/bounded/mod.rs"]
mod bounded;

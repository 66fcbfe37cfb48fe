//! The `shardpack` command as a library: arguments, progress, printing. The Python package runs it,
//! too.
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
pub mod explain;
pub mod place;

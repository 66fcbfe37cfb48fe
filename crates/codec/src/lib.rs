//! Bytes to arrays and back on the CPU.
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

mod array;
mod picture;

pub use array::Array;
pub use picture::PictureCheck;

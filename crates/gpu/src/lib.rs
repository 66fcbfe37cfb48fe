//! Decodes on a GPU what shardpack stores.
//!
//! Kernels of our own, in CUDA C; their PTX is in the crate, and the driver is found at run time,
//! so that a build needs no CUDA. Results are those of the host's decoders in `shardpack-array`, to
//! the bit: every kernel is compiled for the CPU too, and compared there (`shardpack-gpu-play`).
#![deny(unsafe_code)]
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

mod config;
pub mod cubes;
pub mod driver;
mod gather;
mod mix;
pub mod pictures;
mod stage;

pub use stage::{CudaStage, DryStage};

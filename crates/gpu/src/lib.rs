//! Decodes shardpack datasets on a GPU.
//!
//! The crate has its own kernels in CUDA C. It contains their PTX and finds the driver at run time, so builds need no
//! CUDA. Results are bit-identical to the host's decoders in `shardpack-array` and `shardpack-jpeg`: tests compile
//! every kernel for the CPU and compare the results (`shardpack-gpu-play`).
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::cast_possible_truncation))]

mod config;
mod cubes;
mod driver;
mod gather;
mod mix;
mod pictures;
mod stage;

pub use driver::{Device, GpuError, Properties};
pub use stage::{CudaStage, DryStage};

/// Slots that the caller fills without a loader, and their staging memory. For this crate's tests and measurements.
#[doc(hidden)]
pub mod kernels {
    pub use crate::driver::{Arena, ArenaPart, Block, Heap, Loan, LoanPart};
    pub use crate::stage::CudaSlot;
}

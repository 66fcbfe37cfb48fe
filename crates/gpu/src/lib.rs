//! Decodes shardpack datasets on a GPU.
//!
//! The crate has its own kernels in CUDA C. It contains their PTX and finds the driver at run time, so that a
//! build needs no CUDA. Results equal the results of the host's decoders in `shardpack-array`, to the bit:
//! every kernel is also compiled for the CPU, and compared there (`shardpack-gpu-play`).
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

/// The kernels and the driver without a loader: for this crate's tests and measurements on a device.
#[doc(hidden)]
pub mod kernels {
    pub use crate::cubes::{CubeBatch, CubeKernels, CubeStager, CubeWork, DecodedArray, Fault, Payload};
    pub use crate::driver::{
        Arena, ArenaPart, Block, Device, Event, GpuError, Heap, Launch, Loan, LoanPart, Memory, Module, Params, Pinned,
        Stream,
    };
    pub use crate::pictures::{
        CONFIG, Dtype, KERNELS, Output, PictureBatch, PictureDecoder, PictureRow, Reason, Regions, Scaling, Staging,
        StagingOptions, Timing,
    };
}

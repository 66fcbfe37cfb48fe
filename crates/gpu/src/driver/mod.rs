//! The CUDA driver, found at run time: the fence around it, with a safe API.
//!
//! A build needs no CUDA, and a machine without a GPU is told so by [`Device::open`]. What is
//! copied or computed happens later, in the order of a [`Stream`]; host memory that a copy uses is
//! not handed out before the copy is done, and memory is not freed while the device may still use
//! it.
//!
//! Kernels are this crate's own, and only it can launch them. They check what they read where it
//! could be damaged, and the numbers that they go by are checked by the host: that is why launching
//! one is safe for the host, whatever the bytes.
//!
//! A call makes the device's context that of the calling thread, and the former one again before it
//! returns.

mod arena;
mod block;
mod copy;
mod device;
mod error;
mod launch;
mod loan;
mod memory;
mod module;
mod stream;

pub use arena::{Arena, ArenaPart};
pub use block::{Block, Heap};
pub use device::{Device, Properties};
pub use error::GpuError;
pub use launch::{Launch, Params};
pub use loan::{Loan, LoanPart};
pub use memory::{Memory, Pinned};
pub use module::Module;
pub use stream::{Event, Stream};

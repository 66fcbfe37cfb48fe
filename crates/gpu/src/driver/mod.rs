//! A safe API around the CUDA driver, which is found at run time.
//!
//! Building needs no CUDA. Without a GPU, [`Device::open`] returns an error. Copies and kernels run later, in
//! the order of a [`Stream`]. Host memory that a copy uses is not handed out before the copy is done, and
//! memory is not freed while the device may still use it.
//!
//! Only this crate can launch its kernels. The kernels check input that may be damaged, and the host checks
//! the numbers in their parameters and tables. Launching a kernel is therefore safe for the host with any
//! input bytes.
//!
//! Each call makes the device's context current in the calling thread, and restores the previously current context
//! before it returns.

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
pub(crate) use launch::{Launch, Params};
pub use loan::{Loan, LoanPart};
pub(crate) use memory::{Memory, Pinned};
pub(crate) use module::Module;
pub(crate) use stream::{Event, Stream};

//! The loader's stage: decodes batches on a CUDA device.
//!
//! A slot has one pinned block of staging memory. After a thread has checked a record, it claims a part of this block
//! and copies the bytes that the device needs into it ([`Staging`](staging::Staging)). For a large array, several
//! threads each read a part directly into the staging memory, before the array is checked
//! ([`room_for`](room::room_for)). No thread waits for another. When all rows are staged, one thread writes the
//! tables after them ([`Assembled`](assembled::Assembled)). It then submits one upload, the kernels and a download of
//! the status words to the slot's stream ([`CudaSlot`](slot::CudaSlot)). A thread of the stage waits for each batch,
//! reads its status words and passes the batch to the loader ([`Completions`](completion::Completions)).
//!
//! Several rows of a batch may use parts of the same array. Each block is copied, uploaded and decoded only for the
//! first row that needs it, and all rows read it ([`Sharing`](sharing::Sharing)). An array with many rows stays on
//! the device until the last of them is decoded ([`ScenePool`](scenes::ScenePool)).
//!
//! Kept values are copied to the device once ([`Store`](store::Store)). A row then only names a value, and a kernel
//! copies the needed bytes of the value to the slot.
//!
//! Only `slot` and `completion` call the driver. Everything else is tested with kernels that are emulated on the CPU.

mod assembled;
mod completion;
mod cuda;
mod decoding;
mod dry;
mod kernels;
mod measure;
mod noted;
mod open_device;
mod prepared_row;
mod room;
mod scenes;
mod sharing;
mod slot;
mod staging;
mod store;
mod stored_array;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(test)]
pub(crate) use assembled::Assembled;
pub use cuda::CudaStage;
pub use dry::DryStage;
pub use slot::CudaSlot;
#[cfg(test)]
pub(crate) use staging::Staging;

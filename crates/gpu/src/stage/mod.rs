//! The loader's stage: batches are decoded on a CUDA device.
//!
//! A slot has staging memory, one pinned block. Threads that have checked a record claim parts of
//! it and copy what the device needs ([`Fill`](fill::Fill)); large arrays they read there, each
//! thread its part, before they are checked ([`room_for`](room::room_for)). Nobody waits for
//! anybody. Once all rows are there, one thread writes the tables behind them
//! ([`Assembled`](assembled::Assembled)), and puts one upload, the kernels and a download of the
//! status words into the slot's stream ([`CudaSlot`](slot::CudaSlot)). A thread of the stage waits
//! for the end of each batch, looks at the status words and hands it to the loader
//! ([`Completions`](completion::Completions)).
//!
//! Several rows of a batch may take parts of one array: a block that several of them need is copied,
//! uploaded and decoded for the first of them, and read by all ([`Sharing`](sharing::Sharing)). An array
//! of which many rows come lies on the device until the last of them
//! ([`ScenePool`](scenes::ScenePool)).
//!
//! Values that stay on the device are put there once ([`Store`](store::Store)); a row then names one,
//! and a kernel copies what it needs of it to the slot.
//!
//! What is of the driver stands in `slot` and `completion`; all else is tested with the kernels
//! played on the CPU.

mod assembled;
mod completion;
mod cuda;
mod dry;
mod fill;
mod kernels;
mod noted;
mod open_device;
mod prepared_row;
mod room;
mod scenes;
mod sharing;
mod slot;
mod store;
#[cfg(test)]
mod tests;

pub use cuda::CudaStage;
pub use dry::DryStage;

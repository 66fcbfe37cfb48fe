//! Tests the kernels, emulated on the CPU, against the decoder of the host.

mod damage;
pub(crate) mod generate;
mod harness;
mod lz4;
mod moved;
mod strategies;
mod values;
mod volumes;
mod zstd;

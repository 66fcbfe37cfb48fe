//! Compares the kernels, which are played on the CPU, with the decoder on the host.

mod damage;
pub(crate) mod generate;
mod harness;
mod lz4;
mod moved;
mod strategies;
mod values;
mod volumes;
mod zstd;

//! Compares the kernels, played on the CPU, with the host's decoder.

mod damage;
pub(crate) mod generate;
mod harness;
mod lz4;
mod strategies;
mod values;
mod zstd;

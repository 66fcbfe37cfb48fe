//! The kernels, played on the CPU, against the host's decoder.

mod damage;
pub(crate) mod generate;
mod harness;
mod lz4;
mod strategies;
mod values;
mod zstd;

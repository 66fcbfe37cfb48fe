//! The kernels, played on the CPU, against the host's decoder.

mod damage;
pub(crate) mod generate;
mod harness;
mod strategies;
mod values;
